//! What a committed step is to the metrics and the log.

use bloodraven_failover::Effect;
use bloodraven_types::Group;

/// The duration of a run, from its start to its end.
pub(crate) const DURATION: &str = "bloodraven_planned_failover_duration_seconds";
/// Its bounds, in seconds.
pub(crate) const DURATION_BUCKETS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0];
/// How long a target took to apply the fenced set.
pub(crate) const LAG_WAIT: &str = "bloodraven_planned_failover_lag_wait_seconds";
/// Its bounds, in seconds.
pub(crate) const LAG_WAIT_BUCKETS: &[f64] = &[0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
const RUNS: &str = "bloodraven_planned_failovers_total";
const DEFERRED: &str = "bloodraven_planned_failovers_deferred_total";

pub(crate) fn describe() {
    metrics::describe_counter!(RUNS, "Planned failovers that ended, by requested site and outcome.");
    metrics::describe_counter!(DEFERRED, "Planned failovers that were deferred, by group and reason.");
    metrics::describe_histogram!(
        DURATION,
        "Seconds from the start of a planned failover to its end, by target site."
    );
    metrics::describe_histogram!(
        LAG_WAIT,
        "Seconds until the target had applied the fenced set, one sample a run."
    );
}

/// Hears every effect after its commit (PF-OBS-03, PF-OBS-05).
pub(crate) fn report(group: &Group, effect: &Effect) {
    let run = group.run();
    let run_id = run.map(|run| run.run_id.to_string()).unwrap_or_default();
    let phase = run.map(|run| run.phase.as_str()).unwrap_or_default();
    match effect {
        Effect::Event { reason, message } if reason.is_warning() => {
            tracing::warn!(group = %group.key, run = run_id, phase, event = reason.as_str(), message = message.as_str(), "planned failover: event");
        }
        Effect::Event { reason, message } => {
            tracing::info!(group = %group.key, run = run_id, phase, event = reason.as_str(), message = message.as_str(), "planned failover: event");
        }
        Effect::Ended {
            target,
            outcome,
            duration,
        } => {
            metrics::counter!(RUNS, "target_site" => target.to_string(), "result" => outcome.label()).increment(1);
            if let Some(duration) = duration {
                metrics::histogram!(DURATION, "target_site" => target.to_string()).record(duration.as_secs_f64());
            }
        }
        Effect::LagWaited { target, duration } => {
            metrics::histogram!(LAG_WAIT, "target_site" => target.to_string()).record(duration.as_secs_f64());
        }
        Effect::Deferred { reason } => {
            metrics::counter!(DEFERRED, "group" => group.key.to_string(), "reason" => reason.as_str()).increment(1);
        }
        Effect::Released { why } => {
            tracing::info!(group = %group.key, run = run_id, why, "planned failover: claim released");
        }
    }
}
