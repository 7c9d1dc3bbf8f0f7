//! What the tests share: small labs, sessions as the controllers, the application and `root`.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bloodraven_lab::{Lab, LabOptions, MysqlAccount, SiteOptions, SiteRole};
use bloodraven_mysql::{MysqlDatabase, MysqlOptions, MysqlSession};
use bloodraven_ports::{Database as _, ServerAddress};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

/// The site that is writable at the start.
pub(crate) const SOURCE: &str = "iad";

/// The site that replicates from it, in a lab of two.
pub(crate) const REPLICA: &str = "pdx";

/// Longer than anything takes that works; a loaded machine needs some of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// One writable server.
pub(crate) async fn one_server(hint: &str) -> Lab {
    up(LabOptions {
        sites: vec![site(SOURCE)],
        ..LabOptions::for_test(hint).with_mysql()
    })
    .await
}

/// One writable server with its performance schema on.
pub(crate) async fn one_server_with_performance_schema(hint: &str) -> Lab {
    let options = LabOptions {
        sites: vec![site(SOURCE)],
        ..LabOptions::for_test(hint).with_mysql()
    };
    up(LabOptions {
        performance_schema: true,
        ..options
    })
    .await
}

/// A writable server and its replica.
pub(crate) async fn two_servers(hint: &str) -> Lab {
    up(LabOptions {
        sites: vec![site(SOURCE), site(REPLICA)],
        ..LabOptions::for_test(hint).with_mysql()
    })
    .await
}

/// A writable server and its replica on an address of the caller's choice.
pub(crate) async fn two_servers_on(hint: &str, host: IpAddr) -> Lab {
    let sites = [SOURCE, REPLICA].map(|name| SiteOptions { host, ..site(name) });
    up(LabOptions {
        sites: sites.into(),
        ..LabOptions::for_test(hint).with_mysql()
    })
    .await
}

/// The controllers' options for a lab.
pub(crate) fn options(lab: &Lab) -> MysqlOptions {
    let own = lab.mysql_account(MysqlAccount::Bloodraven);
    let replication = lab.mysql_account(MysqlAccount::Replication);
    MysqlOptions::new(
        own.user.as_str(),
        own.password.as_str().into(),
        replication.user.as_str(),
        replication.password.as_str().into(),
    )
}

/// The client port of a site.
pub(crate) fn address(lab: &Lab, site: &str) -> ServerAddress {
    let address = lab.site(site).unwrap().address();
    ServerAddress {
        site: site.into(),
        host: address.ip().to_string(),
        port: address.port(),
    }
}

/// A controller's session.
pub(crate) async fn session(lab: &Lab, site: &str) -> MysqlSession {
    session_with(lab, site, options(lab)).await
}

/// A controller's session with options of its own.
pub(crate) async fn session_with(lab: &Lab, site: &str, options: MysqlOptions) -> MysqlSession {
    MysqlDatabase::new(options).open(&address(lab, site)).await.unwrap()
}

/// An application's connection.
pub(crate) async fn application(lab: &Lab, site: &str) -> Conn {
    Conn::new(lab.mysql_opts(site, MysqlAccount::App).unwrap())
        .await
        .unwrap()
}

/// A connection of `root` that no network is part of.
pub(crate) async fn root(lab: &Lab, site: &str) -> Conn {
    lab.mysql(site).await.unwrap()
}

/// The table that the tests write to, with one row.
pub(crate) async fn create_table(lab: &Lab) {
    let mut application = application(lab, SOURCE).await;
    application
        .query_drop("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, n BIGINT NOT NULL)")
        .await
        .unwrap();
    application.query_drop("INSERT INTO t (n) VALUES (0)").await.unwrap();
    application.disconnect().await.unwrap();
}

/// Whether the server lists a connection.
pub(crate) async fn is_listed(root: &mut Conn, connection: u64) -> bool {
    let query = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {connection}");
    root.query_first::<u64, _>(query).await.unwrap().unwrap() > 0
}

/// `read_only` and `super_read_only` as somebody else sees them.
pub(crate) async fn read_only(root: &mut Conn) -> (bool, bool) {
    root.query_first("SELECT @@GLOBAL.read_only, @@GLOBAL.super_read_only")
        .await
        .unwrap()
        .unwrap()
}

/// The server's error number of a statement that must fail.
pub(crate) fn error_code<T: std::fmt::Debug>(outcome: mysql_async::Result<T>) -> u16 {
    let error = outcome.unwrap_err();
    let mysql_async::Error::Server(refusal) = error else {
        panic!("the server did not refuse: {error}")
    };
    refusal.code
}

/// Looks again and again until it is so.
pub(crate) async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !look().await {
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn site(name: &str) -> SiteOptions {
    SiteOptions::new(name, SiteRole::PrimaryCandidate)
}

async fn up(options: LabOptions) -> Lab {
    Lab::up(options).await.unwrap()
}
