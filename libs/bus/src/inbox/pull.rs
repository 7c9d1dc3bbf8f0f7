//! Asking the durable consumer for messages: one request at a time, by hand.
//!
//! The client's own pull stream hides what is needed here: when a request was sent that the server has accepted (which
//! is how long the turn is ours), and that nothing answers (report B54).

use std::time::Duration;

use async_nats::{Message, StatusCode};
use serde_json::json;
use tokio::time::Instant;
use tracing::warn;

use super::Exclusive;
use super::consumer::PRIORITY_GROUP;
use crate::stream::STREAM;

/// How long a request waits for messages. Short, as a new request is what keeps the turn and notices silence.
const EXPIRES: Duration = Duration::from_secs(1);
/// How long after its end a request may still be answered.
const GRACE: Duration = Duration::from_millis(500);
/// How many messages one request asks for.
const BATCH: u32 = 64;
/// How many requests may stay without an answer before stream and consumer are looked after.
const MOST_SILENT: u32 = 2;
/// The pause after a request that was refused for a passing reason, like a change of the leader.
const PAUSE: Duration = Duration::from_millis(100);

/// The requests of one inbox.
#[derive(Debug)]
pub(super) struct Pull {
    inbox: String,
    number: u64,
    state: State,
    silent: u32,
}

#[derive(Debug)]
enum State {
    /// Stream and consumer are being looked after.
    Stopped,
    /// To be sent then.
    Due(Instant),
    /// Sent then; so many messages are still to come.
    Open { sent: Instant, left: u32 },
}

/// What is to be done about an answer or a silence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing.
    Nothing,
    /// The server had accepted the request that was sent then.
    Accepted(Instant),
    /// Another replica has the turn.
    TurnLost,
    /// The consumer was deleted, and the turn with it.
    Deleted,
    /// Nothing answers, or nothing can be made of the answer.
    Gone,
}

/// A request to send.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) subject: String,
    pub(super) reply: String,
    pub(super) payload: Vec<u8>,
}

impl Pull {
    pub(super) const fn new(inbox: String) -> Self {
        Self {
            inbox,
            number: 0,
            state: State::Stopped,
            silent: 0,
        }
    }

    pub(super) fn start(&mut self, at: Instant) {
        self.silent = 0;
        self.state = State::Due(at);
    }

    pub(super) const fn stop(&mut self) {
        self.state = State::Stopped;
    }

    /// The connection is new, so that an open request has gone with the old one.
    pub(super) const fn reconnected(&mut self, now: Instant) {
        if matches!(self.state, State::Open { .. }) {
            self.state = State::Due(now);
        }
    }

    /// When [`wake`](Self::wake) is to be called.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        match self.state {
            State::Stopped => None,
            State::Due(at) => Some(at),
            State::Open { sent, .. } => Some(sent + EXPIRES + GRACE),
        }
    }

    /// Whether a request is to be sent. An open one whose time is over was not answered.
    pub(super) fn wake(&mut self, now: Instant) -> Heard {
        if matches!(self.state, State::Open { .. }) {
            self.silent += 1;
            self.state = State::Due(now);
            if self.silent >= MOST_SILENT {
                return Heard::Gone;
            }
        }
        Heard::Nothing
    }

    /// The next request, when it is time for one.
    pub(super) fn request(
        &mut self,
        durable: &str,
        exclusive: Exclusive,
        pin: Option<&str>,
        now: Instant,
    ) -> Option<Request> {
        let State::Due(at) = self.state else { return None };
        if at > now {
            return None;
        }
        self.number += 1;
        self.state = State::Open { sent: now, left: BATCH };
        let mut request = json!({ "batch": BATCH, "expires": EXPIRES.as_nanos() as u64 });
        if let (Exclusive::Pinned, Some(fields)) = (exclusive, request.as_object_mut()) {
            fields.insert("group".to_owned(), json!(PRIORITY_GROUP));
            if let Some(pin) = pin {
                fields.insert("id".to_owned(), json!(pin));
            }
        }
        Some(Request {
            subject: format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{durable}"),
            reply: format!("{}.{}", self.inbox, self.number),
            payload: request.to_string().into_bytes(),
        })
    }

    /// A message came. When it is the last one of its request, the server had accepted that.
    pub(super) fn message(&mut self, now: Instant) -> Heard {
        self.silent = 0;
        let State::Open { sent, left } = &mut self.state else {
            return Heard::Nothing;
        };
        let sent = *sent;
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Heard::Nothing;
        }
        self.state = State::Due(now);
        Heard::Accepted(sent)
    }

    /// When the open request was sent.
    pub(super) const fn open_since(&self) -> Option<Instant> {
        match self.state {
            State::Open { sent, .. } => Some(sent),
            State::Stopped | State::Due(_) => None,
        }
    }

    /// A status came instead of a message.
    pub(super) fn status(&mut self, status: StatusCode, message: &Message, now: Instant) -> Heard {
        let number = message
            .subject
            .rsplit('.')
            .next()
            .and_then(|number| number.parse::<u64>().ok());
        let State::Open { sent, .. } = self.state else {
            return Heard::Nothing;
        };
        if number != Some(self.number) {
            return Heard::Nothing;
        }
        let text = message.description.as_deref().unwrap_or_default();
        self.silent = 0;
        self.state = State::Due(now);
        match status {
            StatusCode::TIMEOUT | StatusCode::NOT_FOUND => Heard::Accepted(sent),
            StatusCode::PIN_ID_MISMATCH => Heard::TurnLost,
            StatusCode::NO_RESPONDERS => Heard::Gone,
            StatusCode::REQUEST_TERMINATED if !text.contains("Deleted") => {
                self.state = State::Due(now + PAUSE);
                Heard::Nothing
            }
            StatusCode::REQUEST_TERMINATED => Heard::Deleted,
            StatusCode::IDLE_HEARTBEAT => {
                self.state = State::Open { sent, left: BATCH };
                Heard::Nothing
            }
            _ => {
                warn!(%status, text, "the consumer refuses the request");
                Heard::Gone
            }
        }
    }
}
