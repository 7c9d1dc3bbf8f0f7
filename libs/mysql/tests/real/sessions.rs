//! Which sessions are an application's, and what is left when all of them were ended.

use std::net::{IpAddr, Ipv6Addr, TcpListener};

use bloodraven_mysql::{ClientTls, MysqlDatabase, MysqlOptions};
use bloodraven_ports::{Database as _, DatabaseError, DatabaseSession as _, ReplicationSource, ServerAddress};
use bloodraven_types::observation::Channel;
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

use crate::fixture::{
    REPLICA, SOURCE, address, application, eventually, is_listed, one_server, options, root, session, session_with,
    two_servers, two_servers_on,
};

/// Applications and administrators count, replication and controllers do not; ending all that count leaves the replica's
/// stream as it is, even where the replication account is configured wrongly.
#[tokio::test(flavor = "multi_thread")]
async fn applications_are_ended_and_replication_is_not() {
    let lab = two_servers("sessions").await;
    let mut admin = root(&lab, SOURCE).await;
    let mut other_controller = session(&lab, SOURCE).await;
    let wrong = MysqlOptions {
        replication_user: "somebody-else".to_owned(),
        ..options(&lab)
    };
    let mut session = session_with(&lab, SOURCE, wrong).await;
    let application = application(&lab, SOURCE).await;
    let dump = dump_id(&mut admin).await;

    let found = session.application_sessions().await.unwrap();
    let ids: Vec<u64> = found.iter().map(|session| session.id).collect();
    assert_eq!(ids, [u64::from(admin.id()), u64::from(application.id())], "{found:?}");

    for found in found {
        match session.kill(found.id).await {
            // An account with SYSTEM_USER is not ours to end.
            Err(DatabaseError::Refused { code: 1095, .. }) => assert_eq!(found.user, "root"),
            outcome => outcome.unwrap(),
        }
    }
    eventually("the application's session is gone", async || {
        !is_listed(&mut admin, u64::from(application.id())).await
    })
    .await;
    assert_eq!(dump_id(&mut admin).await, dump);
    other_controller.observe().await.unwrap();
    // It is gone, which is what was wanted.
    session.kill(u64::from(application.id())).await.unwrap();
    let left = session.application_sessions().await.unwrap();
    assert!(left.iter().all(|session| session.user == "root"), "{left:?}");
}

/// Sessions of the users that the options name as controllers are not an application's.
#[tokio::test(flavor = "multi_thread")]
async fn named_controllers_are_not_applications() {
    let lab = one_server("sessions-named").await;
    let _application = application(&lab, SOURCE).await;
    let controllers = vec!["app".to_owned(), "o'neill".to_owned()];
    let mut session = session_with(
        &lab,
        SOURCE,
        MysqlOptions {
            controllers,
            ..options(&lab)
        },
    )
    .await;
    assert_eq!(session.application_sessions().await.unwrap(), []);
}

/// A server that answers and refuses is there; one that does not answer is not.
#[tokio::test(flavor = "multi_thread")]
async fn refused_is_not_unreachable() {
    let lab = two_servers("sessions-open").await;
    let wrong = MysqlOptions {
        password: "wrong".into(),
        ..options(&lab)
    };
    let refused = MysqlDatabase::new(wrong)
        .open(&address(&lab, SOURCE))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, DatabaseError::Refused { code: 1045, .. }),
        "{refused}"
    );
    assert!(!refused.is_no_answer());

    let database = MysqlDatabase::new(options(&lab));
    lab.kill(&bloodraven_lab::ProcessName::mysql(REPLICA)).await.unwrap();
    let gone = database.open(&address(&lab, REPLICA)).await.unwrap_err();
    assert!(
        matches!(gone, DatabaseError::Unreachable { .. }) && gone.is_no_answer(),
        "{gone}"
    );
    let invalid = ServerAddress {
        host: "//iad".to_owned(),
        ..address(&lab, SOURCE)
    };
    let invalid = database.open(&invalid).await.unwrap_err();
    assert!(matches!(invalid, DatabaseError::Unreachable { .. }), "{invalid}");
}

/// Encryption is used when it is asked for, and a certificate that names another host, or nobody, is not trusted;
/// `report: B71` in part.
#[tokio::test(flavor = "multi_thread")]
async fn encryption_is_as_chosen() {
    let lab = one_server("sessions-tls").await;
    let mut admin = root(&lab, SOURCE).await;
    admin
        .query_drop("SET GLOBAL require_secure_transport = ON")
        .await
        .unwrap();
    let open = async |tls: ClientTls| {
        let options = MysqlOptions { tls, ..options(&lab) };
        MysqlDatabase::new(options).open(&address(&lab, SOURCE)).await
    };
    let clear = open(ClientTls::Disabled).await.unwrap_err();
    assert!(matches!(clear, DatabaseError::Refused { code: 3159, .. }), "{clear}");
    open(ClientTls::Encrypted).await.unwrap().observe().await.unwrap();
    let certificate_authority = lab.site(SOURCE).unwrap().data_dir.join("ca.pem");
    let nameless = open(ClientTls::Verified { certificate_authority }).await.unwrap_err();
    assert!(matches!(nameless, DatabaseError::Unreachable { .. }), "{nameless}");
}

/// IPv6 addresses are reached with and without brackets, for sessions and for replication; `report: B72` in part.
#[tokio::test(flavor = "multi_thread")]
async fn ipv6_in_every_spelling() {
    let host = IpAddr::V6(Ipv6Addr::LOCALHOST);
    if TcpListener::bind((host, 0)).is_err() {
        eprintln!("not tested: this machine has no IPv6");
        return;
    }
    let lab = two_servers_on("sessions-ipv6", host).await;
    let database = MysqlDatabase::new(options(&lab));
    for spelling in ["::1", "[::1]", "0:0::0:1"] {
        let address = ServerAddress {
            host: spelling.to_owned(),
            ..address(&lab, REPLICA)
        };
        let mut session = database.open(&address).await.unwrap();
        session.stop_replica().await.unwrap();
        let port = lab.site(SOURCE).unwrap().port;
        session
            .change_source(&ReplicationSource {
                host: spelling.to_owned(),
                port,
            })
            .await
            .unwrap();
        session.start_replica().await.unwrap();
        eventually("both threads run", async || {
            session
                .observe()
                .await
                .unwrap()
                .channels
                .iter()
                .any(Channel::is_running)
        })
        .await;
    }
}

/// The connection id of the replica's stream.
async fn dump_id(admin: &mut Conn) -> u64 {
    let mut found = None;
    eventually("the replica reads", async || {
        let query = "SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump GTID'";
        found = admin.query_first(query).await.unwrap();
        found.is_some()
    })
    .await;
    found.unwrap()
}
