//! The clock of the machine: the only place that reads wall time.

use std::time::Duration;

use bloodraven_ports::Clock;
use bloodraven_types::Timestamp;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// The [`Clock`] of production. Cheap to copy; copies share the start of their monotonic time.
///
/// Monotonic time includes the time the machine was suspended: whoever wakes up must not believe that its write lease has
/// stood still meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Duration,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    pub fn new() -> Self {
        Self { start: since_boot() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::new(wall())
    }

    fn monotonic(&self) -> Duration {
        since_boot().saturating_sub(self.start)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

/// Time since the machine was booted, suspended time included. The kernel has had this clock since 2.6.39 and cannot fail to
/// read it.
fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, |time: TimeSpec| time.into())
}

/// The wall time of a log line, in UTC with microseconds.
pub(crate) fn log_time() -> String {
    format!("{:.6}", wall())
}

#[expect(clippy::disallowed_methods, reason = "the one reader of the wall clock")]
fn wall() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monotonic time begins near zero, goes on while sleeping and is shared by copies.
    #[tokio::test]
    async fn monotonic_time_goes_on() {
        let clock = SystemClock::new();
        let copy = clock;
        let before = clock.monotonic();
        clock.sleep(Duration::from_millis(20)).await;
        assert!(copy.monotonic() >= before + Duration::from_millis(20));
        assert!(clock.now() >= Timestamp::from_unix_seconds(1_700_000_000));
    }
}
