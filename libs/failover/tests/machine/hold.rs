//! The automation hold.

use bloodraven_failover::claim::{Claim, holder};
use bloodraven_types::fact::PromotionReach::Writable;
use bloodraven_types::{EventReason, Outcome, Phase, Reason, RunId};
use uuid::Uuid;

use crate::claim::hold;
use crate::kit::{IAD, PDX, World, at, facts, site};

fn held() -> World {
    let mut world = World::at_phase(Phase::Promoting);
    world.after(9);
    world.tell(facts::promotion_failed(Reason::ForeignWritable, Writable));
    world
}

/// The hold and the condition that summarises it are part of the terminal write, and the claim is not released.
/// spec: PF-HLD-01
#[test]
fn the_hold_comes_in_the_same_write() {
    let mut world = World::at_phase(Phase::Promoting);
    world.group.status.conditions = vec![condition("Ready"), condition("AutomaticFailoverHeld")];
    let (writes, run_id, claim) = (
        world.writes,
        world.run().run_id,
        world.group.status.claim.clone().unwrap(),
    );
    world.after(9);
    world
        .one_write(world.input_of(facts::promotion_failed(Reason::ForeignWritable, Writable)))
        .unwrap();
    assert_eq!(world.writes, writes + 1);
    assert_eq!(
        world.ending(),
        (Outcome::ManualRecoveryRequired, Some(Reason::ForeignWritable))
    );
    let hold = world.group.status.planned_failover_hold.as_ref().unwrap();
    assert_eq!((hold.run_id, hold.reason), (run_id, Reason::ForeignWritable));
    assert_eq!(
        (hold.source_site.clone(), hold.target_site.clone()),
        (Some(site(IAD)), site(PDX))
    );
    assert_eq!(hold.hold_time, at(9));
    let conditions = &world.group.status.conditions;
    assert_eq!(conditions.len(), 2, "{conditions:?}");
    let condition = conditions
        .iter()
        .find(|condition| condition.kind == "AutomaticFailoverHeld")
        .unwrap();
    assert_eq!(condition.status, "True");
    assert_eq!(condition.reason, "PlannedFailoverManualRecoveryRequired");
    assert_eq!(condition.observed_generation, Some(7));
    assert_eq!(condition.last_transition_time, at(9));
    assert_eq!(
        condition.message,
        format!(
            "planned failover run {run_id} ended ManualRecoveryRequired (ForeignWritable); writable or ambiguous sites: \
             pdx, iad. Automatic failover is held: resolve the split brain by hand, then annotate \
             bloodraven.shipstream.io/acknowledge-planned-failover-hold={run_id}"
        )
    );
    assert_eq!(holder(&world.group), Claim::Held { run_id });
    assert_eq!(world.group.status.claim, Some(claim));
    assert_eq!(world.count(EventReason::PlannedFailoverManualRecoveryRequired), 1);
    assert_eq!(world.count(EventReason::PlannedFailoverFailed), 0);
    let released =
        |effect: &&bloodraven_failover::Effect| matches!(effect, bloodraven_failover::Effect::Released { .. });
    assert_eq!(world.effects.iter().filter(released).count(), 0);
}

fn condition(kind: &str) -> bloodraven_types::group::Condition {
    bloodraven_types::group::Condition {
        kind: kind.to_owned(),
        status: "False".to_owned(),
        reason: "Before".to_owned(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: at(0),
    }
}

/// While it stands a new request is refused by Event alone, names the reason, and the hold's block stays.
/// spec: PF-HLD-02, PF-ADM-15
#[test]
fn a_hold_refuses_new_requests() {
    for target in [PDX, IAD] {
        let mut world = held();
        let block = world.run().clone();
        world.annotate(target);
        assert_eq!(*world.run(), block);
        assert!(!world.request_stands());
        let event = world.event(EventReason::PlannedFailoverRejected);
        assert!(event.contains("ManualRecoveryPending"), "{event}");
        assert!(event.contains(&block.run_id.to_string()), "{event}");
    }
}

/// A hold that appears while a request waits ends it; a grant that comes in with it takes no claim. spec: PF-ADM-15, PF-HLD-02
#[test]
fn a_hold_ends_a_waiting_request() {
    let run_id = RunId::new(Uuid::from_u128(5));
    for grant in [false, true] {
        let mut world = World::at_phase(Phase::Admitting);
        world.group.status.planned_failover_hold = Some(hold(run_id));
        if grant {
            world.tell(facts::granted());
        } else {
            world.tick();
        }
        assert_eq!(
            world.ending(),
            (Outcome::NotStarted, Some(Reason::ManualRecoveryPending))
        );
        assert!(world.group.status.planned_failover_hold.is_some());
        assert_eq!(holder(&world.group), Claim::Held { run_id });
    }
}

/// Once it is cleared, requests begin runs again. spec: PF-HLD-02
#[test]
fn a_cleared_hold_refuses_nothing() {
    let mut world = held();
    world.group.status.planned_failover_hold = None;
    world.after(600);
    world.annotate(PDX);
    assert_eq!(world.phase(), Phase::Admitting);
}
