//! The claim's taking, the fence and the drain.

use bloodraven_types::annotation::LAST_FAILOVER;
use bloodraven_types::fact::{Drained, Fact, Fenced, Granted};
use bloodraven_types::group::ClaimKind;
use bloodraven_types::{Command, EventReason, Outcome, Phase, Reason, StepState, Warning};

use crate::kit::{AMS, FRA, IAD, PDX, World, at, facts, groups, server, site};

/// One write takes the claim and announces the fence; the command to fence follows from that record and carries its server.
/// spec: PF-FEN-01, PF-CLM-01, PF-DUR-01
#[test]
fn one_write_takes_the_claim_and_announces_the_fence() {
    let mut world = World::orders();
    groups::failed_over(&mut world.group, IAD, -5000);
    world.annotate(PDX);
    let (writes, revision) = (world.writes, world.run().revision);
    world.after(4);
    world.tell(facts::granted());
    assert_eq!(world.writes, writes + 1);
    let run = world.run();
    assert_eq!(run.revision, revision.next());
    assert_eq!(run.phase, Phase::Fencing);
    assert_eq!(run.source_site, Some(site(IAD)));
    assert_eq!(run.claim_time, Some(at(4)));
    let baseline = run.claim_baseline.as_ref().unwrap();
    assert_eq!(
        (baseline.time, baseline.target.clone()),
        (Some(at(-5000)), Some(site(IAD)))
    );
    let fence = run.fence.as_ref().unwrap();
    assert_eq!(fence.state, StepState::Intended);
    assert_eq!(fence.intent_time, at(4));
    assert_eq!(fence.source_server_uuid, server(IAD));
    assert_eq!((fence.apply_time, fence.gtid_set.as_deref()), (None, None));
    assert_eq!(run.admission.wait_reason, None);
    assert_eq!(run.admission.deadline_time, Some(at(120)));
    let claim = world.group.status.claim.as_ref().unwrap();
    assert_eq!((claim.epoch.get(), claim.kind), (1, Some(ClaimKind::PlannedFailover)));
    assert_eq!(claim.holder, Some(run.run_id.to_string()));
    let Command::Fence(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!((command.source, command.target), (site(IAD), site(PDX)));
    assert_eq!(command.source_server_uuid, server(IAD));
    assert_eq!(command.deadline, at(34));
    let granted = world.event(EventReason::PlannedFailoverClaimGranted);
    for name in [&world.run().run_id.to_string(), IAD, PDX] {
        assert!(granted.contains(name), "{granted}");
    }
}

/// The fence's proof puts its set on the record, and only then is anything asked for that rests on it.
/// spec: PF-FEN-04, PF-DRN-01
#[test]
fn the_fenced_set_is_on_the_record_before_anything_rests_on_it() {
    let mut world = World::at_phase(Phase::Fencing);
    world.after(2);
    world.tell(facts::fenced());
    let fence = world.run().fence.as_ref().unwrap();
    assert_eq!(fence.state, StepState::Applied);
    assert_eq!(fence.apply_time, Some(at(1)));
    assert_eq!(fence.gtid_set, Some(facts::fenced_set()));
    assert_eq!(world.phase(), Phase::Draining);
    assert_eq!(world.run().drain.as_ref().unwrap().start_time, at(2));
    assert_eq!(world.count(EventReason::PlannedFailoverDrainStarted), 1);
    let Command::Drain(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert_eq!(command.deadline, at(32));
    assert_eq!(command.source_server_uuid, server(IAD));
}

/// An empty fenced set is valid: a target with an empty set holds it, one with any transaction does not.
/// spec: PF-FEN-04, PF-LAG-02 report: B06
#[test]
fn an_empty_fenced_set_is_valid() {
    let mut world = World::at_phase(Phase::Fencing);
    world.tell(facts::fenced_with(""));
    world.tell(facts::drained());
    assert_eq!(world.run().fence.as_ref().unwrap().gtid_set.as_deref(), Some(""));
    let mut diverged = world.clone();
    world.tell(facts::caught_up_with(""));
    assert_eq!(world.phase(), Phase::Promoting);
    diverged.tell(facts::caught_up_with(&format!("{}:1", server(PDX))));
    assert_eq!(
        diverged.run().rollback.as_ref().unwrap().reason,
        Reason::DivergentTarget
    );
}

/// A fence that is reported by another server than the intended one is no fence of the run. spec: PF-FEN-05
#[test]
fn a_fence_of_another_server_is_no_fence() {
    let mut world = World::at_phase(Phase::Fencing);
    world.tell(Fact::Fenced(Fenced {
        source_server_uuid: server("other"),
        gtid_set: facts::fenced_set(),
        apply_time: at(1),
        unreachable_peers: Vec::new(),
    }));
    assert_eq!(world.run().rollback.as_ref().unwrap().reason, Reason::AuthorityChanged);
    assert_eq!(world.run().fence.as_ref().unwrap().state, StepState::Intended);
}

/// A source found replaced or read-only before the fence turns the run back, and such a read-only source is not the run's to
/// open. spec: PF-FEN-05, PF-RBK-06
#[test]
fn authority_lost_before_the_fence_leaves_the_source_alone() {
    let mut world = World::at_phase(Phase::Fencing);
    world.tell(facts::fence_failed(Reason::AuthorityChanged));
    assert_eq!(world.phase(), Phase::RollingBack);
    let Command::Unfence(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert!(!command.attributable);
    assert_eq!(command.target_server_uuid, None);
}

/// The fence has thirty seconds from its intent; the keeper gives the fencer a moment longer to say what happened.
/// spec: PF-FEN-03
#[test]
fn a_fence_that_is_not_proven_fails() {
    let mut world = World::at_phase(Phase::Fencing);
    world.tick_after(32);
    assert_eq!(world.phase(), Phase::Fencing);
    world.tick_after(1);
    assert_eq!(world.run().rollback.as_ref().unwrap().reason, Reason::FenceFailed);
    let mut world = World::at_phase(Phase::Fencing);
    world.tell(facts::fence_failed(Reason::FenceFailed));
    assert_eq!(world.run().rollback.as_ref().unwrap().reason, Reason::FenceFailed);
    let Command::Unfence(command) = world.command() else {
        panic!("{:?}", world.command())
    };
    assert!(command.attributable, "its own fence may have been applied");
    assert_eq!(command.gtid_set, None);
}

/// The drain ends either way, with what it left on the record; what cannot be read is left unset and said so.
/// spec: PF-DRN-01, PF-DRN-02
#[test]
fn the_drain_ends_either_way() {
    let ways = [
        (Some(0), None, "apply the fenced set"),
        (Some(4), None, "4 connections remain on \"iad\""),
        (
            None,
            Some("no privilege"),
            "the connections remaining on \"iad\" are unknown (no privilege)",
        ),
    ];
    for (remaining_connections, error, message) in ways {
        let mut world = World::at_phase(Phase::Draining);
        world.after(8);
        world.tell(Fact::Drained(Drained {
            remaining_connections,
            killed: 2,
            error: error.map(str::to_owned),
        }));
        assert_eq!(world.phase(), Phase::WaitingForLag);
        let drain = world.run().drain.as_ref().unwrap();
        assert_eq!(drain.completion_time, Some(at(8)));
        assert_eq!(drain.remaining_connections, remaining_connections);
        assert!(world.run().message.contains(message), "{}", world.run().message);
    }
}

/// A fencer that says nothing does not hold the run up: it goes on at the drain's timeout. spec: PF-DRN-02
#[test]
fn a_silent_drain_does_not_hold_the_run_up() {
    let mut world = World::at_phase(Phase::Draining);
    world.tick_after(32);
    assert_eq!(world.phase(), Phase::Draining);
    world.tick_after(1);
    assert_eq!(world.phase(), Phase::WaitingForLag);
    assert_eq!(world.run().drain.as_ref().unwrap().remaining_connections, None);
    assert!(world.run().message.contains("are unknown"));
}

/// A lost source, or one whose fence is gone, turns the run back while it drains. spec: PF-LOS-01
#[test]
fn a_source_lost_while_it_drains_turns_the_run_back() {
    for reason in [Reason::SourceLost, Reason::SourceUnfenced] {
        let mut world = World::at_phase(Phase::Draining);
        world.tell(facts::drain_failed(reason));
        assert_eq!(world.run().rollback.as_ref().unwrap().reason, reason);
        let Command::Unfence(command) = world.command() else {
            panic!("{:?}", world.command())
        };
        assert_eq!(
            command.retry,
            reason != Reason::SourceLost,
            "a lost source is looked at once"
        );
    }
}

/// Peers that were silent at the grant or right after the fence are a warning of every end. spec: PF-ADM-13
#[test]
fn silent_peers_are_a_warning_of_every_end() {
    let fenced = || {
        let mut world = World::at_phase(Phase::Fencing);
        world.tell(Fact::Fenced(Fenced {
            source_server_uuid: server(IAD),
            gtid_set: facts::fenced_set(),
            apply_time: at(1),
            unreachable_peers: vec![site(FRA)],
        }));
        world
    };
    let granted = || {
        let mut world = World::at_phase(Phase::Admitting);
        world.tell(Fact::Granted(Granted {
            source: site(IAD),
            source_server_uuid: server(IAD),
            target_server_uuid: server(PDX),
            unreachable_readers: vec![site(AMS)],
        }));
        world.tell(facts::fenced());
        world
    };
    for begin in [fenced(), granted()] {
        let mut drained = begin.clone();
        drained.tell(facts::drained());
        let mut promoting = drained.clone();
        promoting.tell(facts::caught_up());

        let mut succeeded = promoting.clone();
        succeeded.tell(facts::promoted());
        succeeded.tell(facts::published());
        let mut rolled_back = begin.clone();
        rolled_back.tell(facts::drain_failed(Reason::SourceUnfenced));
        rolled_back.tell(facts::unfenced());
        let mut left_fenced = begin.clone();
        left_fenced.tell(facts::drain_failed(Reason::SourceLost));
        left_fenced.tick_after(60);
        let mut removed = drained.clone();
        removed.drop_site(IAD);
        removed.tick();
        let mut unconfirmed = promoting.clone();
        unconfirmed.tick_after(600);
        let mut held = promoting.clone();
        groups::annotate_failover(&mut held.group, &at(5).to_string(), FRA);
        held.tick();
        let outcomes = [
            (succeeded, Outcome::Succeeded),
            (rolled_back, Outcome::RolledBack),
            (left_fenced, Outcome::SourceLeftFenced),
            (removed, Outcome::SourceLeftFenced),
            (unconfirmed, Outcome::PromotedUnconfirmed),
            (held, Outcome::ManualRecoveryRequired),
        ];
        for (world, outcome) in outcomes {
            assert_eq!(world.ending().0, outcome);
            assert_eq!(world.warnings(), [Warning::UnreachablePeers], "{outcome}");
        }
    }
}

/// A failover record that cannot be read when the claim is to be taken refuses the run: there is no baseline to take.
/// spec: PF-ADM-02
#[test]
fn no_claim_is_taken_on_an_unreadable_baseline() {
    let mut world = World::at_phase(Phase::Admitting);
    world
        .group
        .annotations
        .insert(LAST_FAILOVER.to_owned(), "junk".to_owned());
    world.tell(facts::granted());
    assert_eq!(
        world.ending(),
        (Outcome::NotStarted, Some(Reason::InvalidFailoverState))
    );
}
