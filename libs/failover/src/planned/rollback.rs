//! `RollingBack`: the target back to a replica where a promotion was intended, then the source back to writable.

use bloodraven_types::command::{Command, RestoreTarget, UnfenceSource};
use bloodraven_types::fact::{TargetRestored, UnfenceFailed, UnfenceObstacle, Unfenced};
use bloodraven_types::record::{PlannedFailover, Rollback, RollbackTarget};
use bloodraven_types::{Group, Outcome, Reason, StepState, Timestamp, Warning};

use super::authority::inconsistent;
use super::ending::{self, End};
use super::{Illegal, Input, RollbackFact, Step, Verdict, illegal};
use crate::{deadlines, history};

pub(super) fn commands(group: &Group, run: &PlannedFailover) -> Vec<Command> {
    let (Some(source), Some(fence), Some(rollback)) = (&run.source_site, &run.fence, &run.rollback) else {
        return Vec::new();
    };
    let deadline = rollback.intent_time.after(deadlines::ROLLBACK);
    match (&run.promotion, rollback.target.is_some()) {
        (Some(promotion), false) => vec![Command::RestoreTarget(RestoreTarget {
            source: source.clone(),
            source_server_uuid: fence.source_server_uuid,
            target: run.target_site.clone(),
            target_server_uuid: promotion.target_server_uuid,
            gtid_set: fence.gtid_set.clone().unwrap_or_default(),
            deadline,
        })],
        (Some(_), true) | (None, _) => vec![Command::Unfence(UnfenceSource {
            source: source.clone(),
            source_server_uuid: fence.source_server_uuid,
            target: run.target_site.clone(),
            target_server_uuid: run.promotion.as_ref().map(|promotion| promotion.target_server_uuid),
            gtid_set: fence.gtid_set.clone(),
            attributable: history::authority_holds(group, run)
                && (fence.state == StepState::Applied || rollback.reason != Reason::AuthorityChanged),
            retry: rollback.reason != Reason::SourceLost,
            deadline,
        })],
    }
}

pub(super) fn rolling_back(
    group: &Group,
    run: &PlannedFailover,
    input: Input,
    now: Timestamp,
) -> Result<Verdict, Illegal> {
    let Some(rollback) = &run.rollback else {
        return Ok(inconsistent(group, run, "no rollback in RollingBack", now));
    };
    match input {
        Input::Rollback(RollbackFact::TargetRestored(restored)) => Ok(restored_now(group, run, rollback, &restored)),
        Input::Rollback(RollbackFact::Unfenced(unfenced)) => Ok(unfenced_now(group, run, rollback, &unfenced, now)),
        Input::Rollback(RollbackFact::Failed(failed)) => Ok(obstructed(group, run, rollback, &failed, now)),
        Input::Tick => {
            if now
                < rollback
                    .intent_time
                    .after(deadlines::ROLLBACK + deadlines::KEEPER_GRACE)
            {
                return Ok(Verdict::nothing());
            }
            // The promoter has said that nothing was written, but an attempt of its after that cannot be ruled out.
            let failed = UnfenceFailed {
                cause: if run.promotion.is_some() && rollback.target.is_none() {
                    UnfenceObstacle::TargetUnreadable
                } else {
                    UnfenceObstacle::StatementsFailed
                },
                detail: format!("no answer within {:?}", deadlines::ROLLBACK),
                target_replicating: rollback.target.as_ref().is_none_or(|target| target.replicating),
                ambiguous_sites: Vec::new(),
            };
            Ok(obstructed(group, run, rollback, &failed, now))
        }
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Cache(_)
        | Input::Promotion(_)
        | Input::Published(_)) => Err(illegal(run, &other)),
    }
}

fn restored_now(group: &Group, run: &PlannedFailover, rollback: &Rollback, restored: &TargetRestored) -> Verdict {
    if rollback.target.is_some() {
        return Verdict::nothing();
    }
    let mut next = run.clone();
    next.rollback = Some(Rollback {
        target: Some(RollbackTarget {
            super_read_only: restored.super_read_only,
            replicating: restored.replicating,
        }),
        ..rollback.clone()
    });
    if !restored.detail.is_empty() {
        next.message = format!(
            "rolling back ({}): {}; {}",
            rollback.reason, rollback.detail, restored.detail
        );
    }
    Verdict::Write(Step::status(group, next))
}

fn unfenced_now(
    group: &Group,
    run: &PlannedFailover,
    rollback: &Rollback,
    unfenced: &Unfenced,
    now: Timestamp,
) -> Verdict {
    let mut warnings = Vec::new();
    let recorded = run.fence.as_ref().map(|fence| fence.source_server_uuid);
    if recorded != Some(unfenced.source_server_uuid) {
        warnings.push(Warning::SourceReplaced);
        warnings.push(Warning::TargetReplicationNotRestored);
    }
    let restored = rollback.target.as_ref();
    if !unfenced.target.replicating || restored.is_some_and(|target| !target.replicating) {
        warnings.push(Warning::TargetReplicationNotRestored);
    }
    if !unfenced.target.super_read_only || restored.is_some_and(|target| !target.super_read_only) {
        // Its channel was left alone then (PF-RBK-03).
        warnings.push(Warning::TargetSuperReadOnlyNotRestored);
        warnings.push(Warning::TargetReplicationNotRestored);
    }
    let source = run
        .source_site
        .clone()
        .map_or_else(String::new, |site| site.to_string());
    let how = if unfenced.already_writable {
        "was writable already"
    } else {
        "is writable again"
    };
    let end = End {
        outcome: Outcome::RolledBack,
        reason: Some(rollback.reason),
        warnings,
        message: format!("\"{source}\" {how}: {}", rollback.detail),
        ambiguous_sites: Vec::new(),
    };
    Verdict::Write(ending::end(group, run.clone(), end, now))
}

/// The six decisions of the reference's "Rollback", as far as they end the run (PF-RBK-02).
fn obstructed(
    group: &Group,
    run: &PlannedFailover,
    rollback: &Rollback,
    failed: &UnfenceFailed,
    now: Timestamp,
) -> Verdict {
    let mut warnings = Vec::new();
    let left_fenced = |reason| (Outcome::SourceLeftFenced, reason);
    let (outcome, reason) = match failed.cause {
        UnfenceObstacle::TargetUnreadable => (Outcome::PromotedUnconfirmed, Reason::TargetLost),
        UnfenceObstacle::TargetHasOtherTransactions => (Outcome::ManualRecoveryRequired, Reason::ExecuteFailed),
        UnfenceObstacle::BothWritable => (Outcome::ManualRecoveryRequired, Reason::ForeignWritable),
        UnfenceObstacle::ForeignWritable => left_fenced(Reason::ForeignWritable),
        UnfenceObstacle::FenceNotAttributable => {
            warnings.push(Warning::FenceNotAttributable);
            left_fenced(rollback.reason)
        }
        UnfenceObstacle::SourceLost | UnfenceObstacle::StatementsFailed => left_fenced(rollback.reason),
    };
    let not_restored = rollback.target.as_ref().is_some_and(|target| !target.replicating);
    if outcome == Outcome::SourceLeftFenced && (not_restored || !failed.target_replicating) {
        warnings.push(Warning::TargetReplicationNotRestored);
    }
    let advice = if warnings.contains(&Warning::FenceNotAttributable) {
        format!("; {}", ending::MANUAL_ADVICE)
    } else {
        String::new()
    };
    let end = End {
        outcome,
        reason: Some(reason),
        warnings,
        message: format!("{}; {}{advice}", rollback.detail, failed.detail),
        ambiguous_sites: failed.ambiguous_sites.clone(),
    };
    Verdict::Write(ending::end(group, run.clone(), end, now))
}
