//! The record keeper: it persists, then speaks; it settles what it does not know; it drops what is not about its record.

use std::time::Duration;

use bloodraven_executor::Superseded;
use bloodraven_executor::keeper::Kept;
use bloodraven_failover::Input;
use bloodraven_sim::api::WriteFault;
use bloodraven_sim::setting::{SOURCE, TARGET, run_id, uuid_of};
use bloodraven_sim::{Cast, Event, Journal, Kind, Moment, Plan, Setting, World, Writer, cast};
use bloodraven_types::fact::Fenced;
use bloodraven_types::{Epoch, EventReason, Fact, Group, ObjectUid, Outcome, Phase, RunRef, annotation};

use crate::story::until_ended;

/// Plays a run from its annotation to its end.
fn play(world: &World) -> Group {
    let cast = Cast::new(world, Plan::default());
    world
        .run(cast.play(async {
            world.state().annotate(Some(TARGET));
            until_ended(world, Duration::from_secs(300)).await
        }))
        .unwrap()
}

/// The run succeeded, every step was carried out once, and nothing was done without its record.
fn succeeded_once(world: &World, group: &Group, case: &str) {
    let journal = world.journal();
    let outcome = group
        .run()
        .and_then(|run| run.result.as_ref())
        .map(|result| result.outcome);
    assert_eq!(outcome, Some(Outcome::Succeeded), "{case}\n{}", journal.text());
    assert_eq!(journal.role_changes(SOURCE), [Kind::SetSuperReadOnly], "{case}");
    let steps = [Kind::StopReplica, Kind::ResetReplicaAll, Kind::OpenForWrites];
    assert_eq!(journal.role_changes(TARGET), steps, "{case}");
    assert_eq!(world.violations(), Vec::<String>::new(), "{case}");
    spoken_after_the_commit(&journal, case);
    let emitted = journal.emitted();
    for reason in [
        EventReason::PlannedFailoverStarted,
        EventReason::PlannedFailoverClaimGranted,
        EventReason::PlannedFailoverDrainStarted,
        EventReason::PlannedFailoverTargetCaughtUp,
        EventReason::PlannedFailoverSucceeded,
    ] {
        let times = emitted.iter().filter(|one| **one == reason).count();
        assert_eq!(times, 1, "{case}: {reason}\n{}", journal.text());
    }
}

/// Each order, announcement and Event comes after the write that it speaks of.
fn spoken_after_the_commit(journal: &Journal, case: &str) {
    let mut committed = 0;
    for entry in journal.entries() {
        match &entry.event {
            Event::Wrote { revision, .. } => committed = *revision,
            Event::Ordered { about, .. } | Event::Announced(about, _) => {
                assert!(about.revision.get() <= committed, "{case}: {entry:?} before its commit");
            }
            _ => {}
        }
    }
    let of_a_run = |event: &Event| matches!(event, Event::Emitted(..));
    let first_write = journal.position(|event| matches!(event, Event::Wrote { by: Writer::Keeper, .. }));
    assert!(
        journal.position(of_a_run) > first_write,
        "{case}: an Event before the first commit"
    );
}

/// The tokens of the status fence, in order.
fn tokens(journal: &Journal) -> Vec<i128> {
    let mut tokens = Vec::new();
    for entry in journal.entries() {
        if let Event::Wrote { annotations, .. } = &entry.event
            && let Some((_, Some(token))) = annotations.get(annotation::STATUS_FENCE)
        {
            tokens.push(token.parse().unwrap());
        }
    }
    tokens
}

/// How many durable writes a run has.
fn writes_of_a_run() -> u32 {
    let world = Setting::new(1).build();
    let group = play(&world);
    succeeded_once(&world, &group, "nothing goes wrong");
    let writes = world.state().api.writes();
    assert!(writes >= 9, "{writes}");
    writes
}

/// A write that the API server refuses is followed by silence: no command, no announcement, no Event.
/// spec: PF-DUR-01
#[test]
fn nothing_is_said_without_a_commit() {
    let world = Setting::new(2).build();
    world.bring_to(Phase::Fencing);
    world.state().api.forbids_status = Some(403);
    let about = world.command().unwrap().0;
    let mut keeper = world.keeper();
    let said = |world: &World| {
        let journal = world.journal();
        journal
            .entries()
            .iter()
            .filter(|entry| {
                matches!(
                    entry.event,
                    Event::Ordered { .. } | Event::Announced(..) | Event::Emitted(..)
                )
            })
            .count()
    };
    let kept = world.run(keeper.fact(&about, fenced())).unwrap();
    assert!(matches!(kept, Kept::Later(_)), "{kept:?}");
    assert_eq!(said(&world), 0);
    world.state().api.forbids_status = None;
    assert_eq!(world.run(keeper.fact(&about, fenced())).unwrap(), Kept::Done);
    assert!(said(&world) >= 3, "the command, the announcement and the Event");
    spoken_after_the_commit(&world.journal(), "after the permission came back");
}

fn fenced() -> Fact {
    Fact::Fenced(Fenced {
        source_server_uuid: uuid_of(SOURCE),
        gtid_set: format!("{}:1-100", uuid_of(SOURCE)),
        apply_time: bloodraven_types::Timestamp::from_unix_seconds(1_776_000_010),
        unreachable_peers: Vec::new(),
    })
}

/// Each durable write of a run, with its request lost, its reply lost, its reply 20 s late, and its commit late so that it
/// falls before, between and after our own reads and fences: no step runs twice, none without its record, and the run
/// succeeds. spec: PF-DUR-01, PF-DUR-02; report: B60
#[test]
fn every_ambiguous_write_is_settled() {
    let millis = Duration::from_millis;
    let mut faults = vec![
        WriteFault::LostRequest,
        WriteFault::LostReply,
        WriteFault::LateReply(Duration::from_secs(20)),
    ];
    // Our re-read and our fence take a few milliseconds each: the late commit is tried all along them.
    faults.extend((1..=14).map(|late| WriteFault::LateCommit(millis(late))));
    faults.extend([90, 110, 5_000].map(|late| WriteFault::LateCommit(millis(late))));
    for number in 0..writes_of_a_run() {
        for fault in &faults {
            let world = Setting::new(3).build();
            world.state().api.faults.insert(number, *fault);
            let group = play(&world);
            let case = format!("write {number}, {fault:?}");
            succeeded_once(&world, &group, &case);
            let tokens = tokens(&world.journal());
            assert!(
                tokens.is_sorted_by(|earlier, later| earlier < later),
                "{case}: {tokens:?}"
            );
        }
    }
}

/// The token of the status fence always moves past the stored one, by one when the clock is behind it.
/// spec: PF-DUR-02
#[test]
fn the_token_moves_past_the_stored_one() {
    let stored = i128::from(u64::MAX);
    let world = Setting::new(4).build();
    world.state().edit(|group| {
        group
            .annotations
            .insert(annotation::STATUS_FENCE.to_owned(), stored.to_string());
    });
    for number in [0, 3] {
        world.state().api.faults.insert(number, WriteFault::LostRequest);
    }
    let group = play(&world);
    succeeded_once(&world, &group, "a clock that is behind");
    assert_eq!(tokens(&world.journal()), [stored, stored + 1, stored + 2]);
}

/// Another writer gets in before every single write of a run, one after the other and all of them together: each write
/// meets the object as it is then, and nothing of the other writer's is lost. spec: PF-DUR-01; report: B56
#[test]
fn another_writer_on_every_write() {
    let intrude = |world: &World, number: u32| {
        world.at_later(Moment::BeforeWrite, number, move |state| {
            state.edit(|group| {
                group.annotations.insert(format!("example.org/{number}"), String::new());
            });
        });
    };
    let writes = writes_of_a_run();
    for number in 0..writes {
        let world = Setting::new(5).build();
        intrude(&world, number);
        let group = play(&world);
        succeeded_once(&world, &group, &format!("another writer before write {number}"));
    }
    let world = Setting::new(6).build();
    // Every write is tried twice then.
    (0..writes).for_each(|number| intrude(&world, number * 2));
    let group = play(&world);
    succeeded_once(&world, &group, "another writer before every write");
    let theirs = group
        .annotations
        .keys()
        .filter(|key| key.starts_with("example.org/"))
        .count();
    assert_eq!(theirs, usize::try_from(writes).unwrap());
}

/// A fact about another object of that name, another run, another taking of the claim, or a state that the record has not
/// reached is dropped; one of an earlier state of the same run is judged by the record's phase.
/// spec: PF-CLM-08; report: B49
#[test]
fn facts_about_something_else_are_dropped() {
    let world = Setting::new(7).build();
    world.bring_to(Phase::Fencing);
    let about = world.command().unwrap().0;
    let others = [
        RunRef {
            uid: ObjectUid::new("uid-0"),
            ..about.clone()
        },
        RunRef {
            run_id: run_id(2),
            ..about.clone()
        },
        RunRef {
            epoch: Epoch::new(about.epoch.get() + 1),
            ..about.clone()
        },
        RunRef {
            epoch: Epoch::default(),
            ..about.clone()
        },
        RunRef {
            revision: about.revision.next(),
            ..about.clone()
        },
    ];
    let before = world.group();
    let mut keeper = world.keeper();
    for other in others {
        assert_eq!(world.run(keeper.fact(&other, fenced())).unwrap(), Kept::Done);
        assert_eq!(world.group(), before, "{other:?}");
    }
    assert_eq!(world.run(keeper.fact(&about, fenced())).unwrap(), Kept::Done);
    let draining = world.group();
    assert_eq!(draining.run().unwrap().phase, Phase::Draining);
    // The same fact once more, and a stray one of a later phase: neither has a place any more.
    assert_eq!(world.run(keeper.fact(&about, fenced())).unwrap(), Kept::Done);
    assert_eq!(world.group(), draining);
}

/// Every command of a finished run, replayed in order and in reverse by new processes: not one statement that changes a
/// server, and not one write of the object. spec: PF-CLM-04; report: B52, B30
#[test]
fn a_finished_run_cannot_be_replayed() {
    let world = Setting::new(8).build();
    play(&world);
    let journal = world.journal();
    let mut orders = Vec::new();
    for entry in journal.entries() {
        if let Event::Ordered { about, command, .. } = &entry.event {
            orders.push((about.clone(), command.clone()));
        }
    }
    assert!(orders.len() >= 6, "{orders:?}");
    let reversed: Vec<_> = orders.iter().rev().cloned().collect();
    let before = (world.group(), journal.entries().len());
    for (about, command) in orders.into_iter().chain(reversed) {
        for first_hand in [true, false] {
            let order = bloodraven_executor::Order {
                about: about.clone(),
                command: command.clone(),
                first_hand,
            };
            let hands = world.hands();
            let outcome = world
                .run(cast::perform(&world, &hands, order, &Superseded::default()))
                .unwrap();
            outcome.unwrap_err();
        }
    }
    assert_eq!(world.group(), before.0);
    assert_eq!(
        world.journal().entries().len(),
        before.1,
        "not one statement of any kind"
    );
}

/// Commands that stay unanswered are given again after the interval and not before, each time under a higher attempt.
#[test]
fn a_reminder_has_a_higher_attempt() {
    let world = Setting::new(9).build();
    world.bring_to(Phase::Fencing);
    let about = world.command().unwrap().0;
    let mut keeper = world.keeper();
    world.run(keeper.fact(&about, fenced())).unwrap();
    let interval = Duration::from_secs(2);
    world
        .run(async {
            for _ in 0..3 {
                keeper.remind(interval).await;
                world.time.sleep(Duration::from_millis(1_900)).await;
                keeper.remind(interval).await;
                world.time.sleep(Duration::from_millis(200)).await;
            }
        })
        .unwrap();
    let journal = world.journal();
    let mut attempts = Vec::new();
    for entry in journal.entries() {
        if let Event::Ordered { attempt, command, .. } = &entry.event {
            attempts.push((command.name(), *attempt));
        }
    }
    assert_eq!(attempts, [("drain", 1), ("drain", 2), ("drain", 3)]);
}

/// A keeper that starts beside a live run gives its commands as repetitions: an earlier keeper may have given them.
/// spec: PF-FEN-05
#[test]
fn a_new_keeper_gives_nothing_for_the_first_time() {
    let world = Setting::new(10).build();
    world.bring_to(Phase::Fencing);
    let mut keeper = world.keeper();
    world
        .run(async {
            keeper.feed(Input::Tick).await;
            keeper.remind(Duration::from_secs(2)).await;
        })
        .unwrap();
    let journal = world.journal();
    let first = journal.position(|event| matches!(event, Event::Ordered { attempt, .. } if *attempt < 2));
    assert_eq!(first, None, "{}", journal.text());
    assert!(
        journal
            .position(|event| matches!(event, Event::Ordered { .. }))
            .is_some()
    );
}
