//! What a database server says of itself: the evidence that every decision rests on.

use crate::ids::ServerUuid;

/// What a server says of itself, read on one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerObservation {
    /// `@@server_uuid`.
    pub server_uuid: ServerUuid,
    /// `@@GLOBAL.read_only`.
    pub read_only: bool,
    /// `@@GLOBAL.super_read_only`: the only one that stops everybody (report B21).
    pub super_read_only: bool,
    /// `@@GLOBAL.offline_mode`.
    pub offline_mode: bool,
    /// `@@GLOBAL.gtid_executed`, as the server writes it.
    pub gtid_executed: String,
    /// Every replication channel, named or not.
    pub channels: Vec<Channel>,
}

/// One replication channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The channel's name; empty for the default one.
    pub name: String,
    /// The configured source.
    pub source_host: String,
    /// Its port.
    pub source_port: u16,
    /// The source's UUID as the IO thread saw it.
    pub source_uuid: Option<ServerUuid>,
    /// Whether the IO thread runs and is connected (`Yes`; `Connecting` is not running).
    pub io_running: bool,
    /// Whether the applier runs.
    pub sql_running: bool,
    /// The IO thread's last error.
    pub io_error: Option<String>,
    /// The applier's last error, with its number.
    pub sql_error: Option<String>,
    /// `SOURCE_DELAY`, in seconds.
    pub delay_seconds: u64,
    /// `Retrieved_Gtid_Set`.
    pub retrieved_gtid_set: String,
    /// The server's own estimate of the lag, in seconds; it says nothing when the IO thread is down.
    pub seconds_behind_source: Option<u64>,
}

impl ServerObservation {
    /// Whether the server refuses every write: `read_only` alone does not stop privileged accounts.
    pub const fn is_fenced(&self) -> bool {
        self.super_read_only
    }

    /// Whether somebody can write. A server at `read_only=ON, super_read_only=OFF` counts: privileged accounts can.
    pub const fn is_writable(&self) -> bool {
        !self.super_read_only
    }

    /// Whether applications can write.
    pub const fn serves_writes(&self) -> bool {
        !self.read_only && !self.super_read_only && !self.offline_mode
    }
}

impl Channel {
    /// Whether both threads run.
    pub const fn is_running(&self) -> bool {
        self.io_running && self.sql_running
    }
}
