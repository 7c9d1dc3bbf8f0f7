//! Which role each site's pods are to carry: a pure function of the object, so that publication is level-triggered.

use std::collections::BTreeMap;

use bloodraven_types::{Group, Outcome, Phase, SiteName, SiteRole, SiteState, Timestamp};

use crate::planned::PromotionStage;
use crate::planned::promotion_stage;
use crate::{claim, history};

/// A role on the wire to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedRole {
    /// Takes writes.
    Primary,
    /// Serves reads.
    Replica,
    /// Neither: the role is moving.
    Fenced,
}

/// The site that clients are to be sent to; none while the role is moving or unknown.
pub fn published_primary(group: &Group) -> Option<&SiteName> {
    if let Some(run) = group.run() {
        let moving = match run.phase {
            Phase::Fencing
            | Phase::Draining
            | Phase::WaitingForLag
            | Phase::WaitingForDragonflySync
            | Phase::PromotingDragonfly
            | Phase::RollingBack => true,
            Phase::Promoting => match promotion_stage(group, run) {
                PromotionStage::Intended => true,
                PromotionStage::Recorded { .. } | PromotionStage::Released { .. } => return Some(&run.target_site),
            },
            Phase::Publishing => return Some(&run.target_site),
            Phase::Admitting | Phase::Deferred | Phase::Succeeded | Phase::Failed => false,
        };
        if moving {
            return None;
        }
    }
    proven_since_observed(group).or(group.status.active_site.as_ref())
}

/// The site that the object itself proves to take writes, where nobody has looked at it since: the end of a run is on the
/// object before the observation of it, which until then names the site before. Without this, clients and the DNS record would
/// be sent back to a fenced site after each failover, for as long as the topology manager needs to look (PF-PUB-01).
fn proven_since_observed(group: &Group) -> Option<&SiteName> {
    let promoted = history::failover_record(group).ok().flatten();
    let promoted = promoted.map(|record| (record.time, record.target));
    let (time, site) = promoted
        .into_iter()
        .chain(given_back(group))
        .max_by_key(|(time, _)| *time)?;
    let known = group.status.sites.iter().find(|known| known.name == site.as_str());
    if known.and_then(|known| known.last_seen).is_some_and(|seen| seen > time) {
        return None;
    }
    let spec = group
        .site(&site)
        .filter(|spec| spec.role == SiteRole::PrimaryCandidate)?;
    Some(&spec.name)
}

/// The source that a rollback has proven to take writes again, unless another site is known to take them as well.
fn given_back(group: &Group) -> Option<(Timestamp, SiteName)> {
    let run = group.run()?;
    let source = run.source_site.clone()?;
    let result = run.result.as_ref()?;
    let others = group.status.sites.iter().filter(|known| known.name != source.as_str());
    let alone = others.into_iter().all(|known| known.state != SiteState::Writable);
    (result.outcome == Outcome::RolledBack && alone).then_some((result.completion_time, source))
}

/// The role of every site's pods.
///
/// While a run holds the claim its source is `Fenced` from the fence intent on, so that the `-primary` Service sheds it
/// before the drain (PF-FEN-02), and the target stays what it was until the promotion is recorded.
pub fn published_roles(group: &Group) -> BTreeMap<SiteName, PublishedRole> {
    let primary = published_primary(group);
    let source = match claim::holder(group) {
        claim::Claim::Planned { .. } => group.run().and_then(|run| run.source_site.as_ref()),
        claim::Claim::Free | claim::Claim::Held { .. } | claim::Claim::Other { .. } => None,
    };
    let settled = primary.is_some() || source.is_some();
    group
        .spec
        .sites
        .iter()
        .filter(|_| settled)
        .map(|site| {
            let role = if primary == Some(&site.name) {
                PublishedRole::Primary
            } else if source == Some(&site.name) {
                PublishedRole::Fenced
            } else {
                match site.role {
                    SiteRole::PrimaryCandidate | SiteRole::DisasterRecovery | SiteRole::ReadOnly => {
                        PublishedRole::Replica
                    }
                }
            };
            (site.name.clone(), role)
        })
        .collect()
}
