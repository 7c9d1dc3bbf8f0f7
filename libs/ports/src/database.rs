//! A database server: one pinned session at a time, in the words of replication.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use bloodraven_types::group::SiteSpec;
use bloodraven_types::observation::ServerObservation;
use bloodraven_types::{ServerUuid, SiteName};

/// Where a site's server is reached. The identity of a server is its UUID, never its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerAddress {
    /// The site, for messages.
    pub site: SiteName,
    /// A name or an IP address.
    pub host: String,
    /// The administrative port where there is one, else the client port.
    pub port: u16,
}

/// A session that does an application's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationSession {
    /// The connection id.
    pub id: u64,
    /// The account's user.
    pub user: String,
    /// Where it comes from.
    pub host: String,
    /// How long it has been in its state, in seconds.
    pub seconds: u64,
}

/// Something that a fence would wait for (X-PRE-01, reports B16, B24).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingSession {
    /// The connection id.
    pub id: u64,
    /// The account's user.
    pub user: String,
    /// What it holds or does, for people.
    pub what: String,
    /// For how long, in seconds.
    pub seconds: u64,
}

/// The authority lock was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorityTaken {
    /// The session that held it before and was ended for it.
    pub ended: Option<u64>,
}

/// Whom to replicate from. Credentials are the adapter's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationSource {
    /// A name or an IP address.
    pub host: String,
    /// The client port.
    pub port: u16,
}

/// What went wrong with a server, and in particular what is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// No session could be had, or it broke while nothing that changes a role was under way.
    #[error("{site} does not answer: {detail}")]
    Unreachable {
        /// The site.
        site: SiteName,
        /// What the client said.
        detail: String,
    },
    /// The server answered with an error: the statement had no effect.
    #[error("{site} refused {statement:?} with {code}: {detail}")]
    Refused {
        /// The site.
        site: SiteName,
        /// The statement.
        statement: String,
        /// The server's error number.
        code: u16,
        /// What it said.
        detail: String,
    },
    /// The statement timed out, its session was killed and seen gone: it has no effect *later*, but may have had one before.
    #[error("{site} did not answer {statement:?} within {timeout:?}; the session was killed")]
    Killed {
        /// The site.
        site: SiteName,
        /// The statement.
        statement: String,
        /// How long it was given.
        timeout: Duration,
    },
    /// The statement may have had an effect or may still have one: the session is not provably gone.
    #[error("it is not known whether {site} carried out {statement:?}: {detail}")]
    Unsettled {
        /// The site.
        site: SiteName,
        /// The statement.
        statement: String,
        /// What the client said.
        detail: String,
    },
    /// The authority lock is held by a session that could not be ended.
    #[error("the authority lock on {site} is held by session {holder}")]
    AuthorityHeld {
        /// The site.
        site: SiteName,
        /// The holder's connection id.
        holder: u64,
    },
    /// The answer has another form than expected.
    #[error("{site} gave an answer to {statement:?} that cannot be read: {detail}")]
    Malformed {
        /// The site.
        site: SiteName,
        /// The statement.
        statement: String,
        /// What is wrong.
        detail: String,
    },
}

/// Opens sessions to servers.
pub trait Database: Clone + Send + Sync + 'static {
    /// A pinned session.
    type Session: DatabaseSession;

    /// Connects and authenticates, within the adapter's connect timeout.
    fn open(&self, address: &ServerAddress) -> impl Future<Output = Result<Self::Session, DatabaseError>> + Send;
}

/// One pinned session: every statement goes over the same connection, and there is no silent reconnect.
///
/// Each call is bounded by the adapter's statement timeout unless it takes its own. A statement that timed out is
/// killed by its connection id from another connection and seen gone from the processlist before the call returns
/// ([`DatabaseError::Killed`]); if that cannot be seen the call says so: [`DatabaseError::Unsettled`] for a statement that
/// changes something, [`DatabaseError::Unreachable`] for one that only looks or waits.
/// The same holds when its connection breaks in the middle, but that a look is then not settled at all.
/// After `Unreachable`, `Killed` or `Unsettled` the session is of no further use.
pub trait DatabaseSession: Send + 'static {
    /// Where it is connected to.
    fn address(&self) -> &ServerAddress;

    /// Everything a decision needs of a server, read now.
    fn observe(&mut self) -> impl Future<Output = Result<ServerObservation, DatabaseError>> + Send;

    /// `@@server_uuid` and `@@GLOBAL.gtid_executed` only: the cheapest look.
    fn executed(&mut self) -> impl Future<Output = Result<(ServerUuid, String), DatabaseError>> + Send;

    /// Whether the server answers at once on this session, which may have been idle for long. A server that hangs is found
    /// out sooner where the adapter gives this less time than a statement.
    fn ping(&mut self) -> impl Future<Output = Result<(), DatabaseError>> + Send {
        async { self.executed().await.map(drop) }
    }

    /// Takes `GET_LOCK('bloodraven.authority')` on this session. Another session that holds it is killed and seen gone
    /// first (X-AUTH-01). The lock lasts as long as the session.
    fn take_authority(&mut self) -> impl Future<Output = Result<AuthorityTaken, DatabaseError>> + Send;

    /// Gives the authority lock back.
    fn release_authority(&mut self) -> impl Future<Output = Result<(), DatabaseError>> + Send;

    /// `super_read_only=ON` under `lock_wait_timeout=1`. Not read back: that is the caller's `observe`.
    fn set_super_read_only(&mut self) -> impl Future<Output = Result<(), DatabaseError>> + Send;

    /// `super_read_only=OFF`, then `read_only=OFF`. Not read back.
    fn open_for_writes(&mut self) -> impl Future<Output = Result<(), DatabaseError>> + Send;

    /// Sessions that do an application's work: not replication, not the server's own threads, not the controllers'.
    fn application_sessions(&mut self) -> impl Future<Output = Result<Vec<ApplicationSession>, DatabaseError>> + Send;

    /// Ends a session; one that is gone already is no error.
    fn kill(&mut self, session: u64) -> impl Future<Output = Result<(), DatabaseError>> + Send;

    /// What a fence would wait for: statements that write and have run for at least `longer_than`, table and backup
    /// locks, commits that wait for an acknowledgement.
    fn fence_blockers(
        &mut self,
        longer_than: Duration,
    ) -> impl Future<Output = Result<Vec<BlockingSession>, DatabaseError>> + Send;

    /// Waits in the server until it has executed the set, at most `timeout`. Says whether it has.
    fn wait_for_executed(
        &mut self,
        gtid_set: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<bool, DatabaseError>> + Send;

    /// `STOP REPLICA` for all channels.
    fn stop_replica(&mut self) -> impl Future<Output = Result<(), DatabaseError>> + Send;

    /// `RESET REPLICA ALL` for all channels.
    fn reset_replica_all(&mut self) -> impl Future<Output = Result<(), DatabaseError>> + Send;

    /// `CHANGE REPLICATION SOURCE TO` the server, with GTID auto-positioning; metadata is not reset.
    fn change_source(&mut self, source: &ReplicationSource) -> impl Future<Output = Result<(), DatabaseError>> + Send;

    /// `START REPLICA`.
    fn start_replica(&mut self) -> impl Future<Output = Result<(), DatabaseError>> + Send;

    /// Closes the session in an orderly way.
    fn close(self) -> impl Future<Output = ()> + Send;
}

impl ServerAddress {
    /// How the controllers reach the site: through its administrative port when it has one.
    pub fn administrative(site: &SiteSpec) -> Self {
        Self {
            site: site.name.clone(),
            host: site.host.clone(),
            port: site.admin_port.unwrap_or(site.port),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without brackets the port would look like a part of an IPv6 address.
        if self.host.contains(':') && !self.host.starts_with('[') {
            write!(f, "{} ([{}]:{})", self.site, self.host, self.port)
        } else {
            write!(f, "{} ({}:{})", self.site, self.host, self.port)
        }
    }
}

impl DatabaseError {
    /// The site concerned.
    pub const fn site(&self) -> &SiteName {
        match self {
            Self::Unreachable { site, .. }
            | Self::Refused { site, .. }
            | Self::Killed { site, .. }
            | Self::Unsettled { site, .. }
            | Self::AuthorityHeld { site, .. }
            | Self::Malformed { site, .. } => site,
        }
    }

    /// Whether the server gave no answer at all, so that the error counts towards a loss window.
    pub const fn is_no_answer(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Killed { .. } | Self::Unsettled { .. } => true,
            Self::Refused { .. } | Self::AuthorityHeld { .. } | Self::Malformed { .. } => false,
        }
    }

    /// Whether the statement may have had an effect.
    pub const fn may_have_happened(&self) -> bool {
        match self {
            Self::Killed { .. } | Self::Unsettled { .. } => true,
            Self::Unreachable { .. } | Self::Refused { .. } | Self::AuthorityHeld { .. } | Self::Malformed { .. } => {
                false
            }
        }
    }
}
