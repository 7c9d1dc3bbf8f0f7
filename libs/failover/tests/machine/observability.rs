//! What people and dashboards are told.

use bloodraven_failover::Effect;
use bloodraven_types::fact::PromotionReach::{MayBeWritable, Writable};
use bloodraven_types::fact::UnfenceObstacle;
use bloodraven_types::words::OnSyncTimeout::Proceed;
use bloodraven_types::{EventReason, Outcome, Phase, Reason, StepState};
use serde_json::{Value, json};

use crate::kit::{IAD, PDX, World, at, facts, groups, site};

/// A run timed as the reference's example ends with the reference's block, name by name. Only the count of writes is our own.
/// spec: PF-OBS-06, PF-PUB-01
#[test]
fn the_references_example_is_our_block() {
    let mut world = World::with_cache(Proceed);
    groups::failed_over(&mut world.group, IAD, -105_676);
    world.annotate(PDX);
    let times = [
        (1, facts::granted()),
        (1, facts::fenced()),
        (3, facts::drained()),
        (4, facts::caught_up()),
        (4, facts::cache_offset(Some(81_723))),
        (7, facts::cache_synced(81_723)),
        (8, facts::cache_taken_over()),
        (9, facts::promoted_at(9)),
        (10, facts::published_dns(Some(StepState::Applied))),
    ];
    for (seconds, fact) in times {
        world.now = seconds;
        world.tell(fact);
    }
    let mut block = serde_json::to_value(world.run()).unwrap();
    let revision = block.as_object_mut().unwrap().remove("revision");
    assert_eq!(revision, Some(json!(11)));
    assert_eq!(block, example(&world.run().run_id.to_string()));
    assert_eq!(world.group.epoch().get(), 1);
}

fn example(run_id: &str) -> Value {
    let time = |seconds: i64| json!(at(seconds).to_string());
    json!({
        "runID": run_id,
        "phase": "Succeeded",
        "targetSite": "pdx",
        "sourceSite": "iad",
        "settings": {
            "maxLagWait": "5m0s",
            "drainTimeout": "30s",
            "dragonfly": { "maxSyncWait": "30s", "onSyncTimeout": "Proceed" },
        },
        "startTime": "2026-04-20T14:32:00Z",
        "claimTime": "2026-04-20T14:32:01Z",
        "claimBaseline": { "time": "2026-04-19T09:10:44Z", "target": "iad" },
        "admission": { "deadlineTime": "2026-04-20T14:34:00Z" },
        "fence": {
            "state": "Applied",
            "intentTime": time(1),
            "sourceServerUUID": "00000000-0000-0000-0000-000000000001",
            "applyTime": time(1),
            "gtidSet": "00000000-0000-0000-0000-000000000001:1-100",
        },
        "drain": { "startTime": time(1), "completionTime": time(3), "remainingConnections": 0 },
        "lagWait": { "startTime": time(3), "catchUpTime": time(4) },
        "dragonfly": {
            "syncWaitStartTime": time(4),
            "sourceOffsetState": "Captured",
            "sourceOffset": 81723,
            "syncWaitSeconds": 3,
            "takeover": {
                "state": "Succeeded",
                "intentTime": time(7),
                "completionTime": time(8),
                "method": "ReplTakeover",
                "targetOffset": 81723,
            },
            "sessions": "Preserved",
        },
        "promotion": {
            "state": "Confirmed",
            "intentTime": time(8),
            "targetServerUUID": "00000000-0000-0000-0000-000000000002",
            "confirmationTime": time(9),
        },
        "dns": { "state": "Applied", "attemptTime": time(9) },
        "result": { "outcome": "Succeeded", "completionTime": time(10) },
        "message": "promoted \"pdx\"",
    })
}

/// The Events of a run that goes well, in their order; none of them is a warning. spec: PF-OBS-04
#[test]
fn the_events_of_a_run_that_goes_well() {
    let world = World::at_phase(Phase::Succeeded);
    let reasons: Vec<EventReason> = world.events().into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(
        reasons,
        [
            EventReason::PlannedFailoverStarted,
            EventReason::PlannedFailoverClaimGranted,
            EventReason::PlannedFailoverDrainStarted,
            EventReason::PlannedFailoverTargetCaughtUp,
            EventReason::PlannedFailoverSucceeded,
        ]
    );
    assert!(reasons.iter().all(|reason| !reason.is_warning()));
}

/// Each Event has the type of the reference's table. spec: PF-OBS-04
#[test]
fn each_event_has_the_references_type() {
    let normal = [
        "PlannedFailoverStarted",
        "PlannedFailoverSkipped",
        "PlannedFailoverDeferred",
        "PlannedFailoverAdmissionDelayed",
        "PlannedFailoverClaimGranted",
        "PlannedFailoverDrainStarted",
        "PlannedFailoverTargetCaughtUp",
        "PlannedFailoverSucceeded",
        "PlannedFailoverHoldAcknowledged",
    ];
    assert_eq!(EventReason::ALL.len(), 20);
    for reason in EventReason::ALL {
        assert_eq!(reason.is_warning(), !normal.contains(&reason.as_str()), "{reason}");
    }
}

/// Every end has its Events, its count and its duration, once. spec: PF-OBS-03, PF-OBS-04
#[test]
fn every_end_is_told_and_counted_once() {
    type Way = fn() -> World;
    let ways: [(Way, Outcome, &[EventReason]); 6] = [
        (
            || World::at_phase(Phase::Succeeded),
            Outcome::Succeeded,
            &[EventReason::PlannedFailoverSucceeded],
        ),
        (
            || World::at_phase(Phase::Failed),
            Outcome::NotStarted,
            &[EventReason::PlannedFailoverRejected],
        ),
        (
            || {
                let mut world = World::at_phase(Phase::RollingBack);
                world.tell(facts::unfenced());
                world
            },
            Outcome::RolledBack,
            &[EventReason::PlannedFailoverFailed],
        ),
        (
            || {
                let mut world = World::at_phase(Phase::RollingBack);
                world.tell(facts::unfence_failed(UnfenceObstacle::ForeignWritable));
                world
            },
            Outcome::SourceLeftFenced,
            &[EventReason::PlannedFailoverFailed],
        ),
        (
            || {
                let mut world = World::at_phase(Phase::Promoting);
                world.tell(facts::promotion_failed(Reason::TargetLost, MayBeWritable));
                world
            },
            Outcome::PromotedUnconfirmed,
            &[
                EventReason::PlannedFailoverPromotionConfirmationFailed,
                EventReason::PlannedFailoverFailed,
            ],
        ),
        (
            || {
                let mut world = World::at_phase(Phase::Promoting);
                world.tell(facts::promotion_failed(Reason::ExecuteFailed, Writable));
                world
            },
            Outcome::ManualRecoveryRequired,
            &[EventReason::PlannedFailoverManualRecoveryRequired],
        ),
    ];
    for (way, outcome, events) in ways {
        let world = way();
        assert_eq!(world.ending().0, outcome);
        let last: Vec<EventReason> = world
            .events()
            .into_iter()
            .map(|(reason, _)| reason)
            .rev()
            .take(events.len())
            .collect();
        assert_eq!(last.into_iter().rev().collect::<Vec<_>>(), events, "{outcome}");
        let ended: Vec<&Effect> = world
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Ended { .. }))
            .collect();
        assert!(
            matches!(ended.as_slice(), [Effect::Ended { target, outcome: told, duration: Some(_) }] if *told == outcome && *target == site(PDX)),
            "{ended:?}"
        );
        if let Some(reason) = world.ending().1 {
            let said = world.events().last().unwrap().1.to_owned();
            assert!(said.contains(&format!("{outcome} ({reason})")), "{said}");
        }
    }
}

/// The metric's labels are the outcomes in kebab case. spec: PF-OBS-03
#[test]
fn outcomes_are_labels_in_kebab_case() {
    let labels: Vec<&str> = Outcome::ALL.iter().map(|outcome| outcome.label()).collect();
    let reference = [
        "succeeded",
        "not-started",
        "rolled-back",
        "source-left-fenced",
        "promoted-unconfirmed",
        "manual-recovery-required",
    ];
    assert_eq!(labels, reference);
}
