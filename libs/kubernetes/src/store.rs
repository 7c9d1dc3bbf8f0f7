//! The group's record on a real API server.

use std::time::Duration;

use bloodraven_crd::{API_GROUP, API_VERSION, KIND, ReadError, read, status_value};
use bloodraven_ports::{AnnotationChanges, Clock, GroupStore, SitesUpdate, StoreError};
use bloodraven_types::{EventReason, Group, GroupKey, GroupStatus, ObjectUid};
use kube::Client;
use serde_json::{Value, json};

use crate::events::EventSink;
use crate::requests::GroupRequests;

/// How often an observation is tried against an object that changes at the same moment.
const SITES_ATTEMPTS: usize = 3;

/// How the store behaves.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How long a read may take.
    pub read_timeout: Duration,
    /// How long a write may take before its result is unknown.
    pub write_timeout: Duration,
    /// Who reports Events, beside the controller's name: the pod or the process.
    pub instance: String,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(10),
            instance: crate::CONTROLLER.to_owned(),
        }
    }
}

/// Reads and writes groups. Clones share connections and the queue of Events.
#[derive(Clone)]
pub struct KubernetesStore {
    requests: GroupRequests,
    events: EventSink,
}

impl KubernetesStore {
    /// A store on this client. It starts one task for Events, so it needs a running tokio runtime.
    pub fn new(client: Client, clock: impl Clock, options: StoreOptions) -> Self {
        Self {
            events: EventSink::start(client.clone(), clock, options.instance),
            requests: GroupRequests {
                client,
                read_timeout: options.read_timeout,
                write_timeout: options.write_timeout,
            },
        }
    }

    /// Waits until the Events emitted so far have been sent or given up, for so long at most; for an orderly end of the
    /// process. Returns whether none is left.
    pub async fn flush_events(&self, within: Duration) -> bool {
        tokio::time::timeout(within, self.events.flush()).await.is_ok()
    }

    /// Makes the first status of a group that has none: a JSON patch has nothing to add to. The version that was read
    /// stands for the uid: no other object ever has it.
    async fn first_sites(&self, group: &Group, update: &SitesUpdate) -> Result<(), StoreError> {
        let body = json!({
            "metadata": { "resourceVersion": group.resource_version },
            "status": { "activeSite": update.active_site, "sites": update.sites },
        });
        let answer = self.requests.merge_status(&group.key, &body).await;
        answer
            .map(drop)
            .map_err(|failure| failure.of_group(&group.key, group.resource_version.as_str()))
    }
}

impl GroupStore for KubernetesStore {
    async fn get(&self, key: &GroupKey) -> Result<Group, StoreError> {
        let object = self
            .requests
            .get(key)
            .await
            .map_err(|failure| failure.of_group(key, ""))?;
        group_of(key, object)
    }

    async fn write_status(&self, group: &Group, status: &GroupStatus) -> Result<Group, StoreError> {
        let key = &group.key;
        if status.planned_failover.is_some() && status.legacy_run.is_some() {
            return Err(malformed(
                key,
                "status.plannedFailover holds a block that is no record of ours; it must be ended before a new run takes its place",
            ));
        }
        let wanted = status_value(status).map_err(|error| malformed(key, error))?;
        let body = json!({
            "apiVersion": format!("{API_GROUP}/{API_VERSION}"),
            "kind": KIND,
            "metadata": {
                "namespace": key.namespace,
                "name": key.name,
                "uid": group.uid,
                "resourceVersion": group.resource_version,
            },
            "status": wanted,
        });
        let committed = self
            .requests
            .put_status(key, &body)
            .await
            .map_err(|failure| failure.of_group(key, group.resource_version.as_str()))?;
        let missing = missing(&wanted, committed.get("status").unwrap_or(&Value::Null), "status");
        if let Some(path) = missing {
            return Err(malformed(
                key,
                format!("{path} was dropped by the API server; apply the definition in k8s/crds of this version"),
            ));
        }
        group_of(key, committed)
    }

    async fn write_annotations(&self, group: &Group, changes: &AnnotationChanges) -> Result<Group, StoreError> {
        let body = json!({
            "metadata": {
                "uid": group.uid,
                "resourceVersion": group.resource_version,
                "annotations": changes,
            },
        });
        let committed = self
            .requests
            .merge(&group.key, &body)
            .await
            .map_err(|failure| failure.of_group(&group.key, group.resource_version.as_str()))?;
        group_of(&group.key, committed)
    }

    async fn write_sites(&self, key: &GroupKey, uid: &ObjectUid, update: &SitesUpdate) -> Result<(), StoreError> {
        let operations = sites_patch(uid, update);
        for _ in 0..SITES_ATTEMPTS {
            let refused = match self.requests.patch_status(key, &operations).await {
                Ok(_) => return Ok(()),
                Err(failure) => failure.of_group(key, ""),
            };
            let StoreError::Refused { code: 422, .. } = refused else {
                return Err(refused);
            };
            // A failed test of the uid and a status that does not exist yet give the same answer; the object tells.
            let object = self
                .requests
                .get(key)
                .await
                .map_err(|failure| failure.of_group(key, ""))?;
            let has_status = object.get("status").is_some();
            let group = group_of(key, object)?;
            if group.uid != *uid {
                return Err(conflict(&group));
            }
            if has_status {
                return Err(refused);
            }
            match self.first_sites(&group, update).await {
                Err(StoreError::Conflict { .. }) => {}
                result => return result,
            }
        }
        Err(StoreError::Ambiguous {
            group: key.to_string(),
            detail: format!("{SITES_ATTEMPTS} attempts met another writer"),
        })
    }

    async fn emit(&self, group: &Group, reason: EventReason, message: &str) {
        self.events.emit(group, reason, message);
    }
}

/// Sets both fields whatever was there: `add` replaces, and `remove` needs something to remove.
fn sites_patch(uid: &ObjectUid, update: &SitesUpdate) -> Value {
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": uid }),
        json!({ "op": "add", "path": "/status/sites", "value": update.sites }),
        json!({ "op": "add", "path": "/status/activeSite", "value": update.active_site }),
    ];
    if update.active_site.is_none() {
        operations.push(json!({ "op": "remove", "path": "/status/activeSite" }));
    }
    Value::Array(operations)
}

fn group_of(key: &GroupKey, object: Value) -> Result<Group, StoreError> {
    read(object).map_err(|error: ReadError| malformed(key, error))
}

fn malformed(key: &GroupKey, detail: impl ToString) -> StoreError {
    StoreError::Malformed {
        group: key.to_string(),
        detail: detail.to_string(),
    }
}

fn conflict(group: &Group) -> StoreError {
    StoreError::Conflict {
        group: group.key.to_string(),
        version: group.resource_version.to_string(),
    }
}

/// The first part of `wanted` that `stored` does not have as it was sent.
fn missing(wanted: &Value, stored: &Value, path: &str) -> Option<String> {
    match (wanted, stored) {
        (Value::Object(wanted), Value::Object(stored)) => wanted.iter().find_map(|(name, value)| {
            let path = format!("{path}.{name}");
            match stored.get(name) {
                Some(found) => missing(value, found, &path),
                None => Some(path),
            }
        }),
        (Value::Array(wanted), Value::Array(stored)) if wanted.len() == stored.len() => wanted
            .iter()
            .zip(stored)
            .enumerate()
            .find_map(|(index, (value, found))| missing(value, found, &format!("{path}[{index}]"))),
        // An empty status may be left out altogether.
        (Value::Object(wanted), Value::Null) if wanted.is_empty() => None,
        (wanted, stored) => (wanted != stored).then(|| path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that the API server dropped or changed is found, however deep; additions of the server are not minded.
    #[test]
    fn dropped_fields_are_found() {
        let wanted = json!({ "a": { "b": [1, { "c": "x" }] }, "d": {} });
        let cases = [
            (
                json!({ "a": { "b": [1, { "c": "x", "more": 1 }] }, "d": {}, "e": 2 }),
                None,
            ),
            (
                json!({ "a": { "b": [1, { "c": "y" }] }, "d": {} }),
                Some("status.a.b[1].c"),
            ),
            (json!({ "a": { "b": [1, {}] }, "d": {} }), Some("status.a.b[1].c")),
            (json!({ "a": { "b": [1] }, "d": {} }), Some("status.a.b")),
            (json!({ "d": {} }), Some("status.a")),
            (Value::Null, Some("status")),
        ];
        for (stored, path) in cases {
            assert_eq!(missing(&wanted, &stored, "status").as_deref(), path, "{stored}");
        }
        assert_eq!(missing(&json!({}), &Value::Null, "status"), None);
    }

    /// An observation without an active site removes it, and every observation is conditioned on the uid.
    #[test]
    fn observations_are_conditioned_on_the_uid() {
        let mut update = SitesUpdate {
            active_site: Some("iad".into()),
            sites: Vec::new(),
        };
        let uid = ObjectUid::new("u-1");
        let operations = |update: &SitesUpdate| -> Vec<String> {
            let patch = sites_patch(&uid, update);
            let list = patch.as_array().unwrap();
            list.iter()
                .map(|one| format!("{} {}", one["op"], one["path"]))
                .collect()
        };
        let set = operations(&update);
        assert_eq!(set[0], r#""test" "/metadata/uid""#);
        assert_eq!(set.len(), 3);
        update.active_site = None;
        assert_eq!(operations(&update)[3], r#""remove" "/status/activeSite""#);
    }
}
