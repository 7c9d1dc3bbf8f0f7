//! What can go wrong in the ledger itself; the errors its writers meet are records, not these.

use std::io;

/// An error of the ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// An option has no meaning.
    #[error("option {option} is {value:?}: {expected}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The store refused a statement.
    #[error("the store {path} failed: {source}")]
    Store {
        /// The store's file.
        path: String,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The store was made by another version.
    #[error("the store {path} has format {found}, this ledger reads format {expected}")]
    StoreFormat {
        /// The store's file.
        path: String,
        /// The file's format.
        found: i64,
        /// The format of this version.
        expected: i64,
    },
    /// The store holds something no ledger writes.
    #[error("the store {path} holds {field} = {value:?}, which no ledger writes")]
    StoreContent {
        /// The store's file.
        path: String,
        /// The column.
        field: &'static str,
        /// What stands there.
        value: String,
    },
    /// The store's thread could not be started.
    #[error("the recording thread did not start: {source}")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
    /// The store's thread or a writer panicked.
    #[error("{task} ended with a panic")]
    Panicked {
        /// Which one.
        task: &'static str,
    },
    /// `start` was called outside a runtime.
    #[error("the ledger has to be started within a tokio runtime: {source}")]
    NoRuntime {
        /// What tokio said.
        source: tokio::runtime::TryCurrentError,
    },
    /// A server did not answer a statement of the ledger's own (preparation, reading a survivor).
    #[error("{server} failed on {action}: {source}")]
    Server {
        /// The server's name or endpoint.
        server: String,
        /// What was asked of it.
        action: &'static str,
        /// What the client library said.
        source: mysql_async::Error,
    },
    /// A server took too long for a statement of the ledger's own.
    #[error("{server} did not finish {action} within {seconds} s")]
    Deadline {
        /// The server's name or endpoint.
        server: String,
        /// What was asked of it.
        action: &'static str,
        /// The time it had.
        seconds: u64,
    },
    /// A report needs at least one survivor and one run.
    #[error("no report: {missing}")]
    NothingToJudge {
        /// What is missing.
        missing: &'static str,
    },
}
