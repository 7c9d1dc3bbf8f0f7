//! A client whose failures are visible: bounded in time, and without retries behind the caller's back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the connection may refuse to take the bytes of a request.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the API server is and who asks.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// A kubeconfig file; without it `KUBECONFIG`, `~/.kube/config` and the pod's service account are tried in this order.
    pub kubeconfig: Option<PathBuf>,
    /// A context of that file, or of the usual files; without it the current one.
    pub context: Option<String>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The named file cannot be used.
    #[error("{path} is no usable kubeconfig file")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KubeconfigError,
    },
    /// A context was named and the usual kubeconfig files do not have it.
    #[error("the context cannot be used")]
    Context(#[from] KubeconfigError),
    /// No file was named and none of the usual places has a configuration.
    #[error("no cluster is configured; name a kubeconfig file or run in a pod with a service account")]
    Infer(#[from] InferConfigError),
    /// The configuration is readable and makes no client.
    #[error("the client for {server} cannot be made")]
    Client {
        /// The server's address.
        server: String,
        /// What the client library said.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Makes a client. Nothing is sent yet; connections are opened at the first request and kept warm.
///
/// # Errors
/// When the configuration is absent, unreadable or makes no client.
pub async fn connect(options: &ConnectOptions) -> Result<Client, ConnectError> {
    let chosen = KubeConfigOptions {
        context: options.context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match &options.kubeconfig {
        Some(path) => from_file(path, &chosen).await?,
        None if chosen.context.is_some() => Config::from_kubeconfig(&chosen).await?,
        None => Config::infer().await?,
    };
    // A silent second attempt would turn a refused write into one of unknown result (PF-DUR-02).
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.write_timeout = Some(WRITE_TIMEOUT);
    // Watches wait for long; each request has a deadline of its own instead.
    config.read_timeout = None;
    let server = config.cluster_url.to_string();
    Client::try_from(config).map_err(|source| ConnectError::Client {
        server,
        source: Box::new(source),
    })
}

async fn from_file(path: &Path, chosen: &KubeConfigOptions) -> Result<Config, ConnectError> {
    let failed = |source| ConnectError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    let file = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(file, chosen).await.map_err(failed)
}
