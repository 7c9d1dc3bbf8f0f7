//! Crashes: a process that is killed after any write, and messages that come again, end in the same record.

use bloodraven_failover::{Input, commands, step};
use bloodraven_types::fact::PromotionReach::{MayBeWritable, NothingWritten};
use bloodraven_types::words::OnCooldown;
use bloodraven_types::words::OnSyncTimeout::{Fail, Proceed};
use bloodraven_types::{Fact, Group, Phase, PlannedFailover, Reason, StepState};

use crate::kit::{IAD, World, at, facts, groups};

/// One thing that happens in a story.
#[derive(Clone)]
enum Event {
    Annotate(&'static str),
    Told(Fact),
    After(i64),
}
use Event::{After, Annotate, Told};

fn stories() -> Vec<(&'static str, World, Vec<Event>)> {
    let begin = || {
        vec![
            Annotate("pdx"),
            Told(facts::granted()),
            After(1),
            Told(facts::fenced()),
            Told(facts::drained()),
        ]
    };
    let with = |more: Vec<Event>| [begin(), more].concat();
    let mut deferred = World::orders();
    deferred.group.spec.planned_failover.on_cooldown = OnCooldown::Defer;
    groups::failed_over(&mut deferred.group, IAD, -100);
    let mut unsettled = World::orders();
    unsettled.group.status.active_site = None;
    let end = vec![
        Told(facts::promoted()),
        Told(facts::published_dns(Some(StepState::Applied))),
    ];
    let cache = |fact| {
        with(vec![
            Told(facts::caught_up()),
            Told(facts::cache_offset(Some(7))),
            Told(facts::cache_synced(7)),
            Told(fact),
        ])
    };
    vec![
        (
            "succeeded",
            World::orders(),
            with([vec![Told(facts::caught_up())], end.clone()].concat()),
        ),
        (
            "succeeded with a cache",
            World::with_cache(Proceed),
            [cache(facts::cache_taken_over()), end.clone()].concat(),
        ),
        (
            "cache failed, proceed",
            World::with_cache(Proceed),
            [cache(facts::cache_failed(Reason::DragonflyPromotionFailed)), end].concat(),
        ),
        (
            "cache failed, fail",
            World::with_cache(Fail),
            [
                cache(facts::cache_failed(Reason::DragonflyPromotionFailed)),
                vec![Told(facts::unfenced())],
            ]
            .concat(),
        ),
        (
            "rolled back after the intent",
            World::orders(),
            with(vec![
                Told(facts::caught_up()),
                Told(facts::promotion_failed(Reason::PeerUnreadable, NothingWritten)),
                Told(facts::restored()),
                Told(facts::unfenced()),
            ]),
        ),
        (
            "held",
            World::orders(),
            with(vec![
                Told(facts::caught_up()),
                Told(facts::promotion_failed(Reason::ForeignWritable, MayBeWritable)),
            ]),
        ),
        (
            "deferred and cancelled",
            deferred.clone(),
            vec![Annotate("pdx"), After(50), After(300), Told(facts::granted())],
        ),
        (
            "refused",
            World::orders(),
            vec![Annotate("pdx"), Told(facts::refused(Reason::TargetUnhealthy))],
        ),
        ("refused at once", World::orders(), vec![Annotate("fra")]),
        ("never settled", unsettled, vec![Annotate("pdx"), After(60), After(60)]),
    ]
}

impl World {
    /// What the event tells, after it has happened in the world.
    fn stimulus(&mut self, event: &Event) -> Input {
        match event {
            Annotate(value) => {
                self.write_request(value);
                self.request()
            }
            Told(fact) => self.input_of(fact.clone()),
            After(seconds) => {
                self.after(*seconds);
                Input::Tick
            }
        }
    }
}

/// What a killed process's successor does first.
#[derive(Clone, Copy, PartialEq)]
enum Successor {
    /// It gets the same message again.
    IsTold,
    /// Its timer runs, and the message comes again after that.
    LooksFirst,
}

/// Plays a story. A process that has made `kill_after` writes in all is killed: what was to follow is lost with it.
fn play(mut world: World, story: &[Event], kill_after: Option<u32>, successor: Successor) -> World {
    let mut killed = false;
    for event in story {
        let told = world.stimulus(event);
        let mut next = Some(told.clone());
        while let Some(input) = next.take() {
            let writes = world.writes;
            next = world.one_write(input).unwrap_or(None);
            if !killed && world.writes > writes && kill_after == Some(world.writes) {
                killed = true;
                if successor == Successor::LooksFirst {
                    world.tick();
                }
                next = Some(told.clone());
            }
        }
    }
    // An annotation that stands is told again for as long as it does, under the same id.
    if world.request_stands() {
        world.input(world.request()).unwrap();
    }
    // A process that comes up looks at each group once.
    world.tick();
    world
}

/// Killed after any write of any story, the successor ends with the same record, annotations and claim.
/// spec: PF-DUR-12, PF-DUR-01
#[test]
fn killed_after_any_write_the_run_ends_the_same() {
    for (name, world, story) in stories() {
        let undisturbed = play(world.clone(), &story, None, Successor::IsTold);
        for kill_after in 1..=undisturbed.writes {
            for successor in [Successor::IsTold, Successor::LooksFirst] {
                let killed = play(world.clone(), &story, Some(kill_after), successor);
                let told = |group: &Group| (group.status.clone(), group.annotations.clone());
                assert_eq!(
                    told(&killed.group),
                    told(&undisturbed.group),
                    "{name}, killed after write {kill_after}"
                );
            }
        }
    }
}

/// At every point of every story, everything told so far may come again, in order, reversed and twice: nothing is written.
/// spec: PF-DUR-12 report: B52
#[test]
fn what_was_told_may_come_again_at_any_point() {
    for (name, mut world, story) in stories() {
        let mut told = Vec::new();
        for event in &story {
            let input = world.stimulus(event);
            told.push(input.clone());
            let _placed = world.input(input);
            let (group, writes) = (world.group.clone(), world.writes);
            for again in told.iter().chain(told.iter().rev()).chain(&told) {
                let _dropped = world.input(again.clone());
            }
            assert_eq!((world.writes, &world.group), (writes, &group), "{name}");
        }
    }
}

/// What a restarted process reads from the API server gives the same commands, and the same verdict on every fact.
/// spec: PF-DUR-12
#[test]
fn a_restarted_process_reads_the_same_run() {
    for phase in Phase::ALL.iter().copied() {
        let world = World::at_phase(phase);
        let mut read = world.group.clone();
        let text = serde_json::to_string(&world.group.status).unwrap();
        read.status = serde_json::from_str(&text).unwrap();
        assert_eq!(read.status, world.group.status, "{phase}: nothing is lost on the way");
        assert_eq!(commands(&read), commands(&world.group), "{phase}");
        for fact in facts::one_of_each() {
            let input = world.input_of(fact);
            assert_eq!(
                step(&read, input.clone(), at(5)),
                step(&world.group, input, at(5)),
                "{phase}"
            );
        }
    }
}

/// Commands come from the run's record, its annotations and its claim alone: whatever else changes on the object gives the
/// same ones. spec: PF-DUR-12
#[test]
fn commands_are_a_function_of_the_record() {
    for phase in Phase::ALL.iter().copied() {
        let world = World::at_phase(phase);
        let before = commands(&world.group);
        let mut other = world.group.clone();
        other.status.active_site = None;
        other.status.sites.clear();
        other.status.conditions.clear();
        other.generation += 1;
        other.spec.poll_interval = bloodraven_types::Span::seconds(60);
        other
            .annotations
            .insert("somebody.example/note".to_owned(), "hello".to_owned());
        assert_eq!(commands(&other), before, "{phase}");
        assert_eq!(before, commands(&world.group), "{phase}: asked twice");
    }
}

/// A run's revision counts its writes of the status, one each. spec: PF-DUR-01
#[test]
fn the_revision_counts_the_status_writes() {
    let revisions = |run: &PlannedFailover| run.revision.get();
    let world = World::at_phase(Phase::Succeeded);
    // Admitting, Fencing, Draining, WaitingForLag, Promoting, Publishing, Succeeded.
    assert_eq!(revisions(world.run()), 7);
    assert_eq!(revisions(World::at_phase(Phase::RollingBack).run()), 5);
    assert_eq!(revisions(World::at_phase(Phase::PromotingDragonfly).run()), 7);
}
