//! The way back.

use bloodraven_types::fact::PromotionReach::NothingWritten;
use bloodraven_types::fact::{Fact, UnfenceFailed, UnfenceObstacle, Unfenced};
use bloodraven_types::{Command, EventReason, Outcome, Phase, Reason, Warning};

use crate::kit::{FRA, IAD, PDX, World, at, facts, server, site};

/// A run that goes back after its promotion's intent.
fn from_promoting() -> World {
    let mut world = World::at_phase(Phase::Promoting);
    world.tell(facts::promotion_failed(Reason::PeerUnreadable, NothingWritten));
    world
}

fn reason(world: &World) -> Reason {
    world.run().rollback.as_ref().unwrap().reason
}

/// The reason is on the record before anything is asked for, and the way back has thirty seconds from there.
/// spec: PF-RBK-01, PF-DUR-01
#[test]
fn the_intent_comes_first() {
    let mut world = World::at_phase(Phase::WaitingForLag);
    let writes = world.writes;
    world.after(10);
    world.tell(facts::catch_up_failed(Reason::TargetLost));
    assert_eq!(world.writes, writes + 1);
    let rollback = world.run().rollback.as_ref().unwrap();
    assert_eq!((rollback.reason, rollback.intent_time), (Reason::TargetLost, at(10)));
    let Command::Unfence(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!(command.deadline, at(40));
    assert_eq!(command.source_server_uuid, server(IAD));
    assert!(command.attributable && command.retry);
    assert_eq!(world.count(EventReason::PlannedFailoverRollbackStarted), 1);
    assert!(EventReason::PlannedFailoverRollbackStarted.is_warning());
}

/// A confirmed unfence ends rolled back with the reason of the turn. spec: PF-RBK-07, PF-RBK-03
#[test]
fn a_writable_source_ends_rolled_back() {
    for already_writable in [false, true] {
        let mut world = World::at_phase(Phase::RollingBack);
        world.tell(Fact::Unfenced(Unfenced {
            source_server_uuid: server(IAD),
            already_writable,
            target: facts::target(true, true),
        }));
        assert_eq!(world.ending(), (Outcome::RolledBack, Some(Reason::TargetLost)));
        assert_eq!(world.warnings(), []);
        assert_eq!(world.count(EventReason::PlannedFailoverFailed), 1);
        assert!(world.run().message.contains("\"iad\""));
    }
}

/// After a promotion's intent the target is brought back first, and its state is on the record before the source is opened.
/// spec: PF-RBK-02, PF-RBK-07
#[test]
fn the_target_comes_before_the_source() {
    let mut world = from_promoting();
    let Command::RestoreTarget(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!(command.target_server_uuid, server(PDX));
    assert_eq!(command.gtid_set, facts::fenced_set());
    world.tell(facts::restored());
    let Command::Unfence(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!(command.target_server_uuid, Some(server(PDX)));
    let before = world.group.clone();
    world.tell(Fact::TargetRestored(facts::target(false, false)));
    assert_eq!(world.group, before, "the first word on the target stays");
}

/// A target that was not brought back whole is a warning of the end. spec: PF-RBK-03, PF-OBS-02
#[test]
fn a_target_that_is_not_whole_is_a_warning() {
    use Warning::{TargetReplicationNotRestored, TargetSuperReadOnlyNotRestored};
    for (target, warnings) in [
        (facts::target(true, false), vec![TargetReplicationNotRestored]),
        (
            facts::target(false, true),
            vec![TargetReplicationNotRestored, TargetSuperReadOnlyNotRestored],
        ),
        (
            facts::target(false, false),
            vec![TargetReplicationNotRestored, TargetSuperReadOnlyNotRestored],
        ),
    ] {
        let mut world = from_promoting();
        world.tell(Fact::TargetRestored(target.clone()));
        world.tell(facts::unfenced());
        assert_eq!(world.ending(), (Outcome::RolledBack, Some(Reason::PeerUnreadable)));
        assert_eq!(world.warnings(), warnings);

        let mut world = from_promoting();
        world.tell(facts::restored());
        world.tell(Fact::Unfenced(Unfenced {
            source_server_uuid: server(IAD),
            already_writable: true,
            target,
        }));
        assert_eq!(world.warnings(), warnings, "found at the unfence");
    }
}

/// A writable source that is another server is a warning, and the target is left for a reclone. spec: PF-RBK-08
#[test]
fn a_replaced_source_is_a_warning() {
    let mut world = World::at_phase(Phase::RollingBack);
    world.tell(Fact::Unfenced(Unfenced {
        source_server_uuid: server("other"),
        already_writable: true,
        target: facts::target(true, true),
    }));
    assert_eq!(world.ending().0, Outcome::RolledBack);
    assert_eq!(
        world.warnings(),
        [Warning::TargetReplicationNotRestored, Warning::SourceReplaced]
    );
}

/// Each obstacle on the way back has its own outcome. spec: PF-RBK-02, PF-RBK-04, PF-RBK-05, PF-RBK-06, PF-LOS-01
#[test]
fn each_obstacle_has_its_outcome() {
    use Outcome::{ManualRecoveryRequired, PromotedUnconfirmed, SourceLeftFenced};
    let obstacles = [
        (
            UnfenceObstacle::TargetUnreadable,
            PromotedUnconfirmed,
            Reason::TargetLost,
            vec![],
        ),
        (
            UnfenceObstacle::TargetHasOtherTransactions,
            ManualRecoveryRequired,
            Reason::ExecuteFailed,
            vec![],
        ),
        (
            UnfenceObstacle::BothWritable,
            ManualRecoveryRequired,
            Reason::ForeignWritable,
            vec![],
        ),
        (
            UnfenceObstacle::ForeignWritable,
            SourceLeftFenced,
            Reason::ForeignWritable,
            vec![],
        ),
        (
            UnfenceObstacle::SourceLost,
            SourceLeftFenced,
            Reason::PeerUnreadable,
            vec![],
        ),
        (
            UnfenceObstacle::FenceNotAttributable,
            SourceLeftFenced,
            Reason::PeerUnreadable,
            vec![Warning::FenceNotAttributable],
        ),
        (
            UnfenceObstacle::StatementsFailed,
            SourceLeftFenced,
            Reason::PeerUnreadable,
            vec![],
        ),
    ];
    for (obstacle, outcome, reason, warnings) in obstacles {
        let mut world = from_promoting();
        world.tell(facts::restored());
        world.tell(facts::unfence_failed(obstacle));
        assert_eq!(world.ending(), (outcome, Some(reason)), "{obstacle:?}");
        assert_eq!(world.warnings(), warnings, "{obstacle:?}");
        let held = world.group.status.planned_failover_hold.is_some();
        assert_eq!(held, outcome == ManualRecoveryRequired, "{obstacle:?}");
    }
}

/// A source left fenced beside a target without a running channel says so. spec: PF-RBK-02, PF-OBS-02
#[test]
fn a_target_without_a_channel_is_said_so() {
    let mut world = World::at_phase(Phase::RollingBack);
    world.tell(Fact::UnfenceFailed(UnfenceFailed {
        cause: UnfenceObstacle::StatementsFailed,
        detail: "1290".to_owned(),
        target_replicating: false,
        ambiguous_sites: Vec::new(),
    }));
    assert_eq!(world.warnings(), [Warning::TargetReplicationNotRestored]);

    let mut world = from_promoting();
    world.tell(Fact::TargetRestored(facts::target(true, false)));
    world.tell(facts::unfence_failed(UnfenceObstacle::StatementsFailed));
    assert_eq!(world.warnings(), [Warning::TargetReplicationNotRestored]);
}

/// A fence that is not the run's to clear ends with the advice for people. spec: PF-RBK-06
#[test]
fn an_unattributable_fence_comes_with_advice() {
    let mut world = World::at_phase(Phase::RollingBack);
    world.tell(facts::unfence_failed(UnfenceObstacle::FenceNotAttributable));
    let advice = "check which site is writable; if none is, unfence the site with the most complete GTID set by hand \
                  (confirm no other site is writable first); re-annotate only once a site is writable";
    assert!(world.run().message.contains(advice), "{}", world.run().message);
    assert!(world.event(EventReason::PlannedFailoverFailed).contains(advice));
}

/// Two writable sites after a promotion's intent are held, and the hold names both. spec: PF-RBK-04, PF-HLD-01
#[test]
fn two_writable_sites_are_held() {
    let mut world = from_promoting();
    world.tell(facts::restored());
    world.tell(Fact::UnfenceFailed(UnfenceFailed {
        cause: UnfenceObstacle::BothWritable,
        detail: "the rollback found another writable site beside the writable source".to_owned(),
        target_replicating: false,
        ambiguous_sites: vec![site(FRA)],
    }));
    let hold = world.group.status.planned_failover_hold.as_ref().unwrap();
    assert_eq!(hold.reason, Reason::ForeignWritable);
    assert_eq!(hold.ambiguous_sites, [site(PDX), site(IAD), site(FRA)]);
    assert!(
        world
            .run()
            .message
            .contains("the rollback found another writable site beside the writable source")
    );
}

/// Without an answer the source is left fenced when the thirty seconds and a moment are over; with a promotion's intent and a
/// target that nobody looked at, the promotion is unconfirmed. spec: PF-RBK-01, PF-RBK-02
#[test]
fn silence_ends_the_way_back() {
    let mut world = World::at_phase(Phase::RollingBack);
    world.tick_after(32);
    assert_eq!(world.phase(), Phase::RollingBack);
    world.tick_after(1);
    assert_eq!(world.ending(), (Outcome::SourceLeftFenced, Some(Reason::TargetLost)));

    let mut world = from_promoting();
    world.tick_after(33);
    assert_eq!(world.ending(), (Outcome::PromotedUnconfirmed, Some(Reason::TargetLost)));

    let mut world = from_promoting();
    world.tell(facts::restored());
    world.tick_after(33);
    assert_eq!(
        world.ending(),
        (Outcome::SourceLeftFenced, Some(Reason::PeerUnreadable))
    );
}

/// A lost source is left fenced, unless it answers writable after all. spec: PF-LOS-01
#[test]
fn a_lost_source_is_left_fenced_unless_it_answers_writable() {
    let mut world = World::at_phase(Phase::Draining);
    world.tell(facts::drain_failed(Reason::SourceLost));
    let mut back = world.clone();
    world.tell(facts::unfence_failed(UnfenceObstacle::SourceLost));
    assert_eq!(world.ending(), (Outcome::SourceLeftFenced, Some(Reason::SourceLost)));
    back.tell(Fact::Unfenced(Unfenced {
        source_server_uuid: server(IAD),
        already_writable: true,
        target: facts::target(true, true),
    }));
    assert_eq!(back.ending(), (Outcome::RolledBack, Some(Reason::SourceLost)));
}

/// Every way back that ends releases the claim, and says why. spec: PF-CLM-01
#[test]
fn every_end_releases_the_claim() {
    let mut world = World::at_phase(Phase::RollingBack);
    let epoch = world.group.epoch();
    world.tell(facts::unfenced());
    let claim = world.group.status.claim.as_ref().unwrap();
    assert_eq!((claim.kind, claim.holder.as_deref(), claim.epoch), (None, None, epoch));
    let released = bloodraven_failover::Effect::Released { why: "terminalRecord" };
    assert!(world.effects.contains(&released));
}

/// A late word of the promoter or the fencer has no place in a run that goes back.
#[test]
fn the_way_back_hears_only_of_itself() {
    let mut world = from_promoting();
    for late in [
        facts::promoted(),
        facts::fenced(),
        facts::caught_up(),
        facts::published(),
        facts::granted(),
    ] {
        world.no_place_for(late);
    }
    assert_eq!(reason(&world), Reason::PeerUnreadable);
}
