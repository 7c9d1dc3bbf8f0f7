//! The claim's probes: what they wait for, how often they say so, and what ends the wait.

use std::time::Duration;

use bloodraven_executor::Superseded;
use bloodraven_executor::hands::Refused;
use bloodraven_ports::BlockingSession;
use bloodraven_sim::server::{Link, Server};
use bloodraven_sim::setting::{PEER, READER, SOURCE, TARGET, uuid_of};
use bloodraven_sim::{Event, Setting, World, WorldState, cast};
use bloodraven_types::fact::Waiting;
use bloodraven_types::{Fact, Phase, SiteName, WaitReason};

use crate::common::{carry_out, first_hand, move_record_on};

fn admitting(seed: u64) -> World {
    let world = Setting::new(seed).with_reader().build();
    world.bring_to(Phase::Admitting);
    world
}

fn told(world: &World) -> Vec<Waiting> {
    let journal = world.journal();
    let waits = journal.facts().into_iter().filter_map(|fact| match fact {
        Fact::Waiting(waiting) => Some(waiting.clone()),
        _ => None,
    });
    waits.collect()
}

/// Probes while something is in the way for five seconds, then it is gone: what was told, and what the grant says.
fn delayed(world: &World, hinder: fn(&mut Server), heal: fn(&mut Server), site: &'static str) -> (Vec<Waiting>, Fact) {
    world.state().change(site, hinder);
    let fact = world
        .run(async {
            let hands = world.hands();
            let superseded = Superseded::default();
            let probes = cast::perform(world, &hands, first_hand(world), &superseded);
            let healed = async {
                world.time.sleep(Duration::from_secs(5)).await;
                world.state().change(site, heal);
            };
            futures::join!(probes, healed).0.unwrap()
        })
        .unwrap();
    (told(world), fact)
}

/// With everything in order the first look grants, names the servers, and changes nothing anywhere. spec: PF-ADM-11
#[test]
fn the_claim_is_granted() {
    let world = admitting(1);
    let Fact::Granted(granted) = carry_out(&world) else {
        panic!("not granted: {}", world.journal().text());
    };
    assert_eq!(granted.source, SiteName::new(SOURCE));
    assert_eq!(
        (granted.source_server_uuid, granted.target_server_uuid),
        (uuid_of(SOURCE), uuid_of(TARGET))
    );
    assert!(told(&world).is_empty());
    for site in [SOURCE, TARGET, PEER, READER] {
        assert!(world.journal().role_changes(site).is_empty());
    }
}

/// Each thing in the way of the claim waits with its own reason, is told once however long it lasts, and the grant follows
/// as soon as it is gone. spec: PF-ADM-11, PF-ADM-12, PF-ADM-14, X-PRE-01; report: B16, B28
#[test]
fn each_wait_is_told_once() {
    type Change = fn(&mut Server);
    let cases: [(&str, Change, Change, WaitReason); 10] = [
        (SOURCE, Server::fence, Server::open, WaitReason::AuthorityUnsettled),
        (SOURCE, silent, up, WaitReason::PeerUnreadable),
        (
            SOURCE,
            block,
            |server| server.blockers.clear(),
            WaitReason::FenceWouldBlock,
        ),
        (PEER, silent, up, WaitReason::PeerUnreadable),
        (PEER, Server::open, Server::fence, WaitReason::AuthorityUnsettled),
        (READER, Server::open, Server::fence, WaitReason::AuthorityUnsettled),
        (TARGET, silent, up, WaitReason::TargetNotReady),
        (TARGET, stop_io, start, WaitReason::TargetNotReady),
        (TARGET, break_applier, mend_applier, WaitReason::TargetNotReady),
        (TARGET, double_channel, single_channel, WaitReason::TargetNotReady),
    ];
    for (site, hinder, heal, reason) in cases {
        let world = admitting(2);
        world.state().expected_writers = 2;
        let (waits, fact) = delayed(&world, hinder, heal, site);
        assert!(matches!(fact, Fact::Granted(_)), "{site} {reason}: {fact:?}");
        assert_eq!(
            waits.iter().map(|wait| wait.reason).collect::<Vec<_>>(),
            [reason],
            "{site} {waits:?}"
        );
    }
}

/// What would hold the fence up is named with its session and user; what is short-lived does not count.
/// spec: X-PRE-01; report: B16, B24
#[test]
fn a_blocker_is_named() {
    let world = admitting(3);
    let (waits, _) = delayed(&world, block, |server| server.blockers.clear(), SOURCE);
    assert!(
        waits[0].detail.contains("session 77 of batch: UPDATE orders"),
        "{waits:?}"
    );
    let world = admitting(4);
    world.state().change(SOURCE, |server| {
        block(server);
        server.blockers.iter_mut().for_each(|blocker| blocker.seconds = 0);
    });
    assert!(matches!(carry_out(&world), Fact::Granted(_)));
}

/// A target that follows another server than the source, or none, is not ready. spec: PF-ADM-11; report: B27
#[test]
fn the_target_must_follow_the_source() {
    let world = admitting(5);
    world.state().change(TARGET, |server| server.channels.clear());
    let (waits, fact) = delayed(&world, |_| {}, |server| *server = followed(server), TARGET);
    assert_eq!(waits[0].reason, WaitReason::TargetNotReady);
    assert!(matches!(fact, Fact::Granted(_)));

    let world = admitting(6);
    world.state().change(TARGET, |server| {
        server.channels[0].source = bloodraven_sim::setting::address(PEER);
    });
    let (waits, _) = delayed(&world, |_| {}, |server| *server = followed(server), TARGET);
    assert!(waits[0].detail.contains("not the source"), "{waits:?}");
}

/// A silent reader does not hold the claim up; it is named. spec: PF-ADM-13
#[test]
fn a_silent_reader_is_no_wait() {
    let world = admitting(7);
    world.state().change(READER, silent);
    let Fact::Granted(granted) = carry_out(&world) else {
        panic!("not granted");
    };
    assert_eq!(granted.unreachable_readers, [SiteName::new(READER)]);
}

/// A wait that is on the record already is not told again by a process that takes over. spec: PF-ADM-12
#[test]
fn a_recorded_wait_is_not_told_again() {
    let world = admitting(8);
    let (waits, _) = delayed(&world, block, |server| server.blockers.clear(), SOURCE);
    let world = admitting(8);
    crate::common::take_in(&world, Fact::Waiting(waits[0].clone()));
    let (again, fact) = delayed(&world, block, |server| server.blockers.clear(), SOURCE);
    assert!(again.is_empty(), "{again:?}");
    assert!(matches!(fact, Fact::Granted(_)));
}

/// The probes end with the request's deadline, and an order that the record has left behind is not begun.
/// spec: PF-ADM-04; report: B30
#[test]
fn the_probes_end_with_the_request() {
    let world = admitting(9);
    world.state().change(PEER, silent);
    let began = world.time.now();
    let outcome = crate::common::perform(&world, first_hand(&world));
    assert!(matches!(outcome, Err(Refused::Superseded)), "{outcome:?}");
    let took = world.time.now() - began;
    assert!(
        took >= Duration::from_secs(119) && took < Duration::from_secs(130),
        "{took:?}"
    );

    let world = admitting(10);
    let order = first_hand(&world);
    world.state().edit(move_record_on);
    assert!(matches!(
        crate::common::perform(&world, order),
        Err(Refused::NotLive(_))
    ));
    let statements = |state: &WorldState| state.journal.position(|event| matches!(event, Event::Statement { .. }));
    assert_eq!(statements(&world.state()), None);
}

fn silent(server: &mut Server) {
    server.link = Link::Silent;
}

fn up(server: &mut Server) {
    server.link = Link::Up;
}

fn block(server: &mut Server) {
    server.blockers = vec![BlockingSession {
        id: 77,
        user: "batch".to_owned(),
        what: "UPDATE orders".to_owned(),
        seconds: 12,
    }];
}

fn stop_io(server: &mut Server) {
    server.channels[0].io_started = false;
}

fn start(server: &mut Server) {
    server.channels[0].start(Duration::ZERO);
}

fn break_applier(server: &mut Server) {
    server.channels[0].sql_error = Some("1062: duplicate entry".to_owned());
}

fn mend_applier(server: &mut Server) {
    server.channels[0].sql_error = None;
}

fn double_channel(server: &mut Server) {
    let mut second = server.channels[0].clone();
    second.name = "other".to_owned();
    server.channels.push(second);
}

fn single_channel(server: &mut Server) {
    server.channels.truncate(1);
}

fn followed(server: &Server) -> Server {
    let mut server = server.clone();
    let source = bloodraven_sim::setting::address(SOURCE);
    server.channels = vec![bloodraven_sim::server::Replica::running(source, Duration::ZERO)];
    server
}
