//! An API server with our manifests, and what tests do to it as somebody with kubectl would.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bloodraven_kubernetes::{ConnectOptions, KubernetesStore, StoreOptions, connect};
use bloodraven_lab::{Lab, LabOptions, kubectl};
use bloodraven_ports::{Clock, GroupStore};
use bloodraven_types::{Group, GroupKey, Timestamp};
use kube::Client;
use serde_json::Value;

/// The short timeouts of tests: a paused server must not hold them up.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

/// The example group that the repository ships.
pub(crate) const EXAMPLE: &str = include_str!("../../../../k8s/examples/orders.yaml");

pub(crate) struct Cluster {
    pub(crate) lab: Lab,
}

/// The machine's clock.
#[derive(Clone)]
pub(crate) struct MachineClock(tokio::time::Instant);

impl MachineClock {
    pub(crate) fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Clock for MachineClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock of these tests")]
    fn now(&self) -> Timestamp {
        Timestamp::new(jiff::Timestamp::now())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

impl Cluster {
    pub(crate) async fn up(hint: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s");
        let options = LabOptions::for_test(hint)
            .with_kube()
            .with_manifests(root.join("crds"))
            .with_manifests(root.join("rbac"));
        Self {
            lab: Lab::up(options).await.unwrap(),
        }
    }

    /// A client with the rights of `admin` or of a ServiceAccount.
    pub(crate) async fn client(&self, identity: &str) -> Client {
        let options = ConnectOptions {
            kubeconfig: Some(self.lab.kubeconfig(identity).unwrap()),
            context: None,
        };
        connect(&options).await.unwrap()
    }

    /// A store with the rights of `admin` or of a ServiceAccount.
    pub(crate) async fn store(&self, identity: &str) -> KubernetesStore {
        let options = StoreOptions {
            read_timeout: READ_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            instance: "test".to_owned(),
        };
        KubernetesStore::new(self.client(identity).await, MachineClock::new(), options)
    }

    /// Runs the real kubectl as `admin`; standard output, or standard error when it fails.
    pub(crate) fn kubectl(&self, arguments: &[&str], input: Option<&str>) -> Result<String, String> {
        let mut command = Command::new(kubectl().unwrap());
        command.arg("--kubeconfig").arg(self.lab.kubeconfig("admin").unwrap());
        command.args(arguments);
        if let Some(text) = input {
            let file = self.lab.dir().join("input.yaml");
            std::fs::write(&file, text).unwrap();
            command.arg("-f").arg(file);
        }
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    /// Makes the example group and gives its key.
    pub(crate) fn create_example(&self) -> GroupKey {
        self.kubectl(&["create"], Some(EXAMPLE)).unwrap();
        GroupKey::new("default", "orders")
    }

    pub(crate) fn annotate(&self, annotation: &str) {
        let arguments = ["annotate", "--overwrite", "mfg", "orders", annotation];
        self.kubectl(&arguments, None).unwrap();
    }

    /// An object as the API server sends it, managed fields included.
    pub(crate) fn raw(&self, path: &str) -> Value {
        let text = self.kubectl(&["get", "--raw", path], None).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.kubectl(&[arguments, &["-o", "json"]].concat(), None).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// Reads a group until `wanted` holds of it.
pub(crate) async fn until(store: &KubernetesStore, key: &GroupKey, wanted: impl Fn(&Group) -> bool) -> Group {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        if let Ok(group) = store.get(key).await
            && wanted(&group)
        {
            return group;
        }
        assert!(tokio::time::Instant::now() < deadline, "{key} did not become as wanted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
