//! Opens connections to one address: the session's own, and the side connection that settles what became of a statement.

use std::sync::Arc;
use std::time::Duration;

use bloodraven_ports::ServerAddress;
use mysql_async::{Conn, OptsBuilder, SslOpts};
use secrecy::ExposeSecret as _;
use tokio::time::Instant;

use crate::host::{Host, InvalidHost};
use crate::options::{ClientTls, MysqlOptions};

/// How long the server keeps an idle session of ours, in seconds: longer than any run waits between two statements.
const WAIT_TIMEOUT_SECONDS: usize = 28_800;

/// The largest packet taken; given, so that the client does not have to ask the server.
const MAX_PACKET_BYTES: usize = 64 * 1024 * 1024;

/// After how much silence the kernel probes the other side.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// What a pinned session runs under; the crate's documentation says why.
pub(crate) const SESSION_SETTINGS: &str = "SET NAMES utf8mb4, SESSION autocommit = 1, SESSION sql_mode = '', SESSION lock_wait_timeout = 1, \
     SESSION max_execution_time = 0, SESSION wait_timeout = 28800, SESSION interactive_timeout = 28800";

/// Opens connections to one address. The name is looked up anew each time (report B72).
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub(crate) options: Arc<MysqlOptions>,
    pub(crate) address: ServerAddress,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The address is none.
    #[error(transparent)]
    Host(#[from] InvalidHost),
    /// Nothing came in time.
    #[error("no connection to {address} within {timeout:?}")]
    Timeout { address: String, timeout: Duration },
    /// The client failed, or the server refused it.
    #[error("cannot connect to {address}: {source}")]
    Client {
        address: String,
        source: mysql_async::Error,
    },
}

impl Connector {
    /// When a connection that is begun now has to be there.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.options.connect_timeout
    }

    /// Connects and authenticates until the deadline.
    pub(crate) async fn connect(&self, deadline: Instant) -> Result<Conn, ConnectError> {
        let host = Host::parse(&self.address.host)?;
        let address = format!("{host}:{}", self.address.port);
        match tokio::time::timeout_at(deadline, Conn::new(self.client_options(&host))).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(source)) => Err(ConnectError::Client { address, source }),
            Err(_elapsed) => Err(ConnectError::Timeout {
                address,
                timeout: self.options.connect_timeout,
            }),
        }
    }

    fn client_options(&self, host: &Host) -> OptsBuilder {
        let options = &self.options;
        OptsBuilder::default()
            .ip_or_hostname(host.as_str())
            .tcp_port(self.address.port)
            // Else the client goes over to the server's socket, past the address that it was given.
            .prefer_socket(false)
            .user(Some(options.user.clone()))
            .pass(Some(options.password.expose_secret()))
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEPALIVE))
            .max_allowed_packet(Some(MAX_PACKET_BYTES))
            .wait_timeout(Some(WAIT_TIMEOUT_SECONDS))
            .stmt_cache_size(0)
            .connect_attribute("program_name", options.program_name.clone())
            .ssl_opts(client_tls(&options.tls, host))
    }
}

fn client_tls(choice: &ClientTls, host: &Host) -> Option<SslOpts> {
    match choice {
        ClientTls::Disabled => None,
        ClientTls::Encrypted => Some(
            SslOpts::default()
                .with_danger_accept_invalid_certs(true)
                .with_danger_skip_domain_validation(true),
        ),
        ClientTls::Verified { certificate_authority } => Some(
            SslOpts::default()
                .with_root_certs(vec![certificate_authority.clone().into()])
                .with_disable_built_in_roots(true)
                .with_danger_tls_hostname_override(Some(host.certificate_name())),
        ),
    }
}
