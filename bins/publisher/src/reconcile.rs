//! The level-triggered half: whenever a group changes, and every so often, labels and DNS are made what its record says.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_executor::publish;
use bloodraven_kubernetes::{GroupEvent, KubernetesPublication, watch_groups};
use bloodraven_service::{BoxError, Context};
use bloodraven_types::{Group, GroupKey};
use bloodraven_worker::{BusOnlyConfig, Wires};
use futures::StreamExt;

/// Repairs what somebody else changed, and what failed.
const REPAIR: Duration = Duration::from_secs(10);
const DNS_FLIPS: &str = "bloodraven_dns_flips_total";
const HEARTBEAT: Duration = Duration::from_secs(60);

pub(crate) fn describe() {
    metrics::describe_counter!(
        DNS_FLIPS,
        "Changes of a group's DNS record, by the site it was moved to."
    );
}

/// Watches the groups and publishes each as it changes.
pub(crate) fn spawn(context: &Context<BusOnlyConfig>, wires: &Wires, publication: KubernetesPublication) {
    let ready = context.health.check("groups");
    let heartbeat = context.health.heartbeat("reconcile", HEARTBEAT);
    let cancel = context.cancel.clone();
    let mut events = Box::pin(watch_groups(wires.client.clone(), wires.namespace.as_deref()));
    context.tasks.spawn_loop("reconcile", async move {
        let mut groups: BTreeMap<GroupKey, Group> = BTreeMap::new();
        let mut repair = tokio::time::interval(REPAIR);
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = repair.tick() => {
                    heartbeat.beat();
                    for group in groups.values() {
                        reconcile(&publication, group).await;
                    }
                }
                event = events.next() => match event {
                    Some(GroupEvent::Applied(group)) => {
                        ready.ready();
                        reconcile(&publication, &group).await;
                        groups.insert(group.key.clone(), *group);
                    }
                    Some(GroupEvent::Deleted { key, .. }) => {
                        groups.remove(&key);
                    }
                    Some(GroupEvent::Unreadable { key, problem }) => {
                        tracing::warn!(group = %key, problem, "a group cannot be read; its labels stay as they are");
                    }
                    None => break,
                },
            }
        }
        Ok::<(), BoxError>(())
    });
}

async fn reconcile(publication: &KubernetesPublication, group: &Group) {
    let reconciled = publish::reconcile(publication, group).await;
    if let Some(site) = &reconciled.dns {
        metrics::counter!(DNS_FLIPS, "site" => site.to_string()).increment(1);
        tracing::info!(group = %group.key, %site, "DNS reconciled to active site");
    }
    if reconciled.pods > 0 {
        tracing::info!(group = %group.key, pods = reconciled.pods, "role labels moved");
    }
    for error in &reconciled.errors {
        tracing::warn!(group = %group.key, error, "publication is incomplete; it is tried again");
    }
}
