//! Going back on the target: read-only again and a running replica of the source, as it was before the promotion.

use std::time::Duration;

use bloodraven_gtid::GtidSet;
use bloodraven_ports::{
    Clock, Database, DatabaseError, DatabaseSession, GroupStore, ReplicationSource, ServerObservation,
};
use bloodraven_types::Group;
use bloodraven_types::command::RestoreTarget;
use bloodraven_types::fact::{Fact, TargetRestored, UnfenceFailed, UnfenceObstacle};

use crate::authority::{Authority, NoAuthority};
use crate::hands::{Hands, LossWindow, Order, Refused, Superseded};
use crate::probe;

const RETRY: Duration = Duration::from_millis(200);

/// What one attempt came to.
enum Attempt {
    Told(Fact),
    Again {
        /// Whether the target read `super_read_only=ON` at the last look.
        super_read_only: bool,
        detail: String,
    },
}

/// Brings the target back (PF-RBK-02, PF-RBK-03, PF-RBK-07).
///
/// The record has it from the promoter that nothing was written to the target, so a target that cannot be read does not
/// keep the source fenced: it is reported as not restored.
///
/// # Errors
/// [`Refused`] when the record no longer asks for it.
pub async fn restore_target<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<RestoreTarget>,
    superseded: &Superseded,
) -> Result<Fact, Refused> {
    let mut loss = LossWindow::default();
    let mut read_only = false;
    loop {
        let began = hands.clock.monotonic();
        let detail = match attempt(hands, order, superseded).await? {
            Ok(Attempt::Told(fact)) => return Ok(fact),
            Ok(Attempt::Again {
                super_read_only,
                detail,
            }) => {
                loss.answered();
                read_only = super_read_only;
                detail
            }
            Err(error) => {
                if loss.failed(&error, began, hands.clock.monotonic()) {
                    return Ok(not_restored(read_only, error.to_string()));
                }
                error.to_string()
            }
        };
        tracing::warn!(run = %order.about.run_id, detail, "the target is not restored yet; trying again");
        // The unfence needs its share of the rollback's time: the target gets half of it.
        let half = order.command.deadline.since(hands.clock.now()) < bloodraven_failover::deadlines::ROLLBACK / 2;
        if half {
            return Ok(not_restored(read_only, detail));
        }
        if superseded.is_set() {
            return Err(Refused::Superseded);
        }
        hands.clock.sleep(RETRY).await;
    }
}

async fn attempt<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<RestoreTarget>,
    superseded: &Superseded,
) -> Result<Result<Attempt, DatabaseError>, Refused> {
    let command = &order.command;
    let taken = hands
        .authority(&command.target, &order.about, command.deadline, superseded)
        .await;
    let Authority { mut session, group } = match taken {
        Ok(authority) => authority,
        Err(NoAuthority::Refused(refused)) => return Err(refused),
        Err(NoAuthority::SiteGone) => {
            let detail = format!("site \"{}\" is gone", command.target);
            return Ok(Ok(Attempt::Told(not_restored(true, detail))));
        }
        Err(NoAuthority::Server(error)) => return Ok(Err(error)),
    };
    let outcome = on_target(hands, order, superseded, &group, &mut session).await?;
    if outcome.is_ok() {
        hands.give_back(session).await;
    }
    Ok(outcome)
}

async fn on_target<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<RestoreTarget>,
    superseded: &Superseded,
    group: &Group,
    session: &mut D::Session,
) -> Result<Result<Attempt, DatabaseError>, Refused> {
    let command = &order.command;
    let target = match session.observe().await {
        Ok(target) => target,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(fact) = judge_target(order, &target) {
        return Ok(Ok(Attempt::Told(fact)));
    }
    if !target.super_read_only {
        tracing::warn!(run = %order.about.run_id, "planned failover: could not restore the target's super_read_only yet");
        if let Err(error) = session.set_super_read_only().await {
            return Ok(Err(error));
        }
    }
    let target = match session.observe().await {
        Ok(target) if is_replicating(&target) && target.super_read_only => return Ok(Ok(Attempt::Told(restored()))),
        Ok(target) => target,
        Err(error) => return Ok(Err(error)),
    };
    if !target.super_read_only {
        let detail = "super_read_only does not read ON on the target".to_owned();
        return Ok(Ok(again(false, detail)));
    }
    if target.channels.is_empty() {
        if let Err(detail) = verify_source(hands, order, group).await {
            return Ok(Ok(Attempt::Told(not_restored(true, detail))));
        }
        // The source may have been slow to answer: the claim is read again before the target is changed (PF-CLM-04).
        hands.claimed(&order.about, command.deadline, superseded).await?;
    }
    Ok(replicate_again(order, group, session, &target).await)
}

/// What ends the restoration before anything is sent.
fn judge_target(order: &Order<RestoreTarget>, target: &ServerObservation) -> Option<Fact> {
    let command = &order.command;
    if target.server_uuid != command.target_server_uuid {
        let detail = format!(
            "the target is server {} now; it is left for a reclone",
            target.server_uuid
        );
        return Some(not_restored(target.super_read_only, detail));
    }
    let sets = (
        target.gtid_executed.parse::<GtidSet>(),
        command.gtid_set.parse::<GtidSet>(),
    );
    let (Ok(executed), Ok(fenced)) = sets else {
        let detail = "the target's set cannot be parsed".to_owned();
        return Some(not_restored(target.super_read_only, detail));
    };
    let extra = executed.subtract(&fenced);
    if target.is_writable() && !extra.is_empty() {
        let detail = format!(
            "the target is open and holds {} transactions outside the fenced set: {extra}",
            extra.count()
        );
        return Some(obstacle(UnfenceObstacle::TargetHasOtherTransactions, detail, order));
    }
    if !target.read_only && !target.super_read_only {
        // Somebody else opened it: another writable site, which the unfence judges. This is no fence of ours to set.
        return Some(not_restored(false, "the target takes writes".to_owned()));
    }
    None
}

/// The channel goes only toward a verified source (PF-RBK-07).
async fn verify_source<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<RestoreTarget>,
    group: &Group,
) -> Result<(), String> {
    let command = &order.command;
    let Some(source) = group.site(&command.source) else {
        return Err(format!("site \"{}\" is gone", command.source));
    };
    match probe::one(hands, source).await {
        Ok(answer) if answer.server_uuid == command.source_server_uuid => Ok(()),
        Ok(answer) => Err(format!(
            "the source is server {} now; the target is left for a reclone",
            answer.server_uuid
        )),
        Err(error) => Err(format!("the source cannot be verified: {error}")),
    }
}

async fn replicate_again<S: DatabaseSession>(
    order: &Order<RestoreTarget>,
    group: &Group,
    session: &mut S,
    target: &ServerObservation,
) -> Result<Attempt, DatabaseError> {
    if let (true, Some(source)) = (target.channels.is_empty(), group.site(&order.command.source)) {
        session
            .change_source(&ReplicationSource {
                host: source.host.clone(),
                port: source.port,
            })
            .await?;
    }
    session.start_replica().await?;
    Ok(again(true, "the target's replication threads are starting".to_owned()))
}

const fn again(super_read_only: bool, detail: String) -> Attempt {
    Attempt::Again {
        super_read_only,
        detail,
    }
}

fn is_replicating(target: &ServerObservation) -> bool {
    !target.channels.is_empty() && target.channels.iter().all(bloodraven_ports::Channel::is_running)
}

fn restored() -> Fact {
    Fact::TargetRestored(TargetRestored {
        super_read_only: true,
        replicating: true,
        detail: String::new(),
    })
}

fn not_restored(super_read_only: bool, detail: String) -> Fact {
    Fact::TargetRestored(TargetRestored {
        super_read_only,
        replicating: false,
        detail,
    })
}

fn obstacle(cause: UnfenceObstacle, detail: String, order: &Order<RestoreTarget>) -> Fact {
    Fact::UnfenceFailed(UnfenceFailed {
        cause,
        detail,
        target_replicating: false,
        ambiguous_sites: vec![order.command.target.clone()],
    })
}
