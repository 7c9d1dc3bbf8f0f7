//! What a server says of its replication, and how it is pointed at another source.

use std::time::Duration;

use bloodraven_gtid::GtidSet;
use bloodraven_lab::{Lab, ProcessName};
use bloodraven_mysql::{MysqlOptions, MysqlSession, ReplicationTls};
use bloodraven_ports::{DatabaseError, DatabaseSession as _, ReplicationSource};
use bloodraven_types::ServerUuid;
use mysql_async::prelude::Queryable as _;

use crate::fixture::{
    REPLICA, SOURCE, application, create_table, eventually, options, root, session, session_with, two_servers,
};

const LONG: Duration = Duration::from_secs(15);

/// An observation has the identity, the role and the channel with its source; an IO thread that has lost its source, and so
/// says `Connecting`, does not count as running.
#[tokio::test(flavor = "multi_thread")]
async fn an_observation_says_what_replicates() {
    let lab = two_servers("replication-seen").await;
    let source = lab.site(SOURCE).unwrap();
    let mut on_source = session(&lab, SOURCE).await;
    let mut on_replica = session(&lab, REPLICA).await;
    let seen = on_source.observe().await.unwrap();
    assert_eq!(seen.server_uuid, source.server_uuid.parse::<ServerUuid>().unwrap());
    assert!(seen.serves_writes() && seen.channels.is_empty(), "{seen:?}");

    let seen = on_replica.observe().await.unwrap();
    assert!(seen.is_fenced() && seen.read_only && !seen.offline_mode, "{seen:?}");
    let [channel] = seen.channels.as_slice() else {
        panic!("{seen:?}")
    };
    assert!(
        channel.is_running() && channel.io_error.is_none() && channel.sql_error.is_none(),
        "{channel:?}"
    );
    assert_eq!(channel.source_uuid, Some(source.server_uuid.parse().unwrap()));
    assert_eq!(
        (channel.source_host.as_str(), channel.source_port),
        (source.host.to_string().as_str(), source.port)
    );
    assert_eq!((channel.name.as_str(), channel.delay_seconds), ("", 0));

    lab.kill(&ProcessName::mysql(SOURCE)).await.unwrap();
    eventually("the IO thread has lost its source", async || {
        let seen = on_replica.observe().await.unwrap();
        seen.channels
            .iter()
            .all(|channel| !channel.io_running && channel.sql_running && channel.io_error.is_some())
    })
    .await;
}

/// Tagged transactions show in the executed set, which our algebra reads, and can be waited for; `report: B04` in part.
#[tokio::test(flavor = "multi_thread")]
async fn tagged_transactions_are_executed() {
    let lab = two_servers("replication-tags").await;
    create_table(&lab).await;
    let mut admin = root(&lab, SOURCE).await;
    admin
        .query_drop("SET gtid_next = 'AUTOMATIC:moved'; INSERT INTO app.t (n) VALUES (1)")
        .await
        .unwrap();
    admin
        .query_drop("SET gtid_next = 'AUTOMATIC'; INSERT INTO app.t (n) VALUES (2)")
        .await
        .unwrap();
    let (server_uuid, executed) = session(&lab, SOURCE).await.executed().await.unwrap();
    let set: GtidSet = executed.parse().unwrap();
    let tag = "moved".parse().unwrap();
    assert!(set.contains_gtid(server_uuid.as_uuid(), Some(&tag), 1), "{executed}");
    let mut on_replica = session(&lab, REPLICA).await;
    assert!(on_replica.wait_for_executed(&executed, LONG).await.unwrap());
    assert_eq!(on_replica.executed().await.unwrap().1.parse::<GtidSet>().unwrap(), set);
}

/// With `caching_sha2_password` and nothing in any server's cache, a controller logs in over plain TCP, and a replica that is
/// pointed at the source by us replicates, in the clear and encrypted; `report: B71` in part.
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_cache_keeps_nobody_out() {
    let lab = two_servers("replication-cold").await;
    create_table(&lab).await;
    for replication_tls in [ReplicationTls::Disabled, ReplicationTls::Encrypted] {
        let encrypted = replication_tls == ReplicationTls::Encrypted;
        let mut on_replica = session_with(
            &lab,
            REPLICA,
            MysqlOptions {
                replication_tls,
                ..options(&lab)
            },
        )
        .await;
        on_replica.stop_replica().await.unwrap();
        on_replica.reset_replica_all().await.unwrap();
        assert_eq!(on_replica.observe().await.unwrap().channels, []);
        lab.stop(&ProcessName::mysql(SOURCE)).await.unwrap();
        lab.start(&ProcessName::mysql(SOURCE)).await.unwrap();
        session(&lab, SOURCE).await.open_for_writes().await.unwrap();

        on_replica.change_source(&source(&lab)).await.unwrap();
        on_replica.start_replica().await.unwrap();

        replicates(&mut on_replica).await;
        let mut admin = root(&lab, REPLICA).await;
        let row: mysql_async::Row = admin.query_first("SHOW REPLICA STATUS").await.unwrap().unwrap();
        assert_eq!(row.get::<String, _>("Source_SSL_Allowed").unwrap() == "Yes", encrypted);
        application(&lab, SOURCE)
            .await
            .query_drop("INSERT INTO t (n) VALUES (5)")
            .await
            .unwrap();
        let (_, executed) = session(&lab, SOURCE).await.executed().await.unwrap();
        assert!(on_replica.wait_for_executed(&executed, LONG).await.unwrap());
    }
}

/// Changing the source of a running replica is refused, without a word of the password; stopping twice is no error, and a
/// host that is none does not get as far as a statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_change_tells_no_secret() {
    let lab = two_servers("replication-secret").await;
    let password = "n0t-to-be-se'en";
    let options = MysqlOptions {
        replication_password: password.into(),
        ..options(&lab)
    };
    let mut on_replica = session_with(&lab, REPLICA, options).await;
    let refused = on_replica.change_source(&source(&lab)).await.unwrap_err();
    assert!(
        matches!(refused, DatabaseError::Refused { code: 3081, .. }),
        "{refused}"
    );
    assert!(!format!("{refused} {refused:?}").contains("n0t-to-be"), "{refused:?}");
    let invalid = ReplicationSource {
        host: "iad', SOURCE_USER='x".to_owned(),
        port: 3306,
    };
    let refused = on_replica.change_source(&invalid).await.unwrap_err();
    assert!(matches!(refused, DatabaseError::Refused { code: 0, .. }), "{refused}");
    on_replica.stop_replica().await.unwrap();
    on_replica.stop_replica().await.unwrap();
    on_replica.change_source(&source(&lab)).await.unwrap();
    let mut admin = root(&lab, REPLICA).await;
    let stored: Option<String> = admin
        .query_first("SELECT User_password FROM mysql.slave_master_info")
        .await
        .unwrap();
    assert_eq!(stored.as_deref(), Some(password));
}

fn source(lab: &Lab) -> ReplicationSource {
    let source = lab.site(SOURCE).unwrap();
    ReplicationSource {
        host: source.host.to_string(),
        port: source.port,
    }
}

async fn replicates(session: &mut MysqlSession) {
    eventually("both threads run", async || {
        session
            .observe()
            .await
            .unwrap()
            .channels
            .iter()
            .any(bloodraven_types::observation::Channel::is_running)
    })
    .await;
}
