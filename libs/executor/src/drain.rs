//! Draining the source: application sessions are ended until none is left or the time for that is over.

use std::time::Duration;

use bloodraven_failover::claim;
use bloodraven_ports::{Clock, Database, DatabaseError, DatabaseSession, GroupStore, ServerAddress};
use bloodraven_types::command::DrainSource;
use bloodraven_types::fact::{Drained, Fact, StepFailed};
use bloodraven_types::{Group, Reason};

use crate::hands::{Hands, LossWindow, Order, Refused, Superseded};

/// Between two passes at most (PF-DRN-01). The first ones follow each other quickly: most sessions end in milliseconds.
const PASS: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// One pass over the source's sessions.
enum Pass {
    Empty,
    Left(u32),
    Unfenced(String),
}

/// Ends the source's application sessions.
///
/// A query that fails on a source that still answers is no lost source: the drain goes on to its deadline (PF-DRN-02).
///
/// # Errors
/// [`Refused`] when the record no longer asks for it.
pub async fn drain<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<DrainSource>,
    superseded: &Superseded,
) -> Result<Fact, Refused> {
    let group = hands.store.get(&order.about.group).await.map_err(Refused::Gone)?;
    claim::check_claimed(&group, &order.about, None, hands.clock.now())?;
    let Some(address) = address(&group, order) else {
        return Ok(failed(
            Reason::UnknownSite,
            format!("site \"{}\" is not in spec.sites", order.command.source),
        ));
    };
    let mut loss = LossWindow::default();
    let mut killed = 0_u32;
    let mut last: Result<u32, String>;
    let mut pause = FIRST_PAUSE;
    loop {
        let began = hands.clock.monotonic();
        match one_pass(hands, &address, order, &mut killed).await {
            Ok(Pass::Empty) => return Ok(drained(Some(0), killed, None)),
            Ok(Pass::Left(left)) => {
                loss.answered();
                last = Ok(left);
            }
            Ok(Pass::Unfenced(detail)) => return Ok(failed(Reason::SourceUnfenced, detail)),
            Err(error) => {
                if loss.failed(&error, began, hands.clock.monotonic()) {
                    return Ok(failed(Reason::SourceLost, error.to_string()));
                }
                tracing::warn!(run = %order.about.run_id, %error, "planned failover: draining the source failed");
                last = Err(error.to_string());
            }
        }
        if hands.clock.now() >= order.command.deadline {
            return Ok(match last {
                Ok(left) => drained(Some(left), killed, None),
                Err(error) => drained(None, killed, Some(error)),
            });
        }
        if superseded.is_set() {
            return Err(Refused::Superseded);
        }
        hands.clock.sleep(pause).await;
        pause = (pause * 2).min(PASS);
    }
}

async fn one_pass<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    address: &ServerAddress,
    order: &Order<DrainSource>,
    killed: &mut u32,
) -> Result<Pass, DatabaseError> {
    let mut session = hands.sessions.checked(address).await?;
    let observed = session.observe().await?;
    if observed.server_uuid != order.command.source_server_uuid {
        return Ok(Pass::Unfenced(format!(
            "the source is server {} now",
            observed.server_uuid
        )));
    }
    if !observed.is_fenced() {
        return Ok(Pass::Unfenced("the source is no longer read-only".to_owned()));
    }
    let applications = session.application_sessions().await?;
    for application in &applications {
        match session.kill(application.id).await {
            Ok(()) => *killed = killed.saturating_add(1),
            // An account with more rights than ours: it is left, counted as such, and cannot write.
            Err(error @ DatabaseError::Refused { .. }) => {
                tracing::warn!(session = application.id, user = application.user, %error, "a session cannot be ended");
            }
            Err(error) => return Err(error),
        }
    }
    hands.sessions.put(session);
    let left = u32::try_from(applications.len()).unwrap_or(u32::MAX);
    Ok(if left == 0 { Pass::Empty } else { Pass::Left(left) })
}

fn address(group: &Group, order: &Order<DrainSource>) -> Option<ServerAddress> {
    group.site(&order.command.source).map(ServerAddress::administrative)
}

fn drained(remaining_connections: Option<u32>, killed: u32, error: Option<String>) -> Fact {
    Fact::Drained(Drained {
        remaining_connections,
        killed,
        error,
    })
}

fn failed(reason: Reason, detail: String) -> Fact {
    Fact::DrainFailed(StepFailed {
        reason,
        detail,
        sent: true,
    })
}
