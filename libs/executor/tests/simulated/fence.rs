//! Fencing: the order of its statements, what it refuses to send, and how long it tries.

use std::time::Duration;

use bloodraven_executor::Superseded;
use bloodraven_executor::hands::Refused;
use bloodraven_sim::server::{Link, Server};
use bloodraven_sim::setting::{PEER, READER, SOURCE, TARGET, uuid_of};
use bloodraven_sim::{Cast, Event, Fault, Kind, Moment, Plan, Setting, World, cast};
use bloodraven_types::fact::Fenced;
use bloodraven_types::{Fact, Outcome, Phase, Reason, SiteName, Warning};

use crate::common::{
    after_a_crash, carry_out, failure, first_hand, is_about, move_record_on, perform, silence, statements, take_in,
    timed,
};
use crate::story::until_ended;

fn fencing(seed: u64) -> World {
    let world = Setting::new(seed).with_reader().build();
    world.bring_to(Phase::Fencing);
    world
}

fn fenced(fact: Fact) -> Fenced {
    match fact {
        Fact::Fenced(fenced) => fenced,
        other => panic!("{other:?}"),
    }
}

fn before(site: &str, kind: Kind) -> Moment {
    Moment::Before(SiteName::new(site), kind)
}

fn after(site: &str, kind: Kind) -> Moment {
    Moment::After(SiteName::new(site), kind)
}

/// One session: the lock, a look, the fence, the read-back with the set, and only then the peers.
/// spec: PF-FEN-02, PF-FEN-04
#[test]
fn the_statements_come_in_order() {
    let world = fencing(1);
    let fenced = fenced(carry_out(&world));
    assert_eq!(fenced.source_server_uuid, uuid_of(SOURCE));
    assert_eq!(fenced.gtid_set, format!("{}:1-100", uuid_of(SOURCE)));
    assert!(fenced.unreachable_peers.is_empty());
    assert_eq!(
        statements(&world, SOURCE),
        [
            Kind::TakeAuthority,
            Kind::Observe,
            Kind::SetSuperReadOnly,
            Kind::Observe,
            Kind::ReleaseAuthority
        ]
    );
    let journal = world.journal();
    let place = |at: &'static str, wanted: Kind| {
        journal
            .position(
                |event| matches!(event, Event::Statement { site, kind, .. } if site.as_str() == at && *kind == wanted),
            )
            .unwrap()
    };
    for peer in [TARGET, PEER, READER] {
        assert!(
            place(peer, Kind::Observe) > place(SOURCE, Kind::SetSuperReadOnly),
            "{peer}"
        );
        assert!(journal.role_changes(peer).is_empty());
    }
}

/// The set is the one of the read-back: what was committed before the fence had its effect is in it, and an empty set is one.
/// spec: PF-FEN-04; report: B23
#[test]
fn the_set_is_read_after_the_fence() {
    let world = fencing(2);
    world.at(before(SOURCE, Kind::SetSuperReadOnly), |state| {
        state.commit(SOURCE);
    });
    assert_eq!(fenced(carry_out(&world)).gtid_set, format!("{}:1-101", uuid_of(SOURCE)));

    let world = fencing(3);
    world
        .state()
        .change(SOURCE, |server| server.told_set = Some(String::new()));
    let fact = carry_out(&world);
    assert_eq!(fenced(fact.clone()).gtid_set, "");
    assert_eq!(take_in(&world, fact).run().unwrap().phase, Phase::Draining);
}

/// A source that turned read-only, or is another server, before anything was sent: authority changed, and nothing is sent.
/// spec: PF-FEN-05
#[test]
fn a_changed_source_is_not_fenced() {
    let read_only = fencing(4);
    read_only.state().change(SOURCE, Server::fence);
    let replaced = fencing(5);
    replaced.state().change(SOURCE, |server| server.replace(uuid_of("new")));
    for world in [read_only, replaced] {
        let fact = carry_out(&world);
        assert_eq!(failure(&fact), (Reason::AuthorityChanged, false));
        assert!(world.journal().role_changes(SOURCE).is_empty());
        // The fence that stands there is nobody's of ours, so it is not lifted either.
        assert_eq!(take_in(&world, fact).run().unwrap().phase, Phase::RollingBack);
    }
}

/// A process that takes over from a crashed one finds the run's own fence and proves it, without sending it again.
/// spec: PF-FEN-05, PF-FEN-02; report: B26
#[test]
fn an_earlier_processes_fence_is_recognised() {
    let world = fencing(6);
    world.state().change(SOURCE, Server::fence);
    fenced(perform(&world, after_a_crash(&world)).unwrap());
    assert!(world.journal().role_changes(SOURCE).is_empty());
}

/// A fence that times out on a lock is tried again; one whose answer is lost is found by its next look.
/// spec: PF-FEN-03; report: B16
#[test]
fn a_fence_is_tried_again() {
    let world = fencing(7);
    world.faults(SOURCE, Some(Kind::SetSuperReadOnly), 0, 2, Fault::Refuse(1205));
    fenced(carry_out(&world));
    assert_eq!(world.journal().role_changes(SOURCE), [Kind::SetSuperReadOnly; 3]);

    let world = fencing(8);
    world.fault(SOURCE, Kind::SetSuperReadOnly, Fault::Killed { applied: true });
    fenced(carry_out(&world));
    assert_eq!(world.journal().role_changes(SOURCE), [Kind::SetSuperReadOnly]);
}

/// A fence that cannot be applied ends at the deadline of 30 seconds from its intent.
/// spec: PF-FEN-03
#[test]
fn a_fence_has_thirty_seconds() {
    let world = fencing(9);
    world.faults(SOURCE, Some(Kind::SetSuperReadOnly), 0, u32::MAX, Fault::Refuse(1205));
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(failure(&fact), (Reason::FenceFailed, true));
    assert!(
        took > Duration::from_secs(28) && took <= Duration::from_secs(30),
        "{took:?}"
    );
    let run = take_in(&world, fact).run().unwrap().clone();
    assert_eq!(
        (run.phase, run.rollback.unwrap().reason),
        (Phase::RollingBack, Reason::FenceFailed)
    );
}

/// A peer that is silent for a while after the fence is a warning; one that stays silent fails the fence; a silent
/// reader is a warning at once.
/// spec: PF-FEN-02, PF-FEN-03
#[test]
fn a_silent_peer_is_waited_for() {
    let world = fencing(10);
    silence(&world, PEER);
    world.at_later(after(TARGET, Kind::Observe), 2, |state| {
        state.change(PEER, |server| server.link = Link::Up);
    });
    let fact = carry_out(&world);
    assert_eq!(fenced(fact.clone()).unreachable_peers, [SiteName::new(PEER)]);
    let run = take_in(&world, fact).run().unwrap().clone();
    assert_eq!(run.fence.unwrap().warnings, [Warning::UnreachablePeers]);

    let world = fencing(11);
    silence(&world, PEER);
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(failure(&fact), (Reason::FenceFailed, true));
    assert!(took <= Duration::from_secs(34), "{took:?}");

    let world = fencing(12);
    silence(&world, READER);
    assert_eq!(fenced(carry_out(&world)).unreachable_peers, [SiteName::new(READER)]);
}

/// A site that hangs with sessions to it that were sound a moment ago adds two seconds to the outage, not the timeouts of
/// one statement and one connection after the other. report: B34
#[test]
fn a_hung_reader_is_not_waited_out() {
    let world = fencing(21);
    let order = first_hand(&world);
    let (fact, took) = timed(&world, || {
        let hung = async {
            let hands = world.hands();
            hands.sessions.warm(&world.group()).await;
            silence(&world, READER);
            cast::perform(&world, &hands, order, &Superseded::default()).await
        };
        world.run(hung).unwrap().unwrap()
    });
    assert_eq!(fenced(fact).unreachable_peers, [SiteName::new(READER)]);
    assert!(took < Duration::from_millis(2_500), "{took:?}");
}

/// A peer that takes writes beside the fenced source ends the fence: whichever site it is.
/// spec: PF-FEN-02
#[test]
fn a_writable_peer_ends_the_fence() {
    for peer in [TARGET, PEER, READER] {
        let world = fencing(13);
        world.state().expected_writers = 2;
        world.state().change(peer, Server::open);
        assert_eq!(failure(&carry_out(&world)), (Reason::ForeignWritable, true), "{peer}");
        assert!(world.journal().role_changes(peer).is_empty());
    }
}

/// A source at `read_only=ON, super_read_only=OFF` after the fence is not proven: the fence goes on.
/// report: B21
#[test]
fn read_only_alone_is_no_fence() {
    let world = fencing(14);
    world.at(after(SOURCE, Kind::SetSuperReadOnly), |state| {
        state.change(SOURCE, |server| server.super_read_only = false);
    });
    fenced(carry_out(&world));
    assert_eq!(world.journal().times(SOURCE, Kind::SetSuperReadOnly), 2);
}

/// A source that is silent for ten seconds from the first failed look is lost; a shorter silence is not.
/// spec: PF-LOS-01
#[test]
fn a_silent_source_is_lost_after_ten_seconds() {
    let world = fencing(15);
    silence(&world, SOURCE);
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(failure(&fact), (Reason::SourceLost, false));
    assert!(is_about(took, 10), "{took:?}");
    assert_eq!(take_in(&world, fact).run().unwrap().phase, Phase::RollingBack);

    let world = fencing(16);
    world.faults(SOURCE, None, 0, 3, Fault::Unreachable);
    fenced(carry_out(&world));
}

/// The claim is read again under the lock: a record that moves on at any moment before the fence leaves the source alone.
/// spec: PF-CLM-04, X-AUTH-01; report: B30
#[test]
fn nothing_is_sent_once_the_record_has_moved_on() {
    for moment in [before(SOURCE, Kind::TakeAuthority), after(SOURCE, Kind::TakeAuthority)] {
        let world = fencing(17);
        world.at(moment, |state| state.edit(move_record_on));
        let outcome = perform(&world, first_hand(&world));
        assert!(matches!(outcome, Err(Refused::NotLive(_))), "{outcome:?}");
        assert!(world.journal().role_changes(SOURCE).is_empty());
    }
    let world = fencing(18);
    let order = first_hand(&world);
    world.state().edit(move_record_on);
    assert!(matches!(perform(&world, order), Err(Refused::NotLive(_))));
    assert_eq!(world.journal().statements(SOURCE), []);
}

/// An older authority that still holds the lock is ended with what it was about to do, and cannot come back.
/// spec: X-AUTH-01; report: B28
#[test]
fn an_older_authority_is_ended() {
    let world = fencing(19);
    world
        .run(async {
            use bloodraven_ports::{Database, DatabaseSession, ServerAddress};
            let group = world.group();
            let address = ServerAddress::administrative(group.site(&SiteName::new(SOURCE)).unwrap());
            let mut old = world.database().open(&address).await.unwrap();
            old.take_authority().await.unwrap();
            let hands = world.hands();
            let fact = cast::perform(&world, &hands, first_hand(&world), &Default::default()).await;
            fenced(fact.unwrap());
            old.open_for_writes().await.unwrap_err();
        })
        .unwrap();
    assert!(world.state().server(SOURCE).unwrap().super_read_only);
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// Sessions are opened before they are needed: a fence over warm ones connects to nobody, and one over sessions that were
/// cut meanwhile opens new ones instead of failing.
#[test]
fn warm_sessions_are_used_and_replaced() {
    for cut in [false, true] {
        let world = fencing(21);
        let fact = world
            .run(async {
                let hands = world.hands();
                hands.sessions.warm(&world.group()).await;
                if cut {
                    world.state().change(SOURCE, Server::disconnect);
                    world.state().change(PEER, Server::disconnect);
                } else {
                    // Nobody could connect now; who is connected is served.
                    world.faults(SOURCE, Some(Kind::Open), 0, u32::MAX, Fault::Refuse(1040));
                    world.faults(PEER, Some(Kind::Open), 0, u32::MAX, Fault::Refuse(1040));
                }
                let superseded = Superseded::default();
                cast::perform(&world, &hands, first_hand(&world), &superseded).await
            })
            .unwrap();
        let fenced = fenced(fact.unwrap());
        assert!(fenced.unreachable_peers.is_empty(), "{fenced:?}");
    }
}

/// A fence that fails sends nothing to the target, and leaves clients where they were.
/// spec: PF-FEN-03; report: B18
#[test]
fn a_failed_fence_leaves_the_target_alone() {
    let world = Setting::new(20).build();
    world.faults(SOURCE, Some(Kind::SetSuperReadOnly), 0, u32::MAX, Fault::Refuse(1205));
    let cast = Cast::new(&world, Plan::default());
    let group = world
        .run(cast.play(async {
            world.time.sleep(Duration::from_secs(3)).await;
            world.state().annotate(Some(TARGET));
            until_ended(&world, Duration::from_secs(120)).await
        }))
        .unwrap();
    let result = group.run().unwrap().result.clone().unwrap();
    assert_eq!(
        (result.outcome, result.reason),
        (Outcome::RolledBack, Some(Reason::FenceFailed))
    );
    assert!(world.journal().role_changes(TARGET).is_empty());
    assert!(world.state().server(SOURCE).unwrap().serves_writes());
}
