//! What the report says about histories whose truth is known.

mod support;

use bloodraven_ledger::{ServerUuid, SurvivingRow, SurvivingTable, UnconfirmedKind, judge};
use support::{Story, at};

/// A planned move: iad serves until 100 ms, pdx from 120 ms.
fn clean_move() -> Story {
    let mut story = Story::lasting(200);
    story.serve("iad", 0, (0, 100));
    story.serve("iad", 1, (5, 100));
    story.serve("pdx", 2, (120, 200));
    story.serve("pdx", 3, (125, 200));
    story
}

/// A clean hand-over is clean: every promise intact, no overlap, and the outage is from the last acknowledgement of the
/// old primary to the first of the new one (spec: SB-03, X-PERF-01).
#[test]
fn a_clean_hand_over_is_clean() {
    let report = clean_move().judge();
    assert!(report.is_clean(), "{report}");
    assert_eq!(
        (report.acknowledged, report.intact, report.gone, report.stolen),
        (36, 36, 0, 0)
    );
    assert_eq!(report.overlap_ms, 0.0);
    assert_eq!(
        report.write_outage_ms, 25.0,
        "the last ack of iad is at 96 ms, the first of pdx at 121 ms"
    );
    let outage = report.outage_between(at(90), at(130)).unwrap();
    assert_eq!((outage.from, outage.to, outage.ended), (at(96), at(121), true));
    assert_eq!(
        (&outage.before, &outage.after),
        (&Some("iad".into()), &Some("pdx".into()))
    );
    let servers: Vec<_> = report
        .per_server
        .iter()
        .map(|server| (server.name.as_str(), server.writes))
        .collect();
    assert_eq!(servers, [("mysql-iad:3306", 20), ("mysql-pdx:3306", 16)]);
    let iad = &report.per_server[0];
    assert_eq!(
        (iad.first_ack, iad.last_ack, iad.min_id, iad.max_id),
        (at(1), at(96), 1, 20)
    );
}

/// A server that serves, hands over, and is handed back to is two hand-overs and no overlap; each outage is found in its
/// own window (spec: SB-03, X-PERF-01).
#[test]
fn there_and_back_is_no_overlap() {
    let mut story = Story::lasting(400);
    story.serve("iad", 0, (0, 100));
    story.serve("iad", 1, (5, 100));
    story.serve("pdx", 2, (120, 200));
    story.serve("pdx", 3, (125, 200));
    story.serve("iad", 4, (240, 400));
    story.serve("iad", 5, (245, 400));
    let report = story.judge();
    assert!(report.is_clean(), "{report}");
    let periods: Vec<_> = report
        .periods
        .iter()
        .map(|period| (period.server.as_str(), period.writes))
        .collect();
    assert_eq!(periods, [("iad", 20), ("pdx", 16), ("iad", 32)]);
    assert_eq!(report.outage_between(at(95), at(121)).unwrap().ms, 25.0);
    assert_eq!(report.outage_between(at(195), at(241)).unwrap().ms, 45.0);
    assert_eq!(report.write_outage_ms, 45.0);
}

/// The published experiment in small: the old primary goes on over a session it holds while a restarted client writes to
/// the new one. The overlap lasts from the new primary's first acknowledgement to the old one's last write
/// (spec: SB-03).
#[test]
fn a_held_session_beside_the_new_primary_is_an_overlap() {
    let mut story = Story::lasting(300);
    story.serve("iad", 0, (0, 200));
    story.serve("iad", 1, (5, 50));
    story.serve("pdx", 2, (100, 300));
    let report = story.judge();
    assert!(!report.is_clean());
    assert_eq!(report.overlaps.len(), 1);
    assert_eq!((report.overlaps[0].start, report.overlaps[0].end), (at(101), at(190)));
    assert_eq!(report.overlap_ms, 89.0);
    let servers: Vec<&str> = report.overlaps[0].servers.iter().map(ServerUuid::as_str).collect();
    assert_eq!(servers, ["iad", "pdx"]);
}

/// A single write to another server between two writes of one session is an overlap already (spec: SB-03).
#[test]
fn one_foreign_write_within_a_session_is_an_overlap() {
    let mut story = Story::lasting(100);
    story.serve("iad", 0, (0, 100));
    story.keep("pdx", 1, 1_000, (52, 53));
    let report = story.judge();
    assert!(!report.is_clean());
    assert_eq!((report.overlaps[0].start, report.overlaps[0].end), (at(52), at(53)));
    assert_eq!(report.overlap_ms, 1.0);
}

/// An acknowledgement of the old primary that arrives after the new one's first proves nothing: it was sent before
/// (spec: SB-03).
#[test]
fn a_late_acknowledgement_is_no_overlap() {
    let mut story = Story::lasting(300);
    story.serve("iad", 0, (0, 90));
    story.keep("iad", 0, 500, (90, 180));
    story.serve("pdx", 1, (120, 300));
    let report = story.judge();
    assert!(report.is_clean(), "{report}");
}

/// A write that is in flight through a whole move there and back leaves its session alive, and is no overlap
/// (spec: SB-03).
#[test]
fn a_write_in_flight_through_there_and_back_is_no_overlap() {
    let mut story = Story::lasting(300);
    story.serve("iad", 0, (0, 50));
    story.keep("iad", 0, 500, (50, 200));
    story.serve("pdx", 1, (100, 150));
    story.keep("iad", 0, 501, (210, 211));
    let report = story.judge();
    assert!(report.is_clean(), "{report}");
}

/// Writes that each take longer than a tick do not blind the judge to an overlap (spec: SB-03).
#[test]
fn slow_writes_still_show_an_overlap() {
    let mut story = Story::lasting(4_000);
    for round in 0..10 {
        story.keep(
            "iad",
            0,
            100 + u64::try_from(round).unwrap(),
            (round * 300, round * 300 + 250),
        );
        story.keep(
            "pdx",
            1,
            200 + u64::try_from(round).unwrap(),
            (1_000 + round * 300, 1_000 + round * 300 + 250),
        );
    }
    let report = story.judge();
    assert_eq!(
        (report.overlaps[0].start, report.overlaps[0].end),
        (at(1_250), at(2_700))
    );
}

/// An acknowledged write whose id is nowhere in the surviving history is GONE, and is shown (spec: SB-03).
#[test]
fn an_absent_id_is_gone() {
    let mut story = clean_move();
    let key = story.promise("iad", 0, 777, (97, 98));
    let report = story.judge();
    assert!(!report.is_clean());
    assert_eq!((report.gone, report.stolen, report.intact), (1, 0, 36));
    assert_eq!((report.gone_samples[0].id, &report.gone_samples[0].key), (777, &key));
    assert_eq!(report.per_server[0].gone, 1);
    assert_eq!(report.per_writer[0].gone, 1);
}

/// An acknowledged write whose id holds another key is STOLEN, by whichever write (spec: SB-03).
#[test]
fn a_reassigned_id_is_stolen() {
    let mut story = clean_move();
    story.promise("iad", 0, 777, (97, 98));
    story.keep("pdx", 2, 777, (210, 211));
    let report = story.judge();
    assert!(!report.is_clean());
    assert_eq!((report.gone, report.stolen, report.intact), (0, 1, 37));
    assert!(report.stolen_samples[0].holder.is_some());
}

/// A promise is about the id: a key that survives under another id is no kept promise (spec: SB-03).
#[test]
fn a_key_under_another_id_is_not_intact() {
    let mut story = clean_move();
    let key = story.promise("iad", 0, 777, (97, 98));
    story.survive(778, key.as_str());
    assert_eq!(story.judge().gone, 1);
}

/// A write of unknown outcome is never damage, whether it is present or absent; neither is a refused one
/// (spec: SB-01, SB-03).
#[test]
fn an_unknown_write_is_no_damage() {
    let mut story = clean_move();
    let present = story.unconfirmed(UnconfirmedKind::Unknown, "iad", "connection-lost", (97, 99));
    story.survive(901, present.as_str());
    story.unconfirmed(UnconfirmedKind::Unknown, "iad", "connection-lost", (98, 99));
    story.unconfirmed(UnconfirmedKind::Refused, "iad", "1290", (100, 101));
    let report = story.judge();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.unknown.present, report.unknown.absent), (1, 1));
    assert_eq!((report.refused.present, report.refused.absent), (0, 1));
    let errors: Vec<_> = report
        .errors
        .iter()
        .map(|error| (error.code.as_str(), error.phase, error.count))
        .collect();
    assert_eq!(errors, [("connection-lost", "write", 2), ("1290", "write", 1)]);
}

/// Writers that never write again are in an outage until the run ends (spec: X-PERF-01).
#[test]
fn an_outage_that_never_ends_is_an_outage() {
    let mut story = Story::lasting(1_000);
    story.serve("iad", 0, (0, 100));
    let report = story.judge();
    assert_eq!(report.write_outage_ms, 909.0);
    assert!(!report.outage_between(at(500), at(600)).unwrap().ended);
}

/// The time between two runs in one store is no outage, a gap within one is.
#[test]
fn the_time_between_runs_is_no_outage() {
    let mut story = Story::lasting(100);
    story.serve("iad", 0, (0, 100));
    let mut second = story.history.activities[0].clone();
    (second.started, second.stopped) = (at(5_000), Some(at(5_100)));
    story.history.activities.push(second);
    story.serve("iad", 1, (5_000, 5_050));
    assert_eq!(story.judge().write_outage_ms, 59.0);
}

/// A row of the run that the store does not know of, written just before a kill of the ledger, is counted and harmless.
#[test]
fn an_unrecorded_row_is_counted() {
    let mut story = clean_move();
    story.survive(5_000, "run-3-99");
    story.survive(5_001, "another-run-3-99");
    let report = story.judge();
    assert!(report.is_clean());
    assert_eq!(report.unrecorded, 1);
}

/// A second survivor with other rows than the first makes the verdict unclean, and is told apart from one that agrees.
#[test]
fn survivors_that_differ_are_not_clean() {
    let story = clean_move();
    let first = SurvivingTable {
        name: "pdx".to_owned(),
        rows: story.rows.clone(),
    };
    let same = SurvivingTable {
        name: "iad".to_owned(),
        rows: story.rows.clone(),
    };
    let mut rows = story.rows.clone();
    rows.pop();
    rows[0].key = "another".to_owned();
    rows.push(SurvivingRow {
        id: 9_999,
        key: "extra".to_owned(),
    });
    let forked = SurvivingTable {
        name: "dr".to_owned(),
        rows,
    };
    let report = judge(story.history, &[first, same, forked]).unwrap();
    let differences: Vec<_> = report
        .survivors
        .iter()
        .map(|found| (found.missing, found.extra, found.different))
        .collect();
    assert_eq!(differences, [(0, 0, 0), (0, 0, 0), (1, 1, 1)]);
    assert!(!report.is_clean());
    assert_eq!(report.reasons.len(), 1);
}

/// A run in which nothing was acknowledged shows nothing and is not clean (spec: SB-06).
#[test]
fn silence_is_not_clean() {
    let report = Story::lasting(1_000).judge();
    assert!(!report.is_clean());
    assert_eq!(report.write_outage_ms, 1_000.0);
}

/// The JSON names what the demo reads, and the table says the verdict and the reasons (spec: SB-06).
#[test]
fn the_report_is_json_and_a_table() {
    let mut story = clean_move();
    story.promise("iad", 0, 777, (97, 98));
    let report = story.judge();
    let json = serde_json::to_value(&report).unwrap();
    for field in [
        "acknowledged",
        "intact",
        "gone",
        "stolen",
        "overlap_ms",
        "write_outage_ms",
        "per_server",
        "errors",
        "clean",
    ] {
        assert!(json.get(field).is_some(), "{field} is missing");
    }
    assert_eq!(json["per_server"][0]["first_ack"], "2026-01-01T10:00:00.001Z");
    let table = report.to_string();
    assert!(table.contains("mysql-iad:3306"));
    assert!(
        table.contains("verdict: NOT CLEAN: 1 acknowledged writes are gone"),
        "{table}"
    );
}
