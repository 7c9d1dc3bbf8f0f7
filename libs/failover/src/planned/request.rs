//! A request: what an annotation asks for, judged against one read of the object.

use bloodraven_types::annotation::{self, PlannedFailoverRequest, RequestError};
use bloodraven_types::group::ClaimKind;
use bloodraven_types::record::{Admission, DragonflySettings, PlannedFailover, Settings};
use bloodraven_types::words::{DeferReason, OnCooldown};
use bloodraven_types::{
    EventReason, Group, Outcome, Phase, Reason, Revision, RunId, SiteName, SiteRole, SiteState, Timestamp, WaitReason,
    Warning,
};

use super::{Effect, Step, Verdict, Write, ending};
use crate::claim::{self, Claim};
use crate::deadlines;
use crate::history;

/// Why a request cannot begin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Waiting cannot cure it: the run ends NotStarted.
    Reject {
        /// Why.
        reason: Reason,
        /// What exactly.
        detail: String,
    },
    /// A failover was recorded within the cooldown.
    Cooldown {
        /// When it is over.
        until: Timestamp,
    },
    /// It may pass: the run waits.
    Wait {
        /// Why.
        reason: WaitReason,
        /// What exactly.
        detail: String,
    },
}

/// Whether the status that validation reads means anything now (PF-ADM-10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It does.
    Settled,
    /// A failover is in flight.
    Unsettled {
        /// What exactly.
        detail: String,
    },
}

/// What `value` makes of the object: a new run, a refusal, or the removal of the annotation.
pub(super) fn requested(group: &Group, run_id: RunId, value: &str, now: Timestamp) -> Verdict {
    if group.annotation(annotation::PLANNED_FAILOVER) != Some(value) {
        // The annotation was changed or removed since: the message is about something that is no longer asked for.
        return Verdict::nothing();
    }
    let request = match PlannedFailoverRequest::parse(value) {
        Ok(request) => request,
        Err(error) => {
            return rejected(
                RequestError::requested_site(value),
                format!("planned failover refused: {error}"),
            );
        }
    };
    if group.status.legacy_run.is_some() {
        let message = format!(
            "planned failover refused ({}): status.plannedFailover holds a block that this version did not write; check which \
             site is writable, remove the block, then annotate again",
            Reason::LegacyRunRefused
        );
        return rejected(request.target, message);
    }
    if let Some(run) = group.run().filter(|run| !run.phase.is_terminal()) {
        return beside_live_run(run, &request);
    }
    if group.run().is_some_and(|run| run.run_id == run_id) {
        // Its run has ended, and the process that ended it was killed before it removed the annotation.
        let message = format!("planned failover {run_id} has ended already; annotate again to ask for another one");
        return Verdict::Write(removal(vec![Effect::Event {
            reason: EventReason::PlannedFailoverRejected,
            message,
        }]));
    }
    if let Some(message) = held(group).or_else(|| unhealed(group)) {
        return rejected(request.target, message);
    }
    let settled = settlement(group, None, now);
    match (request_only(group, &request), settled) {
        (Some(Refusal::Reject { reason, detail }), _) => not_started(group, run_id, &request, reason, &detail, now),
        (_, Settlement::Unsettled { detail }) => {
            admit_waiting(group, run_id, &request, WaitReason::AuthorityUnsettled, detail, now)
        }
        (_, Settlement::Settled) if group.status.active_site.as_ref() == Some(&request.target) => skipped(&request),
        (_, Settlement::Settled) => match validate(group, &request.target, now) {
            Ok(()) => admit(group, run_id, &request, now),
            Err(refusal) => refused(group, run_id, &request, refusal, now),
        },
    }
}

/// Judges a request against the status, once that is settled (PF-ADM-02).
///
/// # Errors
/// Says why the request cannot begin.
pub fn validate(group: &Group, target: &SiteName, now: Timestamp) -> Result<(), Refusal> {
    let reject = |reason, detail: String| Err(Refusal::Reject { reason, detail });
    match group.site(target).map(|site| site.role) {
        None => return reject(Reason::UnknownSite, format!("site \"{target}\" is not in spec.sites")),
        Some(SiteRole::DisasterRecovery | SiteRole::ReadOnly) => {
            return reject(
                Reason::TargetNotPromotable,
                format!("site \"{target}\" is no PrimaryCandidate"),
            );
        }
        Some(SiteRole::PrimaryCandidate) => {}
    }
    if group.status.active_site.as_ref() == Some(target) {
        return reject(
            Reason::AlreadyActive,
            format!("site \"{target}\" is the active site already"),
        );
    }
    let status = group.status.sites.iter().find(|site| site.name == target.as_str());
    if let Some(divergent) = status.and_then(|site| site.divergent_gtid.as_ref()) {
        return reject(
            Reason::DivergentTarget,
            format!("site \"{target}\" holds transactions that the primary does not: {divergent}"),
        );
    }
    match status.map(|site| site.state).unwrap_or_default() {
        SiteState::ReadOnly => {}
        SiteState::Unknown => {
            return Err(Refusal::Wait {
                reason: WaitReason::ManagerNotReady,
                detail: format!("site \"{target}\" has not been observed yet"),
            });
        }
        state @ (SiteState::Writable | SiteState::Unreachable) => {
            return reject(
                Reason::TargetUnhealthy,
                format!("site \"{target}\" is {state}, not a read-only replica"),
            );
        }
    }
    if let Some(refusal) = other_claimant(group) {
        return Err(refusal);
    }
    cooldown(group, now)
}

/// Whether the object's authority is settled. `run_start` is the waiting run's start, none for a new request.
pub fn settlement(group: &Group, run_start: Option<Timestamp>, now: Timestamp) -> Settlement {
    let Some(active) = &group.status.active_site else {
        return Settlement::Unsettled {
            detail: "no site is the unique writable primary".to_owned(),
        };
    };
    let Ok(Some(last)) = history::failover_record(group) else {
        return Settlement::Settled;
    };
    let recent = match run_start {
        Some(start) => last.time > start,
        None => now.since(last.time) < deadlines::UNSETTLED_AFTER_FAILOVER,
    };
    if recent && last.target != *active {
        let detail = format!(
            "a failover to \"{}\" is recorded while \"{active}\" is active",
            last.target
        );
        return Settlement::Unsettled { detail };
    }
    Settlement::Settled
}

/// The refusals that need no status.
fn request_only(group: &Group, request: &PlannedFailoverRequest) -> Option<Refusal> {
    let reject = |reason, detail| Some(Refusal::Reject { reason, detail });
    let target = &request.target;
    match group.site(target).map(|site| site.role) {
        None => return reject(Reason::UnknownSite, format!("site \"{target}\" is not in spec.sites")),
        Some(SiteRole::DisasterRecovery | SiteRole::ReadOnly) => {
            return reject(
                Reason::TargetNotPromotable,
                format!("site \"{target}\" is no PrimaryCandidate"),
            );
        }
        Some(SiteRole::PrimaryCandidate) => {}
    }
    unexpected_active_site(group, request)
}

/// The compare-and-set of a request (X-CAS-01): judged when it is first seen, and again when it is first validated.
pub(super) fn unexpected_active_site(group: &Group, request: &PlannedFailoverRequest) -> Option<Refusal> {
    let expected = request.expect.as_ref()?;
    let active = group.status.active_site.as_ref();
    if active == Some(expected) {
        return None;
    }
    let found = active.map_or("none", |site| site.as_str());
    Some(Refusal::Reject {
        reason: Reason::UnexpectedActiveSite,
        detail: format!("the request expects \"{expected}\" to be active, the active site is {found}"),
    })
}

fn beside_live_run(run: &PlannedFailover, request: &PlannedFailoverRequest) -> Verdict {
    let own_copy = ending::is_own_copy(run, request);
    let keeps_it = match run.phase {
        // A deferred run takes whatever the annotation says when it resumes (PF-REQ-07).
        Phase::Deferred => true,
        // Until validation decides, the annotation stays (PF-REQ-10).
        Phase::Admitting => own_copy && run.admission.validation_time.is_none(),
        Phase::Fencing
        | Phase::Draining
        | Phase::WaitingForLag
        | Phase::WaitingForDragonflySync
        | Phase::PromotingDragonfly
        | Phase::Promoting
        | Phase::Publishing
        | Phase::RollingBack
        | Phase::Succeeded
        | Phase::Failed => false,
    };
    if keeps_it {
        return Verdict::nothing();
    }
    if own_copy {
        return Verdict::Write(removal(Vec::new()));
    }
    let message = "planned-failover annotation ignored: a previous planned failover is still running".to_owned();
    rejected(request.target.clone(), message)
}

fn held(group: &Group) -> Option<String> {
    match claim::holder(group) {
        Claim::Held { run_id } => Some(format!(
            "planned failover refused ({}): the automation hold of run {run_id} stands; resolve it, then annotate {}={run_id}",
            Reason::ManualRecoveryPending,
            annotation::ACKNOWLEDGE_HOLD
        )),
        Claim::Free | Claim::Planned { .. } | Claim::Other { .. } => None,
    }
}

/// The latest run left its source fenced by its own fence, and that has not healed (PF-ADM-16).
fn unhealed(group: &Group) -> Option<String> {
    let run = group.run()?;
    let result = run.result.as_ref()?;
    let source = run.source_site.as_ref()?;
    let attributable = run.fence.is_some() && !result.warnings.contains(&Warning::FenceNotAttributable);
    let newer_failover = history::failover_record(group)
        .ok()
        .flatten()
        .is_some_and(|last| last.time > run.start_time);
    let observed_writable = group
        .status
        .sites
        .iter()
        .any(|site| site.name == source.as_str() && site.state == SiteState::Writable);
    let healed = observed_writable || newer_failover;
    (result.outcome == Outcome::SourceLeftFenced && attributable && !healed).then(|| {
        format!(
            "planned failover refused: planned failover {} left source \"{source}\" fenced and the fence has not healed \
             yet; the topology manager re-asserts it, or unfence it by hand, then re-annotate",
            run.run_id
        )
    })
}

/// Another actor that owns the sites. A planned run itself is no other actor: it is live or ended, and judged elsewhere.
fn other_claimant(group: &Group) -> Option<Refusal> {
    let (kind, holder) = match claim::holder(group) {
        Claim::Other { kind, holder } => (kind, holder),
        Claim::Held { run_id } => {
            return Some(Refusal::Reject {
                reason: Reason::ManualRecoveryPending,
                detail: format!("the automation hold of run {run_id} stands"),
            });
        }
        Claim::Free | Claim::Planned { .. } => return None,
    };
    let reason = match kind {
        ClaimKind::PlannedFailover => WaitReason::ClaimHeld,
        ClaimKind::Emergency => WaitReason::PromotionInFlight,
        ClaimKind::Update => WaitReason::UpdateInFlight,
        ClaimKind::Restore => WaitReason::RestoreInFlight,
        ClaimKind::Bootstrap => WaitReason::BootstrapInFlight,
        ClaimKind::KeyringRotation => WaitReason::KeyringRotation,
        ClaimKind::Recovery => WaitReason::RecoveryInFlight,
        ClaimKind::DragonflyUpgrade => WaitReason::DragonflyUpgradeInFlight,
    };
    Some(Refusal::Wait {
        reason,
        detail: format!("the claim is held by {holder}"),
    })
}

fn cooldown(group: &Group, now: Timestamp) -> Result<(), Refusal> {
    let last = match history::failover_record(group) {
        Ok(Some(last)) => last,
        Ok(None) => return Ok(()),
        Err(error) => {
            return Err(Refusal::Reject {
                reason: Reason::InvalidFailoverState,
                detail: error.to_string(),
            });
        }
    };
    let until = last.time.after(group.spec.failover_cooldown.get());
    if now < until {
        Err(Refusal::Cooldown { until })
    } else {
        Ok(())
    }
}

fn refused(
    group: &Group,
    run_id: RunId,
    request: &PlannedFailoverRequest,
    refusal: Refusal,
    now: Timestamp,
) -> Verdict {
    match refusal {
        Refusal::Reject { reason, detail } => not_started(group, run_id, request, reason, &detail, now),
        Refusal::Wait { reason, detail } => admit_waiting(group, run_id, request, reason, detail, now),
        Refusal::Cooldown { until } => match group.spec.planned_failover.on_cooldown {
            OnCooldown::Reject => {
                let detail = cooldown_detail(group, until);
                not_started(group, run_id, request, Reason::CooldownActive, &detail, now)
            }
            OnCooldown::Defer => defer(group, run_id, request, until, now),
        },
    }
}

pub(super) fn cooldown_detail(group: &Group, until: Timestamp) -> String {
    format!(
        "a failover was recorded within failoverCooldown ({}); it is over at {until}",
        group.spec.failover_cooldown
    )
}

/// The first record of a run: an id, the settings that bind it, and nothing owned.
pub(super) fn new_run(
    group: &Group,
    run_id: RunId,
    request: &PlannedFailoverRequest,
    now: Timestamp,
) -> PlannedFailover {
    let dragonfly = group.spec.dragonfly.as_ref().filter(|dragonfly| dragonfly.enabled);
    PlannedFailover {
        run_id,
        revision: Revision::default(),
        phase: Phase::Admitting,
        target_site: request.target.clone(),
        source_site: None,
        settings: Settings {
            max_lag_wait: request.max_lag_wait.unwrap_or(group.spec.planned_failover.max_lag_wait),
            drain_timeout: group.spec.planned_failover.drain_timeout,
            dragonfly: dragonfly.map(|dragonfly| DragonflySettings {
                max_sync_wait: dragonfly.planned_failover.max_sync_wait,
                on_sync_timeout: dragonfly.planned_failover.on_sync_timeout,
            }),
        },
        start_time: now,
        claim_time: None,
        claim_baseline: None,
        admission: Admission {
            deadline_time: Some(now.after(deadlines::ADMISSION)),
            ..Admission::default()
        },
        fence: None,
        drain: None,
        lag_wait: None,
        dragonfly: None,
        promotion: None,
        dns: None,
        rollback: None,
        result: None,
        message: String::new(),
    }
}

/// Accepted: the run waits for its claim, and its annotation goes.
fn admit(group: &Group, run_id: RunId, request: &PlannedFailoverRequest, now: Timestamp) -> Verdict {
    let mut run = new_run(group, run_id, request, now);
    run.admission.validation_time = Some(now);
    run.message = format!(
        "admitting: asking for the claim to move the primary to \"{}\"",
        request.target
    );
    let message = format!("planned failover {run_id} to \"{}\" accepted", request.target);
    Verdict::Write(
        Step::status(group, run)
            .event(EventReason::PlannedFailoverStarted, message)
            .then(super::Input::Tick),
    )
}

/// Admitted into a wait before its validation: the annotation stays until validation decides (PF-REQ-10).
fn admit_waiting(
    group: &Group,
    run_id: RunId,
    request: &PlannedFailoverRequest,
    reason: WaitReason,
    detail: String,
    now: Timestamp,
) -> Verdict {
    let mut run = new_run(group, run_id, request, now);
    run.message = format!("admission waiting ({reason}): {detail}");
    run.admission.wait_reason = Some(reason);
    run.admission.wait_detail = Some(detail);
    let message = run.message.clone();
    let started = format!("planned failover {run_id} to \"{}\" accepted", request.target);
    Verdict::Write(
        Step::status(group, run)
            .event(EventReason::PlannedFailoverStarted, started)
            .event(EventReason::PlannedFailoverAdmissionDelayed, message),
    )
}

fn defer(group: &Group, run_id: RunId, request: &PlannedFailoverRequest, until: Timestamp, now: Timestamp) -> Verdict {
    let mut run = new_run(group, run_id, request, now);
    run.phase = Phase::Deferred;
    run.message = format!("deferred: {}", cooldown_detail(group, until));
    run.admission = Admission {
        defer_reason: Some(DeferReason::CooldownActive),
        retry_time: Some(until),
        ..Admission::default()
    };
    let message = run.message.clone();
    Verdict::Write(
        Step::status(group, run)
            .event(EventReason::PlannedFailoverDeferred, message)
            .effect(Effect::Deferred {
                reason: DeferReason::CooldownActive,
            }),
    )
}

fn not_started(
    group: &Group,
    run_id: RunId,
    request: &PlannedFailoverRequest,
    reason: Reason,
    detail: &str,
    now: Timestamp,
) -> Verdict {
    let run = new_run(group, run_id, request, now);
    Verdict::Write(ending::not_started(group, run, reason, detail, now))
}

fn skipped(request: &PlannedFailoverRequest) -> Verdict {
    let message = format!("\"{}\" is the active site already", request.target);
    Verdict::Write(removal(vec![Effect::Event {
        reason: EventReason::PlannedFailoverSkipped,
        message,
    }]))
}

/// Refused without a block: an Event, a count, and the annotation goes.
fn rejected(target: SiteName, message: String) -> Verdict {
    Verdict::Write(removal(vec![
        Effect::Event {
            reason: EventReason::PlannedFailoverRejected,
            message,
        },
        Effect::Ended {
            target,
            outcome: Outcome::NotStarted,
            duration: None,
        },
    ]))
}

/// Removes the annotation when it still has the value that was judged.
pub(super) fn remove(group: &Group, value: &str) -> Verdict {
    if group.annotation(annotation::PLANNED_FAILOVER) == Some(value) {
        Verdict::Write(removal(Vec::new()))
    } else {
        Verdict::nothing()
    }
}

/// Removes the annotation. The write is conditioned on the version that was judged, so only that value goes (PF-REQ-08).
pub(super) fn removal(effects: Vec<Effect>) -> Step {
    let changes = [(annotation::PLANNED_FAILOVER.to_owned(), None)].into_iter().collect();
    Step {
        write: Write::Annotations(changes),
        effects,
        then: None,
    }
}
