//! The sections that every binary has. A binary embeds them with `#[serde(flatten)]` beside its own keys.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Problems, Secret, duration};

const BUS_PASSWORD: &str = "bus.password";
const MYSQL_PASSWORD: &str = "mysql.password";
const REPLICATION_PASSWORD: &str = "mysql.replication-password";

/// Keys shared by all binaries.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct CommonConfig {
    /// Name of this replica in logs, messages and claims. Default: the host name, which is the pod's name in a cluster.
    pub instance: String,
    /// The message bus.
    pub bus: BusConfig,
    /// The API server.
    pub kubernetes: KubernetesConfig,
    /// The endpoints for probes and metrics.
    pub admin: AdminConfig,
    /// What is logged and how.
    pub log: LogConfig,
    /// How MySQL servers are reached.
    pub mysql: MysqlConfig,
    /// How long tasks may go on after a stop was asked for.
    #[serde(with = "duration")]
    pub shutdown_grace: Duration,
}

/// `bus`: the NATS servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct BusConfig {
    /// Servers of one cluster, `nats://host:4222` or `tls://host:4222`, without user or password in them.
    pub urls: Vec<String>,
    /// User name, when the servers ask for one.
    pub user: Option<String>,
    /// Password of that user.
    pub password: Secret,
    /// File whose text is the password.
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM) to trust for `tls://` servers. Default: those of the system.
    pub ca_file: Option<PathBuf>,
}

/// `kubernetes`: which API server, which namespace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct KubernetesConfig {
    /// Kubeconfig file. Default: the pod's service account, else the usual places.
    pub kubeconfig: Option<PathBuf>,
    /// The only namespace to look after. Default: all.
    pub namespace: Option<String>,
}

/// `admin`: probes and metrics.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct AdminConfig {
    /// Address to listen on; port 0 takes any free one and the log tells which.
    pub address: SocketAddr,
}

/// `log`: format and filter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct LogConfig {
    /// Lines for machines or for people.
    pub format: LogFormat,
    /// Filter directives, such as `info,bloodraven_fencer=debug`.
    pub filter: String,
    /// Fields to put on every line, such as `pod`.
    pub fields: BTreeMap<String, String>,
}

/// How a log line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Text for people.
    Text,
}

/// `mysql`: accounts and bounds for the sessions on all servers of all groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MysqlConfig {
    /// Administrative account.
    pub user: String,
    /// Password of the administrative account.
    pub password: Secret,
    /// File whose text is that password.
    pub password_file: Option<PathBuf>,
    /// Account that replicas use on their source.
    pub replication_user: String,
    /// Password of the replication account.
    pub replication_password: Secret,
    /// File whose text is that password.
    pub replication_password_file: Option<PathBuf>,
    /// Bound on opening and authenticating a session.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    /// Bound on one statement, unless the step has a tighter one of its own.
    #[serde(with = "duration")]
    pub statement_timeout: Duration,
    /// Encryption of the sessions.
    pub tls: MysqlTlsConfig,
}

/// `mysql.tls`: encryption of MySQL sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MysqlTlsConfig {
    /// How much is asked of the server.
    pub mode: MysqlTlsMode,
    /// Certificates (PEM) to trust, for the two modes that verify.
    pub ca_file: Option<PathBuf>,
}

/// The names are those of the MySQL client's `--ssl-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MysqlTlsMode {
    /// Plain text.
    #[default]
    Disabled,
    /// Encrypted, the server's certificate is not looked at.
    Required,
    /// Encrypted, the certificate must be signed by a trusted one.
    VerifyCa,
    /// As `verify-ca`, and the certificate must name the host.
    VerifyIdentity,
}

impl Default for CommonConfig {
    fn default() -> Self {
        Self {
            instance: String::new(),
            bus: BusConfig::default(),
            kubernetes: KubernetesConfig::default(),
            admin: AdminConfig::default(),
            log: LogConfig::default(),
            mysql: MysqlConfig::default(),
            // Below the 30 s that a pod is given by default, so that the log says who was slow before the kill comes.
            shutdown_grace: Duration::from_secs(25),
        }
    }
}

impl Default for BusConfig {
    fn default() -> Self {
        Self {
            urls: vec!["nats://127.0.0.1:4222".to_owned()],
            user: None,
            password: Secret::default(),
            password_file: None,
            ca_file: None,
        }
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8080)),
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            format: LogFormat::Json,
            filter: "info".to_owned(),
            fields: BTreeMap::new(),
        }
    }
}

impl Default for MysqlConfig {
    fn default() -> Self {
        Self {
            user: "bloodraven".to_owned(),
            password: Secret::default(),
            password_file: None,
            replication_user: "replication".to_owned(),
            replication_password: Secret::default(),
            replication_password_file: None,
            connect_timeout: Duration::from_secs(3),
            statement_timeout: Duration::from_secs(5),
            tls: MysqlTlsConfig::default(),
        }
    }
}

impl CommonConfig {
    /// Fills in what follows from other keys: secrets that are given as files.
    pub(super) fn derive(&mut self, problems: &mut Problems) {
        let (bus, mysql) = (&mut self.bus, &mut self.mysql);
        for (key, file, secret) in [
            (BUS_PASSWORD, &bus.password_file, &mut bus.password),
            (MYSQL_PASSWORD, &mysql.password_file, &mut mysql.password),
            (
                REPLICATION_PASSWORD,
                &mysql.replication_password_file,
                &mut mysql.replication_password,
            ),
        ] {
            read_secret(key, file.as_deref(), secret, problems);
        }
    }

    /// The keys of the secrets that come from files, for telling so.
    pub(super) fn secret_files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            (BUS_PASSWORD, &self.bus.password_file),
            (MYSQL_PASSWORD, &self.mysql.password_file),
            (REPLICATION_PASSWORD, &self.mysql.replication_password_file),
        ];
        files
            .into_iter()
            .filter_map(|(key, file)| Some((key, file.as_deref()?)))
    }

    /// Checks what holds for every binary.
    pub(super) fn validate(&self, problems: &mut Problems) {
        self.validate_bus(problems);
        if let Err(error) = tracing_subscriber::EnvFilter::builder().parse(&self.log.filter) {
            problems.add(
                "log.filter",
                error.to_string(),
                "use directives such as info,bloodraven_fencer=debug",
            );
        }
        if self.kubernetes.namespace.as_deref() == Some("") {
            problems.add(
                "kubernetes.namespace",
                "is empty",
                "name a namespace, or remove the key for all of them",
            );
        }
        if let Some(path) = self.kubernetes.kubeconfig.as_deref()
            && !path.is_file()
        {
            problems.add(
                "kubernetes.kubeconfig",
                "there is no such file",
                "give the path of a kubeconfig file",
            );
        }
        let [shortest, longest] = [Duration::from_millis(1), Duration::from_secs(300)];
        problems.duration_within("mysql.connect-timeout", self.mysql.connect_timeout, shortest, longest);
        problems.duration_within(
            "mysql.statement-timeout",
            self.mysql.statement_timeout,
            shortest,
            longest,
        );
        problems.duration_within(
            "shutdown-grace",
            self.shutdown_grace,
            shortest,
            Duration::from_secs(3600),
        );
        let verifies = matches!(
            self.mysql.tls.mode,
            MysqlTlsMode::VerifyCa | MysqlTlsMode::VerifyIdentity
        );
        if !verifies && self.mysql.tls.ca_file.is_some() {
            problems.add(
                "mysql.tls.ca-file",
                "is given but nothing is verified",
                "set mysql.tls.mode = \"verify-identity\"",
            );
        }
    }

    fn validate_bus(&self, problems: &mut Problems) {
        let bus = &self.bus;
        if bus.urls.is_empty() {
            problems.add(
                "bus.urls",
                "is empty",
                "name at least one server, such as nats://nats:4222",
            );
        }
        for url in &bus.urls {
            let rest = url.strip_prefix("nats://").or_else(|| url.strip_prefix("tls://"));
            match rest {
                None => problems.add(
                    "bus.urls",
                    "an entry has no known scheme",
                    "begin each with nats:// or tls://",
                ),
                Some(rest) if rest.contains('@') => problems.add(
                    "bus.urls",
                    "an entry has a user in it, which would be logged",
                    "move user and password to bus.user and bus.password-file",
                ),
                Some("") => problems.add("bus.urls", "an entry has no host", "give nats://host:port"),
                Some(_) => {}
            }
        }
        if bus.user.is_some() != bus.password.is_set() {
            problems.add(
                "bus.user",
                "user and password go together",
                "set both bus.user and bus.password-file, or neither",
            );
        }
    }
}

impl MysqlConfig {
    /// For binaries that talk to MySQL: the administrative account must be complete.
    pub fn require_admin(&self, problems: &mut Problems) {
        problems.require("mysql.user", !self.user.is_empty());
        problems.require(MYSQL_PASSWORD, self.password.is_set());
    }

    /// For binaries that set up replication: the replication account must be complete.
    pub fn require_replication(&self, problems: &mut Problems) {
        problems.require("mysql.replication-user", !self.replication_user.is_empty());
        problems.require(REPLICATION_PASSWORD, self.replication_password.is_set());
    }
}

/// Reads `<key>-file` into the secret at `key`.
fn read_secret(key: &str, path: Option<&Path>, secret: &mut Secret, problems: &mut Problems) {
    let Some(path) = path else { return };
    let file_key = format!("{key}-file");
    if secret.is_set() {
        problems.add(&file_key, format!("{key} is set as well"), "keep one of the two");
        return;
    }
    match std::fs::read_to_string(path) {
        Ok(text) => {
            *secret = Secret::new(text.trim_end_matches(['\r', '\n']));
            if !secret.is_set() {
                problems.add(&file_key, "the file is empty", "write the secret into it");
            }
        }
        Err(error) => problems.add(
            &file_key,
            format!("cannot read it: {error}"),
            "mount the file or correct the path",
        ),
    }
}
