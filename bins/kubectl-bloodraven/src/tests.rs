//! What is asked for, what is followed, and which exit code comes of it.

use bloodraven_types::words::{Outcome, Warning};
use bloodraven_types::{Group, RunId};
use serde_json::json;

use crate::ending::Ending;
use crate::fixture::{Fixture, RUN};
use crate::follow::{Follower, Step};
use crate::hold::held_run;
use crate::request::{Before, Decision, compose, judge};

fn decide(fixture: &Fixture, target: &str) -> Decision {
    judge(&fixture.group(), &compose(target, None, None).unwrap())
}

fn run_id() -> RunId {
    RUN.parse().unwrap()
}

fn follower(group: &Group, before: Option<RunId>, deferred: bool) -> Follower {
    Follower::new(
        group.uid.clone(),
        "pdx".into(),
        "pdx".to_owned(),
        Before {
            run_id: before,
            deferred,
        },
    )
}

/// The value that is written follows the annotation's grammar, and nothing else can be smuggled in. spec: PF-CLI-02
#[test]
fn the_value_follows_the_grammar() {
    let request = compose("pdx", Some("30s"), Some("iad")).unwrap();
    assert_eq!(request.to_string(), "pdx:maxLagWait=30s:expect=iad");
    for (site, wait) in [
        ("pdx", "2h"),
        ("pdx", "soon"),
        ("pdx:expect=iad", "5s"),
        ("", "5s"),
        ("p dx", "5s"),
    ] {
        assert!(compose(site, Some(wait), None).is_err(), "{site:?} {wait:?}");
    }
}

/// A name that is not in the spec, or that may not be promoted, is refused before anything is written. spec: PF-CLI-02
#[test]
fn names_are_checked_first() {
    let Decision::Unusable(problem) = decide(&Fixture::idle(), "lhr") else {
        panic!("lhr was taken")
    };
    assert!(problem.contains("iad, pdx, ord"), "{problem}");
    let Decision::Unusable(problem) = decide(&Fixture::idle(), "ord") else {
        panic!("ord was taken")
    };
    assert!(problem.contains("DisasterRecovery"), "{problem}");
}

/// Another request, a live run and a hold keep a request from being written; an ended run does not.
#[test]
fn a_busy_group_is_not_asked() {
    let busy = [
        Fixture::idle().request("pdx:maxLagWait=5s"),
        Fixture::admitting("Admitting"),
        Fixture::running("Promoting"),
        Fixture::running("Failed").held(),
    ];
    for fixture in busy {
        assert!(matches!(decide(&fixture, "pdx"), Decision::NotNow(_)), "{fixture:?}");
    }
    let free = Fixture::running("Promoting").marker("SourceLeftFenced", "StatusStalled");
    assert!(matches!(decide(&free, "pdx"), Decision::Ask { .. }));
    let deferred = decide(&Fixture::admitting("Deferred"), "pdx");
    let before = Before {
        run_id: Some(run_id()),
        deferred: true,
    };
    assert_eq!(
        deferred,
        Decision::Ask {
            value: "pdx".to_owned(),
            before
        }
    );
}

/// The active site is not asked for, unless the failover record says that the observation is old.
#[test]
fn an_active_target_is_nothing_to_ask_for() {
    assert_eq!(decide(&Fixture::idle(), "iad"), Decision::AlreadyActive);
    let moved = json!({ "time": "2026-04-20T14:39:59Z", "target": "pdx" });
    assert!(matches!(
        decide(&Fixture::idle().status("lastFailover", moved), "iad"),
        Decision::Ask { .. }
    ));
}

/// A run is followed from the request through its phases to its end, each step said once. spec: PF-CLI-02
#[test]
fn a_run_is_followed_to_its_end() {
    let idle = Fixture::idle().request("pdx");
    let mut follower = follower(&idle.group(), None, false);
    let requested = Step::Progress("phase: (requested) — waits to be admitted".to_owned());
    assert_eq!(follower.see(&idle.group()), requested);
    assert_eq!(follower.see(&idle.group()), Step::Quiet);
    let waits = json!({ "admission": { "waitReason": "AuthorityUnsettled" }, "message": "asked" });
    let waiting = Fixture::admitting("Admitting").run(waits).group();
    assert_eq!(
        follower.see(&waiting),
        Step::Progress("phase: Admitting — waits for AuthorityUnsettled; asked".to_owned())
    );
    assert_eq!(follower.see(&waiting), Step::Quiet);
    assert_eq!(follower.run_id(), Some(run_id()));
    let running = Fixture::running("WaitingForLag").group();
    assert_eq!(
        follower.see(&running),
        Step::Progress("phase: WaitingForLag".to_owned())
    );
    let Step::Ended(ending) = follower.see(&Fixture::succeeded().group()) else {
        panic!("the run has not ended")
    };
    assert_eq!((ending.outcome, ending.exit_code()), (Outcome::Succeeded, 0));
    assert_eq!(ending.warnings, [Warning::UnreachablePeers]);
}

/// The run before the request is never taken for the one that was asked for. spec: PF-CLI-02
#[test]
fn an_older_run_is_not_followed() {
    let mut follower = follower(&Fixture::idle().group(), Some(run_id()), false);
    let older = Fixture::succeeded().request("pdx").group();
    assert!(matches!(follower.see(&older), Step::Progress(_)));
    assert_eq!(follower.see(&Fixture::succeeded().group()), Step::Withdrawn);
}

/// A request that is taken away without a run was refused, a recreated group or a replaced run ends the following.
#[test]
fn what_cannot_be_followed_is_said() {
    let idle = Fixture::idle().group();
    assert_eq!(follower(&idle, None, false).see(&idle), Step::Withdrawn);
    let mut recreated = idle.clone();
    recreated.uid = "another".into();
    assert!(matches!(follower(&idle, None, false).see(&recreated), Step::Lost(_)));
    let mut follower = follower(&idle, None, false);
    follower.see(&Fixture::running("Fencing").group());
    assert!(matches!(follower.see(&idle), Step::Lost(_)));
}

/// A deferred run says when it is tried again, and one that takes a new target in is followed as one's own. spec: PF-REQ-07
#[test]
fn a_deferred_run_is_followed() {
    let deferred = json!({ "admission": { "deferReason": "CooldownActive", "retryTime": "2026-04-20T14:41:30Z" }});
    let group = Fixture::admitting("Deferred").run(deferred).group();
    let mut follower = follower(&group, Some(run_id()), true);
    let Step::Deferred {
        line: Some(line),
        retry: Some(_),
    } = follower.see(&group)
    else {
        panic!("it is not deferred")
    };
    assert!(
        line.contains("CooldownActive, tried again at 2026-04-20T14:41:30Z"),
        "{line}"
    );
    assert!(matches!(follower.see(&group), Step::Deferred { line: None, .. }));
}

/// A terminal marker that names the run ends it for the one who waits, whatever the phase says. spec: PF-CLI-02
#[test]
fn a_marker_ends_the_wait() {
    let marked = Fixture::running("Promoting")
        .marker("SourceLeftFenced", "StatusStalled")
        .group();
    let Step::Ended(ending) = follower(&marked, None, false).see(&marked) else {
        panic!("the run has not ended")
    };
    assert!(ending.by_marker);
    assert_eq!(
        (ending.to_string().as_str(), ending.exit_code()),
        ("SourceLeftFenced:StatusStalled", 3)
    );
}

/// A marker of another run, version or form proves nothing.
#[test]
fn a_foreign_marker_proves_nothing() {
    let of_another = Fixture::running("Promoting").marker("Succeeded", "StatusStalled");
    let of_another = of_another.run(json!({ "runID": "00000000-0000-7000-8000-000000000001" }));
    assert_eq!(Ending::of(&of_another.group()), None);
    for payload in [
        "{}",
        "done",
        &format!(r#"{{"schemaVersion":2,"runID":"{RUN}","outcome":"Succeeded"}}"#),
    ] {
        let mut group = Fixture::running("Promoting").group();
        group
            .annotations
            .insert(bloodraven_types::annotation::TERMINAL.to_owned(), payload.to_owned());
        assert_eq!(Ending::of(&group), None, "{payload}");
    }
}

/// Each outcome has an exit code of its own. spec: PF-CLI-02
#[test]
fn exit_codes_follow_the_outcome() {
    let codes: Vec<u8> = Outcome::ALL
        .iter()
        .map(|&outcome| {
            Ending {
                outcome,
                reason: None,
                warnings: Vec::new(),
                by_marker: false,
            }
            .exit_code()
        })
        .collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 5]);
}

/// The hold that is acknowledged is the one that stands, on the status or on a marker alone. spec: PF-CLI-03
#[test]
fn the_hold_that_stands_is_acknowledged() {
    assert_eq!(held_run(&Fixture::idle().group()), None);
    assert_eq!(held_run(&Fixture::running("Failed").held().group()), Some(run_id()));
    let by_marker = Fixture::running("Promoting").marker("ManualRecoveryRequired", "ForeignWritable");
    assert_eq!(held_run(&by_marker.group()), Some(run_id()));
    let other = Fixture::running("Promoting").marker("SourceLeftFenced", "StatusStalled");
    assert_eq!(held_run(&other.group()), None);
}
