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
    /// This task panicked with this message.
    Panicked(String, String),
}

impl Ending {
    /// The exit code: 0 clean, 1 failed or stuck, 70 (software error of sysexits) panicked, 128 + n forced by signal n.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Failed | Self::Stuck(_) => 1,
            Self::Panicked(..) => 70,
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
            if let Some(ending) = judge(&failure) {
                return ending;
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
                if let Some(ending) = judge(&failure) {
                    return ending;
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
        if let Some(ending) = judge(&failure) {
            return ending;
        }
        failed = true;
    }
    if failed { Ending::Failed } else { Ending::Clean }
}

/// Logs the failure of a task, here and nowhere else. A panic ends the process at once: nobody knows what state it has left.
fn judge(failure: &Failure) -> Option<Ending> {
    let task = &*failure.task;
    match &failure.kind {
        FailureKind::Error(error) => {
            tracing::error!(task, error = chain(error.as_ref()), "task failed");
            None
        }
        FailureKind::EndedEarly => {
            tracing::error!(task, "task ended although it had to run until the stop");
            None
        }
        // The panic hook has logged it already, with its place in the code.
        FailureKind::Panic(message) => Some(Ending::Panicked(task.to_owned(), message.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BoxError;
    use crate::testing::expect_no_errors;

    struct Fixture {
        tasks: Tasks,
        failures: mpsc::UnboundedReceiver<Failure>,
        cancel: CancellationToken,
    }

    const GRACE: Duration = Duration::from_secs(10);

    fn fixture() -> Fixture {
        let cancel = CancellationToken::new();
        let (tasks, failures) = Tasks::new(cancel.clone());
        Fixture {
            tasks,
            failures,
            cancel,
        }
    }

    impl Fixture {
        /// Runs to the end with these signals, each after its delay.
        async fn end(self, signals: impl IntoIterator<Item = (u64, Signal)>) -> Ending {
            let signals: Vec<_> = signals.into_iter().collect();
            let signals = futures::stream::iter(signals)
                .then(async |(seconds, signal)| {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    signal
                })
                .chain(futures::stream::pending());
            supervise(&self.tasks, self.failures, &self.cancel, Box::pin(signals), GRACE).await
        }
    }

    /// A signal cancels the tasks, and the end is clean when all of them heed it.
    #[tokio::test(start_paused = true)]
    async fn a_signal_stops_all_tasks_in_order() {
        let _errors = expect_no_errors();
        let fixture = fixture();
        for name in ["poll", "renew"] {
            let cancel = fixture.cancel.clone();
            fixture.tasks.spawn_loop(name, async move { cancel.cancelled().await });
        }
        assert_eq!(fixture.end([(1, Signal::Terminate)]).await, Ending::Clean);
    }

    /// A task that ignores the stop is named when the grace period is over, and those that heeded it are not.
    #[tokio::test(start_paused = true)]
    async fn a_stuck_task_is_named() {
        let errors = expect_no_errors();
        errors.allow("tasks did not stop in time");
        let fixture = fixture();
        let cancel = fixture.cancel.clone();
        fixture.tasks.spawn("polite", async move { cancel.cancelled().await });
        fixture.tasks.spawn("stubborn", std::future::pending::<()>());
        let before = tokio::time::Instant::now();
        let ending = fixture.end([(0, Signal::Terminate)]).await;
        assert_eq!(ending, Ending::Stuck(vec!["stubborn".to_owned()]));
        assert_eq!(ending.code(), 1);
        assert_eq!(before.elapsed(), GRACE);
        assert!(errors.errors().concat().contains("waitingFor=\"stubborn\""));
    }

    /// The second signal ends the process within the grace period.
    #[tokio::test(start_paused = true)]
    async fn a_second_signal_ends_at_once() {
        let _errors = expect_no_errors();
        let fixture = fixture();
        fixture.tasks.spawn("stubborn", std::future::pending::<()>());
        let before = tokio::time::Instant::now();
        let ending = fixture.end([(1, Signal::Terminate), (2, Signal::Interrupt)]).await;
        assert_eq!(ending, Ending::Forced(Signal::Interrupt));
        assert_eq!(ending.code(), 130);
        assert_eq!(before.elapsed(), Duration::from_secs(3));
    }

    /// An error of one task is logged once, with its causes, and stops the others in order.
    #[tokio::test(start_paused = true)]
    async fn an_error_stops_the_process() {
        let errors = expect_no_errors();
        errors.allow("task failed");
        let fixture = fixture();
        let cancel = fixture.cancel.clone();
        fixture
            .tasks
            .spawn_loop("other", async move { cancel.cancelled().await });
        fixture
            .tasks
            .spawn("reader", async { Err::<(), BoxError>("the bus is gone".into()) });
        let ending = fixture.end([]).await;
        assert_eq!((ending.code(), ending), (1, Ending::Failed));
        assert_eq!(
            errors.errors(),
            ["task failed task=\"reader\" error=\"the bus is gone\""]
        );
    }

    /// A loop that returns although nobody asked for a stop is a failure; work that ends is not.
    #[tokio::test(start_paused = true)]
    async fn a_loop_must_not_end_early() {
        let errors = expect_no_errors();
        errors.allow("task=\"loop\"");
        let with_loop = fixture();
        with_loop.tasks.spawn_loop("loop", async {});
        assert_eq!(with_loop.end([]).await, Ending::Failed);

        let with_work = fixture();
        with_work.tasks.spawn("work", async {});
        assert_eq!(with_work.end([]).await, Ending::Clean);
    }

    /// A panic ends the process with code 70 and does not wait for the others.
    #[tokio::test(start_paused = true)]
    async fn a_panic_ends_at_once() {
        let fixture = fixture();
        fixture.tasks.spawn("other", std::future::pending::<()>());
        let holds = std::hint::black_box(false);
        fixture
            .tasks
            .spawn("broken", async move { assert!(holds, "cannot be") });
        let ending = fixture.end([]).await;
        assert_eq!(ending.code(), 70);
        assert_eq!(ending, Ending::Panicked("broken".to_owned(), "cannot be".to_owned()));
    }

    /// Cancelling the token from within stops the process like a signal does.
    #[tokio::test(start_paused = true)]
    async fn a_task_can_ask_for_the_stop() {
        let _errors = expect_no_errors();
        let fixture = fixture();
        let cancel = fixture.cancel.clone();
        fixture.tasks.spawn("main", async move { cancel.cancel() });
        assert_eq!(fixture.end([]).await, Ending::Clean);
    }
}
