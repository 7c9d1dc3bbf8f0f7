//! From running to ended: waits for a signal, a failure or the end of all work, then drains under the grace period.

use std::fmt;
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::tasks::{Failure, FailureKind, Tasks};

/// A signal that asks the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Interrupt,
    Terminate,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// The code that a shell shows for a process ended by this signal.
    const fn code(self) -> u8 {
        match self {
            Self::Interrupt => 128 + 2,
            Self::Terminate => 128 + 15,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All tasks ended in order.
    Clean,
    /// A task failed; what was left has been drained.
    Failed,
    /// The grace period ran out; these tasks were still running.
    Stuck(Vec<String>),
    /// A second signal came while draining.
    Forced(Signal),
    /// A task panicked.
    Panicked,
}

impl Ending {
    /// The exit code: 0 clean, 1 failed or stuck, 70 (software error of sysexits) panicked, 128 + n forced by signal n.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Failed | Self::Stuck(_) => 1,
            Self::Panicked => 70,
            Self::Forced(signal) => signal.code(),
        }
    }
}

/// The stop signals of this process, from now on.
///
/// # Errors
///
/// When the handlers cannot be installed.
pub(crate) fn signals() -> std::io::Result<impl Stream<Item = Signal> + Unpin> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(futures::stream::poll_fn(move |context| {
        if interrupt.poll_recv(context).is_ready() {
            return std::task::Poll::Ready(Some(Signal::Interrupt));
        }
        terminate.poll_recv(context).map(|_| Some(Signal::Terminate))
    }))
}

/// Runs until the process has to end, and says how.
pub(crate) async fn supervise(
    tasks: &Tasks,
    mut failures: mpsc::UnboundedReceiver<Failure>,
    cancel: &CancellationToken,
    mut signals: impl Stream<Item = Signal> + Unpin,
    grace: Duration,
) -> Ending {
    let mut failed = false;
    tokio::select! {
        // A failure is looked at before the end of all work that it may have caused.
        biased;
        Some(failure) = failures.recv() => {
            if log(&failure) == Severity::Panic {
                return Ending::Panicked;
            }
            failed = true;
        }
        Some(signal) = signals.next() => {
            tracing::info!(%signal, graceSeconds = grace.as_secs_f64(), "stopping");
        }
        () = cancel.cancelled() => tracing::info!("stopping, a task asked for it"),
        () = tasks.ended() => tracing::info!("all tasks have ended"),
    }
    cancel.cancel();
    let deadline = tokio::time::sleep(grace);
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            biased;
            Some(failure) = failures.recv() => {
                if log(&failure) == Severity::Panic {
                    return Ending::Panicked;
                }
                failed = true;
            }
            () = tasks.ended() => break,
            Some(signal) = signals.next() => {
                tracing::warn!(%signal, waitingFor = tasks.running().join(", "), "ending at once, asked twice");
                return Ending::Forced(signal);
            }
            () = &mut deadline => {
                let waiting_for = tasks.running();
                let names = waiting_for.join(", ");
                tracing::error!(waitingFor = names, graceSeconds = grace.as_secs_f64(), "tasks did not stop in time");
                return Ending::Stuck(waiting_for);
            }
        }
    }
    // The last task may have failed and ended between two looks.
    while let Ok(failure) = failures.try_recv() {
        if log(&failure) == Severity::Panic {
            return Ending::Panicked;
        }
        failed = true;
    }
    if failed { Ending::Failed } else { Ending::Clean }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Severity {
    Stop,
    Panic,
}

/// The one place where the failure of a task is logged.
fn log(failure: &Failure) -> Severity {
    let task = &*failure.task;
    match &failure.kind {
        FailureKind::Error(error) => {
            tracing::error!(task, error = chain(error.as_ref()), "task failed");
            Severity::Stop
        }
        FailureKind::EndedEarly => {
            tracing::error!(task, "task ended although it had to run until the stop");
            Severity::Stop
        }
        FailureKind::Panic(message) => {
            tracing::error!(task, error = message, "task panicked");
            Severity::Panic
        }
    }
}
