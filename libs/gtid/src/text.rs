//! The canonical text: `Display`, serde and the JSON Schema.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::set::GtidSet;

/// Prints what the server prints, on one line: UUIDs ascending and separated by a comma, for each its untagged
/// intervals and then those of each tag, as in `uuid:1-5:7:tag:1-3`.
impl fmt::Display for GtidSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for (tsid, list) in self.lists() {
            match last.replace(tsid.uuid) {
                Some(uuid) if uuid == tsid.uuid => {}
                Some(_) => write!(formatter, ",{}", tsid.uuid)?,
                None => write!(formatter, "{}", tsid.uuid)?,
            }
            if let Some(tag) = &tsid.tag {
                write!(formatter, ":{tag}")?;
            }
            for interval in list.as_slice() {
                match (interval.start(), interval.end()) {
                    (start, end) if start == end => write!(formatter, ":{start}")?,
                    (start, end) => write!(formatter, ":{start}-{end}")?,
                }
            }
        }
        Ok(())
    }
}

impl Serialize for GtidSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GtidSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

impl JsonSchema for GtidSet {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GtidSet".into()
    }

    fn schema_id() -> Cow<'static, str> {
        "bloodraven_gtid::GtidSet".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A MySQL GTID set, tagged GTIDs included, such as `uuid:1-5:7:tag:1-3`; empty for no GTID.",
        })
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = GtidSet;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a GTID set as a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse().map_err(E::custom)
    }
}
