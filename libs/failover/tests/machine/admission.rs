//! Admission: validation, waits, deadlines, cooldowns, and what an earlier run left.

use bloodraven_failover::{Input, Refusal, planned};
use bloodraven_types::annotation::{LAST_FAILOVER, PLANNED_FAILOVER};
use bloodraven_types::fact::UnfenceObstacle;
use bloodraven_types::group::{ClaimKind, ClaimStatus};
use bloodraven_types::words::{DeferReason, OnCooldown};
use bloodraven_types::{
    Command, Epoch, EventReason, Outcome, Phase, Reason, SiteRole, SiteState, Span, WaitReason, Warning,
};

use crate::kit::{AMS, FRA, IAD, PDX, World, at, facts, groups, site};

fn not_started(reason: Reason) -> (Outcome, Option<Reason>) {
    (Outcome::NotStarted, Some(reason))
}

/// Only a candidate of the spec can be a target. spec: PF-ADM-01, PF-ADM-15
#[test]
fn only_candidates_are_targets() {
    for (target, reason) in [
        (FRA, Reason::TargetNotPromotable),
        (AMS, Reason::TargetNotPromotable),
        ("nowhere", Reason::UnknownSite),
    ] {
        let mut world = World::orders();
        world.annotate(target);
        assert_eq!(world.ending(), not_started(reason), "{target}");
        assert!(world.run().message.contains(target));
        assert!(!world.request_stands());
        assert!(world.run().fence.is_none() && world.run().source_site.is_none());
    }
}

/// Each refusal of the validation ends the run with its reason, at the request and at a later pass alike.
/// spec: PF-ADM-02, PF-ADM-03, PF-ADM-15
#[test]
fn each_refusal_ends_the_run_with_its_reason() {
    type Cause = fn(&mut World);
    let causes: [(Reason, Cause); 6] = [
        (Reason::DivergentTarget, |world| {
            groups::status_of(&mut world.group, PDX).divergent_gtid = Some("x:1".to_owned());
        }),
        (Reason::TargetUnhealthy, |world| {
            groups::status_of(&mut world.group, PDX).state = SiteState::Unreachable;
        }),
        (Reason::TargetUnhealthy, |world| {
            groups::status_of(&mut world.group, PDX).state = SiteState::Writable;
        }),
        (Reason::CooldownActive, |world| {
            groups::failed_over(&mut world.group, IAD, world.now - 298)
        }),
        (Reason::InvalidFailoverState, |world| {
            groups::annotate_failover(&mut world.group, "yesterday", IAD);
        }),
        (Reason::TargetNotPromotable, |world| {
            groups::spec_of(&mut world.group, PDX).role = SiteRole::DisasterRecovery;
        }),
    ];
    for (reason, cause) in causes {
        let mut world = World::orders();
        cause(&mut world);
        world.annotate(PDX);
        assert_eq!(world.ending(), not_started(reason), "at the request");
        assert_eq!(world.count(EventReason::PlannedFailoverRejected), 1);

        let mut world = World::orders();
        world.annotate(PDX);
        cause(&mut world);
        world.tick_after(1);
        assert_eq!(world.ending(), not_started(reason), "at a later pass");
    }
}

/// The refusals that the probes find end the run with the reason that they tell. spec: PF-ADM-02, PF-ADM-15
#[test]
fn a_told_refusal_ends_the_run() {
    for reason in [
        Reason::KeyringRotation,
        Reason::ConcurrentOperation,
        Reason::TargetUnhealthy,
    ] {
        let mut world = World::at_phase(Phase::Admitting);
        world.tell(facts::refused(reason));
        assert_eq!(world.ending(), not_started(reason));
    }
}

/// A target that became active while the request waited is told so. spec: PF-ADM-10, PF-ADM-15
#[test]
fn a_target_that_was_just_promoted_is_already_active() {
    let mut world = World::orders();
    world.group.status.active_site = None;
    world.annotate(PDX);
    world.group.status.active_site = Some(site(PDX));
    groups::failed_over(&mut world.group, PDX, 3);
    world.tick_after(4);
    assert_eq!(world.ending(), not_started(Reason::AlreadyActive));
}

/// While a failover is in flight nothing is validated: the request waits, and is judged once authority settles.
/// spec: PF-ADM-10, PF-ADM-12
#[test]
fn unsettled_authority_is_waited_for() {
    // The record is ahead of the status.
    let mut world = World::orders();
    groups::failed_over(&mut world.group, FRA, -60);
    groups::status_of(&mut world.group, PDX).state = SiteState::Unreachable;
    world.annotate(PDX);
    assert_eq!(world.run().admission.wait_reason, Some(WaitReason::AuthorityUnsettled));
    // The record is older than two minutes: it says nothing any more.
    let mut world = World::orders();
    groups::failed_over(&mut world.group, FRA, -400);
    world.annotate(PDX);
    assert_eq!(world.run().admission.wait_reason, None);
    // A waiting run is unsettled by a record that is newer than itself.
    groups::failed_over(&mut world.group, FRA, 10);
    world.tick_after(11);
    assert_eq!(world.run().admission.wait_reason, Some(WaitReason::AuthorityUnsettled));
    world.group.status.active_site = Some(site(FRA));
    groups::spec_of(&mut world.group, FRA).role = SiteRole::PrimaryCandidate;
    world.tick_after(1);
    assert_eq!(world.ending(), not_started(Reason::CooldownActive));
}

/// A refusal that needs no status is given at once, however unsettled authority is. spec: PF-ADM-10
#[test]
fn a_request_only_refusal_waits_for_nothing() {
    let mut world = World::orders();
    world.group.status.active_site = None;
    world.annotate("nowhere");
    assert_eq!(world.ending(), not_started(Reason::UnknownSite));
}

/// The admission deadline is two minutes from entering Admitting, and the end names the last wait reason. spec: PF-ADM-04
#[test]
fn an_ungranted_request_ends_after_two_minutes() {
    let mut world = World::at_phase(Phase::Admitting);
    assert_eq!(world.run().admission.deadline_time, Some(at(120)));
    world.tell(facts::waiting(
        WaitReason::PeerUnreadable,
        "site \"fra\" does not answer",
    ));
    world.tick_after(119);
    assert_eq!(world.phase(), Phase::Admitting);
    world.tick_after(1);
    assert_eq!(world.ending(), not_started(Reason::AdmissionTimeout));
    assert!(world.run().message.contains("PeerUnreadable"));
    assert!(world.run().message.contains("site \"fra\" does not answer"));
}

/// A grant that comes after the deadline is no grant. spec: PF-ADM-04
#[test]
fn a_late_grant_is_no_grant() {
    let mut world = World::at_phase(Phase::Admitting);
    world.after(120);
    world.tell(facts::granted());
    assert_eq!(world.ending(), not_started(Reason::AdmissionTimeout));
}

/// Under Reject the cooldown ends the request, to the second; one second later it does not. spec: PF-ADM-05
#[test]
fn a_cooldown_rejects() {
    let mut world = World::orders();
    groups::failed_over(&mut world.group, IAD, -299);
    world.annotate(PDX);
    assert_eq!(world.ending(), not_started(Reason::CooldownActive));
    let mut world = World::orders();
    groups::failed_over(&mut world.group, IAD, -300);
    world.annotate(PDX);
    assert_eq!(world.phase(), Phase::Admitting);
}

/// A failover that only the annotations record starts a cooldown too. spec: PF-ADM-05
#[test]
fn a_cooldown_is_read_from_the_annotations_too() {
    let mut world = World::orders();
    groups::annotate_failover(&mut world.group, &at(-299).to_string(), IAD);
    groups::failed_over(&mut world.group, IAD, -5000);
    world.annotate(PDX);
    assert_eq!(world.ending(), not_started(Reason::CooldownActive));
}

/// Under Defer the request waits for the cooldown's end and then has two minutes of its own. spec: PF-ADM-05, PF-OBS-03
#[test]
fn a_cooldown_defers() {
    let mut world = World::orders();
    world.group.spec.planned_failover.on_cooldown = OnCooldown::Defer;
    groups::failed_over(&mut world.group, IAD, -100);
    world.annotate(PDX);
    assert_eq!(world.phase(), Phase::Deferred);
    assert_eq!(world.run().admission.defer_reason, Some(DeferReason::CooldownActive));
    assert_eq!(world.run().admission.retry_time, Some(at(200)));
    assert_eq!(world.run().admission.deadline_time, None);
    assert!(world.request_stands());
    assert_eq!(world.count(EventReason::PlannedFailoverDeferred), 1);
    let deferred = bloodraven_failover::Effect::Deferred {
        reason: DeferReason::CooldownActive,
    };
    assert!(world.effects.contains(&deferred));
    world.tick_after(199);
    assert_eq!(world.phase(), Phase::Deferred);
    world.tick_after(1);
    assert_eq!(world.phase(), Phase::Admitting);
    assert_eq!(world.run().admission.deadline_time, Some(at(320)));
    assert_eq!(world.run().start_time, at(0), "the run began when it got its id");
    assert_eq!(world.count(EventReason::PlannedFailoverStarted), 1);
    assert!(matches!(world.command(), Command::ProbeGrant(_)));
}

/// A run that waited before its first validation and still has its annotation is deferred by a cooldown; one that was
/// validated already ends. spec: PF-ADM-06
#[test]
fn a_cooldown_found_while_waiting_defers_only_before_the_validation() {
    let mut world = World::orders();
    world.group.spec.planned_failover.on_cooldown = OnCooldown::Defer;
    world.group.status.active_site = None;
    world.annotate(PDX);
    world.group.status.active_site = Some(site(IAD));
    groups::failed_over(&mut world.group, IAD, 2);
    world.tick_after(5);
    assert_eq!(world.phase(), Phase::Deferred);
    assert_eq!(world.run().admission.retry_time, Some(at(302)));
    assert!(world.request_stands());

    let mut world = World::orders();
    world.group.spec.planned_failover.on_cooldown = OnCooldown::Defer;
    world.annotate(PDX);
    groups::failed_over(&mut world.group, IAD, 2);
    world.tick_after(5);
    assert_eq!(world.ending(), not_started(Reason::CooldownActive));

    let mut world = World::orders();
    world.group.spec.planned_failover.on_cooldown = OnCooldown::Defer;
    world.group.status.active_site = None;
    world.annotate(PDX);
    world.remove_request();
    world.group.status.active_site = Some(site(IAD));
    groups::failed_over(&mut world.group, IAD, 2);
    world.tick_after(5);
    assert_eq!(
        world.ending(),
        not_started(Reason::CooldownActive),
        "without its annotation"
    );
}

/// A failover in flight moves a deferred run on to wait for it, with two minutes of its own. spec: PF-ADM-10
#[test]
fn a_failover_in_flight_moves_a_deferred_run_on() {
    let mut world = World::at_phase(Phase::Deferred);
    world.group.status.active_site = None;
    world.tick_after(10);
    assert_eq!(world.phase(), Phase::Admitting);
    assert_eq!(world.run().admission.wait_reason, Some(WaitReason::AuthorityUnsettled));
    assert_eq!(world.run().admission.deadline_time, Some(at(130)));
    assert!(world.request_stands());
}

/// A wait is written, and told, only when its reason or its detail is another one. spec: PF-ADM-12 report: B28
#[test]
fn a_wait_is_written_only_when_it_changes() {
    let mut world = World::at_phase(Phase::Admitting);
    for _ in 0..100 {
        world.tell(facts::waiting(
            WaitReason::TargetNotReady,
            "target \"pdx\" has an applier error: 1062",
        ));
    }
    assert_eq!(world.count(EventReason::PlannedFailoverAdmissionDelayed), 1);
    let revision = world.run().revision;
    world.tell(facts::waiting(WaitReason::TargetNotReady, "something else"));
    assert_eq!(world.count(EventReason::PlannedFailoverAdmissionDelayed), 2);
    assert_eq!(world.run().revision, revision.next());
    world.tell(facts::waiting(WaitReason::PeerUnreadable, "something else"));
    assert_eq!(world.count(EventReason::PlannedFailoverAdmissionDelayed), 3);
    assert!(!EventReason::PlannedFailoverAdmissionDelayed.is_warning());
}

/// What the object says and what the probes say do not take turns on the record. spec: PF-ADM-12
#[test]
fn two_reasons_to_wait_are_no_quarrel() {
    let mut world = World::at_phase(Phase::Admitting);
    world.group.status.active_site = None;
    for _ in 0..20 {
        world.tick();
        world.tell(facts::waiting(WaitReason::PeerUnreadable, "no answer"));
    }
    assert_eq!(world.count(EventReason::PlannedFailoverAdmissionDelayed), 1);
    assert_eq!(world.run().admission.wait_reason, Some(WaitReason::AuthorityUnsettled));
}

/// Each other holder of the claim makes the request wait with its own reason, and a grant that was found before does not
/// take the claim from it, not even after the wait is on the record. spec: PF-ADM-12, PF-CLM-01 report: B37
#[test]
fn another_holder_is_waited_for() {
    for (kind, reason) in [
        (ClaimKind::Emergency, WaitReason::PromotionInFlight),
        (ClaimKind::Update, WaitReason::UpdateInFlight),
        (ClaimKind::Restore, WaitReason::RestoreInFlight),
        (ClaimKind::Bootstrap, WaitReason::BootstrapInFlight),
        (ClaimKind::KeyringRotation, WaitReason::KeyringRotation),
        (ClaimKind::Recovery, WaitReason::RecoveryInFlight),
        (ClaimKind::DragonflyUpgrade, WaitReason::DragonflyUpgradeInFlight),
    ] {
        let claim = ClaimStatus {
            epoch: Epoch::new(4),
            kind: Some(kind),
            holder: Some("topology-manager-0".to_owned()),
            since: Some(at(0)),
        };
        let mut world = World::at_phase(Phase::Admitting);
        world.group.status.claim = Some(claim.clone());
        world.tick();
        assert_eq!(world.run().admission.wait_reason, Some(reason));
        for _ in 0..2 {
            world.tell(facts::granted());
            assert_eq!(world.phase(), Phase::Admitting, "{reason}");
        }
        world.tick_after(120);
        assert_eq!(world.ending(), not_started(Reason::AdmissionTimeout));
        assert_eq!(
            world.group.status.claim,
            Some(claim),
            "the end releases nobody else's claim"
        );

        let mut world = World::orders();
        world.group.status.claim = Some(ClaimStatus {
            holder: None,
            ..world.group.status.claim.clone().unwrap_or_default()
        });
        world.group.status.claim.as_mut().unwrap().kind = Some(kind);
        world.annotate(PDX);
        assert_eq!(
            world.run().admission.wait_reason,
            Some(reason),
            "from the first write on"
        );
        assert!(world.request_stands(), "it was not validated");
    }
}

/// A target that nobody has observed yet is waited for. spec: PF-ADM-12
#[test]
fn an_unobserved_target_is_waited_for() {
    let mut world = World::orders();
    groups::status_of(&mut world.group, PDX).state = SiteState::Unknown;
    world.annotate(PDX);
    assert_eq!(world.run().admission.wait_reason, Some(WaitReason::ManagerNotReady));
}

/// Without a validated run nobody is asked to probe for the claim, and a grant of an earlier wait only validates.
/// spec: PF-CLM-03, PF-ADM-03
#[test]
fn only_a_validated_run_asks_for_the_claim() {
    let mut world = World::orders();
    world.group.status.active_site = None;
    world.annotate(PDX);
    assert_eq!(world.commands(), []);
    world.group.status.active_site = Some(site(IAD));
    world.tell(facts::granted());
    assert_eq!(world.phase(), Phase::Admitting);
    assert!(matches!(world.command(), Command::ProbeGrant(_)));
}

/// A grant is judged against the object once more: what was not so when the probes ran counts. spec: PF-ADM-03
#[test]
fn a_grant_is_judged_against_the_object() {
    let mut world = World::at_phase(Phase::Admitting);
    world.group.status.active_site = None;
    world.tell(facts::granted());
    assert_eq!(world.run().admission.wait_reason, Some(WaitReason::AuthorityUnsettled));
    world.tell(facts::granted());
    assert_eq!(world.phase(), Phase::Admitting, "the same wait again is no acceptance");

    let mut world = World::at_phase(Phase::Admitting);
    groups::spec_of(&mut world.group, FRA).role = SiteRole::PrimaryCandidate;
    world.group.status.active_site = Some(site(FRA));
    world.tell(facts::granted());
    assert_eq!(world.run().admission.wait_reason, Some(WaitReason::AuthorityUnsettled));
    assert!(world.run().fence.is_none());
}

/// While the last run's own fence has not healed a new request is refused by Event alone, and its block stays.
/// spec: PF-ADM-16
#[test]
fn an_unhealed_fence_refuses_the_next_request() {
    let mut world = left_fenced();
    let (old, run_id) = (world.run().clone(), world.run().run_id);
    world.annotate(PDX);
    assert_eq!(*world.run(), old);
    assert!(!world.request_stands());
    assert_eq!(
        world.event(EventReason::PlannedFailoverRejected),
        format!(
            "planned failover refused: planned failover {run_id} left source \"iad\" fenced and the fence has not healed \
             yet; the topology manager re-asserts it, or unfence it by hand, then re-annotate"
        )
    );
}

/// The fence has healed once the source is seen writable or a failover was recorded after the run began. spec: PF-ADM-16
#[test]
fn a_healed_fence_refuses_nothing() {
    let mut world = left_fenced();
    groups::status_of(&mut world.group, IAD).state = SiteState::Writable;
    world.annotate(PDX);
    assert_eq!(world.phase(), Phase::Admitting);

    let mut world = left_fenced();
    groups::failed_over(&mut world.group, PDX, 30);
    world.group.status.active_site = Some(site(PDX));
    groups::status_of(&mut world.group, PDX).state = SiteState::Writable;
    world.after(400);
    world.annotate(IAD);
    assert_eq!(world.phase(), Phase::Admitting);
}

/// A fence that is not the run's is nobody's to wait for. spec: PF-ADM-16
#[test]
fn an_unattributable_fence_refuses_nothing() {
    let mut world = World::at_phase(Phase::RollingBack);
    world.tell(facts::unfence_failed(UnfenceObstacle::FenceNotAttributable));
    assert_eq!(world.warnings(), [Warning::FenceNotAttributable]);
    groups::status_of(&mut world.group, IAD).state = SiteState::ReadOnly;
    world.annotate(PDX);
    assert_eq!(world.phase(), Phase::Admitting);
}

fn left_fenced() -> World {
    let mut world = World::at_phase(Phase::RollingBack);
    world.tell(facts::unfence_failed(UnfenceObstacle::StatementsFailed));
    assert_eq!(world.ending().0, Outcome::SourceLeftFenced);
    groups::status_of(&mut world.group, IAD).state = SiteState::ReadOnly;
    world
}

/// A run binds the settings that stood when it was accepted: an edit of the spec changes nothing. spec: PF-SET-02
#[test]
fn an_edit_of_the_spec_does_not_change_a_run() {
    let mut world = World::at_phase(Phase::Fencing);
    let settings = world.run().settings.clone();
    world.group.spec.planned_failover.max_lag_wait = Span::seconds(1);
    world.group.spec.planned_failover.drain_timeout = Span::seconds(1);
    groups::with_cache(&mut world.group, bloodraven_types::words::OnSyncTimeout::Fail);
    world.tell(facts::fenced());
    world.tell(facts::drained());
    assert_eq!(world.run().settings, settings);
    let Command::AwaitCatchUp(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!(command.deadline, at(300));
    world.tell(facts::caught_up());
    assert_eq!(
        world.phase(),
        Phase::Promoting,
        "no cache at acceptance, no cache in the run"
    );
}

/// The public judgement says the same as the machine does.
#[test]
fn validate_is_the_machines_own_judgement() {
    let mut group = groups::orders();
    assert_eq!(planned::validate(&group, &site(PDX), at(0)), Ok(()));
    groups::failed_over(&mut group, IAD, 0);
    assert_eq!(
        planned::validate(&group, &site(PDX), at(1)),
        Err(Refusal::Cooldown { until: at(300) })
    );
    group.annotations.insert(LAST_FAILOVER.to_owned(), "junk".to_owned());
    assert_eq!(
        planned::validate(&group, &site(PDX), at(1)),
        Err(Refusal::Cooldown { until: at(300) }),
        "an invalid copy beside a valid one is no change"
    );
}

/// A tick without a run, and a request whose annotation is gone, do nothing.
#[test]
fn nothing_comes_of_nothing() {
    let mut world = World::orders();
    world.tick();
    world.write_request(PDX);
    let request = world.request();
    world.remove_request();
    world.input(request).unwrap();
    assert!(world.group.run().is_none() && world.writes == 0);
    assert!(world.group.annotation(PLANNED_FAILOVER).is_none());
    assert!(world.input(Input::Cancelled).is_err());
}
