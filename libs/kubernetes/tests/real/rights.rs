//! Each binary may do what it does, and nothing else.

use std::collections::BTreeSet;

use bloodraven_ports::{AnnotationChanges, GroupStore, SitesUpdate, StoreError};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};

use crate::cluster::Cluster;

/// API group, resource and subresource of what a right is about.
const SUBJECTS: &[(&str, &str, &str)] = &[
    ("shipstream.io", "mysqlfailovergroups", ""),
    ("shipstream.io", "mysqlfailovergroups", "status"),
    ("events.k8s.io", "events", ""),
    ("externaldns.k8s.io", "dnsendpoints", ""),
    ("", "pods", ""),
    ("", "secrets", ""),
    ("", "nodes", ""),
    ("rbac.authorization.k8s.io", "clusterroles", ""),
    ("apiextensions.k8s.io", "customresourcedefinitions", ""),
];
const VERBS: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

const GROUPS: &str = "mysqlfailovergroups";
const STATUS: &str = "mysqlfailovergroups/status";

/// Every right of every binary; whatever is not listed must be refused.
const RIGHTS: &[(&str, &[(&str, &str)])] = &[
    (
        "admission",
        &[(GROUPS, "get list watch patch"), ("events", "create patch")],
    ),
    (
        "status-writer",
        &[
            (GROUPS, "get list watch patch"),
            (STATUS, "update patch"),
            ("events", "create patch"),
        ],
    ),
    ("fencer", &[(GROUPS, "get")]),
    ("lag-watcher", &[(GROUPS, "get")]),
    ("promoter", &[(GROUPS, "get")]),
    ("dragonfly-promoter", &[(GROUPS, "get list watch")]),
    ("topology-manager", &[(GROUPS, "get list watch"), (STATUS, "patch")]),
    (
        "publisher",
        &[
            (GROUPS, "get list watch"),
            ("pods", "get list patch"),
            ("dnsendpoints", "get create patch"),
        ],
    ),
];

async fn allowed(client: &Client, verb: &str, (group, resource, subresource): (&str, &str, &str)) -> bool {
    let attributes = ResourceAttributes {
        namespace: Some("default".to_owned()),
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await.unwrap();
    answer.status.unwrap().allowed
}

/// The rights of every ServiceAccount are exactly the listed ones.
#[tokio::test]
async fn rights_are_exactly_those_listed() {
    let cluster = Cluster::up("rights").await;
    for (binary, rights) in RIGHTS {
        let client = cluster.client(&format!("bloodraven-{binary}")).await;
        let mut found = BTreeSet::new();
        for subject in SUBJECTS {
            let name = if subject.2.is_empty() {
                subject.1.to_owned()
            } else {
                format!("{}/{}", subject.1, subject.2)
            };
            for verb in VERBS {
                if allowed(&client, verb, *subject).await {
                    found.insert(format!("{verb} {name}"));
                }
            }
        }
        let listed: BTreeSet<String> = rights
            .iter()
            .flat_map(|(name, verbs)| verbs.split(' ').map(move |verb| format!("{verb} {name}")))
            .collect();
        assert_eq!(found, listed, "{binary}");
    }
}

/// The fencer reads a group and is refused every write of it.
#[tokio::test]
async fn the_fencer_cannot_write() {
    let cluster = Cluster::up("fencer").await;
    let key = cluster.create_example();
    let store = cluster.store("bloodraven-fencer").await;
    let group = store.get(&key).await.unwrap();
    let refused = |result: Result<(), StoreError>| matches!(result, Err(StoreError::Refused { code: 403, .. }));
    assert!(refused(store.write_status(&group, &group.status).await.map(drop)));
    let changes = AnnotationChanges::from([("a/b".to_owned(), None)]);
    assert!(refused(store.write_annotations(&group, &changes).await.map(drop)));
    let update = SitesUpdate {
        active_site: None,
        sites: Vec::new(),
    };
    assert!(refused(store.write_sites(&key, &group.uid, &update).await));
}
