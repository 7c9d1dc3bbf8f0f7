//! The promotion, its record, its publication.

use bloodraven_failover::planned::{PromotionStage, promotion_stage};
use bloodraven_failover::{Effect, claim};
use bloodraven_types::annotation::{CONFIRMED, LAST_FAILOVER, LAST_FAILOVER_TARGET, LAST_FAILOVER_WATERMARK};
use bloodraven_types::fact::PromotionReach::{MayBeWritable, NothingWritten, Writable};
use bloodraven_types::fact::{Fact, Promoted, PromotionFailed};
use bloodraven_types::{Command, EventReason, Outcome, Phase, Reason, StepState, Warning};

use crate::kit::{AMS, FRA, IAD, PDX, World, at, facts, groups, server, site};

/// Recorded, published, released, `Publishing`, `Succeeded`: each write in its order, and the claim is free before the last
/// two. spec: PF-PUB-01, PF-CLM-06
#[test]
fn the_tail_goes_in_its_order() {
    let mut world = World::at_phase(Phase::Promoting);
    let run_id = world.run().run_id;
    let follows = world.one_write(world.input_of(facts::promoted_at(9))).unwrap();
    assert_eq!(world.group.annotation(LAST_FAILOVER), Some(at(9).to_string().as_str()));
    assert_eq!(world.group.annotation(LAST_FAILOVER_TARGET), Some(PDX));
    assert_eq!(
        world.group.annotation(LAST_FAILOVER_WATERMARK),
        Some(facts::fenced_set().as_str())
    );
    assert_eq!(
        promotion_stage(&world.group, world.run()),
        PromotionStage::Recorded { at: at(9) }
    );
    assert_eq!(claim::holder(&world.group), claim::Claim::Planned { run_id });
    let Command::Publish(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!((command.target, command.source), (site(PDX), site(IAD)));
    let writes = world.writes;
    assert_eq!(world.one_write(follows.unwrap()).unwrap(), None);
    assert_eq!(world.writes, writes, "recorded once");

    world.after(2);
    let follows = world.one_write(world.input_of(facts::published_dns(Some(StepState::Applied))));
    let confirmed = format!("{run_id}:since={}", at(9).to_compact_string());
    assert_eq!(world.group.annotation(CONFIRMED), Some(confirmed.as_str()));
    assert_eq!(claim::holder(&world.group), claim::Claim::Free);
    let released = Effect::Released {
        why: "promotionConfirmed",
    };
    assert_eq!(world.effects.iter().filter(|effect| **effect == released).count(), 1);
    assert_eq!(world.phase(), Phase::Promoting);

    let follows = world.one_write(follows.unwrap().unwrap()).unwrap();
    assert_eq!(world.phase(), Phase::Publishing);
    let promotion = world.run().promotion.as_ref().unwrap();
    assert_eq!(
        (promotion.state, promotion.confirmation_time),
        (StepState::Confirmed, Some(at(9)))
    );
    assert_eq!(world.run().dns.as_ref().unwrap().state, StepState::Applied);
    assert!(world.group.status.last_failover.is_none());
    assert_eq!(world.commands(), []);

    world.input(follows.unwrap()).unwrap();
    assert_eq!(world.ending(), (Outcome::Succeeded, None));
    assert_eq!(world.run().message, "promoted \"pdx\"");
    let record = world.group.status.last_failover.as_ref().unwrap();
    assert_eq!((record.time, record.target.clone()), (at(9), site(PDX)));
    assert_eq!(record.promotion_gtid_executed, Some(facts::fenced_set()));
    assert_eq!(
        world.group.annotation(CONFIRMED),
        None,
        "the run's own annotations are tidied"
    );
    assert_eq!(world.count(EventReason::PlannedFailoverSucceeded), 1);
    let duration = std::time::Duration::from_secs(2);
    assert!(world.effects.contains(&Effect::Ended {
        target: site(PDX),
        outcome: Outcome::Succeeded,
        duration: Some(duration),
    }));
}

/// A group without a record in DNS has no `dns` in its run. spec: PF-PUB-01
#[test]
fn without_dns_there_is_no_dns_record() {
    let world = World::at_phase(Phase::Succeeded);
    assert_eq!(world.run().dns, None);
}

/// DNS that does not follow is a warning of a success, and the error is on the record. spec: PF-PUB-02, PF-OBS-04
#[test]
fn dns_that_does_not_follow_is_a_warning() {
    let mut world = World::at_phase(Phase::Promoting);
    world.tell(facts::promoted());
    world.tell(facts::published_dns(Some(StepState::Failed)));
    assert_eq!(world.ending(), (Outcome::Succeeded, None));
    assert_eq!(world.warnings(), [Warning::DNSUpdateFailed]);
    let dns = world.run().dns.as_ref().unwrap();
    assert_eq!(dns.state, StepState::Failed);
    assert_eq!(dns.last_error.as_deref(), Some("the zone answers 503"));
    assert_eq!(world.count(EventReason::PlannedFailoverDNSUpdateFailed), 1);
    assert!(
        world
            .event(EventReason::PlannedFailoverSucceeded)
            .contains("DNSUpdateFailed")
    );
}

/// A peer silent at the confirmation is a warning of a success. spec: PF-ADM-13
#[test]
fn a_peer_silent_at_the_confirmation_is_a_warning() {
    let mut world = World::at_phase(Phase::Promoting);
    world.tell(Fact::Promoted(Promoted {
        target_server_uuid: server(PDX),
        confirmation_time: at(9),
        unreachable_peers: vec![site(AMS)],
    }));
    assert_eq!(
        world.run().promotion.as_ref().unwrap().warnings,
        [Warning::UnreachablePeers]
    );
    world.tell(facts::published());
    assert_eq!(world.warnings(), [Warning::UnreachablePeers]);
    assert!(
        world
            .event(EventReason::PlannedFailoverSucceeded)
            .contains("UnreachablePeers")
    );
}

/// A failover record never moves to an older time: not before the intent, and not behind a newer record.
/// spec: PF-PUB-03
#[test]
fn the_failover_record_never_moves_back() {
    let mut world = World::orders();
    world.annotate(PDX);
    world.after(20);
    for fact in [
        facts::granted(),
        facts::fenced(),
        facts::drained(),
        facts::caught_up(),
        facts::promoted_at(3),
    ] {
        world.tell(fact);
    }
    assert_eq!(world.group.annotation(LAST_FAILOVER), Some(at(20).to_string().as_str()));

    let mut world = World::at_phase(Phase::Publishing);
    groups::failed_over(&mut world.group, FRA, 30);
    world.tick();
    assert_eq!(world.ending().0, Outcome::Succeeded);
    assert_eq!(world.group.status.last_failover.as_ref().unwrap().target, site(FRA));
    let mut world = World::at_phase(Phase::Publishing);
    groups::annotate_failover(&mut world.group, &at(30).to_string(), FRA);
    world.tick();
    assert_eq!(world.group.status.last_failover, None);
}

/// Before anything was written the run goes back with the reason of the failure. spec: PF-PRO-03, PF-PRO-04, PF-PRO-05, PF-PRO-07, PF-PRO-10, PF-LOS-02
#[test]
fn nothing_written_goes_back() {
    for reason in [
        Reason::SourceLost,
        Reason::PeerUnreadable,
        Reason::TargetNotPromotable,
        Reason::PromotionAborted,
        Reason::TargetChanged,
        Reason::TargetLost,
        Reason::ForeignWritable,
        Reason::SourceUnfenced,
        Reason::AuthorityChanged,
        Reason::DivergentTarget,
        Reason::InvalidGTID,
    ] {
        let mut world = World::at_phase(Phase::Promoting);
        world.tell(facts::promotion_failed(reason, NothingWritten));
        assert_eq!(world.phase(), Phase::RollingBack);
        assert_eq!(world.run().rollback.as_ref().unwrap().reason, reason);
        assert!(matches!(world.command(), Command::RestoreTarget(_)), "the target first");
        assert!(world.group.status.planned_failover_hold.is_none());
    }
}

/// After a possible write: what could merely not be seen is unconfirmed, what cannot be explained is held, and every pair is
/// one of the reference's tables. spec: PF-PRO-03, PF-PRO-04, PF-PRO-08, PF-PRO-09, PF-OBS-01
#[test]
fn after_a_possible_write_nothing_is_guessed() {
    use Outcome::{ManualRecoveryRequired, PromotedUnconfirmed};
    let pairs = [
        (Reason::TargetLost, PromotedUnconfirmed, Reason::TargetLost),
        (Reason::SourceLost, PromotedUnconfirmed, Reason::SourceLost),
        (Reason::PeerUnreadable, PromotedUnconfirmed, Reason::PeerUnreadable),
        (
            Reason::PromotionUnconfirmed,
            PromotedUnconfirmed,
            Reason::PromotionUnconfirmed,
        ),
        (
            Reason::TargetNotPromotable,
            PromotedUnconfirmed,
            Reason::PromotionUnconfirmed,
        ),
        (Reason::ForeignWritable, ManualRecoveryRequired, Reason::ForeignWritable),
        (Reason::SourceUnfenced, ManualRecoveryRequired, Reason::ForeignWritable),
        (Reason::ExecuteFailed, ManualRecoveryRequired, Reason::ExecuteFailed),
        (Reason::DivergentTarget, ManualRecoveryRequired, Reason::ExecuteFailed),
        (Reason::TargetChanged, ManualRecoveryRequired, Reason::ExecuteFailed),
        (
            Reason::AuthorityChanged,
            ManualRecoveryRequired,
            Reason::AuthorityChanged,
        ),
    ];
    for reached in [MayBeWritable, Writable] {
        for (told, outcome, reason) in pairs {
            let mut world = World::at_phase(Phase::Promoting);
            world.tell(facts::promotion_failed(told, reached));
            assert_eq!(world.ending(), (outcome, Some(reason)), "{told}");
            assert_eq!(
                world.group.status.planned_failover_hold.is_some(),
                outcome == ManualRecoveryRequired
            );
            assert!(world.group.status.last_failover.is_none(), "no cooldown begins");
            assert!(world.group.annotation(LAST_FAILOVER).is_none());
        }
    }
}

/// A promotion reported by another server than the intended one cannot be explained. spec: PF-PRO-09
#[test]
fn a_promotion_of_another_server_is_held() {
    let mut world = World::at_phase(Phase::Promoting);
    world.tell(Fact::Promoted(Promoted {
        target_server_uuid: server("other"),
        confirmation_time: at(9),
        unreachable_peers: Vec::new(),
    }));
    assert_eq!(world.ending().0, Outcome::ManualRecoveryRequired);
    assert_eq!(world.group.annotation(LAST_FAILOVER), None);
}

/// A promoter that says nothing for two minutes and a moment is not taken to have done nothing. spec: PF-PRO-08
#[test]
fn a_silent_promoter_is_not_taken_to_have_done_nothing() {
    let mut world = World::at_phase(Phase::Promoting);
    world.tick_after(132);
    assert_eq!(world.phase(), Phase::Promoting);
    world.tick_after(1);
    assert_eq!(
        world.ending(),
        (Outcome::PromotedUnconfirmed, Some(Reason::PromotionUnconfirmed))
    );
    assert_eq!(world.count(EventReason::PlannedFailoverPromotionConfirmationFailed), 1);
    assert_eq!(world.count(EventReason::PlannedFailoverFailed), 1);
}

/// Once the record is durable a failure of another attempt says nothing, and no deadline ends the run. spec: PF-CLM-06
#[test]
fn a_recorded_promotion_is_final() {
    for reached in [NothingWritten, MayBeWritable] {
        let mut world = World::at_phase(Phase::Promoting);
        world.tell(facts::promoted());
        world.tell(facts::promotion_failed(Reason::ForeignWritable, reached));
        world.tick_after(5000);
        assert_eq!(world.phase(), Phase::Promoting);
        world.tell(facts::published());
        assert_eq!(world.ending().0, Outcome::Succeeded);
    }
}

/// A publication that nothing recorded is a stray message.
#[test]
fn an_unrecorded_promotion_is_not_published() {
    let mut world = World::at_phase(Phase::Promoting);
    let before = world.group.clone();
    world.tell(facts::published());
    assert_eq!(world.group, before);
}

/// The classified sites of the failing step are part of the hold. spec: PF-HLD-01
#[test]
fn the_hold_lists_what_the_failing_step_classified() {
    let mut world = World::at_phase(Phase::Promoting);
    world.tell(Fact::PromotionFailed(PromotionFailed {
        reason: Reason::ForeignWritable,
        detail: "another site answers writable: fra".to_owned(),
        reached: MayBeWritable,
        ambiguous_sites: vec![site(FRA), site(PDX)],
    }));
    let hold = world.group.status.planned_failover_hold.as_ref().unwrap();
    assert_eq!(hold.ambiguous_sites, [site(PDX), site(IAD), site(FRA)]);
}

/// A fenced set over the annotation's limit is recorded without a watermark, and the record is still known as the run's own.
/// spec: PF-PUB-01 report: B07
#[test]
fn a_huge_fenced_set_is_recorded_without_a_watermark() {
    let huge = (0..6000)
        .map(|number| format!(":{}", 2 * number + 1_000_000))
        .collect::<String>();
    let huge = format!("{}{huge}", server(IAD));
    assert!(huge.len() > bloodraven_failover::history::WATERMARK_LIMIT / 2);
    let huge = format!("{huge},{}", huge.replace(":1", ":21"));
    assert!(huge.len() > bloodraven_failover::history::WATERMARK_LIMIT);
    let mut world = World::at_phase(Phase::Fencing);
    world.tell(facts::fenced_with(&huge));
    world.tell(facts::drained());
    world.tell(facts::caught_up_with(&huge));
    world.tell(facts::promoted());
    assert_eq!(world.group.annotation(LAST_FAILOVER_TARGET), Some(PDX));
    assert_eq!(world.group.annotation(LAST_FAILOVER_WATERMARK), None);
    assert_eq!(
        promotion_stage(&world.group, world.run()),
        PromotionStage::Recorded { at: at(9) }
    );
    world.tell(facts::published());
    let record = world.group.status.last_failover.as_ref().unwrap();
    assert_eq!(record.promotion_gtid_executed.as_ref(), Some(&huge));
}
