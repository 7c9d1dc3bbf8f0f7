//! What the store says when the API server does not answer.

use std::time::{Duration, Instant};

use bloodraven_lab::ProcessName;
use bloodraven_ports::{GroupStore, StoreError};
use bloodraven_types::group::ClaimStatus;
use bloodraven_types::{Epoch, Group, GroupStatus};

use crate::cluster::{Cluster, until};

fn status(group: &Group) -> GroupStatus {
    let mut status = group.status.clone();
    status.claim = Some(ClaimStatus {
        epoch: Epoch::new(1),
        ..ClaimStatus::default()
    });
    status
}

/// A write to a server that has stopped answering is ambiguous within its timeout and is sent once: after the server
/// goes on, one commit at most has moved the version. spec: PF-DUR-02; report: B60
#[tokio::test]
async fn a_silent_server_makes_a_write_ambiguous() {
    let cluster = Cluster::up("silent").await;
    let key = cluster.create_example();
    let store = cluster.store("bloodraven-status-writer").await;
    let group = store.get(&key).await.unwrap();
    cluster.lab.pause(&ProcessName::KubeApiserver).await.unwrap();
    let started = Instant::now();
    let result = store.write_status(&group, &status(&group)).await;
    assert!(matches!(result, Err(StoreError::Ambiguous { .. })), "{result:?}");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    cluster.lab.resume(&ProcessName::KubeApiserver).await.unwrap();

    // The request was in the server's socket when it stopped, so it may commit late: that is what ambiguous means.
    let now = until(&store, &key, |_| true).await;
    if now.resource_version == group.resource_version {
        let again = store.write_status(&now, &status(&now)).await;
        assert!(matches!(again, Ok(_) | Err(StoreError::Conflict { .. })), "{again:?}");
    }
    let committed = until(&store, &key, |group| group.epoch() == Epoch::new(1)).await;
    let conflict = store.write_status(&group, &status(&group)).await;
    assert!(matches!(conflict, Err(StoreError::Conflict { .. })), "{conflict:?}");
    assert_eq!(store.get(&key).await.unwrap(), committed);
}

/// A server that is gone makes reads and writes ambiguous at once, and the same store goes on when it is back.
/// spec: PF-DUR-02
#[tokio::test]
async fn a_server_that_is_gone_is_ambiguous_and_comes_back() {
    let cluster = Cluster::up("gone").await;
    let key = cluster.create_example();
    let store = cluster.store("bloodraven-status-writer").await;
    let group = store.get(&key).await.unwrap();
    cluster.lab.kill(&ProcessName::KubeApiserver).await.unwrap();
    let started = Instant::now();
    let write = store.write_status(&group, &status(&group)).await;
    assert!(matches!(write, Err(StoreError::Ambiguous { .. })), "{write:?}");
    let read = store.get(&key).await;
    assert!(matches!(read, Err(StoreError::Ambiguous { .. })), "{read:?}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    cluster.lab.start(&ProcessName::KubeApiserver).await.unwrap();
    let same = until(&store, &key, |_| true).await;
    assert_eq!(same, group);
    store.write_status(&same, &status(&same)).await.unwrap();
}
