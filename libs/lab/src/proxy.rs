//! What kube-proxy does in a cluster: connections to one address go to the pod that a Service's selector matches now.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::LabError;

/// Pod label that names the site.
pub const SITE_LABEL: &str = "shipstream.io/site";
/// How long the first look at the pods may take.
const FIRST_LIST_BUDGET: Duration = Duration::from_secs(10);
/// Pause before the pods are watched anew after the API server was lost.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A Service of a cluster that is not there: a loopback address whose new connections go to the pod that matches the
/// selector at that moment. Connections that exist stay where they are; with no matching pod a connection is reset at
/// once. Dropping it ends the listener and all its connections.
#[derive(Debug)]
pub struct ServiceProxy {
    address: SocketAddr,
    target: watch::Receiver<Option<SocketAddr>>,
    _end: DropGuard,
}

impl ServiceProxy {
    /// Listens on a free port of 127.0.0.1 and follows the pods of `namespace` that carry all labels of `selector`;
    /// `sites` maps the value of a pod's site label to the address of its server. Returns when the pods have been
    /// looked at once.
    ///
    /// # Errors
    /// `Io` when it cannot listen, `Kube` when the pods cannot be listed.
    pub async fn start(
        client: Client,
        namespace: &str,
        selector: &BTreeMap<String, String>,
        sites: BTreeMap<String, SocketAddr>,
    ) -> Result<Self, LabError> {
        Self::start_on(
            SocketAddr::from(([127, 0, 0, 1], 0)),
            client,
            namespace,
            selector,
            sites,
        )
        .await
    }

    /// Like [`ServiceProxy::start`] on an address of the caller's choice.
    ///
    /// # Errors
    /// As [`ServiceProxy::start`].
    pub async fn start_on(
        listen: SocketAddr,
        client: Client,
        namespace: &str,
        selector: &BTreeMap<String, String>,
        sites: BTreeMap<String, SocketAddr>,
    ) -> Result<Self, LabError> {
        let path = std::path::PathBuf::from(listen.to_string());
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|source| LabError::io("listen on", &path, source))?;
        let address = listener
            .local_addr()
            .map_err(|source| LabError::io("listen on", &path, source))?;
        let end = CancellationToken::new();
        let (sender, mut target) = watch::channel(None);
        let labels = selector
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
            .join(",");
        let api = Api::namespaced(client, namespace);
        let (listed, first_list) = watch::channel(false);
        tokio::spawn(
            end.clone()
                .run_until_cancelled_owned(follow(api, labels, sites, sender, listed)),
        );
        tokio::spawn(
            end.clone()
                .run_until_cancelled_owned(accept(listener, target.clone(), end.clone())),
        );
        let proxy_end = end.drop_guard();
        await_first(first_list).await?;
        target.mark_unchanged();
        Ok(Self {
            address,
            target,
            _end: proxy_end,
        })
    }

    /// The address to connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a new connection would go now.
    #[must_use]
    pub fn target(&self) -> Option<SocketAddr> {
        *self.target.borrow()
    }

    /// A receiver of every change of the target.
    #[must_use]
    pub fn watch_target(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.target.clone()
    }
}

async fn await_first(mut listed: watch::Receiver<bool>) -> Result<(), LabError> {
    let doing = "listing pods for a service proxy";
    tokio::time::timeout(FIRST_LIST_BUDGET, listed.wait_for(|done| *done))
        .await
        .map_err(|error| LabError::kube(doing, error))?
        .map_err(|error| LabError::kube(doing, error))
        .map(drop)
}

/// Keeps the target in step with the pods. When the API server is away, the last known target stays.
async fn follow(
    api: Api<Pod>,
    labels: String,
    sites: BTreeMap<String, SocketAddr>,
    target: watch::Sender<Option<SocketAddr>>,
    listed: watch::Sender<bool>,
) {
    let mut pods = Pods {
        sites,
        current: HashMap::new(),
        listing: HashMap::new(),
    };
    loop {
        let mut events = watcher::watcher(api.clone(), watcher::Config::default().labels(&labels)).boxed();
        loop {
            match events.try_next().await {
                Ok(Some(event)) => {
                    if pods.take(event) {
                        let now = pods.target();
                        target.send_if_modified(|old| std::mem::replace(old, now) != now);
                        listed.send_replace(true);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "watch of pods lost; trying again");
                    break;
                }
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// The pods that match, by name.
struct Pods {
    sites: BTreeMap<String, SocketAddr>,
    current: HashMap<String, SocketAddr>,
    listing: HashMap<String, SocketAddr>,
}

impl Pods {
    /// Takes an event in; true when the pods are known completely after it.
    fn take(&mut self, event: Event<Pod>) -> bool {
        match event {
            Event::Init => {
                self.listing.clear();
                false
            }
            Event::InitApply(pod) => {
                self.listing.extend(self.entry(&pod));
                false
            }
            Event::InitDone => {
                self.current = std::mem::take(&mut self.listing);
                true
            }
            Event::Apply(pod) => {
                self.current.remove(&pod.name_any());
                self.current.extend(self.entry(&pod));
                true
            }
            Event::Delete(pod) => {
                self.current.remove(&pod.name_any());
                true
            }
        }
    }

    fn entry(&self, pod: &Pod) -> Option<(String, SocketAddr)> {
        let site = pod.labels().get(SITE_LABEL)?;
        let deleted = pod.metadata.deletion_timestamp.is_some();
        self.sites
            .get(site)
            .filter(|_| !deleted)
            .map(|address| (pod.name_any(), *address))
    }

    /// The matching pod whose name comes first; a Service whose selector is right matches one.
    fn target(&self) -> Option<SocketAddr> {
        self.current.iter().min().map(|(_, address)| *address)
    }
}

async fn accept(listener: TcpListener, target: watch::Receiver<Option<SocketAddr>>, end: CancellationToken) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, say: a moment later there may be some.
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        };
        let address = *target.borrow();
        tokio::spawn(end.clone().run_until_cancelled_owned(relay(client, address)));
    }
}

async fn relay(mut client: TcpStream, address: Option<SocketAddr>) {
    let server = match address {
        Some(address) => TcpStream::connect(address).await.ok(),
        None => None,
    };
    let Some(mut server) = server else {
        // As a cluster does for a Service without endpoints: the connection is reset, not left hanging.
        let _ = client.set_zero_linger();
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    if tokio::io::copy_bidirectional(&mut client, &mut server).await.is_err() {
        // The server was lost in mid-talk: the client shall see it as it would without a relay.
        let _ = client.set_zero_linger();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};
    use std::net::SocketAddr;

    use k8s_openapi::api::core::v1::Pod;
    use kube::runtime::watcher::Event;

    use super::{Pods, SITE_LABEL};

    fn pod(name: &str, site: &str) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": name, "labels": {SITE_LABEL: site}}})).unwrap()
    }

    /// A half-finished list changes nothing; a finished one replaces all; single events change single pods.
    #[test]
    fn target_follows_the_events() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let sites = BTreeMap::from([("iad".to_owned(), address(1)), ("pdx".to_owned(), address(2))]);
        let mut pods = Pods {
            sites,
            current: HashMap::new(),
            listing: HashMap::new(),
        };
        assert!(pods.take(Event::Apply(pod("a", "iad"))));
        assert_eq!(pods.target(), Some(address(1)));
        pods.take(Event::Init);
        assert!(!pods.take(Event::InitApply(pod("b", "pdx"))));
        assert_eq!(pods.target(), Some(address(1)));
        assert!(pods.take(Event::InitDone));
        assert_eq!(pods.target(), Some(address(2)));
        pods.take(Event::Delete(pod("b", "pdx")));
        assert_eq!(pods.target(), None);
        pods.take(Event::Apply(pod("c", "elsewhere")));
        assert_eq!(pods.target(), None);
    }
}
