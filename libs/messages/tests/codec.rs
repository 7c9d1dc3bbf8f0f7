//! What the codec refuses, and what it does not mind.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod samples;

use std::collections::BTreeSet;

use bloodraven_messages::latest::{DecodeError, LARGEST_SET_BYTES, Message, Payload, decode, encode};
use bloodraven_types::fact::Waiting;
use bloodraven_types::{Fact, Phase, WaitReason};
use proptest::prelude::*;
use serde_json::{Value, json};

fn fenced() -> Message {
    samples::all()
        .into_iter()
        .find(|message| message.payload.name() == "fenced")
        .unwrap()
}

fn edited(edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(&encode(&fenced()).unwrap()).unwrap();
    edit(&mut json);
    serde_json::to_vec(&json).unwrap()
}

/// A newer sender's further attributes and fields are ignored. spec: X-VER-01
#[test]
fn unknown_fields_are_ignored() {
    let bytes = edited(|json| {
        json["priority"] = json!(5);
        json["data"]["relayLogs"] = json!({ "drained": true });
    });
    assert_eq!(decode(None, &bytes).unwrap(), fenced());
}

/// A message of another version is refused as such, even when its envelope is another one too; a name that this
/// version does not have likewise. spec: X-VER-01
#[test]
fn newer_versions_and_names_are_refused_as_such() {
    let v2 = edited(|json| *json = json!({ "type": "io.shipstream.bloodraven.v2.fact.fenced" }));
    assert!(matches!(decode(None, &v2), Err(DecodeError::UnknownVersion { found }) if found == "v2"));
    let frozen = edited(|json| json["type"] = json!("io.shipstream.bloodraven.v1.fact.frozen"));
    assert!(matches!(decode(None, &frozen), Err(DecodeError::UnknownName { name, .. }) if name == "frozen"));
    let other = edited(|json| json["specversion"] = json!("2.0"));
    assert!(matches!(decode(None, &other), Err(DecodeError::SpecVersion { .. })));
    for foreign in [
        "com.example.thing",
        "io.shipstream.bloodraven",
        "io.shipstream.bloodraven.v1.wish.fenced",
    ] {
        let bytes = edited(|json| json["type"] = json!(foreign));
        assert!(
            matches!(decode(None, &bytes), Err(DecodeError::ForeignType { .. })),
            "{foreign}"
        );
    }
}

/// A message that came on a subject says what that subject may say: the right to publish a fact is not the right to
/// give a command, or to speak of another group.
#[test]
fn a_message_agrees_with_its_subject_and_itself() {
    let bytes = encode(&fenced()).unwrap();
    assert!(decode(Some("bloodraven.v1.default.orders%2Eeu.fact.fenced"), &bytes).is_ok());
    for subject in [
        "bloodraven.v1.default.orders%2Eeu.command.fence",
        "bloodraven.v1.default.orders%2Eeu.fact.drained",
        "bloodraven.v1.default.orders.fact.fenced",
        "bloodraven.v1.other.orders%2Eeu.fact.fenced",
    ] {
        assert!(
            matches!(decode(Some(subject), &bytes), Err(DecodeError::Contradiction { .. })),
            "{subject}"
        );
    }
    let other_id = edited(|json| json["attempt"] = json!(2));
    assert!(matches!(
        decode(None, &other_id),
        Err(DecodeError::Contradiction { attribute: "id", .. })
    ));
    let other_phase = {
        let record = Message::record("test", samples::at(0), &samples::group(Phase::Fencing), 1).unwrap();
        let text = String::from_utf8(encode(&record).unwrap()).unwrap();
        text.replace("record.fencing", "record.draining")
    };
    assert!(matches!(
        decode(None, other_phase.as_bytes()),
        Err(DecodeError::Contradiction { attribute: "type", .. })
    ));
}

/// Bytes that are no message are refused with a reason, whatever they are.
#[test]
fn other_bytes_are_refused() {
    for bytes in [&b""[..], b"{}", b"[]", b"fenced", b"{\"type\":1}", &[0xff, 0xfe]] {
        assert!(
            matches!(decode(None, bytes), Err(DecodeError::Envelope(_))),
            "{bytes:?}"
        );
    }
    let no_set = edited(|json| {
        json["data"].as_object_mut().unwrap().remove("gtidSet");
    });
    assert!(matches!(decode(None, &no_set), Err(DecodeError::Data { .. })));
}

/// The envelope carries the attributes that CloudEvents asks for, and time to the millisecond.
#[test]
fn the_envelope_is_a_cloud_event() {
    let json: Value = serde_json::from_slice(&encode(&fenced()).unwrap()).unwrap();
    assert_eq!(json["specversion"], "1.0");
    assert_eq!(json["type"], "io.shipstream.bloodraven.v1.fact.fenced");
    assert_eq!(json["source"], "/bloodraven/fencer");
    assert_eq!(json["subject"], "default/orders%2Eeu");
    assert_eq!(json["time"], "2026-04-20T14:32:09.417Z");
    assert_eq!(
        json["id"],
        "01890a5d-ac96-774b-bcce-b302099a8057/3/fenced/1776695529417"
    );
    let names = json.as_object().unwrap().keys();
    for name in names {
        assert!(
            name.bytes().all(|byte| byte.is_ascii_lowercase()),
            "{name} is no attribute's name"
        );
    }
}

/// The trace of a message is its run, whoever says it, and every message is a span of its own.
#[test]
fn a_run_is_one_trace() {
    let parents: Vec<_> = samples::all()
        .into_iter()
        .map(|message| message.traceparent.unwrap())
        .collect();
    assert!(
        parents
            .iter()
            .all(|parent| parent.starts_with("00-01890a5dac96774bbcceb302099a8057-"))
    );
    assert_eq!(parents.iter().collect::<BTreeSet<_>>().len(), parents.len());
}

/// A record's set that is too long for a message is left out and named, and the message is then small. report: B07
#[test]
fn long_sets_are_left_out_of_records() {
    let mut group = samples::group(Phase::Failed);
    let long = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77,".repeat(80_000);
    assert!(long.len() > 3 * 1024 * 1024);
    let run = group.status.planned_failover.as_mut().unwrap();
    run.fence.as_mut().unwrap().gtid_set = Some(long.clone());
    group.status.last_failover.as_mut().unwrap().promotion_gtid_executed = Some("a".repeat(LARGEST_SET_BYTES));
    let message = Message::record("test", samples::at(0), &group, 1).unwrap();
    let bytes = encode(&message).unwrap();
    assert!(bytes.len() < 512 * 1024, "{}", bytes.len());
    let Payload::Record(record) = decode(None, &bytes).unwrap().payload else {
        panic!("no record")
    };
    assert_eq!(record.planned_failover.fence.unwrap().gtid_set, None);
    assert_eq!(record.left_out.len(), 1);
    assert_eq!(record.left_out[0].field, "plannedFailover.fence.gtidSet");
    assert_eq!(record.left_out[0].bytes, u64::try_from(long.len()).unwrap());
}

fn confirmed(group: &bloodraven_types::Group) -> bool {
    match Message::record("test", samples::at(0), group, 1).unwrap().payload {
        Payload::Record(record) => record.confirmed,
        Payload::Fact(_) | Payload::Command(_) => panic!("no record"),
    }
}

/// The confirmed flag is set by the annotation that names this run, and by no other.
#[test]
fn only_this_runs_confirmation_counts() {
    let mut group = samples::group(Phase::Publishing);
    assert!(confirmed(&group));
    for annotation in group.annotations.values_mut() {
        *annotation = annotation.replace("01890a5d", "01890a5e");
    }
    assert!(!confirmed(&group));
    group.annotations.clear();
    assert!(!confirmed(&group));
    group.status.planned_failover = None;
    assert_eq!(Message::record("test", samples::at(0), &group, 1), None);
}

proptest! {
    /// Whatever a fact says, of whatever group, it reads back as it was said.
    #[test]
    fn messages_read_back(namespace in ".*", name in ".*", detail in ".*", revision in any::<u64>(), attempt in any::<u64>()) {
        let mut about = samples::about();
        about.group.namespace = namespace;
        about.group.name = name;
        about.revision = bloodraven_types::Revision::new(revision);
        let fact = Fact::Waiting(Waiting { reason: WaitReason::TargetLagging, detail });
        let message = Message::fact("topology-manager", samples::at(1), about, attempt, fact);
        let bytes = encode(&message).unwrap();
        prop_assert_eq!(decode(Some(&message.subject()), &bytes).unwrap(), message);
    }

    /// No bytes make the reader panic.
    #[test]
    fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(None, &bytes).is_err());
    }
}
