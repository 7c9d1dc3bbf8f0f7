//! What is committed under `schemas/` against the code: schemas, channels and one golden message of each name.
//!
//! `BLESS=1 cargo test -p bloodraven-messages` writes golden messages that are not there yet, and never changes one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod samples;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use bloodraven_messages::latest::{Kind, SubjectFilter, asyncapi, decode, encode, schemas};
use serde_json::Value;

fn committed(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../schemas")
        .join(path)
}

fn read(path: &str) -> String {
    let file = committed(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask schema`", file.display()))
}

/// The committed schemas are the code's, so that a published schema changes only on purpose. spec: X-VER-01
#[test]
fn schemas_are_the_committed_ones() {
    for (file, schema) in schemas() {
        let found: Value = serde_json::from_str(&read(&file)).unwrap();
        assert_eq!(
            found, schema,
            "schemas/{file} differs from the code; run `cargo xtask schema` if that is meant"
        );
    }
}

/// The committed channels are the code's, one for each fact, command and phase.
#[test]
fn channels_are_the_committed_ones() {
    let text = asyncapi();
    assert_eq!(read("asyncapi.yaml"), text, "run `cargo xtask schema` if that is meant");
    let addresses: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("address: "))
        .collect();
    let expected: BTreeSet<_> = Kind::ALL
        .into_iter()
        .flat_map(|kind| {
            kind.names()
                .iter()
                .map(move |name| SubjectFilter { kind, name: Some(name) })
        })
        .map(|filter| {
            filter
                .subject()
                .replacen('*', "{namespace}", 1)
                .replacen('*', "{group}", 1)
        })
        .collect();
    assert_eq!(addresses, expected.iter().map(String::as_str).collect());
}

/// Messages that were written by the first release of this version still read, and are written the same. spec: X-VER-01
#[test]
fn golden_messages_read_and_write_the_same() {
    let mut names = BTreeSet::new();
    for message in samples::all() {
        let path = format!("v1/golden/{}.{}.json", message.payload.kind(), message.payload.name());
        let written: Value = serde_json::from_slice(&encode(&message).unwrap()).unwrap();
        if std::env::var_os("BLESS").is_some() && !committed(&path).exists() {
            fs::write(
                committed(&path),
                format!("{}\n", serde_json::to_string_pretty(&written).unwrap()),
            )
            .unwrap();
        }
        let golden = read(&path);
        assert_eq!(serde_json::from_str::<Value>(&golden).unwrap(), written, "{path}");
        assert_eq!(
            decode(Some(&message.subject()), golden.as_bytes()).unwrap(),
            message,
            "{path}"
        );
        names.insert((message.payload.kind(), message.payload.name()));
    }
    let every = Kind::ALL
        .iter()
        .flat_map(|kind| kind.names().iter().map(|name| (*kind, *name)));
    assert_eq!(names, every.collect());
}
