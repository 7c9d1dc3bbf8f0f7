//! What an annotation becomes: a run, a refusal, or nothing.

use bloodraven_failover::{Effect, Input};
use bloodraven_types::annotation::PLANNED_FAILOVER;
use bloodraven_types::words::OnCooldown;
use bloodraven_types::{EventReason, Fact, Outcome, Phase, Reason, Revision, SiteState, Span, WaitReason};

use crate::kit::{FRA, IAD, PDX, World, facts, groups, site};

/// The effects' ends, as the metric counts them.
fn counted(world: &World) -> Vec<(String, Outcome)> {
    let ended = |effect: &Effect| match effect {
        Effect::Ended { target, outcome, .. } => Some((target.to_string(), *outcome)),
        Effect::Event { .. } | Effect::LagWaited { .. } | Effect::Deferred { .. } | Effect::Released { .. } => None,
    };
    world.effects.iter().filter_map(ended).collect()
}

/// An annotation begins a run with the id that came with it, at revision 1, and goes once it is accepted.
/// spec: PF-REQ-01, PF-REQ-10
#[test]
fn an_annotation_begins_a_run() {
    let mut world = World::orders();
    world.write_request(PDX);
    let Input::Requested { run_id, .. } = world.request() else {
        panic!("a request")
    };
    let follows = world.one_write(world.request()).unwrap();
    assert_eq!(world.run().run_id, run_id);
    assert_eq!(world.run().revision, Revision::new(1));
    assert_eq!(world.phase(), Phase::Admitting);
    assert_eq!(world.run().target_site, site(PDX));
    assert!(world.run().admission.validation_time.is_some());
    assert!(world.request_stands(), "its removal is a write of its own");
    world.input(follows.unwrap()).unwrap();
    assert!(!world.request_stands());
    assert!(world.event(EventReason::PlannedFailoverStarted).contains(PDX));
}

/// The override binds the run, and what the annotation does not say comes from the spec. spec: PF-REQ-03, PF-SET-02
#[test]
fn an_override_binds_the_run() {
    let mut world = World::orders();
    world.group.spec.planned_failover.drain_timeout = Span::seconds(7);
    world.annotate("pdx:maxLagWait=30s");
    assert_eq!(world.run().settings.max_lag_wait, Span::seconds(30));
    assert_eq!(world.run().settings.drain_timeout, Span::seconds(7));
}

/// A malformed value is refused by Event, counted under the site it asks for and removed; no block is written.
/// spec: PF-REQ-03, PF-REQ-04
#[test]
fn a_malformed_value_leaves_no_block() {
    let cases = [
        (":maxLagWait=5s", "invalid"),
        ("pdx:colour=red", "pdx"),
        ("pdx:maxLagWait=5s:maxLagWait=5s", "pdx"),
        ("pdx:", "pdx"),
        ("p dx", "invalid"),
        ("pdx:maxLagWait=0s", "pdx"),
        ("pdx:maxLagWait=2h", "pdx"),
        ("pdx:maxLagWait=soon", "pdx"),
    ];
    for (value, counted_under) in cases {
        let mut world = World::orders();
        world.annotate(value);
        assert!(world.group.run().is_none(), "{value}");
        assert!(!world.request_stands(), "{value}");
        assert_eq!(world.count(EventReason::PlannedFailoverRejected), 1, "{value}");
        assert_eq!(
            counted(&world),
            [(counted_under.to_owned(), Outcome::NotStarted)],
            "{value}"
        );
    }
}

/// A request for the active site is removed with an Event that is no warning; no block is written. spec: PF-REQ-05
#[test]
fn the_active_site_is_skipped() {
    let mut world = World::orders();
    world.annotate(IAD);
    assert!(world.group.run().is_none());
    assert!(!world.request_stands());
    assert_eq!(world.count(EventReason::PlannedFailoverSkipped), 1);
    assert!(!EventReason::PlannedFailoverSkipped.is_warning());
    assert!(counted(&world).is_empty());
}

/// In every live phase a copy of the run's own request goes without a word. spec: PF-REQ-06
#[test]
fn a_copy_of_the_own_request_goes_silently() {
    for phase in live_phases() {
        for copy in ["pdx", "pdx:maxLagWait=5m"] {
            let mut world = World::at_phase(phase);
            let before = (world.run().clone(), world.effects.len());
            world.annotate(copy);
            assert!(!world.request_stands(), "{phase} {copy}");
            assert_eq!(before, (world.run().clone(), world.effects.len()), "{phase} {copy}");
        }
    }
}

/// In every live phase another request is removed with a warning, and the run goes on untouched. spec: PF-REQ-06, PF-REQ-09
#[test]
fn another_request_is_ignored_beside_a_live_run() {
    for phase in live_phases() {
        for other in ["iad", "pdx:maxLagWait=30s", "fra", "nowhere"] {
            let mut world = World::at_phase(phase);
            let before = world.run().clone();
            world.annotate(other);
            assert!(!world.request_stands(), "{phase} {other}");
            assert_eq!(before, *world.run(), "{phase} {other}");
            assert_eq!(
                world.event(EventReason::PlannedFailoverRejected),
                "planned-failover annotation ignored: a previous planned failover is still running"
            );
        }
    }
}

fn live_phases() -> Vec<Phase> {
    let live = |phase: &&Phase| !phase.is_terminal() && **phase != Phase::Deferred;
    Phase::ALL.iter().filter(live).copied().collect()
}

/// A run that waits before its validation keeps its annotation, and any other one is still ignored. spec: PF-REQ-10, PF-REQ-06
#[test]
fn a_wait_before_the_validation_keeps_the_annotation() {
    let mut world = World::orders();
    world.group.status.active_site = None;
    world.annotate(PDX);
    assert_eq!(world.phase(), Phase::Admitting);
    assert_eq!(world.run().admission.wait_reason, Some(WaitReason::AuthorityUnsettled));
    world.input(world.request()).unwrap();
    assert!(world.request_stands());
    world.group.status.active_site = Some(site(IAD));
    world.tick_after(5);
    assert!(world.run().admission.validation_time.is_some());
    assert!(!world.request_stands(), "validation has accepted");

    let mut world = World::orders();
    world.group.status.active_site = None;
    world.annotate(PDX);
    world.annotate("pdx:maxLagWait=30s");
    assert!(!world.request_stands());
    assert_eq!(world.count(EventReason::PlannedFailoverRejected), 1);
}

/// Every end without a start removes the annotation that was judged. spec: PF-REQ-10
#[test]
fn a_run_that_did_not_start_takes_its_annotation_along() {
    // At once.
    let mut world = World::orders();
    groups::status_of(&mut world.group, PDX).state = SiteState::Unreachable;
    world.annotate("pdx:maxLagWait=30s");
    assert_eq!(world.ending(), (Outcome::NotStarted, Some(Reason::TargetUnhealthy)));
    assert!(!world.request_stands());
    // After a wait before the validation.
    let mut world = World::orders();
    world.group.status.active_site = None;
    world.annotate(PDX);
    world.tick_after(120);
    assert_eq!(world.ending(), (Outcome::NotStarted, Some(Reason::AdmissionTimeout)));
    assert!(!world.request_stands());
}

/// A value that was written while another one was judged is left for the next pass. spec: PF-REQ-08
#[test]
fn a_value_written_meanwhile_is_left() {
    // The message is about a value that is gone.
    let mut world = World::orders();
    world.write_request(PDX);
    let stale = world.request();
    world.write_request("pdx:maxLagWait=30s");
    world.input(stale).unwrap();
    assert!(world.group.run().is_none());
    assert_eq!(world.group.annotation(PLANNED_FAILOVER), Some("pdx:maxLagWait=30s"));
    // The end of one request and the next request meet.
    for newer in ["fra", "pdx:maxLagWait=30s"] {
        let mut world = World::orders();
        world.group.status.active_site = None;
        world.annotate(PDX);
        world.write_request(newer);
        world.tick_after(120);
        assert_eq!(world.phase(), Phase::Failed);
        assert_eq!(world.group.annotation(PLANNED_FAILOVER), Some(newer));
    }
    // A removal names the value that it removes.
    let mut world = World::orders();
    world.write_request(FRA);
    world.input(Input::RemoveRequest { value: PDX.to_owned() }).unwrap();
    assert!(world.request_stands());
    world.input(Input::RemoveRequest { value: FRA.to_owned() }).unwrap();
    assert!(!world.request_stands());
}

/// A deferred run takes what the annotation says when it resumes: another target, another wait. spec: PF-REQ-07, PF-SET-02
#[test]
fn a_deferred_run_resumes_with_the_annotation_of_then() {
    let mut world = World::at_phase(Phase::Deferred);
    let run_id = world.run().run_id;
    groups::spec_of(&mut world.group, FRA).role = bloodraven_types::SiteRole::PrimaryCandidate;
    world.annotate("fra:maxLagWait=30s");
    assert_eq!(world.phase(), Phase::Deferred, "the annotation is kept");
    assert!(world.request_stands());
    assert_eq!(world.run().target_site, site(PDX));
    world.group.spec.planned_failover.drain_timeout = Span::seconds(9);
    world.tick_after(200);
    assert_eq!(world.phase(), Phase::Admitting);
    assert_eq!(world.run().run_id, run_id);
    assert_eq!(world.run().target_site, site(FRA));
    assert_eq!(world.run().settings.max_lag_wait, Span::seconds(30));
    assert_eq!(world.run().settings.drain_timeout, Span::seconds(9));
    assert!(!world.request_stands(), "validation has accepted");
}

/// Removing the annotation of a deferred run ends it, told or seen. spec: PF-REQ-07
#[test]
fn a_deferred_run_is_cancelled_by_removing_its_annotation() {
    for told in [true, false] {
        let mut world = World::at_phase(Phase::Deferred);
        world.remove_request();
        if told {
            world.tell(Fact::Cancelled(bloodraven_types::fact::Cancelled {}));
        } else {
            world.tick();
        }
        assert_eq!(world.ending(), (Outcome::NotStarted, Some(Reason::Canceled)));
    }
    // The message is late: the annotation is there again.
    let mut world = World::at_phase(Phase::Deferred);
    world.tell(Fact::Cancelled(bloodraven_types::fact::Cancelled {}));
    assert_eq!(world.phase(), Phase::Deferred);
}

/// A malformed value that a deferred run finds when it resumes ends it, and goes with it. spec: PF-REQ-07, PF-REQ-10
#[test]
fn a_malformed_value_ends_a_deferred_run() {
    let mut world = World::at_phase(Phase::Deferred);
    world.write_request("pdx:maxLagWait=2h");
    world.tick_after(200);
    assert_eq!(world.ending(), (Outcome::NotStarted, Some(Reason::InvalidAnnotation)));
    assert!(!world.request_stands());
    assert_eq!(world.count(EventReason::PlannedFailoverRejected), 1);
}

/// A new annotation replaces an ended block, and nothing else does. spec: PF-REQ-09
#[test]
fn a_new_request_replaces_an_ended_block() {
    for phase in [Phase::Succeeded, Phase::Failed] {
        let mut world = World::at_phase(phase);
        let old = world.run().run_id;
        world.group.status.active_site = Some(site(IAD));
        world.tick_after(500);
        assert_eq!(world.run().run_id, old, "{phase}: kept until then");
        world.annotate(PDX);
        assert_ne!(world.run().run_id, old, "{phase}");
        assert_eq!(world.phase(), Phase::Admitting, "{phase}");
        assert_eq!(world.run().revision, Revision::new(1), "{phase}");
        assert_eq!(world.run().result, None, "{phase}");
    }
}

/// The compare-and-set of a request is judged at once, and again after a wait or a deferral. spec: X-CAS-01
#[test]
fn an_unexpected_active_site_refuses_the_request() {
    let mut world = World::orders();
    world.annotate("pdx:expect=fra");
    assert_eq!(
        world.ending(),
        (Outcome::NotStarted, Some(Reason::UnexpectedActiveSite))
    );
    assert!(world.run().message.contains("\"fra\"") && world.run().message.contains(IAD));
    assert!(!world.request_stands());

    let mut world = World::orders();
    world.annotate("pdx:expect=iad");
    assert_eq!(world.phase(), Phase::Admitting);

    let mut world = World::orders();
    world.group.spec.planned_failover.on_cooldown = OnCooldown::Defer;
    groups::failed_over(&mut world.group, IAD, -100);
    world.annotate("pdx:expect=iad");
    assert_eq!(world.phase(), Phase::Deferred);
    world.group.status.active_site = Some(site(FRA));
    groups::failed_over(&mut world.group, FRA, -90);
    world.tick_after(300);
    assert_eq!(
        world.ending(),
        (Outcome::NotStarted, Some(Reason::UnexpectedActiveSite))
    );
}

/// A request told twice begins one run. report: B52
#[test]
fn a_request_told_twice_begins_one_run() {
    let mut world = World::orders();
    world.write_request(PDX);
    let request = world.request();
    world.input(request.clone()).unwrap();
    world.tell(facts::granted());
    let before = (world.group.clone(), world.writes);
    world.input(request).unwrap();
    assert_eq!(before, (world.group.clone(), world.writes));
}

/// A request beside a block that this version did not write is refused by name, goes, and leaves the block as it is.
/// spec: PF-DUR-10
#[test]
fn a_request_beside_a_legacy_block_is_refused() {
    let mut world = World::orders();
    world.group.status.legacy_run = Some(serde_json::json!({ "phase": "Validating" }));
    world.annotate(PDX);
    assert!(world.group.run().is_none());
    assert!(world.group.status.legacy_run.is_some());
    assert!(!world.request_stands());
    assert!(
        world
            .event(EventReason::PlannedFailoverRejected)
            .contains("LegacyRunRefused")
    );
    assert_eq!(counted(&world), [(PDX.to_owned(), Outcome::NotStarted)]);
}
