//! Several replicas of one binary: one acts, in the order of the stream, and another one takes over.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bloodraven_bus::Exclusive;
use bloodraven_ports::Bus as _;
use common::{Entry, Journal, Replica, Writer, command, options, run_of, speaker, until, until_consumer};
use tokio::time::Instant;

/// In the order it was written, no group has two messages open, whoever handles them.
fn assert_one_at_a_time(entries: &[Entry], killed: &str) {
    let mut open: BTreeMap<&str, &Entry> = BTreeMap::new();
    for entry in entries {
        if entry.ended {
            open.remove(entry.group.as_str());
        } else if let Some(other) = open.insert(&entry.group, entry) {
            assert_eq!(other.replica, killed, "{other:?} was not over when {entry:?} began");
        }
    }
}

/// Of two replicas one has the turn; it is killed with messages of two groups in its hands. The other one takes over
/// and begins with those: each group's messages are begun in the order of the stream, one at a time, none is left out,
/// and the groups run in parallel. spec: X-ORD-01
#[tokio::test(flavor = "multi_thread")]
async fn the_other_replica_takes_over_in_order() {
    let lab = common::lab("bus-order").await;
    let (connection, bus) = speaker(&lab).await;
    let journal = Journal::default();
    let start = |replica| {
        let writer = Writer {
            replica,
            journal: journal.clone(),
            takes: Duration::from_millis(100),
        };
        Replica::start(&lab, writer, options("order", Exclusive::Pinned))
    };
    let mut replicas = BTreeMap::from([("a", start("a")), ("b", start("b"))]);
    until_consumer(&connection, "order").await;
    for attempt in 1..=40 {
        for group in ["orders", "carts"] {
            bus.order(&run_of(group, 1), attempt, command()).await.unwrap();
        }
    }
    until("a quarter is handled", || journal.ended() >= 20).await;
    let killed = journal.entries().last().unwrap().replica;
    replicas.remove(killed).unwrap().kill();
    let killed_at = Instant::now();
    let before = journal.entries().len();
    until("the other one has begun", || journal.entries().len() > before + 2).await;
    println!("took over after {:?}", killed_at.elapsed());
    until("everything is handled", || {
        let done: BTreeSet<_> = journal
            .entries()
            .into_iter()
            .filter(|entry| entry.ended)
            .map(|e| (e.group, e.attempt))
            .collect();
        done.len() == 80
    })
    .await;

    let entries = journal.entries();
    assert_one_at_a_time(&entries, killed);
    for group in ["orders", "carts"] {
        let mut highest = 0;
        for attempt in journal.begun(group) {
            // Taking over may repeat what the killed one had begun, and never skips or goes further back.
            assert!(attempt <= highest + 1, "{group}: {attempt} was begun after {highest}");
            highest = highest.max(attempt);
        }
        assert_eq!(highest, 40);
    }
    let by_survivor: Vec<_> = entries.iter().filter(|entry| entry.replica != killed).collect();
    let parallel = by_survivor
        .windows(2)
        .any(|pair| matches!(pair, [one, two] if !one.ended && !two.ended));
    assert!(parallel, "the groups did not run in parallel");
    for group in ["orders", "carts"] {
        let attempts: Vec<_> = by_survivor
            .iter()
            .filter(|entry| !entry.ended && entry.group == group)
            .map(|entry| entry.attempt)
            .collect();
        assert!(attempts.is_sorted(), "{group}: the survivor began with {attempts:?}");
    }
}

/// A replica keeps the turn while nothing is said, acts at once when something is, and the other one does nothing.
/// When it stops in good order the other one has the turn at once. spec: X-ORD-01
#[tokio::test(flavor = "multi_thread")]
async fn the_turn_is_kept_and_handed_over() {
    let lab = common::lab("bus-turn").await;
    let (connection, bus) = speaker(&lab).await;
    let journal = Journal::default();
    let start = |replica| {
        let writer = Writer {
            replica,
            journal: journal.clone(),
            takes: Duration::ZERO,
        };
        Replica::start(&lab, writer, options("turn", Exclusive::Pinned))
    };
    let mut replicas = BTreeMap::from([("a", start("a")), ("b", start("b"))]);
    until_consumer(&connection, "turn").await;
    bus.order(&run_of("orders", 1), 1, command()).await.unwrap();
    until("the first is handled", || journal.ended() == 1).await;
    let holder = journal.entries().last().unwrap().replica;
    assert!(bus.settled_within(common::PATIENCE).await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    for attempt in 2..=6 {
        let said = Instant::now();
        bus.order(&run_of("orders", 1), attempt, command()).await.unwrap();
        until("it is handled", || journal.ended() == usize::try_from(attempt).unwrap()).await;
        println!("{attempt}: after {:?}", said.elapsed());
    }
    assert!(
        journal.entries().iter().all(|entry| entry.replica == holder),
        "{:?}",
        journal.entries()
    );
    replicas.get(holder).unwrap().cancel();
    let cancelled = Instant::now();
    bus.order(&run_of("orders", 1), 7, command()).await.unwrap();
    until("the other one handles it", || journal.ended() == 7).await;
    println!("handed over after {:?}", cancelled.elapsed());
    assert!(
        cancelled.elapsed() < Duration::from_secs(3),
        "{:?}",
        cancelled.elapsed()
    );
    assert_eq!(journal.begun("orders"), [1, 2, 3, 4, 5, 6, 7]);
    replicas.clear();
}
