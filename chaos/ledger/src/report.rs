//! The report: what the demo and the chaos suite read, as JSON and as a table.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::outage::{Outage, longest_between};
use crate::overlap::Overlap;
use crate::{LedgerError, Moment, ServerUuid, Survivor, WriteKey, WriterNumber, judge, load, read};

/// What became of what the clients were told. Times are in UTC; durations are milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The verdict: nothing gone, nothing stolen, no overlap, the survivors agree, and there was something to judge.
    pub clean: bool,
    /// Why the verdict is not clean; empty when it is.
    pub reasons: Vec<String>,
    /// Writes a server acknowledged.
    pub acknowledged: u64,
    /// Acknowledged writes that stand in the surviving history under their id.
    pub intact: u64,
    /// Acknowledged writes whose id is absent from the surviving history.
    pub gone: u64,
    /// Acknowledged writes whose id holds another key in the surviving history.
    pub stolen: u64,
    /// Writes nobody knows the outcome of, by what the surviving history says. No damage either way.
    pub unknown: Presence,
    /// Writes a server refused, by what the surviving history says. A refused write that is present is a fault of the
    /// server's answer, not of the failover: it is shown and does not touch the verdict.
    pub refused: Presence,
    /// Rows of these runs in the surviving history that the store knows nothing of: the ledger was killed in the instant
    /// between acknowledgement and record.
    pub unrecorded: u64,
    /// How long two servers took writes at once, in sum; see [`crate::overlap`]. A lower bound.
    pub overlap_ms: f64,
    /// When they did.
    pub overlaps: Vec<Overlap>,
    /// The longest time between two successive acknowledgements; see [`crate::outage`].
    pub write_outage_ms: f64,
    /// Each time without an acknowledgement that is longer than two ticks, the 1000 longest, in the order of time.
    pub outages: Vec<Outage>,
    /// What each server acknowledged, in the order of their first acknowledgements.
    pub per_server: Vec<ServerReport>,
    /// What each writer was told. Writers of several runs in one store are counted under their number.
    pub per_writer: Vec<WriterReport>,
    /// Maximal stretches of acknowledgements by the same server, the first 100.
    pub periods: Vec<Period>,
    /// How many such stretches there are.
    pub period_count: u64,
    /// Errors by code.
    pub errors: Vec<ErrorCount>,
    /// The first 20 writes that are gone.
    pub gone_samples: Vec<DamagedWrite>,
    /// The first 20 writes whose id was given to another write.
    pub stolen_samples: Vec<DamagedWrite>,
    /// The survivors; the first is the one the history was judged by.
    pub survivors: Vec<SurvivorReport>,
    /// Every gap between acknowledgements, for [`Report::outage_between`].
    #[serde(skip)]
    pub(crate) gaps: Vec<Outage>,
    /// Readable names of the servers, for the table.
    #[serde(skip)]
    pub(crate) names: BTreeMap<ServerUuid, String>,
}

/// Writes without a promise, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Presence {
    /// They stand in the surviving history.
    pub present: u64,
    /// They do not.
    pub absent: u64,
}

/// What one server acknowledged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerReport {
    /// `@@server_uuid`.
    pub server: ServerUuid,
    /// `@@hostname:@@port`.
    pub name: String,
    /// How many writes.
    pub writes: u64,
    /// When the first acknowledgement arrived.
    pub first_ack: Moment,
    /// When the last one did.
    pub last_ack: Moment,
    /// The smallest id it gave out.
    pub min_id: u64,
    /// The largest.
    pub max_id: u64,
    /// How many of its writes are intact.
    pub intact: u64,
    /// How many are gone.
    pub gone: u64,
    /// How many lost their id to another write.
    pub stolen: u64,
}

/// What one writer was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WriterReport {
    /// The writer.
    pub writer: WriterNumber,
    /// Its acknowledged writes.
    pub acknowledged: u64,
    /// How many of them are intact.
    pub intact: u64,
    /// How many are gone.
    pub gone: u64,
    /// How many lost their id to another write.
    pub stolen: u64,
}

/// A stretch of acknowledgements by the same server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Period {
    /// The server.
    pub server: ServerUuid,
    /// How many writes.
    pub writes: u64,
    /// When the first acknowledgement of the stretch arrived.
    pub first_ack: Moment,
    /// When the last one did.
    pub last_ack: Moment,
    /// The smallest id of the stretch.
    pub min_id: u64,
    /// The largest.
    pub max_id: u64,
    /// The time since the stretch before, in milliseconds.
    pub gap_before_ms: Option<f64>,
}

/// How often an error was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    /// The server's error number, or a word: `connection-lost`, `statement-timeout`, `connect-timeout`, …
    pub code: String,
    /// On connecting, or on a write.
    pub phase: &'static str,
    /// How often.
    pub count: u64,
    /// The text of the first.
    pub sample: String,
}

/// An acknowledged write that did not survive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedWrite {
    /// Who was promised it.
    pub writer: WriterNumber,
    /// The write's key.
    pub key: WriteKey,
    /// The id it was promised.
    pub id: u64,
    /// Who promised.
    pub server: ServerUuid,
    /// When it was sent.
    pub sent: Moment,
    /// When it was acknowledged.
    pub acked: Moment,
    /// The key that holds its id now.
    pub holder: Option<String>,
}

/// A survivor compared with the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SurvivorReport {
    /// Its name.
    pub name: String,
    /// How many rows it holds.
    pub rows: u64,
    /// Ids of the first survivor it lacks.
    pub missing: u64,
    /// Ids it has and the first survivor lacks.
    pub extra: u64,
    /// Ids that hold another key than on the first survivor.
    pub different: u64,
}

impl Report {
    /// The verdict (`SB-06`).
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.clean
    }

    /// The longest outage that shares an instant with the window, from the last acknowledgement before it to the first
    /// one after (`X-PERF-01`): attributes an outage to a switchover. None when nothing was under way in the window.
    #[must_use]
    pub fn outage_between(&self, from: Moment, to: Moment) -> Option<&Outage> {
        longest_between(&self.gaps, from, to)
    }
}

impl SurvivorReport {
    /// True when it holds the same rows as the first survivor.
    #[must_use]
    pub const fn agrees(&self) -> bool {
        self.missing == 0 && self.extra == 0 && self.different == 0
    }
}

/// Reads the store and every survivor, and judges. The first survivor is the one the history is judged by: the final
/// primary. Call it when the writers have stopped.
///
/// # Errors
/// [`LedgerError`] when the store or a survivor cannot be read, or there is nothing to judge.
pub async fn report(store: &Path, survivors: &[Survivor]) -> Result<Report, LedgerError> {
    let (history, table) = load(store)?;
    let tables = read(survivors, &table).await?;
    judge(history, &tables)
}
