//! The status reads and writes as the interface shows it, also where something older wrote it.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use bloodraven_crd::{StatusBlock, read, status_value};
use bloodraven_types::Phase;
use serde_json::{Value, json};

fn golden() -> Value {
    serde_saphyr::from_str(include_str!("golden/status-succeeded.yaml")).unwrap()
}

fn object(status: &Value) -> Value {
    json!({
        "apiVersion": "shipstream.io/v1alpha1",
        "kind": "MysqlFailoverGroup",
        "metadata": { "namespace": "default", "name": "orders", "uid": "u-1", "resourceVersion": "7" },
        "spec": { "sites": [
            { "name": "iad", "role": "PrimaryCandidate", "host": "mysql-orders-iad" },
            { "name": "pdx", "role": "PrimaryCandidate", "host": "mysql-orders-pdx" },
        ]},
        "status": status,
    })
}

/// The example of a succeeded run reads as our record and is written back with the same fields and values.
/// spec: PF-OBS-06
#[test]
fn the_succeeded_example_round_trips() {
    let status: StatusBlock = serde_json::from_value(golden()).unwrap();
    assert_eq!(status.0.planned_failover.as_ref().unwrap().phase, Phase::Succeeded);
    assert_eq!(status.0.legacy_run, None);
    assert_eq!(status_value(&status.0).unwrap(), golden());
}

/// A block without run id, or with a phase that no longer exists, leaves the group readable and is written back as it
/// was. spec: PF-DUR-10
#[test]
fn an_older_block_does_not_hide_the_group() {
    let older = [
        json!({ "phase": "Draining", "target": "pdx", "sourcePrimary": "iad" }),
        json!({ "phase": "Resuming", "target": "pdx", "startTime": "2026-04-20T14:32:00Z" }),
        json!({ "runID": "6f1c2a4e-4b7d-4a1f-9a0e-2d5b8c3f7e10", "phase": "Validating" }),
    ];
    for block in older {
        let status = json!({ "activeSite": "iad", "plannedFailover": block });
        let group = read(object(&status)).unwrap();
        assert_eq!(group.status.active_site, Some("iad".into()));
        assert_eq!(group.status.planned_failover, None);
        assert_eq!(group.status.legacy_run, Some(block));
        assert_eq!(status_value(&group.status).unwrap(), status);
    }
}

/// A run of ours takes the place of an older block.
#[test]
fn a_run_of_ours_replaces_an_older_block() {
    let ours: StatusBlock = serde_json::from_value(golden()).unwrap();
    let mut status = ours.0;
    status.legacy_run = Some(json!({ "phase": "Pending" }));
    assert_eq!(status_value(&status).unwrap(), golden());
}

/// A spec that leaves out everything optional has the documented defaults. spec: PF-SET-01
#[test]
fn absent_settings_have_their_defaults() {
    let group = read(object(&json!({}))).unwrap();
    let spec = &group.spec;
    let durations = [
        spec.planned_failover.max_lag_wait,
        spec.planned_failover.drain_timeout,
        spec.failover_cooldown,
        spec.poll_interval,
    ]
    .map(|span| span.get().as_secs());
    assert_eq!(durations, [300, 30, 300, 1]);
    assert_eq!(spec.planned_failover.on_cooldown.as_str(), "Reject");
    assert_eq!((spec.failure_threshold, spec.recovery_threshold), (3, 2));
    assert_eq!(spec.sites[0].port, 3306);
    assert_eq!(group.key.to_string(), "default/orders");
}

/// What cannot be read is named by its path.
#[test]
fn unreadable_fields_are_named() {
    let mut object = object(&json!({}));
    object["spec"]["plannedFailover"] = json!({ "maxLagWait": "soon" });
    let error = read(object.clone()).unwrap_err().to_string();
    assert!(
        error.starts_with("spec.plannedFailover.maxLagWait: ") && error.contains("\"soon\""),
        "{error}"
    );
    object["spec"]["plannedFailover"] = json!({});
    object["metadata"].as_object_mut().unwrap().remove("uid");
    assert!(read(object).unwrap_err().to_string().contains("metadata.uid"));
}
