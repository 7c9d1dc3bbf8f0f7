//! Convergence and publication: what is re-pointed and what is left alone, what clients are told and what of it fails.

use std::time::Duration;

use bloodraven_executor::converge::{Converged, converge};
use bloodraven_executor::publish::reconcile;
use bloodraven_sim::server::{Link, Replica, Server};
use bloodraven_sim::setting::{PEER, SOURCE, TARGET, address, uuid_of};
use bloodraven_sim::{Cast, Fault, Kind, Moment, Plan, Setting, World};
use bloodraven_types::words::{ConvergenceReason, ConvergenceState};
use bloodraven_types::{EventReason, Outcome, Phase, SiteName, StepState, Warning};

use crate::story::until_ended;

/// A follower that replicates from the target instead of the primary.
fn chained(seed: u64) -> World {
    let world = Setting::new(seed).build();
    world.state().change(PEER, |server| {
        server.channels = vec![Replica::running(address(TARGET), Duration::from_millis(5))];
    });
    world
}

fn pass(world: &World) -> Option<Converged> {
    let group = world.group();
    let hands = world.hands();
    let site = |name: &str| group.site(&SiteName::new(name)).unwrap();
    world
        .run(converge(&hands, &group.key, site(SOURCE), site(PEER)))
        .unwrap()
}

fn verdict(world: &World) -> (ConvergenceState, ConvergenceReason) {
    let converged = pass(world).unwrap();
    (converged.state, converged.reason)
}

fn source_of_peer(world: &World) -> (String, u16) {
    world.state().server(PEER).unwrap().channels[0].source.clone()
}

const REPOINT: [Kind; 3] = [Kind::StopReplica, Kind::ChangeSource, Kind::StartReplica];

/// A follower of another server is re-pointed to the primary without losing its metadata, and converges. spec: PF-TOP-04
#[test]
fn a_follower_is_repointed() {
    let world = chained(1);
    assert_eq!(
        verdict(&world),
        (ConvergenceState::Pending, ConvergenceReason::SourceMismatch)
    );
    assert_eq!(world.journal().role_changes(PEER), REPOINT);
    world.run(world.time.sleep(Duration::from_millis(50))).unwrap();
    assert_eq!(
        verdict(&world),
        (ConvergenceState::Converged, ConvergenceReason::DirectSource)
    );
    assert_eq!(world.journal().role_changes(PEER), REPOINT);
    assert_eq!(source_of_peer(&world), address(SOURCE));
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// A divergent follower is left alone and its transactions are named, whether they were there before STOP REPLICA or came
/// in just before it. spec: PF-TOP-04
#[test]
fn a_divergent_follower_is_left_alone() {
    let world = chained(2);
    world.state().commit(PEER);
    let converged = pass(&world).unwrap();
    assert_eq!(
        (converged.state, converged.reason),
        (ConvergenceState::Blocked, ConvergenceReason::GTIDDiverged)
    );
    assert_eq!(converged.divergent.unwrap().to_string(), format!("{}:1", uuid_of(PEER)));
    assert!(world.journal().role_changes(PEER).is_empty());

    let world = chained(3);
    world.at(Moment::Before(SiteName::new(PEER), Kind::StopReplica), |state| {
        state.commit(PEER);
    });
    assert_eq!(
        verdict(&world),
        (ConvergenceState::Blocked, ConvergenceReason::GTIDDiverged)
    );
    assert_eq!(world.journal().role_changes(PEER), [Kind::StopReplica]);
    assert_eq!(source_of_peer(&world), address(TARGET));
}

/// A transaction on its way never looks like a divergence: the follower is read first, then the primary. report: B10
#[test]
fn a_transaction_on_its_way_is_no_divergence() {
    for seed in 0..50 {
        let world = Setting::new(seed).lag(Duration::ZERO).build();
        world
            .run(async {
                let group = world.group();
                let hands = world.hands();
                let site = |name: &str| group.site(&SiteName::new(name)).unwrap();
                let busy = async {
                    for _ in 0..40 {
                        world.state().commit(SOURCE);
                        world.time.sleep(Duration::from_micros(150)).await;
                    }
                };
                let passes = converge(&hands, &group.key, site(SOURCE), site(PEER));
                let (converged, ()) = futures::join!(passes, busy);
                assert_eq!(converged.unwrap().state, ConvergenceState::Converged, "seed {seed}");
            })
            .unwrap();
    }
}

/// A replica is sent a transaction before its source shows it as executed: one of the primary's own that only the follower
/// shows is waited for, and is no divergence once the primary has committed it. report: B10
#[test]
fn a_follower_ahead_of_its_primarys_commit_is_no_divergence() {
    let world = Setting::new(3).build();
    let in_progress = world.state().server(SOURCE).unwrap().clone().commit(Duration::ZERO);
    world
        .state()
        .change(PEER, |server| server.apply(in_progress, Duration::ZERO));
    world
        .run(async {
            let group = world.group();
            let hands = world.hands();
            let site = |name: &str| group.site(&SiteName::new(name)).unwrap();
            let committed = async {
                world.time.sleep(Duration::from_millis(300)).await;
                assert_eq!(world.state().commit(SOURCE), Some(in_progress));
            };
            let passes = converge(&hands, &group.key, site(SOURCE), site(PEER));
            let (converged, ()) = futures::join!(passes, committed);
            assert_eq!(converged.unwrap().state, ConvergenceState::Converged);
        })
        .unwrap();
}

/// While a run or a hold has the claim, or when the primary is another one by now, the follower is left as it is: also when
/// the claim is taken at the last moment, under the lock. spec: PF-CLM-02, PF-CLM-04
#[test]
fn a_claim_leaves_the_followers_alone() {
    let world = chained(4);
    world.bring_to(Phase::Fencing);
    assert_eq!(pass(&world), None);
    assert!(world.journal().role_changes(PEER).is_empty());

    let world = chained(5);
    let claimed = world.clone();
    world.at(Moment::After(SiteName::new(PEER), Kind::TakeAuthority), move |state| {
        drop(claimed);
        state.edit(|group| group.status.active_site = Some(SiteName::new(TARGET)));
    });
    assert_eq!(pass(&world), None);
    assert!(world.journal().role_changes(PEER).is_empty());
}

/// A writable follower is not re-pointed, one that does not answer is tried again later, and a statement that fails is told.
/// spec: PF-TOP-04
#[test]
fn a_follower_that_cannot_be_repointed_says_why() {
    let world = chained(6);
    world.state().change(PEER, Server::open);
    assert_eq!(verdict(&world).0, ConvergenceState::Blocked);
    assert!(world.journal().role_changes(PEER).is_empty());

    let world = chained(7);
    world.state().change(PEER, |server| server.link = Link::Silent);
    assert_eq!(
        verdict(&world),
        (ConvergenceState::Pending, ConvergenceReason::ProbeFailed)
    );

    let world = chained(8);
    world.fault(PEER, Kind::ChangeSource, Fault::Refuse(3021));
    assert_eq!(
        verdict(&world),
        (ConvergenceState::Pending, ConvergenceReason::MutationFailed)
    );
}

/// A DNS record that cannot be changed is a warning of a run that succeeded; the reconciliation repairs it later.
/// spec: PF-PUB-02; report: B62
#[test]
fn a_failed_record_is_a_warning() {
    let world = Setting::new(9).build();
    world.state().published.dns_fails = true;
    let cast = Cast::new(&world, Plan::default());
    let group = world
        .run(cast.play(async {
            world.state().annotate(Some(TARGET));
            until_ended(&world, Duration::from_secs(60)).await
        }))
        .unwrap();
    let run = group.run().unwrap();
    let result = run.result.as_ref().unwrap();
    assert_eq!(
        (result.outcome, &result.warnings[..]),
        (Outcome::Succeeded, &[Warning::DNSUpdateFailed][..])
    );
    let dns = run.dns.as_ref().unwrap();
    assert_eq!(dns.state, StepState::Failed);
    assert!(dns.last_error.is_some());
    assert!(
        world
            .journal()
            .emitted()
            .contains(&EventReason::PlannedFailoverDNSUpdateFailed)
    );

    world.state().published.dns_fails = false;
    world
        .state()
        .edit(|group| group.status.active_site = Some(SiteName::new(TARGET)));
    let reconciled = world.run(reconcile(&world.publication(), &world.group())).unwrap();
    assert_eq!(reconciled.dns, Some(SiteName::new(TARGET)));
    assert_eq!(world.state().published.dns, Some(SiteName::new(TARGET)));
}

/// Labels that cannot be moved do not fail a run; the reconciliation moves them once it may. A group without a record has
/// none to fail. spec: PF-PUB-01; report: B62
#[test]
fn failed_labels_are_moved_later() {
    let world = Setting::new(10).without_dns().build();
    world.state().published.labels_fail = true;
    let cast = Cast::new(&world, Plan::default());
    let group = world
        .run(cast.play(async {
            world.state().annotate(Some(TARGET));
            let group = until_ended(&world, Duration::from_secs(60)).await;
            world.state().published.labels_fail = false;
            world.time.sleep(Duration::from_secs(15)).await;
            group
        }))
        .unwrap();
    let run = group.run().unwrap();
    assert_eq!(run.result.as_ref().unwrap().outcome, Outcome::Succeeded);
    assert_eq!(run.dns, None);
    let roles = world.state().published.roles.clone();
    assert_eq!(
        roles.get(&SiteName::new(TARGET)),
        Some(&bloodraven_ports::PodRole::Primary)
    );
    assert_eq!(
        roles.get(&SiteName::new(SOURCE)),
        Some(&bloodraven_ports::PodRole::Replica)
    );
}
