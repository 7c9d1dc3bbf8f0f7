//! One group: the looks of its probers, together, as `status.sites` and `status.activeSite`.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_executor::prober::SiteProber;
use bloodraven_failover::claim::{self, Claim};
use bloodraven_failover::{history, topology};
use bloodraven_ports::{Clock, GroupStore, SitesUpdate, StoreError};
use bloodraven_service::Tasks;
use bloodraven_types::group::SiteStatus;
use bloodraven_types::words::ConvergenceState;
use bloodraven_types::{Group, SiteName, SiteState};
use bloodraven_worker::DatabaseHands;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::report;
use crate::site::{self, Look};

/// Sets and lags are written this often when nothing else changed: readers of the status want them roughly.
const REFRESH: Duration = Duration::from_secs(10);
const LOOKS: usize = 64;

/// Begins to probe a group. The tasks end with the token, or when the group's sender is dropped.
pub(crate) fn spawn(tasks: &Tasks, hands: DatabaseHands, group: watch::Receiver<Group>, cancel: CancellationToken) {
    let (sender, looks) = mpsc::channel(LOOKS);
    let first = group.borrow().clone();
    for site in &first.spec.sites {
        let prober = site::probe_site(
            hands.clone(),
            site.clone(),
            group.clone(),
            sender.clone(),
            cancel.clone(),
        );
        tasks.spawn(format!("prober {} {}", first.key, site.name), prober);
    }
    let name = format!("topology {}", first.key);
    tasks.spawn(name, Topology::new(hands, group, first).run(looks, cancel));
}

struct Topology {
    hands: DatabaseHands,
    group: watch::Receiver<Group>,
    probers: BTreeMap<SiteName, SiteProber>,
    converged: BTreeMap<SiteName, bloodraven_executor::converge::Converged>,
    written: Option<SitesUpdate>,
    written_at: Duration,
}

impl Topology {
    fn new(hands: DatabaseHands, group: watch::Receiver<Group>, first: Group) -> Self {
        let probers = first
            .spec
            .sites
            .iter()
            .map(|site| (site.name.clone(), SiteProber::new(site)))
            .collect();
        Self {
            hands,
            group,
            probers,
            converged: BTreeMap::new(),
            written: None,
            written_at: Duration::ZERO,
        }
    }

    async fn run(mut self, mut looks: mpsc::Receiver<Look>, cancel: CancellationToken) {
        while let Some(Some(look)) = cancel.run_until_cancelled(looks.recv()).await {
            if self.group.has_changed().is_err() {
                break;
            }
            self.take_in(look);
            self.write().await;
        }
    }

    fn take_in(&mut self, look: Look) {
        let group = self.group.borrow().clone();
        let Some(site) = group.site(&look.site) else { return };
        let Some(prober) = self.probers.get_mut(&look.site) else {
            return;
        };
        let before = prober.status().state;
        let mut spec = group.spec.clone();
        // A site that the durable failover record names is expected to be writable: one look is enough.
        if history::failover_record(&group)
            .ok()
            .flatten()
            .is_some_and(|record| record.target == look.site)
        {
            spec.recovery_threshold = 1;
        }
        if prober.look(&spec, site, &look.answer, self.hands.clock.now()) {
            let after = prober.status().state;
            tracing::info!(group = %group.key, site = %look.site, from = %before, to = %after, "state transition");
            report::transition(&group.key, &look.site, before, after);
        }
        report::site(&group.key, site.role, prober.status());
        match look.converged {
            Some(converged) => {
                self.converged.insert(look.site, converged);
            }
            None if look.answer.is_err() => {
                self.converged.remove(&look.site);
            }
            None => {}
        }
    }

    /// Writes when something that decisions read has changed, and every so often for what people read.
    async fn write(&mut self) {
        let group = self.group.borrow().clone();
        if self
            .probers
            .values()
            .any(|prober| prober.status().state == SiteState::Unknown)
        {
            return;
        }
        let update = self.update(&group);
        let writable = update
            .sites
            .iter()
            .filter(|site| site.state == SiteState::Writable)
            .count();
        report::writable(&group.key, writable);
        let now = self.hands.clock.monotonic();
        let fresh = now.saturating_sub(self.written_at) < REFRESH;
        // A planned run reads the servers itself. A write of ours now would only be a conflict on its write-outage path.
        let run_in_flight = matches!(claim::holder(&group), Claim::Planned { .. });
        if run_in_flight && fresh {
            return;
        }
        let differs_on_object = group.status.active_site != update.active_site;
        let same = self
            .written
            .as_ref()
            .is_some_and(|written| material(written) == material(&update));
        if self.written.as_ref() == Some(&update) || (same && fresh && !differs_on_object) {
            return;
        }
        match self.hands.store.write_sites(&group.key, &group.uid, &update).await {
            Ok(()) => {
                if self.written.as_ref().map(|written| &written.active_site) != Some(&update.active_site) {
                    let active = update.active_site.as_ref().map_or("none", |site| site.as_str());
                    tracing::info!(group = %group.key, active, "the active site is known");
                }
                self.written = Some(update);
                self.written_at = now;
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(group = %group.key, %error, "the sites' status was not written; it is tried again")
            }
        }
    }

    fn update(&self, group: &Group) -> SitesUpdate {
        let sites: Vec<SiteStatus> = group
            .spec
            .sites
            .iter()
            .filter_map(|site| {
                let mut status = self.probers.get(&site.name)?.status().clone();
                self.add_convergence(&mut status, &site.name);
                Some(status)
            })
            .collect();
        SitesUpdate {
            active_site: topology::active_site(group, &sites),
            sites,
        }
    }

    fn add_convergence(&self, status: &mut SiteStatus, site: &SiteName) {
        let Some(converged) = self.converged.get(site).filter(|_| status.state == SiteState::ReadOnly) else {
            return;
        };
        status.source_convergence_state = Some(converged.state);
        status.source_convergence_reason = Some(converged.reason);
        if converged.state == ConvergenceState::Blocked {
            status.divergent_gtid = converged.divergent.as_ref().map(ToString::to_string);
            let count = converged
                .divergent
                .as_ref()
                .map(bloodraven_executor::converge::transactions);
            status.divergent_transaction_count = count;
        }
        if status.message.is_none() {
            status.message.clone_from(&converged.detail);
        }
    }
}

/// What decisions read: everything but the sets, the lags and the times.
fn material(update: &SitesUpdate) -> SitesUpdate {
    let mut material = update.clone();
    for site in &mut material.sites {
        site.last_seen = None;
        site.gtid_executed = None;
        site.seconds_behind_source = None;
        site.message = None;
    }
    material
}
