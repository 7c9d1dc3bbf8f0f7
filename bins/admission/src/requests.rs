//! Watching groups for annotations, and telling what they ask for.
//!
//! A request is told when it is seen and again while it stands unanswered: the record keeper judges it against its own
//! uncached read, so a request told twice is judged twice and begins once.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_kubernetes::{GroupEvent, watch_groups};
use bloodraven_ports::Bus;
use bloodraven_service::{BoxError, Context, IdSource};
use bloodraven_types::annotation::{self, PlannedFailoverRequest};
use bloodraven_types::fact::{Cancelled, Requested};
use bloodraven_types::{Fact, Group, GroupKey, Phase, Revision, RunId, RunRef};
use bloodraven_worker::{BusOnlyConfig, Wires};
use futures::StreamExt;

/// How often a request that still stands is told again.
const REMINDER: Duration = Duration::from_secs(2);
const HEARTBEAT: Duration = Duration::from_secs(60);

/// A request as it was told: the id stays the same for as long as the same value stands on the same object.
struct Told {
    value: String,
    about: RunRef,
}

struct Requests {
    bus: bloodraven_bus::NatsBus<bloodraven_service::SystemClock>,
    ids: IdSource,
    told: BTreeMap<GroupKey, Told>,
    groups: BTreeMap<GroupKey, Group>,
}

/// Watches the groups.
pub(crate) fn spawn(context: &Context<BusOnlyConfig>, wires: &Wires) {
    let ready = context.health.check("groups");
    let heartbeat = context.health.heartbeat("requests", HEARTBEAT);
    let cancel = context.cancel.clone();
    let mut events = Box::pin(watch_groups(wires.client.clone(), wires.namespace.as_deref()));
    let mut requests = Requests {
        bus: wires.bus.clone(),
        ids: context.ids,
        told: BTreeMap::new(),
        groups: BTreeMap::new(),
    };
    context.tasks.spawn_loop("requests", async move {
        let mut reminder = tokio::time::interval(REMINDER);
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = reminder.tick() => {
                    heartbeat.beat();
                    requests.remind().await;
                }
                event = events.next() => match event {
                    Some(GroupEvent::Applied(group)) => {
                        ready.ready();
                        requests.seen(*group).await;
                    }
                    Some(GroupEvent::Deleted { key, .. }) => {
                        requests.told.remove(&key);
                        requests.groups.remove(&key);
                    }
                    Some(GroupEvent::Unreadable { key, problem }) => {
                        tracing::warn!(group = %key, problem, "a group cannot be read; its annotations wait");
                    }
                    None => break,
                },
            }
        }
        Ok::<(), BoxError>(())
    });
}

impl Requests {
    /// Only news is told at once: a group changes many times while a request of it stands.
    async fn seen(&mut self, group: Group) {
        let news = self.groups.get(&group.key).is_none_or(|known| {
            let asked = |group: &Group| group.annotation(annotation::PLANNED_FAILOVER).map(str::to_owned);
            asked(known) != asked(&group) || known.uid != group.uid
        });
        if news {
            self.tell(&group).await;
        }
        self.groups.insert(group.key.clone(), group);
    }

    async fn remind(&mut self) {
        let standing: Vec<Group> = self.groups.values().cloned().collect();
        for group in standing {
            self.tell(&group).await;
        }
    }

    async fn tell(&mut self, group: &Group) {
        match group.annotation(annotation::PLANNED_FAILOVER) {
            Some(value) => self.requested(group, value.to_owned()).await,
            None => {
                self.told.remove(&group.key);
                self.cancelled(group).await;
            }
        }
    }

    async fn requested(&mut self, group: &Group, value: String) {
        let same = self
            .told
            .get(&group.key)
            .is_some_and(|told| told.value == value && told.about.uid == group.uid);
        if !same {
            let about = RunRef {
                group: group.key.clone(),
                uid: group.uid.clone(),
                run_id: RunId::new(self.ids.fresh()),
                revision: Revision::default(),
                epoch: group.epoch(),
            };
            match PlannedFailoverRequest::parse(&value) {
                Ok(request) => {
                    tracing::info!(group = %group.key, run = %about.run_id, request = %request, "a planned failover is asked for")
                }
                Err(error) => tracing::warn!(group = %group.key, %error, "an annotation cannot be read; it is refused"),
            }
            self.told.insert(
                group.key.clone(),
                Told {
                    value: value.clone(),
                    about,
                },
            );
        }
        let Some(told) = self.told.get(&group.key) else { return };
        if let Err(error) = self.bus.tell(&told.about, Fact::Requested(Requested { value })).await {
            tracing::warn!(group = %group.key, %error, "a request was not told; it is told again");
        }
    }

    /// A deferred request whose annotation was removed is cancelled (PF-REQ-07).
    async fn cancelled(&self, group: &Group) {
        let deferred = group.run().is_some_and(|run| run.phase == Phase::Deferred);
        let (true, Some(about)) = (deferred, RunRef::of(group)) else {
            return;
        };
        if let Err(error) = self.bus.tell(&about, Fact::Cancelled(Cancelled {})).await {
            tracing::warn!(group = %group.key, %error, "a cancellation was not told; it is told again");
        }
    }
}
