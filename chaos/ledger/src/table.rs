//! The table inside the group: made once on the writable primary, read at the end from each survivor.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use secrecy::{ExposeSecret, SecretString};

use crate::{Endpoint, LedgerError, TableName};

/// How long a survivor may take to answer its connection, and to catch up with the first survivor.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server whose history survived, and how to read it.
#[derive(Debug, Clone)]
pub struct Survivor {
    /// The name it has in the report.
    pub name: String,
    /// `host:port`.
    pub endpoint: String,
    /// A user that may read the ledger's table.
    pub user: String,
    /// Its password.
    pub password: SecretString,
}

/// A row of the ledger's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurvivingRow {
    /// The id the server assigned.
    pub id: u64,
    /// The key the writer chose.
    pub key: String,
}

/// The ledger's table as one survivor holds it, ordered by id.
#[derive(Debug, Clone)]
pub struct SurvivingTable {
    /// The survivor's name.
    pub name: String,
    /// Its rows.
    pub rows: Vec<SurvivingRow>,
}

/// Makes the database and the ledger's table where they do not exist. Call it on the writable primary, before the run.
///
/// # Errors
/// [`mysql_async::Error`] when the server refuses; 1290 when it is not the writable primary.
pub async fn prepare(conn: &mut Conn, table: &TableName) -> Result<(), mysql_async::Error> {
    conn.query_drop(format!("CREATE DATABASE IF NOT EXISTS {}", table.quoted_database()))
        .await?;
    conn.query_drop(format!(
        "CREATE TABLE IF NOT EXISTS {} (
           id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
           writer INT UNSIGNED NOT NULL,
           write_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
           server_uuid CHAR(36) CHARACTER SET ascii NOT NULL COMMENT 'the server the writer believes it is connected to',
           sent_at BIGINT NOT NULL COMMENT 'microseconds since 1970 by the clock of the writer'
         ) ENGINE = InnoDB",
        table.quoted()
    ))
    .await
}

/// Opens one connection over TCP, as the writers do: never through a socket file, which no partition cuts.
///
/// # Errors
/// [`LedgerError::Option`] for an endpoint that is none, [`LedgerError::Server`] or [`LedgerError::Deadline`] when the
/// server does not answer within 30 s.
pub async fn connect(endpoint: &str, user: &str, password: &SecretString) -> Result<Conn, LedgerError> {
    let options = connection_options(&endpoint.parse()?, user, password);
    within(endpoint, "connecting", Conn::new(options)).await
}

/// Reads the ledger's table from every survivor. The first is the one the history is judged by; each other one is first
/// given 30 s to execute every transaction the first had.
///
/// # Errors
/// [`LedgerError`] naming the survivor that could not be read. A survivor that does not catch up in time is read as it
/// is, and the report shows where it differs.
pub async fn read(survivors: &[Survivor], table: &TableName) -> Result<Vec<SurvivingTable>, LedgerError> {
    let mut tables = Vec::with_capacity(survivors.len());
    let mut executed: Option<String> = None;
    for survivor in survivors {
        let mut conn = connect(&survivor.endpoint, &survivor.user, &survivor.password).await?;
        match &executed {
            Some(set) if set.is_empty() => {}
            Some(set) => wait_for(&mut conn, &survivor.name, set).await?,
            None => {
                let query = conn.query_first("SELECT @@GLOBAL.gtid_executed");
                executed = within(&survivor.name, "reading gtid_executed", query).await?;
            }
        }
        let statement = format!("SELECT id, write_key FROM {} ORDER BY id", table.quoted());
        let query = conn.query_map(statement, |(id, key)| SurvivingRow { id, key });
        let rows = query.await.map_err(|source| LedgerError::Server {
            server: survivor.name.clone(),
            action: "reading the ledger's table",
            source,
        })?;
        tracing::info!(survivor = survivor.name, rows = rows.len(), "read a surviving history");
        tables.push(SurvivingTable {
            name: survivor.name.clone(),
            rows,
        });
        if let Err(error) = conn.disconnect().await {
            tracing::debug!(survivor = survivor.name, %error, "the connection did not close cleanly");
        }
    }
    Ok(tables)
}

/// The options of every connection of the ledger.
pub(crate) fn connection_options(endpoint: &Endpoint, user: &str, password: &SecretString) -> Opts {
    OptsBuilder::default()
        .ip_or_hostname(endpoint.host.clone())
        .tcp_port(endpoint.port)
        .user(Some(user))
        .pass(Some(password.expose_secret()))
        .prefer_socket(false)
        // Given here, they need not be asked for: a reconnect is one round trip shorter.
        .max_allowed_packet(Some(16 * 1024 * 1024))
        .wait_timeout(Some(28_800))
        .into()
}

async fn wait_for(conn: &mut Conn, name: &str, set: &str) -> Result<(), LedgerError> {
    let statement = "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)";
    let limit = PATIENCE.as_secs();
    let query = conn.exec_first::<Option<i64>, _, _>(statement, (set, limit));
    let answer = query.await.map_err(|source| LedgerError::Server {
        server: name.to_owned(),
        action: "waiting for the first survivor's transactions",
        source,
    })?;
    if answer.flatten() != Some(0) {
        tracing::warn!(
            survivor = name,
            seconds = limit,
            "has not executed every transaction of the first survivor"
        );
    }
    Ok(())
}

async fn within<T>(
    server: &str,
    action: &'static str,
    work: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, LedgerError> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(LedgerError::Server {
            server: server.to_owned(),
            action,
            source,
        }),
        Err(_) => Err(LedgerError::Deadline {
            server: server.to_owned(),
            action,
            seconds: PATIENCE.as_secs(),
        }),
    }
}
