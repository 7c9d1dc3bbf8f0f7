//! Ways into a lab's servers: addresses, sessions, clients, kubeconfig files, pods.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use mysql_async::{Conn, Opts};

use crate::error::LabError;
use crate::lab::Lab;
use crate::manifests::AccountName;
use crate::proxy::{SITE_LABEL, ServiceProxy};
use crate::servers::{kube as kube_server, mysql_setup};
use crate::state::{Account, KubeNode, MysqlNode, NatsNode, ValkeyNode};

/// How long the tokens in kubeconfig files are good for.
const TOKEN_SECONDS: i64 = 30 * 24 * 3600;

/// Which MySQL account to log in with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MysqlAccount {
    /// The controllers' account.
    Bloodraven,
    /// The replication channels' account.
    Replication,
    /// The application's account, with `app` as its schema.
    App,
}

impl Lab {
    /// The MySQL servers, in the order of the sites; the first was the primary at the start.
    #[must_use]
    pub fn sites(&self) -> &[MysqlNode] {
        &self.state.mysql
    }

    /// The MySQL server of a site.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn site(&self, name: &str) -> Result<&MysqlNode, LabError> {
        self.state
            .mysql
            .iter()
            .find(|node| node.site == name)
            .ok_or_else(|| LabError::Unknown {
                kind: "MySQL site",
                name: name.to_owned(),
                known: self.state.mysql.iter().map(|node| node.site.clone()).collect(),
            })
    }

    /// A session as `root` over the server's Unix socket: sees all, may do all, and no network fault cuts it.
    ///
    /// # Errors
    /// `Unknown`, `MySql` when there is no session to be had.
    pub async fn mysql(&self, site: &str) -> Result<Conn, LabError> {
        let node = self.site(site)?;
        mysql_setup::connect_root(site, &node.socket).await
    }

    /// Client options for one of the lab's accounts over TCP.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn mysql_opts(&self, site: &str, account: MysqlAccount) -> Result<Opts, LabError> {
        Ok(self.mysql_opts_at(self.site(site)?.address(), account))
    }

    /// Client options for one of the lab's accounts at an address of the caller's choice: an administrative port, or a
    /// proxy before a server.
    #[must_use]
    pub fn mysql_opts_at(&self, address: SocketAddr, account: MysqlAccount) -> Opts {
        let schema = (account == MysqlAccount::App).then_some("app");
        mysql_setup::tcp_opts(address, self.mysql_account(account), schema)
    }

    /// User name and password of a MySQL account.
    #[must_use]
    pub fn mysql_account(&self, account: MysqlAccount) -> &Account {
        match account {
            MysqlAccount::Bloodraven => &self.state.credentials.bloodraven,
            MysqlAccount::Replication => &self.state.credentials.replication,
            MysqlAccount::App => &self.state.credentials.app,
        }
    }

    /// The NATS servers.
    #[must_use]
    pub fn nats_nodes(&self) -> &[NatsNode] {
        &self.state.nats
    }

    /// `nats://user:password@host:port` of every NATS server, as the controllers' account.
    #[must_use]
    pub fn nats_urls(&self) -> Vec<String> {
        let account = &self.state.credentials.nats;
        let url = |node: &NatsNode| format!("nats://{}:{}@{}", account.user, account.password, node.address());
        self.state.nats.iter().map(url).collect()
    }

    /// The Valkey servers, in the order of the sites; the first was the primary at the start.
    #[must_use]
    pub fn valkey_nodes(&self) -> &[ValkeyNode] {
        &self.state.valkey
    }

    /// The API server.
    ///
    /// # Errors
    /// `Unknown` when the lab has none.
    pub fn kube(&self) -> Result<&KubeNode, LabError> {
        self.state.kube.as_ref().ok_or_else(|| LabError::Unknown {
            kind: "server",
            name: "kube-apiserver".to_owned(),
            known: self.state.processes.iter().map(|spec| spec.name.to_string()).collect(),
        })
    }

    /// The kubeconfig file of an identity: `admin`, or a ServiceAccount of the applied manifests.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn kubeconfig(&self, identity: &str) -> Result<PathBuf, LabError> {
        let node = self.kube()?;
        let path = kube_server::kubeconfig_path(node, identity);
        if path.is_file() {
            return Ok(path);
        }
        Err(LabError::Unknown {
            kind: "kubeconfig",
            name: identity.to_owned(),
            known: self.identities(),
        })
    }

    /// All identities that have a kubeconfig file.
    #[must_use]
    pub fn identities(&self) -> Vec<String> {
        let folder = self
            .state
            .kube
            .as_ref()
            .map(|node| node.kubeconfig_dir.clone())
            .unwrap_or_default();
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = files
            .filter_map(|file| file.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    /// A client with an identity's rights.
    ///
    /// # Errors
    /// `Unknown`, `Kube` when the file is unusable.
    pub async fn kube_client(&self, identity: &str) -> Result<kube::Client, LabError> {
        kube_server::client(&self.kubeconfig(identity)?).await
    }

    /// Makes (or renews) the MySQL pods of a failover group, one for each site. Nothing runs them: they stay pending,
    /// and what the controllers write on their labels is what a Service would select by.
    ///
    /// # Errors
    /// `Kube` when the API server refuses.
    pub async fn create_pods(&self, namespace: &str, group: &str) -> Result<Vec<Pod>, LabError> {
        let api: Api<Pod> = Api::namespaced(self.kube_client(kube_server::ADMIN).await?, namespace);
        let mut pods = Vec::new();
        for node in &self.state.mysql {
            let name = format!("mysql-{group}-{}-0", node.site);
            let pod = serde_json::json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": {
                    "app.kubernetes.io/name": "mysql",
                    "app.kubernetes.io/instance": group,
                    "app.kubernetes.io/managed-by": "bloodraven",
                    "shipstream.io/failover-group": group,
                    SITE_LABEL: node.site,
                }},
                "spec": {"automountServiceAccountToken": false, "containers": [{"name": "mysql", "image": "mysql"}]},
            });
            let params = PatchParams::apply("bloodraven-lab").force();
            let applied = api.patch(&name, &params, &Patch::Apply(&pod)).await;
            pods.push(applied.map_err(|error| LabError::kube(format!("creating pod {name}"), error))?);
        }
        Ok(pods)
    }

    /// A relay that stands for the Service of a group's pods with `role` (`primary`, `replica`, …).
    ///
    /// # Errors
    /// As [`ServiceProxy::start`].
    pub async fn service_proxy(&self, namespace: &str, group: &str, role: &str) -> Result<ServiceProxy, LabError> {
        let selector = [("app.kubernetes.io/instance", group), ("shipstream.io/role", role)];
        let selector = selector.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let sites: BTreeMap<String, SocketAddr> = self
            .state
            .mysql
            .iter()
            .map(|node| (node.site.clone(), node.address()))
            .collect();
        let client = self.kube_client(kube_server::ADMIN).await?;
        ServiceProxy::start(client, namespace, &selector, sites).await
    }

    /// Asks for a token of a ServiceAccount and writes it into a kubeconfig file of that name.
    pub(crate) async fn write_account_kubeconfig(
        &self,
        client: &kube::Client,
        account: &AccountName,
    ) -> Result<(), LabError> {
        let api: Api<ServiceAccount> = Api::namespaced(client.clone(), &account.namespace);
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..TokenRequest::default()
        };
        let doing = || {
            format!(
                "asking for a token of ServiceAccount {}/{}",
                account.namespace, account.name
            )
        };
        let answer = api
            .create_token_request(&account.name, &PostParams::default(), &request)
            .await
            .map_err(|error| LabError::kube(doing(), error))?;
        let token = answer.status.and_then(|status| status.token).unwrap_or_default();
        kube_server::write_kubeconfig(self.kube()?, &account.name, &token, &account.namespace)
    }
}
