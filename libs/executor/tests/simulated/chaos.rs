//! Whole runs under thousands of seeds: processes end anywhere, messages are lost and repeated, writes are ambiguous,
//! statements hang; at no moment are there two writers, and nothing that was acknowledged is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_sim::random::Random;
use bloodraven_sim::setting::{PEER, SOURCE, TARGET};
use bloodraven_sim::{Applied, Cast, Event, Fault, Kind, Plan, Setting, World};
use bloodraven_types::{Group, Outcome, Phase, SiteName, SiteRole};

use crate::story::until_ended;

const SEEDS: u64 = 2_000;

/// A world of this seed with everything that can go wrong in it, and how its run ended.
fn play(seed: u64) -> (World, Group) {
    let mut random = Random::new(seed);
    let lag = random.duration(&(Duration::ZERO..=Duration::from_millis(400)));
    let world = Setting::new(seed).lag(lag).build();
    {
        let mut state = world.state();
        state.lingering = 300;
        state.api.misfortune = random.below(120);
        state.post.weather.lost = random.below(100);
        state.post.weather.doubled = random.below(200);
        state.post.weather.delay =
            Duration::from_micros(200)..=random.duration(&(Duration::from_millis(1)..=Duration::from_secs(3)));
    }
    for _ in 0..random.below(7) {
        statement_goes_wrong(&world, &mut random);
    }
    let role_change = random
        .chance(50)
        .then(|| random.duration(&(Duration::ZERO..=Duration::from_millis(300))));
    let cast = Cast::new(
        &world,
        Plan {
            crashes: random.below(700),
            crashes_until: Duration::from_secs(60),
            client_pause: Some(Duration::from_millis(5)..=Duration::from_millis(60)),
            silences: random
                .chance(300)
                .then(|| Duration::from_millis(50)..=Duration::from_secs(14)),
            ..Plan::default()
        },
    );
    let group = world
        .run(cast.play(async {
            world.time.sleep(Duration::from_millis(1_200)).await;
            world.state().annotate(Some(TARGET));
            if let Some(moment) = role_change {
                world.time.sleep(moment).await;
                demote(&world);
            }
            let group = until_ended(&world, Duration::from_secs(600)).await;
            world.time.sleep(Duration::from_secs(2)).await;
            group
        }))
        .unwrap_or_else(|stalled| panic!("seed {seed}: {stalled}\n{}", world.journal().text()));
    (world, group)
}

/// The spec is edited in mid-run: the target is no candidate any more.
fn demote(world: &World) {
    world.state().edit(|group| {
        for site in &mut group.spec.sites {
            if site.name.as_str() == TARGET {
                site.role = SiteRole::DisasterRecovery;
            }
        }
    });
}

fn statement_goes_wrong(world: &World, random: &mut Random) {
    let site = [SOURCE, TARGET, TARGET, PEER][usize::try_from(random.below(4)).unwrap()];
    let kind = [
        None,
        Some(Kind::SetSuperReadOnly),
        Some(Kind::OpenForWrites),
        Some(Kind::StopReplica),
        Some(Kind::ResetReplicaAll),
        Some(Kind::Observe),
    ][usize::try_from(random.below(6)).unwrap()];
    let later = random.duration(&(Duration::from_millis(1)..=Duration::from_secs(8)));
    let fault = match random.below(7) {
        0 => Fault::Refuse(1205),
        1 => Fault::Slow(later),
        2 => Fault::Killed { applied: true },
        3 => Fault::Killed { applied: false },
        4 => Fault::Unsettled(Applied::Later(later)),
        5 => Fault::Unsettled(Applied::Before),
        _ => Fault::Unreachable,
    };
    let (skip, times) = (random.below(4), 1 + random.below(2));
    world.faults(
        site,
        kind,
        u32::try_from(skip).unwrap(),
        u32::try_from(times).unwrap(),
        fault,
    );
}

/// The seeds to play: two thousand, or those of `BLOODRAVEN_SIM_SEEDS=<from>..<to>`, to play one again or many more.
fn seeds() -> std::ops::Range<u64> {
    let Ok(range) = std::env::var("BLOODRAVEN_SIM_SEEDS") else {
        return 0..SEEDS;
    };
    let (from, to) = range.split_once("..").unwrap();
    from.parse().unwrap()..to.parse().unwrap()
}

/// Whatever goes wrong: the target never takes writes before the source's fence, every role change is announced by a
/// committed record, the run ends, and everything acknowledged is on whoever takes writes then.
/// spec: PF-DUR-01, PF-CLM-04; report: B22
#[test]
fn two_thousand_stories_have_one_writer_and_lose_nothing() {
    let mut outcomes: BTreeMap<Outcome, u32> = BTreeMap::new();
    let mut crashes = 0;
    for seed in seeds() {
        let (world, group) = play(seed);
        let run = group.run().unwrap_or_else(|| panic!("seed {seed}: no run"));
        let journal = world.journal();
        let told = || format!("seed {seed}: {:?}\n{}", run.result, journal.text());
        assert!(run.phase.is_terminal(), "{}", told());
        let outcome = run.result.as_ref().unwrap().outcome;
        *outcomes.entry(outcome).or_default() += 1;
        crashes += journal
            .entries()
            .iter()
            .filter(|entry| matches!(entry.event, Event::Crashed(_)))
            .count();
        assert_eq!(world.violations(), Vec::<String>::new(), "{}", told());
        nothing_is_lost(&world, outcome, &told);
    }
    let succeeded = outcomes.get(&Outcome::Succeeded).copied().unwrap_or_default();
    let all: u32 = outcomes.values().sum();
    // The stories are worth something: most of them get to the end in spite of many crashes.
    assert!(
        succeeded * 2 > all && crashes > usize::try_from(all).unwrap(),
        "{outcomes:?}, {crashes} crashes"
    );
}

fn nothing_is_lost(world: &World, outcome: Outcome, told: &dyn Fn() -> String) {
    let journal = world.journal();
    let state = world.state();
    let target = state.servers.get(&SiteName::new(TARGET)).unwrap();
    for entry in journal.entries() {
        let Event::Acknowledged(_, transaction) = entry.event else {
            continue;
        };
        if outcome == Outcome::Succeeded {
            assert!(
                target.has(transaction),
                "{transaction:?} is not on the target\n{}",
                told()
            );
        }
        for server in state.servers.values().filter(|server| server.serves_writes()) {
            assert!(
                server.has(transaction),
                "{transaction:?} is not on {}\n{}",
                server.site,
                told()
            );
        }
    }
}

/// The same seed tells the same story, to the microsecond.
#[test]
fn a_seed_tells_one_story() {
    for seed in [3, 77] {
        let (first, group) = play(seed);
        let (second, _) = play(seed);
        assert_eq!(first.journal().text(), second.journal().text());
        assert!(group.run().is_some_and(|run| run.phase != Phase::Admitting));
    }
}
