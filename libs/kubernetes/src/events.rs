//! Kubernetes Events: best effort, in the background, repeated ones counted (PF-DUR-13).

use std::collections::HashMap;
use std::time::Duration;

use bloodraven_crd::{API_GROUP, API_VERSION, KIND};
use bloodraven_ports::Clock;
use bloodraven_types::{EventReason, Group, GroupKey, ObjectUid, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::CONTROLLER;

/// How many Events may wait; more are dropped, since a queue that grows helps nobody when the API server is slow.
const QUEUE: usize = 256;
/// How many Events are remembered for counting.
const REMEMBERED: usize = 1024;
/// Within this time after the last one, the same reason and message of the same group is the same Event again.
const WINDOW: Duration = Duration::from_secs(60);
/// How long sending one Event may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest note that the API server takes, in bytes.
const NOTE_LENGTH: usize = 1024;
/// The longest name of an object, less the dot and the 32 digits that make an Event's name unique.
const NAME_LENGTH: usize = 253 - 33;
/// What the controller was doing.
const ACTION: &str = "PlannedFailover";

/// Where Events are put. Clones share one queue.
#[derive(Clone)]
pub(crate) struct EventSink {
    queue: mpsc::Sender<Item>,
}

enum Item {
    Emitted(Emitted),
    Flush(oneshot::Sender<()>),
}

/// What makes two Events the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Same {
    uid: ObjectUid,
    reason: EventReason,
    note: String,
}

struct Emitted {
    key: GroupKey,
    resource_version: String,
    same: Same,
}

/// An Event that was sent.
struct Sent {
    name: String,
    count: i32,
    last: Duration,
}

/// What to do with one more Event.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It is new.
    Create,
    /// It is that one again, for the so-manieth time.
    Count(String, i32),
}

/// The Events of the last minute.
#[derive(Default)]
struct Memory {
    sent: HashMap<Same, Sent>,
}

struct Worker<C> {
    client: Client,
    clock: C,
    instance: String,
    memory: Memory,
    number: u64,
}

impl EventSink {
    /// Starts the task that sends; it ends with the last sink.
    pub(crate) fn start(client: Client, clock: impl Clock, instance: String) -> Self {
        let (queue, items) = mpsc::channel(QUEUE);
        let worker = Worker {
            client,
            clock,
            instance,
            memory: Memory::default(),
            number: 0,
        };
        tokio::spawn(worker.run(items));
        Self { queue }
    }

    /// Queues an Event, or drops it when the queue is full.
    pub(crate) fn emit(&self, group: &Group, reason: EventReason, message: &str) {
        let emitted = Emitted {
            key: group.key.clone(),
            resource_version: group.resource_version.to_string(),
            same: Same {
                uid: group.uid.clone(),
                reason,
                note: shortened(message, NOTE_LENGTH).to_owned(),
            },
        };
        if self.queue.try_send(Item::Emitted(emitted)).is_err() {
            tracing::warn!(group = %group.key, %reason, message, "Event dropped: too many are waiting to be sent");
        }
    }

    /// Waits until everything queued so far was sent or given up.
    pub(crate) async fn flush(&self) {
        let (done, waiting) = oneshot::channel();
        if self.queue.send(Item::Flush(done)).await.is_ok() {
            // The worker ends only with the runtime, and then nobody waits.
            let _ = waiting.await;
        }
    }
}

impl<C: Clock> Worker<C> {
    async fn run(mut self, mut items: mpsc::Receiver<Item>) {
        while let Some(item) = items.recv().await {
            match item {
                Item::Emitted(emitted) => self.send(emitted).await,
                Item::Flush(done) => {
                    // Whoever asked may have stopped waiting.
                    let _ = done.send(());
                }
            }
        }
    }

    async fn send(&mut self, emitted: Emitted) {
        let now = self.clock.now();
        let step = self.memory.step(&emitted.same, self.clock.monotonic());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &emitted.key.namespace);
        let attempt = async {
            match &step {
                Step::Create => {
                    let event = self.event(&emitted, now);
                    let name = event.metadata.name.clone().unwrap_or_default();
                    api.create(&PostParams::default(), &event).await.map(|_| (name, 1))
                }
                Step::Count(name, count) => {
                    let patch = json!({ "series": { "count": count, "lastObservedTime": MicroTime(now.inner()) } });
                    let answer = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
                    answer.map(|_| (name.clone(), *count))
                }
            }
        };
        let result = tokio::time::timeout(SEND_TIMEOUT, attempt).await;
        self.number += 1;
        let problem = match result {
            Ok(Ok((name, count))) => {
                self.memory.sent(emitted.same, name, count, self.clock.monotonic());
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {SEND_TIMEOUT:?}"),
        };
        let Same { reason, note, .. } = emitted.same;
        tracing::warn!(group = %emitted.key, %reason, note, problem, "Event could not be sent");
    }

    fn event(&self, emitted: &Emitted, now: Timestamp) -> Event {
        let Emitted {
            key,
            resource_version,
            same,
        } = emitted;
        let nanoseconds = now.inner().as_nanosecond();
        let name = format!(
            "{}.{nanoseconds:016x}{:016x}",
            shortened(&key.name, NAME_LENGTH),
            self.number
        );
        Event {
            metadata: ObjectMeta {
                namespace: Some(key.namespace.clone()),
                name: Some(name),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now.inner())),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(shortened(&self.instance, 128).to_owned()),
            action: Some(ACTION.to_owned()),
            reason: Some(same.reason.to_string()),
            note: Some(same.note.clone()),
            type_: Some(if same.reason.is_warning() { "Warning" } else { "Normal" }.to_owned()),
            regarding: Some(ObjectReference {
                api_version: Some(format!("{API_GROUP}/{API_VERSION}")),
                kind: Some(KIND.to_owned()),
                namespace: Some(key.namespace.clone()),
                name: Some(key.name.clone()),
                uid: Some(same.uid.to_string()),
                resource_version: Some(resource_version.clone()),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }
}

impl Memory {
    fn step(&mut self, same: &Same, now: Duration) -> Step {
        self.sent.retain(|_, sent| now.saturating_sub(sent.last) < WINDOW);
        match self.sent.get(same) {
            Some(sent) => Step::Count(sent.name.clone(), sent.count.saturating_add(1)),
            None => Step::Create,
        }
    }

    fn sent(&mut self, same: Same, name: String, count: i32, now: Duration) {
        if self.sent.len() < REMEMBERED || self.sent.contains_key(&same) {
            self.sent.insert(same, Sent { name, count, last: now });
        }
    }
}

/// The longest start of `text` that has at most so many bytes.
fn shortened(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(note: &str) -> Same {
        Same {
            uid: ObjectUid::new("u-1"),
            reason: EventReason::PlannedFailoverRejected,
            note: note.to_owned(),
        }
    }

    /// The same reason and message within a minute is counted; another message or a later minute is a new Event.
    /// spec: PF-DUR-13
    #[test]
    fn repeated_events_are_counted() {
        let mut memory = Memory::default();
        let at = Duration::from_secs;
        assert_eq!(memory.step(&same("a"), at(0)), Step::Create);
        memory.sent(same("a"), "e1".to_owned(), 1, at(0));
        assert_eq!(memory.step(&same("a"), at(59)), Step::Count("e1".to_owned(), 2));
        memory.sent(same("a"), "e1".to_owned(), 2, at(59));
        assert_eq!(memory.step(&same("b"), at(60)), Step::Create);
        assert_eq!(memory.step(&same("a"), at(118)), Step::Count("e1".to_owned(), 3));
        assert_eq!(memory.step(&same("a"), at(119)), Step::Create);
    }

    /// The memory of sent Events is bounded.
    #[test]
    fn the_memory_is_bounded() {
        let mut memory = Memory::default();
        for number in 0..REMEMBERED + 10 {
            memory.sent(same(&number.to_string()), "e".to_owned(), 1, Duration::ZERO);
        }
        assert_eq!(memory.sent.len(), REMEMBERED);
    }

    /// A long message is cut between characters.
    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(shortened("aéé", 4), "aé");
        assert_eq!(shortened("short", 1024), "short");
    }
}
