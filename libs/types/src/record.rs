//! The run record: `status.plannedFailover`, field by field as the reference's example shows it (PF-OBS-06).
//!
//! The record is the run. Everything that a restarted process needs is in here or in the annotations beside it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Revision, RunId, ServerUuid, SiteName};
use crate::time::{Span, Timestamp};
use crate::words::{DeferReason, OnSyncTimeout, Outcome, Phase, Reason, StepState, WaitReason, Warning};

/// One planned failover, as it is kept in the status of its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedFailover {
    /// The run's id.
    #[serde(rename = "runID")]
    pub run_id: RunId,
    /// How many durable writes the run has made.
    pub revision: Revision,
    /// Where the run stands.
    pub phase: Phase,
    /// The site to promote.
    pub target_site: SiteName,
    /// The site to take the role from; known from the claim on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_site: Option<SiteName>,
    /// The values that bind this run, taken when the request was accepted (PF-SET-02).
    pub settings: Settings,
    /// When the request was given its id.
    pub start_time: Timestamp,
    /// When the claim was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_time: Option<Timestamp>,
    /// The failover record at the time of the claim; another one later means that authority moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_baseline: Option<ClaimBaseline>,
    /// The wait before the claim.
    #[serde(default)]
    pub admission: Admission,
    /// The fence on the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// The end of the source's application sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// The target's catching up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_wait: Option<LagWait>,
    /// The cache's part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dragonfly: Option<DragonflyRun>,
    /// The target's promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<Promotion>,
    /// The publication in DNS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsPublication>,
    /// The way back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// How the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The values that bind a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// How long the target may take to apply the fenced set, 1s to 1h.
    pub max_lag_wait: Span,
    /// How long ending the source's application sessions may take, 1s to 10m.
    pub drain_timeout: Span,
    /// The cache's settings; absent when the group had no cache at acceptance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dragonfly: Option<DragonflySettings>,
}

/// The cache's settings of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DragonflySettings {
    /// How long the target cache may take to reach the source's offset, 1s to 10m.
    pub max_sync_wait: Span,
    /// What to do when it does not.
    pub on_sync_timeout: OnSyncTimeout,
}

/// The failover record that stood when the claim was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimBaseline {
    /// When that failover was confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// The site it promoted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<SiteName>,
}

/// The wait before the claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Admission {
    /// When an ungranted request ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_time: Option<Timestamp>,
    /// When validation first accepted the request; the annotation is removed from then on (PF-REQ-10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_time: Option<Timestamp>,
    /// Why the claim is not granted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<WaitReason>,
    /// What exactly is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_detail: Option<String>,
    /// Why the request is deferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defer_reason: Option<DeferReason>,
    /// When a deferred request is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_time: Option<Timestamp>,
}

/// The fence on the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fence {
    /// `Intended` before anything is sent, `Applied` once it is proven.
    pub state: StepState,
    /// When the intent was made; the fence's deadline counts from here.
    pub intent_time: Timestamp,
    /// The server that is fenced.
    #[serde(rename = "sourceServerUUID")]
    pub source_server_uuid: ServerUuid,
    /// When the fence was proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_time: Option<Timestamp>,
    /// The fenced set: what the source had executed when it was proven read-only. Kept as the server wrote it, so that
    /// a set that cannot be parsed is seen as such (`InvalidGTID`). An empty set is valid (PF-FEN-04).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtid_set: Option<String>,
    /// Warnings of the probes around the fence; the promotion's record takes them over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// The end of the source's application sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// When it began; its timeout counts from here.
    pub start_time: Timestamp,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Timestamp>,
    /// How many sessions were left; absent when that could not be read (PF-DRN-02).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_connections: Option<u32>,
}

/// The target's catching up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LagWait {
    /// When it began; its timeout counts from here.
    pub start_time: Timestamp,
    /// When the target held the fenced set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up_time: Option<Timestamp>,
}

/// The cache's part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DragonflyRun {
    /// When the wait for the offset began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_wait_start_time: Option<Timestamp>,
    /// Whether the source's offset could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_offset_state: Option<OffsetState>,
    /// The source's offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_offset: Option<u64>,
    /// Whole seconds spent waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_wait_seconds: Option<u64>,
    /// The takeover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeover: Option<Takeover>,
    /// What became of the sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
    /// Why they were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Whether the source cache's offset could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OffsetState {
    /// It was read.
    Captured,
    /// It could not be read (PF-DFY-02).
    Unavailable,
}

/// What became of the cache's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Sessions {
    /// The target cache took over with everything.
    Preserved,
    /// It did not.
    Lost,
}

/// The cache's takeover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Takeover {
    /// `Intended`, then `Succeeded` or `Failed`.
    pub state: StepState,
    /// When the intent was made; the phase's deadline counts from here.
    pub intent_time: Timestamp,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Timestamp>,
    /// The command that the engine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<TakeoverMethod>,
    /// The target's offset when the takeover was confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_offset: Option<u64>,
}

/// How a cache takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TakeoverMethod {
    /// Dragonfly's `REPLTAKEOVER`.
    ReplTakeover,
    /// Valkey's coordinated `FAILOVER TO`.
    Failover,
}

/// The target's promotion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Promotion {
    /// `Intended` before anything is sent, `Confirmed` once live reads prove it.
    pub state: StepState,
    /// When the intent was made.
    pub intent_time: Timestamp,
    /// The server that is promoted.
    #[serde(rename = "targetServerUUID")]
    pub target_server_uuid: ServerUuid,
    /// When it was confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation_time: Option<Timestamp>,
    /// The run's warnings, kept here so that whoever writes the terminal record has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// The publication in DNS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DnsPublication {
    /// `Applied` or `Failed`.
    pub state: StepState,
    /// When it was tried.
    pub attempt_time: Timestamp,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// The way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    /// Why the run goes back.
    pub reason: Reason,
    /// When it was decided; the rollback's deadline counts from here.
    pub intent_time: Timestamp,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// What was found on the target and done there; absent until the promoter has been there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<RollbackTarget>,
}

/// The target after a rollback has been there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollbackTarget {
    /// Whether it reads `super_read_only=ON`.
    pub super_read_only: bool,
    /// Whether its channel runs.
    pub replicating: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// What the group was left in.
    pub outcome: Outcome,
    /// Why; absent for `Succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When.
    pub completion_time: Timestamp,
    /// What qualifies it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}
