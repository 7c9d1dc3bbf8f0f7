//! Speaking: the `Bus` port on NATS.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::{Client, HeaderMap, HeaderValue};
use bloodraven_messages::latest::{Kind, Message, encode};
use bloodraven_ports::{Bus, BusError, Clock};
use bloodraven_types::run::RunRef;
use bloodraven_types::{Command, Fact, Group};
use tokio::sync::{mpsc, watch};

use crate::connection::Connection;
use crate::error::Result;
use crate::repeat::{Outgoing, Repeater};

/// How many messages can wait to be handed to the client. A run has some 50; this is only full when the connection has
/// been gone for long and something goes on talking.
const QUEUE: usize = 1024;

/// The bus on NATS. Cheap to clone; what was said is repeated until the stream has it for as long as a clone lives.
#[derive(Clone, Debug)]
pub struct NatsBus<C> {
    shared: Arc<Shared<C>>,
}

#[derive(Debug)]
struct Shared<C> {
    clock: C,
    source: String,
    client: Client,
    queue: mpsc::Sender<Outgoing>,
    /// How many messages were said, and how many of them need nothing more.
    said: AtomicU64,
    settled: watch::Receiver<u64>,
    last_attempt: AtomicU64,
}

impl<C: Clock> NatsBus<C> {
    /// A bus on that connection; facts and records are stamped with the clock's time.
    ///
    /// # Errors
    /// When the client takes no subscription, which is only so once it is closed.
    pub async fn new(connection: &Connection, clock: C) -> Result<Self> {
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let (count, settled) = watch::channel(0);
        let repeater = Repeater::new(connection.client.clone(), outgoing, count).await?;
        tokio::spawn(repeater.run());
        Ok(Self {
            shared: Arc::new(Shared {
                clock,
                source: connection.name.clone(),
                client: connection.client.clone(),
                queue,
                said: AtomicU64::new(0),
                settled,
                last_attempt: AtomicU64::new(0),
            }),
        })
    }

    /// Waits until the stream has everything that was said before, or it is no longer repeated; false when it has not within `limit`. For the end of a
    /// process, so that its last words are kept.
    pub async fn settled_within(&self, limit: Duration) -> bool {
        let said = self.shared.said.load(Ordering::Acquire);
        let mut settled = self.shared.settled.clone();
        let all = settled.wait_for(|settled| *settled >= said);
        matches!(tokio::time::timeout(limit, all).await, Ok(Ok(_)))
    }

    /// A number for a telling that has no count of its own; see `bloodraven_messages::v1`.
    fn next_attempt(&self) -> u64 {
        let now = u64::try_from(self.shared.clock.now().inner().as_millisecond()).unwrap_or_default();
        let next = |last: u64| now.max(last.saturating_add(1));
        let last = &self.shared.last_attempt;
        last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)))
            .map_or(now, next)
    }

    fn publish(&self, message: &Message) -> std::result::Result<(), BusError> {
        let name = message.payload.name();
        let failed = |detail| BusError {
            name,
            group: message.about.group.to_string(),
            detail,
        };
        let payload = encode(message).map_err(|error| failed(format!("{error}: {}", error_source(&error))))?;
        let most = self.shared.client.max_payload();
        if payload.len() > most {
            return Err(failed(format!(
                "it has {} bytes and the server takes {most}",
                payload.len()
            )));
        }
        let id = message.id();
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, HeaderValue::from(id.to_string()));
        let outgoing = Outgoing {
            id,
            subject: message.subject().into(),
            headers,
            payload: payload.into(),
            outlives_revision: message.payload.kind() == Kind::Record,
        };
        self.shared.queue.try_send(outgoing).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => failed(format!("{QUEUE} messages wait for a connection already")),
            mpsc::error::TrySendError::Closed(_) => failed("the connection is closed".to_owned()),
        })?;
        self.shared.said.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

fn error_source(error: &dyn std::error::Error) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

impl<C: Clock> Bus for NatsBus<C> {
    async fn tell(&self, about: &RunRef, fact: Fact) -> std::result::Result<(), BusError> {
        let (source, now) = (&self.shared.source, self.shared.clock.now());
        self.publish(&Message::fact(source, now, about.clone(), self.next_attempt(), fact))
    }

    async fn order(&self, about: &RunRef, attempt: u32, command: Command) -> std::result::Result<(), BusError> {
        let (source, now) = (&self.shared.source, self.shared.clock.now());
        self.publish(&Message::command(
            source,
            now,
            about.clone(),
            u64::from(attempt),
            command,
        ))
    }

    async fn announce(&self, group: &Group) -> std::result::Result<(), BusError> {
        let (source, now) = (&self.shared.source, self.shared.clock.now());
        // A group that has had no run has no record to announce.
        Message::record(source, now, group, self.next_attempt()).map_or(Ok(()), |message| self.publish(&message))
    }
}
