//! Promotion: its statements, its gate, what a second process finds, and how each refusal ends.

use std::time::Duration;

use bloodraven_sim::server::{Link, Replica, Server};
use bloodraven_sim::setting::{PEER, READER, SOURCE, TARGET, uuid_of};
use bloodraven_sim::{Applied, Fault, Kind, Moment, Setting, World};
use bloodraven_types::fact::{PromotionFailed, PromotionReach};
use bloodraven_types::{Fact, Outcome, Phase, Reason, SiteName, SiteRole};

use crate::common::{after_a_crash, carry_out, first_hand, is_about, perform, silence, statements, take_in, timed};

const ALL: [Kind; 3] = [Kind::StopReplica, Kind::ResetReplicaAll, Kind::OpenForWrites];

pub(crate) fn promoting(seed: u64) -> World {
    let world = Setting::new(seed).with_reader().build();
    world.bring_to(Phase::Promoting);
    world
}

pub(crate) fn before(kind: Kind) -> Moment {
    Moment::Before(SiteName::new(TARGET), kind)
}

pub(crate) fn after(kind: Kind) -> Moment {
    Moment::After(SiteName::new(TARGET), kind)
}

pub(crate) fn is_promoted(fact: &Fact) -> bool {
    matches!(fact, Fact::Promoted(promoted) if promoted.target_server_uuid == uuid_of(TARGET))
}

pub(crate) fn failed(fact: &Fact) -> PromotionFailed {
    match fact {
        Fact::PromotionFailed(failed) => failed.clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn reason(fact: &Fact) -> (Reason, PromotionReach) {
    let failed = failed(fact);
    (failed.reason, failed.reached)
}

pub(crate) fn sent(world: &World) -> Vec<Kind> {
    world.journal().role_changes(TARGET)
}

/// One session: the lock, a look, STOP, RESET, a look for the gate, the write, and the look that confirms it.
/// spec: PF-PRO-01, PF-PRO-02
#[test]
fn the_statements_come_in_order() {
    let world = promoting(1);
    assert!(is_promoted(&carry_out(&world)));
    assert_eq!(
        statements(&world, TARGET),
        [
            Kind::TakeAuthority,
            Kind::Observe,
            Kind::StopReplica,
            Kind::ResetReplicaAll,
            Kind::Observe,
            Kind::OpenForWrites,
            Kind::Observe,
            Kind::ReleaseAuthority
        ]
    );
    for site in [SOURCE, PEER, READER] {
        assert!(world.journal().role_changes(site).is_empty(), "{site}");
        assert!(world.journal().times(site, Kind::Observe) >= 1, "{site}");
    }
    let target = world.state().server(TARGET).unwrap().clone();
    assert!(target.serves_writes() && target.channels.is_empty());
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// A second process finds how far the first one got, from the server alone, and sends only what is left.
/// spec: PF-PRO-06; report: B26, B27
#[test]
fn a_second_process_goes_on_where_the_first_one_ended() {
    let stopped = promoting(2);
    stopped
        .state()
        .change(TARGET, |server| server.channels.iter_mut().for_each(Replica::stop));
    let detached = promoting(3);
    detached.state().change(TARGET, |server| server.channels.clear());
    let opened = promoting(4);
    opened.state().change(TARGET, |server| {
        server.channels.clear();
        server.open();
    });
    for (world, left) in [(stopped, &ALL[..]), (detached, &ALL[2..]), (opened, &ALL[3..])] {
        assert!(is_promoted(&perform(&world, after_a_crash(&world)).unwrap()));
        assert_eq!(sent(&world), left);
        assert_eq!(world.violations(), Vec::<String>::new());
    }
}

/// A target that took writes of its own since an earlier process opened it is confirmed, whatever it wrote.
/// spec: PF-PRO-06
#[test]
fn writes_after_the_promotion_are_the_targets_own() {
    let world = promoting(5);
    world.state().change(TARGET, |server| {
        server.channels.clear();
        server.open();
    });
    world.state().client_write(&SiteName::new(TARGET)).unwrap();
    assert!(is_promoted(&perform(&world, after_a_crash(&world)).unwrap()));
    assert!(sent(&world).is_empty());
}

/// A writable target that the run cannot explain is held, not touched. spec: PF-PRO-09, PF-PRO-06
#[test]
fn an_unexplained_target_is_held() {
    let with_channel = promoting(6);
    with_channel.state().change(TARGET, Server::open);
    let with_foreign = promoting(7);
    with_foreign.state().change(TARGET, |server| {
        server.channels.clear();
        server.open();
    });
    let foreign = with_foreign.state().commit(PEER).unwrap();
    with_foreign
        .state()
        .change(TARGET, |server| server.apply(foreign, Duration::ZERO));
    for world in [with_channel, with_foreign] {
        world.state().expected_writers = 2;
        let fact = perform(&world, after_a_crash(&world)).unwrap();
        assert_eq!(reason(&fact), (Reason::ExecuteFailed, PromotionReach::Writable));
        assert!(sent(&world).is_empty());
        let group = take_in(&world, fact);
        assert_eq!(
            group.run().unwrap().result.clone().unwrap().outcome,
            Outcome::ManualRecoveryRequired
        );
        assert!(group.status.planned_failover_hold.is_some());
    }
}

/// A target that is another server, or lacks or exceeds the fenced set, is not touched. spec: PF-PRO-02, PF-PRO-06; report: B08
#[test]
fn another_target_is_not_touched() {
    let replaced = promoting(8);
    replaced.state().change(TARGET, |server| server.replace(uuid_of("new")));
    let behind = promoting(9);
    behind.state().edit(|group| {
        let run = group.status.planned_failover.as_mut().unwrap();
        run.fence.as_mut().unwrap().gtid_set = Some(format!("{}:1-101", uuid_of(SOURCE)));
    });
    let ahead = promoting(10);
    ahead.state().commit(TARGET);
    let unreadable = promoting(11);
    unreadable
        .state()
        .change(TARGET, |server| server.told_set = Some("no set".to_owned()));
    let expected = [
        (replaced, Reason::TargetChanged),
        (behind, Reason::TargetChanged),
        (ahead, Reason::DivergentTarget),
        (unreadable, Reason::InvalidGTID),
    ];
    for (world, expected) in expected {
        assert_eq!(reason(&carry_out(&world)), (expected, PromotionReach::NothingWritten));
        assert!(sent(&world).is_empty());
    }
}

/// Statements that keep failing while the target answers: two minutes, then the run goes back. A failed STOP or RESET is
/// no possible write, for a second process neither. spec: PF-PRO-07
#[test]
fn failing_statements_have_two_minutes() {
    for (kind, second) in [
        (Kind::StopReplica, false),
        (Kind::ResetReplicaAll, true),
        (Kind::OpenForWrites, false),
    ] {
        let world = promoting(29);
        world.faults(TARGET, Some(kind), 0, u32::MAX, Fault::Refuse(1205));
        let order = if second {
            after_a_crash(&world)
        } else {
            first_hand(&world)
        };
        let (fact, took) = timed(&world, || perform(&world, order).unwrap());
        assert_eq!(
            reason(&fact),
            (Reason::PromotionAborted, PromotionReach::NothingWritten),
            "{kind:?}"
        );
        assert!(
            took > Duration::from_secs(118) && took <= Duration::from_secs(120),
            "{took:?}"
        );
    }
}

/// A target that is silent before the write is lost after ten seconds and nothing was written.
/// spec: PF-LOS-02
#[test]
fn a_target_lost_before_the_write_rolls_back() {
    let world = promoting(30);
    world.at(after(Kind::ResetReplicaAll), |state| {
        state.change(TARGET, |server| server.link = Link::Silent);
    });
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(reason(&fact), (Reason::TargetLost, PromotionReach::NothingWritten));
    assert!(is_about(took, 10), "{took:?}");
}

/// A target that falls silent with the write under way is lost after ten seconds, and nobody says that nothing was
/// written. spec: PF-PRO-08
#[test]
fn a_target_lost_after_a_possible_write_is_unconfirmed() {
    for moment in [before(Kind::OpenForWrites), after(Kind::OpenForWrites)] {
        let world = promoting(31);
        world.at(moment, |state| {
            state.change(TARGET, |server| server.link = Link::Silent);
        });
        let fact = carry_out(&world);
        assert_eq!(reason(&fact), (Reason::TargetLost, PromotionReach::MayBeWritable));
        let result = take_in(&world, fact).run().unwrap().result.clone().unwrap();
        assert_eq!(
            (result.outcome, result.reason),
            (Outcome::PromotedUnconfirmed, Some(Reason::TargetLost))
        );
    }
}

/// A second process that cannot reach the target does not know what the first one sent, so it does not say that nothing
/// was written: the source stays fenced. spec: PF-PRO-06, PF-PRO-08, PF-RBK-02; report: B22
#[test]
fn a_second_process_never_assumes_that_nothing_was_written() {
    let world = promoting(32);
    world.state().change(TARGET, |server| {
        server.channels.clear();
        server.open();
    });
    silence(&world, TARGET);
    let fact = perform(&world, after_a_crash(&world)).unwrap();
    assert_eq!(reason(&fact), (Reason::TargetLost, PromotionReach::MayBeWritable));
    let result = take_in(&world, fact).run().unwrap().result.clone().unwrap();
    assert_eq!(result.outcome, Outcome::PromotedUnconfirmed);
    assert!(world.state().server(SOURCE).unwrap().super_read_only);
    assert_eq!(world.violations(), Vec::<String>::new());

    // Also when the first thing that it learns is that the site is no candidate any more.
    let world = promoting(33);
    world.state().change(TARGET, |server| {
        server.channels.clear();
        server.open();
    });
    world.state().edit(|group| {
        let target = group
            .spec
            .sites
            .iter_mut()
            .find(|site| site.name.as_str() == TARGET)
            .unwrap();
        target.role = SiteRole::DisasterRecovery;
    });
    let fact = perform(&world, after_a_crash(&world)).unwrap();
    assert_eq!(reason(&fact), (Reason::TargetNotPromotable, PromotionReach::Writable));
}

/// A second process that finds another server in the target's place goes back while the source holds everything under its
/// fence and nobody else takes writes; it does not when that cannot be shown. spec: PF-PRO-10, PF-PRO-06; report: B08
#[test]
fn a_replaced_target_is_no_hold_while_the_source_is_intact() {
    let intact = promoting(37);
    let silent = promoting(38);
    silence(&silent, SOURCE);
    let unfenced = promoting(39);
    unfenced.state().change(SOURCE, Server::open);
    let expected = [
        (intact, PromotionReach::NothingWritten),
        (silent, PromotionReach::MayBeWritable),
        (unfenced, PromotionReach::MayBeWritable),
    ];
    for (world, expected) in expected {
        world.state().change(TARGET, |server| server.replace(uuid_of("new")));
        let fact = perform(&world, after_a_crash(&world)).unwrap();
        assert_eq!(reason(&fact), (Reason::TargetChanged, expected));
        assert!(sent(&world).is_empty());
    }
}

/// A write whose answer is lost is found by the next look and sent again only when it had no effect; a late one dies with
/// its session. spec: PF-PRO-06, X-AUTH-01
#[test]
fn a_write_without_an_answer_is_settled_by_a_look() {
    let cases = [
        (Fault::Killed { applied: true }, 1),
        (Fault::Killed { applied: false }, 1),
        (Fault::Unsettled(Applied::Before), 1),
        (Fault::Unsettled(Applied::Later(Duration::from_secs(2))), 1),
    ];
    for (fault, done) in cases {
        let world = promoting(34);
        world.fault(TARGET, Kind::OpenForWrites, fault.clone());
        assert!(is_promoted(&carry_out(&world)), "{fault:?}");
        world.run(world.time.sleep(Duration::from_secs(20))).unwrap();
        assert_eq!(world.journal().times(TARGET, Kind::OpenForWrites), done, "{fault:?}");
    }
}

/// A target that answers but never reads writable is unconfirmed after two minutes. spec: PF-PRO-08
#[test]
fn an_unconfirmed_write_has_two_minutes() {
    let world = promoting(35);
    // The server says that it is offline, so that applications cannot write whatever the flags say.
    world.state().change(TARGET, |server| server.offline_mode = true);
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(
        reason(&fact),
        (Reason::PromotionUnconfirmed, PromotionReach::MayBeWritable)
    );
    assert!(
        took > Duration::from_secs(118) && took <= Duration::from_secs(121),
        "{took:?}"
    );
    let result = take_in(&world, fact).run().unwrap().result.clone().unwrap();
    assert_eq!(
        (result.outcome, result.reason),
        (Outcome::PromotedUnconfirmed, Some(Reason::PromotionUnconfirmed))
    );
}

/// A fenced set that cannot be read promotes nothing. spec: PF-LAG-02
#[test]
fn an_unreadable_set_promotes_nothing() {
    let world = promoting(36);
    world.state().edit(|group| {
        let run = group.status.planned_failover.as_mut().unwrap();
        run.fence.as_mut().unwrap().gtid_set = Some("no set".to_owned());
    });
    assert_eq!(
        reason(&carry_out(&world)),
        (Reason::InvalidGTID, PromotionReach::NothingWritten)
    );
    assert_eq!(world.journal().statements(TARGET), []);
}
