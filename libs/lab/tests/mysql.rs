//! The lab's MySQL servers: identical and clean at the start, replicating, least privilege, read-only at boot.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests may")]

use bloodraven_lab::{Lab, LabOptions, MysqlAccount, ProcessName};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};

async fn value(conn: &mut Conn, query: &str) -> String {
    conn.query_first::<String, _>(query).await.unwrap().unwrap()
}

async fn global(lab: &Lab, site: &str, name: &str) -> String {
    value(
        &mut lab.mysql(site).await.unwrap(),
        &format!("SELECT CAST(@@GLOBAL.{name} AS CHAR)"),
    )
    .await
}

fn code(result: Result<(), Error>) -> Option<u16> {
    match result {
        Err(Error::Server(error)) => Some(error.code),
        Ok(()) | Err(_) => None,
    }
}

/// `gtid_executed` starts empty everywhere, only the first site is writable, and a write arrives on both replicas.
#[tokio::test]
async fn servers_start_clean_and_replicate() {
    let lab = Lab::up(LabOptions::for_test("clean").with_mysql()).await.unwrap();
    for node in lab.sites() {
        assert_eq!(global(&lab, &node.site, "gtid_executed").await, "", "{}", node.site);
        let read_only = if node.site == "iad" { "0" } else { "1" };
        assert_eq!(
            global(&lab, &node.site, "super_read_only").await,
            read_only,
            "{}",
            node.site
        );
        assert_eq!(global(&lab, &node.site, "server_uuid").await, node.server_uuid);
        assert_eq!(global(&lab, &node.site, "sync_binlog").await, "1");
        assert_eq!(global(&lab, &node.site, "innodb_flush_log_at_trx_commit").await, "1");
    }
    let mut app = Conn::new(lab.mysql_opts("iad", MysqlAccount::App).unwrap())
        .await
        .unwrap();
    app.query_drop("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    app.query_drop("INSERT INTO t VALUES (7)").await.unwrap();
    let written = global(&lab, "iad", "gtid_executed").await;
    for site in ["pdx", "ord"] {
        let mut replica = lab.mysql(site).await.unwrap();
        let waited = value(
            &mut replica,
            &format!("SELECT CAST(WAIT_FOR_EXECUTED_GTID_SET('{written}', 10) AS CHAR)"),
        )
        .await;
        assert_eq!(waited, "0");
        assert_eq!(value(&mut replica, "SELECT CAST(id AS CHAR) FROM app.t").await, "7");
        assert_eq!(global(&lab, site, "gtid_executed").await, written);
    }
}

/// The controllers' account changes roles, kills sessions and uses the administrative port but reads no data; the
/// application's account does the opposite.
#[tokio::test]
async fn accounts_have_least_privilege() {
    let lab = Lab::up(LabOptions::for_test("accounts").with_mysql()).await.unwrap();
    let node = lab.site("pdx").unwrap();
    let mut controller = Conn::new(lab.mysql_opts_at(node.admin_address(), MysqlAccount::Bloodraven))
        .await
        .unwrap();
    for statement in [
        "SET SESSION lock_wait_timeout = 1",
        "SHOW REPLICA STATUS",
        "SHOW REPLICAS",
        "SHOW BINARY LOG STATUS",
        "SELECT * FROM performance_schema.replication_connection_status",
        "SELECT * FROM information_schema.processlist",
        "STOP REPLICA",
        "CHANGE REPLICATION SOURCE TO SOURCE_CONNECT_RETRY = 2",
        "START REPLICA",
        "SELECT GET_LOCK('bloodraven.authority', 1)",
        "SET GLOBAL offline_mode = ON",
        "SET GLOBAL offline_mode = OFF",
        "SET GLOBAL super_read_only = OFF",
        "SET GLOBAL read_only = OFF",
        "SET SESSION sql_log_bin = 0",
        "CREATE EVENT bloodraven.probe ON SCHEDULE EVERY 1 HOUR DO SELECT 1",
        "DROP EVENT bloodraven.probe",
        "SET GLOBAL super_read_only = ON",
    ] {
        controller
            .query_drop(statement)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    // Asked of the writable server, where read-only mode cannot be the reason.
    let mut controller = Conn::new(lab.mysql_opts("iad", MysqlAccount::Bloodraven).unwrap())
        .await
        .unwrap();
    assert_eq!(code(controller.query_drop("SELECT * FROM app.t").await), Some(1142));
    assert_eq!(
        code(controller.query_drop("CREATE TABLE app.t (id INT)").await),
        Some(1142)
    );
    assert_eq!(
        code(controller.query_drop("SELECT * FROM mysql.user").await),
        Some(1142)
    );

    let mut app = Conn::new(lab.mysql_opts("iad", MysqlAccount::App).unwrap())
        .await
        .unwrap();
    assert_eq!(code(app.query_drop("SET GLOBAL read_only = ON").await), Some(1227));
    assert_eq!(code(app.query_drop("SHOW REPLICA STATUS").await), Some(1227));
    // The administrative port is closed to it.
    assert!(
        Conn::new(lab.mysql_opts_at(lab.site("iad").unwrap().admin_address(), MysqlAccount::App))
            .await
            .is_err()
    );
}

/// A killed primary comes back read-only, whatever it was before, and a killed replica goes on replicating by itself.
/// report: B15 (its boot part)
#[tokio::test]
async fn a_killed_server_boots_read_only() {
    let lab = Lab::up(LabOptions::for_test("killed").with_mysql()).await.unwrap();
    for site in ["iad", "ord"] {
        let name = ProcessName::mysql(site);
        let before = lab.pid(&name).unwrap();
        lab.kill(&name).await.unwrap();
        assert!(lab.mysql(site).await.is_err());
        lab.start(&name).await.unwrap();
        assert_ne!(lab.pid(&name).unwrap(), before);
        assert_eq!(global(&lab, site, "super_read_only").await, "1");
        assert_eq!(global(&lab, site, "read_only").await, "1");
    }
    let mut app = Conn::new(lab.mysql_opts("iad", MysqlAccount::App).unwrap())
        .await
        .unwrap();
    assert_eq!(
        code(app.query_drop("CREATE TABLE t (id INT PRIMARY KEY)").await),
        Some(1290)
    );

    lab.mysql("iad")
        .await
        .unwrap()
        .query_drop("SET GLOBAL read_only = OFF")
        .await
        .unwrap();
    app.query_drop("CREATE TABLE t (id INT PRIMARY KEY)").await.unwrap();
    let written = global(&lab, "iad", "gtid_executed").await;
    for site in ["pdx", "ord"] {
        let mut replica = lab.mysql(site).await.unwrap();
        let waited = value(
            &mut replica,
            &format!("SELECT CAST(WAIT_FOR_EXECUTED_GTID_SET('{written}', 20) AS CHAR)"),
        )
        .await;
        assert_eq!(waited, "0", "{site}");
    }
}
