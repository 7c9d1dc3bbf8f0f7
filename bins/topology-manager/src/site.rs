//! One site's prober: its own interval and its own sessions, so that no site's silence slows another's detection (report B38).

use std::time::Duration;

use bloodraven_executor::converge::{self, Converged};
use bloodraven_executor::probe;
use bloodraven_failover::claim::{self, Claim};
use bloodraven_ports::{Clock, ServerObservation};
use bloodraven_types::group::SiteSpec;
use bloodraven_types::{Group, SiteName};
use bloodraven_worker::DatabaseHands;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::report;

/// One look at a site, and what became of its replication.
pub(crate) struct Look {
    pub(crate) site: SiteName,
    pub(crate) answer: Result<ServerObservation, String>,
    pub(crate) converged: Option<Converged>,
}

/// Looks at the site until cancelled.
pub(crate) async fn probe_site(
    hands: DatabaseHands,
    site: SiteSpec,
    mut group: watch::Receiver<Group>,
    looks: mpsc::Sender<Look>,
    cancel: CancellationToken,
) {
    let interval = group.borrow().spec.poll_interval.get().max(Duration::from_millis(100));
    let mut timer = tokio::time::interval(interval);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut record = group.borrow().status.last_failover.clone();
    loop {
        // A recorded failover is looked at without waiting for the next poll: followers and the active site are known sooner.
        let next = async {
            tokio::select! {
                _ = timer.tick() => true,
                changed = failover_recorded(&mut group, &mut record) => changed,
            }
        };
        match cancel.run_until_cancelled(next).await {
            Some(true) => {}
            Some(false) | None => break,
        }
        let began = hands.clock.monotonic();
        let answer = probe::one(&hands, &site).await;
        let known = group.borrow().clone();
        report::polled(&known.key, &site.name, hands.clock.monotonic().saturating_sub(began));
        let converged = match &answer {
            Ok(_) => follow(&hands, &known, &site).await,
            Err(_) => None,
        };
        if looks
            .send(Look {
                site: site.name.clone(),
                answer,
                converged,
            })
            .await
            .is_err()
        {
            break;
        }
    }
}

/// Whether there is still a group to look for; waits for another failover record.
async fn failover_recorded(
    group: &mut watch::Receiver<Group>,
    record: &mut Option<bloodraven_types::group::FailoverRecord>,
) -> bool {
    loop {
        if group.changed().await.is_err() {
            return false;
        }
        let now = group.borrow_and_update().status.last_failover.clone();
        if now != *record {
            *record = now;
            return true;
        }
    }
}

/// Keeps a follower at the primary while nobody holds the claim (PF-CLM-02, PF-TOP-04).
async fn follow(hands: &DatabaseHands, group: &Group, site: &SiteSpec) -> Option<Converged> {
    if claim::holder(group) != Claim::Free {
        return None;
    }
    let primary = group
        .site(group.status.active_site.as_ref()?)
        .filter(|primary| primary.name != site.name)?;
    converge::converge(hands, &group.key, primary, site).await
}
