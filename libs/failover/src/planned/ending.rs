//! The ends: one function that writes a terminal record, and the small ones that call it.

use bloodraven_types::annotation::{self, PlannedFailoverRequest};
use bloodraven_types::group::{ClaimKind, ClaimStatus, Condition, PlannedFailoverHold};
use bloodraven_types::record::{PlannedFailover, RunResult};
use bloodraven_types::{EventReason, Group, Outcome, Phase, Reason, SiteName, StepState, Timestamp, Warning};

use super::{Effect, Step, Write};
use crate::history;

/// The advice that goes with a fence that is not the run's to clear.
pub(super) const MANUAL_ADVICE: &str = "check which site is writable; if none is, unfence the site with the most complete \
     GTID set by hand (confirm no other site is writable first); re-annotate only once a site is writable";

/// How a run is to end.
pub(super) struct End {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<Reason>,
    pub(super) warnings: Vec<Warning>,
    pub(super) message: String,
    /// For a hold: what the failing step classified.
    pub(super) ambiguous_sites: Vec<SiteName>,
}

/// The terminal record, with the claim released or turned into a hold in the same write.
pub(super) fn end(group: &Group, mut run: PlannedFailover, end: End, now: Timestamp) -> Step {
    let held_claim = run.phase.needs_claim() && !crate::claim::is_released(group, run.run_id);
    let started = run.start_time;
    let target = run.target_site.clone();
    let run_id = run.run_id.to_string();
    run.phase = if end.outcome == Outcome::Succeeded {
        Phase::Succeeded
    } else {
        Phase::Failed
    };
    run.message.clone_from(&end.message);
    let warnings = warnings(&run, end.outcome, end.warnings);
    run.result = Some(RunResult {
        outcome: end.outcome,
        reason: end.reason,
        completion_time: now,
        warnings,
    });
    let mut step = Step::status(group, run);
    let held = end.outcome == Outcome::ManualRecoveryRequired;
    if let Write::Status(status) = &mut step.write {
        if held {
            hold(
                group,
                status,
                end.reason.unwrap_or(Reason::InternalError),
                &end.ambiguous_sites,
                now,
            );
        } else if let Some(claim) = status.claim.as_mut().filter(|claim| is_own(claim, &run_id)) {
            *claim = ClaimStatus {
                epoch: claim.epoch,
                ..ClaimStatus::default()
            };
        }
    }
    for reason in events_of(end.outcome) {
        step = step.event(*reason, summary(&end.message, end.outcome, end.reason));
    }
    step = step.effect(Effect::Ended {
        target,
        outcome: end.outcome,
        duration: Some(now.since(started)),
    });
    if held_claim && !held {
        step = step.effect(Effect::Released { why: "terminalRecord" });
    }
    // The run's own annotations go once the end is durable.
    step.then(super::Input::Tick)
}

/// The claim is released only by the run that owns it: another actor may have it by now (PF-CLM-01).
fn is_own(claim: &ClaimStatus, run_id: &str) -> bool {
    claim.kind == Some(ClaimKind::PlannedFailover) && claim.holder.as_deref() == Some(run_id)
}

/// What the record has gathered on the way and what the end itself adds, in the order of the reference.
fn warnings(run: &PlannedFailover, outcome: Outcome, of_end: Vec<Warning>) -> Vec<Warning> {
    let mut warnings = of_end;
    warnings.extend(run.fence.iter().flat_map(|fence| &fence.warnings));
    warnings.extend(run.promotion.iter().flat_map(|promotion| &promotion.warnings));
    let cache_moved = run
        .dragonfly
        .as_ref()
        .and_then(|dragonfly| dragonfly.takeover.as_ref())
        .is_some_and(|takeover| takeover.state == StepState::Succeeded);
    if cache_moved && outcome != Outcome::Succeeded {
        // The cache leads on the target while MySQL did not get there (PF-DFY-09).
        warnings.push(Warning::DragonflySessionsLost);
    }
    warnings.sort_unstable();
    warnings.dedup();
    warnings
}

/// `NotStarted`: nothing was sent to any site, and the annotation goes.
pub(super) fn not_started(group: &Group, run: PlannedFailover, reason: Reason, detail: &str, now: Timestamp) -> Step {
    let message = format!(
        "planned failover to \"{}\" not started ({reason}): {detail}",
        run.target_site
    );
    let judged = run.clone();
    let mut step = end(
        group,
        run,
        End {
            outcome: Outcome::NotStarted,
            reason: Some(reason),
            warnings: Vec::new(),
            message,
            ambiguous_sites: Vec::new(),
        },
        now,
    );
    // The request that was judged goes with its end; one written meanwhile names something else or another version (PF-REQ-08).
    let own = group
        .annotation(annotation::PLANNED_FAILOVER)
        .filter(|value| PlannedFailoverRequest::parse(value).is_ok_and(|request| is_own_copy(&judged, &request)));
    if let Some(value) = own {
        step.then = Some(super::Input::RemoveRequest {
            value: value.to_owned(),
        });
    }
    step
}

/// Whether an annotation is a copy of the run's own request: the same target, with the same wait or none (PF-REQ-06).
pub(super) fn is_own_copy(run: &PlannedFailover, request: &PlannedFailoverRequest) -> bool {
    let same_wait = request
        .max_lag_wait
        .is_none_or(|wait| wait == run.settings.max_lag_wait);
    request.target == run.target_site && same_wait
}

fn hold(
    group: &Group,
    status: &mut bloodraven_types::GroupStatus,
    reason: Reason,
    ambiguous: &[SiteName],
    now: Timestamp,
) {
    let Some(run) = status.planned_failover.clone() else {
        return;
    };
    let mut sites: Vec<SiteName> = Vec::new();
    let classified = std::iter::once(&run.target_site)
        .chain(run.source_site.as_ref())
        .chain(ambiguous);
    for site in classified {
        if !sites.contains(site) {
            sites.push(site.clone());
        }
    }
    let list = sites.iter().map(SiteName::as_str).collect::<Vec<_>>().join(", ");
    let message = format!(
        "planned failover run {} ended ManualRecoveryRequired ({reason}); writable or ambiguous sites: {list}. Automatic failover \
         is held: resolve the split brain by hand, then annotate {}={}",
        run.run_id,
        bloodraven_types::annotation::ACKNOWLEDGE_HOLD,
        run.run_id
    );
    status.planned_failover_hold = Some(PlannedFailoverHold {
        run_id: run.run_id,
        reason,
        source_site: run.source_site.clone(),
        target_site: run.target_site.clone(),
        ambiguous_sites: sites,
        hold_time: now,
    });
    status.conditions.retain(|condition| condition.kind != HELD_CONDITION);
    status.conditions.push(Condition {
        kind: HELD_CONDITION.to_owned(),
        status: "True".to_owned(),
        reason: "PlannedFailoverManualRecoveryRequired".to_owned(),
        message,
        observed_generation: Some(group.generation),
        last_transition_time: now,
    });
}

/// The condition that summarises a hold (PF-HLD-01).
pub(super) const HELD_CONDITION: &str = "AutomaticFailoverHeld";

const fn events_of(outcome: Outcome) -> &'static [EventReason] {
    match outcome {
        Outcome::Succeeded => &[EventReason::PlannedFailoverSucceeded],
        Outcome::NotStarted => &[EventReason::PlannedFailoverRejected],
        Outcome::RolledBack | Outcome::SourceLeftFenced => &[EventReason::PlannedFailoverFailed],
        Outcome::PromotedUnconfirmed => &[
            EventReason::PlannedFailoverPromotionConfirmationFailed,
            EventReason::PlannedFailoverFailed,
        ],
        Outcome::ManualRecoveryRequired => &[EventReason::PlannedFailoverManualRecoveryRequired],
    }
}

fn summary(message: &str, outcome: Outcome, reason: Option<Reason>) -> String {
    match reason {
        Some(reason) => format!("{outcome} ({reason}): {message}"),
        None => message.to_owned(),
    }
}

/// Success: the terminal record together with `status.lastFailover`, which never moves to an older time (PF-PUB-03).
pub(super) fn succeeded(group: &Group, run: &PlannedFailover, now: Timestamp) -> Step {
    let warnings = warnings(run, Outcome::Succeeded, Vec::new());
    let mut message = format!("promoted \"{}\"", run.target_site);
    if !warnings.is_empty() {
        let list = warnings
            .iter()
            .map(|warning| warning.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        message = format!("{message} (warnings: {list})");
    }
    let record = run
        .promotion
        .as_ref()
        .and_then(|promotion| promotion.confirmation_time)
        .map(|time| bloodraven_types::group::FailoverRecord {
            time,
            target: run.target_site.clone(),
            promotion_gtid_executed: run.fence.as_ref().and_then(|fence| fence.gtid_set.clone()),
        });
    let ending = End {
        outcome: Outcome::Succeeded,
        reason: None,
        warnings: Vec::new(),
        message,
        ambiguous_sites: Vec::new(),
    };
    let mut step = end(group, run.clone(), ending, now);
    if let (Write::Status(status), Some(record)) = (&mut step.write, record) {
        let older = history::failover_record(group)
            .ok()
            .flatten()
            .is_some_and(|last| last.time > record.time);
        if !older {
            status.last_failover = Some(record);
        }
    }
    step
}
