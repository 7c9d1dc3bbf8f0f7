//! Starting, watching and stopping a run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::{NoContext, Uuid};

use crate::clock::Timeline;
use crate::store::{Record, Recorder, RunHeader};
use crate::table::connection_options;
use crate::writer::{Shared, Target, Writer};
use crate::{LedgerError, Moment, Options, WriterNumber};

/// The ledger.
#[derive(Debug)]
pub struct Ledger;

/// A run under way. Dropping it stops the writers too, but only [`Running::stop`] waits for the last record.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    stop: DropGuard,
    restarts: Vec<Arc<Notify>>,
    writers: Vec<JoinHandle<()>>,
    records: Sender<Record>,
    recorder: Recorder,
}

/// How many writes ended how, so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Acknowledged by a server.
    pub acknowledged: u64,
    /// Refused by a server.
    pub refused: u64,
    /// Of unknown outcome.
    pub unknown: u64,
}

impl Ledger {
    /// Starts the writers; the records go to the SQLite file `store`, which is made where it does not exist and continued
    /// where it does. The table has to exist ([`crate::prepare`]); until it does the writers meet error 1146.
    ///
    /// # Errors
    /// [`LedgerError`] when an option has no meaning, the store cannot be opened, or there is no tokio runtime.
    pub fn start(options: &Options, store: impl AsRef<Path>) -> Result<Running, LedgerError> {
        options.check()?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|source| LedgerError::NoRuntime { source })?;
        let shared = Arc::new(share(options)?);
        let (recorder, records) = Recorder::start(store.as_ref(), header(options, &shared))?;
        let stop = CancellationToken::new();
        let mut running = Running {
            shared: Arc::clone(&shared),
            stop: stop.clone().drop_guard(),
            restarts: Vec::with_capacity(options.writers),
            writers: Vec::with_capacity(options.writers),
            records: records.clone(),
            recorder,
        };
        let writers = u32::try_from(options.writers).unwrap_or(u32::MAX);
        let step = options.tick.checked_div(writers).unwrap_or(Duration::ZERO);
        for number in 0..writers {
            let restart = Arc::new(Notify::new());
            running.restarts.push(Arc::clone(&restart));
            let writer = Writer {
                number: WriterNumber(number),
                shared: Arc::clone(&shared),
                records: records.clone(),
                stop: stop.clone(),
                restart,
                phase: step.saturating_mul(number),
                sequence: 0,
                turn: 0,
                failures: 0,
            };
            running.writers.push(runtime.spawn(writer.run()));
        }
        tracing::info!(run = shared.run_id, writers, tick = ?options.tick, endpoints = ?options.endpoints, "the ledger writes");
        Ok(running)
    }
}

impl Running {
    /// How many writes were acknowledged so far.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.counts().acknowledged
    }

    /// How many writes ended how, so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            acknowledged: self.shared.acknowledged.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            unknown: self.shared.unknown.load(Ordering::Relaxed),
        }
    }

    /// The present moment on the ledger's timeline: note it before and after a switchover, and ask
    /// [`crate::Report::outage_between`] for the outage in between.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.shared.timeline.now()
    }

    /// Restarts a client: the writer drops its connection and goes through the first endpoint again, as a restarted pod
    /// would (`SB-02`). False when there is no such writer.
    pub fn restart_writer(&self, writer: WriterNumber) -> bool {
        let restart = usize::try_from(writer.0)
            .ok()
            .and_then(|index| self.restarts.get(index));
        if let Some(restart) = restart {
            restart.notify_one();
        }
        restart.is_some()
    }

    /// Stops the writers, each after the write it has under way, and waits until every record is in the store.
    ///
    /// # Errors
    /// [`LedgerError`] when the store failed at any time during the run: what it holds is then incomplete.
    pub async fn stop(self) -> Result<Counts, LedgerError> {
        let Self {
            shared,
            stop,
            restarts: _,
            writers,
            records,
            recorder,
        } = self;
        drop(stop);
        let mut panicked = false;
        for writer in writers {
            panicked |= writer.await.is_err();
        }
        // A store that failed has ended its thread; join tells why.
        let told = records.send(Record::Stopped {
            at: shared.timeline.stamp(),
        });
        drop(records);
        let joined = tokio::task::spawn_blocking(move || recorder.join()).await;
        joined.map_err(|_| LedgerError::Panicked {
            task: "the recording thread",
        })??;
        if panicked || told.is_err() {
            return Err(LedgerError::Panicked { task: "a writer" });
        }
        let counts = Counts {
            acknowledged: shared.acknowledged.load(Ordering::Relaxed),
            refused: shared.refused.load(Ordering::Relaxed),
            unknown: shared.unknown.load(Ordering::Relaxed),
        };
        tracing::info!(run = shared.run_id, ?counts, "the ledger has stopped");
        Ok(counts)
    }
}

fn share(options: &Options) -> Result<Shared, LedgerError> {
    let table = options.table_name()?;
    let endpoints = options.parsed_endpoints()?;
    let timeline = Timeline::start();
    let targets = endpoints.iter().map(|endpoint| Target {
        name: endpoint.to_string(),
        options: connection_options(endpoint, &options.user, &options.password),
    });
    Ok(Shared {
        run_id: run_id(timeline.started()),
        timeline,
        insert: format!(
            "INSERT INTO {} (writer, write_key, server_uuid, sent_at) VALUES (?, ?, ?, ?)",
            table.quoted()
        ),
        endpoints: targets.collect(),
        tick: options.tick,
        connect_timeout: options.connect_timeout,
        statement_timeout: options.statement_timeout,
        sessions: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        unknown: AtomicU64::new(0),
    })
}

/// A run's id: unique, and in the order of the runs' starts.
fn run_id(started: Moment) -> String {
    let seconds = u64::try_from(started.as_nanoseconds() / 1_000_000_000).unwrap_or_default();
    let nanoseconds = u32::try_from(started.as_nanoseconds() % 1_000_000_000).unwrap_or_default();
    Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, seconds, nanoseconds))
        .simple()
        .to_string()
}

fn header(options: &Options, shared: &Shared) -> RunHeader {
    RunHeader {
        run_id: shared.run_id.clone(),
        started_wall: shared.timeline.started().as_nanoseconds(),
        tick: options.tick,
        writers: options.writers,
        database: options.database.clone(),
        table: options.table.clone(),
        endpoints: options.endpoints.clone(),
    }
}
