//! The custom resource: what people write into the spec, with its defaults.

use bloodraven_types::group::{DnsSpec, DragonflySpec, GroupSpec, PlannedFailoverSpec};
use bloodraven_types::{SiteSpec, Span};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::StatusBlock;

/// A group of MySQL sites of which one is primary.
#[expect(
    clippy::duplicated_attributes,
    reason = "columns of one type are no duplicates; the lint reads the printcolumn lists as one"
)]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipstream.io",
    version = "v1alpha1",
    kind = "MysqlFailoverGroup",
    plural = "mysqlfailovergroups",
    shortname = "mfg",
    namespaced,
    status = "StatusBlock",
    derive = "PartialEq",
    doc = "A group of MySQL sites of which one is primary, and what is known of moving that role.",
    printcolumn(name = "Active", type_ = "string", json_path = ".status.activeSite"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.plannedFailover.phase"),
    printcolumn(
        name = "Outcome",
        type_ = "string",
        json_path = ".status.plannedFailover.result.outcome"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MysqlFailoverGroupSpec {
    /// The sites, 2 to 16, at least two of them PrimaryCandidate. A site can be added but never removed or renamed.
    #[schemars(length(min = 2, max = 16))]
    pub sites: Vec<SiteSpec>,
    /// The least time between a failover and the next planned one; 0 switches it off.
    #[serde(default = "default_failover_cooldown")]
    pub failover_cooldown: Span,
    /// How often each site is probed.
    #[serde(default = "default_poll_interval")]
    pub poll_interval: Span,
    /// How many failed probes in a row make a site unreachable.
    #[serde(default = "default_failure_threshold")]
    #[schemars(range(min = 1, max = 100))]
    pub failure_threshold: u32,
    /// How many probes in a row make a site writable.
    #[serde(default = "default_recovery_threshold")]
    #[schemars(range(min = 1, max = 100))]
    pub recovery_threshold: u32,
    /// The defaults of planned failovers.
    #[serde(default)]
    pub planned_failover: PlannedFailoverSpec,
    /// The cache beside MySQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dragonfly: Option<DragonflySpec>,
    /// The DNS record that follows the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsSpec>,
}

impl From<MysqlFailoverGroupSpec> for GroupSpec {
    fn from(spec: MysqlFailoverGroupSpec) -> Self {
        Self {
            sites: spec.sites,
            failover_cooldown: spec.failover_cooldown,
            poll_interval: spec.poll_interval,
            failure_threshold: spec.failure_threshold,
            recovery_threshold: spec.recovery_threshold,
            planned_failover: spec.planned_failover,
            dragonfly: spec.dragonfly,
            dns: spec.dns,
        }
    }
}

impl From<GroupSpec> for MysqlFailoverGroupSpec {
    fn from(spec: GroupSpec) -> Self {
        Self {
            sites: spec.sites,
            failover_cooldown: spec.failover_cooldown,
            poll_interval: spec.poll_interval,
            failure_threshold: spec.failure_threshold,
            recovery_threshold: spec.recovery_threshold,
            planned_failover: spec.planned_failover,
            dragonfly: spec.dragonfly,
            dns: spec.dns,
        }
    }
}

const fn default_failover_cooldown() -> Span {
    Span::seconds(300)
}

const fn default_poll_interval() -> Span {
    Span::seconds(1)
}

const fn default_failure_threshold() -> u32 {
    3
}

const fn default_recovery_threshold() -> u32 {
    2
}
