//! Which messages are on their way, which were handled: same id, first wins.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use async_nats::Subject;
use bloodraven_messages::latest::MessageId;
use tokio::time::Instant;

/// How many handled ids are remembered. The stream forgets an id after minutes, a run has some 50.
const MOST_HANDLED: usize = 8192;

/// What to do with a copy of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the first: deliver it.
    Deliver,
    /// It is being handled.
    InFlight,
    /// It has been handled: only acknowledge the stream's copy.
    Handled,
    /// It was put off, for this much longer.
    PutOff(Duration),
}

/// The memory of one inbox. It has no clock of its own and does nothing itself.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// On their way to the handlers, with where to acknowledge the stream's copies that have come.
    in_flight: HashMap<MessageId, Vec<Subject>>,
    put_off: BTreeMap<MessageId, Instant>,
    handled: HashSet<MessageId>,
    handled_in_order: VecDeque<MessageId>,
}

impl Ledger {
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Where to send signs of life.
    pub(super) fn replies(&self) -> Vec<Subject> {
        self.in_flight.values().flatten().cloned().collect()
    }

    /// A copy came, from the stream when there is a `reply`.
    pub(super) fn copy(&mut self, id: &MessageId, reply: Option<Subject>, now: Instant) -> Verdict {
        if self.handled.contains(id) {
            return Verdict::Handled;
        }
        if let Some(known) = self.in_flight.get_mut(id) {
            // A stream that was made anew, or told long after, can have a message twice; each wants its answer.
            known.extend(reply);
            return Verdict::InFlight;
        }
        let rest = self.put_off.get(id).map(|until| until.saturating_duration_since(now));
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            return Verdict::PutOff(rest);
        }
        self.put_off.remove(id);
        self.in_flight.insert(id.clone(), reply.into_iter().collect());
        Verdict::Deliver
    }

    /// The message was handled; gives where to say so.
    pub(super) fn done(&mut self, id: &MessageId) -> Vec<Subject> {
        let replies = self.in_flight.remove(id).unwrap_or_default();
        if self.handled.insert(id.clone()) {
            self.handled_in_order.push_back(id.clone());
            if self.handled_in_order.len() > MOST_HANDLED
                && let Some(oldest) = self.handled_in_order.pop_front()
            {
                self.handled.remove(&oldest);
            }
        }
        replies
    }

    /// The message is to come again after `delay`; gives where to say so.
    pub(super) fn later(&mut self, id: &MessageId, delay: Duration, now: Instant) -> Vec<Subject> {
        self.put_off.retain(|_, until| *until > now);
        self.put_off.insert(id.clone(), now + delay);
        self.in_flight.remove(id).unwrap_or_default()
    }

    /// Nothing is on its way any more; gives where to say so.
    pub(super) fn give_all_back(&mut self) -> Vec<Subject> {
        self.in_flight.drain().flat_map(|(_, replies)| replies).collect()
    }
}

#[cfg(test)]
mod tests {
    use bloodraven_types::{Revision, RunId};

    use super::*;

    fn id(attempt: u64) -> MessageId {
        let run_id: RunId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        MessageId {
            run_id,
            revision: Revision::new(1),
            name: "fence",
            attempt,
        }
    }

    fn reply(text: &str) -> Option<Subject> {
        Some(Subject::from(text))
    }

    /// Of several copies the first is delivered, and the stream's copy is acknowledged once it is handled. report: B52
    #[test]
    fn the_first_copy_wins() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        assert_eq!(ledger.copy(&id(1), None, now), Verdict::Deliver);
        assert_eq!(ledger.copy(&id(1), None, now), Verdict::InFlight);
        assert_eq!(ledger.copy(&id(1), reply("ack"), now), Verdict::InFlight);
        assert_eq!(ledger.copy(&id(1), reply("other ack"), now), Verdict::InFlight);
        assert_eq!(ledger.done(&id(1)), ["ack", "other ack"].map(Subject::from));
        assert_eq!(ledger.copy(&id(1), reply("again"), now), Verdict::Handled);
        assert_eq!(ledger.copy(&id(2), None, now), Verdict::Deliver);
    }

    /// A message that was put off does not come back early by its other copy, and does come back.
    #[test]
    fn what_is_put_off_comes_back() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let delay = Duration::from_secs(2);
        assert_eq!(ledger.copy(&id(1), None, now), Verdict::Deliver);
        assert_eq!(ledger.later(&id(1), delay, now), []);
        assert_eq!(ledger.copy(&id(1), reply("ack"), now), Verdict::PutOff(delay));
        assert_eq!(ledger.copy(&id(1), reply("ack"), now + delay), Verdict::Deliver);
        assert_eq!(ledger.done(&id(1)), ["ack"].map(Subject::from));
    }

    /// The memory of handled messages has an end.
    #[test]
    fn the_memory_is_bounded() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        for attempt in 0..=u64::try_from(MOST_HANDLED).unwrap() {
            ledger.copy(&id(attempt), None, now);
            ledger.done(&id(attempt));
        }
        assert_eq!(ledger.handled.len(), MOST_HANDLED);
        assert_eq!(ledger.copy(&id(0), None, now), Verdict::Deliver);
        assert_eq!(ledger.copy(&id(1), None, now), Verdict::Handled);
    }
}
