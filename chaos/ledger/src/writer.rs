//! One writer: one connection, held as an application holds it, one write per tick, one record per write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Statement};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::clock::{Stamp, Timeline};
use crate::store::{AttemptRecord, Outcome, Record, SessionRecord};
use crate::{SessionNumber, UnconfirmedKind, WriterNumber, classify};

/// The first pause between two failed attempts; the reconnect right after a success waits for nothing.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
/// The longest pause between two failed attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What all writers of a run have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) run_id: String,
    pub(crate) timeline: Timeline,
    pub(crate) insert: String,
    pub(crate) endpoints: Vec<Target>,
    pub(crate) tick: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) sessions: AtomicU64,
    pub(crate) acknowledged: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

/// One way in.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) options: Opts,
}

/// A writer before and while it runs.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) number: WriterNumber,
    pub(crate) shared: Arc<Shared>,
    pub(crate) records: Sender<Record>,
    pub(crate) stop: CancellationToken,
    pub(crate) restart: Arc<Notify>,
    /// How long this writer waits before its first write, so that the writers' ticks interleave.
    pub(crate) phase: Duration,
    /// The number of the next write's key.
    pub(crate) sequence: u64,
    /// How often the next endpoint was gone over to.
    pub(crate) turn: usize,
    /// How many attempts have failed since the last acknowledged write.
    pub(crate) failures: u32,
}

/// A connection that is ready to write.
struct Session {
    number: SessionNumber,
    conn: Conn,
    insert: Statement,
    server_uuid: String,
}

/// Why a connection is no longer held.
enum End {
    Stopped,
    Restarted,
    Failed,
}

/// The store's thread has ended, so there is no use in going on.
struct StoreGone;

impl Writer {
    /// Writes until it is stopped or the store is gone.
    pub(crate) async fn run(mut self) {
        if self.sleep(self.phase).await && self.write_until_stopped().await.is_err() {
            tracing::error!(
                writer = self.number.0,
                "a writer has stopped, its records are taken by nobody"
            );
        }
    }

    async fn write_until_stopped(&mut self) -> Result<(), StoreGone> {
        loop {
            let end = match self.open().await? {
                Some(session) => self.hold(session).await?,
                None if self.stop.is_cancelled() => End::Stopped,
                None => End::Failed,
            };
            match end {
                End::Stopped => return Ok(()),
                End::Restarted => self.turn = 0,
                End::Failed => {
                    self.turn = self.turn.wrapping_add(1);
                    let pause = pause_after(self.failures);
                    self.failures = self.failures.saturating_add(1);
                    if !self.sleep(pause).await {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Connects, asks the server who it is and prepares the statement. None when that failed or the run is stopped.
    async fn open(&self) -> Result<Option<Session>, StoreGone> {
        let Some(target) = self
            .shared
            .endpoints
            .get(self.turn.checked_rem(self.shared.endpoints.len()).unwrap_or(0))
        else {
            return Ok(None);
        };
        let opened = tokio::select! {
            () = self.stop.cancelled() => return Ok(None),
            opened = timeout(self.shared.connect_timeout, greet(target, &self.shared.insert)) => opened,
        };
        let at = self.shared.timeline.stamp();
        let (code, message) = match opened {
            Ok(Ok((conn, insert, (server_uuid, server_host, server_port)))) => {
                let number = SessionNumber(self.shared.sessions.fetch_add(1, Ordering::Relaxed));
                tracing::debug!(
                    writer = self.number.0,
                    endpoint = target.name,
                    server_uuid,
                    "a writer is connected"
                );
                self.record(Record::Session(SessionRecord {
                    session: number,
                    writer: self.number,
                    endpoint: target.name.clone(),
                    server_uuid: server_uuid.clone(),
                    server_host,
                    server_port,
                    opened: at,
                }))?;
                return Ok(Some(Session {
                    number,
                    conn,
                    insert,
                    server_uuid,
                }));
            }
            Ok(Err(error)) => (classify::code(&error), error.to_string()),
            Err(elapsed) => (classify::CONNECT_TIMEOUT.to_owned(), elapsed.to_string()),
        };
        tracing::debug!(
            writer = self.number.0,
            endpoint = target.name,
            code,
            message,
            "a writer could not connect"
        );
        let endpoint = target.name.clone();
        self.record(Record::ConnectFailure {
            writer: self.number,
            endpoint,
            at,
            code,
            message,
        })?;
        Ok(None)
    }

    /// Writes once per tick over one connection, for as long as the server acknowledges.
    async fn hold(&mut self, mut session: Session) -> Result<End, StoreGone> {
        // The first tick is at once: after a reconnect the outage ends with the first write the new primary takes.
        let mut ticks = interval(self.shared.tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    if let Err(error) = session.conn.disconnect().await {
                        tracing::debug!(writer = self.number.0, %error, "the connection did not close cleanly");
                    }
                    return Ok(End::Stopped);
                }
                () = self.restart.notified() => return Ok(End::Restarted),
                _ = ticks.tick() => {}
            }
            if !self.write(&mut session).await? {
                return Ok(End::Failed);
            }
        }
    }

    /// One write with a key of its own; false when the connection is not to be used again.
    async fn write(&mut self, session: &mut Session) -> Result<bool, StoreGone> {
        let key = format!("{}-{}-{}", self.shared.run_id, self.number.0, self.sequence);
        self.sequence = self.sequence.wrapping_add(1);
        let sent = self.shared.timeline.stamp();
        let row = (
            self.number.0,
            key.as_str(),
            session.server_uuid.as_str(),
            sent.wall / 1_000,
        );
        let answer = timeout(
            self.shared.statement_timeout,
            session.conn.exec_drop(&session.insert, row),
        )
        .await;
        let ended = self.shared.timeline.stamp();
        let outcome = match answer {
            Ok(Ok(())) => session.conn.last_insert_id().map_or_else(
                || {
                    unknown(
                        classify::NO_ID,
                        "the server acknowledged an INSERT without an id".to_owned(),
                    )
                },
                |id| Outcome::Acknowledged { id },
            ),
            Ok(Err(error)) => Outcome::Unconfirmed {
                kind: classify::outcome(&error),
                code: classify::code(&error),
                message: error.to_string(),
            },
            Err(elapsed) => unknown(classify::STATEMENT_TIMEOUT, elapsed.to_string()),
        };
        self.remember(session.number, key, (sent, ended), outcome)
    }

    fn remember(
        &mut self,
        session: SessionNumber,
        key: String,
        (sent, ended): (Stamp, Stamp),
        outcome: Outcome,
    ) -> Result<bool, StoreGone> {
        let acknowledged = match &outcome {
            Outcome::Acknowledged { .. } => {
                self.failures = 0;
                self.shared.acknowledged.fetch_add(1, Ordering::Relaxed);
                true
            }
            Outcome::Unconfirmed { kind, code, message } => {
                tracing::debug!(
                    writer = self.number.0,
                    ?kind,
                    code,
                    message,
                    "a write was not acknowledged"
                );
                let counter = match kind {
                    UnconfirmedKind::Refused => &self.shared.refused,
                    UnconfirmedKind::Unknown => &self.shared.unknown,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                false
            }
        };
        let writer = self.number;
        self.record(Record::Attempt(AttemptRecord {
            session,
            writer,
            key,
            sent,
            ended,
            outcome,
        }))?;
        Ok(acknowledged)
    }

    fn record(&self, record: Record) -> Result<(), StoreGone> {
        self.records.send(record).map_err(|_| StoreGone)
    }

    /// Waits; false when the run was stopped meanwhile.
    async fn sleep(&self, pause: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(pause) => true,
        }
    }
}

/// A connection, the prepared INSERT, and `@@server_uuid`, `@@hostname` and `@@port` of the server at its other end.
async fn greet(target: &Target, insert: &str) -> Result<(Conn, Statement, (String, String, u16)), mysql_async::Error> {
    let mut conn = Conn::new(target.options.clone()).await?;
    let identity = conn
        .query_first("SELECT @@server_uuid, @@hostname, @@port")
        .await?
        .ok_or_else(|| mysql_async::Error::Other("the server does not say who it is".into()))?;
    let insert = conn.prep(insert).await?;
    Ok((conn, insert, identity))
}

fn unknown(code: &str, message: String) -> Outcome {
    Outcome::Unconfirmed {
        kind: UnconfirmedKind::Unknown,
        code: code.to_owned(),
        message,
    }
}

/// The pause before the next connection after `failures` failed attempts in a row: none, 2 ms, 4 ms, … 50 ms.
fn pause_after(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => SHORTEST_PAUSE
            .saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX))
            .min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first reconnect is made at once, and no pause is longer than 50 ms however long the outage.
    #[test]
    fn the_back_off_is_short_and_bounded() {
        let pauses: Vec<u128> = (0..8).map(|failures| pause_after(failures).as_millis()).collect();
        assert_eq!(pauses, [0, 2, 4, 8, 16, 32, 50, 50]);
        assert_eq!(pause_after(31), LONGEST_PAUSE);
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
    }
}
