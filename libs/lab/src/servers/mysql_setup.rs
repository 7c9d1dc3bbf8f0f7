//! First setting-up of the MySQL servers: accounts and the application's schema on each by itself without a trace in
//! its binary log, then replication from the first site, which alone is made writable.

use std::path::Path;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row};

use crate::error::LabError;
use crate::process::{POLL_INTERVAL, ProcessSpec};
use crate::state::{Account, Credentials, MysqlNode};

/// How long replication may take until both threads of a replica run.
const REPLICATION_BUDGET: Duration = Duration::from_secs(20);
/// Global privileges of the controllers' account. None of them reads or writes application data.
const CONTROLLER_PRIVILEGES: &str = "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS, RELOAD, SYSTEM_VARIABLES_ADMIN, \
     SESSION_VARIABLES_ADMIN, CONNECTION_ADMIN, REPLICATION_SLAVE_ADMIN, SERVICE_CONNECTION_ADMIN";
/// Schema for objects of the controllers themselves (events that guard the server).
const CONTROLLER_SCHEMA: &str = "bloodraven";

/// A session as `root` over the server's Unix socket.
pub(crate) async fn connect_root(site: &str, socket: &Path) -> Result<Conn, LabError> {
    let opts = OptsBuilder::default()
        .user(Some("root"))
        .socket(Some(socket.display().to_string()));
    Conn::new(opts)
        .await
        .map_err(|source| LabError::mysql(site, "connecting over the Unix socket", source))
}

/// Client options for an account over TCP.
pub(crate) fn tcp_opts(address: std::net::SocketAddr, account: &Account, schema: Option<&str>) -> Opts {
    OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .user(Some(&account.user))
        .pass(Some(&account.password))
        .db_name(schema)
        .prefer_socket(Some(false))
        .into()
}

/// Makes accounts and schema on one server. Nothing of it stays in the binary log and `gtid_executed` is empty
/// afterwards, so that no server holds a transaction which the others lack.
pub(crate) async fn create_accounts(node: &MysqlNode, credentials: &Credentials) -> Result<(), LabError> {
    let mut conn = connect_root(&node.site, &node.socket).await?;
    let mut statements = vec![
        "SET SESSION sql_log_bin = 0".to_owned(),
        "SET GLOBAL read_only = OFF".to_owned(),
    ];
    for account in [&credentials.bloodraven, &credentials.replication, &credentials.app] {
        statements.push(format!(
            "CREATE USER '{}'@'%' IDENTIFIED BY '{}'",
            account.user, account.password
        ));
    }
    let controller = &credentials.bloodraven.user;
    statements.extend([
        "CREATE DATABASE app".to_owned(),
        format!("CREATE DATABASE {CONTROLLER_SCHEMA}"),
        format!("GRANT {CONTROLLER_PRIVILEGES} ON *.* TO '{controller}'@'%'"),
        format!("GRANT SELECT ON performance_schema.* TO '{controller}'@'%'"),
        format!("GRANT EVENT ON {CONTROLLER_SCHEMA}.* TO '{controller}'@'%'"),
        format!(
            "GRANT REPLICATION SLAVE ON *.* TO '{}'@'%'",
            credentials.replication.user
        ),
        format!("GRANT ALL ON app.* TO '{}'@'%'", credentials.app.user),
        "SET GLOBAL super_read_only = ON".to_owned(),
        "RESET BINARY LOGS AND GTIDS".to_owned(),
    ]);
    for statement in statements {
        execute(&mut conn, &node.site, &statement).await?;
    }
    disconnect(conn).await;
    Ok(())
}

/// Makes `replica` follow `source` and waits until both its threads run.
pub(crate) async fn replicate(
    replica: &MysqlNode,
    spec: &ProcessSpec,
    source: &MysqlNode,
    account: &Account,
) -> Result<(), LabError> {
    let site = &replica.site;
    let mut conn = connect_root(site, &replica.socket).await?;
    let change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {}, SOURCE_USER = '{}', SOURCE_PASSWORD = '{}', \
         SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 86400, \
         SOURCE_HEARTBEAT_PERIOD = 1",
        source.host, source.port, account.user, account.password
    );
    execute(&mut conn, site, &change).await?;
    execute(&mut conn, site, "START REPLICA").await?;
    let started = Instant::now();
    loop {
        let status: Option<Row> = conn
            .query_first("SHOW REPLICA STATUS")
            .await
            .map_err(|source| LabError::mysql(site, "SHOW REPLICA STATUS", source))?;
        let runs = |column: &str| {
            status
                .as_ref()
                .and_then(|row| row.get_opt::<String, _>(column))
                .is_some_and(|value| value.is_ok_and(|text| text == "Yes"))
        };
        if runs("Replica_IO_Running") && runs("Replica_SQL_Running") {
            disconnect(conn).await;
            return Ok(());
        }
        if started.elapsed() > REPLICATION_BUDGET {
            return Err(spec.timed_out("replicating", started.elapsed()));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Opens the server for writing.
pub(crate) async fn make_writable(node: &MysqlNode) -> Result<(), LabError> {
    let mut conn = connect_root(&node.site, &node.socket).await?;
    // Clearing read_only clears super_read_only with it.
    execute(&mut conn, &node.site, "SET GLOBAL read_only = OFF").await?;
    disconnect(conn).await;
    Ok(())
}

async fn execute(conn: &mut Conn, site: &str, statement: &str) -> Result<(), LabError> {
    conn.query_drop(statement).await.map_err(|source| {
        let words: Vec<&str> = statement.split_whitespace().take(3).collect();
        // Only the first words: the rest may hold a password.
        LabError::mysql(site, words.join(" "), source)
    })
}

async fn disconnect(conn: Conn) {
    // The session ends with its connection; a failed goodbye changes nothing.
    let _ = conn.disconnect().await;
}
