//! A group as the machines see it: the spec, the status and the annotations of one read of one object.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, GroupKey, ObjectUid, ResourceVersion, RunId, ServerUuid, SiteName};
use crate::record::PlannedFailover;
use crate::time::{Span, Timestamp};
use crate::words::{ConvergenceReason, ConvergenceState, OnCooldown, OnSyncTimeout, Reason, SiteRole, SiteState};

/// One read of one `MysqlFailoverGroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Namespace and name.
    pub key: GroupKey,
    /// Which object of that name.
    pub uid: ObjectUid,
    /// The version that was read; a write is conditioned on it.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`.
    pub generation: i64,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// What is asked for.
    pub spec: GroupSpec,
    /// What is known and what is going on.
    pub status: GroupStatus,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// The sites.
    pub sites: Vec<SiteSpec>,
    /// The least time between a failover and the next planned one.
    pub failover_cooldown: Span,
    /// How often each site is probed.
    pub poll_interval: Span,
    /// How many failed probes in a row make a site unreachable.
    pub failure_threshold: u32,
    /// How many probes in a row make a site writable.
    pub recovery_threshold: u32,
    /// The defaults of planned failovers.
    pub planned_failover: PlannedFailoverSpec,
    /// The cache.
    pub dragonfly: Option<DragonflySpec>,
    /// The DNS record.
    pub dns: Option<DnsSpec>,
}

/// One site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SiteSpec {
    /// The site's name, used in labels.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: SiteName,
    /// What the site is for.
    pub role: SiteRole,
    /// The address of the MySQL server, a name or an IP address.
    #[schemars(length(min = 1, max = 253))]
    pub host: String,
    /// The client port.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The administrative port; the controllers use it when it is set, so that a server whose connections are exhausted still answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub admin_port: Option<u16>,
    /// The address that the DNS record names while the site is primary.
    #[serde(default, rename = "lbIP", skip_serializing_if = "Option::is_none")]
    pub lb_ip: Option<String>,
    /// Labels of the site's pods, on which the role label is kept; by default the group's and the site's labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_selector: BTreeMap<String, String>,
}

const fn default_port() -> u16 {
    3306
}

/// `spec.plannedFailover` (PF-SET-01).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PlannedFailoverSpec {
    /// How long the target may take to apply the fenced set, 1s to 1h.
    pub max_lag_wait: Span,
    /// How long ending the source's application sessions may take, 1s to 10m.
    pub drain_timeout: Span,
    /// What to do with a request inside the cooldown.
    pub on_cooldown: OnCooldown,
}

impl Default for PlannedFailoverSpec {
    fn default() -> Self {
        Self {
            max_lag_wait: Span::seconds(300),
            drain_timeout: Span::seconds(30),
            on_cooldown: OnCooldown::Reject,
        }
    }
}

/// `spec.dragonfly`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[derive(Default)]
pub struct DragonflySpec {
    /// Whether the group has a cache.
    pub enabled: bool,
    /// The defaults of planned failovers.
    pub planned_failover: DragonflyPlannedFailoverSpec,
}

/// `spec.dragonfly.plannedFailover` (PF-SET-01).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DragonflyPlannedFailoverSpec {
    /// How long the target cache may take, 1s to 10m.
    pub max_sync_wait: Span,
    /// What to do when it takes longer.
    pub on_sync_timeout: OnSyncTimeout,
}

impl Default for DragonflyPlannedFailoverSpec {
    fn default() -> Self {
        Self {
            max_sync_wait: Span::seconds(30),
            on_sync_timeout: OnSyncTimeout::Proceed,
        }
    }
}

/// `spec.dns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsSpec {
    /// The name that follows the primary.
    #[schemars(length(min = 1, max = 253))]
    pub hostname: String,
    /// The record's time to live, in seconds.
    #[serde(default = "default_ttl")]
    #[schemars(range(min = 1, max = 86400))]
    pub ttl: u32,
}

const fn default_ttl() -> u32 {
    60
}

/// What is known and what is going on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The unique writable promotable site; absent when there is none or more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_site: Option<SiteName>,
    /// What is known of each site.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<SiteStatus>,
    /// The last failover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failover: Option<FailoverRecord>,
    /// Who may change roles now, and how often that has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimStatus>,
    /// The latest planned failover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_failover: Option<PlannedFailover>,
    /// A `plannedFailover` block that is no record of ours, as it was read: no run id, or a phase that no longer
    /// exists (PF-DUR-10). It is kept through status writes until somebody ends it on purpose. At most one of this
    /// and `planned_failover` is there; on the interface both are `plannedFailover`.
    #[serde(skip)]
    pub legacy_run: Option<serde_json::Value>,
    /// The automation hold (PF-HLD-01).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_failover_hold: Option<PlannedFailoverHold>,
    /// Standard conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What is known of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    /// The site.
    pub name: String,
    /// What its server does.
    pub state: SiteState,
    /// When it last answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// The server that answered.
    #[serde(default, rename = "serverUUID", skip_serializing_if = "Option::is_none")]
    pub server_uuid: Option<ServerUuid>,
    /// Whether both replication threads run.
    #[serde(default)]
    pub replicating: bool,
    /// The replica's own estimate of its lag, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_behind_source: Option<u64>,
    /// What the server has executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtid_executed: Option<String>,
    /// Whom it replicates from, `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_host: Option<String>,
    /// Whether it follows the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_convergence_state: Option<ConvergenceState>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_convergence_reason: Option<ConvergenceReason>,
    /// Transactions that the primary does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergent_gtid: Option<String>,
    /// How many those are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergent_transaction_count: Option<u64>,
    /// What went wrong at the last probe or step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// `status.lastFailover`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailoverRecord {
    /// When the promotion was confirmed.
    pub time: Timestamp,
    /// The promoted site.
    pub target: SiteName,
    /// The fenced set that the promoted site held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion_gtid_executed: Option<String>,
}

/// `status.claim`: one slot a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimStatus {
    /// How often the claim has been taken.
    pub epoch: Epoch,
    /// What holds it; absent when it is free. A planned run's holding also ends with its confirmed annotation or terminal record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ClaimKind>,
    /// The holder: the run's id for a planned failover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// What can hold the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClaimKind {
    /// A planned failover.
    PlannedFailover,
    /// An emergency failover.
    Emergency,
    /// An ordered update.
    Update,
    /// An in-place restore.
    Restore,
    /// A bootstrap.
    Bootstrap,
    /// A keyring rotation.
    KeyringRotation,
    /// The recovery or convergence of a follower.
    Recovery,
    /// A cache snapshot upgrade.
    DragonflyUpgrade,
}

/// `status.plannedFailoverHold` (PF-HLD-01).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedFailoverHold {
    /// The run that ended so.
    #[serde(rename = "runID")]
    pub run_id: RunId,
    /// Why.
    pub reason: Reason,
    /// The run's source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_site: Option<SiteName>,
    /// The run's target.
    pub target_site: SiteName,
    /// Target, source and every site that the failing step classified.
    pub ambiguous_sites: Vec<SiteName>,
    /// Since when.
    pub hold_time: Timestamp,
}

/// A standard Kubernetes condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The condition's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A CamelCase reason.
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// The generation that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status last changed.
    pub last_transition_time: Timestamp,
}

impl Group {
    /// The site of that name.
    pub fn site(&self, name: &SiteName) -> Option<&SiteSpec> {
        self.spec.sites.iter().find(|site| site.name == *name)
    }

    /// The latest run, when there is one.
    pub fn run(&self) -> Option<&PlannedFailover> {
        self.status.planned_failover.as_ref()
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }

    /// How often the claim has been taken.
    pub fn epoch(&self) -> Epoch {
        self.status
            .claim
            .as_ref()
            .map_or_else(Epoch::default, |claim| claim.epoch)
    }
}
