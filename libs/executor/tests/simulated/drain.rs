//! Draining: sessions are ended until none is left or the time is over, and a failed query is no lost source.

use std::time::Duration;

use bloodraven_ports::ApplicationSession;
use bloodraven_sim::server::{Application, Server};
use bloodraven_sim::setting::{SOURCE, uuid_of};
use bloodraven_sim::{Fault, Kind, Setting, World};
use bloodraven_types::fact::Drained;
use bloodraven_types::{Fact, Phase, Reason};

use crate::common::{after_a_crash, carry_out, failure, is_about, perform, silence, take_in, timed};

fn draining(seed: u64, sessions: &[(u64, bool)]) -> World {
    let world = Setting::new(seed).build();
    world.bring_to(Phase::Draining);
    world.state().change(SOURCE, |server| {
        server.applications = sessions
            .iter()
            .map(|(id, killable)| application(*id, *killable))
            .collect();
    });
    world
}

fn application(id: u64, killable: bool) -> Application {
    Application {
        session: ApplicationSession {
            id: 1_000 + id,
            user: "orders".to_owned(),
            host: "198.51.100.7".to_owned(),
            seconds: 3,
        },
        killable,
    }
}

fn drained(fact: &Fact) -> &Drained {
    match fact {
        Fact::Drained(drained) => drained,
        other => panic!("{other:?}"),
    }
}

/// Every session is ended and the drain is over as soon as none is left. spec: PF-DRN-01
#[test]
fn sessions_are_ended() {
    let world = draining(1, &[(1, true), (2, true), (3, true)]);
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(
        (drained(&fact).remaining_connections, drained(&fact).killed),
        (Some(0), 3)
    );
    assert!(took < Duration::from_secs(1), "{took:?}");
    let run = take_in(&world, fact).run().unwrap().clone();
    assert_eq!(run.phase, Phase::WaitingForLag);
    assert_eq!(run.drain.unwrap().remaining_connections, Some(0));
}

/// Sessions that come again or cannot be ended are tried at least every second until the time is over; their number is
/// on the record, the fence stands, and the run goes on. spec: PF-DRN-01
#[test]
fn survivors_do_not_stop_the_run() {
    let world = draining(2, &[(1, true), (2, false), (3, false)]);
    let (fact, took) = timed(&world, || perform(&world, after_a_crash(&world)).unwrap());
    assert_eq!(
        (drained(&fact).remaining_connections, drained(&fact).killed),
        (Some(2), 1)
    );
    assert!(is_about(took, 30), "{took:?}");
    let looks = world.journal().times(SOURCE, Kind::ApplicationSessions);
    assert!(looks >= 30, "{looks} looks");
    assert!(world.state().server(SOURCE).unwrap().super_read_only);
    let run = take_in(&world, fact).run().unwrap().clone();
    assert_eq!(run.phase, Phase::WaitingForLag);
    assert_eq!(run.drain.unwrap().remaining_connections, Some(2));
    assert!(
        run.message.contains("2 connections remain on \"iad\" and cannot write"),
        "{}",
        run.message
    );
}

/// A query that fails on a source that answers is no lost source: the drain ends at its time, without a number.
/// spec: PF-DRN-02
#[test]
fn a_failing_query_is_no_lost_source() {
    let world = draining(3, &[(1, true)]);
    world.faults(
        SOURCE,
        Some(Kind::ApplicationSessions),
        0,
        u32::MAX,
        Fault::Refuse(1227),
    );
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(drained(&fact).remaining_connections, None);
    assert!(
        drained(&fact)
            .error
            .as_ref()
            .is_some_and(|error| error.contains("1227"))
    );
    assert!(is_about(took, 30), "{took:?}");
    let run = take_in(&world, fact).run().unwrap().clone();
    assert_eq!(run.phase, Phase::WaitingForLag);
    assert_eq!(run.drain.unwrap().remaining_connections, None);
    assert!(
        run.message.contains("connections remaining on \"iad\" are unknown"),
        "{}",
        run.message
    );
}

/// A source that is silent for ten seconds is lost, a source without the run's fence is unfenced, and neither is drained.
/// spec: PF-LOS-01
#[test]
fn the_source_is_watched_meanwhile() {
    let world = draining(4, &[(1, true)]);
    silence(&world, SOURCE);
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(failure(&fact).0, Reason::SourceLost);
    assert!(is_about(took, 10), "{took:?}");

    let opened = draining(5, &[(1, true)]);
    opened.state().change(SOURCE, Server::open);
    let replaced = draining(6, &[(1, true)]);
    replaced.state().change(SOURCE, |server| server.replace(uuid_of("new")));
    for world in [opened, replaced] {
        assert_eq!(failure(&carry_out(&world)).0, Reason::SourceUnfenced);
        assert_eq!(world.journal().times(SOURCE, Kind::Kill), 0);
    }
}
