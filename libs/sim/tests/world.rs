//! The world itself: it keeps the promises that a real one keeps, breaks those that a real one breaks, and tells which.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_ports::{
    Bus, Database, DatabaseError, DatabaseSession, GroupStore, ReplicationSource, ServerAddress, StoreError,
};
use bloodraven_sim::api::WriteFault;
use bloodraven_sim::bus::{Body, Hears};
use bloodraven_sim::database::{STATEMENT_TIMEOUT, SimSession};
use bloodraven_sim::server::{Link, Server};
use bloodraven_sim::setting::{PEER, SOURCE, TARGET, address, uuid_of};
use bloodraven_sim::{Applied, Fault, Kind, Moment, Setting, World};
use bloodraven_types::fact::{Fact, Lagging};
use bloodraven_types::{Phase, RunRef, SiteName};

const MILLISECOND: Duration = Duration::from_millis(1);

async fn session(world: &World, site: &str) -> SimSession {
    let group = world.group();
    let address = ServerAddress::administrative(group.site(&SiteName::new(site)).unwrap());
    world.database().open(&address).await.unwrap()
}

async fn pause(world: &World, millis: u64) {
    world.time.sleep(Duration::from_millis(millis)).await;
}

fn is_fenced(world: &World, site: &str) -> bool {
    world.state().server(site).unwrap().super_read_only
}

/// Two sites that take writes, and a role change that no committed record announces, are noted with their time.
#[test]
fn what_must_never_be_is_noted() {
    let world = Setting::new(1).build();
    world
        .run(async {
            session(&world, TARGET).await.open_for_writes().await.unwrap();
        })
        .unwrap();
    let violations = world.violations().join("\n");
    assert!(
        violations.contains("more than one site takes writes: iad, pdx"),
        "{violations}"
    );
    assert!(violations.contains("which does not announce it"), "{violations}");

    let world = Setting::new(2).build();
    world.bring_to(Phase::Fencing);
    world
        .run(async {
            session(&world, SOURCE).await.set_super_read_only().await.unwrap();
        })
        .unwrap();
    assert!(world.violations().is_empty());
}

/// A transaction arrives after the lag, also along a chain; not while a thread is stopped or the source is silent.
#[test]
fn transactions_travel_with_their_lag() {
    let world = Setting::new(3).lag(Duration::from_millis(100)).build();
    world.state().change(PEER, |server| {
        server.channels[0].source = address(TARGET);
    });
    let transaction = world.state().commit(SOURCE).unwrap();
    let has = |site: &str| world.state().server(site).unwrap().has(transaction);
    world
        .run(async {
            pause(&world, 99).await;
            assert!(!has(TARGET));
            pause(&world, 1).await;
            assert!(has(TARGET) && !has(PEER));
            pause(&world, 100).await;
            assert!(has(PEER));
        })
        .unwrap();
    let later = world.state().commit(SOURCE).unwrap();
    world.state().change(SOURCE, |server| server.link = Link::Silent);
    world.run(pause(&world, 1_000)).unwrap();
    assert!(!world.state().server(TARGET).unwrap().has(later));
    world.state().change(SOURCE, |server| server.link = Link::Up);
    world.run(pause(&world, 1)).unwrap();
    assert!(world.state().server(TARGET).unwrap().has(later));
}

/// A new channel starts where the server stands, and its threads come up a little later.
#[test]
fn a_channel_is_made_again() {
    let world = Setting::new(4).build();
    world.bring_to(Phase::Promoting);
    let source = ReplicationSource {
        host: address(SOURCE).0,
        port: address(SOURCE).1,
    };
    world
        .run(async {
            let mut target = session(&world, TARGET).await;
            target.stop_replica().await.unwrap();
            target.reset_replica_all().await.unwrap();
            target.start_replica().await.unwrap_err();
            target.change_source(&source).await.unwrap();
            let missed = world.state().commit(SOURCE).unwrap();
            target.start_replica().await.unwrap();
            assert!(!target.observe().await.unwrap().channels[0].is_running());
            pause(&world, 50).await;
            let observed = target.observe().await.unwrap();
            assert!(observed.channels[0].is_running());
            assert_eq!(observed.channels[0].source_uuid, Some(uuid_of(SOURCE)));
            assert!(world.state().server(TARGET).unwrap().has(missed));
            target.reset_replica_all().await.unwrap_err();
        })
        .unwrap();
}

/// Each fault of a statement has the error that the port gives it, and the effect that the fault says.
#[test]
fn statements_go_wrong_in_every_way() {
    type Expected = fn(&DatabaseError) -> bool;
    let killed: Expected = |error| matches!(error, DatabaseError::Killed { .. });
    let unsettled: Expected = |error| matches!(error, DatabaseError::Unsettled { .. });
    let cases: [(Fault, Expected, bool, bool); 7] = [
        (
            Fault::Refuse(1205),
            |error| matches!(error, DatabaseError::Refused { code: 1205, .. }),
            false,
            false,
        ),
        (Fault::Killed { applied: true }, killed, true, true),
        (Fault::Killed { applied: false }, killed, false, false),
        (Fault::Slow(Duration::from_secs(60)), killed, false, false),
        (Fault::Unsettled(Applied::Before), unsettled, true, true),
        (
            Fault::Unsettled(Applied::Later(Duration::from_secs(3))),
            unsettled,
            false,
            true,
        ),
        (Fault::Unreachable, unsettled, false, false),
    ];
    for (fault, expected, at_once, in_the_end) in cases {
        let world = Setting::new(5).build();
        world.bring_to(Phase::Fencing);
        world.fault(SOURCE, Kind::SetSuperReadOnly, fault.clone());
        world
            .run(async {
                let mut source = session(&world, SOURCE).await;
                let began = world.time.now();
                let error = source.set_super_read_only().await.unwrap_err();
                assert!(expected(&error), "{fault:?}: {error}");
                assert!(world.time.now() - began <= STATEMENT_TIMEOUT + MILLISECOND);
                assert_eq!(is_fenced(&world, SOURCE), at_once, "{fault:?}");
                if error.is_no_answer() {
                    source.observe().await.unwrap_err();
                }
                pause(&world, 90_000).await;
                assert_eq!(is_fenced(&world, SOURCE), in_the_end, "{fault:?}");
            })
            .unwrap();
    }
}

/// A look at a silent server ends as unreachable after the statement's time, and a connection after its own.
#[test]
fn a_silent_server_costs_its_timeouts() {
    let world = Setting::new(6).build();
    world
        .run(async {
            let mut source = session(&world, SOURCE).await;
            world.state().change(SOURCE, |server| server.link = Link::Silent);
            let began = world.time.now();
            let error = source.observe().await.unwrap_err();
            assert!(matches!(error, DatabaseError::Unreachable { .. }), "{error}");
            assert_eq!(world.time.now() - began, STATEMENT_TIMEOUT);
            let address = source.address().clone();
            assert!(world.database().open(&address).await.is_err());
            world.state().change(SOURCE, |server| server.link = Link::Refusing);
            let began = world.time.now();
            assert!(world.database().open(&address).await.is_err());
            assert!(world.time.now() - began < Duration::from_millis(5));
        })
        .unwrap();
}

/// A statement whose caller is gone has its effect all the same, unless its session is ended first: by who takes the lock.
#[test]
fn a_dropped_statement_lives_on_until_its_session_is_ended() {
    for ended in [false, true] {
        let world = Setting::new(7).build();
        world.bring_to(Phase::Fencing);
        world.fault(SOURCE, Kind::SetSuperReadOnly, Fault::Slow(Duration::from_secs(2)));
        world
            .run(async {
                let mut old = session(&world, SOURCE).await;
                old.take_authority().await.unwrap();
                {
                    let fence = std::pin::pin!(old.set_super_read_only());
                    let gone = std::pin::pin!(pause(&world, 100));
                    futures::future::select(fence, gone).await;
                }
                drop(old);
                if ended {
                    let mut new = session(&world, SOURCE).await;
                    assert!(new.take_authority().await.unwrap().ended.is_some());
                    pause(&world, 5_000).await;
                } else {
                    pause(&world, 5_000).await;
                }
                assert_eq!(is_fenced(&world, SOURCE), !ended);
            })
            .unwrap();
    }
}

/// A client that is gone frees its lock at once, or holds it on for ever where the server does not notice.
#[test]
fn a_lingering_session_keeps_its_lock() {
    for lingering in [0, 1_000] {
        let world = Setting::new(8).build();
        world.state().lingering = lingering;
        world
            .run(async {
                let mut old = session(&world, SOURCE).await;
                old.take_authority().await.unwrap();
                drop(old);
                pause(&world, 60_000).await;
                let taken = session(&world, SOURCE).await.take_authority().await.unwrap();
                assert_eq!(taken.ended.is_some(), lingering > 0);
            })
            .unwrap();
    }
    let world = Setting::new(9).build();
    world
        .run(async {
            let mut old = session(&world, SOURCE).await;
            old.take_authority().await.unwrap();
            world
                .state()
                .change(SOURCE, |server| server.authority_can_be_ended = false);
            let error = session(&world, SOURCE).await.take_authority().await.unwrap_err();
            assert!(matches!(error, DatabaseError::AuthorityHeld { .. }), "{error}");
        })
        .unwrap();
}

/// A write is conditioned on the version, a write of nothing makes none, and observations are conditioned on the uid only.
#[test]
fn writes_are_conditioned() {
    let world = Setting::new(10).build();
    let store = world.store();
    let set = |value: &str| BTreeMap::from([("example.org/x".to_owned(), Some(value.to_owned()))]);
    world
        .run(async {
            let first = store.get(&world.key()).await.unwrap();
            let second = store.write_annotations(&first, &set("1")).await.unwrap();
            assert_ne!(first.resource_version, second.resource_version);
            let same = store.write_annotations(&second, &set("1")).await.unwrap();
            assert_eq!(second.resource_version, same.resource_version);
            let stale = store.write_annotations(&first, &set("2")).await;
            assert!(matches!(stale, Err(StoreError::Conflict { .. })));
            world.state().delete(Some("uid-2".into()));
            let recreated = store.write_annotations(&same, &set("3")).await;
            assert!(matches!(recreated, Err(StoreError::Conflict { .. })));
            world.state().delete(None);
            assert!(matches!(
                store.get(&world.key()).await,
                Err(StoreError::NotFound { .. })
            ));
        })
        .unwrap();
}

/// Each fault of a write is ambiguous or late as it says, and is committed or not as it says; a late commit loses against
/// whoever moves the version first. report: B60
#[test]
fn writes_go_wrong_in_every_way() {
    let late = Duration::from_millis(50);
    let cases = [
        (WriteFault::LostRequest, false, false),
        (WriteFault::LostReply, true, true),
        (WriteFault::LateReply(late), true, true),
        (WriteFault::LateCommit(late), false, true),
        (WriteFault::Refused(403), false, false),
    ];
    for (fault, at_once, in_the_end) in cases {
        for intruder in [false, true] {
            let world = Setting::new(11).build();
            world.state().api.faults.insert(0, fault);
            let set = BTreeMap::from([("example.org/x".to_owned(), Some("1".to_owned()))]);
            world
                .run(async {
                    let group = world.group();
                    let written = world.store().write_annotations(&group, &set).await;
                    assert_eq!(written.is_ok(), matches!(fault, WriteFault::LateReply(_)), "{fault:?}");
                    let has = || world.group().annotation("example.org/x").is_some();
                    assert_eq!(has(), at_once, "{fault:?}");
                    if intruder {
                        world.state().annotate(Some(TARGET));
                    }
                    pause(&world, 100).await;
                    assert_eq!(has(), in_the_end && (at_once || !intruder), "{fault:?}");
                })
                .unwrap();
        }
    }
}

/// A status is kept as its JSON says it: whole seconds.
#[test]
fn a_status_is_kept_as_the_interface_says_it() {
    let world = Setting::new(12).build();
    world
        .run(async {
            pause(&world, 1_234).await;
            let group = world.group();
            let mut status = group.status.clone();
            status.sites[0].last_seen = Some(world.wall_clock());
            let written = world.store().write_status(&group, &status).await.unwrap();
            let seen = written.status.sites[0].last_seen.unwrap();
            assert_eq!(seen, world.wall_clock().whole_seconds());
        })
        .unwrap();
}

/// The bus loses, repeats and delays as its weather says, for each listener on its own, and marks what it repeats.
#[test]
fn the_bus_has_its_weather() {
    let heard = |lost: u64, doubled: u64| {
        let world = Setting::new(13).build();
        world.bring_to(Phase::WaitingForLag);
        let inbox = world.listen(Hears::Facts);
        {
            let mut state = world.state();
            state.post.weather.lost = lost;
            state.post.weather.doubled = doubled;
            state.post.weather.delay = MILLISECOND..=Duration::from_millis(20);
        }
        let mut heard = Vec::new();
        let about = RunRef::of(&world.group()).unwrap();
        world
            .run(async {
                for missing_transactions in 0..200 {
                    let fact = Fact::Lagging(Lagging { missing_transactions });
                    world.bus().tell(&about, fact).await.unwrap();
                }
                let listen = async {
                    loop {
                        let message = inbox.next().await;
                        if let Body::Fact(_, Fact::Lagging(lagging)) = message.body {
                            heard.push((lagging.missing_transactions, message.redelivered));
                        }
                    }
                };
                futures::future::select(std::pin::pin!(listen), std::pin::pin!(pause(&world, 100))).await;
            })
            .unwrap();
        heard
    };
    let calm = heard(0, 0);
    assert_eq!(calm.len(), 200);
    assert!(!calm.is_sorted(), "delays change the order");
    assert!((60..140).contains(&heard(500, 0).len()));
    let doubled = heard(0, 1_000);
    assert_eq!(doubled.len(), 400);
    assert_eq!(doubled.iter().filter(|(_, redelivered)| *redelivered).count(), 200);
    assert_eq!(calm, heard(0, 0), "the same seed, the same weather");
}

/// A hook runs at its moment, once, after as many have passed as it was told to wait for.
#[test]
fn hooks_run_at_their_moment() {
    let world = Setting::new(14).build();
    let moment = Moment::After(SiteName::new(SOURCE), Kind::Observe);
    world.at_later(moment, 1, |state| state.change(SOURCE, Server::fence));
    world
        .run(async {
            let mut source = session(&world, SOURCE).await;
            assert!(!source.observe().await.unwrap().super_read_only);
            assert!(!source.observe().await.unwrap().super_read_only);
            assert!(source.observe().await.unwrap().super_read_only);
        })
        .unwrap();
}
