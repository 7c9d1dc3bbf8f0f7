//! `SourceLeftFenced`: the source was lost while it was fenced, and stays fenced when it comes back.

use std::time::{Duration, Instant};

use bloodraven_stack::{Program, Stack, StackOptions};
use bloodraven_types::{Outcome, PlannedFailover, Reason, SiteState};

use crate::support::{
    TestResult, as_root, ask, ask_held_back, counted, end, end_of, event, goes_on, is_active, is_in_state, judge,
    let_go, mysqld, request_is_removed, writable_sites,
};

/// A source that is killed, and one that hangs, while the target is waited for: after ten seconds the run ends with one
/// try to unfence and no more, nothing is promoted, and the source is read-only when it is back. The next request is
/// refused by an Event alone as long as that lasts, and begins once the source takes writes again.
/// spec: PF-LOS-01, PF-ADM-16
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_source_stays_fenced() -> TestResult {
    let stack = Stack::up(StackOptions::for_test("left-fenced")).await?;
    let ledger = stack.start_ledger().await?;
    let run = lose_source(&stack, async |stack| Ok(stack.lab().kill(&mysqld("iad")).await?)).await?;
    assert_left_fenced(&stack, &run).await?;
    is_in_state(&stack, "iad", SiteState::Unreachable).await?;
    stack.lab().start(&mysqld("iad")).await?;
    is_in_state(&stack, "iad", SiteState::ReadOnly).await?;
    refused_until_healed(&stack, &run).await?;
    goes_on(&ledger).await?;
    let_go(&stack, "pdx", "iad").await?;

    let run = lose_source(&stack, async |stack| Ok(stack.lab().pause(&mysqld("iad")).await?)).await?;
    stack.lab().resume(&mysqld("iad")).await?;
    assert_left_fenced(&stack, &run).await?;
    refused_until_healed(&stack, &run).await?;
    assert_eq!(counted(&stack, "pdx", "source-left-fenced").await?, 2);

    let_go(&stack, "pdx", "iad").await?;
    let moved = ask(&stack, "pdx").await?;
    assert_eq!(end(&moved), Some((Outcome::Succeeded, None)), "{moved:#?}");
    assert_eq!(writable_sites(&stack).await?, ["pdx"]);
    goes_on(&ledger).await?;
    judge(&stack, ledger).await?;
    stack.down().await?;
    Ok(())
}

async fn lose_source(stack: &Stack, lose: impl AsyncFnOnce(&Stack) -> TestResult) -> TestResult<PlannedFailover> {
    let asked = ask_held_back(stack, "pdx").await?;
    lose(stack).await?;
    let lost = Instant::now();
    let run = end_of(stack, &asked, Duration::from_secs(60)).await?;
    let took = lost.elapsed();
    println!("ended {took:?} after the source was lost: {:?}", run.result);
    assert!(
        took > Duration::from_secs(9),
        "the loss window was not waited for: {took:?}"
    );
    assert!(took < Duration::from_secs(25), "{took:?}");
    Ok(run)
}

async fn assert_left_fenced(stack: &Stack, run: &PlannedFailover) -> TestResult {
    let wanted = Some((Outcome::SourceLeftFenced, Some(Reason::SourceLost)));
    assert_eq!(end(run), wanted, "{run:#?}");
    assert!(run.promotion.is_none(), "{run:#?}");
    assert_eq!(
        run.rollback.as_ref().map(|rollback| rollback.reason),
        Some(Reason::SourceLost)
    );
    assert_eq!(
        writable_sites(stack).await?,
        [""; 0],
        "nobody was promoted and the source was not opened"
    );
    event(stack, "PlannedFailoverFailed", "SourceLeftFenced (SourceLost)").await?;
    let id = run.run_id.to_string();
    let retries = stack.logs(Program::Fencer).into_iter().filter(|line| {
        let own = line.fields.get("run").and_then(|run| run.as_str()) == Some(&id);
        own && line.message.contains("not unfenced yet")
    });
    assert_eq!(retries.count(), 0, "a lost source is not tried again");
    Ok(())
}

/// While the fence stands the request is refused and the block stays; by hand the fence is lifted.
async fn refused_until_healed(stack: &Stack, run: &PlannedFailover) -> TestResult {
    let before = counted(stack, "pdx", "not-started").await?;
    stack.annotate("pdx").await?;
    let group = request_is_removed(stack).await?;
    assert_eq!(group.run().map(|run| run.run_id), Some(run.run_id), "the block is kept");
    let id = run.run_id;
    let refusal = format!("planned failover {id} left source \"iad\" fenced");
    let rejected = event(stack, "PlannedFailoverRejected", &refusal).await?;
    assert_eq!(rejected.kind, "Warning");
    assert_eq!(counted(stack, "pdx", "not-started").await?, before + 1);
    assert_eq!(writable_sites(stack).await?, [""; 0], "the source is still read-only");
    as_root(
        stack,
        "iad",
        &["SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF"],
    )
    .await?;
    is_active(stack, "iad").await?;
    Ok(())
}
