//! What can go wrong with a stack. Messages carry the end of the log concerned, so that a failed test explains itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bloodraven_lab::LabError;
use bloodraven_ledger::LedgerError;

use crate::program::Program;

/// Why a stack could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The servers.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A server could not be asked or told what the ledger needs.
    #[error("preparing or judging the ledger on {site}")]
    LedgerServer {
        /// The site.
        site: String,
        /// What the server said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A program is not there.
    #[error("{} is not built; `cargo build --workspace --bins` builds it", path.display())]
    NotBuilt {
        /// Where it should be.
        path: PathBuf,
    },
    /// The checkout was not found.
    #[error("no checkout of Bloodraven around {}", from.display())]
    NoCheckout {
        /// Where the search began.
        from: PathBuf,
    },
    /// A file or process could not be used.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A program ended by itself.
    #[error("{program} ended with {status}; the end of its log:\n{tail}")]
    Ended {
        /// The program.
        program: Program,
        /// How it ended.
        status: String,
        /// The end of its log.
        tail: String,
    },
    /// A program does not run, or runs already.
    #[error("{program} {state}")]
    State {
        /// The program.
        program: Program,
        /// What it does instead.
        state: &'static str,
    },
    /// Something did not come about in time.
    #[error("{what} did not come about within {waited:.1?}; last seen: {last}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// What was seen last.
        last: String,
    },
    /// The API server.
    #[error("{doing}")]
    Kube {
        /// What was tried.
        doing: String,
        /// What the client said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The group cannot be read.
    #[error("reading the group")]
    Group(#[from] bloodraven_crd::ReadError),
    /// The bus.
    #[error("using the bus")]
    Bus(#[from] bloodraven_bus::Error),
    /// A command line failed.
    #[error("`{command}` ended with {status}: {output}")]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        output: String,
    },
    /// Programs logged errors that nobody expected.
    #[error("programs logged errors:\n{0}")]
    Logged(String),
}

impl StackError {
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn kube(doing: impl Into<String>, source: kube::Error) -> Self {
        Self::Kube {
            doing: doing.into(),
            source: Box::new(source),
        }
    }
}
