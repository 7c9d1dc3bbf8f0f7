//! The envelope on the wire: CloudEvents in JSON, with the run as extension attributes.
//!
//! The payload alone is `data`; its name is the last part of `type`. A reader ignores fields that it does not know.

use bloodraven_types::{Command, Epoch, Fact, GroupKey, ObjectUid, Revision, RunId, RunRef, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::message::{Message, Payload};
use super::names::Kind;
use super::subject::{VERSION, decode_token, encode_token};

/// What every type begins with; the version follows.
pub(crate) const TYPE_PREFIX: &str = "io.shipstream.bloodraven";
const SPEC_VERSION: &str = "1.0";
const SOURCE_PREFIX: &str = "/bloodraven/";

/// Why a message has no bytes.
#[derive(Debug, thiserror::Error)]
#[error("could not write the {kind} {name} as JSON")]
pub struct EncodeError {
    kind: Kind,
    name: &'static str,
    #[source]
    source: serde_json::Error,
}

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// They are not the envelope.
    #[error("this is no message: {0}")]
    Envelope(#[source] serde_json::Error),
    /// The envelope is of another CloudEvents version.
    #[error("specversion is {found:?}, not \"1.0\"")]
    SpecVersion {
        /// What it says.
        found: String,
    },
    /// The type is not one of ours.
    #[error("type {found:?} is not io.shipstream.bloodraven.<version>.<kind>.<name>")]
    ForeignType {
        /// What it says.
        found: String,
    },
    /// The message is of a version that this binary does not read.
    #[error("the message is of version {found:?}; this binary reads v1")]
    UnknownVersion {
        /// What it says.
        found: String,
    },
    /// The version is known, the name is not: the sender is newer.
    #[error("there is no {kind} {name:?} in v1")]
    UnknownName {
        /// The kind.
        kind: Kind,
        /// What it says.
        name: String,
    },
    /// The payload is not what the type says.
    #[error("the data of {kind} {name} cannot be read")]
    Data {
        /// The kind.
        kind: Kind,
        /// The name.
        name: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// Two parts of the message contradict each other: its sender is broken, or may not say this.
    #[error("{attribute} is {found:?}, where the rest of the message makes it {expected:?}")]
    Contradiction {
        /// The attribute that differs.
        attribute: &'static str,
        /// What it says.
        found: String,
        /// What the rest says.
        expected: String,
    },
}

/// The envelope: CloudEvents attributes, then ours (lower case, as CloudEvents asks of extensions).
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Envelope")]
pub(crate) struct Envelope {
    /// `<runid>/<revision>/<name>/<attempt>`, also the `Nats-Msg-Id` header.
    id: String,
    /// `/bloodraven/<binary>`.
    source: String,
    /// `io.shipstream.bloodraven.v1.<kind>.<name>`.
    #[serde(rename = "type")]
    kind: String,
    /// The version of CloudEvents.
    specversion: String,
    /// When it was said, RFC 3339 with milliseconds, on the sender's clock.
    #[schemars(with = "Timestamp")]
    time: String,
    /// `<namespace>/<group>`, percent-encoded.
    subject: String,
    /// The schema of the message.
    dataschema: String,
    /// The content type of `data`.
    #[serde(default = "json")]
    datacontenttype: String,
    /// The id of the run.
    runid: RunId,
    /// The revision of the record that the message was derived from or answers.
    revision: Revision,
    /// The claim's epoch at that revision.
    epoch: Epoch,
    /// `metadata.uid` of the group.
    uid: ObjectUid,
    /// Which telling of its name the message is.
    attempt: u64,
    /// W3C Trace Context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    /// The payload.
    #[serde(default)]
    data: Value,
}

fn json() -> String {
    "application/json".to_owned()
}

/// The URI of the schema of a kind.
pub(crate) fn schema_uri(kind: Kind) -> String {
    format!("urn:shipstream:bloodraven:{VERSION}:{kind}")
}

/// Writes a message as JSON.
///
/// # Errors
/// When a value cannot be written as JSON, which none of the domain's is known to do.
pub fn encode(message: &Message) -> Result<Vec<u8>, EncodeError> {
    let kind = message.payload.kind();
    let name = message.payload.name();
    let failed = |source| EncodeError { kind, name, source };
    let group = &message.about.group;
    let envelope = Envelope {
        id: message.id().to_string(),
        source: format!("{SOURCE_PREFIX}{}", message.source),
        kind: format!("{TYPE_PREFIX}.{VERSION}.{kind}.{name}"),
        specversion: SPEC_VERSION.to_owned(),
        time: message.time.to_precise_string(),
        subject: format!("{}/{}", encode_token(&group.namespace), encode_token(&group.name)),
        dataschema: schema_uri(kind),
        datacontenttype: json(),
        runid: message.about.run_id,
        revision: message.about.revision,
        epoch: message.about.epoch,
        uid: message.about.uid.clone(),
        attempt: message.attempt,
        traceparent: message.traceparent.clone(),
        data: payload_to_data(&message.payload).map_err(failed)?,
    };
    serde_json::to_vec(&envelope).map_err(failed)
}

/// Reads a message. With the `subject` that it came on, a message that says something else than its subject is
/// refused, so that the right to publish on a subject is the right to say just that.
///
/// # Errors
/// When the bytes are no message of this version, or contradict themselves or the subject.
pub fn decode(subject: Option<&str>, bytes: &[u8]) -> Result<Message, DecodeError> {
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|error| explain(bytes, error))?;
    if envelope.specversion != SPEC_VERSION {
        return Err(DecodeError::SpecVersion {
            found: envelope.specversion,
        });
    }
    let (kind, name) = kind_and_name(&envelope.kind)?;
    let group = group_of(&envelope.subject)?;
    let time = envelope
        .time
        .parse()
        .map_err(|error: bloodraven_types::time::ParseTimestampError| {
            DecodeError::Envelope(serde::de::Error::custom(error))
        })?;
    let payload = data_to_payload(kind, name, envelope.data)?;
    let message = Message {
        source: envelope
            .source
            .strip_prefix(SOURCE_PREFIX)
            .unwrap_or(&envelope.source)
            .to_owned(),
        time,
        about: RunRef {
            group,
            uid: envelope.uid,
            run_id: envelope.runid,
            revision: envelope.revision,
            epoch: envelope.epoch,
        },
        attempt: envelope.attempt,
        traceparent: envelope.traceparent,
        payload,
    };
    agree(
        "the record's run",
        &message.about.run_id.to_string(),
        || match &message.payload {
            Payload::Record(record) => record.planned_failover.run_id.to_string(),
            Payload::Fact(_) | Payload::Command(_) => message.about.run_id.to_string(),
        },
    )?;
    agree("type", name, || message.payload.name().to_owned())?;
    agree("id", &envelope.id, || message.id().to_string())?;
    if let Some(subject) = subject {
        agree("the subject that it came on", subject, || message.subject())?;
    }
    Ok(message)
}

fn agree(attribute: &'static str, found: &str, expected: impl FnOnce() -> String) -> Result<(), DecodeError> {
    let expected = expected();
    if found == expected {
        return Ok(());
    }
    Err(DecodeError::Contradiction {
        attribute,
        found: found.to_owned(),
        expected,
    })
}

/// A later version may have another envelope: its version is then the better answer than a missing field.
fn explain(bytes: &[u8], error: serde_json::Error) -> DecodeError {
    #[derive(Deserialize)]
    struct TypeOnly {
        #[serde(rename = "type")]
        kind: String,
    }
    match serde_json::from_slice::<TypeOnly>(bytes).map(|only| kind_and_name(&only.kind).err()) {
        Ok(Some(better @ DecodeError::UnknownVersion { .. })) => better,
        Ok(Some(_) | None) | Err(_) => DecodeError::Envelope(error),
    }
}

fn kind_and_name(text: &str) -> Result<(Kind, &'static str), DecodeError> {
    let foreign = || DecodeError::ForeignType { found: text.to_owned() };
    let rest = text
        .strip_prefix(TYPE_PREFIX)
        .and_then(|rest| rest.strip_prefix('.'))
        .ok_or_else(foreign)?;
    let (version, rest) = rest.split_once('.').ok_or_else(foreign)?;
    if version != VERSION {
        return Err(DecodeError::UnknownVersion {
            found: version.to_owned(),
        });
    }
    let (kind, name) = rest.split_once('.').ok_or_else(foreign)?;
    let kind = Kind::from_token(kind).ok_or_else(foreign)?;
    let known = kind.names().iter().find(|known| **known == name);
    known
        .map(|known| (kind, *known))
        .ok_or_else(|| DecodeError::UnknownName {
            kind,
            name: name.to_owned(),
        })
}

fn group_of(subject: &str) -> Result<GroupKey, DecodeError> {
    let parts = subject
        .split_once('/')
        .and_then(|(namespace, name)| Some((decode_token(namespace)?, decode_token(name)?)));
    let (namespace, name) = parts.ok_or_else(|| DecodeError::Contradiction {
        attribute: "subject",
        found: subject.to_owned(),
        expected: "<namespace>/<group>".to_owned(),
    })?;
    Ok(GroupKey { namespace, name })
}

/// The domain's enums carry their name beside their data; on the wire the name is in the type.
fn payload_to_data(payload: &Payload) -> Result<Value, serde_json::Error> {
    let tagged = match payload {
        Payload::Fact(fact) => serde_json::to_value(fact)?,
        Payload::Command(command) => serde_json::to_value(command)?,
        Payload::Record(record) => return serde_json::to_value(record),
    };
    let Value::Object(mut tagged) = tagged else {
        return Ok(tagged);
    };
    Ok(tagged.remove("data").unwrap_or_default())
}

fn data_to_payload(kind: Kind, name: &str, data: Value) -> Result<Payload, DecodeError> {
    let failed = |source| DecodeError::Data {
        kind,
        name: name.to_owned(),
        source,
    };
    let tagged = |data| {
        Value::Object(Map::from_iter([
            ("name".to_owned(), name.into()),
            ("data".to_owned(), data),
        ]))
    };
    match kind {
        Kind::Fact => serde_json::from_value::<Fact>(tagged(data))
            .map(Payload::Fact)
            .map_err(failed),
        Kind::Command => serde_json::from_value::<Command>(tagged(data))
            .map(Payload::Command)
            .map_err(failed),
        Kind::Record => serde_json::from_value(data)
            .map(|record| Payload::Record(Box::new(record)))
            .map_err(failed),
    }
}
