//! Prints a configuration as TOML with origins, and lists its keys.

use std::collections::BTreeMap;
use std::fmt::Write;

use figment::value::{Dict, Value};
use serde::Serialize;

use super::problems::Origin;

/// One line for each key, `key = value  # origin`; optional keys that are not set are comments.
pub(super) fn effective<C: Serialize>(config: &C, origins: &BTreeMap<String, Origin>) -> String {
    let mut text = String::new();
    let Some(dict) = Value::serialize(config).ok().and_then(Value::into_dict) else {
        return text;
    };
    walk("", &dict, &mut |key, value| {
        let origin = origins
            .iter()
            .find(|(set, _)| *set == key || set.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
            .map_or(&Origin::Default, |(_, origin)| origin);
        // Writing to a String cannot fail.
        let _ = if matches!(value, Value::Empty(..)) {
            writeln!(text, "# {key} is not set")
        } else {
            let line = format!("{key} = {}", without_credentials(&toml(value)));
            writeln!(text, "{line:<60} # {origin}")
        };
    });
    text
}

/// All keys that hold a value, dotted.
pub(super) fn keys(known: &Dict) -> Vec<String> {
    let mut keys = Vec::new();
    walk("", known, &mut |key, _| keys.push(key.to_owned()));
    keys
}

fn walk(prefix: &str, dict: &Dict, visit: &mut impl FnMut(&str, &Value)) {
    for (name, value) in dict {
        let key = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        match value.as_dict() {
            Some(inner) if !inner.is_empty() => walk(&key, inner, visit),
            Some(_) | None => visit(&key, value),
        }
    }
}

/// A value in TOML's inline syntax.
pub(super) fn toml(value: &Value) -> String {
    match value {
        Value::String(_, text) => quoted(text),
        Value::Char(_, letter) => quoted(&letter.to_string()),
        Value::Bool(_, flag) => flag.to_string(),
        Value::Num(_, number) => {
            let float = number.to_f64().map(|float| float.to_string());
            number
                .to_i128()
                .map(|n| n.to_string())
                .or_else(|| number.to_u128().map(|n| n.to_string()))
                .or(float)
                .unwrap_or_default()
        }
        Value::Empty(..) => "\"\"".to_owned(),
        Value::Array(_, items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Dict(_, dict) if dict.is_empty() => "{}".to_owned(),
        Value::Dict(_, dict) => {
            let entries: Vec<_> = dict
                .iter()
                .map(|(name, value)| format!("{} = {}", bare_or_quoted(name), toml(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

/// Replaces `user:password@` in anything that looks like a URL.
pub(super) fn without_credentials(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str("://");
        let authority_end = part.find(['"', ' ']).unwrap_or(part.len());
        match part.get(..authority_end).and_then(|authority| authority.rfind('@')) {
            Some(at) => {
                shown.push_str(super::REDACTED);
                shown.push_str(part.get(at..).unwrap_or_default());
            }
            None => shown.push_str(part),
        }
    }
    shown
}

fn bare_or_quoted(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if bare { name.to_owned() } else { quoted(name) }
}

/// TOML's basic strings have the escapes of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
