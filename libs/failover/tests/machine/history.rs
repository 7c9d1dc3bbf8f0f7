//! The durable failover record.

use bloodraven_failover::history::{
    InvalidFailoverRecord, WATERMARK_LIMIT, baseline, failover_record, is_own, watermark,
};
use bloodraven_types::Phase;
use bloodraven_types::annotation::LAST_FAILOVER_TARGET;
use bloodraven_types::group::FailoverRecord;

use crate::kit::{FRA, IAD, PDX, World, at, facts, groups, site};

fn target(group: &bloodraven_types::Group) -> Option<String> {
    failover_record(group).unwrap().map(|record| record.target.to_string())
}

/// The newer of the two copies counts; the status' one when they are of the same time. spec: PF-PUB-03
#[test]
fn the_newest_copy_wins() {
    let mut group = groups::orders();
    assert_eq!(failover_record(&group), Ok(None));
    groups::failed_over(&mut group, IAD, 10);
    assert_eq!(target(&group).as_deref(), Some(IAD));
    for (seconds, winner) in [(9, IAD), (10, IAD), (11, PDX)] {
        groups::annotate_failover(&mut group, &at(seconds).to_string(), PDX);
        assert_eq!(target(&group).as_deref(), Some(winner), "{seconds}");
    }
    group.status.last_failover = None;
    groups::annotate_failover(&mut group, &at(1).to_string(), PDX);
    assert_eq!(target(&group).as_deref(), Some(PDX));
}

/// A copy that cannot be read, or names no site, is no copy; without another one that is an error, never "no failover".
/// spec: PF-ADM-02, PF-CLM-05
#[test]
fn an_invalid_copy_is_no_copy() {
    let later = at(500).to_string();
    for (time, name) in [("junk", IAD), ("", IAD), (later.as_str(), "gone")] {
        let mut group = groups::orders();
        groups::annotate_failover(&mut group, time, name);
        let invalid = InvalidFailoverRecord {
            time: time.to_owned(),
            target: Some(name.to_owned()),
        };
        assert_eq!(failover_record(&group), Err(invalid.clone()));
        assert!(baseline(&group).is_err());
        assert!(invalid.to_string().contains(name));
        groups::failed_over(&mut group, FRA, 0);
        assert_eq!(target(&group).as_deref(), Some(FRA));
    }
    let mut group = groups::orders();
    groups::annotate_failover(&mut group, &later, IAD);
    group.annotations.remove(LAST_FAILOVER_TARGET);
    assert!(failover_record(&group).is_err(), "a time without a target");

    let mut group = groups::orders();
    groups::failed_over(&mut group, "gone", 0);
    assert!(failover_record(&group).is_err(), "the status' copy too");
    groups::annotate_failover(&mut group, &at(-50).to_string(), FRA);
    assert_eq!(target(&group).as_deref(), Some(FRA));
}

/// A record is the run's own by its target, its watermark and its time, all three. spec: PF-CLM-06
#[test]
fn a_record_is_known_by_its_content() {
    let mut world = World::at_phase(Phase::WaitingForLag);
    let early = world.run().clone();
    world.after(5);
    world.tell(facts::caught_up());
    let own = FailoverRecord {
        time: at(5),
        target: site(PDX),
        promotion_gtid_executed: Some(facts::fenced_set()),
    };
    assert!(is_own(world.run(), &own));
    let others = [
        FailoverRecord {
            time: at(4),
            ..own.clone()
        },
        FailoverRecord {
            target: site(FRA),
            ..own.clone()
        },
        FailoverRecord {
            promotion_gtid_executed: None,
            ..own.clone()
        },
        FailoverRecord {
            promotion_gtid_executed: Some(String::new()),
            ..own.clone()
        },
    ];
    for other in others {
        assert!(!is_own(world.run(), &other), "{other:?}");
    }
    assert!(!is_own(&early, &own), "nothing was intended yet");
}

/// The watermark has a limit, and a set over it has none. spec: PF-DUR-08 report: B07
#[test]
fn the_watermark_has_a_limit() {
    let fits = "x".repeat(WATERMARK_LIMIT);
    assert_eq!(watermark(&fits), Some(fits.clone()));
    assert_eq!(watermark(&format!("{fits}x")), None);
    assert_eq!(watermark(""), Some(String::new()));
}
