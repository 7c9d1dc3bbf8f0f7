//! Catching up: exactly the fenced set, within the time, with both servers watched.

use std::time::Duration;

use bloodraven_executor::Superseded;
use bloodraven_sim::server::{Link, Server};
use bloodraven_sim::setting::{SOURCE, TARGET, uuid_of};
use bloodraven_sim::{Fault, Kind, Setting, World, cast};
use bloodraven_types::{Fact, Phase, Reason, StepState};

use crate::common::{carry_out, failure, first_hand, is_about, perform, silence, take_in, timed};

/// A run that waits for the target; the source has committed `behind` more transactions than the target can have.
fn waiting(seed: u64, lag: Duration, behind: u32) -> World {
    let world = Setting::new(seed).lag(lag).build();
    for _ in 0..behind {
        world.state().commit(SOURCE);
    }
    world.bring_to(Phase::WaitingForLag);
    world
}

fn told_lagging(world: &World) -> usize {
    let journal = world.journal();
    journal
        .facts()
        .into_iter()
        .filter(|fact| matches!(fact, Fact::Lagging(_)))
        .count()
}

/// The wait ends as soon as the target holds the fenced set, progress is told meanwhile, and the target's identity goes
/// on the record with the promotion's intent. spec: PF-LAG-01, PF-PRO-01
#[test]
fn the_target_catches_up() {
    let world = waiting(1, Duration::from_secs(7), 3);
    let (fact, took) = timed(&world, || carry_out(&world));
    let Fact::CaughtUp(caught_up) = &fact else {
        panic!("{fact:?}")
    };
    assert_eq!(caught_up.target_server_uuid, uuid_of(TARGET));
    assert_eq!(caught_up.gtid_executed, format!("{}:1-103", uuid_of(SOURCE)));
    assert!(
        took >= Duration::from_millis(6_900) && took < Duration::from_millis(7_200),
        "{took:?}"
    );
    assert!(told_lagging(&world) >= 6);
    let run = take_in(&world, fact).run().unwrap().clone();
    assert_eq!(run.phase, Phase::Promoting);
    let promotion = run.promotion.unwrap();
    assert_eq!(
        (promotion.state, promotion.target_server_uuid),
        (StepState::Intended, uuid_of(TARGET))
    );
}

/// A target that does not get there ends the wait at `settings.maxLagWait`. spec: PF-LAG-01
#[test]
fn the_wait_is_bounded() {
    let world = waiting(2, Duration::from_secs(3_000), 1);
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(failure(&fact).0, Reason::LagTimeout);
    assert!(is_about(took, 300), "{took:?}");
    assert_eq!(
        take_in(&world, fact).run().unwrap().rollback.clone().unwrap().reason,
        Reason::LagTimeout
    );
}

/// A transaction outside the fenced set ends the wait at once, whether the target is behind or not. spec: PF-LAG-02
#[test]
fn a_divergent_target_ends_the_wait() {
    for behind in [0, 2] {
        let world = waiting(3, Duration::from_secs(60), behind);
        world.state().commit(TARGET);
        let (fact, took) = timed(&world, || carry_out(&world));
        assert_eq!(failure(&fact).0, Reason::DivergentTarget);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

/// A set that cannot be read ends the wait at once, the fenced one as well as the target's. spec: PF-LAG-02
#[test]
fn an_unreadable_set_ends_the_wait() {
    let world = waiting(4, Duration::ZERO, 0);
    world
        .state()
        .change(TARGET, |server| server.told_set = Some("no set".to_owned()));
    assert_eq!(failure(&carry_out(&world)).0, Reason::InvalidGTID);

    let world = waiting(5, Duration::ZERO, 0);
    world.state().edit(|group| {
        let run = group.status.planned_failover.as_mut().unwrap();
        run.fence.as_mut().unwrap().gtid_set = Some("no set".to_owned());
    });
    assert_eq!(failure(&carry_out(&world)).0, Reason::InvalidGTID);
    assert_eq!(world.journal().statements(TARGET), []);
}

/// A target that is silent for ten seconds is lost, and so is one whose identity cannot be read while the rest answers; a
/// shorter silence is not. spec: PF-LAG-03, PF-LOS-02
#[test]
fn a_silent_target_is_lost_after_ten_seconds() {
    let world = waiting(6, Duration::from_secs(60), 1);
    silence(&world, TARGET);
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(failure(&fact).0, Reason::TargetLost);
    assert!(is_about(took, 10), "{took:?}");

    for fault in [
        Fault::Unreachable,
        Fault::Killed { applied: false },
        Fault::Refuse(1227),
    ] {
        let world = waiting(7, Duration::from_secs(60), 1);
        world.faults(TARGET, Some(Kind::Executed), 0, u32::MAX, fault.clone());
        let (fact, took) = timed(&world, || carry_out(&world));
        assert_eq!(failure(&fact).0, Reason::TargetLost, "{fault:?}");
        assert!(is_about(took, 10), "{fault:?} {took:?}");
    }

    let world = waiting(8, Duration::from_secs(20), 1);
    world.faults(TARGET, None, 3, 3, Fault::Unreachable);
    assert!(matches!(carry_out(&world), Fact::CaughtUp(_)));
}

/// A source that is silent for ten seconds is lost while the target waits; one that answers again is not.
/// spec: PF-LOS-01
#[test]
fn a_silent_source_is_lost_after_ten_seconds() {
    let world = waiting(9, Duration::from_secs(60), 1);
    silence(&world, SOURCE);
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(failure(&fact).0, Reason::SourceLost);
    assert!(is_about(took, 10), "{took:?}");

    // One that hangs takes the sessions that were kept warm with it: the window counts from the first unanswered statement.
    for site in [SOURCE, TARGET] {
        let world = waiting(11, Duration::from_secs(60), 1);
        let order = first_hand(&world);
        let (fact, took) = timed(&world, || {
            let hung = async {
                let hands = world.hands();
                hands.sessions.warm(&world.group()).await;
                silence(&world, site);
                cast::perform(&world, &hands, order, &Superseded::default()).await
            };
            world.run(hung).unwrap().unwrap()
        });
        assert!(
            matches!(failure(&fact).0, Reason::SourceLost | Reason::TargetLost),
            "{fact:?}"
        );
        assert!(
            took >= Duration::from_secs(10) && took < Duration::from_secs(13),
            "{site}: {took:?}"
        );
    }

    let world = waiting(10, Duration::from_secs(20), 1);
    silence(&world, SOURCE);
    let fact = world
        .run(async {
            let hands = world.hands();
            let superseded = Superseded::default();
            let wait = cast::perform(&world, &hands, first_hand(&world), &superseded);
            let back = async {
                world.time.sleep(Duration::from_secs(6)).await;
                world.state().change(SOURCE, |server| server.link = Link::Up);
            };
            futures::join!(wait, back).0.unwrap()
        })
        .unwrap();
    assert!(matches!(fact, Fact::CaughtUp(_)), "{fact:?}");
}

/// A source that lost its fence, or is another server, ends the wait. spec: PF-LAG-01
#[test]
fn the_fence_is_watched() {
    let opened = waiting(11, Duration::from_secs(60), 1);
    opened.state().change(SOURCE, Server::open);
    let replaced = waiting(12, Duration::from_secs(60), 1);
    replaced.state().change(SOURCE, |server| server.replace(uuid_of("new")));
    for world in [opened, replaced] {
        assert_eq!(failure(&carry_out(&world)).0, Reason::SourceUnfenced);
    }
}

/// The wait sends nothing that changes a server, and nothing at all for a record that has moved on.
/// report: B30
#[test]
fn a_stale_order_waits_for_nothing() {
    let world = waiting(13, Duration::ZERO, 0);
    let order = first_hand(&world);
    world.state().edit(crate::common::move_record_on);
    perform(&world, order).unwrap_err();
    assert_eq!(world.journal().statements(TARGET), []);
    assert_eq!(world.journal().statements(SOURCE), []);
}
