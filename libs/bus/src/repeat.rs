//! Repeating what was said, under the same id, until the stream has it.
//!
//! A message is published once at once. When the stream's acknowledgement does not come (its leader was lost, the
//! stream is gone, the connection is), the same message is published again: listeners and stream know it by its id.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Subject, Subscriber, connection::State};
use bloodraven_messages::latest::MessageId;
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::error::{Error, Result};

/// The pause before the first repetition; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause. A lost leader is replaced within 4 to 8 s.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After this the message is given up: the record has re-derived it long since.
const GIVE_UP: Duration = Duration::from_secs(60);
/// How many messages can wait for an acknowledgement; later ones are still published, but once.
const MOST_WAITING: usize = 4096;

/// The header of a message that is published again. Whoever hears it may not be the first to: a process that has died
/// meanwhile may have acted on an earlier copy.
const REPETITION: &str = "Bloodraven-Repetition";

/// Whether these are the headers of a message that is published again.
pub(crate) fn is_repetition(headers: Option<&HeaderMap>) -> bool {
    headers.is_some_and(|headers| headers.get(REPETITION).is_some())
}

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: MessageId,
    pub(crate) subject: Subject,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
    /// Whether it is still worth keeping when the run has moved on: a record is, a fact or command is not.
    pub(crate) outlives_revision: bool,
}

#[derive(Debug)]
struct Waiting {
    message: Outgoing,
    since: Instant,
    pause: Duration,
    due: Instant,
}

/// The task behind a `NatsBus`.
#[derive(Debug)]
pub(crate) struct Repeater {
    client: Client,
    queue: mpsc::Receiver<Outgoing>,
    settled: watch::Sender<u64>,
    inbox: String,
    answers: Subscriber,
    waiting: BTreeMap<u64, Waiting>,
    /// Also how many messages were said.
    next_token: u64,
}

impl Repeater {
    pub(crate) async fn new(
        client: Client,
        queue: mpsc::Receiver<Outgoing>,
        settled: watch::Sender<u64>,
    ) -> Result<Self> {
        let inbox = client.new_inbox();
        let subject = format!("{inbox}.*");
        let answers = client.subscribe(subject.clone()).await;
        let answers = answers.map_err(|error| Error::Subscribe {
            subject,
            source: Box::new(error),
        })?;
        Ok(Self {
            client,
            queue,
            settled,
            inbox,
            answers,
            waiting: BTreeMap::new(),
            next_token: 0,
        })
    }

    /// Runs until every `NatsBus` of it is dropped and the stream has what they said, or it is given up.
    pub(crate) async fn run(mut self) {
        let mut open = true;
        while open || !self.waiting.is_empty() {
            let due = self.waiting.values().map(|waiting| waiting.due).min();
            tokio::select! {
                message = self.queue.recv(), if open => match message {
                    Some(message) => self.say(message).await,
                    None => open = false,
                },
                Some(answer) = self.answers.next() => self.take_answer(&answer),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.repeat_due().await,
            }
            self.settled
                .send_replace(self.next_token.saturating_sub(self.waiting_count()));
        }
    }

    fn waiting_count(&self) -> u64 {
        u64::try_from(self.waiting.len()).unwrap_or(u64::MAX)
    }

    async fn say(&mut self, message: Outgoing) {
        self.forget_superseded(&message.id);
        let token = self.next_token;
        self.next_token += 1;
        self.publish(token, &message).await;
        if self.waiting.len() >= MOST_WAITING {
            warn!(id = %message.id, "too many messages wait for the stream; this one is not repeated");
            return;
        }
        let now = Instant::now();
        let waiting = Waiting {
            message,
            since: now,
            pause: FIRST_PAUSE,
            due: now + FIRST_PAUSE,
        };
        self.waiting.insert(token, waiting);
    }

    /// What was said about an earlier revision of the run would be refused by now.
    fn forget_superseded(&mut self, by: &MessageId) {
        self.waiting.retain(|_, waiting| {
            let id = &waiting.message.id;
            waiting.message.outlives_revision || id.run_id != by.run_id || id.revision >= by.revision
        });
    }

    async fn publish(&self, token: u64, message: &Outgoing) {
        let reply = format!("{}.{token}", self.inbox);
        let Outgoing {
            subject,
            headers,
            payload,
            ..
        } = message;
        let published = self
            .client
            .publish_with_reply_and_headers(subject.clone(), reply, headers.clone(), payload.clone())
            .await;
        if let Err(error) = published {
            debug!(%error, id = %message.id, "could not publish; it is tried again");
        }
    }

    fn take_answer(&mut self, answer: &async_nats::Message) {
        let token = answer
            .subject
            .rsplit('.')
            .next()
            .and_then(|token| token.parse::<u64>().ok());
        let stored = answer.status.is_none()
            && serde_json::from_slice::<Value>(&answer.payload)
                .is_ok_and(|answer| answer.get("stream").is_some() && answer.get("error").is_none());
        if let (Some(token), true) = (token, stored) {
            self.waiting.remove(&token);
        }
    }

    async fn repeat_due(&mut self) {
        let now = Instant::now();
        self.waiting.retain(|_, waiting| {
            let kept = now.duration_since(waiting.since) < GIVE_UP;
            if !kept {
                warn!(id = %waiting.message.id, "the stream did not take the message; it is given up");
            }
            kept
        });
        // While there is no connection the client keeps what is published; more copies would only pile up there.
        let connected = self.client.connection_state() == State::Connected;
        let mut due = Vec::new();
        for (token, waiting) in &mut self.waiting {
            if waiting.due <= now {
                waiting.due = now + waiting.pause;
                if connected {
                    waiting.pause = waiting.pause.saturating_mul(2).min(LONGEST_PAUSE);
                    waiting.message.headers.insert(REPETITION, "true");
                    due.push(*token);
                }
            }
        }
        for token in due {
            if let Some(waiting) = self.waiting.get(&token) {
                self.publish(token, &waiting.message).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only what is published again says so.
    #[test]
    fn repetitions_are_told_from_first_copies() {
        let mut headers = HeaderMap::new();
        assert!(!is_repetition(None) && !is_repetition(Some(&headers)));
        headers.insert(REPETITION, "true");
        assert!(is_repetition(Some(&headers)));
    }
}
