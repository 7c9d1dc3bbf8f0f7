//! The bus: it remembers what is said, and may drop, repeat and delay each message on its way to each listener.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::task::{Poll, Waker};
use std::time::Duration;

use bloodraven_ports::{Bus, BusError};
use bloodraven_types::{Command, Fact, Group, RunRef};

use crate::journal::Event;
use crate::random::Random;
use crate::world::{World, WorldState};

/// A message as a listener has it.
#[derive(Clone, Debug)]
pub struct Message {
    /// What is said.
    pub body: Body,
    /// Whether this copy is known to be a repetition.
    pub redelivered: bool,
}

/// What is said.
#[derive(Clone, Debug)]
pub enum Body {
    /// A fact.
    Fact(RunRef, Fact),
    /// A command.
    Command {
        /// What it speaks of.
        about: RunRef,
        /// Which time it is given.
        attempt: u32,
        /// The command.
        command: Command,
    },
    /// A record was committed.
    Record(Box<Group>),
    /// The object changed: the watch of the API server, not the bus.
    Changed(Box<Group>),
}

/// What a listener hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hears {
    /// Facts, and changes of the object.
    Facts,
    /// The commands of these names, and records.
    Commands(&'static [&'static str]),
    /// Changes of the object.
    Changes,
}

/// What the bus does to messages.
#[derive(Clone, Debug)]
pub struct Weather {
    /// In thousandths: how often a message is lost to a listener.
    pub lost: u64,
    /// In thousandths: how often it comes twice.
    pub doubled: u64,
    /// How long it takes.
    pub delay: RangeInclusive<Duration>,
}

/// The bus's own state.
pub struct Post {
    /// What it does to messages.
    pub weather: Weather,
    random: Random,
    sequence: u64,
    boxes: Vec<Mailbox>,
}

struct Mailbox {
    hears: Hears,
    queue: BTreeMap<(Duration, u64), Message>,
    waker: Option<Waker>,
}

/// A listener's place. It stays when the listener's process is ended and started again, as a durable consumer does.
#[derive(Clone)]
pub struct Inbox {
    world: World,
    index: usize,
}

/// The speaking side.
#[derive(Clone)]
pub struct SimBus(World);

impl Post {
    pub(crate) const fn new(random: Random) -> Self {
        Self {
            weather: Weather {
                lost: 0,
                doubled: 0,
                delay: Duration::from_micros(200)..=Duration::from_micros(800),
            },
            random,
            sequence: 0,
            boxes: Vec::new(),
        }
    }

    fn deliver(&mut self, now: Duration, body: &Body) {
        for mailbox in self.boxes.iter_mut().filter(|mailbox| mailbox.hears.wants(body)) {
            // The watch of the API server is a stream of its own: it is slow at most.
            let is_watch = matches!(body, Body::Changed(_));
            if !is_watch && self.random.chance(self.weather.lost) {
                continue;
            }
            let copies = 1 + u32::from(!is_watch && self.random.chance(self.weather.doubled));
            for copy in 0..copies {
                self.sequence += 1;
                let at = now + self.random.duration(&self.weather.delay);
                let message = Message {
                    body: body.clone(),
                    redelivered: copy > 0,
                };
                mailbox.queue.insert((at, self.sequence), message);
            }
            mailbox.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Hears {
    fn wants(self, body: &Body) -> bool {
        match (self, body) {
            (Self::Facts, Body::Fact(..) | Body::Changed(_))
            | (Self::Commands(_), Body::Record(_))
            | (Self::Changes, Body::Changed(_)) => true,
            (Self::Commands(names), Body::Command { command, .. }) => names.contains(&command.name()),
            (Self::Facts | Self::Changes, Body::Command { .. } | Body::Record(_))
            | (Self::Commands(_) | Self::Changes, Body::Fact(..))
            | (Self::Commands(_), Body::Changed(_)) => false,
        }
    }
}

impl World {
    /// A new listener: it hears what is said from now on.
    pub fn listen(&self, hears: Hears) -> Inbox {
        let mut state = self.state();
        state.post.boxes.push(Mailbox {
            hears,
            queue: BTreeMap::new(),
            waker: None,
        });
        Inbox {
            world: self.clone(),
            index: state.post.boxes.len() - 1,
        }
    }
}

impl WorldState {
    pub(crate) fn deliver(&mut self, body: Body) {
        let now = self.now;
        self.post.deliver(now, &body);
    }
}

impl Inbox {
    /// The next message.
    pub async fn next(&self) -> Message {
        poll_fn(|context| {
            let mut state = self.world.state();
            let now = state.now();
            let Some(mailbox) = state.post.boxes.get_mut(self.index) else {
                return Poll::Pending;
            };
            let first = mailbox.queue.first_entry();
            match first {
                Some(entry) if entry.key().0 <= now => return Poll::Ready(entry.remove()),
                Some(entry) => self.world.time.wake_at(entry.key().0, context.waker().clone()),
                None => {}
            }
            mailbox.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Puts a message back: it comes again after `delay`, marked as repeated.
    pub fn again(&self, body: Body, delay: Duration) {
        let mut state = self.world.state();
        let at = state.now() + delay;
        state.post.sequence += 1;
        let sequence = state.post.sequence;
        let message = Message {
            body,
            redelivered: true,
        };
        if let Some(mailbox) = state.post.boxes.get_mut(self.index) {
            mailbox.queue.insert((at, sequence), message);
            mailbox.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl SimBus {
    pub(crate) const fn new(world: World) -> Self {
        Self(world)
    }
}

impl Bus for SimBus {
    async fn tell(&self, about: &RunRef, fact: Fact) -> Result<(), BusError> {
        let mut state = self.0.state();
        let now = state.now();
        state.journal.push(now, Event::Told(about.clone(), fact.clone()));
        state.deliver(Body::Fact(about.clone(), fact));
        Ok(())
    }

    async fn order(&self, about: &RunRef, attempt: u32, command: Command) -> Result<(), BusError> {
        let mut state = self.0.state();
        let now = state.now();
        let event = Event::Ordered {
            about: about.clone(),
            attempt,
            command: command.clone(),
        };
        state.journal.push(now, event);
        state.deliver(Body::Command {
            about: about.clone(),
            attempt,
            command,
        });
        Ok(())
    }

    async fn announce(&self, group: &Group) -> Result<(), BusError> {
        let mut state = self.0.state();
        let now = state.now();
        if let (Some(about), Some(run)) = (RunRef::of(group), group.run()) {
            let event = Event::Announced(about, run.phase);
            state.journal.push(now, event);
        }
        state.deliver(Body::Record(Box::new(group.clone())));
        Ok(())
    }
}
