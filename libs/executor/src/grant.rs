//! The claim's probes: every site live, again and again, until they pass or the record moves on.

use std::time::Duration;

use bloodraven_failover::claim;
use bloodraven_failover::judge::{self, Grant};
use bloodraven_ports::{Bus, Clock, Database, DatabaseSession, GroupStore, ServerAddress};
use bloodraven_types::command::ProbeGrant;
use bloodraven_types::fact::{Fact, Waiting};
use bloodraven_types::{Group, WaitReason};

use crate::hands::{Hands, Order, Refused, Superseded};
use crate::probe;

/// Between two looks while the claim is not granted.
const PAUSE: Duration = Duration::from_millis(250);
/// A statement that has written for this long, or a lock held for this long, would hold a fence up (X-PRE-01).
const WOULD_BLOCK_AFTER: Duration = Duration::from_secs(1);

/// Probes until the claim can be granted (PF-ADM-11). Each new reason to wait is told once, and the grant ends it.
///
/// # Errors
/// [`Refused`] when the record no longer asks for it.
pub async fn probe_grant<D: Database, S: GroupStore, C: Clock, B: Bus>(
    hands: &Hands<D, S, C>,
    bus: &B,
    order: &Order<ProbeGrant>,
    superseded: &Superseded,
) -> Result<Fact, Refused> {
    let group = hands.store.get(&order.about.group).await.map_err(Refused::Gone)?;
    claim::check_live(&group, &order.about, Some(order.command.deadline), hands.clock.now())?;
    let recorded = group
        .run()
        .map(|run| (run.admission.wait_reason, run.admission.wait_detail.clone()));
    let mut told = recorded.and_then(|(reason, detail)| {
        Some(Waiting {
            reason: reason?,
            detail: detail?,
        })
    });
    loop {
        match look(hands, order, &group).await {
            Grant::Granted(granted) => return Ok(Fact::Granted(granted)),
            Grant::Waiting(waiting) => {
                if told.as_ref() != Some(&waiting) {
                    if let Err(error) = bus.tell(&order.about, Fact::Waiting(waiting.clone())).await {
                        tracing::debug!(%error, "the wait was not told");
                    }
                    told = Some(waiting);
                }
            }
        }
        if superseded.is_set() || hands.clock.now() >= order.command.deadline {
            return Err(Refused::Superseded);
        }
        hands.clock.sleep(PAUSE).await;
    }
}

/// One look: the sites' answers, then what would hold a fence up on the source.
async fn look<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<ProbeGrant>,
    group: &Group,
) -> Grant {
    let answers = probe::sites(hands, group, &[]).await;
    let granted = match judge::grant(group, &order.command.target, &answers) {
        Grant::Granted(granted) => granted,
        waiting @ Grant::Waiting(_) => return waiting,
    };
    let Some(source) = group.site(&granted.source) else {
        return Grant::Granted(granted);
    };
    match blockers(hands, &ServerAddress::administrative(source)).await {
        Ok(None) => Grant::Granted(granted),
        Ok(Some(detail)) => Grant::Waiting(Waiting {
            reason: WaitReason::FenceWouldBlock,
            detail,
        }),
        Err(detail) => Grant::Waiting(Waiting {
            reason: WaitReason::PeerUnreadable,
            detail,
        }),
    }
}

/// What would hold a fence up, by session (report B16). The text is stable while the same sessions block.
async fn blockers<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    address: &ServerAddress,
) -> Result<Option<String>, String> {
    let mut session = hands
        .sessions
        .checked(address)
        .await
        .map_err(|error| error.to_string())?;
    let blockers = session
        .fence_blockers(WOULD_BLOCK_AFTER)
        .await
        .map_err(|error| error.to_string())?;
    hands.sessions.put(session);
    if blockers.is_empty() {
        return Ok(None);
    }
    let listed: Vec<String> = blockers
        .iter()
        .map(|blocker| format!("session {} of {}: {}", blocker.id, blocker.user, blocker.what))
        .collect();
    Ok(Some(format!(
        "a fence on \"{}\" would wait for {}",
        address.site,
        listed.join("; ")
    )))
}
