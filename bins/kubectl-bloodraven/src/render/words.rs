//! Small texts: spans of time as kubectl writes them, and what stands for nothing.

use std::time::Duration;

use bloodraven_types::time::{Span, Timestamp};

/// What stands where there is nothing to say.
pub(crate) const NOTHING: &str = "-";

/// A span for people, with the precision that matters at its size: `9s`, `4m10s`, `35m`, `5h10m`, `3d`.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => format!("{minutes}m{}s", seconds % 60),
        600..10_800 => format!("{minutes}m"),
        10_800..172_800 => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d"),
    }
}

/// How long ago a moment is.
pub(crate) fn age(moment: Timestamp, now: Timestamp) -> String {
    span(now.since(moment))
}

/// How long ago a moment is, as the end of a sentence.
pub(crate) fn ago(moment: Timestamp, now: Timestamp) -> String {
    format!("{} ago", age(moment, now))
}

/// The exact length between two moments of the record, which are whole seconds.
pub(crate) fn length(from: Timestamp, to: Timestamp) -> String {
    Span::new(to.since(from)).to_string()
}

/// The text, or what stands for nothing.
pub(crate) fn or_nothing(text: Option<impl ToString>) -> String {
    text.map_or_else(|| NOTHING.to_owned(), |text| text.to_string())
}

/// Names in a row.
pub(crate) fn list<T: ToString>(items: &[T]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    if texts.is_empty() {
        NOTHING.to_owned()
    } else {
        texts.join(", ")
    }
}
