//! Outage: the time in which no client was told that a write is durable.
//!
//! An outage lasts from an acknowledgement to the next one, whichever writers got them: what the application as a whole
//! sees. Writers that never got another acknowledgement before the run ended are in an outage that has not ended. Time
//! in which no run was under way is no outage, and neither is the time before a run's first acknowledgement.

use std::cmp::Ordering;

use serde::Serialize;

use crate::history::{Acknowledged, Activity};
use crate::{Moment, ServerUuid};

/// A time without an acknowledgement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outage {
    /// The last acknowledgement before.
    pub from: Moment,
    /// The first one after, or the end of the run.
    pub to: Moment,
    /// From one to the other, in milliseconds.
    pub ms: f64,
    /// False when the run ended before anything was acknowledged again.
    pub ended: bool,
    /// The server that acknowledged last; none when nothing was acknowledged before.
    pub before: Option<ServerUuid>,
    /// The server that acknowledged next.
    pub after: Option<ServerUuid>,
}

/// Every gap between acknowledgements, in the order of time. `acknowledged` is in the order of acks.
#[must_use]
pub(crate) fn gaps(activities: &[Activity], acknowledged: &[Acknowledged]) -> Vec<Outage> {
    let mut gaps = Vec::new();
    for (started, ended) in working_time(activities) {
        let first = acknowledged.partition_point(|write| write.acked < started);
        let after_last = acknowledged.partition_point(|write| write.acked <= ended);
        let within = acknowledged.get(first..after_last).unwrap_or_default();
        for (earlier, later) in within.iter().zip(within.iter().skip(1)) {
            gaps.push(Outage {
                from: earlier.acked,
                to: later.acked,
                ms: earlier.acked.milliseconds_to(later.acked),
                ended: true,
                before: Some(earlier.server.clone()),
                after: Some(later.server.clone()),
            });
        }
        let from = within.last().map_or(started, |last| last.acked);
        let before = within.last().map(|last| last.server.clone());
        gaps.push(Outage {
            from,
            to: ended,
            ms: from.milliseconds_to(ended),
            ended: false,
            before,
            after: None,
        });
    }
    gaps
}

/// The longest of some outages.
pub(crate) fn longest<'a>(outages: impl Iterator<Item = &'a Outage>) -> Option<&'a Outage> {
    outages.max_by(|one, other| one.ms.partial_cmp(&other.ms).unwrap_or(Ordering::Equal))
}

/// The longest outage that shares an instant with the window from `from` to `to`.
pub(crate) fn longest_between(gaps: &[Outage], from: Moment, to: Moment) -> Option<&Outage> {
    longest(gaps.iter().filter(|gap| gap.from <= to && gap.to >= from))
}

/// The times in which at least one run was under way, in order.
fn working_time(activities: &[Activity]) -> Vec<(Moment, Moment)> {
    let mut times: Vec<_> = activities
        .iter()
        .map(|activity| (activity.started, activity.ended()))
        .collect();
    times.sort_unstable();
    let mut merged: Vec<(Moment, Moment)> = Vec::new();
    for (started, ended) in times {
        match merged.last_mut() {
            Some(last) if started <= last.1 => last.1 = last.1.max(ended),
            Some(_) | None => merged.push((started, ended)),
        }
    }
    merged
}
