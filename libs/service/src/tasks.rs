//! Supervised tasks. Nothing runs unnamed, nothing fails unseen: an error stops the process in order, a panic at once, and
//! who keeps a stop waiting is known by name.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::error::BoxError;

/// Spawns the tasks of a binary. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tasks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tracker: TaskTracker,
    cancel: CancellationToken,
    failures: mpsc::UnboundedSender<Failure>,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    next: u64,
    names: BTreeMap<u64, Arc<str>>,
}

/// How a task brought the process down.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) task: Arc<str>,
    pub(crate) kind: FailureKind,
}

#[derive(Debug)]
pub(crate) enum FailureKind {
    /// It returned an error.
    Error(BoxError),
    /// It panicked with this message.
    Panic(String),
    /// It was to run until the stop and returned before.
    EndedEarly,
}

/// What a task may return: nothing, or a result.
pub trait TaskOutput: Send {
    /// The outcome as a result.
    ///
    /// # Errors
    ///
    /// The error of the task.
    fn into_result(self) -> Result<(), BoxError>;
}

impl TaskOutput for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError> + Send> TaskOutput for Result<(), E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

impl Tasks {
    pub(crate) fn new(cancel: CancellationToken) -> (Self, mpsc::UnboundedReceiver<Failure>) {
        let (failures, receiver) = mpsc::unbounded_channel();
        let shared = Shared {
            tracker: TaskTracker::new(),
            cancel,
            failures,
            running: Mutex::default(),
        };
        (
            Self {
                shared: Arc::new(shared),
            },
            receiver,
        )
    }

    /// Runs work that may end at any time, such as the actor of one group. Returning an error stops the process.
    pub fn spawn<F>(&self, name: impl Into<Arc<str>>, future: F)
    where
        F: Future + Send + 'static,
        F::Output: TaskOutput,
    {
        self.start(name.into(), future, false);
    }

    /// Runs a loop that must go on until the stop: ending before it, even well, stops the process, because one that has
    /// silently lost a loop is worse than one that is restarted.
    pub fn spawn_loop<F>(&self, name: impl Into<Arc<str>>, future: F)
    where
        F: Future + Send + 'static,
        F::Output: TaskOutput,
    {
        self.start(name.into(), future, true);
    }

    /// The names of the tasks that have not ended, oldest first.
    pub fn running(&self) -> Vec<String> {
        self.lock().names.values().map(ToString::to_string).collect()
    }

    /// Waits until no task is left. Tasks spawned meanwhile are waited for too.
    pub(crate) async fn ended(&self) {
        self.shared.tracker.close();
        self.shared.tracker.wait().await;
    }

    fn start<F>(&self, name: Arc<str>, future: F, must_last: bool)
    where
        F: Future + Send + 'static,
        F::Output: TaskOutput,
    {
        let entry = Entry::new(Arc::clone(&self.shared), Arc::clone(&name));
        let span = tracing::info_span!("task", task = %name);
        let shared = Arc::clone(&self.shared);
        let work = async move {
            let outcome = AssertUnwindSafe(future).catch_unwind().await;
            let kind = match outcome.map(TaskOutput::into_result) {
                Ok(Ok(())) if must_last && !shared.cancel.is_cancelled() => Some(FailureKind::EndedEarly),
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(FailureKind::Error(error)),
                Err(payload) => Some(FailureKind::Panic(panic_message(payload.as_ref()))),
            };
            if let Some(kind) = kind {
                // Nobody listens once the process is past its drain, and then it is ending anyway.
                let _ = shared.failures.send(Failure { task: name, kind });
            }
            drop(entry);
        };
        self.shared.tracker.spawn(work.instrument(span));
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task's line in the list of the running ones, for as long as it lives.
struct Entry {
    shared: Arc<Shared>,
    id: u64,
}

impl Entry {
    fn new(shared: Arc<Shared>, name: Arc<str>) -> Self {
        let mut running = shared.running.lock().unwrap_or_else(PoisonError::into_inner);
        let id = running.next;
        running.next += 1;
        running.names.insert(id, name);
        drop(running);
        Self { shared, id }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .names
            .remove(&self.id);
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
