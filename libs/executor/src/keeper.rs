//! The record keeper: feeds facts to the machine, commits its write, and only then speaks.
//!
//! ```text
//! fact / tick ─► step(object, input, now) ─► conditioned write ─► commands, record, events ─► acknowledgement
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bloodraven_failover::{Effect, Input, Step, Verdict, Write, commands, step};
use bloodraven_ports::{Bus, Clock, GroupStore, StoreError};
use bloodraven_types::{Fact, Group, GroupKey, ResourceVersion, RunRef};

use crate::settle::{Settled, settle};

/// A pass writes at most this often: a run's whole tail is four writes, the rest are conflicts with other writers.
const WRITES_PER_PASS: u32 = 12;

/// How many of its own versions a keeper remembers: more than a run writes.
const OWN_VERSIONS: usize = 64;

/// Hears every effect after its commit: metrics and logs live in the binary.
pub type Listener = Arc<dyn Fn(&Group, &Effect) + Send + Sync>;

/// Keeps the record of one group. One keeper a group handles one input at a time.
pub struct Keeper<S: GroupStore, B: Bus, C: Clock> {
    store: S,
    bus: B,
    clock: C,
    key: GroupKey,
    listener: Listener,
    /// The object as it was last read or committed. Never proof: every write is conditioned on its version.
    known: Option<Group>,
    /// Versions that this keeper made: news of them is no news.
    own: VecDeque<ResourceVersion>,
    /// How often the present commands have been given, and when they were last given.
    given: Given,
}

#[derive(Debug, Default)]
struct Given {
    about: Option<RunRef>,
    attempts: u32,
    at: Duration,
}

/// What became of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is taken in, or has no place any more: acknowledge it.
    Done,
    /// It could not be taken in now: the message is to come again.
    Later(String),
    /// The group is gone.
    Gone,
}

impl<S: GroupStore, B: Bus, C: Clock> Keeper<S, B, C> {
    /// A keeper that knows nothing yet.
    pub fn new(store: S, bus: B, clock: C, key: GroupKey, listener: Listener) -> Self {
        Self {
            store,
            bus,
            clock,
            key,
            listener,
            known: None,
            own: VecDeque::new(),
            given: Given::default(),
        }
    }

    /// The object as it was last read or committed.
    pub fn known(&self) -> Option<&Group> {
        self.known.as_ref()
    }

    /// Somebody changed the object: what was known is to be read again before it is used.
    pub fn changed(&mut self, group: &Group) {
        let seen = self
            .known
            .as_ref()
            .is_some_and(|known| known.resource_version == group.resource_version);
        if !seen && !self.own.contains(&group.resource_version) {
            self.known = None;
        }
    }

    /// Takes a fact in. A fact about another object, another run, or a state that the record has not reached is dropped:
    /// it can only be a straggler, or a forgery.
    pub async fn fact(&mut self, about: &RunRef, fact: Fact) -> Kept {
        let is_request = matches!(fact, Fact::Requested(_));
        let group = match self.read().await {
            Ok(group) => group,
            Err(kept) => return kept,
        };
        if !is_request && !belongs(&group, about) {
            // What is known may be older than the fact; one uncached read decides.
            self.known = None;
            let group = match self.read().await {
                Ok(group) => group,
                Err(kept) => return kept,
            };
            if !belongs(&group, about) {
                tracing::debug!(group = %self.key, run = %about.run_id, revision = %about.revision, fact = fact.name(), "a fact that is not about the record is dropped");
                return Kept::Done;
            }
        }
        self.feed(Input::from_fact(about.run_id, fact)).await
    }

    /// Takes an input in against a new read of the object.
    pub async fn fresh(&mut self, input: Input) -> Kept {
        self.known = None;
        self.feed(input).await
    }

    /// Takes an input in, with everything that follows from it.
    pub async fn feed(&mut self, input: Input) -> Kept {
        let mut next = Some(input);
        let mut writes = 0;
        while let Some(input) = next.take() {
            let group = match self.read().await {
                Ok(group) => group,
                Err(kept) => return kept,
            };
            let step = match step(&group, input.clone(), self.clock.now()) {
                Ok(Verdict::Write(step)) => step,
                Ok(Verdict::Nothing(effects)) => {
                    self.say(&group, &effects).await;
                    return Kept::Done;
                }
                Err(illegal) => {
                    tracing::debug!(group = %self.key, %illegal, "an input without a place is dropped");
                    return Kept::Done;
                }
            };
            writes += 1;
            if writes > WRITES_PER_PASS {
                return Kept::Later("too many writes in one pass".to_owned());
            }
            match self.commit(&group, &step).await {
                Ok(Some(committed)) => {
                    self.speak(&committed, &step).await;
                    next = step.then;
                    self.own.push_back(committed.resource_version.clone());
                    if self.own.len() > OWN_VERSIONS {
                        self.own.pop_front();
                    }
                    self.known = Some(committed);
                }
                // Another writer was there first: the same input meets the object as it is now.
                Ok(None) => next = Some(input),
                Err(kept) => return kept,
            }
        }
        Kept::Done
    }

    /// Gives the record's commands again, under a higher attempt, when they were given more than `interval` ago.
    pub async fn remind(&mut self, interval: Duration) {
        let Some(group) = self.known.clone() else { return };
        let now = self.clock.monotonic();
        let about = RunRef::of(&group);
        if self.given.about == about && now.saturating_sub(self.given.at) < interval {
            return;
        }
        // A keeper that has given nothing yet may have had a predecessor that did: its commands are no first ones either.
        let attempts = if self.given.about == about {
            self.given.attempts
        } else {
            1
        };
        self.give(&group, attempts.saturating_add(1)).await;
    }

    async fn read(&mut self) -> Result<Group, Kept> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        match self.store.get(&self.key).await {
            Ok(group) => {
                self.known = Some(group.clone());
                Ok(group)
            }
            Err(StoreError::NotFound { .. }) => Err(Kept::Gone),
            Err(error) => Err(Kept::Later(error.to_string())),
        }
    }

    /// One conditioned write. `None` is a proven miss: the object is to be read again.
    async fn commit(&mut self, group: &Group, step: &Step) -> Result<Option<Group>, Kept> {
        let written = match &step.write {
            Write::Status(status) => self.store.write_status(group, status).await,
            Write::Annotations(changes) => self.store.write_annotations(group, changes).await,
        };
        match written {
            Ok(committed) => Ok(Some(committed)),
            Err(StoreError::Conflict { .. }) => {
                self.known = None;
                Ok(None)
            }
            Err(StoreError::Ambiguous { detail, .. }) => {
                tracing::warn!(group = %self.key, detail, "planned failover: status write ambiguous; settling");
                self.known = None;
                match settle(&self.store, &self.clock, group, &step.write).await {
                    Settled::Committed(found) => Ok(Some(*found)),
                    Settled::Never(found) => {
                        self.known = Some(*found);
                        Ok(None)
                    }
                    Settled::Unknown => Err(Kept::Later(detail)),
                }
            }
            Err(StoreError::NotFound { .. }) => Err(Kept::Gone),
            Err(error @ (StoreError::Refused { .. } | StoreError::Malformed { .. })) => {
                tracing::warn!(group = %self.key, %error, "the record cannot be written");
                self.known = None;
                Err(Kept::Later(error.to_string()))
            }
        }
    }

    /// After the commit: the commands first, since they are on the write-outage path, then everybody else.
    async fn speak(&mut self, committed: &Group, step: &Step) {
        if matches!(step.write, Write::Status(_)) || !commands(committed).is_empty() {
            self.give(committed, 1).await;
        }
        if let Err(error) = self.bus.announce(committed).await {
            tracing::debug!(group = %self.key, %error, "the record was not announced");
        }
        self.say(committed, &step.effects).await;
    }

    /// Gives the record's commands. `attempt` is 1 right after the commit and at no other time: an executor takes such
    /// an order for one that nobody can have carried out.
    async fn give(&mut self, group: &Group, attempt: u32) {
        let Some(about) = RunRef::of(group) else { return };
        for command in commands(group) {
            if let Err(error) = self.bus.order(&about, attempt, command).await {
                tracing::warn!(group = %self.key, %error, "a command was not handed to the bus; it is given again");
            }
        }
        self.given = Given {
            about: Some(about),
            attempts: attempt,
            at: self.clock.monotonic(),
        };
    }

    async fn say(&self, group: &Group, effects: &[Effect]) {
        for effect in effects {
            (self.listener)(group, effect);
            if let Effect::Event { reason, message } = effect {
                self.store.emit(group, *reason, message).await;
            }
        }
    }
}

/// Whether a fact is about this object's latest run, under its present claim, and not ahead of its record.
fn belongs(group: &Group, about: &RunRef) -> bool {
    let Some(record) = RunRef::of(group) else { return false };
    record.uid == about.uid
        && record.run_id == about.run_id
        && record.epoch == about.epoch
        && about.revision <= record.revision
}
