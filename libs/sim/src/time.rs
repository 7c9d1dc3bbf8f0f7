//! Virtual time, and the one loop that lets it pass: time moves only when nothing else can happen.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Time since the beginning of the world. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct VirtualTime(Arc<Mutex<Timers>>);

/// Completes once the world's time has come.
#[derive(Debug)]
pub struct Sleep {
    time: VirtualTime,
    at: Duration,
    id: Option<u64>,
}

/// Why a world stopped before its story was over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stalled {
    /// Nobody waits for anything that can still come.
    #[error("at {at:?} everybody waits for something that nobody will do")]
    Deadlock {
        /// When.
        at: Duration,
    },
    /// The story takes longer than it may.
    #[error("the story is not over after {limit:?}")]
    Endless {
        /// How long it may take.
        limit: Duration,
    },
}

#[derive(Debug, Default)]
struct Timers {
    now: Duration,
    sequence: u64,
    due: BTreeMap<(Duration, u64), Waker>,
}

struct Woken(AtomicBool);

impl VirtualTime {
    /// What time it is.
    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// Completes after `duration`; at once when that is zero.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now().saturating_add(duration))
    }

    /// Completes at `at`; at once when that has passed.
    pub fn sleep_until(&self, at: Duration) -> Sleep {
        Sleep {
            time: self.clone(),
            at,
            id: None,
        }
    }

    /// Wakes at `at`. One that is no longer needed does no harm.
    pub fn wake_at(&self, at: Duration, waker: Waker) {
        let mut timers = self.lock();
        timers.sequence += 1;
        let id = timers.sequence;
        timers.due.insert((at, id), waker);
    }

    /// Polls the future, and moves time to the next timer whenever the future waits for nothing else.
    ///
    /// # Errors
    /// When nothing is left to wait for, or the future takes longer than `limit` of virtual time.
    pub fn run<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Result<T, Stalled> {
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let end = self.now().saturating_add(limit);
        loop {
            while woken.0.swap(false, Ordering::Relaxed) {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return Ok(output);
                }
            }
            if !self.advance() {
                return Err(Stalled::Deadlock { at: self.now() });
            }
            if self.now() > end {
                return Err(Stalled::Endless { limit });
            }
        }
    }

    /// Moves to the next moment for which somebody waits. Whether there is one.
    fn advance(&self) -> bool {
        let mut timers = self.lock();
        let Some((&(next, _), _)) = timers.due.first_key_value() else {
            return false;
        };
        timers.now = timers.now.max(next);
        let mut due = Vec::new();
        while let Some(first) = timers.due.first_entry().filter(|first| first.key().0 <= next) {
            due.push(first.remove());
        }
        drop(timers);
        due.into_iter().for_each(Waker::wake);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Timers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut timers = self.time.lock();
        if timers.now >= self.at {
            return Poll::Ready(());
        }
        let id = self.id.unwrap_or_else(|| {
            timers.sequence += 1;
            timers.sequence
        });
        timers.due.insert((self.at, id), context.waker().clone());
        drop(timers);
        self.id = Some(id);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.time.lock().due.remove(&(self.at, id));
        }
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sleepers wake in the order of their times, and an hour takes no time.
    #[test]
    fn time_passes_in_order() {
        let time = VirtualTime::default();
        let order = Mutex::new(Vec::new());
        let sleeper = |seconds: u64| {
            let time = time.clone();
            let order = &order;
            async move {
                time.sleep(Duration::from_secs(seconds)).await;
                order.lock().unwrap().push(seconds);
            }
        };
        time.run(Duration::from_secs(7200), async {
            futures::join!(sleeper(3600), sleeper(1), sleeper(60));
        })
        .unwrap();
        assert_eq!(*order.lock().unwrap(), [1, 60, 3600]);
        assert_eq!(time.now(), Duration::from_secs(3600));
    }

    /// A world in which nothing can happen any more says so instead of hanging.
    #[test]
    fn a_deadlock_is_told() {
        let time = VirtualTime::default();
        let outcome = time.run(Duration::from_secs(1), std::future::pending::<()>());
        assert_eq!(outcome, Err(Stalled::Deadlock { at: Duration::ZERO }));
        let outcome = time.run(Duration::from_secs(1), time.sleep(Duration::from_secs(5)));
        assert_eq!(
            outcome,
            Err(Stalled::Endless {
                limit: Duration::from_secs(1)
            })
        );
    }
}
