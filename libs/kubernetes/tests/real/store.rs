//! Conditioned writes on a real API server.

use bloodraven_ports::{AnnotationChanges, GroupStore, SitesUpdate, StoreError};
use bloodraven_types::group::{ClaimStatus, SiteStatus};
use bloodraven_types::{Epoch, Group, SiteState, annotation};

use crate::cluster::Cluster;

fn sites(active: Option<&str>, states: &[(&str, SiteState)]) -> SitesUpdate {
    SitesUpdate {
        active_site: active.map(Into::into),
        sites: states
            .iter()
            .map(|(name, state)| SiteStatus {
                name: (*name).to_owned(),
                state: *state,
                ..SiteStatus::default()
            })
            .collect(),
    }
}

fn change(key: &str, value: Option<&str>) -> AnnotationChanges {
    AnnotationChanges::from([(key.to_owned(), value.map(str::to_owned))])
}

fn epoch(group: &Group, number: u64) -> bloodraven_types::GroupStatus {
    let mut status = group.status.clone();
    status.claim = Some(ClaimStatus {
        epoch: Epoch::new(number),
        ..ClaimStatus::default()
    });
    status
}

fn is_conflict<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict { .. }))
}

/// Status and annotations are written only on the version that was read; whoever comes second with it gets a conflict
/// and changes nothing. spec: PF-DUR-01
#[tokio::test]
async fn a_stale_version_is_a_conflict() {
    let cluster = Cluster::up("stale").await;
    let key = cluster.create_example();
    let store = cluster.store("bloodraven-status-writer").await;
    let read = store.get(&key).await.unwrap();
    let first = store.write_status(&read, &epoch(&read, 1)).await.unwrap();
    assert_ne!(first.resource_version, read.resource_version);
    assert!(is_conflict(&store.write_status(&read, &epoch(&read, 2)).await));
    let fence = change(annotation::STATUS_FENCE, Some("1"));
    assert!(is_conflict(&store.write_annotations(&read, &fence).await));

    let second = store.write_annotations(&first, &fence).await.unwrap();
    assert_eq!(second.annotation(annotation::STATUS_FENCE), Some("1"));
    assert!(is_conflict(&store.write_status(&first, &epoch(&first, 3)).await));
    let now = store.get(&key).await.unwrap();
    assert_eq!((now.epoch(), &now), (Epoch::new(1), &second));
}

/// A group that was deleted and made again under its name takes no write that was meant for the former one, observations
/// included, and inherits nothing. spec: PF-CLM-08
#[tokio::test]
async fn another_object_of_the_name_is_a_conflict() {
    let cluster = Cluster::up("recreated").await;
    let key = cluster.create_example();
    let store = cluster.store("admin").await;
    let group = store.get(&key).await.unwrap();
    let former = store.write_status(&group, &epoch(&group, 7)).await.unwrap();
    cluster.kubectl(&["delete", "mfg", "orders"], None).unwrap();
    assert!(matches!(store.get(&key).await, Err(StoreError::NotFound { .. })));
    // A server may answer that there is no such object, or that its uid is none; either way nothing was written.
    let gone = store.write_status(&former, &epoch(&former, 8)).await;
    assert!(
        matches!(gone, Err(StoreError::NotFound { .. } | StoreError::Conflict { .. })),
        "{gone:?}"
    );

    cluster.create_example();
    let recreated = store.get(&key).await.unwrap();
    assert_eq!(recreated.epoch(), Epoch::default());
    let update = sites(Some("iad"), &[("iad", SiteState::Writable)]);
    assert!(is_conflict(&store.write_status(&former, &epoch(&former, 8)).await));
    assert!(is_conflict(
        &store.write_annotations(&former, &change("a/b", Some("c"))).await
    ));
    assert!(is_conflict(&store.write_sites(&key, &former.uid, &update).await));
    // Not even with the version of the new object is the former one's uid accepted.
    let forged = Group {
        resource_version: recreated.resource_version.clone(),
        ..former.clone()
    };
    assert!(is_conflict(&store.write_status(&forged, &epoch(&former, 8)).await));
    assert!(is_conflict(
        &store.write_annotations(&forged, &change("a/b", Some("c"))).await
    ));
    assert_eq!(store.get(&key).await.unwrap(), recreated);

    store.write_sites(&key, &recreated.uid, &update).await.unwrap();
    assert!(is_conflict(&store.write_sites(&key, &former.uid, &update).await));
}

/// Observations come and go beside the record and never change it, and neither loses the other's last write.
#[tokio::test]
async fn observations_leave_the_record_alone() {
    let cluster = Cluster::up("sites").await;
    let key = cluster.create_example();
    let writer = cluster.store("bloodraven-status-writer").await;
    let manager = cluster.store("bloodraven-topology-manager").await;
    let group = writer.get(&key).await.unwrap();

    let first = sites(
        Some("iad"),
        &[("iad", SiteState::Writable), ("pdx", SiteState::ReadOnly)],
    );
    manager.write_sites(&key, &group.uid, &first).await.unwrap();
    let group = writer.get(&key).await.unwrap();
    assert_eq!(
        (&group.status.active_site, &group.status.sites),
        (&first.active_site, &first.sites)
    );

    let group = writer.write_status(&group, &epoch(&group, 4)).await.unwrap();
    let second = sites(None, &[("iad", SiteState::Unreachable)]);
    manager.write_sites(&key, &group.uid, &second).await.unwrap();
    let group = writer.get(&key).await.unwrap();
    assert_eq!(group.status.active_site, None);
    assert_eq!(group.status.sites, second.sites);
    assert_eq!(group.epoch(), Epoch::new(4));
    // Again nothing active: there is nothing to remove, and that is no failure.
    manager.write_sites(&key, &group.uid, &second).await.unwrap();

    let observing = async {
        for number in 0..50 {
            let state = if number % 2 == 0 {
                SiteState::Writable
            } else {
                SiteState::ReadOnly
            };
            let update = sites(Some("iad"), &[("iad", state)]);
            manager.write_sites(&key, &group.uid, &update).await.unwrap();
        }
    };
    let recording = async {
        let mut conflicts = 0;
        for number in 5..30 {
            loop {
                let group = writer.get(&key).await.unwrap();
                assert_eq!(group.epoch(), Epoch::new(number - 1));
                match writer.write_status(&group, &epoch(&group, number)).await {
                    Ok(_) => break,
                    Err(StoreError::Conflict { .. }) => conflicts += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        conflicts
    };
    tokio::join!(observing, recording);
    let group = writer.get(&key).await.unwrap();
    assert_eq!(group.epoch(), Epoch::new(29));
    assert_eq!(group.status.sites[0].state, SiteState::ReadOnly);
}

/// Only the value that was evaluated is removed: one that kubectl wrote between the read and the removal survives.
/// spec: PF-REQ-08; report: B59
#[tokio::test]
async fn a_rewritten_annotation_survives_the_removal() {
    let cluster = Cluster::up("annotation").await;
    let key = cluster.create_example();
    let store = cluster.store("bloodraven-admission").await;
    let request = |site: &str| format!("{}={site}", annotation::PLANNED_FAILOVER);
    let removal = change(annotation::PLANNED_FAILOVER, None);

    cluster.annotate(&request("pdx"));
    let evaluated = store.get(&key).await.unwrap();
    assert_eq!(evaluated.annotation(annotation::PLANNED_FAILOVER), Some("pdx"));
    cluster.annotate(&request("ord"));
    assert!(is_conflict(&store.write_annotations(&evaluated, &removal).await));
    let now = store.get(&key).await.unwrap();
    assert_eq!(now.annotation(annotation::PLANNED_FAILOVER), Some("ord"));
    let removed = store.write_annotations(&now, &removal).await.unwrap();
    assert_eq!(removed.annotation(annotation::PLANNED_FAILOVER), None);
}

/// In a thousand interleavings of a user who rewrites the request and a controller that removes what it evaluated, no
/// request disappears unevaluated: each was evaluated, or the user's next one took its place. spec: PF-REQ-08; report: B59
#[tokio::test]
async fn no_interleaving_loses_a_request() {
    const WRITES: u32 = 1000;
    let cluster = Cluster::up("interleavings").await;
    let key = cluster.create_example();
    let user = cluster.store("admin").await;
    let controller = cluster.store("bloodraven-admission").await;
    let last = WRITES.to_string();

    let rewriting = async {
        let mut replaced = Vec::new();
        for number in 1..=WRITES {
            let value = number.to_string();
            loop {
                let group = user.get(&key).await.unwrap();
                let former = group.annotation(annotation::PLANNED_FAILOVER).map(str::to_owned);
                match user
                    .write_annotations(&group, &change(annotation::PLANNED_FAILOVER, Some(&value)))
                    .await
                {
                    Ok(_) => {
                        replaced.extend(former);
                        break;
                    }
                    Err(StoreError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        replaced
    };
    let removing = async {
        let mut evaluated = Vec::new();
        while evaluated.last() != Some(&last) {
            let group = controller.get(&key).await.unwrap();
            let Some(value) = group.annotation(annotation::PLANNED_FAILOVER) else {
                continue;
            };
            match controller
                .write_annotations(&group, &change(annotation::PLANNED_FAILOVER, None))
                .await
            {
                Ok(_) => evaluated.push(value.to_owned()),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        evaluated
    };
    let (replaced, evaluated) = tokio::join!(rewriting, removing);
    let mut all: Vec<u32> = replaced
        .iter()
        .chain(&evaluated)
        .map(|value| value.parse().unwrap())
        .collect();
    all.sort_unstable();
    assert_eq!(all, (1..=WRITES).collect::<Vec<_>>(), "each request ends exactly once");
    assert!(!evaluated.is_empty() && evaluated.is_sorted_by_key(|value| value.parse::<u32>().unwrap()));
}
