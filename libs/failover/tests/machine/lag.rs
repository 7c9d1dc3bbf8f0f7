//! The target's catching up.

use bloodraven_failover::Effect;
use bloodraven_types::fact::Fact;
use bloodraven_types::{Command, EventReason, Phase, Reason, StepState, Warning};
use std::time::Duration;

use crate::kit::{IAD, PDX, World, at, facts, groups, server, site};

fn samples(world: &World) -> Vec<Duration> {
    let sample = |effect: &Effect| match effect {
        Effect::LagWaited { target, duration } => {
            assert_eq!(*target, site(PDX));
            Some(*duration)
        }
        Effect::Event { .. } | Effect::Ended { .. } | Effect::Deferred { .. } | Effect::Released { .. } => None,
    };
    world.effects.iter().filter_map(sample).collect()
}

/// A target that holds exactly the fenced set is promoted next, by an intent that names its server. spec: PF-LAG-01, PF-PRO-01
#[test]
fn a_target_that_holds_the_fenced_set_is_promoted_next() {
    let mut world = World::at_phase(Phase::WaitingForLag);
    let Command::AwaitCatchUp(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!(command.gtid_set, facts::fenced_set());
    assert_eq!(command.deadline, at(300));
    world.after(7);
    world.tell(facts::caught_up());
    assert_eq!(world.phase(), Phase::Promoting);
    assert_eq!(world.run().lag_wait.as_ref().unwrap().catch_up_time, Some(at(7)));
    let promotion = world.run().promotion.as_ref().unwrap();
    assert_eq!((promotion.state, promotion.intent_time), (StepState::Intended, at(7)));
    assert_eq!(promotion.target_server_uuid, server(PDX));
    assert_eq!(world.count(EventReason::PlannedFailoverTargetCaughtUp), 1);
    let Command::Promote(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!(command.gtid_set, facts::fenced_set());
    assert_eq!(
        (command.source_server_uuid, command.target_server_uuid),
        (server(IAD), server(PDX))
    );
    assert_eq!(command.deadline, at(127));
}

/// The sets are compared as sets: line breaks, order and repetition make no difference, and half a set is not the whole.
/// spec: PF-LAG-01 report: B01 report: B02
#[test]
fn sets_are_compared_as_sets() {
    let (iad, pdx) = (server(IAD), server(PDX));
    let world = || {
        let mut world = World::at_phase(Phase::Fencing);
        world.tell(facts::fenced_with(&format!("{iad}:100-200,{iad}:300-400,\n{pdx}:1-5")));
        world.tell(facts::drained());
        world
    };
    let mut same = world();
    same.tell(facts::caught_up_with(&format!("{pdx}:1-5, {iad}:100-200:300-400,\n")));
    assert_eq!(same.phase(), Phase::Promoting);
    for half in [format!("{iad}:300-400,{pdx}:1-5"), format!("{iad}:100-200:300-400")] {
        let mut waits = world();
        waits.tell(facts::caught_up_with(&half));
        assert_eq!(waits.phase(), Phase::WaitingForLag, "{half}");
    }
}

/// Tagged transactions count like any other. spec: PF-LAG-01 report: B04
#[test]
fn tags_are_part_of_the_sets() {
    let iad = server(IAD);
    let mut world = World::at_phase(Phase::Fencing);
    world.tell(facts::fenced_with(&format!("{iad}:1-10:backup:1-3")));
    world.tell(facts::drained());
    world.tell(facts::caught_up_with(&format!("{iad}:1-10")));
    assert_eq!(world.phase(), Phase::WaitingForLag);
    world.tell(facts::caught_up_with(&format!("{iad}:1-10:backup:1-3")));
    assert_eq!(world.phase(), Phase::Promoting);
}

/// A transaction of the target outside the fenced set turns the run back: the source never had it. spec: PF-LAG-02
#[test]
fn a_transaction_outside_the_fenced_set_turns_the_run_back() {
    let mut world = World::at_phase(Phase::WaitingForLag);
    let extra = format!("{}:1-100,{}:1", server(IAD), server(PDX));
    world.tell(facts::caught_up_with(&extra));
    let rollback = world.run().rollback.as_ref().unwrap();
    assert_eq!(rollback.reason, Reason::DivergentTarget);
    assert!(
        rollback.detail.contains(&format!("{}:1", server(PDX))),
        "{}",
        rollback.detail
    );
    assert!(world.run().promotion.is_none());
}

/// A fenced set that cannot be parsed turns the run back at once, with the fence on the record as the run's own to lift.
/// spec: PF-LAG-02 report: B04
#[test]
fn an_unreadable_fenced_set_turns_the_run_back_at_once() {
    let mut world = World::at_phase(Phase::Fencing);
    world.tell(facts::fenced_with("mysqlsh"));
    assert_eq!(world.phase(), Phase::RollingBack);
    assert_eq!(world.run().rollback.as_ref().unwrap().reason, Reason::InvalidGTID);
    assert_eq!(world.run().fence.as_ref().unwrap().state, StepState::Applied);
    let Command::Unfence(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert!(command.attributable);

    let mut world = World::at_phase(Phase::WaitingForLag);
    world.tell(facts::caught_up_with("mysqlsh"));
    assert_eq!(world.run().rollback.as_ref().unwrap().reason, Reason::InvalidGTID);
}

/// The wait has the time that the run's settings give it. spec: PF-LAG-01
#[test]
fn a_target_that_does_not_catch_up_in_time_turns_the_run_back() {
    let mut world = World::orders();
    world.annotate("pdx:maxLagWait=30s");
    for fact in [facts::granted(), facts::fenced(), facts::drained()] {
        world.tell(fact);
    }
    world.tick_after(32);
    assert_eq!(world.phase(), Phase::WaitingForLag);
    world.tick_after(1);
    assert_eq!(world.run().rollback.as_ref().unwrap().reason, Reason::LagTimeout);
}

/// What the watcher loses or meets turns the run back with its reason. spec: PF-LOS-01, PF-LOS-02, PF-LAG-01
#[test]
fn what_the_watcher_meets_turns_the_run_back() {
    for reason in [
        Reason::LagTimeout,
        Reason::SourceLost,
        Reason::TargetLost,
        Reason::SourceUnfenced,
    ] {
        let mut world = World::at_phase(Phase::WaitingForLag);
        world.tell(facts::catch_up_failed(reason));
        assert_eq!(world.run().rollback.as_ref().unwrap().reason, reason);
        let Command::Unfence(command) = world.command() else {
            panic!("{:?}", world.command())
        };
        assert_eq!(command.retry, reason != Reason::SourceLost);
        assert_eq!(command.target_server_uuid, None, "nothing was intended for the target");
    }
}

/// Lag is for people: it changes nothing.
#[test]
fn lag_changes_nothing() {
    let mut world = World::at_phase(Phase::WaitingForLag);
    let writes = world.writes;
    world.tell(Fact::Lagging(bloodraven_types::fact::Lagging {
        missing_transactions: 9,
    }));
    assert_eq!(world.writes, writes);
}

/// The lag wait is measured exactly once a run, whichever way it ends. spec: PF-OBS-03
#[test]
fn the_lag_wait_is_measured_once_whichever_way_it_ends() {
    type Way = fn(&mut World);
    let ways: [Way; 6] = [
        |world| world.tell(facts::caught_up()),
        |world| world.tell(facts::catch_up_failed(Reason::TargetLost)),
        |world| world.tell(facts::caught_up_with(&format!("{}:1-101", server(IAD)))),
        |world| world.tick_after(400),
        |world| {
            world.drop_site(PDX);
            world.tick();
        },
        |world| {
            groups::annotate_failover(&mut world.group, &at(3).to_string(), PDX);
            world.tick();
        },
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let mut world = World::at_phase(Phase::WaitingForLag);
        world.after(5);
        way(&mut world);
        for _ in 0..8 {
            for fact in facts::one_of_each() {
                let input = world.input_of(fact);
                let _late = world.input(input);
            }
            world.tick_after(100);
        }
        assert_eq!(samples(&world).len(), 1, "way {number}");
        assert!(samples(&world)[0] >= Duration::from_secs(5));
    }
}

/// The servers that were silent around the fence are still known when the promotion is intended. spec: PF-ADM-13
#[test]
fn the_promotion_takes_the_fences_warnings_over() {
    let mut world = World::at_phase(Phase::WaitingForLag);
    let run = world.group.status.planned_failover.as_mut().unwrap();
    run.fence.as_mut().unwrap().warnings = vec![Warning::UnreachablePeers];
    world.tell(facts::caught_up());
    assert_eq!(
        world.run().promotion.as_ref().unwrap().warnings,
        [Warning::UnreachablePeers]
    );
}
