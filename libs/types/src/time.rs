//! Time on the record: whole seconds in RFC 3339, and durations as Kubernetes writes them (`5m0s`).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment on the wall clock, kept to the microsecond and written to the record in whole seconds, as
/// Kubernetes' own `metav1.Time` is. Only ever compared with moments of the same record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

/// A span of time in the notation of Go and Kubernetes: `250ms`, `30s`, `5m0s`, `1h30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(Duration);

/// Why a text is no moment.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not an RFC 3339 time (like 2026-04-20T14:32:00Z)")]
pub struct ParseTimestampError {
    text: String,
    #[source]
    source: jiff::Error,
}

/// Why a text is no span of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration (like 30s, 5m or 1h30m): {problem}")]
pub struct ParseSpanError {
    text: String,
    problem: &'static str,
}

impl Timestamp {
    /// Wraps a moment.
    pub const fn new(moment: jiff::Timestamp) -> Self {
        Self(moment)
    }

    /// The Unix epoch moved by whole seconds; saturates at the ends of the calendar.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self(jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX))
    }

    /// The moment as jiff knows it.
    pub const fn inner(self) -> jiff::Timestamp {
        self.0
    }

    /// The same moment without its fraction of a second: what the record will say when it is read again.
    pub fn whole_seconds(self) -> Self {
        Self::from_unix_seconds(self.0.as_second())
    }

    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::try_from(self.0.duration_since(earlier.0)).unwrap_or(Duration::ZERO)
    }

    /// The moment `span` later; saturates at the end of the calendar.
    pub fn after(self, span: Duration) -> Self {
        self.0.checked_add(span).map_or(Self(jiff::Timestamp::MAX), Self)
    }

    /// RFC 3339 with milliseconds: for messages and logs, where the second is too coarse.
    pub fn to_precise_string(self) -> String {
        format!("{:.3}", self.0)
    }

    /// The compact form that annotations use: `20260420T143200Z` (PF-DUR-03).
    pub fn to_compact_string(self) -> String {
        self.0.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    /// Reads the compact form `20260420T143200Z`.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn from_compact_str(text: &str) -> Result<Self, ParseTimestampError> {
        let failed = |source| ParseTimestampError {
            text: text.to_owned(),
            source,
        };
        let civil = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).map_err(failed)?;
        let zoned = civil.to_zoned(jiff::tz::TimeZone::UTC).map_err(failed)?;
        Ok(Self(zoned.timestamp()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|source| ParseTimestampError {
            text: text.to_owned(),
            source,
        })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.whole_seconds())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

impl Span {
    /// Wraps a duration.
    pub const fn new(duration: Duration) -> Self {
        Self(duration)
    }

    /// A number of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The duration itself.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.as_secs();
        let nanos = self.0.subsec_nanos();
        if total == 0 && nanos > 0 {
            let (value, unit) = match nanos {
                1_000_000.. => (f64::from(nanos) / 1e6, "ms"),
                1_000.. => (f64::from(nanos) / 1e3, "µs"),
                _ => (f64::from(nanos), "ns"),
            };
            return write!(f, "{value}{unit}");
        }
        let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if total >= 60 {
            write!(f, "{minutes}m")?;
        }
        if nanos == 0 {
            write!(f, "{seconds}s")
        } else {
            let fraction = format!("{nanos:09}");
            write!(f, "{seconds}.{}s", fraction.trim_end_matches('0'))
        }
    }
}

impl FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let failed = |problem| ParseSpanError {
            text: text.to_owned(),
            problem,
        };
        if text == "0" {
            return Ok(Self::default());
        }
        if text.starts_with('-') {
            return Err(failed("it is negative"));
        }
        let mut rest = text;
        let mut nanos: u128 = 0;
        while !rest.is_empty() {
            let (amount, after) = split_number(rest).ok_or_else(|| failed("a number is missing"))?;
            let (unit, after) = split_unit(after).ok_or_else(|| failed("a unit (ns, us, ms, s, m, h) is missing"))?;
            let part = scaled(amount, unit).ok_or_else(|| failed("a number is malformed or too large"))?;
            nanos = nanos.checked_add(part).ok_or_else(|| failed("it is too long"))?;
            rest = after;
        }
        if text.is_empty() {
            return Err(failed("it is empty"));
        }
        let seconds = u64::try_from(nanos / 1_000_000_000).map_err(|_| failed("it is too long"))?;
        let subsecond = u32::try_from(nanos % 1_000_000_000).unwrap_or_default();
        Ok(Self(Duration::new(seconds, subsecond)))
    }
}

fn split_number(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn split_unit(text: &str) -> Option<(u128, &str)> {
    // "ms" stands before "m" so that the longer unit is tried first.
    const UNITS: [(&str, u128); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    UNITS
        .iter()
        .find_map(|(name, nanos)| text.strip_prefix(name).map(|rest| (*nanos, rest)))
}

fn scaled(amount: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(unit)?;
    if !fraction.is_empty() {
        let digits: u128 = fraction.parse().ok()?;
        let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        total = total.checked_add(digits.checked_mul(unit)? / scale)?;
    }
    (total <= u128::from(u64::MAX) * 1_000_000_000).then_some(total)
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Durations are written as the reference's status block shows them. spec: PF-OBS-06
    #[test]
    fn spans_print_like_kubernetes() {
        for (seconds, text) in [(0, "0s"), (30, "30s"), (300, "5m0s"), (3600, "1h0m0s"), (90, "1m30s")] {
            assert_eq!(Span::seconds(seconds).to_string(), text);
        }
        assert_eq!(Span::new(Duration::from_millis(250)).to_string(), "250ms");
        assert_eq!(Span::new(Duration::from_millis(1500)).to_string(), "1.5s");
    }

    /// A duration that is malformed is refused with the text that was given.
    #[test]
    fn malformed_spans_are_refused() {
        for text in ["", "5", "s", "-5s", "5x", "5s5", "1..5s", "99999999999999999999h"] {
            let error = text.parse::<Span>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    /// The annotation's compact time reads back as the moment it was made from. spec: PF-DUR-03
    #[test]
    fn compact_times_read_back() {
        let moment: Timestamp = "2026-04-20T14:32:09Z".parse().unwrap();
        assert_eq!(moment.to_compact_string(), "20260420T143209Z");
        assert_eq!(Timestamp::from_compact_str("20260420T143209Z").unwrap(), moment);
        assert!(Timestamp::from_compact_str("2026-04-20").is_err());
    }

    proptest! {
        /// Every span reads back as itself.
        #[test]
        fn spans_read_back(seconds in 0_u64..10_000_000, nanos in 0_u32..1_000_000_000) {
            let span = Span::new(Duration::new(seconds, nanos - nanos % 1000));
            prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
    }
}
