//! A desk: one group's orders to one executor. The newest order is carried out, older ones stop at their next look.
//!
//! The desk is where "refused means not one statement is sent" begins: an order that the record has left behind is not
//! even started.

use std::collections::BTreeSet;

use bloodraven_types::{Command, Group, RunId, RunRef};

use crate::hands::{Order, Superseded};

/// What to do with an order that has just arrived.
#[derive(Debug)]
pub enum Take {
    /// Carry it out.
    Start(Box<Order<Command>>, Superseded),
    /// It is being carried out already, or was: the message is a copy.
    Copy,
    /// The record has moved on.
    Stale,
}

/// The state of one group's desk.
#[derive(Debug, Default)]
pub struct Desk {
    /// The latest state of the latest run that was heard of, by order or by record.
    latest: Option<RunRef>,
    /// Runs whose record was seen before an order of theirs came: such orders are first-hand.
    watched: BTreeSet<RunId>,
    /// The order in hand.
    current: Option<(RunRef, &'static str, Superseded)>,
}

impl Desk {
    /// A record was announced: an older order in hand is no longer wanted.
    pub fn record(&mut self, about: &RunRef, is_live: bool) {
        if is_live {
            self.watched.insert(about.run_id);
        } else {
            self.watched.remove(&about.run_id);
        }
        self.advance(about);
        if !is_live {
            self.stop();
        }
    }

    /// An order arrived. `repeated` says that it may have reached an earlier process: it is not its first attempt, or not
    /// the copy that was heard when it was given.
    pub fn order(&mut self, about: &RunRef, command: Command, repeated: bool) -> Take {
        if self
            .latest
            .as_ref()
            .is_some_and(|latest| same_run(latest, about) && about.revision < latest.revision)
        {
            return Take::Stale;
        }
        let name = command.name();
        if self
            .current
            .as_ref()
            .is_some_and(|(current, held, _)| current == about && *held == name)
        {
            return Take::Copy;
        }
        self.advance(about);
        self.stop();
        let superseded = Superseded::default();
        self.current = Some((about.clone(), name, superseded.clone()));
        let first_hand = !repeated && self.watched.contains(&about.run_id);
        let order = Order {
            about: about.clone(),
            command,
            first_hand,
        };
        Take::Start(Box::new(order), superseded)
    }

    /// The order in hand is finished: a later copy of it is carried out anew, which every procedure can bear.
    pub fn finished(&mut self, about: &RunRef, name: &'static str) {
        if self
            .current
            .as_ref()
            .is_some_and(|(current, held, _)| current == about && *held == name)
        {
            self.current = None;
        }
    }

    /// The process stops: whatever is in hand ends at its next look.
    pub fn stop(&mut self) {
        if let Some((_, _, superseded)) = self.current.take() {
            superseded.set();
        }
    }

    fn advance(&mut self, about: &RunRef) {
        let newer = self
            .latest
            .as_ref()
            .is_none_or(|latest| !same_run(latest, about) || about.revision > latest.revision);
        if newer {
            self.latest = Some(about.clone());
        }
        let left_behind = self
            .current
            .as_ref()
            .is_some_and(|(current, _, _)| !same_run(current, about) || current.revision < about.revision);
        if left_behind {
            self.stop();
        }
    }
}

/// Whether a record is of a live run.
pub fn is_live(group: &Group) -> bool {
    group.run().is_some_and(|run| !run.phase.is_terminal())
}

fn same_run(a: &RunRef, b: &RunRef) -> bool {
    a.run_id == b.run_id && a.uid == b.uid
}
