//! The desk: the newest order is carried out once, an older one stops, and only what nobody can have begun is first-hand.

use bloodraven_executor::desk::{Desk, Take};
use bloodraven_executor::{Order, Superseded};
use bloodraven_sim::Setting;
use bloodraven_sim::setting::run_id;
use bloodraven_types::{Command, Phase, RunRef};

/// A state of a run and what its record asks for.
fn fencing() -> (RunRef, Command) {
    let world = Setting::new(1).build();
    world.bring_to(Phase::Fencing);
    world.command().unwrap()
}

fn later(about: &RunRef) -> RunRef {
    RunRef {
        revision: about.revision.next(),
        ..about.clone()
    }
}

fn started(take: Take) -> (Order<Command>, Superseded) {
    match take {
        Take::Start(order, superseded) => (*order, superseded),
        other => panic!("{other:?}"),
    }
}

/// An order is first-hand only in a process that watched its run before, for a copy that is no repetition.
/// spec: PF-FEN-05
#[test]
fn only_a_watched_runs_first_copy_is_first_hand() {
    let (about, command) = fencing();
    for (watched, repeated, expected) in [(true, false, true), (false, false, false), (true, true, false)] {
        let mut desk = Desk::default();
        if watched {
            desk.record(&about, true);
        }
        let (order, _) = started(desk.order(&about, command.clone(), repeated));
        assert_eq!(order.first_hand, expected, "{watched} {repeated}");
    }
    // A run that has ended is watched no longer.
    let mut desk = Desk::default();
    desk.record(&about, true);
    desk.record(&about, false);
    assert!(!started(desk.order(&about, command, false)).0.first_hand);
}

/// A second copy is not carried out beside the first one; once that is finished, another copy is. report: B50
#[test]
fn a_copy_is_not_carried_out_twice_at_a_time() {
    let (about, command) = fencing();
    let mut desk = Desk::default();
    started(desk.order(&about, command.clone(), false));
    assert!(matches!(desk.order(&about, command.clone(), true), Take::Copy));
    desk.finished(&about, command.name());
    started(desk.order(&about, command, true));
}

/// An order that the record has left behind is not begun, and the one in hand stops once the record moves on, by a record
/// or by an order of a later state. report: B30
#[test]
fn the_record_leaves_orders_behind() {
    let (about, command) = fencing();
    let mut desk = Desk::default();
    let (_, superseded) = started(desk.order(&about, command.clone(), false));
    desk.record(&later(&about), true);
    assert!(superseded.is_set());
    assert!(matches!(desk.order(&about, command.clone(), true), Take::Stale));

    let mut desk = Desk::default();
    let (_, superseded) = started(desk.order(&about, command.clone(), false));
    started(desk.order(&later(&about), command.clone(), false));
    assert!(superseded.is_set());

    let mut desk = Desk::default();
    let (_, superseded) = started(desk.order(&about, command, false));
    desk.record(&about, false);
    assert!(superseded.is_set(), "the run has ended");
}

/// A record of the same state, or an older one that comes late, stops nothing; another run's record stops everything.
#[test]
fn only_news_stops_an_order() {
    let (about, command) = fencing();
    let current = later(&about);
    let mut desk = Desk::default();
    let (_, superseded) = started(desk.order(&current, command, false));
    desk.record(&current, true);
    desk.record(&about, true);
    assert!(!superseded.is_set());
    let other = RunRef {
        run_id: run_id(2),
        ..current
    };
    desk.record(&other, true);
    assert!(superseded.is_set());
    desk.stop();
}
