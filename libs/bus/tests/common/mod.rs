//! What the tests of the bus share: a lab of three servers, messages, and inboxes that can be killed.

#![allow(dead_code, reason = "every test binary uses a part of it")]
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloodraven_bus::{
    BusOptions, Connection, Delivery, DriveOptions, Exclusive, Handler, Inbox, InboxOptions, NatsBus, Outcome, connect,
    drive, ensure_stream,
};
use bloodraven_lab::{Lab, LabOptions};
use bloodraven_messages::latest::{Payload, SubjectFilter};
use bloodraven_ports::Clock;
use bloodraven_types::command::ProbeGrant;
use bloodraven_types::group::PlannedFailoverSpec;
use bloodraven_types::run::RunRef;
use bloodraven_types::{
    Command, Epoch, Group, GroupKey, GroupSpec, GroupStatus, ObjectUid, ResourceVersion, Revision, RunId, Span,
    Timestamp,
};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a condition may take to become true on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A clock that starts at a fixed moment, so that no test depends on the day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestClock(Instant);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(1_776_695_520).after(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Three NATS servers.
pub(crate) async fn lab(hint: &str) -> Lab {
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_test_writer()
        .try_init();
    Lab::up(LabOptions::for_test(hint).with_nats())
        .await
        .expect("the lab comes up")
}

/// A connection under a binary's name.
pub(crate) async fn connection(lab: &Lab, name: &str) -> Connection {
    connect_to(lab.nats_urls(), name).await
}

/// A connection to those servers.
pub(crate) async fn connect_to(urls: Vec<String>, name: &str) -> Connection {
    let options = BusOptions {
        urls,
        credentials: None,
        certificates: None,
        name: name.to_owned(),
    };
    let connection = connect(options).await.expect("the options are good");
    until("connected", || connection.is_connected()).await;
    connection
}

/// A speaker whose stream is there.
pub(crate) async fn speaker(lab: &Lab) -> (Connection, NatsBus<TestClock>) {
    let connection = connection(lab, "status-writer").await;
    until_ok("the stream is made", || ensure_stream(&connection)).await;
    let bus = NatsBus::new(&connection, TestClock::new())
        .await
        .expect("the client takes subscriptions");
    (connection, bus)
}

/// The run of a group at a revision.
pub(crate) fn run_of(group: &str, revision: u64) -> RunRef {
    RunRef {
        group: GroupKey::new("default", group),
        uid: ObjectUid::new("6f2a"),
        run_id: run_id(group),
        revision: Revision::new(revision),
        epoch: Epoch::new(1),
    }
}

/// The one run of a group; no two groups share it.
pub(crate) fn run_id(group: &str) -> RunId {
    let number = group.bytes().fold(0_u64, |number, byte| {
        number.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    format!("01890a5d-ac96-774b-bcce-{:012x}", number & 0xffff_ffff_ffff)
        .parse()
        .expect("a UUID")
}

/// A group, with a run at that revision when there is one.
pub(crate) fn group(name: &str, revision: Option<u64>) -> Group {
    let about = run_of(name, revision.unwrap_or_default());
    let run = serde_json::json!({
        "runID": about.run_id,
        "revision": about.revision,
        "phase": "Fencing",
        "targetSite": "pdx",
        "settings": { "maxLagWait": "5m0s", "drainTimeout": "30s" },
        "startTime": "2026-04-20T14:32:00Z",
    });
    let run = serde_json::from_value(run).expect("a record");
    Group {
        key: about.group,
        uid: about.uid,
        resource_version: ResourceVersion::new("1"),
        generation: 1,
        annotations: BTreeMap::new(),
        spec: GroupSpec {
            sites: Vec::new(),
            failover_cooldown: Span::seconds(60),
            poll_interval: Span::seconds(1),
            failure_threshold: 3,
            recovery_threshold: 2,
            planned_failover: PlannedFailoverSpec::default(),
            dragonfly: None,
            dns: None,
        },
        status: GroupStatus {
            planned_failover: revision.map(|_| run),
            ..GroupStatus::default()
        },
    }
}

/// Some command.
pub(crate) fn command() -> Command {
    Command::ProbeGrant(ProbeGrant {
        target: "pdx".into(),
        deadline: Timestamp::from_unix_seconds(1_776_695_520),
    })
}

/// Listens to all commands.
pub(crate) fn options(durable: &str, exclusive: Exclusive) -> InboxOptions {
    InboxOptions {
        durable: durable.to_owned(),
        filters: vec![SubjectFilter::command("probe-grant")],
        record_feed: false,
        exclusive,
    }
}

/// What a handler did, in the order it did it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<Entry>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) replica: &'static str,
    pub(crate) group: String,
    pub(crate) attempt: u64,
    /// False when it begins, true when it ends.
    pub(crate) ended: bool,
    pub(crate) redelivered: bool,
}

impl Journal {
    pub(crate) fn write(&self, replica: &'static str, delivery: &Delivery, ended: bool) {
        let message = delivery.message();
        assert!(matches!(message.payload, Payload::Command(_)));
        self.0.lock().expect("no writer panicked").push(Entry {
            replica,
            group: message.about.group.name.clone(),
            attempt: message.attempt,
            ended,
            redelivered: delivery.redelivered(),
        });
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0.lock().expect("no writer panicked").clone()
    }

    /// The attempts of a group that were begun, in order.
    pub(crate) fn begun(&self, group: &str) -> Vec<u64> {
        let entries = self.entries();
        entries
            .iter()
            .filter(|entry| !entry.ended && entry.group == group)
            .map(|entry| entry.attempt)
            .collect()
    }

    pub(crate) fn ended(&self) -> usize {
        self.entries().iter().filter(|entry| entry.ended).count()
    }
}

/// Writes down what it handles and takes some time for it.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) replica: &'static str,
    pub(crate) journal: Journal,
    pub(crate) takes: Duration,
}

impl Handler for Writer {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        self.journal.write(self.replica, delivery, false);
        tokio::time::sleep(self.takes).await;
        self.journal.write(self.replica, delivery, true);
        Outcome::Done
    }
}

/// A process of its own as far as the bus can see: when it is killed its tasks stop where they are and its connection
/// breaks, without a last word.
#[derive(Debug)]
pub(crate) struct Replica {
    runtime: Option<Runtime>,
    cancel: CancellationToken,
}

impl Replica {
    pub(crate) fn start(lab: &Lab, writer: Writer, options: InboxOptions) -> Self {
        let urls = lab.nats_urls();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let cancel = CancellationToken::new();
        let drive_options = DriveOptions {
            cancel: cancel.clone(),
            parallel_groups: 16,
        };
        runtime.spawn(async move {
            let connection = connect_to(urls, writer.replica).await;
            let inbox = Inbox::open(&connection, options)
                .await
                .expect("the client takes subscriptions");
            drive(inbox, writer, drive_options).await;
        });
        Self {
            runtime: Some(runtime),
            cancel,
        }
    }

    pub(crate) fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Repeats a call until it succeeds.
pub(crate) async fn until_ok<T, E: std::error::Error, F: Future<Output = Result<T, E>>>(
    what: &str,
    mut call: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match call().await {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the consumer is there.
pub(crate) async fn until_consumer(connection: &Connection, durable: &str) {
    until_ok("the consumer is made", || async {
        let stream = connection
            .jetstream()
            .get_stream_no_info(bloodraven_bus::STREAM)
            .await
            .map_err(std::io::Error::other)?;
        stream.consumer_info(durable).await.map_err(std::io::Error::other)
    })
    .await;
}
