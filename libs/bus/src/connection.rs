//! The connection: made once, kept for ever.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, jetstream};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::error::{Error, Result};

/// A peer that is gone is noticed after two of these; TCP itself would take minutes.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// How long one server may take to accept a connection before the next one is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a request to JetStream may take. Callers repeat it: a request to what has no leader is never answered.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How to reach the bus.
#[derive(Clone)]
pub struct BusOptions {
    /// The servers, like `nats://nats-0.nats:4222`; the client learns of further ones from them. The first one that
    /// carries user and password (`nats://user:password@…`) gives them for all, when `credentials` does not.
    pub urls: Vec<String>,
    /// User and password, when the servers ask for them.
    pub credentials: Option<Credentials>,
    /// A file of certificates that the servers' are checked against, for `tls://` URLs; the system's otherwise.
    pub certificates: Option<PathBuf>,
    /// The binary, like `fencer`: the source of its messages and the connection's name on the server.
    pub name: String,
}

/// User and password.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: SecretString,
}

/// A connection to the bus, shared by everything in a process. It comes back by itself after every loss.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    pub(crate) name: String,
    /// Counts what may have cost messages: lost connections and subscriptions that were too slow.
    pub(crate) disruptions: watch::Receiver<u64>,
}

impl fmt::Debug for BusOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.urls.iter().map(|url| split_credentials(url).0).collect();
        f.debug_struct("BusOptions")
            .field("servers", &servers)
            .field("credentials", &self.credentials)
            .field("certificates", &self.certificates)
            .field("name", &self.name)
            .finish()
    }
}

impl Connection {
    /// Whether a server answers right now, as the client sees it.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// Asks the server for a round trip; false when there is none within `limit`. This, and no server's opinion of
    /// itself, is what readiness goes by (report B53).
    pub async fn answers_within(&self, limit: Duration) -> bool {
        self.is_connected() && matches!(tokio::time::timeout(limit, self.client.flush()).await, Ok(Ok(())))
    }

    /// The binary's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client, for tests and tools.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// JetStream, for tests and tools.
    pub const fn jetstream(&self) -> &jetstream::Context {
        &self.jetstream
    }
}

/// Begins to connect and returns at once; the connection is made and kept in the background, for ever.
///
/// # Errors
/// When the options cannot be used. A server that does not answer is no error.
pub async fn connect(options: BusOptions) -> Result<Connection> {
    let (servers, in_urls): (Vec<_>, Vec<_>) = options.urls.iter().map(|url| split_credentials(url)).unzip();
    let credentials = options.credentials.or_else(|| in_urls.into_iter().flatten().next());
    let (disrupted, disruptions) = watch::channel(0);
    let mut connect = ConnectOptions::new()
        .name(&options.name)
        .retry_on_initial_connect()
        .max_reconnects(None)
        .ping_interval(PING_INTERVAL)
        .connection_timeout(CONNECT_TIMEOUT)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .reconnect_delay_callback(pause_before_attempt)
        .event_callback(move |event| {
            let disrupted = disrupted.clone();
            async move { on_event(&event, &disrupted) }
        });
    if let Some(Credentials { user, password }) = credentials {
        connect = connect.user_and_password(user, password.expose_secret().to_owned());
    }
    if let Some(file) = options.certificates {
        connect = connect.add_root_certificates(file);
    }
    let urls = servers.join(",");
    let client = connect
        .connect(servers)
        .await
        .map_err(|source| Error::Connect { urls, source })?;
    let jetstream = jetstream::ContextBuilder::new()
        .timeout(REQUEST_TIMEOUT)
        .build(client.clone());
    Ok(Connection {
        client,
        jetstream,
        name: options.name,
        disruptions,
    })
}

/// A URL without user and password, and those. The client takes them only apart.
fn split_credentials(url: &str) -> (String, Option<Credentials>) {
    let (scheme, rest) = url
        .split_once("://")
        .map_or(("nats", url), |(scheme, rest)| (scheme, rest));
    let Some((account, host)) = rest.rsplit_once('@') else {
        return (url.to_owned(), None);
    };
    let (user, password) = account.split_once(':').unwrap_or((account, ""));
    let credentials = Credentials {
        user: user.to_owned(),
        password: password.into(),
    };
    (format!("{scheme}://{host}"), Some(credentials))
}

/// 50 ms, then doubled up to [`LONGEST_PAUSE`]: another server of the cluster is usually there at once.
fn pause_before_attempt(attempt: usize) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1).min(6)).unwrap_or(6);
    Duration::from_millis(50)
        .saturating_mul(1 << doublings)
        .min(LONGEST_PAUSE)
}

fn on_event(event: &Event, disrupted: &watch::Sender<u64>) {
    match event {
        Event::Connected => info!("connected to the bus"),
        Event::Disconnected => warn!("the bus is gone; connecting again"),
        Event::SlowConsumer(_) => warn!("messages were dropped: a subscription is too slow"),
        Event::LameDuckMode => info!("the server is about to stop; another one is taken"),
        Event::Draining | Event::Closed => return,
        Event::ServerError(error) => {
            warn!(%error, "the server reports an error");
            return;
        }
        Event::ClientError(error) => {
            warn!(%error, "the client reports an error");
            return;
        }
    }
    disrupted.send_modify(|count| *count = count.wrapping_add(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// User and password are taken out of a URL, so that no error shows them.
    #[test]
    fn passwords_are_taken_out_of_urls() {
        for (url, server, account) in [
            (
                "nats://user:se:cret@n1:4222",
                "nats://n1:4222",
                Some(("user", "se:cret")),
            ),
            ("user:p@ss@n1", "nats://n1", Some(("user", "p@ss"))),
            ("tls://n1:4222", "tls://n1:4222", None),
            ("n1:4222", "n1:4222", None),
        ] {
            let (found, credentials) = split_credentials(url);
            assert_eq!(found, server);
            let found = credentials
                .as_ref()
                .map(|found| (found.user.as_str(), found.password.expose_secret()));
            assert_eq!(found, account);
            let options = BusOptions {
                urls: vec![url.to_owned()],
                credentials,
                certificates: None,
                name: "test".to_owned(),
            };
            let shown = format!("{options:?}");
            assert!(!shown.contains("p@ss") && !shown.contains("pa:ss"), "{shown}");
        }
    }

    /// Attempts to connect come fast at first and never more than two seconds apart.
    #[test]
    fn pauses_grow_to_a_bound() {
        let pauses: Vec<_> = [1, 2, 3, 10, 1000]
            .map(pause_before_attempt)
            .map(|pause| pause.as_millis())
            .to_vec();
        assert_eq!(pauses, [50, 100, 200, 2000, 2000]);
    }
}
