//! The statements that a session can send, and how one can go wrong.

use std::time::Duration;

use bloodraven_ports::{
    ApplicationSession, AuthorityTaken, BlockingSession, DatabaseError, ReplicationSource, ServerObservation,
};
use bloodraven_types::{ServerUuid, SiteName};

/// A kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the call of the same name of the port")]
pub enum Kind {
    Open,
    Observe,
    Executed,
    TakeAuthority,
    ReleaseAuthority,
    SetSuperReadOnly,
    OpenForWrites,
    ApplicationSessions,
    Kill,
    FenceBlockers,
    WaitForExecuted,
    StopReplica,
    ResetReplicaAll,
    ChangeSource,
    StartReplica,
}

/// A statement as it is sent.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Observe,
    Executed,
    TakeAuthority,
    ReleaseAuthority,
    SetSuperReadOnly,
    OpenForWrites,
    ApplicationSessions,
    Kill(u64),
    FenceBlockers(Duration),
    /// The set is parsed by the server; a wait is a row of looks.
    WaitForExecuted,
    StopReplica,
    ResetReplicaAll,
    ChangeSource(ReplicationSource),
    StartReplica,
}

/// What a server answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Done,
    Observation(Box<ServerObservation>),
    Executed(ServerUuid, String),
    Taken(AuthorityTaken),
    Applications(Vec<ApplicationSession>),
    Blockers(Vec<BlockingSession>),
}

/// Whether the effect of a statement whose answer is lost comes to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It never does.
    Never,
    /// It does, before the caller gives up.
    Before,
    /// It does, that long after the caller has given up, unless the session is killed first.
    Later(Duration),
}

/// What goes wrong with a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server refuses it with this error number.
    Refuse(u16),
    /// It takes that much longer to reach the server.
    Slow(Duration),
    /// It times out, and its session is killed and seen gone.
    Killed {
        /// Whether it had its effect before.
        applied: bool,
    },
    /// It times out, and nobody knows whether its session is gone.
    Unsettled(Applied),
    /// The connection breaks and nothing arrives.
    Unreachable,
}

/// A fault that waits for its statement.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) site: SiteName,
    pub(crate) kind: Option<Kind>,
    pub(crate) skip: u32,
    pub(crate) times: u32,
    pub(crate) fault: Fault,
}

impl Kind {
    /// Whether it changes a role or what a role rests on: the statements that need the claim.
    pub const fn changes_role(self) -> bool {
        match self {
            Self::SetSuperReadOnly
            | Self::OpenForWrites
            | Self::StopReplica
            | Self::ResetReplicaAll
            | Self::ChangeSource
            | Self::StartReplica => true,
            Self::Open
            | Self::Observe
            | Self::Executed
            | Self::TakeAuthority
            | Self::ReleaseAuthority
            | Self::ApplicationSessions
            | Self::Kill
            | Self::FenceBlockers
            | Self::WaitForExecuted => false,
        }
    }

    /// Whether it changes anything at all, so that its loss is an open question.
    pub const fn changes(self) -> bool {
        self.changes_role() || matches!(self, Self::Kill)
    }

    /// The statement for messages.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Open => "(connect)",
            Self::Observe => "SELECT everything",
            Self::Executed => "SELECT @@server_uuid, @@GLOBAL.gtid_executed",
            Self::TakeAuthority => "SELECT GET_LOCK('bloodraven.authority')",
            Self::ReleaseAuthority => "DO RELEASE_LOCK('bloodraven.authority')",
            Self::SetSuperReadOnly => "SET GLOBAL super_read_only = ON",
            Self::OpenForWrites => "SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF",
            Self::ApplicationSessions => "SELECT application sessions",
            Self::Kill => "KILL CONNECTION",
            Self::FenceBlockers => "SELECT what a fence would wait for",
            Self::WaitForExecuted => "SELECT WAIT_FOR_EXECUTED_GTID_SET",
            Self::StopReplica => "STOP REPLICA",
            Self::ResetReplicaAll => "RESET REPLICA ALL",
            Self::ChangeSource => "CHANGE REPLICATION SOURCE TO",
            Self::StartReplica => "START REPLICA",
        }
    }
}

impl Statement {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Observe => Kind::Observe,
            Self::Executed => Kind::Executed,
            Self::TakeAuthority => Kind::TakeAuthority,
            Self::ReleaseAuthority => Kind::ReleaseAuthority,
            Self::SetSuperReadOnly => Kind::SetSuperReadOnly,
            Self::OpenForWrites => Kind::OpenForWrites,
            Self::ApplicationSessions => Kind::ApplicationSessions,
            Self::Kill(_) => Kind::Kill,
            Self::FenceBlockers(_) => Kind::FenceBlockers,
            Self::WaitForExecuted => Kind::WaitForExecuted,
            Self::StopReplica => Kind::StopReplica,
            Self::ResetReplicaAll => Kind::ResetReplicaAll,
            Self::ChangeSource(_) => Kind::ChangeSource,
            Self::StartReplica => Kind::StartReplica,
        }
    }
}

impl Rule {
    /// The fault, when the statement is one of those that it waits for.
    pub(crate) fn strike(&mut self, site: &SiteName, kind: Kind) -> Option<Fault> {
        if self.site != *site || self.kind.is_some_and(|waited| waited != kind) || self.times == 0 {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times -= 1;
        Some(self.fault.clone())
    }
}

pub(crate) fn refused(site: &SiteName, kind: Kind, code: u16, detail: &str) -> DatabaseError {
    DatabaseError::Refused {
        site: site.clone(),
        statement: kind.text().to_owned(),
        code,
        detail: detail.to_owned(),
    }
}

/// No answer, in the port's words: a look that failed is unreachable, a change is an open question.
pub(crate) fn no_answer(site: &SiteName, kind: Kind, detail: &str) -> DatabaseError {
    let site = site.clone();
    let detail = detail.to_owned();
    if kind.changes() {
        DatabaseError::Unsettled {
            site,
            statement: kind.text().to_owned(),
            detail,
        }
    } else {
        DatabaseError::Unreachable { site, detail }
    }
}
