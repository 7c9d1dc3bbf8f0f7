//! The run as the record tells it: each moment on it, in order.

use bloodraven_types::record::PlannedFailover;
use bloodraven_types::time::Timestamp;
use bloodraven_types::words::StepState;

use super::words::length;

/// One moment of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// When, in whole seconds as the record has it.
    pub(crate) at: Timestamp,
    /// What happened then.
    pub(crate) what: String,
}

/// Every moment on the record, in order.
pub(crate) fn moments(run: &PlannedFailover) -> Vec<Moment> {
    let mut moments = Vec::new();
    let mut add = |at: Option<Timestamp>, what: String| moments.extend(at.map(|at| Moment { at, what }));
    let source = run.source_site.as_ref().map_or("the source", |site| site.as_str());
    let target = &run.target_site;

    add(Some(run.start_time), format!("asked to promote {target}"));
    add(run.admission.validation_time, "request validated".to_owned());
    add(run.claim_time, "claim taken".to_owned());
    if let Some(fence) = &run.fence {
        add(Some(fence.intent_time), format!("about to fence {source}"));
        add(fence.apply_time, format!("{source} is read-only"));
    }
    if let Some(drain) = &run.drain {
        add(
            Some(drain.start_time),
            format!("ending application sessions on {source}"),
        );
        let left = drain
            .remaining_connections
            .map_or_else(|| "an unknown number".to_owned(), |count| count.to_string());
        add(drain.completion_time, format!("sessions ended, {left} left"));
    }
    if let Some(wait) = &run.lag_wait {
        add(
            Some(wait.start_time),
            format!("waiting until {target} holds every write"),
        );
        add(wait.catch_up_time, format!("{target} holds every write"));
    }
    if let Some(cache) = &run.dragonfly {
        add(cache.sync_wait_start_time, "waiting for the cache".to_owned());
        if let Some(takeover) = &cache.takeover {
            add(
                Some(takeover.intent_time),
                format!("about to promote the cache on {target}"),
            );
            add(
                takeover.completion_time,
                format!("cache takeover {}", takeover.state.as_str().to_lowercase()),
            );
        }
    }
    if let Some(promotion) = &run.promotion {
        add(Some(promotion.intent_time), format!("about to promote {target}"));
        add(promotion.confirmation_time, format!("{target} accepts writes"));
    }
    if let Some(dns) = &run.dns {
        let what = if dns.state == StepState::Failed {
            "DNS was not updated"
        } else {
            "DNS and labels published"
        };
        add(Some(dns.attempt_time), what.to_owned());
    }
    if let Some(rollback) = &run.rollback {
        add(Some(rollback.intent_time), format!("rolling back: {}", rollback.reason));
    }
    if let Some(result) = &run.result {
        let reason = result.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        add(
            Some(result.completion_time),
            format!("ended {}{reason}", result.outcome),
        );
    }
    // The sort is stable: moments of one second stay in the order of the phases.
    moments.sort_by_key(|moment| moment.at);
    moments
}

/// The moments as indented lines: the time of day, the time since the request, what happened.
pub(crate) fn timeline(run: &PlannedFailover) -> String {
    let rows: Vec<Vec<String>> = moments(run)
        .into_iter()
        .map(|moment| {
            let clock = moment.at.inner().strftime("%H:%M:%SZ").to_string();
            vec![
                format!("    {clock}"),
                format!("+{}", length(run.start_time, moment.at)),
                moment.what,
            ]
        })
        .collect();
    super::columns::columns(&rows)
}
