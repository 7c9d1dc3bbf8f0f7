//! The list of groups.

use bloodraven_types::words::SiteState;
use bloodraven_types::{Group, Timestamp};

use super::columns::table;
use super::words::{NOTHING, age, ago, or_nothing};
use super::{Columns, Seen, held};
use crate::ending::Ending;

/// `NAME ACTIVE PHASE OUTCOME SITES AGE`, one line a group. SITES is how many answer, of how many.
pub(crate) fn list(groups: &[Seen], columns: Columns, now: Timestamp) -> String {
    let mut heading = vec!["NAME", "ACTIVE", "PHASE", "OUTCOME", "SITES", "AGE"];
    if columns.namespace {
        heading.insert(0, "NAMESPACE");
    }
    if columns.wide {
        heading.extend(["TARGET", "LAST-FAILOVER", "DNS"]);
    }
    table(&heading, groups.iter().map(|seen| row(seen, columns, now)))
}

fn row(seen: &Seen, columns: Columns, now: Timestamp) -> Vec<String> {
    let group = &seen.group;
    let mut cells = Vec::new();
    if columns.namespace {
        cells.push(group.key.namespace.clone());
    }
    let outcome = Ending::of(group).map_or_else(|| NOTHING.to_owned(), |ending| ending.to_string());
    cells.extend([
        group.key.name.clone(),
        or_nothing(group.status.active_site.as_ref()),
        format!("{}{}", phase(group), held(group)),
        outcome,
        format!("{}/{}", answering(group), group.spec.sites.len()),
        or_nothing(seen.created.map(|created| age(created, now))),
    ]);
    if columns.wide {
        let last = group.status.last_failover.as_ref();
        cells.extend([
            or_nothing(group.run().map(|run| &run.target_site)),
            or_nothing(last.map(|record| ago(record.time, now))),
            or_nothing(group.spec.dns.as_ref().map(|dns| &dns.hostname)),
        ]);
    }
    cells
}

/// The phase of the latest run; a block that something older wrote is called what it is.
fn phase(group: &Group) -> String {
    match (group.run(), &group.status.legacy_run) {
        (Some(run), _) => run.phase.to_string(),
        (None, Some(_)) => "unreadable".to_owned(),
        (None, None) => NOTHING.to_owned(),
    }
}

fn answering(group: &Group) -> usize {
    let answers = |state: SiteState| match state {
        SiteState::Writable | SiteState::ReadOnly => true,
        SiteState::Unknown | SiteState::Unreachable => false,
    };
    let in_spec = |name: &str| group.spec.sites.iter().any(|site| site.name.as_str() == name);
    group
        .status
        .sites
        .iter()
        .filter(|site| in_spec(&site.name) && answers(site.state))
        .count()
}
