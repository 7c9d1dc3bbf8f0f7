//! Who may change roles, as one read of the object shows it.

use bloodraven_failover::claim::{self, Claim, NotLive, check_claimed, check_live, holder};
use bloodraven_types::annotation::CONFIRMED;
use bloodraven_types::group::{ClaimKind, ClaimStatus, PlannedFailoverHold};
use bloodraven_types::{Epoch, Group, ObjectUid, Phase, Reason, Revision, RunId, RunRef};
use uuid::Uuid;

use crate::kit::{FRA, IAD, PDX, World, at, facts, groups, site};

/// A run owns the claim from Fencing on, and neither before nor after; waiting for it owns nothing.
/// spec: PF-CLM-01, PF-CLM-03
#[test]
fn a_run_owns_the_claim_from_the_fence_to_the_confirmation() {
    for phase in Phase::ALL.iter().copied() {
        let world = World::at_phase(phase);
        let run_id = world.run().run_id;
        let expected = match phase {
            Phase::Fencing
            | Phase::Draining
            | Phase::WaitingForLag
            | Phase::WaitingForDragonflySync
            | Phase::PromotingDragonfly
            | Phase::Promoting
            | Phase::RollingBack => Claim::Planned { run_id },
            Phase::Admitting | Phase::Deferred | Phase::Publishing | Phase::Succeeded | Phase::Failed => Claim::Free,
        };
        assert_eq!(holder(&world.group), expected, "{phase}");
    }
    assert_eq!(holder(&groups::orders()), Claim::Free);
}

/// The confirmed annotation frees the claim though the phase still reads Promoting; one of another run, or one that cannot
/// be read, does not. spec: PF-CLM-06
#[test]
fn the_confirmed_annotation_frees_the_claim() {
    let mut world = World::at_phase(Phase::Promoting);
    let run_id = world.run().run_id;
    let mut annotated = |value: String| {
        world.group.annotations.insert(CONFIRMED.to_owned(), value);
        holder(&world.group)
    };
    let since = at(9).to_compact_string();
    let other = Uuid::from_u128(77);
    assert_eq!(annotated(format!("{other}:since={since}")), Claim::Planned { run_id });
    assert_eq!(annotated(format!("{run_id}:since=lately")), Claim::Planned { run_id });
    assert_eq!(annotated(format!("{run_id}:since={since}")), Claim::Free);
    assert_eq!(claim::confirmed_at(&world.group, run_id), Some(at(9)));
}

/// A released run that never wrote Publishing goes on without the claim, also after a later failover replaced its record.
/// spec: PF-CLM-06
#[test]
fn a_released_run_publishes_without_the_claim() {
    let mut world = World::at_phase(Phase::Promoting);
    world.tell(facts::promoted());
    world.one_write(world.input_of(facts::published())).unwrap();
    assert_eq!(world.phase(), Phase::Promoting);
    let emergency = ClaimStatus {
        epoch: world.group.epoch().next(),
        kind: Some(ClaimKind::Emergency),
        holder: Some("topology-manager-0".to_owned()),
        since: Some(at(10)),
    };
    world.group.status.claim = Some(emergency.clone());
    groups::annotate_failover(&mut world.group, &at(20).to_string(), FRA);
    world.tick_after(500);
    assert_eq!(world.phase(), Phase::Promoting);
    world.tell(facts::published());
    assert_eq!(world.phase(), Phase::Succeeded);
    assert_eq!(world.run().promotion.as_ref().unwrap().confirmation_time, Some(at(9)));
    assert_eq!(
        world.group.status.claim,
        Some(emergency),
        "the claim is the emergency's by now"
    );
}

/// The run's own failover record, recognised by its content, stands for the promotion after a restart: nothing is promoted
/// again. spec: PF-CLM-06, PF-PRO-06
#[test]
fn the_own_record_stands_for_the_promotion() {
    let mut world = World::at_phase(Phase::Promoting);
    world.one_write(world.input_of(facts::promoted())).unwrap();
    let names: Vec<&str> = world.commands().iter().map(bloodraven_types::Command::name).collect();
    assert_eq!(names, ["publish"]);
}

/// A site that leaves the spec ends the run at once, whatever comes in, without a command: the source stays as it is, or the
/// target is unconfirmed. spec: PF-CLM-07
#[test]
fn a_removed_site_ends_the_run_at_once() {
    use bloodraven_types::Outcome::{PromotedUnconfirmed, SourceLeftFenced};
    for phase in Phase::ALL.iter().copied().filter(|phase| phase.needs_claim()) {
        for name in [IAD, PDX] {
            let mut world = World::at_phase(phase);
            world.drop_site(name);
            let late = world.input_of(facts::granted());
            world.input(late).unwrap();
            let outcome = if phase == Phase::Promoting {
                PromotedUnconfirmed
            } else {
                SourceLeftFenced
            };
            assert_eq!(world.ending(), (outcome, Some(Reason::UnknownSite)), "{phase} {name}");
            assert_eq!(world.commands(), []);
            assert_eq!(holder(&world.group), Claim::Free);
            assert!(world.run().message.contains(name));
        }
        let mut world = World::at_phase(phase);
        world.drop_site(FRA);
        world.tick();
        assert_eq!(world.phase(), phase, "a site that the run does not use");
    }
}

/// A hold is the claim's holder, whatever the latest run is. spec: PF-HLD-01, PF-HLD-02
#[test]
fn a_hold_holds_the_claim() {
    let run_id = RunId::new(Uuid::from_u128(5));
    for phase in Phase::ALL.iter().copied() {
        let mut world = World::at_phase(phase);
        world.group.status.planned_failover_hold = Some(hold(run_id));
        assert_eq!(holder(&world.group), Claim::Held { run_id }, "{phase}");
    }
}

pub(crate) fn hold(run_id: RunId) -> PlannedFailoverHold {
    PlannedFailoverHold {
        run_id,
        reason: Reason::ForeignWritable,
        source_site: Some(site(IAD)),
        target_site: site(PDX),
        ambiguous_sites: vec![site(IAD), site(PDX)],
        hold_time: at(0),
    }
}

/// What is left of a planned run's claim in the slot is spent; another actor's is not, also without a name. spec: PF-CLM-01
#[test]
fn the_slot_tells_of_other_actors() {
    let mut group = groups::orders();
    let mut slot = |kind: Option<ClaimKind>, named: bool| {
        group.status.claim = Some(ClaimStatus {
            epoch: Epoch::new(3),
            kind,
            holder: named.then(|| "somebody".to_owned()),
            since: None,
        });
        holder(&group)
    };
    assert_eq!(slot(None, false), Claim::Free);
    assert_eq!(slot(Some(ClaimKind::PlannedFailover), true), Claim::Free);
    for named in [false, true] {
        let expected = Claim::Other {
            kind: ClaimKind::Emergency,
            holder: if named { "somebody" } else { "" }.to_owned(),
        };
        assert_eq!(slot(Some(ClaimKind::Emergency), named), expected);
    }
}

/// A command is live for its own object, run, revision and epoch, until its deadline; everything else is refused with both
/// values. spec: PF-CLM-04, PF-CLM-08 report: B52
#[test]
fn a_command_is_live_for_exactly_its_record() {
    let world = World::at_phase(Phase::Draining);
    let about = world.about();
    let check = |group: &Group, about: &RunRef| check_claimed(group, about, Some(at(30)), at(29));
    assert_eq!(check(&world.group, &about), Ok(()));
    assert!(matches!(
        check_live(&world.group, &about, Some(at(30)), at(30)),
        Err(NotLive::DeadlinePassed { deadline }) if deadline == at(30)
    ));
    assert_eq!(check_live(&world.group, &about, None, at(9000)), Ok(()));

    let mut recreated = world.group.clone();
    recreated.uid = ObjectUid::new("uid-2");
    assert!(matches!(check(&recreated, &about), Err(NotLive::Recreated { .. })));
    let other = RunRef {
        run_id: RunId::new(Uuid::from_u128(5)),
        ..about.clone()
    };
    assert!(matches!(check(&world.group, &other), Err(NotLive::OtherRun { .. })));
    for revision in [about.revision.get() - 1, about.revision.get() + 1] {
        let other = RunRef {
            revision: Revision::new(revision),
            ..about.clone()
        };
        assert!(matches!(
            check(&world.group, &other),
            Err(NotLive::OtherRevision { .. })
        ));
    }
    let other = RunRef {
        epoch: about.epoch.next(),
        ..about.clone()
    };
    assert!(matches!(check(&world.group, &other), Err(NotLive::OtherEpoch { .. })));
    assert!(matches!(
        check(&groups::orders(), &about),
        Err(NotLive::OtherRun { found: None, .. })
    ));
}

/// No command of an ended run is live, nor one of a run that holds no claim. spec: PF-CLM-04 report: B52
#[test]
fn a_run_without_the_claim_changes_no_role() {
    for phase in Phase::ALL.iter().copied() {
        let world = World::at_phase(phase);
        let checked = check_claimed(&world.group, &world.about(), None, at(0));
        assert_eq!(checked.is_ok(), phase.needs_claim(), "{phase}: {checked:?}");
        let live = check_live(&world.group, &world.about(), None, at(0));
        assert_eq!(live.is_ok(), !phase.is_terminal(), "{phase}: {live:?}");
    }
    let mut world = World::at_phase(Phase::Promoting);
    world.group.status.planned_failover_hold = Some(hold(world.run().run_id));
    assert!(matches!(
        check_claimed(&world.group, &world.about(), None, at(0)),
        Err(NotLive::NotClaimed { .. })
    ));
}

/// A group made again under the same name inherits nothing: no run, no claim, no epoch, and old commands are for another
/// object. spec: PF-CLM-08
#[test]
fn a_recreated_group_inherits_nothing() {
    let old = World::at_phase(Phase::Promoting);
    let mut group = groups::orders();
    group.uid = ObjectUid::new("uid-2");
    assert_eq!(holder(&group), Claim::Free);
    assert_eq!(group.epoch(), Epoch::default());
    assert!(check_live(&group, &old.about(), None, at(0)).is_err());
    group.status = old.group.status.clone();
    assert!(
        matches!(
            check_live(&group, &old.about(), None, at(0)),
            Err(NotLive::Recreated { .. })
        ),
        "even with the old status restored into it"
    );
}
