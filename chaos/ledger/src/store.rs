//! The store outside the group: a SQLite file fed by one thread, so that recording never slows a writer.
//!
//! The thread commits whatever has arrived since its last commit, at once: a record waits for the commit before it and
//! for nothing else, which keeps the delay far below 50 ms. A commit in WAL mode is a write to the page cache, so a
//! committed record outlives a kill of the ledger; it is not flushed to the disk before the run ends, for a flush would
//! compete with those of the servers that are measured. A write that was acknowledged in the last instant before a kill
//! and not yet committed here is found in the surviving history by its key and reported as *unrecorded*.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use crate::clock::Stamp;
use crate::{LedgerError, SessionNumber, UnconfirmedKind, WriterNumber};

/// The format of the file; a store of another format is refused.
pub(crate) const FORMAT: i64 = 1;

/// The most records in one commit, so that a burst does not hold the file for long.
const LARGEST_BATCH: usize = 2_048;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS run (
  run_id TEXT PRIMARY KEY, started_wall_ns INTEGER NOT NULL, stopped_ns INTEGER, tick_ns INTEGER NOT NULL,
  writers INTEGER NOT NULL, database_name TEXT NOT NULL, table_name TEXT NOT NULL, endpoints TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS session (
  run_id TEXT NOT NULL REFERENCES run, session INTEGER NOT NULL, writer INTEGER NOT NULL, endpoint TEXT NOT NULL,
  server_uuid TEXT NOT NULL, server_host TEXT NOT NULL, server_port INTEGER NOT NULL,
  opened_ns INTEGER NOT NULL, opened_wall_ns INTEGER NOT NULL, PRIMARY KEY (run_id, session)
) STRICT;
CREATE TABLE IF NOT EXISTS attempt (
  write_key TEXT PRIMARY KEY, run_id TEXT NOT NULL REFERENCES run, session INTEGER NOT NULL, writer INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('acknowledged', 'refused', 'unknown')), id INTEGER,
  sent_ns INTEGER NOT NULL, sent_wall_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL, ended_wall_ns INTEGER NOT NULL,
  code TEXT, message TEXT, CHECK ((outcome = 'acknowledged') = (id IS NOT NULL))
) STRICT;
CREATE TABLE IF NOT EXISTS connect_failure (
  run_id TEXT NOT NULL REFERENCES run, writer INTEGER NOT NULL, endpoint TEXT NOT NULL,
  at_ns INTEGER NOT NULL, at_wall_ns INTEGER NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL
) STRICT;
";

/// What a run is, as its first record says.
#[derive(Debug)]
pub(crate) struct RunHeader {
    pub(crate) run_id: String,
    pub(crate) started_wall: i64,
    pub(crate) tick: Duration,
    pub(crate) writers: usize,
    pub(crate) database: String,
    pub(crate) table: String,
    pub(crate) endpoints: Vec<String>,
}

/// One thing to remember.
#[derive(Debug)]
pub(crate) enum Record {
    /// A connection is ready to write.
    Session(SessionRecord),
    /// A write has ended, one way or another.
    Attempt(AttemptRecord),
    /// A connection did not come about.
    ConnectFailure {
        writer: WriterNumber,
        endpoint: String,
        at: Stamp,
        code: String,
        message: String,
    },
    /// The writers have stopped.
    Stopped { at: Stamp },
}

/// A connection and who is at its other end.
#[derive(Debug)]
pub(crate) struct SessionRecord {
    pub(crate) session: SessionNumber,
    pub(crate) writer: WriterNumber,
    pub(crate) endpoint: String,
    pub(crate) server_uuid: String,
    pub(crate) server_host: String,
    pub(crate) server_port: u16,
    pub(crate) opened: Stamp,
}

/// A write and what the client was told.
#[derive(Debug)]
pub(crate) struct AttemptRecord {
    pub(crate) session: SessionNumber,
    pub(crate) writer: WriterNumber,
    pub(crate) key: String,
    pub(crate) sent: Stamp,
    pub(crate) ended: Stamp,
    pub(crate) outcome: Outcome,
}

/// What the client was told.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The row stands under this id.
    Acknowledged { id: u64 },
    /// No promise was made.
    Unconfirmed {
        kind: UnconfirmedKind,
        code: String,
        message: String,
    },
}

/// The thread that owns the file.
#[derive(Debug)]
pub(crate) struct Recorder {
    thread: JoinHandle<Result<(), LedgerError>>,
}

impl Recorder {
    /// Opens or makes the store, notes the run and starts the thread, which ends when the last sender is gone.
    pub(crate) fn start(path: &Path, header: RunHeader) -> Result<(Self, Sender<Record>), LedgerError> {
        let store = Store { path: path.to_owned() };
        let connection = store.create(&header)?;
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("ledger-store".to_owned())
            .spawn(move || {
                let finished = record_all(connection, &receiver, &header.run_id).map_err(|source| store.failed(source));
                if let Err(error) = &finished {
                    tracing::error!(%error, "the store takes no more records, the writers stop");
                }
                finished
            })
            .map_err(|source| LedgerError::Thread { source })?;
        Ok((Self { thread }, sender))
    }

    /// Waits until every record is committed; blocks the calling thread.
    pub(crate) fn join(self) -> Result<(), LedgerError> {
        self.thread.join().map_err(|_| LedgerError::Panicked {
            task: "the recording thread",
        })?
    }
}

/// A store's file.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    path: PathBuf,
}

impl Store {
    /// Opens a store that exists.
    pub(crate) fn open(path: &Path) -> Result<(Self, Connection), LedgerError> {
        let store = Self { path: path.to_owned() };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|source| store.failed(source))?;
        let found = store.ready(&connection)?;
        store.check_format(found)?;
        Ok((store, connection))
    }

    /// The store's name in messages.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// An SQLite error with the store's name.
    pub(crate) fn failed(&self, source: rusqlite::Error) -> LedgerError {
        LedgerError::Store {
            path: self.name(),
            source,
        }
    }

    fn create(&self, header: &RunHeader) -> Result<Connection, LedgerError> {
        let mut connection = Connection::open(&self.path).map_err(|source| self.failed(source))?;
        let found = self.ready(&connection)?;
        if found != 0 {
            self.check_format(found)?;
        }
        begin_run(&mut connection, header).map_err(|source| self.failed(source))?;
        Ok(connection)
    }

    fn ready(&self, connection: &Connection) -> Result<i64, LedgerError> {
        let read = || -> Result<i64, rusqlite::Error> {
            connection.busy_timeout(Duration::from_secs(10))?;
            // The answer to journal_mode is a row, so it is asked for and left unread.
            connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "OFF")?;
            connection.pragma_query_value(None, "user_version", |row| row.get(0))
        };
        read().map_err(|source| self.failed(source))
    }

    fn check_format(&self, found: i64) -> Result<(), LedgerError> {
        if found == FORMAT {
            return Ok(());
        }
        Err(LedgerError::StoreFormat {
            path: self.name(),
            found,
            expected: FORMAT,
        })
    }
}

fn begin_run(connection: &mut Connection, header: &RunHeader) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.execute(
        "INSERT INTO run (run_id, started_wall_ns, tick_ns, writers, database_name, table_name, endpoints)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            header.run_id,
            header.started_wall,
            i64::try_from(header.tick.as_nanos()).unwrap_or(i64::MAX),
            i64::try_from(header.writers).unwrap_or(i64::MAX),
            header.database,
            header.table,
            header.endpoints.join(" "),
        ],
    )?;
    transaction.commit()
}

fn record_all(mut connection: Connection, records: &Receiver<Record>, run_id: &str) -> Result<(), rusqlite::Error> {
    while let Ok(first) = records.recv() {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        insert(&transaction, run_id, &first)?;
        for record in records.try_iter().take(LARGEST_BATCH) {
            insert(&transaction, run_id, &record)?;
        }
        transaction.commit()?;
    }
    // A finished run is flushed. It also becomes one file, unless a reader has the store open: then the WAL stays, which
    // is as good.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn insert(transaction: &Transaction<'_>, run_id: &str, record: &Record) -> Result<(), rusqlite::Error> {
    match record {
        Record::Session(session) => insert_session(transaction, run_id, session),
        Record::Attempt(attempt) => insert_attempt(transaction, run_id, attempt),
        Record::ConnectFailure {
            writer,
            endpoint,
            at,
            code,
            message,
        } => transaction
            .prepare_cached(
                "INSERT INTO connect_failure (run_id, writer, endpoint, at_ns, at_wall_ns, code, message)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                run_id,
                writer.0,
                endpoint,
                at.monotonic,
                at.wall,
                code,
                message
            ])
            .map(drop),
        Record::Stopped { at } => transaction
            .prepare_cached("UPDATE run SET stopped_ns = ?2 WHERE run_id = ?1")?
            .execute(params![run_id, at.monotonic])
            .map(drop),
    }
}

fn insert_session(transaction: &Transaction<'_>, run_id: &str, record: &SessionRecord) -> Result<(), rusqlite::Error> {
    transaction
        .prepare_cached(
            "INSERT INTO session (run_id, session, writer, endpoint, server_uuid, server_host, server_port, opened_ns,
             opened_wall_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            run_id,
            signed(record.session.0),
            record.writer.0,
            record.endpoint,
            record.server_uuid,
            record.server_host,
            record.server_port,
            record.opened.monotonic,
            record.opened.wall,
        ])
        .map(drop)
}

fn insert_attempt(transaction: &Transaction<'_>, run_id: &str, record: &AttemptRecord) -> Result<(), rusqlite::Error> {
    let (outcome, id, code, message) = match &record.outcome {
        Outcome::Acknowledged { id } => ("acknowledged", Some(signed(*id)), None, None),
        Outcome::Unconfirmed {
            kind: UnconfirmedKind::Refused,
            code,
            message,
        } => ("refused", None, Some(code), Some(message)),
        Outcome::Unconfirmed {
            kind: UnconfirmedKind::Unknown,
            code,
            message,
        } => ("unknown", None, Some(code), Some(message)),
    };
    transaction
        .prepare_cached(
            "INSERT INTO attempt (write_key, run_id, session, writer, outcome, id, sent_ns, sent_wall_ns, ended_ns,
             ended_wall_ns, code, message) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            record.key,
            run_id,
            signed(record.session.0),
            record.writer.0,
            outcome,
            id,
            record.sent.monotonic,
            record.sent.wall,
            record.ended.monotonic,
            record.ended.wall,
            code,
            message,
        ])
        .map(drop)
}

/// SQLite's integers are signed; ids and session numbers stay far below the limit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::load::load;
    use crate::{Moment, UnconfirmedKind};

    const STARTED: i64 = 1_767_261_600_000_000_000;

    fn header(run_id: &str) -> RunHeader {
        RunHeader {
            run_id: run_id.to_owned(),
            started_wall: STARTED,
            tick: Duration::from_millis(10),
            writers: 1,
            database: "app".to_owned(),
            table: "ledger".to_owned(),
            endpoints: vec!["127.0.0.1:3306".to_owned()],
        }
    }

    /// A stamp whose wall clock says nonsense, as after a clock step: nothing may be reckoned with it.
    fn stamp(monotonic: i64) -> Stamp {
        Stamp { monotonic, wall: 0 }
    }

    fn session(number: u64, server: &str) -> Record {
        Record::Session(SessionRecord {
            session: SessionNumber(number),
            writer: WriterNumber(0),
            endpoint: "127.0.0.1:3306".to_owned(),
            server_uuid: server.to_owned(),
            server_host: "host".to_owned(),
            server_port: 3306,
            opened: stamp(0),
        })
    }

    fn attempt(session: u64, key: &str, sent: i64, outcome: Outcome) -> Record {
        Record::Attempt(AttemptRecord {
            session: SessionNumber(session),
            writer: WriterNumber(0),
            key: key.to_owned(),
            sent: stamp(sent),
            ended: stamp(sent + 1),
            outcome,
        })
    }

    fn unconfirmed(kind: UnconfirmedKind) -> Outcome {
        Outcome::Unconfirmed {
            kind,
            code: "1290".to_owned(),
            message: "read-only".to_owned(),
        }
    }

    /// What was recorded is what is read back, by the run's own monotonic clock; a second run continues the same file
    /// with sessions of its own (spec: SB-01).
    #[test]
    fn a_store_gives_back_what_was_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.sqlite");
        for run in ["a", "b"] {
            let (recorder, records) = Recorder::start(&path, header(run)).unwrap();
            records.send(session(0, "iad")).unwrap();
            records
                .send(attempt(0, &format!("{run}-0-0"), 5, Outcome::Acknowledged { id: 7 }))
                .unwrap();
            records
                .send(attempt(
                    0,
                    &format!("{run}-0-1"),
                    6,
                    unconfirmed(UnconfirmedKind::Refused),
                ))
                .unwrap();
            records
                .send(attempt(
                    0,
                    &format!("{run}-0-2"),
                    7,
                    unconfirmed(UnconfirmedKind::Unknown),
                ))
                .unwrap();
            let (endpoint, code, message) = ("x:1".to_owned(), "connection-lost".to_owned(), "gone".to_owned());
            let failure = Record::ConnectFailure {
                writer: WriterNumber(0),
                endpoint,
                at: stamp(9),
                code,
                message,
            };
            records.send(failure).unwrap();
            records.send(Record::Stopped { at: stamp(10) }).unwrap();
            drop(records);
            recorder.join().unwrap();
        }
        let (history, table) = load(&path).unwrap();
        assert_eq!(table.quoted(), "`app`.`ledger`");
        assert_eq!(history.activities.len(), 2);
        assert_eq!(
            history.activities[0].stopped,
            Some(Moment::from_nanoseconds(STARTED + 10))
        );
        let kept: Vec<_> = history
            .acknowledged
            .iter()
            .map(|write| (write.key.as_str(), write.session.0))
            .collect();
        assert_eq!(kept, [("a-0-0", 0), ("b-0-0", 1)]);
        let first = &history.acknowledged[0];
        assert_eq!(
            (first.id, first.sent, first.server.as_str()),
            (7, Moment::from_nanoseconds(STARTED + 5), "iad")
        );
        let kinds: Vec<_> = history.unconfirmed.iter().map(|write| write.kind).take(2).collect();
        assert_eq!(kinds, [UnconfirmedKind::Refused, UnconfirmedKind::Unknown]);
        assert_eq!(history.connect_failures.len(), 2);
        assert_eq!(history.servers.values().next().map(String::as_str), Some("host:3306"));
    }

    /// A record is in the file while the run goes on, without any stop or flush: a kill of the ledger loses nothing that
    /// was recorded (spec: SB-01).
    #[test]
    fn a_record_is_committed_without_being_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.sqlite");
        let (recorder, records) = Recorder::start(&path, header("a")).unwrap();
        records.send(session(0, "iad")).unwrap();
        records
            .send(attempt(0, "a-0-0", 5, Outcome::Acknowledged { id: 7 }))
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while load(&path).unwrap().0.acknowledged.is_empty() {
            assert!(Instant::now() < deadline, "the record was not committed");
            std::thread::yield_now();
        }
        assert_eq!(load(&path).unwrap().0.activities[0].stopped, None);
        drop(records);
        recorder.join().unwrap();
    }

    /// A file of another format is refused, not misread.
    #[test]
    fn another_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.sqlite");
        Connection::open(&path)
            .unwrap()
            .pragma_update(None, "user_version", FORMAT + 1)
            .unwrap();
        assert!(matches!(load(&path), Err(LedgerError::StoreFormat { .. })));
        assert!(matches!(
            Recorder::start(&path, header("a")),
            Err(LedgerError::StoreFormat { .. })
        ));
    }
}
