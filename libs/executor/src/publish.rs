//! Publication: labels and DNS follow the object, on command and whenever it changes.

use std::collections::BTreeMap;

use bloodraven_failover::claim::{self, Claim};
use bloodraven_failover::roles::{self, PublishedRole};
use bloodraven_ports::{Clock, GroupStore, PodRole, Publication};
use bloodraven_types::command::PublishAuthority;
use bloodraven_types::fact::{Fact, Published};
use bloodraven_types::{Group, SiteName, StepState};

use crate::hands::{Order, Refused};

/// What a level-triggered pass changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// How many pods got another role label.
    pub pods: u32,
    /// The site that the DNS record was moved to, when it was moved.
    pub dns: Option<SiteName>,
    /// What did not work; the next pass tries again.
    pub errors: Vec<String>,
}

/// Publishes the promoted site of a run, labels and DNS in parallel, and says what became of each (PF-PUB-01, PF-PUB-02).
///
/// # Errors
/// [`Refused`] when the object no longer shows the promotion as recorded.
pub async fn publish<S: GroupStore, P: Publication, C: Clock>(
    store: &S,
    publication: &P,
    clock: &C,
    order: &Order<PublishAuthority>,
) -> Result<Fact, Refused> {
    let group = store.get(&order.about.group).await.map_err(Refused::Gone)?;
    claim::check_live(&group, &order.about, None, clock.now())?;
    if roles::published_primary(&group) != Some(&order.command.target) {
        return Err(Refused::Superseded);
    }
    let target = &order.command.target;
    let has_record = group.spec.dns.is_some() && group.site(target).is_some_and(|site| site.lb_ip.is_some());
    let labels = set_labels(publication, &group);
    let dns = async {
        if has_record {
            Some(publication.set_dns(&group, target).await)
        } else {
            None
        }
    };
    let (labels, dns) = futures::join!(labels, dns);
    let (state, dns_error) = match dns {
        None => (None, None),
        Some(Ok(_)) => (Some(StepState::Applied), None),
        Some(Err(error)) => (Some(StepState::Failed), Some(error.to_string())),
    };
    Ok(Fact::Published(Published {
        dns: state,
        dns_error,
        label_error: labels.err().map(|error| error.to_string()),
        attempt_time: clock.now(),
    }))
}

/// Makes labels and DNS what the object says. DNS belongs to the claim while a run holds it (PF-CLM-02), and an unsettled
/// authority leaves the record alone.
pub async fn reconcile<P: Publication>(publication: &P, group: &Group) -> Reconciled {
    let mut reconciled = Reconciled::default();
    match set_labels(publication, group).await {
        Ok(pods) => reconciled.pods = pods,
        Err(error) => reconciled.errors.push(error.to_string()),
    }
    if !matches!(claim::holder(group), Claim::Free) || group.spec.dns.is_none() {
        return reconciled;
    }
    let Some(primary) = roles::published_primary(group) else {
        return reconciled;
    };
    if group.site(primary).is_none_or(|site| site.lb_ip.is_none()) {
        return reconciled;
    }
    match publication.set_dns(group, primary).await {
        Ok(true) => reconciled.dns = Some(primary.clone()),
        Ok(false) => {}
        Err(error) => reconciled.errors.push(error.to_string()),
    }
    reconciled
}

async fn set_labels<P: Publication>(publication: &P, group: &Group) -> Result<u32, bloodraven_ports::PublicationError> {
    let roles: BTreeMap<SiteName, PodRole> = roles::published_roles(group)
        .into_iter()
        .map(|(site, role)| {
            let role = match role {
                PublishedRole::Primary => PodRole::Primary,
                PublishedRole::Replica => PodRole::Replica,
                PublishedRole::Fenced => PodRole::Fenced,
            };
            (site, role)
        })
        .collect();
    if roles.is_empty() {
        Ok(0)
    } else {
        publication.set_roles(group, &roles).await
    }
}
