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
//! its ack wait, and belongs before them. A new leader of the consumer pins whom it likes, so a predecessor may believe
//! in its turn until that has run out. Once live, subjects are acted on as soon as the stream has nothing older left.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::Subject;
use bloodraven_messages::latest::{Message, MessageId};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Exclusive;
use super::consumer::{ACK_WAIT, Census, TURN};

/// By then the server has redelivered whatever a predecessor left, and no predecessor believes in its turn.
const LONGEST_SETTLING: Duration = {
    let longest = if ACK_WAIT.as_secs() > TURN.as_secs() {
        ACK_WAIT
    } else {
        TURN
    };
    Duration::from_secs(longest.as_secs() + 1)
};
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

    /// A message came from the stream, under that pin, for a request that was sent at `asked`; gives what can be
    /// handled now.
    ///
    /// # Errors
    /// Where to hand the message back, when it is of a turn that is over.
    pub(super) fn admit(
        &mut self,
        copy: StreamCopy,
        pin: Option<&str>,
        asked: Option<Instant>,
        now: Instant,
    ) -> Result<Vec<StreamCopy>, Subject> {
        if self.exclusive == Exclusive::Sole {
            return Ok(vec![copy]);
        }
        if let (Some(asked), true) = (asked, pin.is_some() && pin != self.pin()) {
            self.pin = pin.map(str::to_owned);
            self.number += 1;
            self.stage = Stage::Settling {
                since: now,
                waiting: BTreeMap::new(),
            };
            self.caught_up = false;
            self.confirm(asked);
        }
        match &mut self.stage {
            Stage::Live => {
                self.saw(&copy, now);
                Ok(vec![copy])
            }
            Stage::Settling { waiting, .. } => {
                waiting.insert(copy.sequence, copy);
                Ok(Vec::new())
            }
            Stage::Idle => Err(copy.reply),
        }
    }

    /// The server was asked what there is of the consumer. When all messages without an outcome are here, and nobody
    /// can believe in an earlier turn, they can be handled, in the order of the stream.
    pub(super) fn settle(&mut self, census: Option<Census>, now: Instant) -> Vec<StreamCopy> {
        let Stage::Settling { since, waiting } = &mut self.stage else {
            return Vec::new();
        };
        let all_here = census.is_some_and(|census| census.unsettled <= waiting.len() && census.leader_for >= TURN);
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

#[cfg(test)]
mod tests {
    use bloodraven_types::fact::{Cancelled, Fact};
    use bloodraven_types::run::RunRef;
    use bloodraven_types::{Epoch, GroupKey, ObjectUid, Revision, Timestamp};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn message(attempt: u64) -> Message {
        let about = RunRef {
            group: GroupKey::new("default", "orders"),
            uid: ObjectUid::new("6f2a"),
            run_id: "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap(),
            revision: Revision::new(1),
            epoch: Epoch::new(1),
        };
        Message::fact(
            "test",
            Timestamp::from_unix_seconds(0),
            about,
            attempt,
            Fact::Cancelled(Cancelled {}),
        )
    }

    fn copy(sequence: u64, pending: u64) -> StreamCopy {
        let reply = Subject::from(format!("ack.{sequence}"));
        StreamCopy {
            message: message(sequence),
            redelivered: false,
            sequence,
            pending,
            reply,
        }
    }

    fn sequences(copies: &[StreamCopy]) -> Vec<u64> {
        copies.iter().map(|copy| copy.sequence).collect()
    }

    fn old_leader(unsettled: usize) -> Option<Census> {
        Some(Census {
            unsettled,
            leader_for: TURN,
        })
    }

    /// A replica with the turn that has caught up.
    fn live(now: Instant) -> Turn {
        let mut turn = Turn::new(Exclusive::Pinned);
        assert!(turn.admit(copy(1, 0), Some("mine"), Some(now), now).unwrap().is_empty());
        assert_eq!(sequences(&turn.settle(old_leader(1), now)), [1]);
        turn
    }

    /// A replica that takes over holds newer messages back until those that its predecessor left are here, and then
    /// handles all in the order of the stream. spec: X-ORD-01
    #[test]
    fn a_predecessors_messages_come_first() {
        let now = Instant::now();
        let mut turn = Turn::new(Exclusive::Pinned);
        assert!(turn.admit(copy(9, 1), Some("mine"), Some(now), now).unwrap().is_empty());
        assert!(
            turn.settle(old_leader(3), now).is_empty(),
            "two more are with the predecessor"
        );
        for sequence in [8, 7] {
            assert!(
                turn.admit(copy(sequence, 1), Some("mine"), Some(now), now)
                    .unwrap()
                    .is_empty()
            );
        }
        assert_eq!(turn.replies().len(), 3);
        assert_eq!(sequences(&turn.settle(old_leader(3), now)), [7, 8, 9]);
        assert_eq!(
            sequences(&turn.admit(copy(10, 0), Some("mine"), Some(now), now).unwrap()),
            [10]
        );
    }

    /// After a change of the consumer's leader an earlier turn is waited out before the new one begins. spec: X-ORD-01
    #[test]
    fn an_earlier_leaders_turn_is_waited_out() {
        let now = Instant::now();
        let mut turn = Turn::new(Exclusive::Pinned);
        assert!(turn.admit(copy(1, 0), Some("mine"), Some(now), now).unwrap().is_empty());
        let new_leader = Some(Census {
            unsettled: 1,
            leader_for: SECOND,
        });
        assert!(turn.settle(new_leader, now + SECOND).is_empty());
        assert_eq!(sequences(&turn.settle(old_leader(1), now + TURN)), [1]);
    }

    /// A server that does not answer does not keep a replica from beginning for ever.
    #[test]
    fn settling_has_an_end() {
        let now = Instant::now();
        let mut turn = Turn::new(Exclusive::Pinned);
        assert!(turn.admit(copy(1, 0), Some("mine"), Some(now), now).unwrap().is_empty());
        assert!(turn.settle(None, now + SECOND).is_empty());
        assert_eq!(sequences(&turn.settle(None, now + LONGEST_SETTLING)), [1]);
    }

    /// What is heard on a subject is acted on only by the replica with the turn, and only while the server cannot have
    /// given the turn to another one: a replica that was paused finds that its turn is over. spec: X-ORD-01
    #[test]
    fn the_turn_runs_out() {
        let now = Instant::now();
        assert!(!Turn::new(Exclusive::Pinned).may_act_at_once(&message(2).id(), now));
        assert!(Turn::new(Exclusive::Sole).may_act_at_once(&message(2).id(), now));
        let mut turn = live(now);
        assert!(turn.may_act_at_once(&message(2).id(), now + TURN / 2));
        assert!(!turn.may_act_at_once(&message(3).id(), now + TURN));
        turn.confirm(now + TURN);
        assert_eq!(
            sequences(&turn.admit(copy(3, 0), Some("mine"), None, now + TURN).unwrap()),
            [3]
        );
        assert!(turn.may_act_at_once(&message(4).id(), now + TURN));
        assert!(turn.lose().is_empty());
        assert!(!turn.may_act_at_once(&message(5).id(), now + TURN));
        assert_eq!(turn.admit(copy(5, 0), None, None, now).unwrap_err().as_str(), "ack.5");
    }

    /// A message that was not acted on when it was heard is not overtaken by a later one.
    #[test]
    fn nothing_overtakes_a_skipped_message() {
        let now = Instant::now();
        let mut turn = live(now);
        turn.disrupted();
        assert!(!turn.may_act_at_once(&message(2).id(), now));
        assert_eq!(
            sequences(&turn.admit(copy(3, 0), Some("mine"), None, now).unwrap()),
            [3]
        );
        assert!(!turn.may_act_at_once(&message(4).id(), now), "2 is still on its way");
        for sequence in [2, 4] {
            turn.admit(copy(sequence, 0), Some("mine"), None, now).unwrap();
        }
        assert!(turn.may_act_at_once(&message(5).id(), now));
    }
}
