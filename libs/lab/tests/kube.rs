//! The lab's API server: manifests applied, ServiceAccounts with their own rights only, a Service that follows labels.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests may")]

use std::path::Path;
use std::time::{Duration, Instant};

use bloodraven_lab::{Lab, LabError, LabOptions, ProcessName};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MANIFESTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: probe.example.com/v1
kind: Probe
metadata: {name: first}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: probes.probe.example.com}
spec:
  group: probe.example.com
  names: {kind: Probe, plural: probes}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              x-kubernetes-validations: [{rule: "self.size > 0"}]
              properties: {size: {type: integer}}
"#;

fn refusal<T>(result: Result<T, kube::Error>) -> Option<u16> {
    match result {
        Err(kube::Error::Api(status)) => Some(status.code),
        Ok(_) | Err(_) => None,
    }
}

/// A ServiceAccount of the manifests gets a kubeconfig that allows what its role allows and nothing else; manifests
/// may come in any order, definitions with validation rules included.
#[tokio::test]
async fn kubeconfigs_are_limited_by_their_roles() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.yaml"), MANIFESTS).unwrap();
    let options = LabOptions::for_test("rbac")
        .with_kube()
        .with_manifests(folder.path())
        .with_manifests("/nowhere");
    let lab = Lab::up(options).await.unwrap();
    assert_eq!(lab.identities(), ["admin", "reader"]);

    let reader = lab.kube_client("reader").await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(reader.clone());
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 0);
    assert_eq!(refusal(pods.delete("any", &Default::default()).await), Some(403));
    let maps: Api<ConfigMap> = Api::default_namespaced(reader);
    assert_eq!(refusal(maps.list(&ListParams::default()).await), Some(403));
    let admin: Api<ConfigMap> = Api::default_namespaced(lab.kube_client("admin").await.unwrap());
    assert!(admin.list(&ListParams::default()).await.is_ok());

    let unknown = lab.kubeconfig("writer").unwrap_err();
    assert!(matches!(unknown, LabError::Unknown { .. }));
    assert!(unknown.to_string().contains("admin, reader"), "{unknown}");

    // The same file serves kubectl.
    let output = std::process::Command::new(bloodraven_lab::kubectl().unwrap())
        .args(["get", "probes.probe.example.com", "first", "--output=name"])
        .arg(format!("--kubeconfig={}", lab.kubeconfig("admin").unwrap().display()))
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "probe.probe.example.com/first",
        "{output:?}"
    );
}

/// The repository's own manifests are accepted, every ServiceAccount among them has a kubeconfig, and none of these
/// may read Secrets or make itself more powerful.
#[tokio::test]
async fn the_repositorys_manifests_are_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s");
    let options = LabOptions::for_test("manifests").with_kube();
    let lab = Lab::up(
        options
            .with_manifests(folder.join("crds"))
            .with_manifests(folder.join("rbac")),
    )
    .await
    .unwrap();
    let groups = lab.kube_client("admin").await.unwrap().list_api_groups().await.unwrap();
    assert!(
        groups.groups.iter().any(|group| group.name == "shipstream.io"),
        "{groups:?}"
    );

    let identities = lab.identities();
    assert!(identities.contains(&"bloodraven-fencer".to_owned()), "{identities:?}");
    for identity in identities.iter().filter(|identity| *identity != "admin") {
        let client = lab.kube_client(identity).await.unwrap();
        let secrets: Api<Secret> = Api::all(client.clone());
        assert_eq!(
            refusal(secrets.list(&ListParams::default()).await),
            Some(403),
            "{identity}"
        );
        let bindings: Api<ClusterRoleBinding> = Api::all(client);
        let binding = serde_json::json!({"metadata": {"name": "grab"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
        let grab = bindings
            .create(&PostParams::default(), &serde_json::from_value(binding).unwrap())
            .await;
        assert_eq!(refusal(grab), Some(403), "{identity}");
    }
}

/// A server that says who it is to everyone who connects.
async fn greeter(name: &'static str) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(name.as_bytes()).await.unwrap();
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() && stream.write_all(&byte).await.is_ok() {}
            });
        }
    });
    address
}

async fn greeting(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut name = [0; 3];
    stream.read_exact(&mut name).await?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

async fn label(pods: &Api<Pod>, name: &str, role: Option<&str>) {
    let patch = serde_json::json!({"metadata": {"labels": {"shipstream.io/role": role}}});
    pods.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// New connections follow the role label within a moment, old ones stay where they are, and without a matching pod a
/// connection is reset at once, also after the API server was lost and came back.
#[tokio::test]
async fn service_proxy_follows_the_labels() {
    let lab = Lab::up(LabOptions::for_test("proxy").with_kube()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(lab.kube_client("admin").await.unwrap());
    for (name, site) in [("a", "iad"), ("b", "pdx")] {
        let labels = serde_json::json!({"app.kubernetes.io/instance": "orders", "shipstream.io/site": site});
        let pod = serde_json::json!({"metadata": {"name": name, "labels": labels},
            "spec": {"containers": [{"name": "mysql", "image": "mysql"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
            .await
            .unwrap();
    }
    let selector = [
        ("app.kubernetes.io/instance", "orders"),
        ("shipstream.io/role", "primary"),
    ];
    let selector = selector.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let sites = [
        ("iad".to_owned(), greeter("iad").await),
        ("pdx".to_owned(), greeter("pdx").await),
    ]
    .into();
    let client = lab.kube_client("admin").await.unwrap();
    let proxy = bloodraven_lab::ServiceProxy::start(client, "default", &selector, sites)
        .await
        .unwrap();
    let mut target = proxy.watch_target();

    let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(greeting(&mut refused).await.is_err());

    label(&pods, "a", Some("primary")).await;
    tokio::time::timeout(Duration::from_secs(5), target.wait_for(Option::is_some))
        .await
        .unwrap()
        .unwrap();
    let mut old = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(greeting(&mut old).await.unwrap(), "iad");

    label(&pods, "a", Some("fenced")).await;
    tokio::time::timeout(Duration::from_secs(5), target.wait_for(Option::is_none))
        .await
        .unwrap()
        .unwrap();
    let started = Instant::now();
    label(&pods, "b", Some("primary")).await;
    tokio::time::timeout(Duration::from_secs(5), target.wait_for(Option::is_some))
        .await
        .unwrap()
        .unwrap();
    println!("label to target: {:?}", started.elapsed());
    let mut new = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(greeting(&mut new).await.unwrap(), "pdx");
    old.write_all(b"x").await.unwrap();
    let mut echo = [0];
    old.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"x");

    lab.kill(&ProcessName::KubeApiserver).await.unwrap();
    let mut without_server = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(greeting(&mut without_server).await.unwrap(), "pdx");
    lab.start(&ProcessName::KubeApiserver).await.unwrap();
    label(&pods, "b", None).await;
    tokio::time::timeout(Duration::from_secs(20), target.wait_for(Option::is_none))
        .await
        .unwrap()
        .unwrap();
}

/// The pods of a group carry the labels that Services and controllers select by, and making them again is no error.
#[tokio::test]
async fn pods_of_a_group_carry_its_labels() {
    let lab = Lab::up(LabOptions::for_test("pods").with_mysql().with_kube())
        .await
        .unwrap();
    lab.create_pods("default", "orders").await.unwrap();
    let pods = lab.create_pods("default", "orders").await.unwrap();
    assert_eq!(pods.len(), 3);
    let labels = pods[1].metadata.labels.clone().unwrap();
    for (key, value) in [
        ("app.kubernetes.io/name", "mysql"),
        ("app.kubernetes.io/instance", "orders"),
        ("app.kubernetes.io/managed-by", "bloodraven"),
        ("shipstream.io/failover-group", "orders"),
        ("shipstream.io/site", "pdx"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    let proxy = lab.service_proxy("default", "orders", "primary").await.unwrap();
    assert_eq!(proxy.target(), None);
}
