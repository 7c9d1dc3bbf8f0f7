//! Ill-treating and reviving single processes of a lab.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::error::LabError;
use crate::lab::Lab;
use crate::process::{POLL_INTERVAL, ProcessId, ProcessName, ProcessSpec, ProcessState};

/// How long a process may take to end in good order.
const STOP_BUDGET: Duration = Duration::from_secs(30);
/// How long a process may take to be gone, stopped or running after a signal that it cannot refuse.
const SIGNAL_BUDGET: Duration = Duration::from_secs(15);

impl Lab {
    /// Kills a process at once (`SIGKILL`, as a crash does) and returns when it is gone.
    ///
    /// # Errors
    /// `Unknown`, `WrongState` when it does not run, `TimedOut` when it does not go.
    pub async fn kill(&self, name: &ProcessName) -> Result<(), LabError> {
        let (spec, id) = self.running(name, "killed")?;
        id.signal(Signal::SIGKILL);
        self.await_state(spec, id, ProcessState::Stopped, "gone", SIGNAL_BUDGET)
            .await
    }

    /// Asks a process to end in good order (`SIGTERM`) and returns when it has.
    ///
    /// # Errors
    /// As [`Lab::kill`].
    pub async fn stop(&self, name: &ProcessName) -> Result<(), LabError> {
        let (spec, id) = self.running(name, "stopped")?;
        id.signal(Signal::SIGTERM);
        // A paused process takes the request when it goes on.
        id.signal(Signal::SIGCONT);
        self.await_state(spec, id, ProcessState::Stopped, "stopped", STOP_BUDGET)
            .await
    }

    /// Starts a process that has ended, with the ports and files it had, and returns when it serves.
    ///
    /// # Errors
    /// `Unknown`, `WrongState` when it runs, `Died` or `TimedOut` with the end of its log when it does not come up.
    pub async fn start(&self, name: &ProcessName) -> Result<(), LabError> {
        let state = self.spec(name)?.state();
        if state != ProcessState::Stopped {
            return Err(LabError::WrongState {
                process: name.clone(),
                state: describe(state),
                verb: "started",
            });
        }
        self.launch(name)?;
        self.await_ready(name).await
    }

    /// Freezes a process (`SIGSTOP`): it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// As [`Lab::kill`].
    pub async fn pause(&self, name: &ProcessName) -> Result<(), LabError> {
        let (spec, id) = self.running(name, "paused")?;
        id.signal(Signal::SIGSTOP);
        self.await_state(spec, id, ProcessState::Paused, "paused", SIGNAL_BUDGET)
            .await
    }

    /// Lets a paused process go on (`SIGCONT`).
    ///
    /// # Errors
    /// As [`Lab::kill`].
    pub async fn resume(&self, name: &ProcessName) -> Result<(), LabError> {
        let (spec, id) = self.running(name, "resumed")?;
        id.signal(Signal::SIGCONT);
        self.await_state(spec, id, ProcessState::Running, "running", SIGNAL_BUDGET)
            .await
    }

    /// Whether a process runs, is paused or has ended.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn process_state(&self, name: &ProcessName) -> Result<ProcessState, LabError> {
        Ok(self.spec(name)?.state())
    }

    /// The process id of a running process.
    ///
    /// # Errors
    /// `Unknown`, `WrongState` when it does not run.
    pub fn pid(&self, name: &ProcessName) -> Result<i32, LabError> {
        self.running(name, "asked for its process id").map(|(_, id)| id.pid)
    }

    /// A process that has not ended.
    fn running(&self, name: &ProcessName, verb: &'static str) -> Result<(&ProcessSpec, ProcessId), LabError> {
        let spec = self.spec(name)?;
        match spec.last_started().filter(|id| id.state() != ProcessState::Stopped) {
            Some(id) => Ok((spec, id)),
            None => Err(LabError::WrongState {
                process: name.clone(),
                state: describe(ProcessState::Stopped),
                verb,
            }),
        }
    }

    async fn await_state(
        &self,
        spec: &ProcessSpec,
        id: ProcessId,
        wanted: ProcessState,
        word: &'static str,
        budget: Duration,
    ) -> Result<(), LabError> {
        let started = Instant::now();
        while id.state() != wanted {
            if started.elapsed() > budget {
                return Err(spec.timed_out(word, started.elapsed()));
            }
            tokio::time::sleep(POLL_INTERVAL / 5).await;
        }
        Ok(())
    }
}

fn describe(state: ProcessState) -> String {
    match state {
        ProcessState::Running => "running",
        ProcessState::Paused => "paused",
        ProcessState::Stopped => "not running",
    }
    .to_owned()
}
