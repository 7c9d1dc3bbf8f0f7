//! What is printed for fixed groups, held against golden files.

use serde_json::json;

use super::{Columns, detail, list};
use crate::fixture::{Fixture, now};

const NARROW: Columns = Columns {
    wide: false,
    namespace: false,
};
const WIDE: Columns = Columns {
    wide: true,
    namespace: false,
};

fn shown(fixture: &Fixture, columns: Columns) -> String {
    detail(&fixture.seen(), columns, now())
}

/// A group without a run shows where the primary is, and every site with its age. spec: PF-CLI-01
#[test]
fn a_group_without_a_run() {
    insta::assert_snapshot!(shown(&Fixture::idle(), NARROW));
}

/// The wide table adds identities, convergence and what went wrong.
#[test]
fn a_group_in_wide_columns() {
    insta::assert_snapshot!(shown(&Fixture::idle(), WIDE));
}

/// An ended run shows its outcome, its duration from start to completion, its warnings and each moment. spec: PF-CLI-01
#[test]
fn a_run_that_succeeded() {
    insta::assert_snapshot!(shown(&Fixture::succeeded(), NARROW));
}

/// A run that waits for its claim says for what. spec: PF-CLI-01
#[test]
fn a_run_that_waits() {
    let waits = json!({ "admission": {
        "deadlineTime": "2026-04-20T14:42:00Z", "waitReason": "TargetNotReady", "waitDetail": "pdx follows ord",
    }});
    insta::assert_snapshot!(shown(&Fixture::admitting("Admitting").run(waits), NARROW));
}

/// A deferred run says why and until when. spec: PF-CLI-01
#[test]
fn a_run_that_is_deferred() {
    let deferred = json!({ "admission": { "deferReason": "CooldownActive", "retryTime": "2026-04-20T14:41:30Z" }});
    insta::assert_snapshot!(shown(&Fixture::admitting("Deferred").run(deferred), NARROW));
}

/// A rollback shows its reason and the target's warning. spec: PF-CLI-01
#[test]
fn a_run_that_rolled_back() {
    let rolled_back = json!({
        "rollback": { "reason": "LagTimeout", "intentTime": "2026-04-20T14:37:03Z" },
        "result": {
            "outcome": "RolledBack", "reason": "LagTimeout", "completionTime": "2026-04-20T14:37:05Z",
            "warnings": ["TargetReplicationNotRestored"],
        },
        "message": "pdx did not apply the fenced set within 5m0s",
    });
    insta::assert_snapshot!(shown(&Fixture::running("Failed").run(rolled_back), NARROW));
}

/// A terminal marker that names the run ends it on the screen whatever the phase says. spec: PF-CLI-01
#[test]
fn a_run_that_a_marker_ended() {
    insta::assert_snapshot!(shown(
        &Fixture::running("WaitingForLag").marker("SourceLeftFenced", "StatusStalled"),
        NARROW
    ));
}

/// A hold is marked, explained, and says how it is ended. spec: PF-CLI-01
#[test]
fn a_group_that_is_held() {
    insta::assert_snapshot!(shown(&Fixture::running("Failed").held(), NARROW));
}

/// A list has a line for each group, with held ones marked and marker outcomes shown. spec: PF-CLI-01
#[test]
fn a_list_of_groups() {
    let groups = [
        Fixture::idle().seen(),
        Fixture::succeeded().named("default", "billing").seen(),
        Fixture::running("Failed").held().named("default", "carts").seen(),
        Fixture::running("Promoting")
            .marker("PromotedUnconfirmed", "StatusStalled")
            .named("shop", "stock")
            .seen(),
        Fixture::idle()
            .status("plannedFailover", json!({ "phase": "Resuming" }))
            .named("shop", "old")
            .seen(),
    ];
    insta::assert_snapshot!("list", list(&groups, NARROW, now()));
    insta::assert_snapshot!(
        "list_wide",
        list(
            &groups,
            Columns {
                wide: true,
                namespace: true
            },
            now()
        )
    );
}
