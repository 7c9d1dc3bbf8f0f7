//! One replica: every message once, nothing lost.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::PriorityPolicy;
use bloodraven_bus::{
    Delivery, DriveOptions, Exclusive, Handler, Inbox, InboxOptions, NatsBus, Outcome, STREAM, drive, ensure_stream,
    read_run,
};
use bloodraven_messages::latest::{Message, encode};
use bloodraven_ports::{Bus as _, Clock as _};
use bloodraven_types::fact::Waiting;
use bloodraven_types::{Fact, WaitReason};
use common::{
    Journal, Replica, TestClock, Writer, command, group, options, run_of, speaker, until, until_consumer, until_ok,
};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// How many messages a consumer still owes an outcome for, delivered or not.
async fn owed(connection: &bloodraven_bus::Connection, durable: &str) -> u64 {
    let info = until_ok("the consumer is read", || async {
        let stream = connection
            .jetstream()
            .get_stream_no_info(STREAM)
            .await
            .map_err(std::io::Error::other)?;
        stream.consumer_info(durable).await.map_err(std::io::Error::other)
    })
    .await;
    info.num_pending + u64::try_from(info.num_ack_pending).unwrap()
}

async fn until_nothing_owed(connection: &bloodraven_bus::Connection, durable: &str) {
    let deadline = Instant::now() + common::PATIENCE;
    while owed(connection, durable).await > 0 {
        assert!(Instant::now() < deadline, "the consumer is still owed an outcome");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The stream and the consumer are what they are said to be, read back from the server: three copies, and an ack wait
/// that no back-off overrides. Making them twice changes nothing. report: B50
#[tokio::test(flavor = "multi_thread")]
async fn stream_and_consumer_read_back() {
    let lab = common::lab("bus-config").await;
    let (connection, _bus) = speaker(&lab).await;
    let report = ensure_stream(&connection).await.unwrap();
    assert_eq!((report.created, report.replicas), (false, 3));
    for (durable, exclusive, policy) in [
        ("alone", Exclusive::Sole, PriorityPolicy::None),
        ("several", Exclusive::Pinned, PriorityPolicy::PinnedClient),
    ] {
        let _inbox = Inbox::open(&connection, options(durable, exclusive)).await.unwrap();
        until_consumer(&connection, durable).await;
        let stream = connection.jetstream().get_stream(STREAM).await.unwrap();
        let info = until_ok("the consumer is read", || stream.consumer_info(durable)).await;
        let config = info.config;
        assert_eq!(config.ack_wait, Duration::from_secs(5));
        assert_eq!(config.backoff, Vec::<Duration>::new());
        assert_eq!(config.max_deliver, -1);
        assert_eq!(config.inactive_threshold, Duration::ZERO);
        assert_eq!(config.priority_policy, policy);
        assert_eq!(stream.cached_info().config.max_age, Duration::from_secs(7 * 24 * 3600));
    }
}

/// Copies of one message, on the subject and from the stream, reach the handler once, and all are acknowledged; a
/// message that is handled is not handled again when the stream delivers it once more. report: B50 report: B52
#[tokio::test(flavor = "multi_thread")]
async fn copies_are_handled_once() {
    let lab = common::lab("bus-copies").await;
    let (connection, _bus) = speaker(&lab).await;
    let mut inbox = Inbox::open(&connection, options("copies", Exclusive::Sole))
        .await
        .unwrap();
    until_consumer(&connection, "copies").await;
    let now = TestClock::new().now().whole_seconds();
    let message = Message::command("test", now, run_of("orders", 3), 1, command());
    for copy in 0..5 {
        // Another header id each time, so that the stream keeps all five.
        let mut headers = async_nats::HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, format!("copy-{copy}"));
        let bytes = encode(&message).unwrap();
        connection
            .jetstream()
            .publish_with_headers(message.subject(), headers, bytes.into())
            .await
            .unwrap()
            .await
            .unwrap();
    }
    let delivery = inbox.next().await.unwrap();
    assert_eq!(delivery.message(), &message);
    assert!(
        timeout(Duration::from_millis(300), inbox.next()).await.is_err(),
        "delivered twice while in flight"
    );
    delivery.done();
    until_nothing_owed(&connection, "copies").await;
    assert!(
        timeout(Duration::from_millis(300), inbox.next()).await.is_err(),
        "delivered again after it was handled"
    );
}

/// A message is acted on before the stream has it: the first step of a run does not wait for an acknowledgement.
#[tokio::test(flavor = "multi_thread")]
async fn messages_are_acted_on_at_once() {
    let lab = common::lab("bus-at-once").await;
    let (connection, bus) = speaker(&lab).await;
    let mut inbox = Inbox::open(&connection, options("at-once", Exclusive::Sole))
        .await
        .unwrap();
    until_consumer(&connection, "at-once").await;
    let mut longest = Duration::ZERO;
    for attempt in 1..=50 {
        let said = Instant::now();
        bus.order(&run_of("orders", 1), attempt, command()).await.unwrap();
        let delivery = inbox.next().await.unwrap();
        longest = longest.max(said.elapsed());
        assert_eq!(delivery.message().attempt, u64::from(attempt));
        delivery.done();
    }
    println!("longest hop of 50: {longest:?}");
    assert!(bus.settled_within(common::PATIENCE).await);
    until_nothing_owed(&connection, "at-once").await;
}

/// A message that takes longer than the ack wait is not delivered again meanwhile. report: B50
#[tokio::test(flavor = "multi_thread")]
async fn a_long_step_is_not_repeated() {
    let lab = common::lab("bus-long").await;
    let (connection, bus) = speaker(&lab).await;
    let mut inbox = Inbox::open(&connection, options("long", Exclusive::Sole))
        .await
        .unwrap();
    until_consumer(&connection, "long").await;
    bus.order(&run_of("orders", 1), 1, command()).await.unwrap();
    let delivery = inbox.next().await.unwrap();
    assert!(
        timeout(Duration::from_secs(8), inbox.next()).await.is_err(),
        "delivered again while in flight"
    );
    let stream = connection.jetstream().get_stream(STREAM).await.unwrap();
    assert_eq!(stream.consumer_info("long").await.unwrap().num_redelivered, 0);
    delivery.done();
    until_nothing_owed(&connection, "long").await;
}

/// What a handler puts off comes back after that time, and what it drops comes back soon.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_off_comes_back() {
    let lab = common::lab("bus-later").await;
    let (connection, bus) = speaker(&lab).await;
    let mut inbox = Inbox::open(&connection, options("later", Exclusive::Sole))
        .await
        .unwrap();
    until_consumer(&connection, "later").await;
    bus.order(&run_of("orders", 1), 1, command()).await.unwrap();
    let put_off = Instant::now();
    inbox.next().await.unwrap().later(Duration::from_secs(1));
    let again = timeout(common::PATIENCE, inbox.next()).await.unwrap().unwrap();
    assert!(put_off.elapsed() >= Duration::from_secs(1), "{:?}", put_off.elapsed());
    drop(again);
    timeout(common::PATIENCE, inbox.next()).await.unwrap().unwrap().done();
    until_nothing_owed(&connection, "later").await;
}

/// A process that is killed while it handles a message loses nothing: the next one gets the message from the stream,
/// marked as delivered before.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_handlers_message_comes_again() {
    let lab = common::lab("bus-kill").await;
    let (connection, bus) = speaker(&lab).await;
    let journal = Journal::default();
    let writer = |replica, takes| Writer {
        replica,
        journal: journal.clone(),
        takes,
    };
    let first = Replica::start(
        &lab,
        writer("first", Duration::from_secs(3600)),
        options("killed", Exclusive::Sole),
    );
    until_consumer(&connection, "killed").await;
    bus.order(&run_of("orders", 1), 1, command()).await.unwrap();
    until("the first has begun", || journal.begun("orders") == [1]).await;
    // Only what the consumer has delivered is delivered *again*.
    until_ok("the stream has delivered it", || async {
        let stream = connection
            .jetstream()
            .get_stream_no_info(STREAM)
            .await
            .map_err(std::io::Error::other)?;
        let info = stream.consumer_info("killed").await.map_err(std::io::Error::other)?;
        if info.num_ack_pending == 1 {
            Ok(())
        } else {
            Err(std::io::Error::other("not yet"))
        }
    })
    .await;
    first.kill();
    let _second = Replica::start(
        &lab,
        writer("second", Duration::ZERO),
        options("killed", Exclusive::Sole),
    );
    until("the second has handled it", || journal.ended() == 1).await;
    let last = journal.entries().pop().unwrap();
    assert_eq!((last.replica, last.attempt, last.redelivered), ("second", 1, true));
    until_nothing_owed(&connection, "killed").await;
}

/// Two facts of one name at one revision are two messages, and the stream tells the run in the order it was told.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_back() {
    let lab = common::lab("bus-runs").await;
    let (connection, bus) = speaker(&lab).await;
    let about = run_of("orders.eu", 2);
    for detail in ["pdx lags", "pdx lags", "pdx is down"] {
        let waiting = Waiting {
            reason: WaitReason::TargetLagging,
            detail: detail.to_owned(),
        };
        bus.tell(&about, Fact::Waiting(waiting)).await.unwrap();
    }
    bus.order(&run_of("orders", 2), 1, command()).await.unwrap();
    bus.order(&about, 1, command()).await.unwrap();
    assert!(bus.settled_within(common::PATIENCE).await);
    let run = read_run(&connection, &about.group, Some(about.run_id)).await.unwrap();
    let names: Vec<_> = run.iter().map(|message| message.payload.name()).collect();
    assert_eq!(names, ["waiting", "waiting", "waiting", "probe-grant"]);
    let nothing = read_run(&connection, &run_of("unknown", 1).group, None).await.unwrap();
    assert_eq!(nothing, []);
}

/// A clone of the bus in each of several tasks numbers its tellings without a clash.
#[tokio::test(flavor = "multi_thread")]
async fn tellings_never_share_an_id() {
    let lab = common::lab("bus-ids").await;
    let (connection, _) = speaker(&lab).await;
    let bus = NatsBus::new(&connection, TestClock::new()).await.unwrap();
    let tellers = (0..4).map(|_| {
        let bus = bus.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let waiting = Waiting {
                    reason: WaitReason::TargetLagging,
                    detail: String::new(),
                };
                bus.tell(&run_of("orders", 1), Fact::Waiting(waiting)).await.unwrap();
            }
        })
    });
    for teller in tellers.collect::<Vec<_>>() {
        teller.await.unwrap();
    }
    assert!(bus.settled_within(common::PATIENCE).await);
    assert_eq!(
        read_run(&connection, &run_of("orders", 1).group, None)
            .await
            .unwrap()
            .len(),
        100
    );
}

/// Announced records come on the feed, of each group the latest; commands come beside it. A group without a run has
/// nothing to announce.
#[tokio::test(flavor = "multi_thread")]
async fn records_are_fed_the_latest_of_each_group() {
    let lab = common::lab("bus-records").await;
    let (connection, bus) = speaker(&lab).await;
    let listen = InboxOptions {
        record_feed: true,
        ..options("records", Exclusive::Sole)
    };
    let mut inbox = Inbox::open(&connection, listen).await.unwrap();
    connection.client().flush().await.unwrap();
    let records = inbox.records();
    bus.announce(&group("idle", None)).await.unwrap();
    for (name, revision) in [("orders", 1), ("orders", 2), ("carts", 7), ("orders", 3)] {
        bus.announce(&group(name, Some(revision))).await.unwrap();
    }
    bus.order(&run_of("orders", 3), 1, command()).await.unwrap();
    inbox.next().await.unwrap().done();
    // Records and commands are two subscriptions, so only the order within the feed is promised.
    let mut latest = BTreeMap::new();
    let last = BTreeMap::from([("carts".to_owned(), 7), ("orders".to_owned(), 3)]);
    while latest != last {
        let message = timeout(common::PATIENCE, records.next()).await.unwrap();
        assert_eq!(message.payload.name(), "fencing");
        let revision = message.about.revision.get();
        let before = latest.insert(message.about.group.name, revision);
        assert!(
            before.is_none_or(|before| before < revision),
            "{before:?} before {revision}"
        );
    }
    assert!(bus.settled_within(common::PATIENCE).await);
    let story = read_run(&connection, &run_of("orders", 1).group, None).await.unwrap();
    assert_eq!(story.len(), 4);
}

/// The drive loop keeps a group's order while a message is put off, and other groups go on meanwhile. A handler that
/// breaks off costs its message nothing but time.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_put_off_holds_its_group_only() {
    let lab = common::lab("bus-drive").await;
    let (connection, bus) = speaker(&lab).await;
    let journal = Journal::default();
    let handler = Stubborn {
        journal: journal.clone(),
        refusals: AtomicU32::new(3),
        panics: AtomicU32::new(1),
    };
    let inbox = Inbox::open(&connection, options("drive", Exclusive::Sole))
        .await
        .unwrap();
    until_consumer(&connection, "drive").await;
    let cancel = CancellationToken::new();
    let driven = tokio::spawn(drive(
        inbox,
        handler,
        DriveOptions {
            cancel: cancel.clone(),
            parallel_groups: 8,
        },
    ));
    for attempt in 1..=3 {
        bus.order(&run_of("orders", 1), attempt, command()).await.unwrap();
    }
    for attempt in 1..=3 {
        bus.order(&run_of("carts", 1), attempt, command()).await.unwrap();
    }
    bus.order(&run_of("panics", 1), 1, command()).await.unwrap();
    until("everything is handled", || journal.ended() == 7).await;
    assert_eq!(journal.begun("orders"), [1, 1, 1, 1, 2, 3]);
    assert_eq!(journal.begun("panics"), [1, 1]);
    let ended: Vec<_> = journal
        .entries()
        .into_iter()
        .filter(|entry| entry.ended)
        .map(|entry| entry.group)
        .collect();
    assert_eq!(ended[..3], ["carts", "carts", "carts"]);
    until_nothing_owed(&connection, "drive").await;
    cancel.cancel();
    timeout(common::PATIENCE, driven).await.unwrap().unwrap();
}

/// Puts off the group `orders` some times, and panics in the group `panics`.
struct Stubborn {
    journal: Journal,
    refusals: AtomicU32,
    panics: AtomicU32,
}

impl Handler for Stubborn {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        self.journal.write("only", delivery, false);
        let count_down = |count: &AtomicU32| count.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        match delivery.message().about.group.name.as_str() {
            "orders" if count_down(&self.refusals) => return Outcome::Later(Duration::from_millis(200)),
            "panics" if count_down(&self.panics) => panic!("as the test wants it"),
            _ => {}
        }
        self.journal.write("only", delivery, true);
        Outcome::Done
    }
}
