//! What happens beside a run: the probers' observations, and the labels and DNS that follow the object.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_executor::prober::SiteProber;
use bloodraven_executor::{probe, publish};
use bloodraven_failover::claim::{self, Claim};
use bloodraven_failover::{history, topology};
use bloodraven_ports::{Clock, GroupStore, SitesUpdate};
use bloodraven_types::{SiteName, SiteState};

use super::Role;
use crate::bus::{Body, Inbox};

/// Observations that nothing decides on are written this often.
const REFRESH: Duration = Duration::from_secs(10);

/// Looks at every site, at its interval, and writes what changed.
pub(super) async fn observe(role: Role) {
    let hands = role.world.hands();
    let first = role.world.group();
    let mut probers: BTreeMap<SiteName, SiteProber> = first
        .spec
        .sites
        .iter()
        .map(|site| (site.name.clone(), SiteProber::new(site)))
        .collect();
    let mut written_at = Duration::ZERO;
    loop {
        let group = role.world.group();
        role.world.time.sleep(group.spec.poll_interval.get()).await;
        let answers = probe::sites(&hands, &group, &[]).await;
        let record = history::failover_record(&group).ok().flatten();
        for site in &group.spec.sites {
            let (Some(prober), Some(answer)) = (probers.get_mut(&site.name), answers.get(&site.name)) else {
                continue;
            };
            let mut spec = group.spec.clone();
            if record.as_ref().is_some_and(|record| record.target == site.name) {
                spec.recovery_threshold = 1;
            }
            prober.look(&spec, site, answer, hands.clock.now());
        }
        let sites: Vec<_> = probers.values().map(|prober| prober.status().clone()).collect();
        if sites.iter().any(|site| site.state == SiteState::Unknown) {
            continue;
        }
        let update = SitesUpdate {
            active_site: topology::active_site(&group, &sites),
            sites,
        };
        let fresh = role.world.time.now() < written_at + REFRESH;
        let in_flight = matches!(claim::holder(&group), Claim::Planned { .. });
        if fresh && (in_flight || update.active_site == group.status.active_site) {
            continue;
        }
        written_at = role.world.time.now();
        // What cannot be written now is written at the next look.
        let _ = hands.store.write_sites(&group.key, &group.uid, &update).await;
    }
}

/// Keeps labels and DNS what the object says.
pub(super) async fn label(role: Role, inbox: Inbox) {
    let publication = role.world.publication();
    loop {
        if let Body::Changed(group) = inbox.next().await.body {
            publish::reconcile(&publication, &group).await;
        }
    }
}
