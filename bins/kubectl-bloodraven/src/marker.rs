//! The terminal marker: how a run ended when its status could not be written (PF-DUR-04).

use bloodraven_types::annotation::TERMINAL;
use bloodraven_types::words::{Outcome, Reason, Warning};
use bloodraven_types::{Group, RunId};
use serde::Deserialize;

/// The only version of the payload that proves anything.
const SCHEMA_VERSION: u64 = 1;

/// What the annotation says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Marker {
    schema_version: u64,
    /// The run that it ends.
    #[serde(rename = "runID")]
    pub(crate) run_id: RunId,
    /// What the group was left in.
    pub(crate) outcome: Outcome,
    /// Why.
    #[serde(default)]
    pub(crate) reason: Option<Reason>,
    /// What qualifies it.
    #[serde(default)]
    pub(crate) warnings: Vec<Warning>,
}

impl Marker {
    /// The group's marker. One of another form or version proves nothing and is none.
    pub(crate) fn of(group: &Group) -> Option<Self> {
        let marker: Self = serde_json::from_str(group.annotation(TERMINAL)?).ok()?;
        (marker.schema_version == SCHEMA_VERSION).then_some(marker)
    }

    /// The group's marker when it ends this run.
    pub(crate) fn ending(group: &Group, run_id: RunId) -> Option<Self> {
        Self::of(group).filter(|marker| marker.run_id == run_id)
    }
}
