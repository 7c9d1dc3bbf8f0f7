//! What the bus knows: the runs of a group as a list, and one run as a story with a line for each message.

use bloodraven_messages::latest::{Message, Payload};
use bloodraven_types::{RunId, Timestamp};
use serde_json::Value;

use super::columns::{columns, table};
use super::words::{NOTHING, or_nothing};

/// The longest value that a line shows in full; GTID sets are longer.
const LONGEST_VALUE: usize = 48;

/// The runs that the messages speak of, in the order of their first message.
pub(crate) fn runs(messages: &[Message]) -> String {
    let mut ids: Vec<RunId> = Vec::new();
    for message in messages {
        if !ids.contains(&message.about.run_id) {
            ids.push(message.about.run_id);
        }
    }
    let heading = ["RUN", "FIRST-MESSAGE", "FROM", "TO", "PHASE", "OUTCOME", "MESSAGES"];
    table(&heading, ids.into_iter().map(|id| run_row(id, messages)))
}

fn run_row(id: RunId, messages: &[Message]) -> Vec<String> {
    let own: Vec<&Message> = messages.iter().filter(|message| message.about.run_id == id).collect();
    let records = own.iter().filter_map(|message| match &message.payload {
        Payload::Record(record) => Some((message.about.revision, &record.planned_failover)),
        Payload::Fact(_) | Payload::Command(_) => None,
    });
    let latest = records.max_by_key(|(revision, _)| *revision).map(|(_, run)| run);
    let outcome = latest.and_then(|run| run.result.as_ref()).map(|result| {
        let reason = result.reason.map(|reason| format!(":{reason}")).unwrap_or_default();
        format!("{}{reason}", result.outcome)
    });
    vec![
        id.to_string(),
        or_nothing(own.first().map(|message| message.time.to_precise_string())),
        or_nothing(latest.and_then(|run| run.source_site.as_ref())),
        or_nothing(latest.map(|run| &run.target_site)),
        or_nothing(latest.map(|run| run.phase)),
        or_nothing(outcome),
        own.len().to_string(),
    ]
}

/// One line a message, in the order of the stream: when, how long after the first one, at which revision, what it is,
/// who says it, what it says.
pub(crate) fn story(messages: &[Message]) -> String {
    let Some(first) = messages.first() else {
        return "the stream has nothing about this run\n".to_owned();
    };
    let rows: Vec<Vec<String>> = messages.iter().map(|message| line(message, first.time)).collect();
    columns(&rows)
}

fn line(message: &Message, first: Timestamp) -> Vec<String> {
    let clock = message.time.inner().strftime("%H:%M:%S%.3fZ").to_string();
    let since = message.time.since(first).as_millis();
    vec![
        clock,
        format!("+{since} ms"),
        format!("r{}", message.about.revision),
        message.payload.kind().to_string(),
        message.payload.name().to_owned(),
        message.source.clone(),
        said(&message.payload),
    ]
}

/// What a message says beside its name: a record's sentence, the values of a fact or command.
fn said(payload: &Payload) -> String {
    let data = match payload {
        Payload::Record(record) => return record.planned_failover.message.clone(),
        Payload::Fact(fact) => serde_json::to_value(fact),
        Payload::Command(command) => serde_json::to_value(command),
    };
    let data = data.unwrap_or_default();
    let Some(fields) = data.get("data").and_then(Value::as_object) else {
        return NOTHING.to_owned();
    };
    let shown: Vec<String> = fields
        .iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", short(value)?)))
        .collect();
    shown.join(" ")
}

/// A value in one word; nothing where there is nothing to say.
fn short(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) if text.is_empty() => return None,
        Value::Array(items) if items.is_empty() => return None,
        Value::String(text) => text.replace('\n', ""),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    if text.chars().count() <= LONGEST_VALUE {
        return Some(text);
    }
    let start: String = text.chars().take(LONGEST_VALUE - 1).collect();
    Some(format!("{start}…"))
}
