//! The annotation and its user: whatever is written while something else is judged survives and is judged next.

use std::time::Duration;

use bloodraven_sim::random::Random;
use bloodraven_sim::setting::{PEER, SOURCE, TARGET};
use bloodraven_sim::{Cast, Event, Moment, Plan, Setting, World, Writer};
use bloodraven_types::fact::Requested;
use bloodraven_types::group::FailoverRecord;
use bloodraven_types::words::OnCooldown;
use bloodraven_types::{EventReason, Fact, Group, Outcome, Phase, Reason, SiteName, annotation};

use crate::story::until_ended;

const INTERLEAVINGS: u64 = 1_000;

fn until_quiet(world: &World, cast: Cast, user: impl Future<Output = ()>) -> Group {
    world
        .run(cast.play(async {
            user.await;
            let group = until_ended(world, Duration::from_secs(400)).await;
            // Long enough for a request that was told again, and for its answer.
            world.time.sleep(Duration::from_secs(5)).await;
            drop(group);
            world.group()
        }))
        .unwrap()
}

/// The user rewrites the annotation while the removal of the value before is on its way: the new value survives, is
/// judged next, and is refused beside the run that goes on. spec: PF-REQ-08, PF-REQ-06; report: B59
#[test]
fn a_value_written_meanwhile_survives() {
    let world = Setting::new(1).build();
    let cast = Cast::new(&world, Plan::default());
    // The first write begins the run, the second one removes the annotation.
    world.at_later(Moment::BeforeWrite, 1, |state| state.annotate(Some(PEER)));
    let group = until_quiet(&world, cast, async { world.state().annotate(Some(TARGET)) });
    let journal = world.journal();
    assert_eq!(
        group.run().unwrap().result.as_ref().unwrap().outcome,
        Outcome::Succeeded
    );
    let told = |value: &str| {
        let fact = Fact::Requested(Requested {
            value: value.to_owned(),
        });
        journal.position(|event| matches!(event, Event::Told(_, told) if *told == fact))
    };
    assert!(told(PEER) > told(TARGET));
    let rejected = journal.position(|event| {
        matches!(event, Event::Emitted(EventReason::PlannedFailoverRejected, message) if message.contains("still running"))
    });
    assert!(rejected > told(PEER), "{}", journal.text());
}

/// The same value once more after the success: the annotation goes, an Event says why, and no second run begins.
/// spec: PF-REQ-05; report: B59
#[test]
fn a_request_that_is_met_is_skipped() {
    let world = Setting::new(2).build();
    let cast = Cast::new(&world, Plan::default());
    let group = until_quiet(&world, cast, async {
        world.state().annotate(Some(TARGET));
        until_ended(&world, Duration::from_secs(60)).await;
        // The topology manager has seen the new primary by then.
        world.time.sleep(Duration::from_secs(12)).await;
        world.state().annotate(Some(TARGET));
        world.time.sleep(Duration::from_secs(5)).await;
    });
    let emitted = world.journal().emitted();
    let count = |reason| emitted.iter().filter(|one| **one == reason).count();
    assert_eq!(count(EventReason::PlannedFailoverSkipped), 1, "{emitted:?}");
    assert_eq!(count(EventReason::PlannedFailoverStarted), 1);
    assert_eq!(group.run().unwrap().phase, Phase::Succeeded);
    assert_eq!(group.annotation(annotation::PLANNED_FAILOVER), None);
}

/// A deferred request whose annotation the user removes ends cancelled. spec: PF-REQ-07; report: B59
#[test]
fn a_deferred_request_is_cancelled() {
    let world = Setting::new(3).build();
    let recorded = world.wall_clock();
    world.state().edit(|group| {
        group.spec.planned_failover.on_cooldown = OnCooldown::Defer;
        group.status.last_failover = Some(FailoverRecord {
            time: recorded,
            target: SiteName::new(SOURCE),
            promotion_gtid_executed: None,
        });
    });
    let cast = Cast::new(&world, Plan::default());
    let group = until_quiet(&world, cast, async {
        world.state().annotate(Some(TARGET));
        world.time.sleep(Duration::from_secs(3)).await;
        assert_eq!(world.group().run().unwrap().phase, Phase::Deferred);
        world.state().annotate(None);
    });
    let result = group.run().unwrap().result.clone().unwrap();
    assert_eq!(
        (result.outcome, result.reason),
        (Outcome::NotStarted, Some(Reason::Canceled))
    );
}

/// A user who writes, rewrites and removes the annotation at any moment of a run: only a value that was judged is ever
/// removed, and at the end each has its answer. spec: PF-REQ-08; report: B59
#[test]
fn a_thousand_interleavings() {
    for seed in 0..INTERLEAVINGS {
        let world = Setting::new(seed).build();
        let cast = Cast::new(&world, Plan::default());
        let group = until_quiet(&world, cast, meddle(&world, Random::new(seed)));
        assert_eq!(
            group.annotation(annotation::PLANNED_FAILOVER),
            None,
            "seed {seed}: {}",
            world.journal().text()
        );
        only_judged_values_went(&world, seed);
        assert_eq!(world.violations(), Vec::<String>::new(), "seed {seed}");
    }
}

/// Half a dozen changes of the annotation within the time that a run takes.
async fn meddle(world: &World, mut random: Random) {
    for change in 0..6_u64 {
        let value = match random.below(6) {
            0 => None,
            1 => Some(TARGET.to_owned()),
            2 => Some(format!("{PEER}:maxLagWait={}s", 10 + change)),
            3 => Some(format!("no site:{change}")),
            // Each is a request of its own: no other has this wait.
            _ => Some(format!("{TARGET}:maxLagWait={}s", 10 + change)),
        };
        world.state().annotate(value.as_deref());
        let pause = random.duration(&(Duration::ZERO..=Duration::from_millis(40)));
        let long = random.chance(150);
        world.time.sleep(if long { pause * 50 } else { pause }).await;
    }
}

fn only_judged_values_went(world: &World, seed: u64) {
    let journal = world.journal();
    let mut told: Vec<&str> = Vec::new();
    for entry in journal.entries() {
        match &entry.event {
            Event::Told(_, Fact::Requested(requested)) => told.push(&requested.value),
            Event::Wrote {
                by: Writer::Keeper,
                annotations,
                ..
            } => {
                let Some((Some(removed), None)) = annotations.get(annotation::PLANNED_FAILOVER) else {
                    continue;
                };
                // A bare repetition of the target is a copy of any request for it.
                let copy = removed == TARGET && told.iter().any(|value| value.starts_with(TARGET));
                assert!(
                    copy || told.contains(&removed.as_str()),
                    "seed {seed}: {removed:?} went without having been judged\n{}",
                    journal.text()
                );
            }
            _ => {}
        }
    }
}
