//! Which groups there are: one task a group, made anew when its spec changes.

use std::collections::HashMap;
use std::time::Duration;

use bloodraven_kubernetes::{GroupEvent, watch_groups};
use bloodraven_service::{BoxError, Context};
use bloodraven_types::{Group, GroupKey};
use bloodraven_worker::{DatabaseConfig, DatabaseHands, Wires};
use futures::StreamExt;
use tokio::sync::watch;

use crate::group;

const HEARTBEAT: Duration = Duration::from_secs(60);

/// Watches the groups.
pub(crate) fn spawn(context: &Context<DatabaseConfig>, wires: &Wires, hands: DatabaseHands) {
    let ready = context.health.check("groups");
    let heartbeat = context.health.heartbeat("groups", HEARTBEAT);
    let cancel = context.cancel.clone();
    let tasks = context.tasks.clone();
    let mut events = Box::pin(watch_groups(wires.client.clone(), wires.namespace.as_deref()));
    context.tasks.spawn_loop("groups", async move {
        let mut groups: HashMap<GroupKey, watch::Sender<Group>> = HashMap::new();
        loop {
            let event = heartbeat
                .idle(cancel.run_until_cancelled(events.next()))
                .await
                .flatten();
            match event {
                Some(GroupEvent::Applied(group)) => {
                    ready.ready();
                    let same = groups.get(&group.key).is_some_and(|known| {
                        let known = known.borrow();
                        known.uid == group.uid && known.spec == group.spec
                    });
                    match groups.get(&group.key).filter(|_| same) {
                        Some(known) => {
                            known.send_replace(*group);
                        }
                        None => {
                            // Dropping the former sender ends the former tasks; the new ones begin with what is known now.
                            let (sender, receiver) = watch::channel((*group).clone());
                            groups.insert(group.key.clone(), sender);
                            group::spawn(&tasks, hands.clone(), receiver, cancel.child_token());
                        }
                    }
                }
                Some(GroupEvent::Deleted { key, .. }) => {
                    groups.remove(&key);
                }
                Some(GroupEvent::Unreadable { key, problem }) => {
                    tracing::warn!(group = %key, problem, "a group cannot be read; what is known of it stays");
                }
                None => break,
            }
        }
        Ok::<(), BoxError>(())
    });
}
