//! Whether a planned failover may be asked for, judged from one read of the group before anything is written.

use bloodraven_types::annotation::{PLANNED_FAILOVER, PlannedFailoverRequest};
use bloodraven_types::words::{Phase, SiteRole};
use bloodraven_types::{Group, RunId, SiteName};

use crate::ending::Ending;

/// What to do with the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Write this value; the run to come is another one than `before`, or the deferred one with a new target.
    Ask {
        /// The annotation's value.
        value: String,
        /// The latest run before the request.
        before: Before,
    },
    /// The target is the active site: there is nothing to ask for.
    AlreadyActive,
    /// The request makes no sense for this group; nothing can cure it.
    Unusable(String),
    /// The group does not take a request now.
    NotNow(String),
}

/// The latest run before a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    /// Its id.
    pub(crate) run_id: Option<RunId>,
    /// Whether it waits and takes the new request as its own (PF-REQ-07).
    pub(crate) deferred: bool,
}

/// Judges a request. The same is judged again at admission: this only spares the user a detour.
pub(crate) fn judge(group: &Group, request: &PlannedFailoverRequest) -> Decision {
    let Some(site) = group.site(&request.target) else {
        let known: Vec<&str> = group.spec.sites.iter().map(|site| site.name.as_str()).collect();
        return Decision::Unusable(format!(
            "{} has no site {:?}; it has {}",
            group.key,
            request.target.as_str(),
            known.join(", ")
        ));
    };
    if site.role != SiteRole::PrimaryCandidate {
        return Decision::Unusable(format!("{} is a {} site and is never promoted", site.name, site.role));
    }
    if let Some(hold) = &group.status.planned_failover_hold {
        let hint = format!("kubectl bloodraven ack-planned-failover-hold {}", group.key.name);
        return Decision::NotNow(format!(
            "automation is held since run {} ended {}; resolve it, then: {hint}",
            hold.run_id, hold.reason
        ));
    }
    if let Some(pending) = group.annotation(PLANNED_FAILOVER) {
        return Decision::NotNow(format!("another request is pending: {pending:?}"));
    }
    let run = group.run().filter(|_| Ending::of(group).is_none());
    if let Some(run) = run.filter(|run| run.phase != Phase::Deferred) {
        return Decision::NotNow(format!(
            "run {} to {} is under way (phase {})",
            run.run_id, run.target_site, run.phase
        ));
    }
    // The observed active site lags a failover by a poll; where the failover record disagrees, admission looks live.
    let last = group.status.last_failover.as_ref();
    let recorded = last.is_none_or(|last| last.target == request.target);
    if group.status.active_site.as_ref() == Some(&request.target) && recorded {
        return Decision::AlreadyActive;
    }
    let before = Before {
        run_id: group.run().map(|run| run.run_id),
        deferred: run.is_some(),
    };
    Decision::Ask {
        value: request.to_string(),
        before,
    }
}

/// The request that the arguments make, read back through the annotation's grammar so that nothing else is ever written.
pub(crate) fn compose(
    target: &str,
    max_lag_wait: Option<&str>,
    expect: Option<&str>,
) -> Result<PlannedFailoverRequest, String> {
    let mut value = target.to_owned();
    for (key, argument) in [("maxLagWait", max_lag_wait), ("expect", expect)] {
        if let Some(argument) = argument {
            value.push_str(&format!(":{key}={argument}"));
        }
    }
    let request = PlannedFailoverRequest::parse(&value).map_err(|error| error.to_string())?;
    if request.target != SiteName::new(target) {
        return Err(format!("{target:?} is no site name"));
    }
    Ok(request)
}
