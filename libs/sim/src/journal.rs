//! What happened in a world, in order: statements, writes, words and what clients were told.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_ports::PodRole;
use bloodraven_types::{Command, EventReason, Fact, Phase, RunRef, SiteName};

use crate::server::Transaction;
use crate::statement::Kind;

/// Who wrote to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The record keeper.
    Keeper,
    /// The topology manager's observations.
    Topology,
    /// Whoever else.
    User,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A statement reached a server.
    Statement {
        /// The server's site.
        site: SiteName,
        /// The session.
        session: u64,
        /// The statement.
        kind: Kind,
        /// Whether it had its effect.
        done: bool,
        /// The phase of the latest run at that moment.
        phase: Option<Phase>,
    },
    /// A write of the object was committed.
    Wrote {
        /// By whom.
        by: Writer,
        /// The version that it made.
        version: u64,
        /// The phase of the latest run as committed.
        phase: Option<Phase>,
        /// Its revision as committed.
        revision: u64,
        /// Annotations that changed: value before, value after.
        annotations: BTreeMap<String, (Option<String>, Option<String>)>,
    },
    /// A write of the object was refused for its version or its uid.
    Conflicted {
        /// Whose.
        by: Writer,
    },
    /// A fact was told.
    Told(RunRef, Fact),
    /// A command was given.
    Ordered {
        /// What it speaks of.
        about: RunRef,
        /// Which time it is given.
        attempt: u32,
        /// The command.
        command: Command,
    },
    /// A record was announced.
    Announced(RunRef, Phase),
    /// A Kubernetes Event.
    Emitted(EventReason, String),
    /// Role labels were set.
    Labelled(BTreeMap<SiteName, PodRole>),
    /// The DNS record was pointed.
    Pointed(SiteName),
    /// A client was told that its transaction is committed.
    Acknowledged(SiteName, Transaction),
    /// A process was ended in the middle of something.
    Crashed(&'static str),
}

/// An event and when it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time since the beginning of the world.
    pub at: Duration,
    /// The event.
    pub event: Event,
}

/// Everything that happened, in order.
#[derive(Clone, Debug, Default)]
pub struct Journal(Vec<Entry>);

impl Journal {
    pub(crate) fn push(&mut self, at: Duration, event: Event) {
        self.0.push(Entry { at, event });
    }

    /// Everything.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// The statements that reached a site and had their effect, in order.
    pub fn statements(&self, at: &str) -> Vec<Kind> {
        self.of_site(at, true)
    }

    /// The statements that reached a site and change a role, whether they had their effect or not.
    pub fn role_changes(&self, at: &str) -> Vec<Kind> {
        let mut kinds = self.of_site(at, false);
        kinds.retain(|kind| kind.changes_role());
        kinds
    }

    /// How often a statement had its effect on a site.
    pub fn times(&self, at: &str, kind: Kind) -> usize {
        self.statements(at).into_iter().filter(|found| *found == kind).count()
    }

    /// The facts that were told.
    pub fn facts(&self) -> Vec<&Fact> {
        let facts = self.0.iter().filter_map(|entry| {
            let Event::Told(_, fact) = &entry.event else {
                return None;
            };
            Some(fact)
        });
        facts.collect()
    }

    /// The Kubernetes Events that were emitted.
    pub fn emitted(&self) -> Vec<EventReason> {
        let emitted = self.0.iter().filter_map(|entry| {
            let Event::Emitted(reason, _) = &entry.event else {
                return None;
            };
            Some(*reason)
        });
        emitted.collect()
    }

    /// Where the first event that matches stands.
    pub fn position(&self, matches: impl Fn(&Event) -> bool) -> Option<usize> {
        self.0.iter().position(|entry| matches(&entry.event))
    }

    /// The journal as text, one line an event: what a failed test shows.
    pub fn text(&self) -> String {
        let lines = self.0.iter().map(|entry| format!("{:?} {:?}", entry.at, entry.event));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn of_site(&self, at: &str, only_done: bool) -> Vec<Kind> {
        let kinds = self.0.iter().filter_map(|entry| {
            let Event::Statement { site, kind, done, .. } = &entry.event else {
                return None;
            };
            (site.as_str() == at && (*done || !only_done)).then_some(*kind)
        });
        kinds.collect()
    }
}
