//! The annotation and its user: whatever is written while something else is judged survives and is judged next.

use std::time::Duration;

use bloodraven_executor::keeper::Kept;
use bloodraven_sim::cast::SimKeeper;
use bloodraven_sim::journal::Entry;
use bloodraven_sim::random::Random;
use bloodraven_sim::setting::{PEER, SOURCE, TARGET, run_id};
use bloodraven_sim::{Cast, Event, Moment, Plan, Setting, World, Writer};
use bloodraven_types::annotation::{self, PlannedFailoverRequest};
use bloodraven_types::fact::Requested;
use bloodraven_types::group::FailoverRecord;
use bloodraven_types::words::OnCooldown;
use bloodraven_types::{EventReason, Fact, Group, Outcome, Phase, PlannedFailover, Reason, Revision, RunRef, SiteName};

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

/// A user who writes, rewrites and removes the annotation while the keeper judges what was read of it earlier: only the
/// value that was judged is ever removed, or a copy of the run's own, and at the end each value has its answer.
/// spec: PF-REQ-08, PF-REQ-06; report: B59
#[test]
fn a_thousand_interleavings() {
    for seed in 0..INTERLEAVINGS {
        let world = Setting::new(seed).build();
        let mut random = Random::new(seed);
        let user = random.fork();
        world
            .run(async {
                let mut keeper = world.keeper();
                let judge = async {
                    for round in 0..20 {
                        judge_once(&world, &mut keeper, &mut random, round).await;
                    }
                };
                futures::join!(judge, meddle(&world, user));
                for round in 20..24 {
                    judge_once(&world, &mut keeper, &mut random, round).await;
                }
            })
            .unwrap();
        let left = world
            .group()
            .annotation(annotation::PLANNED_FAILOVER)
            .map(str::to_owned);
        assert_eq!(left, None, "seed {seed}: {}", world.journal().text());
    }
}

/// Reads the annotation, judges it a little later, and looks at what went meanwhile.
async fn judge_once(world: &World, keeper: &mut SimKeeper, random: &mut Random, round: u32) {
    let group = world.group();
    let Some(value) = group.annotation(annotation::PLANNED_FAILOVER).map(str::to_owned) else {
        world.time.sleep(Duration::from_millis(5)).await;
        return;
    };
    let pause = random.duration(&(Duration::ZERO..=Duration::from_millis(15)));
    world.time.sleep(pause).await;
    if round >= 20 || random.chance(700) {
        // Else the keeper goes on with what it knows, and the version of its write tells.
        keeper.changed(&world.group());
    }
    let about = RunRef {
        group: group.key.clone(),
        uid: group.uid.clone(),
        run_id: run_id(u128::from(round) + 1),
        revision: Revision::default(),
        epoch: group.epoch(),
    };
    let before = world.journal().entries().len();
    let fact = Fact::Requested(Requested { value: value.clone() });
    assert_eq!(keeper.fact(&about, fact).await, Kept::Done);
    let journal = world.journal();
    for removed in removals(&journal.entries()[before..]) {
        let copy = world.group().run().is_some_and(|run| is_copy(run, removed));
        let told = journal.text();
        assert!(
            *removed == value || copy,
            "{removed:?} went while {value:?} was judged\n{told}"
        );
    }
}

/// The values that the keeper removed.
fn removals(entries: &[Entry]) -> Vec<&String> {
    let removed = entries.iter().filter_map(|entry| match &entry.event {
        Event::Wrote {
            by: Writer::Keeper,
            annotations,
            ..
        } => match annotations.get(annotation::PLANNED_FAILOVER) {
            Some((Some(removed), None)) => Some(removed),
            _ => None,
        },
        _ => None,
    });
    removed.collect()
}

/// Whether a value asks for what the run does already.
fn is_copy(run: &PlannedFailover, value: &str) -> bool {
    PlannedFailoverRequest::parse(value).is_ok_and(|request| {
        let wait = request.max_lag_wait;
        request.target == run.target_site && wait.is_none_or(|wait| wait == run.settings.max_lag_wait)
    })
}

/// The same user beside whole runs, with every process of a deployment: nothing stays unanswered, and no run is disturbed.
/// spec: PF-REQ-08, PF-REQ-06; report: B59
#[test]
fn a_user_beside_whole_runs() {
    for seed in 0..200 {
        let world = Setting::new(seed).build();
        let cast = Cast::new(&world, Plan::default());
        let group = until_quiet(&world, cast, meddle(&world, Random::new(seed)));
        let told = || world.journal().text();
        assert_eq!(
            group.annotation(annotation::PLANNED_FAILOVER),
            None,
            "seed {seed}: {}",
            told()
        );
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
