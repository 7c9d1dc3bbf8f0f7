//! Every phase against every input: a write, nothing, or no place; never a panic, and no place leaves everything as it was.

use bloodraven_failover::{Input, step};
use bloodraven_types::record::PlannedFailover;
use bloodraven_types::{Outcome, Phase, Reason};

use crate::kit::{World, at, facts};

/// The facts that a phase has a place for, besides ticks and requests, which have one everywhere.
fn place_for(phase: Phase) -> &'static [&'static str] {
    match phase {
        Phase::Admitting => &["granted", "waiting", "refused"],
        Phase::Deferred => &["cancelled"],
        Phase::Fencing => &["fenced", "fence-failed"],
        Phase::Draining => &["drained", "drain-failed"],
        Phase::WaitingForLag => &["caught-up", "lagging", "catch-up-failed"],
        Phase::WaitingForDragonflySync => &["cache-offset", "cache-synced", "cache-failed"],
        Phase::PromotingDragonfly => &["cache-taken-over", "cache-failed"],
        Phase::Promoting => &["promoted", "promotion-failed", "published"],
        Phase::Publishing => &["published"],
        Phase::RollingBack => &["target-restored", "unfenced", "unfence-failed"],
        Phase::Succeeded | Phase::Failed => &[],
    }
}

/// Each phase takes its own facts and no others, at any time. spec: PF-DUR-12
#[test]
fn each_phase_takes_its_own_facts_and_no_others() {
    for phase in Phase::ALL.iter().copied() {
        let world = World::at_phase(phase);
        for fact in facts::one_of_each() {
            let name = fact.name();
            for seconds in [-1000, 0, 50, 1_000_000] {
                let verdict = step(&world.group, world.input_of(fact.clone()), at(seconds));
                let expected = place_for(phase).contains(&name) || name == "requested";
                assert_eq!(verdict.is_ok(), expected, "{phase} {name}: {verdict:?}");
                if let Err(illegal) = verdict {
                    assert_eq!(illegal.phase, Some(phase));
                    assert!(illegal.to_string().contains(illegal.input), "{illegal}");
                }
            }
        }
        for seconds in [-1000, 0, 50, 1_000_000] {
            assert!(step(&world.group, Input::Tick, at(seconds)).is_ok(), "{phase}");
        }
    }
}

/// What has no place changes nothing and says nothing.
#[test]
fn what_has_no_place_changes_nothing() {
    for phase in Phase::ALL.iter().copied() {
        for fact in facts::one_of_each() {
            if !place_for(phase).contains(&fact.name()) && fact.name() != "requested" {
                World::at_phase(phase).no_place_for(fact);
            }
        }
    }
    for fact in facts::one_of_each()
        .into_iter()
        .filter(|fact| fact.name() != "requested")
    {
        World::orders().no_place_for(fact);
    }
}

/// A run that has ended ignores everything that is told of it, in order, reversed and again: not one write.
/// report: B52
#[test]
fn an_ended_run_ignores_every_fact() {
    for phase in [Phase::Succeeded, Phase::Failed] {
        let mut world = World::at_phase(phase);
        world.tick();
        let (group, effects, writes) = (world.group.clone(), world.effects.len(), world.writes);
        let all = facts::one_of_each();
        for fact in all.iter().chain(all.iter().rev()).chain(&all) {
            let input = world.input_of(fact.clone());
            let _dropped = world.input(input);
            world.tick_after(100);
            assert_eq!(world.commands(), []);
        }
        assert_eq!((world.effects.len(), world.writes), (effects, writes), "{phase}");
        assert_eq!(world.group, group);
    }
}

/// A record that lacks what its phase rests on ends as our own fault, whatever comes in, and nothing is sent for it.
/// spec: PF-OBS-01
#[test]
fn a_record_that_contradicts_itself_ends() {
    type Break = fn(&mut PlannedFailover);
    let breaks: [(Phase, Break); 8] = [
        (Phase::Fencing, |run| run.fence = None),
        (Phase::Draining, |run| run.drain = None),
        (Phase::WaitingForLag, |run| run.lag_wait = None),
        (Phase::WaitingForDragonflySync, |run| run.dragonfly = None),
        (Phase::PromotingDragonfly, |run| {
            run.dragonfly.as_mut().unwrap().takeover = None;
        }),
        (Phase::PromotingDragonfly, |run| run.settings.dragonfly = None),
        (Phase::Promoting, |run| run.promotion = None),
        (Phase::RollingBack, |run| run.rollback = None),
    ];
    for (phase, break_it) in breaks {
        let mut world = World::at_phase(phase);
        break_it(world.group.status.planned_failover.as_mut().unwrap());
        assert!(
            !world.commands().iter().any(|command| command.name() == "promote"),
            "{phase}"
        );
        world.tick();
        let outcome = if phase == Phase::Promoting {
            Outcome::PromotedUnconfirmed
        } else {
            Outcome::SourceLeftFenced
        };
        assert_eq!(world.ending(), (outcome, Some(Reason::InternalError)), "{phase}");
    }
}
