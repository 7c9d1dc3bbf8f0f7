//! Liveness and readiness: what `/livez` and `/readyz` answer from.
//!
//! Ready means that every named check says so; alive means that every registered loop has shown itself within its bound.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

/// Registers checks and heartbeats. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    stopping: bool,
    started: bool,
    /// Each check with the reason why it fails, if it does.
    checks: BTreeMap<String, Option<String>>,
    next_heartbeat: u64,
    heartbeats: BTreeMap<u64, Beat>,
}

#[derive(Debug)]
struct Beat {
    name: String,
    bound: Duration,
    last: Instant,
}

/// Something that is not as it should be, as the endpoints list it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failing {
    /// The name of the check or loop.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// One condition of readiness. Starts as failing.
#[derive(Clone, Debug)]
pub struct ReadinessCheck {
    name: String,
    state: Arc<Mutex<State>>,
}

/// The pulse of one loop. Dropping it ends the watch: a loop that must not end is the business of
/// [`crate::Tasks::spawn_loop`].
#[derive(Debug)]
pub struct Heartbeat {
    id: u64,
    bound: Duration,
    state: Arc<Mutex<State>>,
}

impl Health {
    /// Adds a check, which fails as "starting" until [`ReadinessCheck::ready`] is called. Register before the first await, so
    /// that the binary is never ready without it.
    pub fn check(&self, name: impl Into<String>) -> ReadinessCheck {
        let name = name.into();
        lock(&self.state)
            .checks
            .insert(name.clone(), Some("starting".to_owned()));
        ReadinessCheck {
            name,
            state: Arc::clone(&self.state),
        }
    }

    /// Watches a loop that calls [`Heartbeat::beat`] at least once within `bound`.
    pub fn heartbeat(&self, name: impl Into<String>, bound: Duration) -> Heartbeat {
        let mut state = lock(&self.state);
        let id = state.next_heartbeat;
        state.next_heartbeat += 1;
        state.heartbeats.insert(
            id,
            Beat {
                name: name.into(),
                bound,
                last: Instant::now(),
            },
        );
        Heartbeat {
            id,
            bound,
            state: Arc::clone(&self.state),
        }
    }

    /// What keeps the process from being ready; empty when it is.
    pub fn not_ready(&self) -> Vec<Failing> {
        let state = lock(&self.state);
        if state.stopping {
            return vec![Failing {
                name: "process".to_owned(),
                reason: "stopping".to_owned(),
            }];
        }
        if state.checks.is_empty() && !state.started {
            return vec![Failing {
                name: "process".to_owned(),
                reason: "starting".to_owned(),
            }];
        }
        let failing = |(name, reason): (&String, &Option<String>)| {
            Some(Failing {
                name: name.clone(),
                reason: reason.clone()?,
            })
        };
        state.checks.iter().filter_map(failing).collect()
    }

    /// The loops that have not shown themselves in time; empty when all have.
    pub fn not_alive(&self) -> Vec<Failing> {
        let now = Instant::now();
        let state = lock(&self.state);
        let silent = |beat: &Beat| {
            let silence = now.saturating_duration_since(beat.last);
            (silence > beat.bound).then(|| Failing {
                name: beat.name.clone(),
                reason: format!(
                    "silent for {:.1} s, bound {:.1} s",
                    silence.as_secs_f64(),
                    beat.bound.as_secs_f64()
                ),
            })
        };
        state.heartbeats.values().filter_map(silent).collect()
    }

    /// The body of the binary has returned: one without checks is ready now.
    pub(crate) fn started(&self) {
        lock(&self.state).started = true;
    }

    /// From now on the process is not ready, whatever the checks say.
    pub(crate) fn stopping(&self) {
        lock(&self.state).stopping = true;
    }
}

impl ReadinessCheck {
    /// The condition holds.
    pub fn ready(&self) {
        lock(&self.state).checks.insert(self.name.clone(), None);
    }

    /// The condition does not hold, for this reason.
    pub fn unready(&self, reason: impl Into<String>) {
        lock(&self.state).checks.insert(self.name.clone(), Some(reason.into()));
    }

    /// Takes the check off the list, when what it was about is gone for good.
    pub fn remove(self) {
        lock(&self.state).checks.remove(&self.name);
    }
}

impl Heartbeat {
    /// Shows that the loop is turning.
    pub fn beat(&self) {
        if let Some(beat) = lock(&self.state).heartbeats.get_mut(&self.id) {
            beat.last = Instant::now();
        }
    }

    /// Awaits something that may rightly take long, such as the next message, and beats meanwhile. Do not wrap work in it:
    /// work that hangs is what the heartbeat is to show.
    pub async fn idle<F: Future>(&self, waiting: F) -> F::Output {
        let mut waiting = pin!(waiting);
        let mut tick = tokio::time::interval((self.bound / 3).max(Duration::from_millis(1)));
        loop {
            tokio::select! {
                biased;
                output = &mut waiting => {
                    self.beat();
                    return output;
                }
                _ = tick.tick() => self.beat(),
            }
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        lock(&self.state).heartbeats.remove(&self.id);
    }
}

/// No code panics while holding the lock, and what it guards has no invariant between fields.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(failing: Vec<Failing>) -> Vec<String> {
        failing
            .into_iter()
            .map(|failing| format!("{}: {}", failing.name, failing.reason))
            .collect()
    }

    /// A process is ready when every check is, not before its first check, and never while stopping.
    #[test]
    fn ready_means_every_check() {
        let health = Health::default();
        assert_eq!(names(health.not_ready()), ["process: starting"]);
        let [bus, api] = [health.check("bus"), health.check("api")];
        bus.ready();
        assert_eq!(names(health.not_ready()), ["api: starting"]);
        api.ready();
        assert!(health.not_ready().is_empty());
        bus.unready("no server answers");
        assert_eq!(names(health.not_ready()), ["bus: no server answers"]);
        bus.remove();
        assert!(health.not_ready().is_empty());
        health.stopping();
        assert_eq!(names(health.not_ready()), ["process: stopping"]);
    }

    /// A binary without checks is ready once its body has returned.
    #[test]
    fn without_checks_ready_means_started() {
        let health = Health::default();
        health.started();
        assert!(health.not_ready().is_empty());
    }

    /// A loop is dead after its bound without a beat, alive again after one, and forgotten when it is dropped.
    #[tokio::test(start_paused = true)]
    async fn a_silent_loop_is_not_alive() {
        let health = Health::default();
        let poll = health.heartbeat("poll", Duration::from_secs(5));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(health.not_alive().is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(names(health.not_alive()), ["poll: silent for 6.0 s, bound 5.0 s"]);
        poll.beat();
        assert!(health.not_alive().is_empty());
        tokio::time::advance(Duration::from_secs(6)).await;
        drop(poll);
        assert!(health.not_alive().is_empty());
    }

    /// Waiting long for a message is no silence.
    #[tokio::test(start_paused = true)]
    async fn an_idle_loop_is_alive() {
        let health = Health::default();
        let poll = health.heartbeat("poll", Duration::from_secs(3));
        let wait = poll.idle(tokio::time::sleep(Duration::from_secs(60)));
        let watch = async {
            for _ in 0..50 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert!(health.not_alive().is_empty());
            }
        };
        tokio::join!(wait, watch);
    }
}
