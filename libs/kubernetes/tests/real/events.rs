//! Events on a real API server.

use std::time::{Duration, Instant};

use bloodraven_lab::ProcessName;
use bloodraven_ports::GroupStore;
use bloodraven_types::EventReason;

use crate::cluster::Cluster;

/// Events stand on the group as kubectl shows it; the same one again within a minute is counted, not repeated.
/// spec: PF-DUR-13
#[tokio::test]
async fn events_are_shown_and_counted() {
    let cluster = Cluster::up("events").await;
    let key = cluster.create_example();
    let store = cluster.store("bloodraven-status-writer").await;
    let group = store.get(&key).await.unwrap();
    for _ in 0..3 {
        store
            .emit(&group, EventReason::PlannedFailoverRejected, "no such site")
            .await;
    }
    store.emit(&group, EventReason::PlannedFailoverStarted, "to pdx").await;
    assert!(store.flush_events(Duration::from_secs(20)).await);

    let events = cluster.json(&["get", "events.v1.events.k8s.io"]);
    let mut shown: Vec<(&str, &str, &str, i64)> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            assert_eq!(event["regarding"]["uid"], group.uid.as_str());
            assert_eq!(event["reportingController"], "bloodraven");
            let text = |field: &str| event[field].as_str().unwrap();
            let count = event["series"]["count"].as_i64().unwrap_or(1);
            (text("type"), text("reason"), text("note"), count)
        })
        .collect();
    shown.sort_unstable();
    assert_eq!(
        shown,
        [
            ("Normal", "PlannedFailoverStarted", "to pdx", 1),
            ("Warning", "PlannedFailoverRejected", "no such site", 3),
        ]
    );
    let description = cluster.kubectl(&["describe", "mfg", "orders"], None).unwrap();
    assert!(description.contains("PlannedFailoverRejected"), "{description}");
}

/// A server that takes no Events holds nobody up: a thousand are taken or dropped at once. spec: PF-DUR-13
#[tokio::test]
async fn a_stuck_server_holds_nobody_up() {
    let cluster = Cluster::up("stuck-events").await;
    let key = cluster.create_example();
    let store = cluster.store("bloodraven-status-writer").await;
    let group = store.get(&key).await.unwrap();
    cluster.lab.pause(&ProcessName::KubeApiserver).await.unwrap();
    let started = Instant::now();
    for number in 0..1000 {
        store
            .emit(&group, EventReason::PlannedFailoverFailed, &number.to_string())
            .await;
    }
    assert!(!store.flush_events(Duration::from_millis(100)).await);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    cluster.lab.resume(&ProcessName::KubeApiserver).await.unwrap();
}
