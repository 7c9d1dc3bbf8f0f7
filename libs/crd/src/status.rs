//! The status as it is stored: ours, or with a planned-failover block that something else wrote.

use std::borrow::Cow;

use bloodraven_types::{GroupStatus, PlannedFailover};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::Value;

/// The key of the run record.
const PLANNED_FAILOVER: &str = "plannedFailover";

/// The status block: reads any `plannedFailover`, and writes back what it read.
///
/// A block without run id or with a phase that no longer exists is kept in [`GroupStatus::legacy_run`] (PF-DUR-10), so
/// that one such block does not hide the rest of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusBlock(pub GroupStatus);

impl<'de> Deserialize<'de> for StatusBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let block = value
            .as_object_mut()
            .and_then(|fields| fields.remove(PLANNED_FAILOVER))
            .filter(|block| !block.is_null());
        let mut status: GroupStatus = serde_json::from_value(value).map_err(de::Error::custom)?;
        if let Some(block) = block {
            match PlannedFailover::deserialize(&block) {
                Ok(run) => status.planned_failover = Some(run),
                Err(_) => status.legacy_run = Some(block),
            }
        }
        Ok(Self(status))
    }
}

impl Serialize for StatusBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(&self.0).map_err(ser::Error::custom)?;
        if let (Some(fields), Some(block)) = (value.as_object_mut(), &self.0.legacy_run)
            && self.0.planned_failover.is_none()
        {
            fields.insert(PLANNED_FAILOVER.to_owned(), block.clone());
        }
        value.serialize(serializer)
    }
}

impl JsonSchema for StatusBlock {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        GroupStatus::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        GroupStatus::json_schema(generator)
    }
}
