//! One group in detail: where the primary is, every site, the latest run.

use bloodraven_types::group::{SiteSpec, SiteStatus};
use bloodraven_types::record::PlannedFailover;
use bloodraven_types::{Group, Timestamp};

use super::columns::{fields, table};
use super::timeline::timeline;
use super::words::{NOTHING, ago, length, list, or_nothing};
use super::{Columns, Seen, held};
use crate::ending::Ending;

/// The whole text of `status <group>`.
pub(crate) fn detail(seen: &Seen, columns: Columns, now: Timestamp) -> String {
    let group = &seen.group;
    let mut text = header(group, now);
    text.push('\n');
    text.push_str(&sites(group, columns, now));
    if let Some(run) = group.run() {
        text.push('\n');
        text.push_str(&run_block(group, run, now));
    }
    if group.status.legacy_run.is_some() {
        text.push_str("\nPlanned failover: the stored block was written by something else and cannot be read\n");
    }
    if let Some(hold) = &group.status.planned_failover_hold {
        text.push_str("\nAutomation is held\n");
        text.push_str(&fields(
            2,
            [
                ("Run", hold.run_id.to_string()),
                ("Reason", hold.reason.to_string()),
                ("Since", format!("{} ({})", hold.hold_time, ago(hold.hold_time, now))),
                ("Sites to look at", list(&hold.ambiguous_sites)),
                (
                    "To end it",
                    format!("kubectl bloodraven ack-planned-failover-hold {}", group.key.name),
                ),
            ],
        ));
    }
    text.push_str(&conditions(group, now));
    text
}

fn header(group: &Group, now: Timestamp) -> String {
    let last = group.status.last_failover.as_ref();
    let last = last.map(|record| format!("to {} at {} ({})", record.target, record.time, ago(record.time, now)));
    let mark = held(group);
    let name = if mark.is_empty() {
        group.key.to_string()
    } else {
        format!("{} {mark}", group.key)
    };
    fields(
        0,
        [
            ("Group", name),
            ("Active site", or_nothing(group.status.active_site.as_ref())),
            ("Last failover", or_nothing(last)),
            ("DNS", dns(group)),
        ],
    )
}

fn dns(group: &Group) -> String {
    let Some(dns) = &group.spec.dns else {
        return NOTHING.to_owned();
    };
    let active = group.status.active_site.as_ref().and_then(|name| group.site(name));
    let address = or_nothing(active.and_then(|site| site.lb_ip.as_ref()));
    format!("{} ─► {address} (ttl {}s)", dns.hostname, dns.ttl)
}

fn sites(group: &Group, columns: Columns, now: Timestamp) -> String {
    let mut heading = vec!["NAME", "ROLE", "STATE", "REPL", "LAG", "SOURCE", "LAST-SEEN"];
    if columns.wide {
        heading.extend(["CONVERGENCE", "DIVERGENT", "SERVER-UUID", "GTID-EXECUTED", "MESSAGE"]);
    }
    table(
        &heading,
        group.spec.sites.iter().map(|site| site_row(group, site, columns, now)),
    )
}

fn site_row(group: &Group, site: &SiteSpec, columns: Columns, now: Timestamp) -> Vec<String> {
    let unknown = SiteStatus::default();
    let found = group
        .status
        .sites
        .iter()
        .find(|status| status.name == site.name.as_str());
    let status = found.unwrap_or(&unknown);
    let replicates = status.replicating || status.source_host.is_some();
    let running = if status.replicating { "yes" } else { "no" };
    let mut cells = vec![
        site.name.to_string(),
        site.role.to_string(),
        status.state.to_string(),
        if replicates {
            running.to_owned()
        } else {
            NOTHING.to_owned()
        },
        or_nothing(status.seconds_behind_source.map(|seconds| format!("{seconds}s"))),
        or_nothing(status.source_host.as_ref()),
        or_nothing(status.last_seen.map(|seen| ago(seen, now))),
    ];
    if columns.wide {
        let convergence = match (status.source_convergence_state, status.source_convergence_reason) {
            (Some(state), Some(reason)) => format!("{state}:{reason}"),
            (Some(state), None) => state.to_string(),
            (None, _) => NOTHING.to_owned(),
        };
        cells.extend([
            convergence,
            or_nothing(status.divergent_transaction_count),
            or_nothing(status.server_uuid),
            or_nothing(status.gtid_executed.as_ref().map(|set| set.replace(['\n', ' '], ""))),
            or_nothing(status.message.as_ref()),
        ]);
    }
    cells
}

fn run_block(group: &Group, run: &PlannedFailover, now: Timestamp) -> String {
    let source = or_nothing(run.source_site.as_ref());
    let mut rows = vec![
        ("Run", format!("{} (revision {})", run.run_id, run.revision)),
        ("From, to", format!("{source} ─► {}", run.target_site)),
        ("Phase", run.phase.to_string()),
    ];
    rows.extend(waiting(run, now));
    let ending = Ending::of(group);
    if let Some(ending) = ending.as_ref().filter(|ending| !ending.by_marker) {
        rows.push(("Outcome", ending.to_string()));
    }
    match &run.result {
        Some(result) => rows.push(("Duration", length(run.start_time, result.completion_time))),
        None if ending.is_none() => rows.push(("Running for", length(run.start_time, now.whole_seconds()))),
        None => {}
    }
    if let Some(ending) = ending.as_ref().filter(|ending| !ending.warnings.is_empty()) {
        rows.push(("Warnings", list(&ending.warnings)));
    }
    if let Some(error) = run.dns.as_ref().and_then(|dns| dns.last_error.as_ref()) {
        rows.push(("DNS error", error.clone()));
    }
    if !run.message.is_empty() {
        rows.push(("Message", run.message.clone()));
    }
    let mut text = format!("Planned failover\n{}", fields(2, rows));
    if let Some(ending) = ending.filter(|ending| ending.by_marker) {
        text.push_str(&format!("  Ended by terminal marker: {ending}\n"));
    }
    text.push_str("  Timeline:\n");
    text.push_str(&timeline(run));
    text
}

/// Why a run has not begun yet.
fn waiting(run: &PlannedFailover, now: Timestamp) -> Vec<(&'static str, String)> {
    let admission = &run.admission;
    let mut rows = Vec::new();
    if run.claim_time.is_some() || run.phase.is_terminal() {
        return rows;
    }
    if let Some(reason) = admission.wait_reason {
        let detail = admission
            .wait_detail
            .as_ref()
            .map(|detail| format!(" ({detail})"))
            .unwrap_or_default();
        rows.push(("Waits for", format!("{reason}{detail}")));
    }
    if let Some(reason) = admission.defer_reason {
        let retry = admission
            .retry_time
            .map(|time| format!(", tried again in {}", length(now.whole_seconds(), time)));
        rows.push(("Deferred", format!("{reason}{}", retry.unwrap_or_default())));
    }
    rows
}

fn conditions(group: &Group, now: Timestamp) -> String {
    if group.status.conditions.is_empty() {
        return String::new();
    }
    let rows = group.status.conditions.iter().map(|condition| {
        vec![
            condition.kind.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            ago(condition.last_transition_time, now),
            condition.message.clone(),
        ]
    });
    format!(
        "\n{}",
        table(&["CONDITION", "STATUS", "REASON", "CHANGED", "MESSAGE"], rows)
    )
}
