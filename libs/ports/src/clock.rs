//! The clock as a port, so that simulated time is time.

use std::future::Future;
use std::time::Duration;

use bloodraven_types::Timestamp;

/// Wall-clock moments for the record, a monotonic clock for budgets, and waiting.
pub trait Clock: Clone + Send + Sync + 'static {
    /// The wall clock. Good for the record; never compared with another machine's.
    fn now(&self) -> Timestamp;

    /// Time since an arbitrary start that never goes back.
    fn monotonic(&self) -> Duration;

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}
