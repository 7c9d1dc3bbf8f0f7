//! Writes events as JSON lines.

use std::error::Error;
use std::fmt;
use std::io::Write;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::clock;
use crate::error::chain;

/// Keys that the layer writes itself, and what a field of that name becomes.
const OWN_KEYS: [(&str, &str); 4] = [
    ("time", "fieldTime"),
    ("level", "fieldLevel"),
    ("msg", "fieldMsg"),
    ("logger", "fieldLogger"),
];

/// A layer that writes one JSON object for each event.
#[derive(Debug)]
pub struct JsonLayer<W> {
    writer: W,
    time: fn() -> String,
    fields: Map<String, Value>,
}

impl<W> JsonLayer<W> {
    /// Writes to `writer`, each line in one call.
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            time: clock::log_time,
            fields: Map::new(),
        }
    }

    /// Puts a field on every line.
    #[must_use]
    pub fn with_field(mut self, name: &str, value: &str) -> Self {
        self.fields.insert(key(name), Value::from(value));
        self
    }

    /// Takes the time of each line from `time`, for tests and simulations.
    #[must_use]
    pub fn with_time(mut self, time: fn() -> String) -> Self {
        self.time = time;
        self
    }
}

/// The fields of a span, as they were when it was made or last recorded.
#[derive(Default)]
struct SpanFields(Map<String, Value>);

impl<S, W> Layer<S> for JsonLayer<W>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = SpanFields::default();
        attributes.record(&mut Collector(&mut fields.0));
        span.extensions_mut().replace(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(fields) = extensions.get_mut::<SpanFields>() {
            values.record(&mut Collector(&mut fields.0));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = self.fields.clone();
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(of_span) = span.extensions().get::<SpanFields>() {
                fields.extend(of_span.0.clone());
            }
        }
        event.record(&mut Collector(&mut fields));
        let metadata = event.metadata();
        let line = line((self.time)(), metadata.level().as_str(), metadata.target(), fields);
        // There is nowhere left to say that a log line cannot be written.
        let _ = self.writer.make_writer_for(metadata).write_all(line.as_bytes());
    }
}

/// Puts the line together. By hand, because `serde_json`'s map sorts its keys and people read the first four first.
fn line(time: String, level: &str, logger: &str, mut fields: Map<String, Value>) -> String {
    let message = fields.remove("message").unwrap_or_else(|| Value::from(""));
    let group = fields.remove("fg");
    let first = [
        ("time", Some(Value::from(time))),
        ("level", Some(Value::from(level))),
        ("msg", Some(message)),
    ];
    let second = [("fg", group), ("logger", Some(Value::from(logger)))];
    let own = first
        .into_iter()
        .chain(second)
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let renamed = fields
        .into_iter()
        .map(|(name, value)| match OWN_KEYS.iter().find(|(own, _)| *own == name) {
            Some((_, renamed)) => ((*renamed).to_owned(), value),
            None => (name, value),
        });
    let pairs: Vec<String> = own
        .chain(renamed)
        .map(|(name, value)| format!("{}:{value}", Value::from(name)))
        .collect();
    format!("{{{}}}\n", pairs.join(","))
}

/// The camelCase key of a field: `run_id` is written as `runId`, `http.status` stays as it is.
fn key(name: &str) -> String {
    let name = name.strip_prefix("r#").unwrap_or(name);
    let mut parts = name.split('_').filter(|part| !part.is_empty());
    let mut key = parts.next().unwrap_or(name).to_owned();
    for part in parts {
        let mut letters = part.chars();
        key.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        key.push_str(letters.as_str());
    }
    key
}

/// Collects fields as JSON values.
struct Collector<'a>(&'a mut Map<String, Value>);

impl Collector<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(key(field.name()), value.into());
    }
}

impl Visit for Collector<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.put(field, value.to_string());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.put(field, value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, chain(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field names become camelCase whatever their form in the code.
    #[test]
    fn keys_are_camel_case() {
        for (name, expected) in [
            ("run_id", "runId"),
            ("runId", "runId"),
            ("fg", "fg"),
            ("r#type", "type"),
            ("source_gtid_at_fence", "sourceGtidAtFence"),
            ("_private", "private"),
            ("http.status", "http.status"),
        ] {
            assert_eq!(key(name), expected);
        }
    }
}
