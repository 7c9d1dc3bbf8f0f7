//! Which groups have a cache. Without this binary's answer a run with a cache goes on by its `onSyncTimeout`.

use std::collections::BTreeSet;
use std::time::Duration;

use bloodraven_kubernetes::{GroupEvent, watch_groups};
use bloodraven_service::{BoxError, Context};
use bloodraven_worker::{BusOnlyConfig, Wires};
use futures::StreamExt;

const HEARTBEAT: Duration = Duration::from_secs(120);
/// After the first list of groups has had time to come in.
const REPORT: Duration = Duration::from_secs(60);

/// Watches the groups and says which have a cache.
pub(crate) fn spawn(context: &Context<BusOnlyConfig>, wires: &Wires) {
    let ready = context.health.check("groups");
    let heartbeat = context.health.heartbeat("caches", HEARTBEAT);
    let cancel = context.cancel.clone();
    let mut events = Box::pin(watch_groups(wires.client.clone(), wires.namespace.as_deref()));
    context.tasks.spawn_loop("caches", async move {
        let mut with_cache = BTreeSet::new();
        let mut report = tokio::time::interval(REPORT);
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = report.tick() => {
                    heartbeat.beat();
                    if with_cache.is_empty() {
                        tracing::info!("no group has a cache");
                    }
                }
                event = events.next() => match event {
                    Some(GroupEvent::Applied(group)) => {
                        ready.ready();
                        if group.spec.dragonfly.as_ref().is_some_and(|dragonfly| dragonfly.enabled) {
                            if with_cache.insert(group.key.clone()) {
                                tracing::warn!(group = %group.key, "a cache cannot be moved yet: planned failovers follow onSyncTimeout");
                            }
                        } else {
                            with_cache.remove(&group.key);
                        }
                    }
                    Some(GroupEvent::Deleted { key, .. } | GroupEvent::Unreadable { key, .. }) => {
                        with_cache.remove(&key);
                    }
                    None => break,
                },
            }
        }
        Ok::<(), BoxError>(())
    });
}
