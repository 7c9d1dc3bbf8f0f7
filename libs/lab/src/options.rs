//! What a lab should consist of.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// Longest name of a lab; Unix socket paths are short.
const NAME_LENGTH: usize = 40;

/// What a site may become, as in `spec.sites[].role`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SiteRole {
    /// It may become the primary.
    PrimaryCandidate,
    /// It only holds a copy.
    DisasterRecovery,
}

/// One site of a lab.
#[derive(Clone, Debug)]
pub struct SiteOptions {
    /// Site name, also in process names and pod labels.
    pub name: String,
    /// What the site may become.
    pub role: SiteRole,
    /// Loopback address its servers listen on.
    pub host: IpAddr,
}

/// What a lab should consist of. [`LabOptions::default`] is everything; fields are public so that
/// `LabOptions { kube: false, ..LabOptions::default() }` works.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Name of the lab: letters, digits, `-` and `.`, at most 40. Two labs of one name cannot be up at once.
    pub name: String,
    /// Starts a MySQL server for each site; the first site becomes the writable primary of the others.
    pub mysql: bool,
    /// Starts a three-server NATS cluster with JetStream and `sync_interval: always`.
    pub nats: bool,
    /// Starts etcd and a Kubernetes API server.
    pub kube: bool,
    /// Starts a Valkey server for each site; the first one is the primary of the others.
    pub valkey: bool,
    /// The sites, the first primary first.
    pub sites: Vec<SiteOptions>,
    /// Switches MySQL's performance schema on (costs 150 MB for each server).
    pub performance_schema: bool,
    /// Further lines for the `[mysqld]` section of every server.
    pub mysqld_config: Vec<String>,
    /// Ports to use instead of free ones, by port name: `mysql-iad`, `mysql-iad-admin`, `nats-1`, `nats-1-cluster`,
    /// `nats-1-monitoring`, `etcd`, `etcd-peer`, `kube-apiserver`, `valkey-iad`.
    pub ports: BTreeMap<String, u16>,
    /// Folder under which the lab's folder is made; `/dev/shm` when that is memory, else the cache folder.
    pub base_dir: Option<PathBuf>,
    /// Folders whose `*.yaml` manifests are applied in this order, custom resource definitions before all others.
    /// Folders that do not exist are left out.
    pub manifests: Vec<PathBuf>,
    /// Kubernetes namespace of objects that name none.
    pub namespace: String,
}

impl SiteOptions {
    /// A site on 127.0.0.1.
    #[must_use]
    pub fn new(name: &str, role: SiteRole) -> Self {
        Self {
            name: name.to_owned(),
            role,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            mysql: true,
            nats: true,
            kube: true,
            valkey: false,
            sites: vec![
                SiteOptions::new("iad", SiteRole::PrimaryCandidate),
                SiteOptions::new("pdx", SiteRole::PrimaryCandidate),
                SiteOptions::new("ord", SiteRole::DisasterRecovery),
            ],
            performance_schema: false,
            mysqld_config: Vec::new(),
            ports: BTreeMap::new(),
            base_dir: None,
            manifests: Vec::new(),
            namespace: "default".to_owned(),
        }
    }
}

impl LabOptions {
    /// Options for a test: nothing is switched on, and the name is unique on this machine. `hint` makes the lab
    /// recognisable in `lab status`.
    #[must_use]
    pub fn for_test(hint: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}-{hint}", std::process::id());
        let name = name.chars().take(NAME_LENGTH).collect();
        Self {
            name,
            mysql: false,
            nats: false,
            kube: false,
            valkey: false,
            ..Self::default()
        }
    }

    /// Switches MySQL on.
    #[must_use]
    pub fn with_mysql(self) -> Self {
        Self { mysql: true, ..self }
    }

    /// Switches NATS on.
    #[must_use]
    pub fn with_nats(self) -> Self {
        Self { nats: true, ..self }
    }

    /// Switches the Kubernetes API server on.
    #[must_use]
    pub fn with_kube(self) -> Self {
        Self { kube: true, ..self }
    }

    /// Switches Valkey on.
    #[must_use]
    pub fn with_valkey(self) -> Self {
        Self { valkey: true, ..self }
    }

    /// Adds a folder of Kubernetes manifests.
    #[must_use]
    pub fn with_manifests(mut self, folder: impl Into<PathBuf>) -> Self {
        self.manifests.push(folder.into());
        self
    }

    /// Refuses names that cannot be folder, server or label names.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let fits = |name: &str| {
            !name.is_empty()
                && name.len() <= NAME_LENGTH
                && name
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.')
        };
        if !fits(&self.name) {
            let reason = format!("{:?} is not 1 to {NAME_LENGTH} letters, digits, '-' or '.'", self.name);
            return Err(LabError::Option { option: "name", reason });
        }
        for (index, site) in self.sites.iter().enumerate() {
            let repeated = self.sites.iter().skip(index + 1).any(|other| other.name == site.name);
            if !fits(&site.name) || repeated {
                let reason = format!("site name {:?} is not usable or not unique", site.name);
                return Err(LabError::Option {
                    option: "sites",
                    reason,
                });
            }
            if !site.host.is_loopback() {
                let reason = format!(
                    "site {} is on {}, which is not a loopback address",
                    site.name, site.host
                );
                return Err(LabError::Option {
                    option: "sites",
                    reason,
                });
            }
        }
        if self.sites.is_empty() && (self.mysql || self.valkey) {
            return Err(LabError::Option {
                option: "sites",
                reason: "there are none".to_owned(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::LabOptions;

    /// Names that would leave the lab's folder or break a socket path are refused before anything is started.
    #[test]
    fn unusable_names_are_refused() {
        for name in ["", "../x", "a b", &"x".repeat(41)] {
            let options = LabOptions {
                name: name.to_owned(),
                ..LabOptions::default()
            };
            assert!(options.check().is_err(), "{name:?}");
        }
        assert!(
            LabOptions::for_test("a-very-long-hint-that-would-not-fit-in-a-socket-path")
                .check()
                .is_ok()
        );
        assert_ne!(LabOptions::for_test("x").name, LabOptions::for_test("x").name);
    }
}
