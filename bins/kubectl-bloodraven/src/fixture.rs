//! Groups for tests, as an API server would send them.

use bloodraven_types::annotation::{PLANNED_FAILOVER, TERMINAL};
use bloodraven_types::{Group, Timestamp};
use serde_json::{Value, json};

use crate::render::Seen;

/// The run of every fixture.
pub(crate) const RUN: &str = "6f1c2a4e-4b7d-4a1f-9a0e-2d5b8c3f7e10";

/// A stored group that tests change before they read it.
#[derive(Clone, Debug)]
pub(crate) struct Fixture(Value);

/// The moment at which everything is rendered.
pub(crate) fn now() -> Timestamp {
    "2026-04-20T14:40:00Z".parse().unwrap()
}

impl Fixture {
    /// Three sites, iad active, no run.
    pub(crate) fn idle() -> Self {
        let site = |name: &str, role: &str, address: &str| json!({ "name": name, "role": role, "host": format!("mysql-orders-{name}-internal"), "lbIP": address });
        Self(json!({
            "apiVersion": "shipstream.io/v1alpha1",
            "kind": "MysqlFailoverGroup",
            "metadata": {
                "name": "orders",
                "namespace": "default",
                "uid": "0d9a3f0a-5f0e-4a52-8a4a-7c4b0f1f2a11",
                "resourceVersion": "1000",
                "creationTimestamp": "2026-04-17T10:00:00Z",
                "annotations": {},
            },
            "spec": {
                "sites": [
                    site("iad", "PrimaryCandidate", "198.51.100.10"),
                    site("pdx", "PrimaryCandidate", "198.51.100.20"),
                    site("ord", "DisasterRecovery", "198.51.100.30"),
                ],
                "dns": { "hostname": "orders-db.example.com" },
            },
            "status": {
                "activeSite": "iad",
                "sites": [
                    {
                        "name": "iad", "state": "writable", "lastSeen": "2026-04-20T14:39:59Z",
                        "serverUUID": "3e11fa47-71ca-11e1-9e33-c80aa9429562",
                        "gtidExecuted": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9182731",
                    },
                    {
                        "name": "pdx", "state": "read-only", "lastSeen": "2026-04-20T14:39:59Z", "replicating": true,
                        "secondsBehindSource": 0, "sourceHost": "mysql-orders-iad-internal:3306",
                        "sourceConvergenceState": "Converged", "sourceConvergenceReason": "DirectSource",
                        "serverUUID": "7a1d0c22-71ca-11e1-9e33-c80aa9429562",
                    },
                    {
                        "name": "ord", "state": "unreachable", "lastSeen": "2026-04-20T14:35:30Z",
                        "sourceHost": "mysql-orders-iad-internal:3306",
                        "message": "ord does not answer: connection refused",
                    },
                ],
                "lastFailover": { "time": "2026-04-19T09:10:44Z", "target": "iad" },
            },
        }))
    }

    /// The run of the reference's example, ended well.
    pub(crate) fn succeeded() -> Self {
        let mut fixture = Self::running("Succeeded");
        fixture.0["status"]["activeSite"] = json!("pdx");
        fixture.0["status"]["lastFailover"] = json!({ "time": "2026-04-20T14:32:09Z", "target": "pdx" });
        fixture.run(json!({
            "revision": 10,
            "lagWait": { "startTime": "2026-04-20T14:32:03Z", "catchUpTime": "2026-04-20T14:32:04Z" },
            "dragonfly": {
                "syncWaitStartTime": "2026-04-20T14:32:04Z", "sourceOffsetState": "Captured", "sourceOffset": 81723,
                "syncWaitSeconds": 3, "sessions": "Preserved",
                "takeover": {
                    "state": "Succeeded", "intentTime": "2026-04-20T14:32:07Z", "completionTime": "2026-04-20T14:32:08Z",
                    "method": "ReplTakeover", "targetOffset": 81723,
                },
            },
            "promotion": {
                "state": "Confirmed", "intentTime": "2026-04-20T14:32:08Z",
                "targetServerUUID": "7a1d0c22-71ca-11e1-9e33-c80aa9429562", "confirmationTime": "2026-04-20T14:32:09Z",
            },
            "dns": { "state": "Applied", "attemptTime": "2026-04-20T14:32:09Z" },
            "result": {
                "outcome": "Succeeded", "completionTime": "2026-04-20T14:32:10Z", "warnings": ["UnreachablePeers"],
            },
            "message": "promoted \"pdx\"",
        }))
    }

    /// A run in a phase after the drain.
    pub(crate) fn running(phase: &str) -> Self {
        Self::admitting(phase).run(json!({
            "revision": 5,
            "sourceSite": "iad",
            "claimTime": "2026-04-20T14:32:01Z",
            "claimBaseline": { "time": "2026-04-19T09:10:44Z", "target": "iad" },
            "fence": {
                "state": "Applied", "intentTime": "2026-04-20T14:32:01Z", "applyTime": "2026-04-20T14:32:01Z",
                "sourceServerUUID": "3e11fa47-71ca-11e1-9e33-c80aa9429562",
                "gtidSet": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9182731",
            },
            "drain": {
                "startTime": "2026-04-20T14:32:01Z", "completionTime": "2026-04-20T14:32:03Z", "remainingConnections": 0,
            },
            "lagWait": { "startTime": "2026-04-20T14:32:03Z" },
        }))
    }

    /// A run that owns nothing yet.
    pub(crate) fn admitting(phase: &str) -> Self {
        let mut fixture = Self::idle();
        fixture.0["status"]["plannedFailover"] = json!({
            "runID": RUN,
            "revision": 1,
            "phase": phase,
            "targetSite": "pdx",
            "settings": { "maxLagWait": "5m0s", "drainTimeout": "30s" },
            "startTime": "2026-04-20T14:32:00Z",
            "admission": { "deadlineTime": "2026-04-20T14:34:00Z" },
        });
        fixture
    }

    /// Changes fields of the run.
    pub(crate) fn run(self, fields: Value) -> Self {
        self.merge("plannedFailover", fields)
    }

    /// Changes fields of a field of the status.
    pub(crate) fn merge(mut self, field: &str, fields: Value) -> Self {
        for (key, value) in fields.as_object().unwrap() {
            self.0["status"][field][key] = value.clone();
        }
        self
    }

    /// Sets a field of the status.
    pub(crate) fn status(mut self, field: &str, value: Value) -> Self {
        self.0["status"][field] = value;
        self
    }

    /// Sets the request.
    pub(crate) fn request(mut self, value: &str) -> Self {
        self.0["metadata"]["annotations"][PLANNED_FAILOVER] = json!(value);
        self
    }

    /// Ends the run by a terminal marker.
    pub(crate) fn marker(mut self, outcome: &str, reason: &str) -> Self {
        let payload = json!({
            "schemaVersion": 1, "runID": RUN, "outcome": outcome, "reason": reason, "warnings": ["StatusStalled"],
        });
        self.0["metadata"]["annotations"][TERMINAL] = json!(payload.to_string());
        self
    }

    /// The hold of a run that ended in a way that it could not explain.
    pub(crate) fn held(self) -> Self {
        self.run(json!({ "result": {
            "outcome": "ManualRecoveryRequired", "reason": "ForeignWritable", "completionTime": "2026-04-20T14:32:12Z",
        }}))
        .run(json!({ "phase": "Failed" }))
        .status(
            "plannedFailoverHold",
            json!({
                "runID": RUN, "reason": "ForeignWritable", "sourceSite": "iad", "targetSite": "pdx",
                "ambiguousSites": ["pdx", "iad", "ord"], "holdTime": "2026-04-20T14:32:12Z",
            }),
        )
        .status(
            "conditions",
            json!([{
                "type": "AutomaticFailoverHeld", "status": "True", "reason": "PlannedFailoverManualRecoveryRequired",
                "message": "ord is writable beside pdx", "lastTransitionTime": "2026-04-20T14:32:12Z",
            }]),
        )
    }

    /// Renames the group.
    pub(crate) fn named(mut self, namespace: &str, name: &str) -> Self {
        self.0["metadata"]["namespace"] = json!(namespace);
        self.0["metadata"]["name"] = json!(name);
        self
    }

    /// The stored object.
    pub(crate) fn value(&self) -> Value {
        self.0.clone()
    }

    /// The group.
    pub(crate) fn group(&self) -> Group {
        bloodraven_crd::read(self.value()).unwrap()
    }

    /// The group as the renderer wants it.
    pub(crate) fn seen(&self) -> Seen {
        crate::api::seen(self.value()).unwrap()
    }
}
