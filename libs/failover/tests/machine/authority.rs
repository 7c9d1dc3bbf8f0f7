//! Authority that moves while a run holds the claim.

use bloodraven_failover::claim::{NotLive, check_claimed};
use bloodraven_failover::history;
use bloodraven_types::annotation::{LAST_FAILOVER, LAST_FAILOVER_TARGET};
use bloodraven_types::fact::PromotionReach::NothingWritten;
use bloodraven_types::{Command, Outcome, Phase, Reason};

use crate::kit::{FRA, IAD, PDX, World, at, facts, groups};

fn somebody_recorded_a_failover(world: &mut World) {
    groups::annotate_failover(&mut world.group, &at(3).to_string(), FRA);
    world.touch();
}

/// A failover recorded beside the run stops every statement at once, before the keeper has looked.
/// spec: PF-CLM-04, PF-CLM-05
#[test]
fn no_statement_is_sent_after_authority_moved() {
    for phase in Phase::ALL.iter().copied().filter(|phase| phase.needs_claim()) {
        let mut world = World::at_phase(phase);
        assert_eq!(
            check_claimed(&world.group, &world.about(), None, at(0)),
            Ok(()),
            "{phase}"
        );
        somebody_recorded_a_failover(&mut world);
        assert!(
            matches!(
                check_claimed(&world.group, &world.about(), None, at(0)),
                Err(NotLive::AuthorityMoved { .. })
            ),
            "{phase}"
        );
    }
}

/// Before the promotion's intent such a run goes back, and its fence is no longer its own to clear.
/// spec: PF-CLM-05, PF-RBK-06
#[test]
fn before_the_promotion_the_run_goes_back() {
    for phase in [
        Phase::Fencing,
        Phase::Draining,
        Phase::WaitingForLag,
        Phase::WaitingForDragonflySync,
        Phase::PromotingDragonfly,
    ] {
        let mut world = World::at_phase(phase);
        somebody_recorded_a_failover(&mut world);
        world.tick();
        assert_eq!(world.phase(), Phase::RollingBack, "{phase}");
        assert_eq!(world.run().rollback.as_ref().unwrap().reason, Reason::AuthorityChanged);
        let Command::Unfence(command) = world.command() else {
            panic!("{:?}", world.command())
        };
        assert!(!command.attributable);
        assert_eq!(
            check_claimed(&world.group, &world.about(), None, at(0)),
            Ok(()),
            "to look"
        );
        let revision = world.run().revision;
        world.tick();
        assert_eq!(world.run().revision, revision, "turned once");
        world.tell(facts::unfenced());
        assert_eq!(world.ending(), (Outcome::RolledBack, Some(Reason::AuthorityChanged)));
    }
}

/// After the promotion's intent the result cannot be explained, and it is held. spec: PF-CLM-05, PF-PRO-09
#[test]
fn after_the_intent_it_is_held() {
    let mut world = World::at_phase(Phase::Promoting);
    somebody_recorded_a_failover(&mut world);
    world.tell(facts::promoted());
    assert_eq!(
        world.ending(),
        (Outcome::ManualRecoveryRequired, Some(Reason::AuthorityChanged))
    );
    assert_eq!(
        world.group.annotation(LAST_FAILOVER_TARGET),
        Some(FRA),
        "the other's record stays"
    );
}

/// The run's own record is no foreign one; a foreign one in its place, before the release, is. spec: PF-CLM-05, PF-CLM-06
#[test]
fn the_own_record_is_no_foreign_one() {
    let mut world = World::at_phase(Phase::Promoting);
    world.tell(facts::promoted());
    assert!(history::authority_holds(&world.group, world.run()));
    world.tick();
    assert_eq!(world.phase(), Phase::Promoting);
    groups::annotate_failover(&mut world.group, &at(30).to_string(), FRA);
    world.tick();
    assert_eq!(
        world.ending(),
        (Outcome::ManualRecoveryRequired, Some(Reason::AuthorityChanged))
    );
}

/// A run that goes back already and has looked at the target leaves it alone from then on; one that has not cannot explain what
/// it left there. spec: PF-CLM-05, PF-PRO-09
#[test]
fn a_run_that_goes_back_leaves_the_target_alone() {
    let going_back = || {
        let mut world = World::at_phase(Phase::Promoting);
        world.tell(facts::promotion_failed(Reason::PeerUnreadable, NothingWritten));
        world
    };
    let mut world = going_back();
    world.tell(facts::restored());
    let before = world.about();
    somebody_recorded_a_failover(&mut world);
    assert!(check_claimed(&world.group, &before, None, at(0)).is_err());
    world.tick();
    let Command::Unfence(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert!(!command.attributable);
    assert_eq!(command.target_server_uuid, None);

    let mut world = going_back();
    somebody_recorded_a_failover(&mut world);
    world.tick();
    assert_eq!(
        world.ending(),
        (Outcome::ManualRecoveryRequired, Some(Reason::AuthorityChanged))
    );
}

/// A site that is removed before a way back has looked at the target leaves the promotion unconfirmed. spec: PF-CLM-07
#[test]
fn an_unlooked_target_is_unconfirmed() {
    let mut world = World::at_phase(Phase::Promoting);
    world.tell(facts::promotion_failed(Reason::PeerUnreadable, NothingWritten));
    let mut looked_at = world.clone();
    world.drop_site(PDX);
    world.tick();
    assert_eq!(
        world.ending(),
        (Outcome::PromotedUnconfirmed, Some(Reason::UnknownSite))
    );
    looked_at.tell(facts::restored());
    looked_at.drop_site(PDX);
    looked_at.tick();
    assert_eq!(
        looked_at.ending(),
        (Outcome::SourceLeftFenced, Some(Reason::UnknownSite))
    );
}

/// An invalid copy beside the unchanged valid one is no change; with no valid copy left the check fails closed.
/// spec: PF-CLM-05
#[test]
fn an_invalid_copy_beside_a_valid_one_is_no_change() {
    let fencing = || {
        let mut world = World::orders();
        groups::failed_over(&mut world.group, IAD, -5000);
        world.annotate(PDX);
        world.tell(facts::granted());
        world
    };
    for (time, target) in [("junk", IAD), ("2026-04-20T14:32:05Z", "gone")] {
        let mut world = fencing();
        groups::annotate_failover(&mut world.group, time, target);
        world.tick();
        assert_eq!(world.phase(), Phase::Fencing);
        world.group.status.last_failover = None;
        world.tick();
        assert_eq!(world.phase(), Phase::RollingBack);
    }
    let mut world = fencing();
    world.group.status.last_failover = None;
    world.tick();
    assert_eq!(world.phase(), Phase::RollingBack, "the record is gone");
}

/// A record written with a fraction of a second is the same record when it is read again. spec: PF-CLM-05
#[test]
fn a_fraction_of_a_second_is_no_change() {
    let mut world = World::orders();
    groups::annotate_failover(&mut world.group, "2026-04-19T09:10:44.731Z", IAD);
    world.annotate(PDX);
    world.tell(facts::granted());
    let status = serde_json::to_value(&world.group.status).unwrap();
    world.group.status = serde_json::from_value(status).unwrap();
    world.tick();
    assert_eq!(world.phase(), Phase::Fencing);
    assert!(world.group.annotation(LAST_FAILOVER).is_some());
}
