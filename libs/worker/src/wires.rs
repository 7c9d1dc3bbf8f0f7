//! Adapters from configuration, with their readiness.

use std::time::Duration;

use bloodraven_bus::{BusOptions, Connection, Credentials, NatsBus};
use bloodraven_executor::{Hands, Sessions};
use bloodraven_kubernetes::{Client, ConnectOptions, KubernetesStore, StoreOptions};
use bloodraven_mysql::{ClientTls, MysqlDatabase, MysqlOptions, ReplicationTls};
use bloodraven_service::config::{Config, MysqlConfig, MysqlTlsMode};
use bloodraven_service::{BoxError, Context, SystemClock};

/// How often readiness asks the bus for a round trip, and how long that may take.
const BUS_CHECK: Duration = Duration::from_secs(2);
/// How soon it asks again when there was none: a process that has just started is connected within milliseconds, and
/// its restart should not last longer than it has to.
const BUS_RETRY: Duration = Duration::from_millis(50);
/// How long the last words of a process may take to reach the stream.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// What procedures of a binary with database sessions hold.
pub type DatabaseHands = Hands<MysqlDatabase, KubernetesStore, SystemClock>;

/// Everything that a binary is connected to.
#[derive(Clone)]
pub struct Wires {
    /// The connection to the bus.
    pub connection: Connection,
    /// Speaking on it.
    pub bus: NatsBus<SystemClock>,
    /// The client of the API server.
    pub client: Client,
    /// The groups' records.
    pub store: KubernetesStore,
    /// Time.
    pub clock: SystemClock,
    /// The namespace to look at; all when absent.
    pub namespace: Option<String>,
}

impl Wires {
    /// Connects to the bus and the API server, and keeps the readiness check `bus` true to a round trip.
    ///
    /// # Errors
    /// When the configuration makes no client.
    pub async fn connect<C: Config>(context: &Context<C>) -> Result<Self, BoxError> {
        let common = context.config.common();
        let ready = context.health.check("bus");
        let credentials = common.bus.user.as_ref().map(|user| Credentials {
            user: user.clone(),
            password: common.bus.password.clone().into(),
        });
        let connection = bloodraven_bus::connect(BusOptions {
            urls: common.bus.urls.clone(),
            credentials,
            certificates: common.bus.ca_file.clone(),
            name: context.binary.to_owned(),
        })
        .await?;
        let bus = NatsBus::new(&connection, context.clock).await?;
        let client = bloodraven_kubernetes::connect(&ConnectOptions {
            kubeconfig: common.kubernetes.kubeconfig.clone(),
            context: None,
        })
        .await?;
        let options = StoreOptions {
            instance: common.instance.clone(),
            ..StoreOptions::default()
        };
        let store = KubernetesStore::new(client.clone(), context.clock, options);
        let (checked, last_words) = (connection.clone(), bus.clone());
        let cancel = context.cancel.clone();
        context.tasks.spawn_loop("bus-readiness", async move {
            loop {
                let pause = if checked.answers_within(BUS_CHECK).await {
                    ready.ready();
                    BUS_CHECK
                } else {
                    ready.unready("the bus does not answer a round trip");
                    BUS_RETRY
                };
                if cancel.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                    break;
                }
            }
            last_words.settled_within(LAST_WORDS).await;
            Ok::<(), BoxError>(())
        });
        Ok(Self {
            connection,
            bus,
            client,
            store,
            clock: context.clock,
            namespace: common.kubernetes.namespace.clone(),
        })
    }

    /// Hands for procedures on databases.
    pub fn hands(&self, binary: &str, config: &MysqlConfig) -> DatabaseHands {
        let mut options = MysqlOptions::new(
            config.user.clone(),
            config.password.clone().into(),
            config.replication_user.clone(),
            config.replication_password.clone().into(),
        );
        options.connect_timeout = config.connect_timeout;
        options.statement_timeout = config.statement_timeout;
        options.program_name = format!("bloodraven-{binary}");
        (options.tls, options.replication_tls) = encryption(config);
        Hands {
            sessions: Sessions::new(MysqlDatabase::new(options)),
            store: self.store.clone(),
            clock: self.clock,
        }
    }
}

/// The replicas' connections are encrypted as the controllers' are, since both cross the same networks.
fn encryption(config: &MysqlConfig) -> (ClientTls, ReplicationTls) {
    let authority = config.tls.ca_file.clone();
    match (config.tls.mode, authority) {
        (MysqlTlsMode::Disabled, _) => (ClientTls::Disabled, ReplicationTls::default()),
        (MysqlTlsMode::VerifyCa | MysqlTlsMode::VerifyIdentity, Some(certificate_authority)) => {
            let on_replica = certificate_authority.display().to_string();
            (
                ClientTls::Verified { certificate_authority },
                ReplicationTls::Verified {
                    certificate_authority: on_replica,
                },
            )
        }
        (MysqlTlsMode::Required | MysqlTlsMode::VerifyCa | MysqlTlsMode::VerifyIdentity, _) => {
            (ClientTls::Encrypted, ReplicationTls::Encrypted)
        }
    }
}
