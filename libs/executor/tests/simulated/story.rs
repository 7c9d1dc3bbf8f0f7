//! Whole runs: from the annotation to the end, with every process of a deployment in the world.

use std::time::Duration;

use bloodraven_sim::setting::{SOURCE, TARGET};
use bloodraven_sim::{Cast, Event, Kind, Plan, Setting, World};
use bloodraven_types::{Group, Outcome, Phase, annotation};

/// Waits until the run has ended and its annotations are gone, at most for `limit`.
pub(crate) async fn until_ended(world: &World, limit: Duration) -> Group {
    let end = world.time.now() + limit;
    while world.time.now() < end && !is_over(world) {
        world.time.sleep(Duration::from_millis(50)).await;
    }
    world.group()
}

fn is_over(world: &World) -> bool {
    let state = world.state();
    let group = state.api.group();
    let tidy = [annotation::PLANNED_FAILOVER, annotation::CONFIRMED]
        .iter()
        .all(|key| group.annotation(key).is_none());
    tidy && group.run().is_some_and(|run| run.phase.is_terminal())
}

/// A run with nothing in its way succeeds, in the order of the reference, and nothing that must never be was.
#[test]
fn a_run_succeeds() {
    let world = Setting::new(1).build();
    let cast = Cast::new(&world, Plan::default());
    let group = world
        .run(cast.play(async {
            world.time.sleep(Duration::from_secs(5)).await;
            world.state().annotate(Some(TARGET));
            until_ended(&world, Duration::from_secs(60)).await
        }))
        .unwrap();
    let journal = world.journal();
    let run = group.run().unwrap();
    assert_eq!(run.phase, Phase::Succeeded, "{}", journal.text());
    assert_eq!(run.result.as_ref().unwrap().outcome, Outcome::Succeeded);
    assert_eq!(journal.role_changes(SOURCE), [Kind::SetSuperReadOnly]);
    assert_eq!(
        journal.role_changes(TARGET),
        [Kind::StopReplica, Kind::ResetReplicaAll, Kind::OpenForWrites]
    );
    assert_eq!(world.violations(), Vec::<String>::new(), "{}", journal.text());
    println!(
        "{}",
        journal
            .entries()
            .iter()
            .filter(|entry| !matches!(entry.event, Event::Statement { .. }))
            .map(|e| format!("{:?} {:?}", e.at, e.event))
            .collect::<Vec<_>>()
            .join("\n")
    );
}
