//! `Fencing`, `Draining` and `WaitingForLag`: from the fence's intent until the target holds the fenced set.

use bloodraven_gtid::GtidSet;
use bloodraven_types::command::{AwaitCatchUp, Command, DrainSource, FenceSource};
use bloodraven_types::fact::{CaughtUp, Drained, Fenced};
use bloodraven_types::record::{DragonflyRun, Drain, Fence, LagWait, PlannedFailover, Promotion, Rollback};
use bloodraven_types::{EventReason, Group, Phase, Reason, ServerUuid, StepState, Timestamp, Warning};

use super::authority::inconsistent;
use super::{CatchUpFact, DrainFact, FenceFact, Illegal, Input, Step, Verdict, illegal};
use crate::deadlines;

pub(super) fn commands(run: &PlannedFailover) -> Vec<Command> {
    let (Some(source), Some(fence)) = (run.source_site.clone(), &run.fence) else {
        return Vec::new();
    };
    let target = run.target_site.clone();
    let source_server_uuid = fence.source_server_uuid;
    match run.phase {
        Phase::Fencing => vec![Command::Fence(FenceSource {
            source,
            source_server_uuid,
            target,
            deadline: fence.intent_time.after(deadlines::FENCE),
        })],
        Phase::Draining => run
            .drain
            .iter()
            .map(|drain| {
                Command::Drain(DrainSource {
                    source: source.clone(),
                    source_server_uuid,
                    deadline: drain.start_time.after(run.settings.drain_timeout.get()),
                })
            })
            .collect(),
        Phase::WaitingForLag => run
            .lag_wait
            .iter()
            .map(|wait| {
                Command::AwaitCatchUp(AwaitCatchUp {
                    source: source.clone(),
                    source_server_uuid,
                    target: target.clone(),
                    gtid_set: fence.gtid_set.clone().unwrap_or_default(),
                    deadline: wait.start_time.after(run.settings.max_lag_wait.get()),
                })
            })
            .collect(),
        Phase::Admitting
        | Phase::Deferred
        | Phase::WaitingForDragonflySync
        | Phase::PromotingDragonfly
        | Phase::Promoting
        | Phase::Publishing
        | Phase::RollingBack
        | Phase::Succeeded
        | Phase::Failed => Vec::new(),
    }
}

pub(super) fn fencing(group: &Group, run: &PlannedFailover, input: Input, now: Timestamp) -> Result<Verdict, Illegal> {
    let Some(fence) = &run.fence else {
        return Ok(inconsistent(group, run, "no fence intent in Fencing", now));
    };
    match input {
        Input::Fence(FenceFact::Fenced(fenced)) => Ok(fenced_now(group, run, fence, fenced, now)),
        Input::Fence(FenceFact::Failed(failed)) => roll_back(group, run, failed.reason, &failed.detail, now).verdict(),
        Input::Tick => {
            let deadline = fence.intent_time.after(deadlines::FENCE + deadlines::KEEPER_GRACE);
            if now < deadline {
                return Ok(Verdict::nothing());
            }
            let detail = format!("the fence was not proven within {:?}", deadlines::FENCE);
            roll_back(group, run, Reason::FenceFailed, &detail, now).verdict()
        }
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Admission(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Cache(_)
        | Input::Promotion(_)
        | Input::Rollback(_)
        | Input::Published(_)) => Err(illegal(run, &other)),
    }
}

/// The fence is proven: its set is on the record before anything rests on it (PF-FEN-04).
fn fenced_now(group: &Group, run: &PlannedFailover, fence: &Fence, fenced: Fenced, now: Timestamp) -> Verdict {
    if fenced.source_server_uuid != fence.source_server_uuid {
        let detail = format!(
            "the fence was intended for server {} and reported by server {}",
            fence.source_server_uuid, fenced.source_server_uuid
        );
        return Verdict::Write(roll_back(group, run, Reason::AuthorityChanged, &detail, now));
    }
    let parsed = fenced.gtid_set.parse::<GtidSet>();
    let mut next = run.clone();
    let mut warnings = fence.warnings.clone();
    if !fenced.unreachable_peers.is_empty() && !warnings.contains(&Warning::UnreachablePeers) {
        warnings.push(Warning::UnreachablePeers);
    }
    next.fence = Some(Fence {
        state: StepState::Applied,
        apply_time: Some(fenced.apply_time.whole_seconds()),
        gtid_set: Some(fenced.gtid_set),
        warnings,
        ..fence.clone()
    });
    if let Err(error) = parsed {
        // Nothing can be compared with such a set, so nothing may be promoted on it (PF-LAG-02).
        let detail = format!("the fenced set cannot be parsed: {error}");
        return Verdict::Write(roll_back(group, &next, Reason::InvalidGTID, &detail, now));
    }
    next.phase = Phase::Draining;
    next.drain = Some(Drain {
        start_time: now,
        completion_time: None,
        remaining_connections: None,
    });
    let source = next
        .source_site
        .clone()
        .map_or_else(String::new, |site| site.to_string());
    next.message = format!("draining \"{source}\"");
    let message = format!("\"{source}\" is fenced; draining its application sessions");
    Verdict::Write(Step::status(group, next).event(EventReason::PlannedFailoverDrainStarted, message))
}

pub(super) fn draining(group: &Group, run: &PlannedFailover, input: Input, now: Timestamp) -> Result<Verdict, Illegal> {
    let Some(drain) = &run.drain else {
        return Ok(inconsistent(group, run, "no drain in Draining", now));
    };
    match input {
        Input::Drain(DrainFact::Drained(drained)) => drained_now(group, run, drain, &drained, now).verdict(),
        Input::Drain(DrainFact::Failed(failed)) => roll_back(group, run, failed.reason, &failed.detail, now).verdict(),
        Input::Tick => {
            let limit = run.settings.drain_timeout.get() + deadlines::KEEPER_GRACE;
            if now < drain.start_time.after(limit) {
                return Ok(Verdict::nothing());
            }
            let unknown = Drained {
                remaining_connections: None,
                killed: 0,
                error: Some("no answer from the fencer".to_owned()),
            };
            drained_now(group, run, drain, &unknown, now).verdict()
        }
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::CatchUp(_)
        | Input::Cache(_)
        | Input::Promotion(_)
        | Input::Rollback(_)
        | Input::Published(_)) => Err(illegal(run, &other)),
    }
}

/// The drain is over either way: survivors cannot write (PF-DRN-01, PF-DRN-02).
fn drained_now(group: &Group, run: &PlannedFailover, drain: &Drain, drained: &Drained, now: Timestamp) -> Step {
    let source = run
        .source_site
        .clone()
        .map_or_else(String::new, |site| site.to_string());
    let mut next = run.clone();
    next.phase = Phase::WaitingForLag;
    next.drain = Some(Drain {
        start_time: drain.start_time,
        completion_time: Some(now),
        remaining_connections: drained.remaining_connections,
    });
    next.lag_wait = Some(LagWait {
        start_time: now,
        catch_up_time: None,
    });
    next.message = match (&drained.error, drained.remaining_connections) {
        (Some(error), None) => format!(
            "waiting for \"{}\" to apply the fenced set; the connections remaining on \"{source}\" are unknown ({error})",
            run.target_site
        ),
        (_, Some(left)) if left > 0 => format!(
            "waiting for \"{}\" to apply the fenced set; {left} connections remain on \"{source}\" and cannot write",
            run.target_site
        ),
        (Some(_) | None, Some(_) | None) => format!("waiting for \"{}\" to apply the fenced set", run.target_site),
    };
    Step::status(group, next)
}

pub(super) fn waiting_for_lag(
    group: &Group,
    run: &PlannedFailover,
    input: Input,
    now: Timestamp,
) -> Result<Verdict, Illegal> {
    let Some(wait) = &run.lag_wait else {
        return Ok(inconsistent(group, run, "no lag wait in WaitingForLag", now));
    };
    match input {
        Input::CatchUp(CatchUpFact::CaughtUp(caught_up)) => Ok(caught_up_now(group, run, wait, &caught_up, now)),
        Input::CatchUp(CatchUpFact::Lagging) => Ok(Verdict::nothing()),
        Input::CatchUp(CatchUpFact::Failed(failed)) => {
            roll_back(group, run, failed.reason, &failed.detail, now).verdict()
        }
        Input::Tick => {
            let limit = run.settings.max_lag_wait.get() + deadlines::KEEPER_GRACE;
            if now < wait.start_time.after(limit) {
                return Ok(Verdict::nothing());
            }
            let detail = format!(
                "\"{}\" did not apply the fenced set within {}",
                run.target_site, run.settings.max_lag_wait
            );
            roll_back(group, run, Reason::LagTimeout, &detail, now).verdict()
        }
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::Cache(_)
        | Input::Promotion(_)
        | Input::Rollback(_)
        | Input::Published(_)) => Err(illegal(run, &other)),
    }
}

fn caught_up_now(
    group: &Group,
    run: &PlannedFailover,
    wait: &LagWait,
    caught_up: &CaughtUp,
    now: Timestamp,
) -> Verdict {
    let fenced = run
        .fence
        .as_ref()
        .and_then(|fence| fence.gtid_set.as_deref())
        .unwrap_or_default();
    // The watcher has compared the sets; comparing them again here keeps the decision on the record's own side.
    let (Ok(fenced), Ok(executed)) = (fenced.parse::<GtidSet>(), caught_up.gtid_executed.parse::<GtidSet>()) else {
        let detail = "the fenced set or the target's set cannot be parsed";
        return Verdict::Write(roll_back(group, run, Reason::InvalidGTID, detail, now));
    };
    if !executed.contains(&fenced) {
        return Verdict::nothing();
    }
    let extra = executed.subtract(&fenced);
    if !extra.is_empty() {
        let detail = format!(
            "\"{}\" holds {} transactions outside the fenced set: {extra}",
            run.target_site,
            extra.count()
        );
        return Verdict::Write(roll_back(group, run, Reason::DivergentTarget, &detail, now));
    }
    let mut next = run.clone();
    next.lag_wait = Some(LagWait {
        start_time: wait.start_time,
        catch_up_time: Some(now),
    });
    if run.settings.dragonfly.is_some() {
        next.phase = Phase::WaitingForDragonflySync;
        next.dragonfly = Some(DragonflyRun {
            sync_wait_start_time: Some(now),
            ..DragonflyRun::default()
        });
        next.message = "waiting for the target cache".to_owned();
    } else {
        intend_promotion(&mut next, caught_up.target_server_uuid, now);
    }
    // The cache phases promote later; the server's identity is pinned now.
    if next.phase != Phase::Promoting {
        next.promotion = Some(intended(&next, caught_up.target_server_uuid, now));
    }
    let message = format!("\"{}\" applied the fenced set", run.target_site);
    Verdict::Write(Step::status(group, next).event(EventReason::PlannedFailoverTargetCaughtUp, message))
}

/// Moves the record to `Promoting` with the intent in it (PF-PRO-01).
pub(super) fn intend_promotion(run: &mut PlannedFailover, target_server_uuid: ServerUuid, now: Timestamp) {
    run.promotion = Some(intended(run, target_server_uuid, now));
    run.phase = Phase::Promoting;
    run.message = format!("promoting \"{}\"", run.target_site);
}

fn intended(run: &PlannedFailover, target_server_uuid: ServerUuid, now: Timestamp) -> Promotion {
    Promotion {
        state: StepState::Intended,
        intent_time: now,
        target_server_uuid,
        confirmation_time: None,
        warnings: run
            .fence
            .as_ref()
            .map(|fence| fence.warnings.clone())
            .unwrap_or_default(),
    }
}

/// The way back begins with its reason on the record (PF-RBK-01).
pub(super) fn roll_back(group: &Group, run: &PlannedFailover, reason: Reason, detail: &str, now: Timestamp) -> Step {
    let mut next = run.clone();
    if next.phase != Phase::Promoting {
        // Nothing can have been written to the target before the promoting phase; its pinned identity is not an intent.
        next.promotion = None;
    }
    next.phase = Phase::RollingBack;
    next.rollback = Some(Rollback {
        reason,
        intent_time: now,
        detail: detail.to_owned(),
        target: None,
    });
    next.message = format!("rolling back ({reason}): {detail}");
    let message = next.message.clone();
    Step::status(group, next).event(EventReason::PlannedFailoverRollbackStarted, message)
}
