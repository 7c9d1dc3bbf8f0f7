//! Whose turn it is, of several replicas of one binary.
//!
//! The server pins one replica: it gives the consumer's messages to that one only, under a pin id, for as long as it
//! keeps asking. From that this replica infers whether it may also act on what it hears on the subjects:
//!
//! ```text
//! Idle ──first message with a new pin id──► Settling ──predecessor's messages are here──► Live ──pin lost──► Idle
//! ```
//!
//! While settling, messages are held back: what the predecessor was given and did not finish is redelivered only after
//! its ack wait, and belongs before them. Once live, subjects are acted on as soon as the stream has nothing older left.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::Subject;
use bloodraven_messages::latest::{Message, MessageId};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Exclusive;
use super::consumer::{ACK_WAIT, TURN};

/// By then the server has redelivered whatever a predecessor left.
const LONGEST_SETTLING: Duration = Duration::from_secs(ACK_WAIT.as_secs() + 1);
/// A message that was heard and not stored within this is no longer waited for; its sender repeats it.
const FORGET_SKIPPED: Duration = Duration::from_secs(10);

/// A message from the stream.
#[derive(Debug)]
pub(super) struct StreamCopy {
    pub(super) message: Message,
    pub(super) redelivered: bool,
    pub(super) sequence: u64,
    /// How many messages the consumer had not delivered yet after this one.
    pub(super) pending: u64,
    pub(super) reply: Subject,
}

/// The turn as a delivery sees it.
#[derive(Clone, Debug)]
pub(super) struct TurnView(Option<(u64, watch::Receiver<Option<Held>>)>);

/// A turn that is held: which one, and until when the server cannot have given it to another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    number: u64,
    until: Instant,
}

/// The turn of this replica. It has no clock of its own and does nothing itself.
#[derive(Debug)]
pub(super) struct Turn {
    exclusive: Exclusive,
    pin: Option<String>,
    number: u64,
    stage: Stage,
    caught_up: bool,
    skipped: BTreeMap<MessageId, Instant>,
    held: watch::Sender<Option<Held>>,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Settling {
        since: Instant,
        waiting: BTreeMap<u64, StreamCopy>,
    },
    Live,
}

impl TurnView {
    pub(super) fn is_ours(&self) -> bool {
        let Self(Some((number, held))) = self else { return true };
        held.borrow()
            .is_some_and(|held| held.number == *number && Instant::now() < held.until)
    }
}

impl Turn {
    pub(super) fn new(exclusive: Exclusive) -> Self {
        Self {
            exclusive,
            pin: None,
            number: 0,
            stage: Stage::Idle,
            caught_up: false,
            skipped: BTreeMap::new(),
            held: watch::Sender::new(None),
        }
    }

    /// The view for a message that is delivered now.
    pub(super) fn view(&self) -> TurnView {
        match self.exclusive {
            Exclusive::Sole => TurnView(None),
            Exclusive::Pinned => TurnView(Some((self.number, self.held.subscribe()))),
        }
    }

    /// The pin that requests are to name.
    pub(super) fn pin(&self) -> Option<&str> {
        self.pin.as_deref()
    }

    pub(super) const fn is_settling(&self) -> bool {
        matches!(self.stage, Stage::Settling { .. })
    }

    /// Where to send signs of life for messages that are held back.
    pub(super) fn replies(&self) -> Vec<Subject> {
        match &self.stage {
            Stage::Settling { waiting, .. } => waiting.values().map(|copy| copy.reply.clone()).collect(),
            Stage::Idle | Stage::Live => Vec::new(),
        }
    }

    /// A message came from the stream, under that pin; gives what can be handled now.
    pub(super) fn admit(
        &mut self,
        copy: StreamCopy,
        pin: Option<&str>,
        asked: Instant,
        now: Instant,
    ) -> Vec<StreamCopy> {
        if self.exclusive == Exclusive::Sole {
            return vec![copy];
        }
        if pin.is_some() && pin != self.pin() {
            self.pin = pin.map(str::to_owned);
            self.number += 1;
            self.stage = Stage::Settling {
                since: now,
                waiting: BTreeMap::new(),
            };
            self.caught_up = false;
        }
        self.confirm(asked);
        match &mut self.stage {
            Stage::Live => {
                self.saw(&copy, now);
                vec![copy]
            }
            Stage::Settling { waiting, .. } => {
                waiting.insert(copy.sequence, copy);
                Vec::new()
            }
            // A message without a pin: not ours to handle, and the server delivers it again.
            Stage::Idle => Vec::new(),
        }
    }

    /// `unsettled` messages of the consumer have no outcome, whoever holds them. When all of them are here, they can
    /// be handled, in the order of the stream.
    pub(super) fn settle(&mut self, unsettled: Option<usize>, now: Instant) -> Vec<StreamCopy> {
        let Stage::Settling { since, waiting } = &mut self.stage else {
            return Vec::new();
        };
        let all_here = unsettled.is_some_and(|unsettled| unsettled <= waiting.len());
        if !all_here && now.duration_since(*since) < LONGEST_SETTLING {
            return Vec::new();
        }
        let copies: Vec<_> = std::mem::take(waiting).into_values().collect();
        self.stage = Stage::Live;
        for copy in &copies {
            self.saw(copy, now);
        }
        copies
    }

    /// The server accepted a request that was sent at `asked`: the turn is ours for its length from then on.
    pub(super) fn confirm(&mut self, asked: Instant) {
        if self.pin.is_some() {
            let number = self.number;
            let until = asked + TURN;
            self.held.send_replace(Some(Held { number, until }));
        }
    }

    /// The server says that another replica has the turn. Gives where to hand back what was held back.
    pub(super) fn lose(&mut self) -> Vec<Subject> {
        let replies = self.replies();
        self.pin = None;
        self.stage = Stage::Idle;
        self.caught_up = false;
        self.held.send_replace(None);
        replies
    }

    /// Messages may have been missed on the subjects; the stream has them, and they belong before later ones.
    pub(super) const fn disrupted(&mut self) {
        self.caught_up = false;
    }

    /// Whether a message that is heard on a subject may be acted on. If not, it is waited for from the stream.
    pub(super) fn may_act_at_once(&mut self, id: &MessageId, now: Instant) -> bool {
        if self.exclusive == Exclusive::Sole {
            return true;
        }
        let held = self
            .held
            .borrow()
            .is_some_and(|held| held.number == self.number && now < held.until);
        if held && self.caught_up && matches!(self.stage, Stage::Live) {
            return true;
        }
        self.skipped
            .retain(|_, since| now.duration_since(*since) < FORGET_SKIPPED);
        self.skipped.insert(id.clone(), now);
        false
    }

    fn saw(&mut self, copy: &StreamCopy, now: Instant) {
        self.skipped.remove(&copy.message.id());
        self.skipped
            .retain(|_, since| now.duration_since(*since) < FORGET_SKIPPED);
        if copy.pending == 0 && self.skipped.is_empty() {
            self.caught_up = true;
        }
    }
}
