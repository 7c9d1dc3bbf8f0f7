//! A statement that is given up, for whatever reason, is killed and not abandoned.

use std::time::{Duration, Instant};

use bloodraven_lab::ProcessName;
use bloodraven_mysql::MysqlOptions;
use bloodraven_ports::{DatabaseError, DatabaseSession as _};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

use crate::fixture::{
    SOURCE, application, create_table, eventually, is_listed, one_server, options, read_only, root, session,
    session_with,
};

const IMPATIENT: Duration = Duration::from_millis(300);

/// A set that no server ever executes.
const NEVER: &str = "ffffffff-ffff-ffff-ffff-ffffffffffff:1";

/// A fence that waits behind a lock for longer than its time is killed and gone before the call returns, and has no effect
/// when the lock is given back; `report: B18` in part.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_statement_is_killed() {
    let lab = one_server("statements-late").await;
    create_table(&lab).await;
    let mut admin = root(&lab, SOURCE).await;
    let mut application = application(&lab, SOURCE).await;
    application.query_drop("LOCK TABLES t WRITE").await.unwrap();
    let impatient = MysqlOptions {
        statement_timeout: IMPATIENT,
        ..options(&lab)
    };
    let mut session = session_with(&lab, SOURCE, impatient).await;
    let id = session.connection_id();

    let outcome = session.set_super_read_only().await.unwrap_err();

    assert!(
        matches!(outcome, DatabaseError::Killed { timeout: IMPATIENT, .. }),
        "{outcome}"
    );
    assert!(!is_listed(&mut admin, id).await);
    application.query_drop("UNLOCK TABLES").await.unwrap();
    application.query_drop("INSERT INTO t (n) VALUES (4)").await.unwrap();
    assert_eq!(read_only(&mut admin).await, (false, false));
    let outcome = session.observe().await.unwrap_err();
    assert!(matches!(outcome, DatabaseError::Unreachable { .. }), "{outcome}");
}

/// Dropping the future of a running statement ends the statement on the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_ends_its_statement() {
    let lab = one_server("statements-drop").await;
    let mut admin = root(&lab, SOURCE).await;
    let mut session = session(&lab, SOURCE).await;
    let id = session.connection_id();
    let waiting = tokio::time::timeout(IMPATIENT, session.wait_for_executed(NEVER, Duration::from_secs(60))).await;
    assert!(waiting.is_err());
    eventually("the statement is gone", async || !is_listed(&mut admin, id).await).await;
    let outcome = session.observe().await.unwrap_err();
    assert!(matches!(outcome, DatabaseError::Unreachable { .. }), "{outcome}");
}

/// Dropping the session in the middle of a statement ends both.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_session_ends_its_statement() {
    let lab = one_server("statements-session").await;
    let mut admin = root(&lab, SOURCE).await;
    let mut session = session(&lab, SOURCE).await;
    let id = session.connection_id();
    let task = tokio::spawn(async move { session.wait_for_executed(NEVER, Duration::from_secs(60)).await });
    eventually("the statement runs", async || runs_a_wait(&mut admin, id).await).await;
    task.abort();
    eventually("the statement is gone", async || !is_listed(&mut admin, id).await).await;
}

/// A session that is dropped or closed between statements leaves the server in good order, and its authority with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_value() {
    let lab = one_server("statements-close").await;
    let mut admin = root(&lab, SOURCE).await;
    let closed = session(&lab, SOURCE).await;
    let id = closed.connection_id();
    closed.close().await;
    eventually("the closed session is gone", async || !is_listed(&mut admin, id).await).await;
    let mut dropped = session(&lab, SOURCE).await;
    dropped.take_authority().await.unwrap();
    let id = dropped.connection_id();
    drop(dropped);
    eventually("the dropped session is gone", async || !is_listed(&mut admin, id).await).await;
}

/// When somebody kills the session in the middle of a change, its fate is settled before the call returns.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_session_is_killed_is_settled() {
    let lab = one_server("statements-killed").await;
    create_table(&lab).await;
    let mut admin = root(&lab, SOURCE).await;
    let mut application = application(&lab, SOURCE).await;
    application.query_drop("LOCK TABLES t WRITE").await.unwrap();
    let mut session = session(&lab, SOURCE).await;
    let id = session.connection_id();
    let fence = tokio::spawn(async move { session.set_super_read_only().await });
    eventually("the fence waits", async || waits_for_a_lock(&mut admin, id).await).await;
    admin.query_drop(format!("KILL {id}")).await.unwrap();
    let outcome = fence.await.unwrap().unwrap_err();
    assert!(matches!(outcome, DatabaseError::Killed { .. }), "{outcome}");
    assert!(!is_listed(&mut admin, id).await);
    assert_eq!(read_only(&mut admin).await, (false, false));
}

/// A server that is frozen leaves the fate of a change unknown, and the call says so; of a look nothing depends.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_leaves_a_change_unsettled() {
    let lab = one_server("statements-frozen").await;
    let impatient = || MysqlOptions {
        statement_timeout: IMPATIENT,
        connect_timeout: Duration::from_millis(500),
        ..options(&lab)
    };
    let mut changing = session_with(&lab, SOURCE, impatient()).await;
    let mut looking = session_with(&lab, SOURCE, impatient()).await;
    lab.pause(&ProcessName::mysql(SOURCE)).await.unwrap();
    let started = Instant::now();
    let outcome = changing.set_super_read_only().await.unwrap_err();
    assert!(
        matches!(outcome, DatabaseError::Unsettled { .. }) && outcome.may_have_happened(),
        "{outcome}"
    );
    let outcome = looking.observe().await.unwrap_err();
    assert!(matches!(outcome, DatabaseError::Unreachable { .. }), "{outcome}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    lab.resume(&ProcessName::mysql(SOURCE)).await.unwrap();
    // It was rightly called unsettled: the statement was in the server's socket all the time.
    let mut admin = root(&lab, SOURCE).await;
    eventually("the fence comes late", async || {
        read_only(&mut admin).await == (true, true)
    })
    .await;
}

/// After a restart the old connection id belongs to somebody else, who is left alone; the lost session counts as gone.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_before_a_restart_hits_nobody() {
    let lab = one_server("statements-restart").await;
    let mut before = session(&lab, SOURCE).await;
    let id = before.connection_id();
    lab.kill(&ProcessName::mysql(SOURCE)).await.unwrap();
    lab.start(&ProcessName::mysql(SOURCE)).await.unwrap();
    let mut others: Vec<Conn> = Vec::new();
    while others.last().is_none_or(|other| u64::from(other.id()) < id) {
        others.push(application(&lab, SOURCE).await);
    }
    let mut innocent = others.pop().unwrap();
    assert_eq!(u64::from(innocent.id()), id);

    let outcome = before.open_for_writes().await.unwrap_err();

    assert!(matches!(outcome, DatabaseError::Killed { .. }), "{outcome}");
    let answer: Option<u8> = innocent.query_first("SELECT 1").await.unwrap();
    assert_eq!(answer, Some(1));
    assert_eq!(read_only(&mut root(&lab, SOURCE).await).await, (true, true));
}

/// Waiting ends on time with fractions of a second, at once for what is there, and does not wait for ever for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_set_is_bounded() {
    let lab = one_server("statements-wait").await;
    create_table(&lab).await;
    let mut session = session(&lab, SOURCE).await;
    let (_, executed) = session.executed().await.unwrap();
    assert!(
        session
            .wait_for_executed(&executed, Duration::from_secs(60))
            .await
            .unwrap()
    );
    assert!(session.wait_for_executed("", Duration::ZERO).await.unwrap());
    let started = Instant::now();
    assert!(
        !session
            .wait_for_executed(NEVER, Duration::from_millis(250))
            .await
            .unwrap()
    );
    assert!(
        started.elapsed() >= Duration::from_millis(240),
        "{:?}",
        started.elapsed()
    );
    assert!(!session.wait_for_executed(NEVER, Duration::ZERO).await.unwrap());
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let malformed = session
        .wait_for_executed("no set", Duration::from_secs(1))
        .await
        .unwrap_err();
    assert!(matches!(malformed, DatabaseError::Refused { .. }), "{malformed}");
}

async fn waits_for_a_lock(admin: &mut Conn, connection: u64) -> bool {
    has_state(admin, connection, "Waiting for%lock%").await
}

async fn runs_a_wait(admin: &mut Conn, connection: u64) -> bool {
    has_state(admin, connection, "Waiting for%GTID%").await
}

async fn has_state(admin: &mut Conn, connection: u64, pattern: &str) -> bool {
    let query = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {connection} AND state LIKE '{pattern}'"
    );
    admin.query_first::<u64, _>(query).await.unwrap().unwrap() > 0
}
