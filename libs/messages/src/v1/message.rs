//! A message in memory: what the envelope says, and the payload.

use bloodraven_types::annotation::{CONFIRMED, RunSince};
use bloodraven_types::group::FailoverRecord;
use bloodraven_types::{Command, Fact, Group, PlannedFailover, ResourceVersion, RunRef, SiteName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::MessageId;
use super::names::{Kind, record_name};
use super::subject::message_subject;

/// The longest GTID set that a record message carries, in bytes. A server takes messages of 1 MB by default, and the
/// record has two sets; the API server has the whole record (report B07).
pub const LARGEST_SET_BYTES: usize = 256 * 1024;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The binary that says it, like `fencer`.
    pub source: String,
    /// When it was said, on the sender's wall clock, to the millisecond. For people; nothing is decided by it.
    pub time: Timestamp,
    /// Which run, and which state of it, it speaks of.
    pub about: RunRef,
    /// Which telling of its name it is; see the module `v1`.
    pub attempt: u64,
    /// W3C Trace Context, when the sender traces.
    pub traceparent: Option<String>,
    /// What it says.
    pub payload: Payload,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// What a binary has seen or done.
    Fact(Fact),
    /// What a record asks a binary to do.
    Command(Command),
    /// A record that was committed.
    Record(Box<GroupRecord>),
}

/// A committed record, with what else the status and the annotations say about its run.
///
/// Executors warm up on it and learn that a run has moved on. It proves nothing: whoever acts reads the object first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupRecord {
    /// The version of the object that holds the record.
    pub resource_version: ResourceVersion,
    /// The unique writable site, as the status says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_site: Option<SiteName>,
    /// Whether the confirmed annotation names this run: the claim is released (PF-CLM-06).
    pub confirmed: bool,
    /// The last failover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failover: Option<FailoverRecord>,
    /// The record.
    pub planned_failover: PlannedFailover,
    /// GTID sets that are too long for a message; they are in the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A value that was left out of a message for its length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// Where it belongs, like `plannedFailover.fence.gtidSet`.
    pub field: String,
    /// How long it is.
    pub bytes: u64,
}

impl Message {
    /// What was seen or done.
    pub fn fact(source: &str, time: Timestamp, about: RunRef, attempt: u64, fact: Fact) -> Self {
        Self::new(source, time, about, attempt, Payload::Fact(fact))
    }

    /// What the record asks for. `attempt` counts from 1.
    pub fn command(source: &str, time: Timestamp, about: RunRef, attempt: u64, command: Command) -> Self {
        Self::new(source, time, about, attempt, Payload::Command(command))
    }

    /// The record of the group's latest run; absent when there has been none.
    pub fn record(source: &str, time: Timestamp, group: &Group, attempt: u64) -> Option<Self> {
        let about = RunRef::of(group)?;
        let record = GroupRecord::of(group)?;
        Some(Self::new(
            source,
            time,
            about,
            attempt,
            Payload::Record(Box::new(record)),
        ))
    }

    fn new(source: &str, time: Timestamp, about: RunRef, attempt: u64, payload: Payload) -> Self {
        let mut message = Self {
            source: source.to_owned(),
            time,
            about,
            attempt,
            traceparent: None,
            payload,
        };
        message.traceparent = Some(message.id().traceparent());
        message
    }

    /// What makes two copies the same message.
    pub fn id(&self) -> MessageId {
        MessageId {
            run_id: self.about.run_id,
            revision: self.about.revision,
            name: self.payload.name(),
            attempt: self.attempt,
        }
    }

    /// The subject that it is published to.
    pub fn subject(&self) -> String {
        message_subject(&self.about.group, self.payload.kind(), self.payload.name())
    }
}

impl Payload {
    /// Fact, command or record.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Fact(_) => Kind::Fact,
            Self::Command(_) => Kind::Command,
            Self::Record(_) => Kind::Record,
        }
    }

    /// The name of the fact or command, or the phase of the record.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fact(fact) => fact.name(),
            Self::Command(command) => command.name(),
            Self::Record(record) => record_name(record.planned_failover.phase),
        }
    }
}

impl GroupRecord {
    /// The record of the group's latest run; absent when there has been none.
    pub fn of(group: &Group) -> Option<Self> {
        let run = group.run()?;
        let confirmed = group
            .annotation(CONFIRMED)
            .and_then(|value| RunSince::parse(value).ok());
        let mut record = Self {
            resource_version: group.resource_version.clone(),
            active_site: group.status.active_site.clone(),
            confirmed: confirmed.is_some_and(|confirmed| confirmed.run_id == run.run_id),
            last_failover: group.status.last_failover.clone(),
            planned_failover: run.clone(),
            left_out: Vec::new(),
        };
        record.leave_out_long_sets();
        Some(record)
    }

    fn leave_out_long_sets(&mut self) {
        let fence = self.planned_failover.fence.as_mut().map(|fence| &mut fence.gtid_set);
        let failover = self
            .last_failover
            .as_mut()
            .map(|failover| &mut failover.promotion_gtid_executed);
        let sets = [
            ("plannedFailover.fence.gtidSet", fence),
            ("lastFailover.promotionGtidExecuted", failover),
        ];
        for (field, set) in sets {
            let Some(set) = set else { continue };
            if let Some(long) = set.take_if(|set| set.len() > LARGEST_SET_BYTES) {
                let bytes = u64::try_from(long.len()).unwrap_or(u64::MAX);
                self.left_out.push(LeftOut {
                    field: field.to_owned(),
                    bytes,
                });
            }
        }
    }
}
