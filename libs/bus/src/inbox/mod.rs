//! Listening: what is said is acted on at once, and what was missed comes from the stream.
//!
//! ```text
//! core subscription ───┐                              ┌─► next() ─► done / later
//!                      ├─► Pump ── Ledger: same id? ──┤
//! durable pull ────────┘     └──── Turn: my turn? ────┘
//! ```

mod consumer;
mod ledger;
mod pull;
mod pump;
mod turn;

use std::time::Duration;

use bloodraven_messages::latest::{Message, MessageId, SubjectFilter};
use futures::stream::SelectAll;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::consumer::durable_config;
use self::pump::{Control, Pump};
use self::turn::TurnView;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::records::RecordFeed;

/// How many messages can be on their way to the handlers; more are left to the stream.
pub(crate) const MOST_IN_FLIGHT: usize = 512;

/// What a binary wants to hear.
#[derive(Clone, Debug)]
pub struct InboxOptions {
    /// The name of the durable consumer: the binary's, which has no dots.
    pub durable: String,
    /// The messages to deliver.
    pub filters: Vec<SubjectFilter>,
    /// Whether to also feed committed records, the latest of each group, without any delivery guarantee.
    pub record_feed: bool,
    /// Whether other replicas of the binary may run.
    pub exclusive: Exclusive,
}

/// Whether other replicas of the binary may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusive {
    /// There is one replica only, so every message is its own. Messages are taken as they arrive.
    #[default]
    Sole,
    /// Several replicas may run. The server gives the turn to one of them, and only that one acts. A replica that takes
    /// over first takes what its predecessor left, so that each group's messages stay in the order of the stream.
    Pinned,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It needs nothing more: it was acted on, refused, or is none of ours.
    Done,
    /// It cannot be handled now; try again after this long.
    Later(Duration),
}

/// The messages of a binary. Every message comes once for as long as the process remembers it, whichever way it came.
#[derive(Debug)]
pub struct Inbox {
    deliveries: mpsc::Receiver<Delivery>,
    records: RecordFeed,
    stop: CancellationToken,
    pump: Option<JoinHandle<()>>,
}

/// One message to handle. Dropped without an outcome, it is delivered again.
#[derive(Debug)]
pub struct Delivery {
    message: Message,
    redelivered: bool,
    first_copy: bool,
    turn: TurnView,
    control: mpsc::UnboundedSender<Control>,
    /// Taken once the outcome is known.
    id: Option<MessageId>,
}

impl Inbox {
    /// Begins to listen. The stream and the consumer are made in the background, now and whenever they are gone.
    ///
    /// # Errors
    /// When the client takes no subscription, which is only so once it is closed.
    pub async fn open(connection: &Connection, options: InboxOptions) -> Result<Self> {
        let client = &connection.client;
        let mut subjects = SelectAll::new();
        let mut wanted: Vec<_> = options.filters.iter().map(SubjectFilter::subject).collect();
        if options.record_feed && !options.filters.contains(&SubjectFilter::RECORDS) {
            wanted.push(SubjectFilter::RECORDS.subject());
        }
        for subject in wanted {
            let subscribed = client.subscribe(subject.clone()).await;
            subjects.push(subscribed.map_err(|error| Error::Subscribe {
                subject,
                source: Box::new(error),
            })?);
        }
        let (deliver, deliveries) = mpsc::channel(MOST_IN_FLIGHT * 2);
        let records = RecordFeed::default();
        let stop = CancellationToken::new();
        let pump = Pump::new(
            connection.clone(),
            options,
            subjects,
            deliver,
            records.clone(),
            stop.clone(),
        )
        .await?;
        let pump = Some(tokio::spawn(pump.run()));
        Ok(Self {
            deliveries,
            records,
            stop,
            pump,
        })
    }

    /// The next message; none once the inbox is closed. Cancel safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.deliveries.recv().await
    }

    /// The feed of committed records; silent unless [`InboxOptions::record_feed`] is set.
    pub fn records(&self) -> RecordFeed {
        self.records.clone()
    }

    /// Stops listening: gives back every message that has no outcome, and the turn.
    pub async fn close(mut self) {
        self.stop.cancel();
        self.deliveries.close();
        while self.deliveries.recv().await.is_some() {}
        if let Some(pump) = self.pump.take() {
            let _ = pump.await;
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Delivery {
    /// The message.
    pub const fn message(&self) -> &Message {
        &self.message
    }

    /// Whether the stream has delivered it before, to this process or another one.
    pub const fn redelivered(&self) -> bool {
        self.redelivered
    }

    /// Whether this was heard on its subject when it was said for the first time. Only then has no process that ended
    /// before this one began to listen heard it: any other copy, the stream's too, may have been acted on by one.
    pub const fn is_first_copy(&self) -> bool {
        self.first_copy
    }

    /// Whether this replica still has the turn. Always so when it is the only one. It is no proof against another
    /// replica: only a conditioned write and a lock on the server are.
    pub fn is_ours(&self) -> bool {
        self.turn.is_ours()
    }

    /// The message needs nothing more.
    pub fn done(mut self) {
        self.settle(Control::Done);
    }

    /// The message is to come again after `delay`. Others of its group may come before it.
    pub fn later(mut self, delay: Duration) {
        self.settle(|id| Control::Later(id, delay));
    }

    fn settle(&mut self, control: impl FnOnce(MessageId) -> Control) {
        if let Some(id) = self.id.take() {
            // A pump that is gone has given the message back already.
            let _ = self.control.send(control(id));
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.settle(Control::Abandoned);
    }
}
