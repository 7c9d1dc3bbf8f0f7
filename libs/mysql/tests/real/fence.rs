//! What a fence stops, and what it does not wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bloodraven_mysql::MysqlSession;
use bloodraven_ports::{DatabaseError, DatabaseSession as _};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

use crate::fixture::{SOURCE, application, create_table, error_code, one_server, read_only, root, session};

/// `ER_OPTION_PREVENTS_STATEMENT`: the server is read-only.
const READ_ONLY: u16 = 1290;

/// `ER_LOCK_WAIT_TIMEOUT`.
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// The fence does not wait for an open transaction, whose commit then fails and leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_does_not_hold_the_fence_up() {
    let lab = one_server("fence-open").await;
    create_table(&lab).await;
    let mut session = session(&lab, SOURCE).await;
    let mut application = application(&lab, SOURCE).await;
    application.query_drop("BEGIN").await.unwrap();
    application.query_drop("INSERT INTO t (n) VALUES (7)").await.unwrap();
    let before = session.executed().await.unwrap();

    let started = Instant::now();
    session.set_super_read_only().await.unwrap();
    let took = started.elapsed();

    assert!(took < Duration::from_millis(900), "the fence took {took:?}");
    let observed = session.observe().await.unwrap();
    assert!(observed.super_read_only && observed.read_only, "{observed:?}");
    assert_eq!(error_code(application.query_drop("COMMIT").await), READ_ONLY);
    assert_eq!(session.executed().await.unwrap(), before);
    let rows: Option<u64> = application
        .query_first("SELECT COUNT(*) FROM t WHERE n = 7")
        .await
        .unwrap();
    assert_eq!(rows, Some(0));

    session.open_for_writes().await.unwrap();
    let observed = session.observe().await.unwrap();
    assert!(!observed.super_read_only && !observed.read_only, "{observed:?}");
    application.query_drop("INSERT INTO t (n) VALUES (8)").await.unwrap();
}

/// A privileged client that writes in a loop gets nothing acknowledged after the fence, while `read_only` alone would not
/// stop it; `report: B21`.
#[tokio::test(flavor = "multi_thread")]
async fn a_privileged_writer_is_stopped() {
    let lab = one_server("fence-root").await;
    create_table(&lab).await;
    let mut session = session(&lab, SOURCE).await;
    let mut admin = root(&lab, SOURCE).await;
    admin.query_drop("SET GLOBAL read_only = ON").await.unwrap();
    assert!(session.observe().await.unwrap().is_writable());

    let writer = Writer::start(root(&lab, SOURCE).await, "INSERT INTO app.t (n) VALUES (1)");
    writer.acknowledged_more_than(20).await;
    session.set_super_read_only().await.unwrap();
    let (_, fenced) = session.executed().await.unwrap();
    // From here on the writer only meets refusals; many of them, so that it has really tried.
    writer.refused_more_than(200).await;
    let (_, later) = session.executed().await.unwrap();
    let acknowledged = writer.stop().await;

    assert_eq!(later, fenced);
    let rows: Option<u64> = admin
        .query_first("SELECT COUNT(*) FROM app.t WHERE n = 1")
        .await
        .unwrap();
    assert_eq!(rows, Some(acknowledged));
}

/// A table lock makes the fence fail after the second that it may wait, and the server is as writable as before;
/// `report: B16` in part.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_lock_refuses_the_fence() {
    let lab = one_server("fence-lock").await;
    create_table(&lab).await;
    let mut session = session(&lab, SOURCE).await;
    let mut application = application(&lab, SOURCE).await;
    application.query_drop("LOCK TABLES t WRITE").await.unwrap();

    let started = Instant::now();
    let outcome = session.set_super_read_only().await;
    let took = started.elapsed();

    assert!(
        matches!(
            &outcome,
            Err(DatabaseError::Refused {
                code: LOCK_WAIT_TIMEOUT,
                ..
            })
        ),
        "{outcome:?}"
    );
    assert!(took < Duration::from_millis(2500), "the refusal took {took:?}");
    let observed = session.observe().await.unwrap();
    assert!(
        !observed.read_only && !observed.super_read_only,
        "half fenced: {observed:?}"
    );
    application.query_drop("INSERT INTO t (n) VALUES (2)").await.unwrap();

    application.query_drop("UNLOCK TABLES").await.unwrap();
    session.set_super_read_only().await.unwrap();
    assert_eq!(read_only(&mut root(&lab, SOURCE).await).await, (true, true));
}

/// Under a load of short transactions the set that is read after the fence is still the same 50 ms later, each time, and
/// nobody needed `FLUSH TABLES WITH READ LOCK` for it; `report: B23`.
#[tokio::test(flavor = "multi_thread")]
async fn the_fenced_set_stands_still() {
    let lab = one_server("fence-load").await;
    create_table(&lab).await;
    let mut session = session(&lab, SOURCE).await;
    let mut admin = root(&lab, SOURCE).await;
    let flushes = flush_count(&mut admin).await;
    let mut writers = Vec::new();
    for milliseconds in [0, 1, 3, 8] {
        let transaction =
            format!("BEGIN; INSERT INTO t (n) VALUES ({milliseconds}); SELECT SLEEP({milliseconds} / 1000); COMMIT");
        writers.push(Writer::start(application(&lab, SOURCE).await, transaction));
    }
    for _ in 0..20 {
        let (_, open) = session.executed().await.unwrap();
        for writer in &writers {
            writer.acknowledged_more_than(3).await;
        }
        fence_in_the_end(&mut session).await;
        let (_, fenced) = session.executed().await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (_, later) = session.executed().await.unwrap();
        assert_eq!(later, fenced);
        assert_ne!(open, fenced, "nothing was written between two fences");
        session.open_for_writes().await.unwrap();
    }
    let mut acknowledged = 0;
    for writer in writers {
        acknowledged += writer.stop().await;
    }
    let rows: Option<u64> = admin.query_first("SELECT COUNT(*) - 1 FROM app.t").await.unwrap();
    assert_eq!(rows, Some(acknowledged), "rows, and acknowledged transactions");
    assert_eq!(flush_count(&mut admin).await, flushes);
}

/// Fences; a commit that takes a second on a slow disk makes the server refuse, as a table lock does.
async fn fence_in_the_end(session: &mut MysqlSession) {
    for _ in 0..5 {
        match session.set_super_read_only().await {
            Err(DatabaseError::Refused {
                code: LOCK_WAIT_TIMEOUT,
                ..
            }) => {}
            outcome => return outcome.unwrap(),
        }
    }
    panic!("five fences were refused");
}

async fn flush_count(admin: &mut Conn) -> String {
    let row: Option<(String, String)> = admin.query_first("SHOW GLOBAL STATUS LIKE 'Com_flush'").await.unwrap();
    row.unwrap().1
}

/// A client that sends the same statement over and over, and counts what comes back.
struct Writer {
    counts: Arc<Counts>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    acknowledged: AtomicU64,
    refused: AtomicU64,
}

impl Writer {
    fn start(mut connection: Conn, statement: impl Into<String>) -> Self {
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let statement = statement.into();
        let task = tokio::spawn(async move {
            while !shared.stop.load(Ordering::SeqCst) {
                match connection.query_drop(statement.as_str()).await {
                    Ok(()) => {
                        shared.acknowledged.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(mysql_async::Error::Server(error)) => {
                        assert_eq!(error.code, READ_ONLY, "{error}");
                        shared.refused.fetch_add(1, Ordering::SeqCst);
                        connection.query_drop("ROLLBACK").await.unwrap();
                    }
                    Err(error) => panic!("the writer lost its server: {error}"),
                }
            }
        });
        Self { counts, task }
    }

    /// Waits for more acknowledgements than there are now.
    async fn acknowledged_more_than(&self, more: u64) {
        Self::grows_by(&self.counts.acknowledged, more).await;
    }

    /// Waits for more refusals than there are now.
    async fn refused_more_than(&self, more: u64) {
        Self::grows_by(&self.counts.refused, more).await;
    }

    async fn grows_by(counter: &AtomicU64, more: u64) {
        let start = counter.load(Ordering::SeqCst);
        crate::fixture::eventually("the writer goes on", async || {
            counter.load(Ordering::SeqCst) > start + more
        })
        .await;
    }

    /// Stops and says how many statements were acknowledged.
    async fn stop(self) -> u64 {
        self.counts.stop.store(true, Ordering::SeqCst);
        self.task.await.unwrap();
        self.counts.acknowledged.load(Ordering::SeqCst)
    }
}
