//! Commands: what the record asks a binary to do. They are derived from the record, never stored beside it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{ServerUuid, SiteName};
use crate::time::Timestamp;

/// Everything that a record can ask for.
///
/// A command is refused when its run is not live, its revision is not the record's, or its deadline has passed;
/// refused means that not one statement is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", content = "data", rename_all = "kebab-case")]
pub enum Command {
    /// Probe every site and say whether the claim can be granted (topology-manager).
    ProbeGrant(ProbeGrant),
    /// Fence the source (fencer).
    Fence(FenceSource),
    /// End the source's application sessions (fencer).
    Drain(DrainSource),
    /// Wait until the target holds the fenced set (lag-watcher).
    AwaitCatchUp(AwaitCatchUp),
    /// Read the source cache's offset and wait until the target cache has it (dragonfly-promoter).
    SyncCache(SyncCache),
    /// Promote the target cache (dragonfly-promoter).
    TakeOverCache(TakeOverCache),
    /// Promote the target (promoter).
    Promote(PromoteTarget),
    /// Bring the target back to a running replica after a promotion that was not carried out (promoter).
    RestoreTarget(RestoreTarget),
    /// Make the source writable again (fencer).
    Unfence(UnfenceSource),
    /// Publish the authority of the record (publisher).
    Publish(PublishAuthority),
}

/// See [`Command::ProbeGrant`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeGrant {
    /// The site to promote.
    pub target: SiteName,
    /// When the request ends.
    pub deadline: Timestamp,
}

/// See [`Command::Fence`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FenceSource {
    /// The site to fence.
    pub source: SiteName,
    /// The only server that may be fenced there.
    pub source_server_uuid: ServerUuid,
    /// The site to promote afterwards.
    pub target: SiteName,
    /// When the fence must be proven (PF-FEN-03).
    pub deadline: Timestamp,
}

/// See [`Command::Drain`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainSource {
    /// The fenced site.
    pub source: SiteName,
    /// The fenced server.
    pub source_server_uuid: ServerUuid,
    /// When the drain ends whatever is left (PF-DRN-01).
    pub deadline: Timestamp,
}

/// See [`Command::AwaitCatchUp`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwaitCatchUp {
    /// The fenced site, watched meanwhile.
    pub source: SiteName,
    /// The fenced server.
    pub source_server_uuid: ServerUuid,
    /// The site to promote.
    pub target: SiteName,
    /// The fenced set.
    pub gtid_set: String,
    /// When the wait ends with `LagTimeout` (PF-LAG-01).
    pub deadline: Timestamp,
}

/// See [`Command::SyncCache`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncCache {
    /// The site whose cache leads.
    pub source: SiteName,
    /// The site whose cache is to lead.
    pub target: SiteName,
    /// The captured offset, once it is on the record.
    pub source_offset: Option<u64>,
    /// When the wait ends with `DragonflySyncTimeout`.
    pub deadline: Timestamp,
}

/// See [`Command::TakeOverCache`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakeOverCache {
    /// The site whose cache leads.
    pub source: SiteName,
    /// The site whose cache is to lead.
    pub target: SiteName,
    /// The takeover's own timeout in whole seconds, rounded up (PF-DFY-03).
    pub timeout_seconds: u64,
    /// Past this no takeover is started (PF-DFY-07).
    pub deadline: Timestamp,
}

/// See [`Command::Promote`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromoteTarget {
    /// The fenced site.
    pub source: SiteName,
    /// The fenced server.
    pub source_server_uuid: ServerUuid,
    /// The site to promote.
    pub target: SiteName,
    /// The only server that may be promoted there.
    pub target_server_uuid: ServerUuid,
    /// The fenced set: the target must hold exactly this (PF-PRO-02).
    pub gtid_set: String,
    /// When the promotion ends if statements keep failing (PF-PRO-07).
    pub deadline: Timestamp,
}

/// See [`Command::RestoreTarget`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreTarget {
    /// The fenced site, which the target replicates from.
    pub source: SiteName,
    /// The fenced server.
    pub source_server_uuid: ServerUuid,
    /// The target.
    pub target: SiteName,
    /// The server that the promotion intent recorded.
    pub target_server_uuid: ServerUuid,
    /// The fenced set.
    pub gtid_set: String,
    /// When the rollback ends.
    pub deadline: Timestamp,
}

/// See [`Command::Unfence`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnfenceSource {
    /// The fenced site.
    pub source: SiteName,
    /// The fenced server: only its fence is the run's to clear (PF-RBK-06).
    pub source_server_uuid: ServerUuid,
    /// The target.
    pub target: SiteName,
    /// The server that the promotion intent recorded; absent when no promotion was intended, so that nothing was written there.
    pub target_server_uuid: Option<ServerUuid>,
    /// The fenced set, once there is one.
    pub gtid_set: Option<String>,
    /// Whether a fence found on that server is the run's to clear: not when authority moved before the run's fence was sent.
    pub attributable: bool,
    /// Whether to try until the deadline; a lost source is looked at once (PF-LOS-01).
    pub retry: bool,
    /// When the rollback ends.
    pub deadline: Timestamp,
}

/// See [`Command::Publish`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishAuthority {
    /// The promoted site.
    pub target: SiteName,
    /// The site that had the role.
    pub source: SiteName,
}

impl Command {
    /// The name on the wire, the last token of the subject.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ProbeGrant(_) => "probe-grant",
            Self::Fence(_) => "fence",
            Self::Drain(_) => "drain",
            Self::AwaitCatchUp(_) => "await-catch-up",
            Self::SyncCache(_) => "sync-cache",
            Self::TakeOverCache(_) => "take-over-cache",
            Self::Promote(_) => "promote",
            Self::RestoreTarget(_) => "restore-target",
            Self::Unfence(_) => "unfence",
            Self::Publish(_) => "publish",
        }
    }

    /// When the command is no longer to be carried out; absent for those that have no end (publishing).
    pub const fn deadline(&self) -> Option<Timestamp> {
        match self {
            Self::ProbeGrant(command) => Some(command.deadline),
            Self::Fence(command) => Some(command.deadline),
            Self::Drain(command) => Some(command.deadline),
            Self::AwaitCatchUp(command) => Some(command.deadline),
            Self::SyncCache(command) => Some(command.deadline),
            Self::TakeOverCache(command) => Some(command.deadline),
            Self::Promote(command) => Some(command.deadline),
            Self::RestoreTarget(command) => Some(command.deadline),
            Self::Unfence(command) => Some(command.deadline),
            Self::Publish(_) => None,
        }
    }
}
