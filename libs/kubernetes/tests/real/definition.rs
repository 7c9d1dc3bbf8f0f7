//! The definition on a real API server.

use bloodraven_crd::StatusBlock;
use bloodraven_ports::{AnnotationChanges, GroupStore};
use bloodraven_types::annotation;
use serde_json::json;

use crate::cluster::{Cluster, EXAMPLE};

const SUCCEEDED: &str = include_str!("../../../crd/tests/golden/status-succeeded.yaml");

/// A real server takes the definition, shows its columns and refuses what the schema forbids, without CEL.
/// spec: PF-SET-01
#[tokio::test]
async fn the_definition_is_served_and_binds() {
    let cluster = Cluster::up("definition").await;
    let key = cluster.create_example();
    let store = cluster.store("admin").await;

    let group = store.get(&key).await.unwrap();
    let status: StatusBlock = serde_saphyr::from_str(SUCCEEDED).unwrap();
    let mut status = status.0;
    status.active_site = Some("pdx".into());
    let committed = store.write_status(&group, &status).await.unwrap();
    assert_eq!(committed.status, status);

    let table = cluster.kubectl(&["get", "mfg"], None).unwrap();
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "ACTIVE", "PHASE", "OUTCOME", "AGE"]);
    assert_eq!(lines[1][..4], ["orders", "pdx", "Succeeded", "Succeeded"]);

    let forbidden = [
        ("onCooldown: Reject", "onCooldown: Perhaps", "onCooldown"),
        ("maxLagWait: 5m", "maxLagWait: soon", "maxLagWait"),
        ("maxLagWait: 5m", "maxLagWait: 300", "maxLagWait"),
        ("drainTimeout: 30s", "drainTimeout: -30s", "drainTimeout"),
        ("lbIP: 192.0.2.10", "lbIP: here", "lbIP"),
        ("name: pdx", "name: iad", "Duplicate value"),
        ("name: pdx", "name: PDX", "name"),
        ("role: DisasterRecovery", "role: dr-only", "role"),
        ("ttl: 60", "ttl: 0", "ttl"),
    ];
    for (sound, broken, field) in forbidden {
        let manifest = EXAMPLE.replace(sound, broken).replace("name: orders", "name: broken");
        let refusal = cluster
            .kubectl(&["create", "--validate=false"], Some(&manifest))
            .unwrap_err();
        assert!(
            refusal.contains(field) && refusal.contains("nvalid"),
            "{broken}: {refusal}"
        );
    }
}

/// A block of an older operator neither hides its group nor blocks writes beside it, is kept by them, and gives way only
/// to a write that has left it out on purpose. spec: PF-DUR-10
#[tokio::test]
async fn an_older_block_stays_until_it_is_ended() {
    let cluster = Cluster::up("legacy").await;
    let key = cluster.create_example();
    let store = cluster.store("admin").await;
    let older = json!({ "phase": "Draining", "target": "pdx", "sourceGtidAtFence": "", "onSyncTimeout": 3 });
    let group = store.get(&key).await.unwrap();
    let mut status = group.status.clone();
    status.legacy_run = Some(older.clone());
    let group = store.write_status(&group, &status).await.unwrap();
    assert_eq!(group.status.legacy_run, Some(older.clone()));

    let changes = AnnotationChanges::from([(annotation::PLANNED_FAILOVER.to_owned(), Some("pdx".to_owned()))]);
    let group = store.write_annotations(&group, &changes).await.unwrap();
    let mut status = group.status.clone();
    status.active_site = Some("iad".into());
    let group = store.write_status(&group, &status).await.unwrap();
    assert_eq!(group.status.legacy_run, Some(older));

    let ours: StatusBlock = serde_saphyr::from_str(SUCCEEDED).unwrap();
    status.planned_failover = ours.0.planned_failover;
    let refusal = store.write_status(&group, &status).await.unwrap_err().to_string();
    assert!(refusal.contains("must be ended"), "{refusal}");
    status.legacy_run = None;
    let group = store.write_status(&group, &status).await.unwrap();
    assert!(group.run().is_some() && group.status.legacy_run.is_none());
}
