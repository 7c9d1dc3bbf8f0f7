//! A client of its own kind beside the ledger: one connection, one row a time, every acknowledgement remembered.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bloodraven_types::Timestamp;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{SOON, TestResult, eventually, now};

/// Pause between two rows, and before a connection is tried again.
const TICK: Duration = Duration::from_millis(5);

/// What was acknowledged, and what was refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// The acknowledged rows with the time of the acknowledgement.
    pub(crate) acknowledged: Vec<(u64, Timestamp)>,
    /// The refused rows' errors.
    pub(crate) refused: Vec<(Timestamp, String)>,
}

/// A client that writes until it is stopped.
pub(crate) struct Writer {
    written: Arc<Mutex<Written>>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Writer {
    /// Starts to write into `app.<table>`, which is there already. `first` is said at the beginning of each connection.
    pub(crate) fn start(opts: Opts, table: &'static str, first: &'static str) -> Self {
        let written = Arc::new(Mutex::new(Written::default()));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(write(opts, table, first, Arc::clone(&written), stopped));
        Self { written, stop, task }
    }

    /// Waits until more rows are acknowledged than now.
    pub(crate) async fn goes_on(&self) -> TestResult {
        let before = self.so_far().acknowledged.len();
        eventually("a write that is acknowledged", SOON, async || {
            Ok((self.so_far().acknowledged.len() > before).then_some(()))
        })
        .await
    }

    /// What was acknowledged and refused so far.
    pub(crate) fn so_far(&self) -> Written {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the client.
    pub(crate) async fn stop(self) -> TestResult<Written> {
        // A client that has ended by itself has been told everything too.
        let _ = self.stop.send(());
        self.task.await?;
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(written.clone())
    }
}

impl Written {
    /// Checks that every acknowledged row is in the table of a server.
    pub(crate) async fn is_kept_by(&self, server: &mut Conn, table: &str) -> TestResult {
        let there: BTreeSet<u64> = server
            .query(format!("SELECT id FROM app.{table}"))
            .await?
            .into_iter()
            .collect();
        let missing: Vec<u64> = self
            .acknowledged
            .iter()
            .map(|(id, _)| *id)
            .filter(|id| !there.contains(id))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("acknowledged rows that are gone: {missing:?}").into())
        }
    }
}

async fn write(
    opts: Opts,
    table: &'static str,
    first: &'static str,
    written: Arc<Mutex<Written>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut session: Option<Conn> = None;
    for id in 1_u64.. {
        if stopped.try_recv().is_ok() {
            break;
        }
        let outcome = insert(&opts, &mut session, table, first, id).await;
        {
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(()) => written.acknowledged.push((id, now())),
                Err(error) => written.refused.push((now(), error.to_string())),
            }
        }
        tokio::time::sleep(TICK).await;
    }
}

async fn insert(
    opts: &Opts,
    session: &mut Option<Conn>,
    table: &str,
    first: &str,
    id: u64,
) -> Result<(), mysql_async::Error> {
    let mut connection = match session.take() {
        Some(connection) => connection,
        None => {
            let mut connection = Conn::new(opts.clone()).await?;
            if !first.is_empty() {
                connection.query_drop(first).await?;
            }
            connection
        }
    };
    let outcome = connection
        .query_drop(format!("INSERT INTO app.{table} (id) VALUES ({id})"))
        .await;
    // A refused row leaves a sound connection: the client keeps it and goes on, as impatient clients do.
    if matches!(outcome, Ok(()) | Err(mysql_async::Error::Server(_))) {
        *session = Some(connection);
    }
    outcome
}
