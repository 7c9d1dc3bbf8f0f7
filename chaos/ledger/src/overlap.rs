//! Overlap: two servers that took writes at once, proven from acknowledgements alone.
//!
//! # Definition
//!
//! A server takes an acknowledged write at some instant between *sent* and *acked*; which one, no client knows. So an
//! acknowledgement that merely arrives late proves nothing: writes A and B are in proven order only when one was acked
//! before the other was sent.
//!
//! Proven order alone does not tell two primaries from a planned move to the other site and back: both show A, B, A. The
//! *session* does. A writer drops its connection on the first write that is not acknowledged and tries one write per
//! tick, so a server that stopped taking writes, even for one tick, has lost every writer's session: whoever writes to it
//! later does so over a new one. Hence:
//!
//! 1. A session **serves** from its first ack until it sends its last acknowledged write. Throughout, its server took
//!    writes.
//! 2. Two sessions on different servers **overlap** in the time both serve; also when the whole life of one, from its
//!    first send to its last ack, lies within the time the other serves (a session may be a single write).
//! 3. Unless the whole life of one lies within *one write in flight* of the other: while a write is in flight its server
//!    may have handed over and taken back, so this proves nothing.
//!
//! Two sessions that serve at the same instant A, B have each committed before it and after it; whatever the four
//! instants are, one session is seen on both sides of a commit of the other server. A clean hand-over, and any number of
//! them to and fro, never shows that. The reported time is a lower bound: an overlap that no client saw, or that lasted
//! less than about two ticks, is not in it. The damage it does is still counted, as GONE or STOLEN.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::history::Acknowledged;
use crate::{Moment, ServerUuid, SessionNumber};

/// A time in which two servers, or more, took writes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overlap {
    /// The servers.
    pub servers: BTreeSet<ServerUuid>,
    /// When all of this was first proven to be under way.
    pub start: Moment,
    /// When it was last proven.
    pub end: Moment,
    /// From start to end, in milliseconds.
    pub ms: f64,
}

/// What one session wrote, in the order it wrote it.
struct Session<'a> {
    server: &'a ServerUuid,
    writes: Vec<(Moment, Moment)>,
    first_sent: Moment,
    first_acked: Moment,
    last_sent: Moment,
    last_acked: Moment,
}

impl<'a> Session<'a> {
    fn new(write: &'a Acknowledged) -> Self {
        Self {
            server: &write.server,
            writes: Vec::new(),
            first_sent: write.sent,
            first_acked: write.acked,
            last_sent: write.sent,
            last_acked: write.acked,
        }
    }

    fn add(&mut self, write: &Acknowledged) {
        self.writes.push((write.sent, write.acked));
        self.first_sent = self.first_sent.min(write.sent);
        self.first_acked = self.first_acked.min(write.acked);
        self.last_sent = self.last_sent.max(write.sent);
        self.last_acked = self.last_acked.max(write.acked);
    }

    /// True when the whole life of `other` lies within the time this session serves.
    fn encloses(&self, other: &Self) -> bool {
        self.first_acked < other.first_sent && other.last_acked < self.last_sent
    }

    /// True when the whole life of `other` lies within one write in flight of this session.
    fn was_waiting_throughout(&self, other: &Self) -> bool {
        let later = self.writes.partition_point(|(sent, _)| *sent <= other.first_sent);
        let in_flight = later.checked_sub(1).and_then(|index| self.writes.get(index));
        in_flight.is_some_and(|(_, acked)| other.last_acked <= *acked)
    }

    /// The time both sessions are proven to serve.
    fn overlap(&self, other: &Self) -> Option<(Moment, Moment)> {
        if self.server == other.server || self.was_waiting_throughout(other) || other.was_waiting_throughout(self) {
            return None;
        }
        let start = self.first_acked.max(other.first_acked);
        let end = self.last_sent.min(other.last_sent);
        if start < end {
            Some((start, end))
        } else if self.encloses(other) {
            Some((other.first_sent, other.last_acked))
        } else if other.encloses(self) {
            Some((self.first_sent, self.last_acked))
        } else {
            None
        }
    }
}

/// All overlaps in a history, in the order of time, those that touch made one.
#[must_use]
pub fn find(acknowledged: &[Acknowledged]) -> Vec<Overlap> {
    let sessions = sessions(acknowledged);
    let mut found = Vec::new();
    let mut alive: Vec<&Session<'_>> = Vec::new();
    for session in &sessions {
        alive.retain(|earlier| earlier.last_acked >= session.first_sent);
        for earlier in &alive {
            if let Some((start, end)) = earlier.overlap(session) {
                let servers = BTreeSet::from([earlier.server.clone(), session.server.clone()]);
                found.push(Overlap {
                    servers,
                    start,
                    end,
                    ms: start.milliseconds_to(end),
                });
            }
        }
        alive.push(session);
    }
    merge(found)
}

/// The sessions in the order of their first sends, each one's writes in the order of theirs.
fn sessions(acknowledged: &[Acknowledged]) -> Vec<Session<'_>> {
    let mut by_number: BTreeMap<SessionNumber, Session<'_>> = BTreeMap::new();
    for write in acknowledged {
        by_number
            .entry(write.session)
            .or_insert_with(|| Session::new(write))
            .add(write);
    }
    let mut sessions: Vec<_> = by_number.into_values().collect();
    for session in &mut sessions {
        session.writes.sort_unstable();
    }
    sessions.sort_by_key(|session| session.first_sent);
    sessions
}

fn merge(mut overlaps: Vec<Overlap>) -> Vec<Overlap> {
    overlaps.sort_by_key(|overlap| (overlap.start, overlap.end));
    let mut merged: Vec<Overlap> = Vec::new();
    for overlap in overlaps {
        match merged.last_mut() {
            Some(last) if overlap.start <= last.end => {
                last.end = last.end.max(overlap.end);
                last.ms = last.start.milliseconds_to(last.end);
                last.servers.extend(overlap.servers);
            }
            Some(_) | None => merged.push(overlap),
        }
    }
    merged
}
