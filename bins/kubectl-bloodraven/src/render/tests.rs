//! What is printed for fixed groups, held against golden files.

use std::time::Duration;

use bloodraven_messages::latest::Message;
use bloodraven_types::fact::{Fact, Fenced, Requested};
use bloodraven_types::run::RunRef;
use bloodraven_types::{Revision, Timestamp};
use serde_json::json;

use super::{Columns, detail, list, runs, story};
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

/// The bus tells a run as a story, a line for each message, and the runs as a list.
#[test]
fn the_story_of_a_run() {
    let about = |revision: u64| RunRef {
        revision: Revision::new(revision),
        ..RunRef::of(&Fixture::succeeded().group()).unwrap()
    };
    let at = |millis: u64| Timestamp::new("2026-04-20T14:32:00Z".parse().unwrap()).after(Duration::from_millis(millis));
    let requested = Fact::Requested(Requested {
        value: "pdx".to_owned(),
    });
    let fenced = Fact::Fenced(Fenced {
        source_server_uuid: "3e11fa47-71ca-11e1-9e33-c80aa9429562".parse().unwrap(),
        gtid_set: "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9182731:9182733-9182740".to_owned(),
        apply_time: at(612),
        unreachable_peers: Vec::new(),
    });
    let messages = [
        Message::fact("admission", at(0), about(0), 1, requested),
        Message::record("status-writer", at(17), &Fixture::admitting("Admitting").group(), 1).unwrap(),
        Message::fact("fencer", at(615), about(3), 1, fenced),
        Message::record("status-writer", at(960), &Fixture::succeeded().group(), 1).unwrap(),
    ];
    insta::assert_snapshot!("story", story(&messages));
    insta::assert_snapshot!("runs", runs(&messages));
    insta::assert_snapshot!("no_story", story(&[]));
}
