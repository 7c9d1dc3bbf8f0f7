//! What a lab remembers in `lab.json`, so that another program can look at it, use it and end it. The file holds
//! passwords and is readable by its owner only.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::files::{self, cache_dir};
use crate::options::SiteRole;
use crate::process::{ProcessId, ProcessSpec};

/// Name of the state file in a lab's folder.
pub(crate) const STATE_FILE: &str = "lab.json";
/// Prefix of the folder of a lab.
const FOLDER_PREFIX: &str = "bloodraven-lab-";

/// The MySQL server of one site.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MysqlNode {
    /// Site name, e.g. `iad`.
    pub site: String,
    /// What the site may become.
    pub role: SiteRole,
    /// Address it listens on, for both ports.
    pub host: IpAddr,
    /// Port for applications and replication.
    pub port: u16,
    /// Port for administrative connections (`admin_port`).
    pub admin_port: u16,
    /// The server's `@@server_uuid`.
    pub server_uuid: String,
    /// The server's `@@server_id`.
    pub server_id: u32,
    /// Unix socket; `root` may log in there without a password, and no partition cuts it.
    pub socket: PathBuf,
    /// Data folder.
    pub data_dir: PathBuf,
    /// Configuration file; a restart reads it again.
    pub config_file: PathBuf,
    /// Error log.
    pub log: PathBuf,
}

/// One NATS server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NatsNode {
    /// Number, counted from 1; the server's name is `n<number>`.
    pub number: u8,
    /// Address it listens on.
    pub host: IpAddr,
    /// Client port.
    pub port: u16,
    /// Port of the cluster routes.
    pub cluster_port: u16,
    /// Port of the HTTP monitoring endpoints (`/healthz`, `/jsz`, `/varz`).
    pub monitoring_port: u16,
    /// Log file.
    pub log: PathBuf,
}

/// One Valkey server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ValkeyNode {
    /// Site name.
    pub site: String,
    /// Address it listens on.
    pub host: IpAddr,
    /// Port.
    pub port: u16,
    /// Log file.
    pub log: PathBuf,
}

/// The Kubernetes API server and its etcd.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KubeNode {
    /// Base address, e.g. `https://127.0.0.1:20011`.
    pub server: String,
    /// Address of the API server.
    pub address: SocketAddr,
    /// Client address of etcd.
    pub etcd: SocketAddr,
    /// Folder with one kubeconfig file per identity, `<name>.json`.
    pub kubeconfig_dir: PathBuf,
    /// The server's certificate chain in PEM form.
    pub ca_file: PathBuf,
    /// Token of an identity in `system:masters`.
    pub admin_token: String,
}

/// A user name and its password.
#[derive(Clone, Serialize, Deserialize)]
pub struct Account {
    /// User name.
    pub user: String,
    /// Password, random for each lab.
    pub password: String,
}

/// The accounts of a lab's servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Credentials {
    /// MySQL account of the controllers: roles, fences and looks at the server, reads no application data.
    pub bloodraven: Account,
    /// MySQL account of the replication channels.
    pub replication: Account,
    /// MySQL account of the application: everything on the schema `app`.
    pub app: Account,
    /// NATS account of the controllers.
    pub nats: Account,
    /// NATS system account (monitoring, kicking of clients).
    pub nats_system: Account,
    /// Password of the Valkey servers.
    pub valkey: Account,
}

/// The whole state of a lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LabState {
    pub(crate) name: String,
    /// The program whose end ends the lab; absent once the lab is detached.
    pub(crate) owner: Option<ProcessId>,
    pub(crate) mysql: Vec<MysqlNode>,
    pub(crate) nats: Vec<NatsNode>,
    pub(crate) valkey: Vec<ValkeyNode>,
    pub(crate) kube: Option<KubeNode>,
    pub(crate) credentials: Credentials,
    pub(crate) processes: Vec<ProcessSpec>,
}

impl MysqlNode {
    /// Address for applications and replication.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }

    /// Address for administrative connections.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.admin_port)
    }
}

impl NatsNode {
    /// Client address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }

    /// Address of the monitoring endpoints.
    #[must_use]
    pub fn monitoring_address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.monitoring_port)
    }
}

impl ValkeyNode {
    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Account")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// New random passwords for all accounts.
    pub(crate) fn random() -> Result<Self, LabError> {
        const PASSWORD_BYTES: usize = 16;
        let account = |user: &str| -> Result<Account, LabError> {
            Ok(Account {
                user: user.to_owned(),
                password: files::random_hex(PASSWORD_BYTES)?,
            })
        };
        Ok(Self {
            bloodraven: account("bloodraven")?,
            replication: account("replication")?,
            app: account("app")?,
            nats: account("bloodraven")?,
            nats_system: account("system")?,
            valkey: account("default")?,
        })
    }
}

impl LabState {
    pub(crate) fn write(&self, dir: &Path) -> Result<(), LabError> {
        let path = dir.join(STATE_FILE);
        let json = serde_json::to_vec_pretty(self).map_err(|source| LabError::State {
            path: path.clone(),
            source,
        })?;
        files::write_private(&path, &json)
    }

    pub(crate) fn read(dir: &Path) -> Result<Self, LabError> {
        let path = dir.join(STATE_FILE);
        let text = files::read_text(&path)?;
        serde_json::from_str(&text).map_err(|source| LabError::State { path, source })
    }
}

/// The folders in which labs are kept, the preferred one first: memory when there is one, else the cache.
pub(crate) fn base_dirs() -> Vec<PathBuf> {
    let memory = PathBuf::from("/dev/shm");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let is_tmpfs = mounts.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some("/dev/shm") && words.next() == Some("tmpfs")
    });
    let cache = cache_dir().join("labs");
    if is_tmpfs { vec![memory, cache] } else { vec![cache] }
}

/// The folder of the lab `name` under `base`.
pub(crate) fn lab_dir(base: &Path, name: &str) -> PathBuf {
    base.join(format!("{FOLDER_PREFIX}{name}"))
}

/// Names and folders of all labs that have state in one of the usual places.
pub(crate) fn known_labs() -> Vec<(String, PathBuf)> {
    let mut labs = Vec::new();
    for base in base_dirs() {
        for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
            let file_name = entry.file_name();
            if let Some(name) = file_name.to_str().and_then(|text| text.strip_prefix(FOLDER_PREFIX))
                && entry.path().join(STATE_FILE).exists()
            {
                labs.push((name.to_owned(), entry.path()));
            }
        }
    }
    labs.sort();
    labs
}
