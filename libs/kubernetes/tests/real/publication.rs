//! Role labels and the DNS record on a real API server.

use std::collections::BTreeMap;

use bloodraven_kubernetes::KubernetesPublication;
use bloodraven_ports::{GroupStore, PodRole, Publication};
use serde_json::Value;

use crate::cluster::{Cluster, EXAMPLE};

fn pod(name: &str, labels: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{{labels}}}}}, \
         spec: {{automountServiceAccountToken: false, containers: [{{name: mysql, image: mysql}}]}}}}\n"
    )
}

fn usual(program: &str, site: &str) -> String {
    format!(
        "app.kubernetes.io/name: {program}, app.kubernetes.io/instance: orders, \
         shipstream.io/failover-group: orders, shipstream.io/site: {site}"
    )
}

fn roles(of: &[(&str, PodRole)]) -> BTreeMap<bloodraven_types::SiteName, PodRole> {
    of.iter().map(|(site, role)| ((*site).into(), *role)).collect()
}

fn labels(cluster: &Cluster) -> BTreeMap<String, (Option<String>, Value)> {
    let pods = cluster.json(&["get", "pods"]);
    let text = |pod: &Value, pointer: &str| pod.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let labelled = |pod: &Value| {
        let role = text(pod, "/metadata/labels/shipstream.io~1role");
        let version = pod.pointer("/metadata/resourceVersion").cloned();
        (text(pod, "/metadata/name").unwrap(), (role, version.unwrap()))
    };
    let items = pods.get("items").and_then(Value::as_array);
    items.unwrap().iter().map(labelled).collect()
}

/// Roles are set on the pods of each site and only where they differ, with the publisher's own rights; pods of other
/// programs and groups, and other labels, stay as they are.
#[tokio::test]
async fn only_differing_labels_are_changed() {
    let cluster = Cluster::up("labels").await;
    let selector = "role: DisasterRecovery\n      podSelector: {tier: archive}";
    let example = EXAMPLE.replace("role: DisasterRecovery", selector);
    cluster.kubectl(&["create"], Some(&example)).unwrap();
    let store = cluster.store("bloodraven-publisher").await;
    let group = store
        .get(&bloodraven_types::GroupKey::new("default", "orders"))
        .await
        .unwrap();
    let pods = [
        pod("iad-0", &usual("mysql", "iad")),
        pod("iad-1", &usual("mysql", "iad")),
        pod("pdx-0", &usual("mysql", "pdx")),
        pod("ord-0", "tier: archive"),
        pod("cache-0", &usual("dragonfly", "iad")),
        pod(
            "other-0",
            "app.kubernetes.io/name: mysql, app.kubernetes.io/instance: users, shipstream.io/site: iad",
        ),
    ];
    cluster.kubectl(&["create"], Some(&pods.concat())).unwrap();
    let publication = KubernetesPublication::new(cluster.client("bloodraven-publisher").await);

    let before = roles(&[
        ("iad", PodRole::Primary),
        ("pdx", PodRole::Replica),
        ("ord", PodRole::Replica),
    ]);
    assert_eq!(publication.set_roles(&group, &before).await.unwrap(), 4);
    assert_eq!(publication.set_roles(&group, &before).await.unwrap(), 0);
    let first = labels(&cluster);
    let role = |of: &BTreeMap<String, (Option<String>, Value)>, pod: &str| of[pod].0.clone();
    assert_eq!(role(&first, "iad-1").as_deref(), Some("primary"));
    assert_eq!(role(&first, "ord-0").as_deref(), Some("replica"));
    assert_eq!(role(&first, "cache-0"), None);
    assert_eq!(role(&first, "other-0"), None);

    let moving = roles(&[
        ("iad", PodRole::Fenced),
        ("pdx", PodRole::Replica),
        ("ord", PodRole::Replica),
    ]);
    assert_eq!(publication.set_roles(&group, &moving).await.unwrap(), 2);
    let second = labels(&cluster);
    assert_eq!(role(&second, "iad-0").as_deref(), Some("fenced"));
    for untouched in ["pdx-0", "ord-0", "cache-0", "other-0"] {
        assert_eq!(second[untouched], first[untouched]);
    }
    // What can be set is set, and what cannot is told.
    let partly = roles(&[("sjc", PodRole::Primary), ("pdx", PodRole::Primary)]);
    let problem = publication.set_roles(&group, &partly).await.unwrap_err().to_string();
    assert!(problem.contains("sjc is no site"), "{problem}");
    let third = labels(&cluster);
    assert_eq!(role(&third, "pdx-0").as_deref(), Some("primary"));
    let metadata = cluster.json(&["get", "pod", "iad-0"]);
    assert_eq!(metadata["metadata"]["labels"]["shipstream.io/failover-group"], "orders");
}

/// The record is made, is left alone while it is right, follows the primary, and is repaired after a change by hand;
/// it belongs to the group and to our field manager.
#[tokio::test]
async fn the_dns_record_follows_the_primary() {
    let cluster = Cluster::up("dns").await;
    let key = cluster.create_example();
    let store = cluster.store("bloodraven-publisher").await;
    let group = store.get(&key).await.unwrap();
    let publication = KubernetesPublication::new(cluster.client("bloodraven-publisher").await);
    let path = "/apis/externaldns.k8s.io/v1alpha1/namespaces/default/dnsendpoints/bloodraven-orders";
    let record = || cluster.raw(path);

    assert!(publication.set_dns(&group, &"iad".into()).await.unwrap());
    let first = record();
    let endpoint = &first["spec"]["endpoints"][0];
    assert_eq!(endpoint["dnsName"], "orders.example.com");
    assert_eq!(
        (&endpoint["recordType"], &endpoint["recordTTL"]),
        (&"A".into(), &60.into())
    );
    assert_eq!(endpoint["targets"], serde_json::json!(["192.0.2.10"]));
    let owner = &first["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&"MysqlFailoverGroup".into(), &group.uid.as_str().into())
    );
    assert_eq!(first["metadata"]["managedFields"][0]["manager"], "bloodraven");

    assert!(!publication.set_dns(&group, &"iad".into()).await.unwrap());
    assert_eq!(
        record()["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert!(publication.set_dns(&group, &"pdx".into()).await.unwrap());
    assert_eq!(
        record()["spec"]["endpoints"][0]["targets"],
        serde_json::json!(["192.0.2.20"])
    );

    let by_hand = r#"{"spec":{"endpoints":[{"dnsName":"orders.example.com","targets":["198.51.100.1"]}]}}"#;
    let patch = [
        "patch",
        "dnsendpoint",
        "bloodraven-orders",
        "--type=merge",
        "-p",
        by_hand,
    ];
    cluster.kubectl(&patch, None).unwrap();
    assert!(publication.set_dns(&group, &"pdx".into()).await.unwrap());
    let repaired = record();
    assert_eq!(repaired["spec"]["endpoints"].as_array().unwrap().len(), 1);
    assert_eq!(
        repaired["spec"]["endpoints"][0]["targets"],
        serde_json::json!(["192.0.2.20"])
    );

    let problem = publication
        .set_dns(&group, &"ord".into())
        .await
        .unwrap_err()
        .to_string();
    assert!(problem.contains("ord has no lbIP"), "{problem}");
    let mut without = group.clone();
    without.spec.dns = None;
    assert!(!publication.set_dns(&without, &"pdx".into()).await.unwrap());
}
