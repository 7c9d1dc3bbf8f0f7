//! `NotStarted`: nothing was sent to any server, whatever the reason.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_stack::{Program, Stack, StackOptions};
use bloodraven_types::annotation::PLANNED_FAILOVER;
use bloodraven_types::words::DeferReason;
use bloodraven_types::{Group, Outcome, Phase, PlannedFailover, Reason, SiteState, WaitReason};
use serde_json::json;

use crate::support::{
    TestResult, Watch, ask, ask_held_back, counted, end, end_of, event, events, goes_on, in_phase, is_active,
    is_in_state, judge, let_go, mysqld, now, patch_spec, request_is_removed, writable_sites,
};

fn not_started(reason: Reason) -> Option<(Outcome, Option<Reason>)> {
    Some((Outcome::NotStarted, Some(reason)))
}

/// Nothing was ever announced to be done to a server.
fn assert_untouched(run: &PlannedFailover) {
    assert!(
        run.fence.is_none() && run.source_site.is_none() && run.claim_time.is_none(),
        "{run:#?}"
    );
}

/// Requests that can never begin end at once, the source under load does not notice, and each is counted under the site
/// that was asked for; one for the active site is skipped, also when a run has just made it so, and the block is kept.
/// spec: PF-REQ-01, PF-REQ-03, PF-REQ-04, PF-REQ-05, PF-ADM-01
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cannot_begin() -> TestResult {
    let stack = Stack::up(StackOptions::for_test("refused")).await?;
    let ledger = stack.start_ledger().await?;
    for (target, reason, detail) in [
        ("sjc", Reason::UnknownSite, "\"sjc\" is not in spec.sites"),
        ("ord", Reason::TargetNotPromotable, "\"ord\" is no PrimaryCandidate"),
    ] {
        let run = ask(&stack, target).await?;
        assert_eq!(end(&run), not_started(reason), "{run:#?}");
        assert_untouched(&run);
        request_is_removed(&stack).await?;
        let rejected = event(&stack, "PlannedFailoverRejected", detail).await?;
        assert_eq!(rejected.kind, "Warning");
        assert_eq!(counted(&stack, target, "not-started").await?, 1);
    }
    let before = stack.record().await?.run().cloned();
    let mut counts = BTreeMap::new();
    for (value, site) in [
        ("pdx:maxLagWait=2h", "pdx"),
        ("pdx:lag=2s", "pdx"),
        ("pdx:maxLagWait=2s:maxLagWait=3s", "pdx"),
        ("pdx:", "pdx"),
        ("pdx:maxLagWait=2 s", "pdx"),
        (":maxLagWait=5s", "invalid"),
    ] {
        stack.annotate(value).await?;
        let group = request_is_removed(&stack).await?;
        assert_eq!(group.run(), before.as_ref(), "{value} changed the block");
        event(&stack, "PlannedFailoverRejected", value).await?;
        let count = counts.entry(site).and_modify(|count| *count += 1).or_insert(1_u64);
        assert_eq!(counted(&stack, site, "not-started").await?, *count, "{value}");
    }
    skip(&stack, "iad").await?;
    assert_eq!(writable_sites(&stack).await?, ["iad"]);

    let moved = ask(&stack, "pdx").await?;
    assert_eq!(end(&moved), Some((Outcome::Succeeded, None)), "{moved:#?}");
    is_active(&stack, "pdx").await?;
    skip(&stack, "pdx").await?;
    assert_eq!(writable_sites(&stack).await?, ["pdx"]);
    let report = judge(&stack, ledger).await?;
    assert_eq!(
        report.period_count, 2,
        "the primary was not touched by what was refused"
    );
    stack.down().await?;
    Ok(())
}

/// Asks for the active site: an Event, and nothing else changes.
async fn skip(stack: &Stack, site: &str) -> TestResult {
    let before = stack.record().await?;
    stack.annotate(site).await?;
    let after = request_is_removed(stack).await?;
    let skipped = event(stack, "PlannedFailoverSkipped", &format!("\"{site}\"")).await?;
    assert_eq!(skipped.kind, "Normal");
    assert_eq!(after.run(), before.run(), "the block is kept");
    Ok(())
}

/// Within the cooldown a request is refused, or waits for its end and then begins by itself with what the annotation
/// says by then; when the annotation is removed meanwhile, it ends.
/// spec: PF-ADM-05, PF-REQ-07, PF-SET-02
#[tokio::test(flavor = "multi_thread")]
async fn requests_within_the_cooldown() -> TestResult {
    let stack = Stack::up(StackOptions::for_test("cooldown")).await?;
    let ledger = stack.start_ledger().await?;
    let first = ask(&stack, "pdx").await?;
    assert_eq!(end(&first), Some((Outcome::Succeeded, None)), "{first:#?}");
    is_active(&stack, "pdx").await?;

    patch_spec(&stack, &json!({ "failoverCooldown": "5m" })).await?;
    let refused = ask(&stack, "iad").await?;
    assert_eq!(end(&refused), not_started(Reason::CooldownActive), "{refused:#?}");
    assert_untouched(&refused);
    request_is_removed(&stack).await?;
    event(&stack, "PlannedFailoverRejected", "failoverCooldown (5m0s)").await?;

    patch_spec(&stack, &json!({ "plannedFailover": { "onCooldown": "Defer" } })).await?;
    let asked = stack.annotate("iad").await?;
    let group = in_phase(&stack, &asked, Phase::Deferred).await?;
    assert!(group.annotation(PLANNED_FAILOVER).is_some(), "the annotation is kept");
    stack
        .kubectl([
            "annotate",
            "mysqlfailovergroup",
            "orders",
            &format!("{PLANNED_FAILOVER}-"),
        ])
        .await?;
    let cancelled = end_of(&stack, &asked, Duration::from_secs(10)).await?;
    assert_eq!(end(&cancelled), not_started(Reason::Canceled), "{cancelled:#?}");
    assert_untouched(&cancelled);

    let over = resume_by_itself(&stack).await?;
    assert_eq!(writable_sites(&stack).await?, ["iad"]);
    assert_eq!(
        over.settings.max_lag_wait.to_string(),
        "45s",
        "the settings are those of the resumption"
    );
    judge(&stack, ledger).await?;
    stack.down().await?;
    Ok(())
}

/// Defers a request until some seconds from now, changes it meanwhile, and gives the run that came of it.
async fn resume_by_itself(stack: &Stack) -> TestResult<PlannedFailover> {
    let last = stack
        .record()
        .await?
        .status
        .last_failover
        .ok_or("no failover is recorded")?;
    let cooldown = now().since(last.time) + Duration::from_secs(8);
    patch_spec(
        stack,
        &json!({ "failoverCooldown": format!("{}s", cooldown.as_secs()) }),
    )
    .await?;
    let asked = stack.annotate("iad:maxLagWait=40s").await?;
    let group = in_phase(stack, &asked, Phase::Deferred).await?;
    let deferred = asked.run(&group).ok_or("no run")?.clone();
    assert_eq!(deferred.admission.defer_reason, Some(DeferReason::CooldownActive));
    let retry = deferred.admission.retry_time.ok_or("no retry time")?;
    assert_eq!(retry, last.time.after(Duration::from_secs(cooldown.as_secs())));
    assert_eq!(writable_sites(stack).await?, ["pdx"], "a deferred request owns nothing");
    let name = &stack.key().name;
    let changed = format!("{PLANNED_FAILOVER}=iad:maxLagWait=45s");
    stack
        .kubectl(["annotate", "--overwrite", "mysqlfailovergroup", name, &changed])
        .await?;

    let run = end_of(stack, &asked, Duration::from_secs(30)).await?;
    assert_eq!(run.run_id, deferred.run_id);
    assert_eq!(end(&run), Some((Outcome::Succeeded, None)), "{run:#?}");
    let deadline = run.admission.deadline_time.ok_or("no deadline")?;
    assert!(
        deadline >= retry.after(Duration::from_secs(120)),
        "the deadline is a fresh one"
    );
    event(stack, "PlannedFailoverDeferred", "failoverCooldown").await?;
    event(stack, "PlannedFailoverStarted", "resumed after a deferral").await?;
    let metrics = stack.admin(Program::StatusWriter, "/metrics").await?;
    let counted = "bloodraven_planned_failovers_deferred_total{group=\"default/orders\",reason=\"CooldownActive\"} 2";
    assert!(metrics.contains(counted), "{metrics}");
    Ok(run)
}

/// A request that came while a failover was not yet observed waits without being judged, and ends when what it asks for
/// turns out to be done. The topology manager is frozen in the meantime, so that the observation stays away; clients are led
/// to the new primary all the same. spec: PF-ADM-10, PF-REQ-10, PF-PUB-01
#[tokio::test(flavor = "multi_thread")]
async fn the_target_became_active_while_the_request_waited() -> TestResult {
    let stack = Stack::up(StackOptions::for_test("already-active")).await?;
    let ledger = stack.start_ledger().await?;
    let first = ask_held_back(&stack, "pdx").await?;
    stack.pause(Program::TopologyManager)?;
    let_go(&stack, "pdx", "iad").await?;
    let moved = end_of(&stack, &first, Duration::from_secs(30)).await?;
    assert_eq!(end(&moved), Some((Outcome::Succeeded, None)), "{moved:#?}");
    goes_on(&ledger).await?;

    let second = stack.annotate("pdx").await?;
    let waits = |group: &Group| {
        second.run(group).and_then(|run| run.admission.wait_reason) == Some(WaitReason::AuthorityUnsettled)
    };
    let group = stack.wait_until("the wait", Duration::from_secs(10), waits).await?;
    let waiting = second.run(&group).ok_or("no run")?;
    assert_eq!(waiting.phase, Phase::Admitting);
    assert!(waiting.admission.validation_time.is_none(), "it is not judged yet");
    let service = stack.proxy().target();
    assert_eq!(
        service,
        Some(stack.lab().site("pdx")?.address()),
        "clients are led to the new primary, observed or not"
    );
    assert_eq!(
        group.annotation(PLANNED_FAILOVER),
        Some("pdx"),
        "the annotation stays until it is"
    );
    stack.resume(Program::TopologyManager)?;
    let run = end_of(&stack, &second, Duration::from_secs(15)).await?;
    assert_eq!(end(&run), not_started(Reason::AlreadyActive), "{run:#?}");
    assert_untouched(&run);
    request_is_removed(&stack).await?;
    assert_eq!(writable_sites(&stack).await?, ["pdx"]);
    judge(&stack, ledger).await?;
    stack.down().await?;
    Ok(())
}

/// A site that must answer is down: the request waits, says why in one Event, refuses others beside it, and ends after
/// two minutes. The source takes writes all the time.
/// spec: PF-ADM-04, PF-ADM-14, PF-REQ-06, PF-REQ-09, PF-CLM-03
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_down_ends_the_wait_after_two_minutes() -> TestResult {
    let stack = Stack::up(StackOptions::for_test("peer-down")).await?;
    let ledger = stack.start_ledger().await?;
    let watch = Watch::start(&stack, "iad")?;
    stack.lab().stop(&mysqld("ord")).await?;
    let asked = stack.annotate("pdx").await?;
    let waits =
        |group: &Group| asked.run(group).and_then(|run| run.admission.wait_reason) == Some(WaitReason::PeerUnreadable);
    stack.wait_until("the wait", Duration::from_secs(15), waits).await?;
    request_is_removed(&stack).await?;
    is_in_state(&stack, "ord", SiteState::Unreachable).await?;
    let group = stack.record().await?;
    let waiting = asked.run(&group).ok_or("no run")?.clone();
    assert!(
        group.status.claim.is_none(),
        "a request that waits owns nothing: {:?}",
        group.status.claim
    );
    let delayed = event(&stack, "PlannedFailoverAdmissionDelayed", "PeerUnreadable").await?;
    assert!(
        delayed.message.contains("\"ord\"") && delayed.kind == "Normal",
        "{delayed:?}"
    );

    stack.annotate("pdx").await?;
    request_is_removed(&stack).await?;
    assert_eq!(
        counted(&stack, "pdx", "not-started").await?,
        0,
        "its own copy is removed silently"
    );
    stack.annotate("iad").await?;
    request_is_removed(&stack).await?;
    event(
        &stack,
        "PlannedFailoverRejected",
        "a previous planned failover is still running",
    )
    .await?;

    let run = end_of(&stack, &asked, Duration::from_secs(150)).await?;
    assert_eq!(end(&run), not_started(Reason::AdmissionTimeout), "{run:#?}");
    assert_eq!(run.run_id, waiting.run_id, "no other request has taken its place");
    assert_untouched(&run);
    assert!(run.message.contains("PeerUnreadable"), "{}", run.message);
    let deadline = run.admission.deadline_time.ok_or("no deadline")?;
    assert_eq!(deadline.since(run.start_time), Duration::from_secs(120));
    let completed = run.result.as_ref().ok_or("no result")?.completion_time;
    assert!(
        completed >= deadline && completed.since(deadline) < Duration::from_secs(5),
        "{run:#?}"
    );
    assert_eq!(
        events(&stack, "PlannedFailoverAdmissionDelayed").await?.len(),
        1,
        "one reason, one Event"
    );
    let looks = watch.stop();
    assert!(
        looks.len() > 1000 && looks.iter().all(|(_, writable)| *writable),
        "{} looks",
        looks.len()
    );
    assert_eq!(writable_sites(&stack).await?, ["iad"]);

    stack.lab().start(&mysqld("ord")).await?;
    let report = judge(&stack, ledger).await?;
    assert_eq!(report.period_count, 1);
    assert!(report.write_outage_ms < 5_000.0, "{}", report.write_outage_ms);
    stack.down().await?;
    Ok(())
}
