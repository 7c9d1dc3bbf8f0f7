//! What would hold a fence up is seen before anything is fenced, and what could write past a read-only server is not.

use std::time::Duration;

use bloodraven_messages::latest::Payload;
use bloodraven_stack::lab::MysqlAccount;
use bloodraven_stack::{Asked, Stack, StackOptions};
use bloodraven_types::{Fact, Group, Outcome, Timestamp, WaitReason};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use serde_json::json;

use crate::support::{TestResult, Watch, as_root, end, end_of, event, goes_on, is_active, judge, writable_sites};
use crate::writer::Writer;

/// A table lock of a session that sleeps, then a long update: each makes the request wait and is named, the source
/// is not fenced meanwhile and nobody's session is ended, and the run goes on by itself when the session is done.
/// report: B16
#[tokio::test(flavor = "multi_thread")]
async fn what_would_hold_a_fence_up_is_waited_for_in_admission() -> TestResult {
    let mut options = StackOptions::for_test("fence-would-block");
    options.lab.performance_schema = true;
    let stack = Stack::up(options).await?;
    let ledger = stack.start_ledger().await?;
    as_root(
        &stack,
        "iad",
        &[
            "CREATE TABLE app.held (id INT PRIMARY KEY, slept INT)",
            "INSERT INTO app.held VALUES (1, 0)",
        ],
    )
    .await?;

    let mut locking = Conn::new(stack.lab().mysql_opts("iad", MysqlAccount::App)?).await?;
    locking.query_drop("LOCK TABLES app.held WRITE").await?;
    let watch = Watch::start(&stack, "iad")?;
    let asked = stack.annotate("pdx").await?;
    waits_for(
        &stack,
        &asked,
        &format!("session {} of app: LOCK TABLES app.held WRITE", locking.id()),
    )
    .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_unfenced(&stack, &asked, watch).await?;
    goes_on(&ledger).await?;
    // The session was left alone: it still answers, and still has its lock.
    locking.query_drop("UPDATE app.held SET slept = 1").await?;
    locking.query_drop("UNLOCK TABLES").await?;
    locking.disconnect().await?;
    let run = end_of(&stack, &asked, Duration::from_secs(20)).await?;
    assert_eq!(end(&run), Some((Outcome::Succeeded, None)), "{run:#?}");
    assert_eq!(writable_sites(&stack).await?, ["pdx"]);
    is_active(&stack, "pdx").await?;

    let mut updating = Conn::new(stack.lab().mysql_opts("pdx", MysqlAccount::App)?).await?;
    let id = updating.id();
    let update = tokio::spawn(async move { updating.query_drop("UPDATE app.held SET slept = 2 + SLEEP(8)").await });
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let watch = Watch::start(&stack, "pdx")?;
    let asked = stack.annotate("iad").await?;
    waits_for(&stack, &asked, &format!("session {id} of app: UPDATE")).await?;
    assert_unfenced(&stack, &asked, watch).await?;
    update.await??;
    let run = end_of(&stack, &asked, Duration::from_secs(20)).await?;
    assert_eq!(end(&run), Some((Outcome::Succeeded, None)), "{run:#?}");
    assert_eq!(writable_sites(&stack).await?, ["iad"]);
    judge(&stack, ledger).await?;
    stack.down().await?;
    Ok(())
}

async fn waits_for(stack: &Stack, asked: &Asked, session: &str) -> TestResult {
    let waits = |group: &Group| {
        asked.run(group).is_some_and(|run| {
            run.admission.wait_reason == Some(WaitReason::FenceWouldBlock)
                && run
                    .admission
                    .wait_detail
                    .as_ref()
                    .is_some_and(|detail| detail.contains(session))
        })
    };
    stack.wait_until(session, Duration::from_secs(10), waits).await?;
    let delayed = event(stack, "PlannedFailoverAdmissionDelayed", session).await?;
    assert!(delayed.message.contains("FenceWouldBlock"), "{delayed:?}");
    Ok(())
}

/// The run still waits, has announced no fence, and every look at its source found it writable.
async fn assert_unfenced(stack: &Stack, asked: &Asked, watch: Watch) -> TestResult {
    let group = stack.record().await?;
    let run = asked.run(&group).ok_or("no run")?;
    assert!(run.fence.is_none() && run.result.is_none(), "{run:#?}");
    let looks = watch.stop();
    assert!(!looks.is_empty() && looks.iter().all(|(_, writable)| *writable));
    Ok(())
}

/// `root` writes over the source's Unix socket all through a run: no row is acknowledged once the fence was read back, and
/// every row that was acknowledged before is on the target. The session cannot be ended, so the drain ends by its timeout.
/// report: B21. spec: PF-DRN-01
#[tokio::test(flavor = "multi_thread")]
async fn a_privileged_client_gets_no_row_past_the_fence() -> TestResult {
    let options = StackOptions::for_test("privileged").with_spec("plannedFailover", json!({ "drainTimeout": "2s" }));
    let stack = Stack::up(options).await?;
    let ledger = stack.start_ledger().await?;
    as_root(&stack, "iad", &["CREATE TABLE app.privileged (id BIGINT PRIMARY KEY)"]).await?;
    let socket = stack.lab().site("iad")?.socket.display().to_string();
    let root = OptsBuilder::default().user(Some("root")).socket(Some(socket));
    let client = Writer::start(root.into(), "privileged", "");
    client.goes_on().await?;

    let asked = stack.annotate("pdx").await?;
    let run = end_of(&stack, &asked, Duration::from_secs(30)).await?;
    assert_eq!(end(&run), Some((Outcome::Succeeded, None)), "{run:#?}");
    let drain = run.drain.as_ref().ok_or("no drain")?;
    assert_eq!(drain.remaining_connections, Some(1), "{drain:?}");
    assert_eq!(writable_sites(&stack).await?, ["pdx"]);
    let refused = client.so_far().refused.len();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let written = client.stop().await?;
    assert!(written.refused.len() > refused, "the client still writes in vain");
    let (_, error) = written.refused.last().ok_or("nothing was refused")?;
    assert!(error.contains("super-read-only"), "{error}");

    let fenced = fence_read_back(&stack, run.run_id).await?;
    let (_, last) = *written.acknowledged.last().ok_or("nothing was acknowledged")?;
    println!(
        "{} rows, the last at {}, fenced at {}",
        written.acknowledged.len(),
        last.to_precise_string(),
        fenced.to_precise_string()
    );
    // The message carries milliseconds.
    assert!(
        last <= fenced.after(Duration::from_millis(1)),
        "acknowledged at {last:?}, fenced at {fenced:?}"
    );
    let mut target = stack.lab().mysql("pdx").await?;
    written.is_kept_by(&mut target, "privileged").await?;
    target.disconnect().await?;
    judge(&stack, ledger).await?;
    stack.down().await?;
    Ok(())
}

/// When the fence was read back, as the fencer told it.
async fn fence_read_back(stack: &Stack, run: bloodraven_types::RunId) -> TestResult<Timestamp> {
    let timeline = stack.timeline(run).await?;
    let told = timeline.messages.iter().find_map(|message| {
        let fenced = matches!(&message.payload, Payload::Fact(Fact::Fenced(_)));
        fenced.then_some(message.time)
    });
    told.ok_or_else(|| "the fencer told of no fence".into())
}
