//! What the clients were told, as plain values: the input of the judgement.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::Moment;

/// A server's `@@server_uuid`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerUuid(Arc<str>);

/// The key that one write, and no other, carries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteKey(Arc<str>);

/// A writer of one run, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct WriterNumber(pub u32);

/// One connection of one writer; never used twice within a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SessionNumber(pub u64);

/// A write the server acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// Who wrote.
    pub writer: WriterNumber,
    /// Over which connection.
    pub session: SessionNumber,
    /// The server at the other end.
    pub server: ServerUuid,
    /// The write's key.
    pub key: WriteKey,
    /// The id the server assigned.
    pub id: u64,
    /// When the statement was sent.
    pub sent: Moment,
    /// When the answer arrived.
    pub acked: Moment,
}

/// Why a write is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnconfirmedKind {
    /// The server said that the row was not committed.
    Refused,
    /// Nobody said what became of it.
    Unknown,
}

/// A write the server did not acknowledge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unconfirmed {
    /// Refused or unknown.
    pub kind: UnconfirmedKind,
    /// Who wrote.
    pub writer: WriterNumber,
    /// The server at the other end.
    pub server: ServerUuid,
    /// The write's key.
    pub key: WriteKey,
    /// When the statement was sent.
    pub sent: Moment,
    /// When it was given up or refused.
    pub ended: Moment,
    /// The server's error number, or a word for what the client saw.
    pub code: String,
    /// The error's text.
    pub message: String,
}

/// A connection that did not come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectFailure {
    /// When it failed.
    pub at: Moment,
    /// The server's error number, or a word for what the client saw.
    pub code: String,
    /// The error's text.
    pub message: String,
}

/// A time in which writers were at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The run's id, with which each of its keys begins.
    pub run_id: String,
    /// When the run started.
    pub started: Moment,
    /// When it was stopped; none when the ledger was killed.
    pub stopped: Option<Moment>,
    /// The run's tick.
    pub tick: Duration,
    /// The last moment anything was recorded.
    pub last_seen: Moment,
}

/// All that a store remembers.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The runs.
    pub activities: Vec<Activity>,
    /// A readable name of each server, `host:port`.
    pub servers: BTreeMap<ServerUuid, String>,
    /// The promises, in any order.
    pub acknowledged: Vec<Acknowledged>,
    /// The writes nobody was promised.
    pub unconfirmed: Vec<Unconfirmed>,
    /// The connections that did not come about.
    pub connect_failures: Vec<ConnectFailure>,
}

impl Activity {
    /// When the run ended, as far as is known.
    #[must_use]
    pub fn ended(&self) -> Moment {
        self.stopped.unwrap_or(self.last_seen).max(self.started)
    }
}

macro_rules! text_newtype {
    ($name:ident) => {
        impl $name {
            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

text_newtype!(ServerUuid);
text_newtype!(WriteKey);
