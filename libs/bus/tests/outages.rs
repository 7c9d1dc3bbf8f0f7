//! The bus loses its memory, its leader, its servers: what is said is heard, and everything comes back by itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use bloodraven_bus::{Connection, Exclusive, Inbox, InboxOptions, STREAM, read_run};
use bloodraven_lab::ProcessName;
use bloodraven_messages::latest::{Message, SubjectFilter};
use bloodraven_ports::Bus as _;
use bloodraven_types::Fact;
use bloodraven_types::fact::Lagging;
use common::{command, connection, options, run_of, speaker, until_consumer, until_ok};
use tokio::time::{Instant, timeout};

async fn kept(connection: &Connection, group: &str) -> Vec<Message> {
    let group = run_of(group, 1).group;
    until_ok("the stream is read", || read_run(connection, &group, None)).await
}

/// The stream, and with it every consumer, is deleted under running binaries: what is said meanwhile is heard at once,
/// stream and consumer are made again, and a message that is in nobody's hands then comes from the new stream.
/// spec: X-BUS-01 report: B55
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_stream_comes_back() {
    let lab = common::lab("bus-wipe").await;
    let (connection, bus) = speaker(&lab).await;
    let mut inbox = Inbox::open(&connection, options("wiped", Exclusive::Sole))
        .await
        .unwrap();
    until_consumer(&connection, "wiped").await;
    for attempt in 1..=5 {
        bus.order(&run_of("orders", 1), attempt, command()).await.unwrap();
        inbox.next().await.unwrap().done();
    }
    assert!(bus.settled_within(common::PATIENCE).await);
    until_ok("the stream is deleted", || connection.jetstream().delete_stream(STREAM)).await;

    // Said while there is no stream: the sequence numbers start again, the ids do not.
    let said = Instant::now();
    bus.order(&run_of("orders", 1), 6, command()).await.unwrap();
    let delivery = timeout(common::PATIENCE, inbox.next()).await.unwrap().unwrap();
    assert!(said.elapsed() < Duration::from_secs(1), "{:?}", said.elapsed());
    assert_eq!(delivery.message().attempt, 6);
    // Put off, so that only the stream can bring it again.
    delivery.later(Duration::from_millis(200));
    let again = timeout(common::PATIENCE, inbox.next()).await.unwrap().unwrap();
    assert_eq!(again.message().attempt, 6);
    println!("back after {:?}", said.elapsed());
    again.done();
    assert!(bus.settled_within(common::PATIENCE).await);
    until_consumer(&connection, "wiped").await;
    let left = kept(&connection, "orders").await;
    assert_eq!(left.iter().map(|message| message.attempt).collect::<Vec<_>>(), [6]);
    assert!(
        timeout(Duration::from_secs(1), inbox.next()).await.is_err(),
        "handled twice"
    );
}

/// A consumer that is deleted under a running binary comes back, and the binary misses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_consumer_comes_back() {
    let lab = common::lab("bus-consumer").await;
    let (connection, bus) = speaker(&lab).await;
    let mut inbox = Inbox::open(&connection, options("deleted", Exclusive::Pinned))
        .await
        .unwrap();
    until_consumer(&connection, "deleted").await;
    bus.order(&run_of("orders", 1), 1, command()).await.unwrap();
    inbox.next().await.unwrap().done();
    let stream = connection.jetstream().get_stream(STREAM).await.unwrap();
    until_ok("the consumer is deleted", || stream.delete_consumer("deleted")).await;
    let said = Instant::now();
    bus.order(&run_of("orders", 1), 2, command()).await.unwrap();
    let delivery = timeout(common::PATIENCE, inbox.next()).await.unwrap().unwrap();
    assert_eq!(delivery.message().attempt, 2);
    println!("back after {:?}", said.elapsed());
    delivery.done();
}

/// With two of three servers dead there is no stream to acknowledge anything. Whoever tells a fact is not held up by a
/// millisecond of that, its listener hears it at once, and the stream has it, once, when the servers are back.
/// report: B48 report: B53
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_stream_without_leader() {
    let lab = common::lab("bus-leaderless").await;
    let (connection, bus) = speaker(&lab).await;
    let listen = InboxOptions {
        filters: vec![SubjectFilter::FACTS],
        ..options("leaderless", Exclusive::Sole)
    };
    let mut inbox = Inbox::open(&connection, listen).await.unwrap();
    until_consumer(&connection, "leaderless").await;
    let mine = connection.client().server_info().server_name;
    let others: Vec<_> = (1..=3)
        .filter(|number| format!("n{number}") != mine)
        .map(ProcessName::Nats)
        .collect();
    for other in &others {
        lab.kill(other).await.unwrap();
    }
    for missing in 1..=20 {
        let told = Instant::now();
        let lagging = Fact::Lagging(Lagging {
            missing_transactions: missing,
        });
        bus.tell(&run_of("orders", 1), lagging.clone()).await.unwrap();
        assert!(
            told.elapsed() < Duration::from_millis(50),
            "telling took {:?}",
            told.elapsed()
        );
        let delivery = timeout(Duration::from_secs(2), inbox.next()).await.unwrap().unwrap();
        assert!(
            told.elapsed() < Duration::from_millis(500),
            "hearing took {:?}",
            told.elapsed()
        );
        delivery.done();
    }
    assert!(!bus.settled_within(Duration::from_millis(500)).await);
    for other in &others {
        lab.start(other).await.unwrap();
    }
    assert!(bus.settled_within(common::PATIENCE).await);
    let run = kept(&connection, "orders").await;
    assert_eq!(run.len(), 20);
    assert!(
        timeout(Duration::from_secs(1), inbox.next()).await.is_err(),
        "handled twice"
    );
}

/// Every server is killed and started again: the connection, the subscriptions and the consumer are back, and what was
/// said meanwhile is heard, once. report: B54
#[tokio::test(flavor = "multi_thread")]
async fn everything_resumes_after_a_restart_of_all_servers() {
    for exclusive in [Exclusive::Sole, Exclusive::Pinned] {
        let lab = common::lab("bus-restart").await;
        let (speaks, bus) = speaker(&lab).await;
        let listens = connection(&lab, "fencer").await;
        let mut inbox = Inbox::open(&listens, options("restarted", exclusive)).await.unwrap();
        until_consumer(&speaks, "restarted").await;
        bus.order(&run_of("orders", 1), 1, command()).await.unwrap();
        inbox.next().await.unwrap().done();
        let all = [1, 2, 3].map(ProcessName::Nats);
        for server in &all {
            lab.kill(server).await.unwrap();
        }
        bus.order(&run_of("orders", 1), 2, command()).await.unwrap();
        for server in &all {
            lab.start(server).await.unwrap();
        }
        let started = Instant::now();
        let delivery = timeout(common::PATIENCE, inbox.next()).await.unwrap().unwrap();
        assert_eq!(delivery.message().attempt, 2);
        println!(
            "{exclusive:?}: resumed {:?} after the servers were up",
            started.elapsed()
        );
        delivery.done();
        assert!(bus.settled_within(common::PATIENCE).await);
        for attempt in 3..=5 {
            bus.order(&run_of("orders", 1), attempt, command()).await.unwrap();
            let delivery = timeout(common::PATIENCE, inbox.next()).await.unwrap().unwrap();
            assert_eq!(delivery.message().attempt, u64::from(attempt));
            delivery.done();
        }
        assert!(
            timeout(Duration::from_secs(1), inbox.next()).await.is_err(),
            "handled twice"
        );
    }
}

/// What a later revision of a run says replaces what the stream has not taken of an earlier one.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_run_has_left_behind_is_not_repeated() {
    let lab = common::lab("bus-superseded").await;
    let (connection, bus) = speaker(&lab).await;
    until_ok("the stream is deleted", || connection.jetstream().delete_stream(STREAM)).await;
    bus.order(&run_of("orders", 1), 1, command()).await.unwrap();
    bus.order(&run_of("carts", 1), 1, command()).await.unwrap();
    bus.order(&run_of("orders", 2), 1, command()).await.unwrap();
    until_ok("the stream is made", || bloodraven_bus::ensure_stream(&connection)).await;
    assert!(bus.settled_within(common::PATIENCE).await);
    let revisions: Vec<_> = kept(&connection, "orders")
        .await
        .iter()
        .map(|message| message.about.revision.get())
        .collect();
    assert_eq!(revisions, [2]);
    assert_eq!(kept(&connection, "carts").await.len(), 1);
}
