//! What every procedure holds: the ports, the pinned sessions, its order, and how it learns that it is no longer wanted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bloodraven_failover::claim::{self, NotLive};
use bloodraven_failover::deadlines;
use bloodraven_ports::{Clock, Database, DatabaseError, GroupStore, StoreError};
use bloodraven_types::{Group, RunRef, Timestamp};

use crate::sessions::Sessions;

/// The ports that a procedure works with.
#[derive(Clone)]
pub struct Hands<D: Database, S: GroupStore, C: Clock> {
    /// Warm sessions to the sites' servers.
    pub sessions: Sessions<D>,
    /// Uncached reads of the group.
    pub store: S,
    /// Time.
    pub clock: C,
}

/// One command as it reached this process.
#[derive(Clone, Debug)]
pub struct Order<C> {
    /// The run and the revision that the command was derived from.
    pub about: RunRef,
    /// The command.
    pub command: C,
    /// Whether this process was watching the run before the command was given and has the first copy of it: then
    /// nothing of it can have been carried out by an earlier process.
    pub first_hand: bool,
}

/// Set once the record has moved on: the procedure stops at its next look, never in the middle of a statement.
#[derive(Clone, Debug, Default)]
pub struct Superseded(Arc<AtomicBool>);

/// Counts how long a server has been silent (PF-LOS-01).
#[derive(Clone, Copy, Debug, Default)]
pub struct LossWindow {
    silent_since: Option<Duration>,
}

/// Why a procedure did nothing. Logged by the desk, never told: the record has moved on by itself.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The record does not ask for it any more.
    #[error(transparent)]
    NotLive(#[from] NotLive),
    /// The object is gone.
    #[error("the group is gone: {0}")]
    Gone(#[source] StoreError),
    /// A newer record or the end of the process.
    #[error("the record has moved on")]
    Superseded,
}

impl Superseded {
    /// From now on the procedure is no longer wanted.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it is no longer wanted.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl LossWindow {
    /// The server answered.
    pub fn answered(&mut self) {
        self.silent_since = None;
    }

    /// An attempt that began at `began` had no answer at `now`, both monotonic. The silence counts from the beginning: a hung
    /// server lets an attempt last as long as its timeouts. Whether the window is over.
    pub fn silent(&mut self, began: Duration, now: Duration) -> bool {
        let since = *self.silent_since.get_or_insert(began);
        now.saturating_sub(since) >= deadlines::LOSS_WINDOW
    }

    /// Takes an error into account: only silence counts. Whether the window is over.
    pub fn failed(&mut self, error: &DatabaseError, began: Duration, now: Duration) -> bool {
        if error.is_no_answer() {
            self.silent(began, now)
        } else {
            self.answered();
            false
        }
    }
}

impl<D: Database, S: GroupStore, C: Clock> Hands<D, S, C> {
    /// The claim, read uncached, must still be the order's (PF-CLM-04). An API server that does not answer is asked again
    /// until the deadline: no proof, no statement.
    ///
    /// # Errors
    /// When the record has moved on.
    pub async fn claimed(
        &self,
        about: &RunRef,
        deadline: Timestamp,
        superseded: &Superseded,
    ) -> Result<Group, Refused> {
        let mut pause = Duration::from_millis(20);
        loop {
            match self.store.get(&about.group).await {
                Ok(group) => {
                    claim::check_claimed(&group, about, Some(deadline), self.clock.now())?;
                    return Ok(group);
                }
                Err(error @ StoreError::NotFound { .. }) => return Err(Refused::Gone(error)),
                Err(error) => {
                    tracing::warn!(group = %about.group, %error, "the claim cannot be read; nothing is sent until it can");
                    if self.clock.now() >= deadline {
                        return Err(NotLive::DeadlinePassed { deadline }.into());
                    }
                }
            }
            if superseded.is_set() {
                return Err(Refused::Superseded);
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}
