//! The watch on a real API server.

use std::pin::Pin;
use std::time::Duration;

use bloodraven_crd::MysqlFailoverGroup;
use bloodraven_kubernetes::{GroupEvent, watch_groups};
use bloodraven_lab::ProcessName;
use bloodraven_ports::{AnnotationChanges, GroupStore};
use bloodraven_types::{Group, annotation};
use futures::{Stream, StreamExt};
use kube::Api;
use kube::api::{WatchEvent, WatchParams};

use crate::cluster::{Cluster, EXAMPLE};

type Events = Pin<Box<dyn Stream<Item = GroupEvent> + Send>>;

async fn next<T>(events: &mut Events, wanted: impl Fn(GroupEvent) -> Option<T>) -> T {
    let waiting = async {
        loop {
            let event = events.next().await.unwrap_or_else(|| panic!("the watch ended"));
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    found.unwrap_or_else(|_| panic!("the watch did not show what was waited for"))
}

fn applied(event: GroupEvent) -> Option<Group> {
    match event {
        GroupEvent::Applied(group) => Some(*group),
        GroupEvent::Deleted { .. } | GroupEvent::Unreadable { .. } => None,
    }
}

fn requested(value: &str) -> impl Fn(GroupEvent) -> Option<Group> {
    let value = value.to_owned();
    move |event| applied(event).filter(|group| group.annotation(annotation::PLANNED_FAILOVER) == Some(&value))
}

/// Whether the server answers 410 to a watch from this version on.
async fn is_gone(cluster: &Cluster, version: &str) -> bool {
    let api: Api<MysqlFailoverGroup> = Api::all(cluster.client("admin").await);
    let params = WatchParams::default().timeout(5);
    let mut answers = Box::pin(api.watch(&params, version).await.unwrap());
    matches!(answers.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410)
}

/// An annotation by kubectl is seen as it is made, a group that cannot be read is told beside the others, and a deleted
/// one by its uid.
#[tokio::test]
async fn kubectl_is_seen() {
    let cluster = Cluster::up("watch").await;
    let client = cluster.client("bloodraven-admission").await;
    let mut events: Events = Box::pin(watch_groups(client, Some("default")));
    cluster.create_example();
    let group = next(&mut events, applied).await;
    cluster.annotate(&format!("{}=pdx:maxLagWait=30s", annotation::PLANNED_FAILOVER));
    let seen = next(&mut events, requested("pdx:maxLagWait=30s")).await;
    assert_eq!(seen.uid, group.uid);

    // A duration that the pattern lets pass and that is too long to be read.
    let unreadable = EXAMPLE
        .replace("name: orders", "name: broken")
        .replace("maxLagWait: 5m", "maxLagWait: 99999999999999999999h");
    cluster.kubectl(&["create"], Some(&unreadable)).unwrap();
    let problem = next(&mut events, |event| match event {
        GroupEvent::Unreadable { key, problem } => Some(format!("{key}: {problem}")),
        GroupEvent::Applied(_) | GroupEvent::Deleted { .. } => None,
    })
    .await;
    assert!(
        problem.starts_with("default/broken: spec.plannedFailover.maxLagWait"),
        "{problem}"
    );

    cluster.kubectl(&["delete", "mfg", "orders"], None).unwrap();
    let uid = next(&mut events, |event| match event {
        GroupEvent::Deleted { uid, .. } => Some(uid),
        GroupEvent::Applied(_) | GroupEvent::Unreadable { .. } => None,
    })
    .await;
    assert_eq!(uid, group.uid);
}

/// A server that went away and came back with a gap in its history (410) is listed again: a request made in the gap is
/// seen, one made and withdrawn in it is not, and a group deleted in it is told. report: B56
#[tokio::test]
async fn a_gap_in_the_history_is_listed_again() {
    let cluster = Cluster::up("gap").await;
    let store = cluster.store("admin").await;
    let key = cluster.create_example();
    let second = EXAMPLE.replace("name: orders", "name: users");
    cluster.kubectl(&["create"], Some(&second)).unwrap();
    let client = cluster.client("bloodraven-admission").await;
    let mut events: Events = Box::pin(watch_groups(client, None));
    let listed = next(&mut events, applied).await;
    next(&mut events, applied).await;

    cluster.lab.kill(&ProcessName::KubeApiserver).await.unwrap();
    cluster.lab.start(&ProcessName::KubeApiserver).await.unwrap();
    let request = |value: Option<&str>| {
        AnnotationChanges::from([(annotation::PLANNED_FAILOVER.to_owned(), value.map(str::to_owned))])
    };
    let group = crate::cluster::until(&store, &key, |_| true).await;
    let group = store.write_annotations(&group, &request(Some("ord"))).await.unwrap();
    let group = store.write_annotations(&group, &request(None)).await.unwrap();
    store.write_annotations(&group, &request(Some("pdx"))).await.unwrap();
    cluster.kubectl(&["delete", "mfg", "users"], None).unwrap();
    assert!(is_gone(&cluster, listed.resource_version.as_str()).await);

    next(&mut events, requested("pdx")).await;
    let deleted = next(&mut events, |event| match event {
        GroupEvent::Deleted { key, .. } => Some(key.name),
        GroupEvent::Applied(_) | GroupEvent::Unreadable { .. } => None,
    })
    .await;
    assert_eq!(deleted, "users");
}
