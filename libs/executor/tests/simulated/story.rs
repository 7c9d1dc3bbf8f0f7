//! Whole runs: from the annotation to the end, with every process of a deployment in the world.

use std::time::Duration;

use bloodraven_ports::PodRole;
use bloodraven_sim::setting::{SOURCE, TARGET};
use bloodraven_sim::{Cast, Event, Kind, Plan, Setting, World, Writer};
use bloodraven_types::{Group, Outcome, Phase, SiteName, annotation};

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

/// What a run does, in the order of the reference: each phase committed before its step, one fence, one promotion, labels
/// and DNS behind the failover record, and the end last.
/// spec: PF-DUR-01, PF-FEN-01, PF-PRO-01, PF-PUB-01, PF-CLM-06; report: B22
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
    assert_eq!(world.violations(), Vec::<String>::new(), "{}", journal.text());
    let place = |what: &str, matches: &dyn Fn(&Event) -> bool| {
        let found = journal.position(matches);
        found.unwrap_or_else(|| panic!("no {what}\n{}", journal.text()))
    };
    let committed =
        |wanted: Phase| move |event: &Event| matches!(event, Event::Wrote { phase, .. } if *phase == Some(wanted));
    let step = |at: &'static str, wanted: Kind| move |event: &Event| matches!(event, Event::Statement { site, kind, .. } if site.as_str() == at && *kind == wanted);
    let annotated = |key: &'static str| move |event: &Event| matches!(event, Event::Wrote { annotations, .. } if annotations.contains_key(key));
    let primary = |event: &Event| matches!(event, Event::Labelled(roles) if roles.get(&SiteName::new(TARGET)) == Some(&PodRole::Primary));
    let pointed = |event: &Event| *event == Event::Pointed(SiteName::new(TARGET));
    let order = [
        place("admission", &committed(Phase::Admitting)),
        place("intent to fence", &committed(Phase::Fencing)),
        place("fence", &step(SOURCE, Kind::SetSuperReadOnly)),
        place("drain", &committed(Phase::Draining)),
        place("lag wait", &committed(Phase::WaitingForLag)),
        place("intent to promote", &committed(Phase::Promoting)),
        place("STOP", &step(TARGET, Kind::StopReplica)),
        place("RESET", &step(TARGET, Kind::ResetReplicaAll)),
        place("OFF", &step(TARGET, Kind::OpenForWrites)),
        place("failover record", &annotated(annotation::LAST_FAILOVER)),
        place("label", &primary).min(place("DNS", &pointed)),
        place("label", &primary).max(place("DNS", &pointed)),
        place("release", &annotated(annotation::CONFIRMED)),
        place("publishing", &committed(Phase::Publishing)),
        place("success", &committed(Phase::Succeeded)),
    ];
    assert!(order.is_sorted(), "{order:?}\n{}", journal.text());
    assert_eq!(journal.role_changes(SOURCE), [Kind::SetSuperReadOnly]);
    let steps = [Kind::StopReplica, Kind::ResetReplicaAll, Kind::OpenForWrites];
    assert_eq!(journal.role_changes(TARGET), steps);
}

/// Between the fence and the promotion there are three commits of the record and nothing that waits for a timer: the
/// outage is a few dozen network hops.
#[test]
fn the_outage_is_three_commits_long() {
    for seed in 0..50 {
        let world = Setting::new(seed).build();
        let cast = Cast::new(&world, Plan::default());
        world
            .run(cast.play(async {
                world.time.sleep(Duration::from_secs(5)).await;
                world.state().annotate(Some(TARGET));
                until_ended(&world, Duration::from_secs(60)).await
            }))
            .unwrap();
        let journal = world.journal();
        let at = |wanted: Kind| {
            let is_it = |event: &Event| matches!(event, Event::Statement { kind, .. } if *kind == wanted);
            journal.position(is_it).unwrap()
        };
        let outage = &journal.entries()[at(Kind::SetSuperReadOnly)..at(Kind::OpenForWrites)];
        let of_the_keeper = |event: &Event| matches!(event, Event::Wrote { by: Writer::Keeper, .. });
        let commits = outage.iter().filter(|entry| of_the_keeper(&entry.event)).count();
        assert_eq!(commits, 3, "seed {seed}");
        let (first, last) = (outage.first().unwrap(), outage.last().unwrap());
        let took = last.at - first.at;
        assert!(
            took < Duration::from_millis(60),
            "seed {seed}: {took:?}\n{}",
            journal.text()
        );
    }
}
