//! `Admitting` and `Deferred`: the run owns nothing and waits for the claim.

use bloodraven_types::annotation::{self, PlannedFailoverRequest};
use bloodraven_types::command::{Command, ProbeGrant};
use bloodraven_types::fact::Granted;
use bloodraven_types::group::{ClaimKind, ClaimStatus};
use bloodraven_types::record::{Admission, Fence, PlannedFailover};
use bloodraven_types::words::{DeferReason, OnCooldown};
use bloodraven_types::{EventReason, Group, Phase, Reason, StepState, Timestamp, WaitReason, Warning};

use super::request::{self, Refusal, Settlement, settlement, validate};
use super::{AdmissionFact, Effect, Illegal, Input, Step, Verdict, Write, ending, illegal};
use crate::history;

/// Only a validated run asks for the claim.
pub(super) fn commands(_: &Group, run: &PlannedFailover) -> Vec<Command> {
    match (run.admission.validation_time, run.admission.deadline_time) {
        (Some(_), Some(deadline)) => vec![Command::ProbeGrant(ProbeGrant {
            target: run.target_site.clone(),
            deadline,
        })],
        (Some(_) | None, _) => Vec::new(),
    }
}

pub(super) fn admitting(
    group: &Group,
    run: &PlannedFailover,
    input: Input,
    now: Timestamp,
) -> Result<Verdict, Illegal> {
    match input {
        Input::Admission(AdmissionFact::Granted(granted)) => Ok(granted_now(group, run, &granted, now)),
        Input::Admission(AdmissionFact::Waiting(waiting)) => Ok(match judged(group, run, now) {
            Ok(()) => wait(group, run, waiting.reason, &waiting.detail),
            // One voice at a time: what the object itself says goes first, or the two would take turns on the record.
            Err(refusal) => refuse(group, run, refusal, now),
        }),
        Input::Admission(AdmissionFact::Refused(refused)) => Ok(Verdict::Write(ending::not_started(
            group,
            run.clone(),
            refused.reason,
            &refused.detail,
            now,
        ))),
        Input::Tick => Ok(pass(group, run, now)),
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Cache(_)
        | Input::Promotion(_)
        | Input::Rollback(_)
        | Input::Published(_)) => Err(illegal(run, &other)),
    }
}

pub(super) fn deferred(group: &Group, run: &PlannedFailover, input: Input, now: Timestamp) -> Result<Verdict, Illegal> {
    match input {
        Input::Cancelled => Ok(cancelled(group, run, now)),
        Input::Tick => {
            let due = run.admission.retry_time.is_none_or(|retry| now >= retry);
            if group.annotation(annotation::PLANNED_FAILOVER).is_none() {
                Ok(cancelled(group, run, now))
            } else if due || settlement(group, Some(run.start_time), now) != Settlement::Settled {
                // A failover in flight moves it on too: what it waits for then is that failover's end (PF-ADM-10).
                Ok(resume(group, run, now))
            } else {
                Ok(Verdict::nothing())
            }
        }
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Cache(_)
        | Input::Promotion(_)
        | Input::Rollback(_)
        | Input::Published(_)) => Err(illegal(run, &other)),
    }
}

/// One look at a waiting run: its deadline, its validation, its annotation (PF-ADM-03, PF-ADM-04).
fn pass(group: &Group, run: &PlannedFailover, now: Timestamp) -> Verdict {
    match judged(group, run, now) {
        Ok(()) => accepted(group, run, now),
        Err(refusal) => refuse(group, run, refusal, now),
    }
}

/// Whether the run may go on as this read of the object shows it.
fn judged(group: &Group, run: &PlannedFailover, now: Timestamp) -> Result<(), Refusal> {
    if run.admission.deadline_time.is_some_and(|deadline| now >= deadline) {
        let detail = match (run.admission.wait_reason, &run.admission.wait_detail) {
            (Some(reason), Some(detail)) => format!("the claim was not granted; last wait reason {reason}: {detail}"),
            (Some(reason), None) => format!("the claim was not granted; last wait reason {reason}"),
            (None, _) => "the claim was not granted".to_owned(),
        };
        return Err(Refusal::Reject {
            reason: Reason::AdmissionTimeout,
            detail,
        });
    }
    if let Settlement::Unsettled { detail } = settlement(group, Some(run.start_time), now) {
        return Err(Refusal::Wait {
            reason: WaitReason::AuthorityUnsettled,
            detail,
        });
    }
    // A request that waited before its validation still has its annotation, and with it what it expects (X-CAS-01).
    let refusal = own_request(group, run)
        .filter(|_| run.admission.validation_time.is_none())
        .and_then(|request| request::unexpected_active_site(group, &request));
    match refusal {
        Some(refusal) => Err(refusal),
        None => validate(group, &run.target_site, now),
    }
}

/// The copy of the run's own request that still stands, when there is one.
fn own_request(group: &Group, run: &PlannedFailover) -> Option<PlannedFailoverRequest> {
    group
        .annotation(annotation::PLANNED_FAILOVER)
        .and_then(|value| PlannedFailoverRequest::parse(value).ok())
        .filter(|request| ending::is_own_copy(run, request))
}

/// Validation accepts: the first time that is recorded, and from then on a copy of the request is removed (PF-REQ-10).
fn accepted(group: &Group, run: &PlannedFailover, now: Timestamp) -> Verdict {
    if run.admission.validation_time.is_none() {
        let mut run = run.clone();
        run.admission.validation_time = Some(now);
        run.admission.wait_reason = None;
        run.admission.wait_detail = None;
        run.message = format!(
            "admitting: asking for the claim to move the primary to \"{}\"",
            run.target_site
        );
        return Verdict::Write(Step::status(group, run).then(Input::Tick));
    }
    if own_request(group, run).is_some() {
        Verdict::Write(request::removal(Vec::new()))
    } else {
        Verdict::nothing()
    }
}

fn refuse(group: &Group, run: &PlannedFailover, refusal: Refusal, now: Timestamp) -> Verdict {
    match refusal {
        Refusal::Reject { reason, detail } => {
            Verdict::Write(ending::not_started(group, run.clone(), reason, &detail, now))
        }
        Refusal::Wait { reason, detail } => wait(group, run, reason, &detail),
        Refusal::Cooldown { until } => {
            let detail = request::cooldown_detail(group, until);
            let may_defer = run.admission.validation_time.is_none()
                && group.annotation(annotation::PLANNED_FAILOVER).is_some()
                && group.spec.planned_failover.on_cooldown == OnCooldown::Defer;
            if may_defer {
                // It waited before its first validation and still has its annotation (PF-ADM-06).
                return Verdict::Write(defer(group, run, until, &detail));
            }
            Verdict::Write(ending::not_started(
                group,
                run.clone(),
                Reason::CooldownActive,
                &detail,
                now,
            ))
        }
    }
}

fn defer(group: &Group, run: &PlannedFailover, until: Timestamp, detail: &str) -> Step {
    let mut run = run.clone();
    run.phase = Phase::Deferred;
    run.admission = Admission {
        defer_reason: Some(DeferReason::CooldownActive),
        retry_time: Some(until),
        ..Admission::default()
    };
    run.message = format!("deferred: {detail}");
    let message = run.message.clone();
    Step::status(group, run)
        .event(EventReason::PlannedFailoverDeferred, message)
        .effect(Effect::Deferred {
            reason: DeferReason::CooldownActive,
        })
}

fn cancelled(group: &Group, run: &PlannedFailover, now: Timestamp) -> Verdict {
    if group.annotation(annotation::PLANNED_FAILOVER).is_some() {
        return Verdict::nothing();
    }
    let detail = "the annotation was removed while the request was deferred";
    Verdict::Write(ending::not_started(group, run.clone(), Reason::Canceled, detail, now))
}

/// The deferral is over: the run takes whatever the annotation says now, with a fresh deadline (PF-REQ-07, PF-SET-02).
fn resume(group: &Group, run: &PlannedFailover, now: Timestamp) -> Verdict {
    let Some(value) = group.annotation(annotation::PLANNED_FAILOVER) else {
        return Verdict::nothing();
    };
    let request = match PlannedFailoverRequest::parse(value) {
        Ok(request) => request,
        Err(error) => {
            let detail = error.to_string();
            let mut step = ending::not_started(group, run.clone(), Reason::InvalidAnnotation, &detail, now);
            step.then = Some(Input::RemoveRequest {
                value: value.to_owned(),
            });
            return Verdict::Write(step);
        }
    };
    let mut fresh = request::new_run(group, run.run_id, &request, now);
    fresh.revision = run.revision;
    fresh.start_time = run.start_time;
    fresh.message = format!("resumed after a deferral to move the primary to \"{}\"", request.target);
    let message = fresh.message.clone();
    Verdict::Write(
        Step::status(group, fresh)
            .event(EventReason::PlannedFailoverStarted, message)
            .then(Input::Tick),
    )
}

/// Records a wait only when its reason or detail is another one (PF-ADM-12).
fn wait(group: &Group, run: &PlannedFailover, reason: WaitReason, detail: &str) -> Verdict {
    let same = run.admission.wait_reason == Some(reason) && run.admission.wait_detail.as_deref() == Some(detail);
    if same {
        return Verdict::nothing();
    }
    let mut run = run.clone();
    run.admission.wait_reason = Some(reason);
    run.admission.wait_detail = Some(detail.to_owned());
    run.message = format!("admission waiting ({reason}): {detail}");
    let message = run.message.clone();
    Verdict::Write(Step::status(group, run).event(EventReason::PlannedFailoverAdmissionDelayed, message))
}

/// The probes passed: judge once more against this read, then take the claim and announce the fence in one write (PF-FEN-01).
fn granted_now(group: &Group, run: &PlannedFailover, granted: &Granted, now: Timestamp) -> Verdict {
    if run.admission.validation_time.is_none() {
        // Nothing was asked of the claim's probes yet: a straggler of an earlier wait.
        return pass(group, run, now);
    }
    if let Err(refusal) = judged(group, run, now) {
        return refuse(group, run, refusal, now);
    }
    if group.status.active_site.as_ref() != Some(&granted.source) {
        let detail = format!(
            "the probes found \"{}\" writable, the status names another site",
            granted.source
        );
        return wait(group, run, WaitReason::AuthorityUnsettled, &detail);
    }
    let baseline = match history::baseline(group) {
        Ok(baseline) => baseline,
        Err(error) => {
            let detail = error.to_string();
            let step = ending::not_started(group, run.clone(), Reason::InvalidFailoverState, &detail, now);
            return Verdict::Write(step);
        }
    };
    let mut run = run.clone();
    run.phase = Phase::Fencing;
    run.source_site = Some(granted.source.clone());
    run.claim_time = Some(now);
    run.claim_baseline = Some(baseline);
    run.admission = Admission {
        deadline_time: run.admission.deadline_time,
        ..Admission::default()
    };
    run.fence = Some(Fence {
        state: StepState::Intended,
        intent_time: now,
        source_server_uuid: granted.source_server_uuid,
        apply_time: None,
        gtid_set: None,
        warnings: if granted.unreachable_readers.is_empty() {
            Vec::new()
        } else {
            vec![Warning::UnreachablePeers]
        },
    });
    run.message = format!("fencing \"{}\"", granted.source);
    let message = format!(
        "claim granted to planned failover {}: \"{}\" to \"{}\"",
        run.run_id, granted.source, run.target_site
    );
    let holder = run.run_id.to_string();
    let mut step = Step::status(group, run).event(EventReason::PlannedFailoverClaimGranted, message);
    if let Write::Status(status) = &mut step.write {
        status.claim = Some(ClaimStatus {
            epoch: group.epoch().next(),
            kind: Some(ClaimKind::PlannedFailover),
            holder: Some(holder),
            since: Some(now),
        });
    }
    Verdict::Write(step)
}
