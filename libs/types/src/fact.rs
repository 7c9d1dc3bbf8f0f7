//! Facts: what a binary has seen or done, told to the record keeper. A fact is a hint until the record takes it in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{ServerUuid, SiteName};
use crate::time::Timestamp;
use crate::words::{Reason, StepState, WaitReason};

/// Everything that can be told about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", content = "data", rename_all = "kebab-case")]
pub enum Fact {
    /// An annotation asks for a run.
    Requested(Requested),
    /// The annotation of a deferred request is gone.
    Cancelled(Cancelled),
    /// The claim's probes all passed.
    Granted(Granted),
    /// The claim cannot be granted yet.
    Waiting(Waiting),
    /// Waiting cannot cure it.
    Refused(Refused),
    /// The source is proven read-only.
    Fenced(Fenced),
    /// The fence could not be applied or proven.
    FenceFailed(StepFailed),
    /// No application session is left on the source, or the time for that is over.
    Drained(Drained),
    /// The source no longer carries the run's fence, or does not answer, while it is drained.
    DrainFailed(StepFailed),
    /// The target holds the fenced set and nothing else.
    CaughtUp(CaughtUp),
    /// The target is still applying; for people only.
    Lagging(Lagging),
    /// The catch-up cannot end well.
    CatchUpFailed(StepFailed),
    /// The source cache's offset was read.
    CacheOffset(CacheOffset),
    /// The target cache has the source's offset.
    CacheSynced(CacheSynced),
    /// The target cache took over.
    CacheTakenOver(CacheTakenOver),
    /// The cache could not be synced or promoted.
    CacheFailed(CacheFailed),
    /// The target is proven writable.
    Promoted(Promoted),
    /// The promotion was not carried out, or could not be proven.
    PromotionFailed(PromotionFailed),
    /// What a rollback found on the target and did there.
    TargetRestored(TargetRestored),
    /// The source is proven writable.
    Unfenced(Unfenced),
    /// The source was not unfenced.
    UnfenceFailed(UnfenceFailed),
    /// Labels and DNS follow the record.
    Published(Published),
}

/// An annotation asks for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requested {
    /// The annotation's value, exactly as it was read: only this value is ever removed (PF-REQ-08).
    pub value: String,
}

/// The annotation of a deferred request is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {}

/// The claim's probes all passed (PF-ADM-11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Granted {
    /// The unique writable site.
    pub source: SiteName,
    /// Its server.
    pub source_server_uuid: ServerUuid,
    /// The target's server.
    pub target_server_uuid: ServerUuid,
    /// Readers that did not answer.
    pub unreachable_readers: Vec<SiteName>,
}

/// The claim cannot be granted yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Why.
    pub reason: WaitReason,
    /// What exactly.
    pub detail: String,
}

/// Waiting cannot cure it (PF-ADM-15).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// What exactly.
    pub detail: String,
}

/// The source is proven read-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fenced {
    /// The server that was fenced, read on the same session.
    pub source_server_uuid: ServerUuid,
    /// What it had executed once it was read-only.
    pub gtid_set: String,
    /// When the fence was read back.
    pub apply_time: Timestamp,
    /// Readers that did not answer right after the fence.
    pub unreachable_peers: Vec<SiteName>,
}

/// A step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepFailed {
    /// Why.
    pub reason: Reason,
    /// What exactly.
    pub detail: String,
    /// Whether a statement that changes a role may have reached a server.
    pub sent: bool,
}

/// The drain is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drained {
    /// How many application sessions are left; absent when that could not be read.
    pub remaining_connections: Option<u32>,
    /// How many sessions were ended.
    pub killed: u32,
    /// What went wrong with the query, when something did.
    pub error: Option<String>,
}

/// The target holds the fenced set and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaughtUp {
    /// The target's server, read on the same session.
    pub target_server_uuid: ServerUuid,
    /// What the target has executed.
    pub gtid_executed: String,
}

/// The target is still applying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lagging {
    /// How many transactions of the fenced set are missing.
    pub missing_transactions: u64,
}

/// The source cache's offset was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheOffset {
    /// The offset; absent when it could not be read (PF-DFY-02).
    pub offset: Option<u64>,
}

/// The target cache has the source's offset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheSynced {
    /// The target's offset.
    pub target_offset: u64,
}

/// The target cache took over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheTakenOver {
    /// The target's offset at that time.
    pub target_offset: Option<u64>,
}

/// The cache could not be synced or promoted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheFailed {
    /// `DragonflySyncTimeout` or `DragonflyPromotionFailed`.
    pub reason: Reason,
    /// What exactly.
    pub detail: String,
}

/// The target is proven writable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Promoted {
    /// The promoted server, read on the same session.
    pub target_server_uuid: ServerUuid,
    /// When it was read back writable.
    pub confirmation_time: Timestamp,
    /// Peers that did not answer where that is allowed.
    pub unreachable_peers: Vec<SiteName>,
}

/// The promotion was not carried out, or could not be proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionFailed {
    /// Why.
    pub reason: Reason,
    /// What exactly.
    pub detail: String,
    /// How far the target may have been changed.
    pub reached: PromotionReach,
    /// Sites that answered writable or could not be read.
    pub ambiguous_sites: Vec<SiteName>,
}

/// How far a promotion may have got on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PromotionReach {
    /// Provably no `super_read_only=OFF` was sent.
    NothingWritten,
    /// `super_read_only=OFF` may have reached the target.
    MayBeWritable,
    /// The target is proven to accept writes.
    Writable,
}

/// What a rollback found on the target and did there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetRestored {
    /// Whether the target reads `super_read_only=ON`.
    pub super_read_only: bool,
    /// Whether its channel runs.
    pub replicating: bool,
    /// What went wrong, when something did.
    pub detail: String,
}

/// The source is proven writable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unfenced {
    /// The server that answered.
    pub source_server_uuid: ServerUuid,
    /// Whether it was writable already, so that nothing was sent.
    pub already_writable: bool,
    /// What was done about the target's replication on the way.
    pub target: TargetRestored,
}

/// The source was not unfenced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnfenceFailed {
    /// What the way back met.
    pub cause: UnfenceObstacle,
    /// What exactly.
    pub detail: String,
    /// Whether the target has a running channel.
    pub target_replicating: bool,
    /// Sites that answered writable or could not be read.
    pub ambiguous_sites: Vec<SiteName>,
}

/// What a rollback can meet (reference, "Rollback", 1 to 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnfenceObstacle {
    /// Whether the target was written to cannot be read; it may be.
    TargetUnreadable,
    /// The target holds transactions outside the fenced set.
    TargetHasOtherTransactions,
    /// The source is writable and so is the target, which the run may have written to.
    BothWritable,
    /// Another site is writable.
    ForeignWritable,
    /// The source did not answer for the loss window.
    SourceLost,
    /// The fence is not provably the run's.
    FenceNotAttributable,
    /// Statements kept failing.
    StatementsFailed,
}

/// Labels and DNS follow the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    /// `Applied` or `Failed`; absent when the group has no DNS record.
    pub dns: Option<StepState>,
    /// What went wrong with DNS.
    pub dns_error: Option<String>,
    /// What went wrong with the labels; the level-triggered publisher repairs it later.
    pub label_error: Option<String>,
    /// When it was done.
    pub attempt_time: Timestamp,
}

impl Fact {
    /// The name on the wire, the last token of the subject.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Requested(_) => "requested",
            Self::Cancelled(_) => "cancelled",
            Self::Granted(_) => "granted",
            Self::Waiting(_) => "waiting",
            Self::Refused(_) => "refused",
            Self::Fenced(_) => "fenced",
            Self::FenceFailed(_) => "fence-failed",
            Self::Drained(_) => "drained",
            Self::DrainFailed(_) => "drain-failed",
            Self::CaughtUp(_) => "caught-up",
            Self::Lagging(_) => "lagging",
            Self::CatchUpFailed(_) => "catch-up-failed",
            Self::CacheOffset(_) => "cache-offset",
            Self::CacheSynced(_) => "cache-synced",
            Self::CacheTakenOver(_) => "cache-taken-over",
            Self::CacheFailed(_) => "cache-failed",
            Self::Promoted(_) => "promoted",
            Self::PromotionFailed(_) => "promotion-failed",
            Self::TargetRestored(_) => "target-restored",
            Self::Unfenced(_) => "unfenced",
            Self::UnfenceFailed(_) => "unfence-failed",
            Self::Published(_) => "published",
        }
    }
}
