//! Durations in configuration: text with a unit in the notation of [`bloodraven_types::Span`], such as `250ms`, `30s` or
//! `1m30s`, and never a bare number.
//!
//! Fields are plain [`std::time::Duration`]; say `#[serde(with = "bloodraven_service::config::duration")]` on them.

use std::fmt;
use std::time::Duration;

use bloodraven_types::Span;
use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// Renders a duration the way the configuration reads it.
pub fn format(duration: Duration) -> String {
    Span::new(duration).to_string()
}

/// The `serialize` half of `#[serde(with = …)]`.
///
/// # Errors
///
/// Only those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// The `deserialize` half of `#[serde(with = …)]`.
///
/// # Errors
///
/// When the value is not a text with a unit.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_str(DurationVisitor)
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, such as 250ms, 30s or 5m")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        text.parse::<Span>().map(Span::get).map_err(E::custom)
    }
}
