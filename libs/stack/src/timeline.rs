//! When a run was in which phase, to the millisecond, as the committed records on the bus say it.

use std::time::{Duration, Instant};

use bloodraven_bus::{BusOptions, Connection, Credentials, connect, read_run};
use bloodraven_lab::Lab;
use bloodraven_messages::latest::{Message, Payload};
use bloodraven_types::words::Phase;
use bloodraven_types::{GroupKey, RunId, Timestamp};
use secrecy::SecretString;

use crate::error::StackError;

/// How long the run's last record may take to reach the stream: its publisher repeats it until it has.
const LAST_RECORD_BUDGET: Duration = Duration::from_secs(15);
/// Pause between two readings of the stream.
const INTERVAL: Duration = Duration::from_millis(100);

/// When a phase began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseTime {
    /// The phase.
    pub phase: Phase,
    /// When the first record in it was announced, to the millisecond.
    pub at: Timestamp,
}

/// What the bus knows of a run.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The phases in the order in which they were entered.
    pub phases: Vec<PhaseTime>,
    /// Every message of the run, in the order of the stream.
    pub messages: Vec<Message>,
}

impl Timeline {
    fn of(messages: Vec<Message>) -> Self {
        let mut phases: Vec<PhaseTime> = Vec::new();
        let mut records: Vec<&Message> = messages.iter().collect();
        // The stream's order is that of arrival; the record's own count is the order of what happened.
        records.sort_by_key(|message| message.about.revision);
        for message in records {
            let Payload::Record(record) = &message.payload else {
                continue;
            };
            let phase = record.planned_failover.phase;
            if phases.iter().all(|known| known.phase != phase) {
                phases.push(PhaseTime {
                    phase,
                    at: message.time,
                });
            }
        }
        Self { phases, messages }
    }

    /// Whether the record of the run's end is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.phases.iter().any(|known| known.phase.is_terminal())
    }

    /// How long it took from one phase to another.
    #[must_use]
    pub fn between(&self, from: Phase, to: Phase) -> Option<Duration> {
        let at = |phase: Phase| {
            self.phases
                .iter()
                .find(|known| known.phase == phase)
                .map(|known| known.at)
        };
        Some(at(to)?.since(at(from)?))
    }
}

/// A connection with the lab's account.
pub(crate) async fn connect_to(lab: &Lab) -> Result<Connection, StackError> {
    let account = &lab.credentials().nats;
    let options = BusOptions {
        urls: lab
            .nats_nodes()
            .iter()
            .map(|node| format!("nats://{}", node.address()))
            .collect(),
        credentials: Some(Credentials {
            user: account.user.clone(),
            password: SecretString::from(account.password.clone()),
        }),
        certificates: None,
        name: "stack".to_owned(),
    };
    Ok(connect(options).await?)
}

/// Reads the run until its last record is there.
pub(crate) async fn read(connection: &Connection, group: &GroupKey, run_id: RunId) -> Result<Timeline, StackError> {
    let started = Instant::now();
    loop {
        let last = match read_run(connection, group, Some(run_id)).await {
            Ok(messages) => {
                let timeline = Timeline::of(messages);
                if timeline.is_complete() {
                    return Ok(timeline);
                }
                format!("{} messages", timeline.messages.len())
            }
            Err(error) if started.elapsed() > LAST_RECORD_BUDGET => return Err(error.into()),
            Err(error) => error.to_string(),
        };
        if started.elapsed() > LAST_RECORD_BUDGET {
            let what = format!("the last record of run {run_id} on the stream");
            return Err(StackError::TimedOut {
                what,
                waited: started.elapsed(),
                last,
            });
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
