//! What a fence would wait for is named beforehand.

use std::time::Duration;

use bloodraven_lab::Lab;
use bloodraven_mysql::MysqlSession;
use bloodraven_ports::{BlockingSession, DatabaseError, DatabaseSession as _};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

use crate::fixture::{
    SOURCE, application, create_table, eventually, is_listed, one_server, one_server_with_performance_schema, root,
    session,
};

const SECOND: Duration = Duration::from_secs(1);

/// A long UPDATE is named by its session; it refuses the fence and leaves the server writable; once it is killed the fence
/// holds at once; `spec: X-PRE-01` in part, `report: B16`.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_update_is_named_and_can_be_ended() {
    let lab = one_server("blockers-update").await;
    create_table(&lab).await;
    let mut admin = root(&lab, SOURCE).await;
    let mut session = session(&lab, SOURCE).await;
    let mut application = application(&lab, SOURCE).await;
    let id = u64::from(application.id());
    let update = tokio::spawn(async move { application.query_drop("UPDATE t SET n = n + SLEEP(60)").await });

    let found = first_blocker(&mut session, SECOND).await;
    assert_eq!(found.id, id);
    assert!(found.what.starts_with("UPDATE"), "{found:?}");
    assert!(found.seconds >= 1, "{found:?}");
    assert_eq!(session.fence_blockers(Duration::from_secs(3600)).await.unwrap(), []);
    let outcome = session.set_super_read_only().await;
    assert!(
        matches!(outcome, Err(DatabaseError::Refused { code: 1205, .. })),
        "{outcome:?}"
    );
    assert!(session.observe().await.unwrap().serves_writes());

    session.kill(found.id).await.unwrap();
    assert!(update.await.unwrap().is_err());
    eventually("the killed session is gone", async || !is_listed(&mut admin, id).await).await;
    assert_eq!(session.fence_blockers(SECOND).await.unwrap(), []);
    session.set_super_read_only().await.unwrap();
}

/// Locks of a session that does nothing are named, with the session, where the performance schema is on; the processlist
/// alone does not show them; `spec: X-PRE-01` in part, `report: B24`.
#[tokio::test(flavor = "multi_thread")]
async fn locks_of_idle_sessions_are_named() {
    let lab = one_server_with_performance_schema("blockers-locks").await;
    create_table(&lab).await;
    let mut session = session(&lab, SOURCE).await;
    for (lock, unlock, expected) in [
        (
            "FLUSH TABLES WITH READ LOCK",
            "UNLOCK TABLES",
            "FLUSH TABLES WITH READ LOCK",
        ),
        ("LOCK TABLES app.t WRITE", "UNLOCK TABLES", "LOCK TABLES app.t WRITE"),
        ("LOCK TABLES app.t READ", "UNLOCK TABLES", "LOCK TABLES app.t READ"),
        (
            "LOCK INSTANCE FOR BACKUP",
            "UNLOCK INSTANCE",
            "LOCK INSTANCE FOR BACKUP",
        ),
        (
            "FLUSH TABLES app.t WITH READ LOCK",
            "UNLOCK TABLES",
            "a lock that keeps others from writing to app.t",
        ),
    ] {
        let mut holder = root(&lab, SOURCE).await;
        assert_eq!(session.fence_blockers(SECOND).await.unwrap(), [], "before {lock}");
        holder.query_drop(lock).await.unwrap();
        let found = session.fence_blockers(SECOND).await.unwrap();
        let told: Vec<_> = found
            .iter()
            .map(|blocker| (blocker.id, blocker.what.as_str()))
            .collect();
        assert_eq!(told, [(u64::from(holder.id()), expected)]);
        holder.query_drop(unlock).await.unwrap();
    }
    // An open transaction holds nothing that a fence would wait for.
    let mut holder = application(&lab, SOURCE).await;
    holder.query_drop("BEGIN; UPDATE t SET n = n + 1").await.unwrap();
    assert_eq!(session.fence_blockers(Duration::ZERO).await.unwrap(), []);
}

/// A commit that waits for an acknowledgement that never comes is named as such and refuses the fence within its second; to
/// kill its session does not help, to end the waiting does; `spec: X-PRE-01` in part, `report: B19` in part.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_acknowledgement_is_named() {
    let lab = one_server("blockers-ack").await;
    create_table(&lab).await;
    wait_for_acknowledgements(&lab).await;
    let mut session = session(&lab, SOURCE).await;
    let writer = application(&lab, SOURCE).await;
    let id = u64::from(writer.id());
    let commit = tokio::spawn(insert(writer));

    let found = first_blocker(&mut session, SECOND).await;
    assert_eq!(found.id, id);
    assert!(found.what.contains("semi-sync"), "{found:?}");
    let outcome = session.set_super_read_only().await;
    assert!(
        matches!(outcome, Err(DatabaseError::Refused { code: 1205, .. })),
        "{outcome:?}"
    );
    assert!(session.observe().await.unwrap().is_writable());

    // The client is told that it has lost its server, but the server's session waits on.
    session.kill(id).await.unwrap();
    drop(commit.await.unwrap());
    let found = session.fence_blockers(SECOND).await.unwrap();
    assert_eq!(found.iter().map(|blocker| blocker.id).collect::<Vec<_>>(), [id]);
    let outcome = session.set_super_read_only().await;
    assert!(
        matches!(outcome, Err(DatabaseError::Refused { code: 1205, .. })),
        "{outcome:?}"
    );

    let mut admin = root(&lab, SOURCE).await;
    admin
        .query_drop("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        .await
        .unwrap();
    eventually("the commit goes on", async || !is_listed(&mut admin, id).await).await;
    session.set_super_read_only().await.unwrap();
    assert!(session.observe().await.unwrap().is_fenced());
}

/// Semi-sync without anybody to acknowledge, and without falling back.
async fn wait_for_acknowledgements(lab: &Lab) {
    let mut admin = root(lab, SOURCE).await;
    for setting in ["wait_no_replica = ON", "timeout = 3600000", "enabled = ON"] {
        admin
            .query_drop(format!("SET GLOBAL rpl_semi_sync_source_{setting}"))
            .await
            .unwrap();
    }
}

async fn insert(mut writer: Conn) -> mysql_async::Result<()> {
    writer.query_drop("INSERT INTO t (n) VALUES (3)").await
}

/// Waits until there is a blocker.
async fn first_blocker(session: &mut MysqlSession, longer_than: Duration) -> BlockingSession {
    let mut found = Vec::new();
    eventually("there is a blocker", async || {
        found = session.fence_blockers(longer_than).await.unwrap();
        !found.is_empty()
    })
    .await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}
