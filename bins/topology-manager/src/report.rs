//! What the probes are to the metrics.

use std::time::Duration;

use bloodraven_types::group::SiteStatus;
use bloodraven_types::{GroupKey, SiteName, SiteRole, SiteState};

const POLL_LATENCY: &str = "bloodraven_poll_latency_seconds";
const TRANSITIONS: &str = "bloodraven_state_transitions_total";
const SITE_STATE: &str = "bloodraven_site_state";
const LAG: &str = "bloodraven_replication_lag_seconds";
const WRITABLE_SITES: &str = "bloodraven_writable_sites";

pub(crate) fn describe() {
    metrics::describe_histogram!(POLL_LATENCY, "Seconds that one look at a site took, answered or not.");
    metrics::describe_counter!(TRANSITIONS, "Changes of a site's state.");
    metrics::describe_gauge!(SITE_STATE, "1 for the state a site is in, 0 for the others.");
    metrics::describe_gauge!(
        LAG,
        "A replica's own estimate of its lag in seconds; -1 when it has none."
    );
    metrics::describe_gauge!(
        WRITABLE_SITES,
        "How many sites of a group are writable; anything but 1 wants a look."
    );
}

pub(crate) fn polled(group: &GroupKey, site: &SiteName, took: Duration) {
    let labels = [
        ("namespace", group.namespace.clone()),
        ("group", group.name.clone()),
        ("site", site.to_string()),
    ];
    metrics::histogram!(POLL_LATENCY, &labels).record(took.as_secs_f64());
}

pub(crate) fn transition(group: &GroupKey, site: &SiteName, from: SiteState, to: SiteState) {
    let labels = [
        ("namespace", group.namespace.clone()),
        ("group", group.name.clone()),
        ("site", site.to_string()),
        ("from", from.to_string()),
        ("to", to.to_string()),
    ];
    metrics::counter!(TRANSITIONS, &labels).increment(1);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a lag of 2^53 seconds is not to be told from its neighbours"
)]
pub(crate) fn site(group: &GroupKey, role: SiteRole, status: &SiteStatus) {
    let labels = |extra: Option<SiteState>| {
        let mut labels = vec![
            ("namespace", group.namespace.clone()),
            ("group", group.name.clone()),
            ("site", status.name.clone()),
            ("role", role.to_string()),
        ];
        labels.extend(extra.map(|state| ("state", state.to_string())));
        labels
    };
    for state in [
        SiteState::Unknown,
        SiteState::Writable,
        SiteState::ReadOnly,
        SiteState::Unreachable,
    ] {
        let value = if state == status.state { 1.0 } else { 0.0 };
        metrics::gauge!(SITE_STATE, &labels(Some(state))).set(value);
    }
    let lag = status.seconds_behind_source.map_or(-1.0, |seconds| seconds as f64);
    metrics::gauge!(LAG, &labels(None)).set(lag);
}

#[expect(clippy::cast_precision_loss, reason = "a group has at most 16 sites")]
pub(crate) fn writable(group: &GroupKey, sites: usize) {
    let labels = [("namespace", group.namespace.clone()), ("group", group.name.clone())];
    metrics::gauge!(WRITABLE_SITES, &labels).set(sites as f64);
}
