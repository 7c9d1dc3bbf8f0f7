//! The cache's part of a run, as far as the record decides it.

use bloodraven_types::record::{OffsetState, Sessions, TakeoverMethod};
use bloodraven_types::words::OnSyncTimeout::{Fail, Proceed};
use bloodraven_types::{Command, Outcome, Phase, Reason, Span, StepState, Warning};
use std::time::Duration;

use crate::kit::{World, at, facts, server};

fn syncing(policy: bloodraven_types::words::OnSyncTimeout) -> World {
    let mut world = World::with_cache(policy);
    world.annotate("pdx");
    for fact in [facts::granted(), facts::fenced(), facts::drained(), facts::caught_up()] {
        world.tell(fact);
    }
    assert_eq!(world.phase(), Phase::WaitingForDragonflySync);
    world
}

fn taking_over(policy: bloodraven_types::words::OnSyncTimeout) -> World {
    let mut world = syncing(policy);
    world.tell(facts::cache_offset(Some(81_723)));
    world.tell(facts::cache_synced(81_723));
    assert_eq!(world.phase(), Phase::PromotingDragonfly);
    world
}

/// The offset is on the record before the target is waited for, and the takeover is announced before it is asked for.
/// spec: PF-DFY-01, PF-DFY-03
#[test]
fn a_cache_that_follows_is_taken_over() {
    let mut world = syncing(Proceed);
    let offset_of = |world: &World| {
        let Command::SyncCache(command) = world.command() else {
            panic!("{:?}", world.command())
        };
        (command.source_offset, command.deadline)
    };
    assert_eq!(offset_of(&world), (None, at(30)));
    world.tell(facts::cache_offset(Some(81_723)));
    assert_eq!(offset_of(&world), (Some(81_723), at(30)));
    world.after(3);
    world.tell(facts::cache_synced(81_800));
    let dragonfly = world.run().dragonfly.clone().unwrap();
    assert_eq!(dragonfly.source_offset_state, Some(OffsetState::Captured));
    assert_eq!(dragonfly.sync_wait_seconds, Some(3));
    let takeover = dragonfly.takeover.unwrap();
    assert_eq!((takeover.state, takeover.intent_time), (StepState::Intended, at(3)));
    assert_eq!(takeover.method, Some(TakeoverMethod::ReplTakeover));
    let Command::TakeOverCache(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!((command.timeout_seconds, command.deadline), (30, at(3 + 40 + 30 + 12)));
    world.tell(facts::cache_taken_over());
    let run = world.run();
    assert_eq!(run.phase, Phase::Promoting);
    let dragonfly = run.dragonfly.as_ref().unwrap();
    assert_eq!(dragonfly.sessions, Some(Sessions::Preserved));
    assert_eq!(dragonfly.takeover.as_ref().unwrap().state, StepState::Succeeded);
    assert_eq!(dragonfly.takeover.as_ref().unwrap().target_offset, Some(81_723));
    assert_eq!(run.promotion.as_ref().unwrap().target_server_uuid, server("pdx"));
}

/// The takeover's own timeout is in whole seconds, rounded up. spec: PF-DFY-03
#[test]
fn the_takeovers_timeout_is_rounded_up() {
    for (milliseconds, seconds) in [(1000, 1), (1001, 2), (1500, 2), (29_999, 30)] {
        let mut world = World::at_phase(Phase::PromotingDragonfly);
        let settings = &mut world.group.status.planned_failover.as_mut().unwrap().settings;
        settings.dragonfly.as_mut().unwrap().max_sync_wait = Span::new(Duration::from_millis(milliseconds));
        let Command::TakeOverCache(command) = world.command() else {
            panic!("{:?}", world.command())
        };
        assert_eq!(command.timeout_seconds, seconds, "{milliseconds} ms");
    }
}

/// A group without a cache at acceptance has no cache phases. spec: PF-DFY-01
#[test]
fn without_a_cache_there_are_no_cache_phases() {
    let world = World::at_phase(Phase::Promoting);
    assert_eq!(world.run().dragonfly, None);
    assert_eq!(world.run().settings.dragonfly, None);
}

/// An offset that cannot be read is a sync that cannot be proven. spec: PF-DFY-02, PF-DFY-08
#[test]
fn an_offset_that_cannot_be_read_is_no_sync() {
    let mut world = syncing(Proceed);
    world.tell(facts::cache_offset(None));
    assert_eq!(world.phase(), Phase::Promoting);
    let dragonfly = world.run().dragonfly.as_ref().unwrap();
    assert_eq!(dragonfly.source_offset_state, Some(OffsetState::Unavailable));
    assert_eq!(
        (dragonfly.sessions, dragonfly.reason),
        (Some(Sessions::Lost), Some(Reason::DragonflySyncTimeout))
    );
    let mut world = syncing(Fail);
    world.tell(facts::cache_offset(None));
    assert_eq!(
        world.run().rollback.as_ref().unwrap().reason,
        Reason::DragonflySyncTimeout
    );
}

/// Only the recorded offset counts as synced.
#[test]
fn a_sync_without_the_recorded_offset_is_none() {
    let mut world = syncing(Proceed);
    world.tell(facts::cache_synced(81_723));
    assert_eq!(world.phase(), Phase::WaitingForDragonflySync, "no offset on the record");
    world.tell(facts::cache_offset(Some(81_723)));
    world.tell(facts::cache_synced(81_722));
    assert_eq!(world.phase(), Phase::WaitingForDragonflySync, "short of it");
    world.tell(facts::cache_offset(Some(1)));
    let dragonfly = world.run().dragonfly.as_ref().unwrap();
    assert_eq!(dragonfly.source_offset, Some(81_723), "the first one stays");
}

/// Whatever fails of the cache: Proceed promotes MySQL and says that the sessions are lost, Fail goes back.
/// spec: PF-DFY-08
#[test]
fn the_policy_decides_when_the_cache_fails() {
    type Cause = fn(&mut World);
    let told: Cause = |world| {
        let syncs = world.phase() == Phase::WaitingForDragonflySync;
        world.tell(facts::cache_failed(if syncs {
            Reason::DragonflySyncTimeout
        } else {
            Reason::DragonflyPromotionFailed
        }));
    };
    let late: Cause = |world| world.tick_after(200);
    for cause in [told, late] {
        for (begin, reason) in [
            (
                syncing as fn(bloodraven_types::words::OnSyncTimeout) -> World,
                Reason::DragonflySyncTimeout,
            ),
            (taking_over, Reason::DragonflyPromotionFailed),
        ] {
            let mut world = begin(Proceed);
            cause(&mut world);
            assert_eq!(world.phase(), Phase::Promoting);
            let dragonfly = world.run().dragonfly.as_ref().unwrap();
            assert_eq!(
                (dragonfly.sessions, dragonfly.reason),
                (Some(Sessions::Lost), Some(reason))
            );
            if let Some(takeover) = &dragonfly.takeover {
                assert_eq!(takeover.state, StepState::Failed);
            }
            assert_eq!(world.run().promotion.as_ref().unwrap().intent_time, at(world.now));

            let active = world.group.status.active_site.clone();
            let mut world = begin(Fail);
            cause(&mut world);
            assert_eq!(world.run().rollback.as_ref().unwrap().reason, reason);
            assert!(world.run().promotion.is_none(), "nothing was intended for the target");
            assert!(matches!(world.command(), Command::Unfence(_)));
            world.tell(facts::unfenced());
            assert_eq!(world.ending(), (Outcome::RolledBack, Some(reason)));
            assert_eq!(world.group.status.active_site, active);
        }
    }
}

/// The takeover's phase ends at forty seconds, the budget and the reply's twelve from its intent, not before.
/// spec: PF-DFY-07
#[test]
fn the_takeover_has_its_time() {
    let mut world = taking_over(Proceed);
    world.tick_after(84);
    assert_eq!(world.phase(), Phase::PromotingDragonfly);
    world.tick_after(1);
    assert_eq!(world.phase(), Phase::Promoting);
    assert_eq!(
        world.run().dragonfly.as_ref().unwrap().reason,
        Some(Reason::DragonflyPromotionFailed)
    );
}

/// A takeover whose success is on the record is never asked for again and never becomes a failure: a process killed right
/// after that write goes on to the promotion. spec: PF-DFY-04, PF-DUR-12
#[test]
fn a_recorded_takeover_is_final() {
    for late in [
        facts::cache_taken_over(),
        facts::cache_failed(Reason::DragonflyPromotionFailed),
    ] {
        let mut world = taking_over(Fail);
        let input = world.input_of(facts::cache_taken_over());
        world.one_write(input).unwrap();
        assert_eq!(world.phase(), Phase::PromotingDragonfly);
        assert_eq!(world.commands(), []);
        world.tell(late);
        assert_eq!(world.phase(), Phase::Promoting);
        let dragonfly = world.run().dragonfly.as_ref().unwrap();
        assert_eq!(dragonfly.takeover.as_ref().unwrap().state, StepState::Succeeded);
        assert_eq!(dragonfly.sessions, Some(Sessions::Preserved));
    }
}

/// A cache that moved while MySQL did not is a warning of the end, and none of a success. spec: PF-DFY-09
#[test]
fn a_cache_that_moved_alone_is_a_warning() {
    use bloodraven_types::fact::PromotionReach::{MayBeWritable, NothingWritten};
    let promoting = || {
        let mut world = taking_over(Proceed);
        world.tell(facts::cache_taken_over());
        world
    };
    let mut world = promoting();
    world.tell(facts::promotion_failed(Reason::PeerUnreadable, NothingWritten));
    world.tell(facts::restored());
    world.tell(facts::unfenced());
    assert_eq!(world.ending().0, Outcome::RolledBack);
    assert_eq!(world.warnings(), [Warning::DragonflySessionsLost]);

    let mut world = promoting();
    world.tell(facts::promotion_failed(Reason::TargetLost, MayBeWritable));
    assert_eq!(world.warnings(), [Warning::DragonflySessionsLost]);

    let mut world = promoting();
    world.tell(facts::promoted());
    world.tell(facts::published());
    assert_eq!(world.ending().0, Outcome::Succeeded);
    assert_eq!(world.warnings(), []);
}
