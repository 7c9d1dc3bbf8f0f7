//! A planned failover on real servers, asked for with kubectl, under write load.

use std::time::Duration;

use bloodraven_stack::{Stack, StackOptions};
use bloodraven_types::{Outcome, Phase};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// A run there and back loses nothing, takes no write twice, has no moment with two writers, and re-points the followers.
/// spec: PF-REQ-01, PF-REQ-10, PF-FEN-02, PF-PRO-01, PF-PUB-01, SB-01, X-PERF-01
#[tokio::test(flavor = "multi_thread")]
async fn there_and_back_under_load() -> TestResult {
    let stack = Stack::up(StackOptions::for_test("there-and-back")).await?;
    let ledger = stack.start_ledger().await?;
    for (target, source) in [("pdx", "iad"), ("iad", "pdx")] {
        let asked = stack.annotate(target).await?;
        let group = stack.wait_for_end(&asked, Duration::from_secs(60)).await?;
        let run = asked.run(&group).ok_or("no run")?;
        let result = run.result.as_ref().ok_or("no result")?;
        assert_eq!(
            (run.phase, result.outcome),
            (Phase::Succeeded, Outcome::Succeeded),
            "{run:#?}"
        );
        assert_eq!(run.source_site.as_ref().map(|site| site.as_str()), Some(source));
        assert!(result.warnings.is_empty(), "{result:?}");
        let timeline = stack.timeline(run.run_id).await?;
        for phase in &timeline.phases {
            println!("{} {}", phase.at.to_precise_string(), phase.phase);
        }
    }
    let report = stack.judge(ledger).await?;
    println!("{report}");
    assert!(report.is_clean(), "{:?}", report.reasons);
    stack.down().await?;
    Ok(())
}
