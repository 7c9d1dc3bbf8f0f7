//! What the demonstration says while it goes on.

use bloodraven_stack::Timeline;
use bloodraven_stack::ledger_report::Report;

use super::outcome::{Outcome, RunOutcome};

/// A new part begins.
pub(crate) fn heading(text: &str) {
    println!("\n== {text} ==");
}

/// One run's phases with the time since its request, and how long nobody could write.
pub(crate) fn run(run: &RunOutcome, timeline: &Timeline) {
    let reason = run
        .reason
        .as_ref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    println!(
        "run {} from {} to {}: {}{reason}",
        run.run_id, run.source, run.target, run.outcome
    );
    let Some(first) = timeline.phases.first() else { return };
    let mut rest = timeline.phases.iter().skip(1);
    for phase in &timeline.phases {
        let since = phase.at.since(first.at).as_millis();
        let lasted = rest
            .next()
            .map(|next| format!("for {:>5} ms", next.at.since(phase.at).as_millis()));
        let at = phase.at.to_precise_string();
        let phase = phase.phase.as_str();
        let line = format!("  {at}  +{since:>5} ms  {phase:<24}{}", lasted.unwrap_or_default());
        println!("{}", line.trim_end());
    }
    println!("  no write was acknowledged for {:.1} ms", run.write_outage_ms);
}

/// The ledger's verdict and the outages of all runs.
pub(crate) fn verdict(outcome: &Outcome, report: &Report) {
    heading("the ledger's verdict");
    println!("{report}");
    if let Some((median, ninetieth, longest)) = outcome.outages() {
        let count = outcome.runs.len();
        println!("write outage of {count} runs: median {median:.1} ms, p90 {ninetieth:.1} ms, longest {longest:.1} ms");
    }
}
