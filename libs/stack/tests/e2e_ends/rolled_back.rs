//! `RolledBack`: the source was fenced, nothing was written to the target, and the source takes writes again.

use std::time::{Duration, Instant};

use bloodraven_stack::lab::ProcessState;
use bloodraven_stack::{Stack, StackOptions};
use bloodraven_types::words::ConvergenceReason;
use bloodraven_types::{Group, Outcome, Phase, PlannedFailover, Reason};

use crate::support::{
    TestResult, Watch, as_root, ask, ask_held_back, counted, end, end_of, event, goes_on, is_active, judge, let_go,
    mysqld, request_is_removed, writable_sites,
};

/// How soon after the failing condition applications can write again.
const WRITABLE_AGAIN: Duration = Duration::from_secs(15);

/// A target that applies nothing in time, that falls silent, and that holds a transaction which the source never had: each
/// time the source is fenced, nothing is promoted, and the source takes writes again soon. The divergence is reported, no
/// run begins with it, and once the primary holds the transaction too the same request succeeds.
/// spec: PF-LAG-01, PF-LAG-02, PF-LOS-02, PF-RBK-01, PF-REQ-03, PF-TOP-04
#[tokio::test(flavor = "multi_thread")]
async fn the_source_takes_writes_again() -> TestResult {
    let stack = Stack::up(StackOptions::for_test("rolled-back")).await?;
    let ledger = stack.start_ledger().await?;
    let (run, again) = held(&stack, "pdx:maxLagWait=2s", async |_| Ok(())).await?;
    assert_eq!(run.settings.max_lag_wait.to_string(), "2s");
    assert_rolled_back(&stack, &run, Reason::LagTimeout).await?;
    // The condition fails up to two seconds after the wait was seen to have begun.
    assert!(
        again < WRITABLE_AGAIN + Duration::from_secs(2),
        "writable again after {again:?}"
    );
    goes_on(&ledger).await?;
    is_active(&stack, "iad").await?;
    let_go(&stack, "pdx", "iad").await?;

    let (run, again) = held(&stack, "pdx", async |stack| {
        Ok(stack.lab().pause(&mysqld("pdx")).await?)
    })
    .await?;
    assert_eq!(stack.lab().process_state(&mysqld("pdx"))?, ProcessState::Paused);
    stack.lab().resume(&mysqld("pdx")).await?;
    assert_rolled_back(&stack, &run, Reason::TargetLost).await?;
    // The target counts as lost after ten seconds of silence.
    assert!(
        again > Duration::from_secs(9),
        "the loss window was not waited for: {again:?}"
    );
    assert!(
        again < WRITABLE_AGAIN + Duration::from_secs(10),
        "writable again after {again:?}"
    );
    goes_on(&ledger).await?;
    is_active(&stack, "iad").await?;
    let_go(&stack, "pdx", "iad").await?;

    let (run, again) = held(&stack, "pdx", errant_transaction).await?;
    assert_rolled_back(&stack, &run, Reason::DivergentTarget).await?;
    assert!(again < WRITABLE_AGAIN, "writable again after {again:?}");
    goes_on(&ledger).await?;
    is_active(&stack, "iad").await?;
    divergent_target(&stack).await?;

    assert_eq!(counted(&stack, "pdx", "rolled-back").await?, 3);
    judge(&stack, ledger).await?;
    stack.down().await?;
    Ok(())
}

/// A transaction that only the target has, as an administrator's slip makes it.
async fn errant_transaction(stack: &Stack) -> TestResult {
    let slip = [
        "SET GLOBAL super_read_only = OFF",
        "CREATE DATABASE slip",
        "SET GLOBAL super_read_only = ON",
    ];
    as_root(stack, "pdx", &slip).await
}

/// Asks for a failover, holds its target back, makes something happen while the run waits for it, and gives the
/// run's end and how long after that the source took writes again.
async fn held(
    stack: &Stack,
    value: &str,
    happen: impl AsyncFnOnce(&Stack) -> TestResult,
) -> TestResult<(PlannedFailover, Duration)> {
    let watch = Watch::start(stack, "iad")?;
    let asked = ask_held_back(stack, value).await?;
    let group = stack.record().await?;
    let fenced = asked
        .run(&group)
        .and_then(|run| run.fence.as_ref())
        .is_some_and(|fence| fence.gtid_set.is_some());
    assert!(fenced, "the fenced set is on the record before anything waits for it");
    happen(stack).await?;
    let happened = Instant::now();
    let run = end_of(stack, &asked, Duration::from_secs(60)).await?;
    watch.sees_it_writable().await?;
    let looks = watch.stop();
    let last_fenced = looks
        .iter()
        .rposition(|(_, writable)| !writable)
        .ok_or("the source was never fenced")?;
    let (again, _) = looks.get(last_fenced + 1).ok_or("the source is not writable")?;
    let again = again.saturating_duration_since(happened);
    println!("{:?}: writable again {again:?} after what happened", end(&run));
    Ok((run, again))
}

async fn assert_rolled_back(stack: &Stack, run: &PlannedFailover, reason: Reason) -> TestResult {
    assert_eq!(end(run), Some((Outcome::RolledBack, Some(reason))), "{run:#?}");
    assert!(
        run.promotion.is_none(),
        "nothing was announced to be done to the target: {run:#?}"
    );
    let rollback = run.rollback.as_ref().ok_or("no rollback")?;
    assert_eq!(rollback.reason, reason);
    let result = run.result.as_ref().ok_or("no result")?;
    assert!(result.warnings.is_empty(), "{:?}", result.warnings);
    assert!(result.completion_time.since(rollback.intent_time) <= Duration::from_secs(30));
    assert_eq!(writable_sites(stack).await?, ["iad"]);
    let timeline = stack.timeline(run.run_id).await?;
    let last: Vec<Phase> = timeline.phases.iter().rev().take(3).map(|known| known.phase).collect();
    assert_eq!(
        last,
        [Phase::Failed, Phase::RollingBack, Phase::WaitingForLag],
        "the way back is announced first"
    );
    event(stack, "PlannedFailoverRollbackStarted", reason.as_str()).await?;
    event(stack, "PlannedFailoverFailed", &format!("RolledBack ({reason})")).await?;
    let last = stack.record().await?.status.last_failover;
    assert!(last.is_none(), "a run that was rolled back is no failover: {last:?}");
    Ok(())
}

/// The divergence is on the status, refuses the next request, and is gone once the primary has the transaction as well.
async fn divergent_target(stack: &Stack) -> TestResult {
    let blocked = |group: &Group| {
        let pdx = group.status.sites.iter().find(|site| site.name == "pdx");
        pdx.is_some_and(|pdx| pdx.source_convergence_reason == Some(ConvergenceReason::GTIDDiverged))
    };
    let group = stack
        .wait_until("the divergence", Duration::from_secs(15), blocked)
        .await?;
    let pdx = group
        .status
        .sites
        .iter()
        .find(|site| site.name == "pdx")
        .ok_or("no pdx")?;
    let errant = pdx.divergent_gtid.clone().ok_or("no divergent set")?;
    assert_eq!(pdx.divergent_transaction_count, Some(1), "{errant}");
    let refused = ask(stack, "pdx").await?;
    assert_eq!(
        end(&refused),
        Some((Outcome::NotStarted, Some(Reason::DivergentTarget))),
        "{refused:#?}"
    );
    assert!(refused.message.contains(&errant), "{}", refused.message);
    request_is_removed(stack).await?;

    let take_it = format!("SET gtid_next = '{errant}'");
    as_root(
        stack,
        "iad",
        &[&take_it, "BEGIN", "COMMIT", "SET gtid_next = AUTOMATIC"],
    )
    .await?;
    let healed = |group: &Group| !blocked(group);
    stack
        .wait_until("the end of the divergence", Duration::from_secs(15), healed)
        .await?;
    let_go(stack, "pdx", "iad").await?;
    let run = ask(stack, "pdx").await?;
    assert_eq!(end(&run), Some((Outcome::Succeeded, None)), "{run:#?}");
    assert_eq!(writable_sites(stack).await?, ["pdx"]);
    Ok(())
}
