//! The ledger's own time: a wall-clock anchor taken once per run, carried on by the monotonic clock.
//!
//! A clock step during a run, which is one of the faults it has to sit through, so moves no recorded time. Runs that share
//! a store are compared by their anchors: between their starts the wall clock has to be right.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// A point on the ledger's timeline: nanoseconds since the Unix epoch by the wall clock at the start of the run plus the
/// monotonic time since then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

/// The anchor of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    started: Instant,
    started_wall: i64,
}

/// One reading of both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    /// Nanoseconds of monotonic time since the run's anchor; what the report reckons with.
    pub(crate) monotonic: i64,
    /// Nanoseconds since the Unix epoch by the wall clock; kept for whoever compares it with other logs.
    pub(crate) wall: i64,
}

impl Moment {
    /// The moment `nanoseconds` after the Unix epoch.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// The moment of a wall-clock time, for windows that were noted elsewhere. Times outside the years 1678 to 2262 are
    /// moved to the nearest of the two.
    #[must_use]
    pub fn from_timestamp(timestamp: Timestamp) -> Self {
        let nanoseconds = timestamp.as_nanosecond();
        let nearest = if nanoseconds < 0 { i64::MIN } else { i64::MAX };
        Self(i64::try_from(nanoseconds).unwrap_or(nearest))
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_nanoseconds(self) -> i64 {
        self.0
    }

    /// This moment as a timestamp.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        // Every i64 of nanoseconds lies within jiff's range, so the default is never taken.
        Timestamp::from_nanosecond(i128::from(self.0)).unwrap_or_default()
    }

    /// The moment `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(duration)))
    }

    /// Milliseconds from here to `later`; negative when `later` is earlier.
    #[must_use]
    pub fn milliseconds_to(self, later: Self) -> f64 {
        milliseconds(later.0.saturating_sub(self.0))
    }

    /// `HH:MM:SS.mmm` in UTC, for tables.
    #[must_use]
    pub fn time_of_day(self) -> String {
        self.timestamp().strftime("%H:%M:%S%.3f").to_string()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timestamp().fmt(formatter)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Timeline {
    /// Takes the anchor now.
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            started_wall: wall_nanoseconds(),
        }
    }

    /// The anchor itself.
    pub(crate) const fn started(&self) -> Moment {
        Moment(self.started_wall)
    }

    /// Both clocks, now.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp {
            monotonic: nanoseconds(self.started.elapsed()),
            wall: wall_nanoseconds(),
        }
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.started_wall.saturating_add(nanoseconds(self.started.elapsed())))
    }
}

/// The wall clock, in nanoseconds since the Unix epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "the ledger stands outside the system under test and anchors its own timeline"
)]
fn wall_nanoseconds() -> i64 {
    // A clock before 1970 is taken for 1970: the anchor only has to be readable, the differences are monotonic.
    nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A signed count of nanoseconds in milliseconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "differences are far below 2^53 ns, and a report rounds them anyway"
)]
pub(crate) fn milliseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e6
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
