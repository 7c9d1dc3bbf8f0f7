//! Reads a store back into a [`History`].

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Row};

use crate::history::{Acknowledged, Activity, ConnectFailure, History, Unconfirmed, UnconfirmedKind};
use crate::store::Store;
use crate::{LedgerError, Moment, ServerUuid, SessionNumber, TableName, WriteKey, WriterNumber};

/// A session's place in the history and its server, by run and by number within the run.
type Sessions = HashMap<(String, i64), (SessionNumber, ServerUuid)>;

/// Reads everything a store remembers, and the table its runs wrote to. May be done while a ledger still writes.
///
/// # Errors
/// [`LedgerError`] when the file cannot be read, was made by another version, holds no run, or its runs wrote to
/// different tables.
pub fn load(path: &Path) -> Result<(History, TableName), LedgerError> {
    let (store, connection) = Store::open(path)?;
    let mut reader = Reader {
        store,
        connection,
        history: History::default(),
        starts: HashMap::new(),
    };
    let table = reader.read_runs()?;
    let sessions = reader.read_sessions()?;
    reader.read_attempts(&sessions)?;
    reader.read_connect_failures()?;
    Ok((reader.history, table))
}

struct Reader {
    store: Store,
    connection: Connection,
    history: History,
    /// Where each run stands in the history, and its anchor.
    starts: HashMap<String, (usize, i64)>,
}

struct AttemptRow {
    run_id: String,
    session: i64,
    writer: u32,
    key: String,
    outcome: String,
    id: Option<i64>,
    sent: i64,
    ended: i64,
    code: Option<String>,
    message: Option<String>,
}

impl Reader {
    fn rows<T>(
        &self,
        statement: &str,
        read: impl FnMut(&Row<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<Vec<T>, LedgerError> {
        let query = || -> Result<Vec<T>, rusqlite::Error> {
            self.connection.prepare(statement)?.query_map([], read)?.collect()
        };
        query().map_err(|source| self.store.failed(source))
    }

    fn foreign(&self, field: &'static str, value: String) -> LedgerError {
        LedgerError::StoreContent {
            path: self.store.name(),
            field,
            value,
        }
    }

    fn read_runs(&mut self) -> Result<TableName, LedgerError> {
        let rows = self.rows(
            "SELECT run_id, started_wall_ns, stopped_ns, tick_ns, database_name, table_name FROM run
             ORDER BY started_wall_ns, run_id",
            |row| {
                Ok((
                    (
                        row.get::<_, String>(0)?,
                        row.get::<_, i64>(1)?,
                        row.get::<_, Option<i64>>(2)?,
                    ),
                    (
                        row.get::<_, i64>(3)?,
                        row.get::<_, String>(4)?,
                        row.get::<_, String>(5)?,
                    ),
                ))
            },
        )?;
        let mut table = None;
        for ((run_id, started, stopped), (tick, database, name)) in rows {
            let this = TableName::new(&database, &name)?;
            if table.get_or_insert_with(|| this.clone()) != &this {
                return Err(self.foreign("run.table_name", this.quoted()));
            }
            self.starts
                .insert(run_id.clone(), (self.history.activities.len(), started));
            self.history.activities.push(Activity {
                run_id,
                started: Moment::from_nanoseconds(started),
                stopped: stopped.map(|stopped| Moment::from_nanoseconds(started.saturating_add(stopped))),
                tick: Duration::from_nanos(u64::try_from(tick).unwrap_or_default()),
                last_seen: Moment::from_nanoseconds(started),
            });
        }
        table.ok_or(LedgerError::NothingToJudge {
            missing: "the store holds no run",
        })
    }

    fn read_sessions(&mut self) -> Result<Sessions, LedgerError> {
        let rows = self.rows(
            "SELECT run_id, session, server_uuid, server_host, server_port FROM session ORDER BY rowid",
            |row| {
                Ok((
                    (row.get::<_, String>(0)?, row.get::<_, i64>(1)?),
                    row.get::<_, String>(2)?,
                    (row.get::<_, String>(3)?, row.get::<_, u16>(4)?),
                ))
            },
        )?;
        let mut sessions = Sessions::new();
        let mut known: HashMap<String, ServerUuid> = HashMap::new();
        for (number, (place, uuid, (host, port))) in (0..).zip(rows) {
            let server = known
                .entry(uuid)
                .or_insert_with_key(|uuid| ServerUuid::from(uuid.as_str()))
                .clone();
            self.history.servers.insert(server.clone(), format!("{host}:{port}"));
            sessions.insert(place, (SessionNumber(number), server));
        }
        Ok(sessions)
    }

    fn read_attempts(&mut self, sessions: &Sessions) -> Result<(), LedgerError> {
        let rows = self.rows(
            "SELECT run_id, session, writer, write_key, outcome, id, sent_ns, ended_ns, code, message FROM attempt
             ORDER BY rowid",
            |row| {
                Ok(AttemptRow {
                    run_id: row.get(0)?,
                    session: row.get(1)?,
                    writer: row.get(2)?,
                    key: row.get(3)?,
                    outcome: row.get(4)?,
                    id: row.get(5)?,
                    sent: row.get(6)?,
                    ended: row.get(7)?,
                    code: row.get(8)?,
                    message: row.get(9)?,
                })
            },
        )?;
        for row in rows {
            let sent = self.moment(&row.run_id, row.sent)?;
            let ended = self.moment(&row.run_id, row.ended)?;
            let place = (row.run_id, row.session);
            let Some((session, server)) = sessions.get(&place).cloned() else {
                return Err(self.foreign("attempt.session", format!("{}/{}", place.0, place.1)));
            };
            let (writer, key) = (WriterNumber(row.writer), WriteKey::from(row.key));
            let kind = match (row.outcome.as_str(), row.id.and_then(|id| u64::try_from(id).ok())) {
                ("acknowledged", Some(id)) => {
                    let write = Acknowledged {
                        writer,
                        session,
                        server,
                        key,
                        id,
                        sent,
                        acked: ended,
                    };
                    self.history.acknowledged.push(write);
                    continue;
                }
                ("refused", None) => UnconfirmedKind::Refused,
                ("unknown", None) => UnconfirmedKind::Unknown,
                (_, id) => return Err(self.foreign("attempt.outcome", format!("{} with id {id:?}", row.outcome))),
            };
            let (code, message) = (row.code.unwrap_or_default(), row.message.unwrap_or_default());
            self.history.unconfirmed.push(Unconfirmed {
                kind,
                writer,
                server,
                key,
                sent,
                ended,
                code,
                message,
            });
        }
        Ok(())
    }

    fn read_connect_failures(&mut self) -> Result<(), LedgerError> {
        let rows = self.rows(
            "SELECT run_id, at_ns, code, message FROM connect_failure ORDER BY rowid",
            |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, i64>(1)?,
                    row.get::<_, String>(2)?,
                    row.get::<_, String>(3)?,
                ))
            },
        )?;
        for (run_id, at, code, message) in rows {
            let at = self.moment(&run_id, at)?;
            self.history.connect_failures.push(ConnectFailure { at, code, message });
        }
        Ok(())
    }

    /// A moment of a run's monotonic clock on the ledger's timeline; also keeps the run's last sign of life.
    fn moment(&mut self, run_id: &str, monotonic: i64) -> Result<Moment, LedgerError> {
        let Some((index, started)) = self.starts.get(run_id).copied() else {
            return Err(self.foreign("run_id", run_id.to_owned()));
        };
        let moment = Moment::from_nanoseconds(started.saturating_add(monotonic));
        if let Some(activity) = self.history.activities.get_mut(index) {
            activity.last_seen = activity.last_seen.max(moment);
        }
        Ok(moment)
    }
}
