//! The way back, decision by decision: the target as it was, then the source writable again, or a reason why not.

use std::time::Duration;

use bloodraven_executor::hands::Refused;
use bloodraven_failover::Input;
use bloodraven_failover::planned::{CatchUpFact, FenceFact, PromotionFact};
use bloodraven_sim::server::{Link, Replica, Server};
use bloodraven_sim::setting::{PEER, READER, SOURCE, TARGET, uuid_of};
use bloodraven_sim::{Fault, Kind, Moment, Setting, World};
use bloodraven_types::fact::{PromotionFailed, PromotionReach, StepFailed};
use bloodraven_types::record::RunResult;
use bloodraven_types::{Outcome, Phase, Reason, SiteName, Warning};

use crate::common::{first_hand, move_record_on, perform, silence, to_the_end};

const NO_CHANNEL: Warning = Warning::TargetReplicationNotRestored;

fn step_failed(reason: Reason) -> StepFailed {
    StepFailed {
        reason,
        detail: "as the test wants it".to_owned(),
        sent: false,
    }
}

/// A run that goes back from the lag wait: nothing was intended for the target.
fn from_the_lag_wait(seed: u64, reason: Reason) -> World {
    let world = Setting::new(seed).with_reader().build();
    world.bring_to(Phase::WaitingForLag);
    world.feed(Input::CatchUp(CatchUpFact::Failed(step_failed(reason))));
    world
}

/// A run that goes back from the gate: the promoter has taken the target's channel away and written nothing.
fn from_the_gate(seed: u64, reason: Reason) -> World {
    let world = Setting::new(seed).with_reader().build();
    world.bring_to(Phase::Promoting);
    world.state().change(TARGET, |server| server.channels.clear());
    world.feed(Input::Promotion(PromotionFact::Failed(PromotionFailed {
        reason,
        detail: "as the test wants it".to_owned(),
        reached: PromotionReach::NothingWritten,
        ambiguous_sites: Vec::new(),
    })));
    world
}

fn ended(world: &World) -> (Outcome, Reason, Vec<Warning>) {
    let RunResult {
        outcome,
        reason,
        warnings,
        ..
    } = to_the_end(world);
    // Whatever the end: no other site was touched.
    for site in [PEER, READER] {
        assert!(world.journal().role_changes(site).is_empty(), "{site}");
    }
    (outcome, reason.unwrap(), warnings)
}

fn before(site: &str, kind: Kind) -> Moment {
    Moment::Before(SiteName::new(site), kind)
}

fn is_open(world: &World, site: &str) -> bool {
    world.state().server(site).unwrap().serves_writes()
}

fn replicates(world: &World) -> bool {
    let state = world.state();
    let target = state.servers.get(&SiteName::new(TARGET)).unwrap();
    target.super_read_only
        && target
            .channels
            .iter()
            .any(|channel| channel.io_started && channel.sql_started)
}

/// Nothing was intended for the target, so nothing is done there: the source is unfenced, both variables, and read back.
/// spec: PF-RBK-02, PF-RBK-07, PF-RBK-09
#[test]
fn a_run_goes_back_before_the_promotion() {
    let world = from_the_lag_wait(1, Reason::LagTimeout);
    assert_eq!(ended(&world), (Outcome::RolledBack, Reason::LagTimeout, vec![]));
    assert_eq!(world.journal().role_changes(SOURCE), [Kind::OpenForWrites]);
    assert!(world.journal().role_changes(TARGET).is_empty());
    assert!(is_open(&world, SOURCE) && replicates(&world));
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// The channel that the promotion took away is made again toward the verified source and runs before the source opens.
/// spec: PF-RBK-07, PF-RBK-09
#[test]
fn the_targets_channel_is_made_again() {
    for reason in [
        Reason::PromotionAborted,
        Reason::PeerUnreadable,
        Reason::TargetNotPromotable,
    ] {
        let world = from_the_gate(2, reason);
        assert_eq!(ended(&world), (Outcome::RolledBack, reason, vec![]));
        assert_eq!(
            world.journal().role_changes(TARGET),
            [Kind::ChangeSource, Kind::StartReplica]
        );
        assert_eq!(world.journal().role_changes(SOURCE), [Kind::OpenForWrites]);
        assert!(is_open(&world, SOURCE) && replicates(&world));
        assert_eq!(world.violations(), Vec::<String>::new());
    }
    // A channel that was only stopped is only started.
    let world = from_the_gate(3, Reason::PromotionAborted);
    let channel = world.state().server(PEER).unwrap().channels.clone();
    world.state().change(TARGET, |server| {
        server.channels = channel;
        server.channels.iter_mut().for_each(Replica::stop);
    });
    assert_eq!(ended(&world), (Outcome::RolledBack, Reason::PromotionAborted, vec![]));
    assert_eq!(world.journal().role_changes(TARGET), [Kind::StartReplica]);
}

/// A target that diverged, read-only as it is, is no reason to leave the source fenced: the run had written nothing.
/// spec: PF-RBK-02, PF-LAG-02; report: B29
#[test]
fn a_divergent_target_does_not_keep_the_source_fenced() {
    let world = from_the_gate(4, Reason::DivergentTarget);
    world.state().commit(TARGET);
    assert_eq!(ended(&world), (Outcome::RolledBack, Reason::DivergentTarget, vec![]));
    assert!(is_open(&world, SOURCE) && replicates(&world));
}

/// Decision 1: an open target that holds transactions outside the fenced set cannot be explained. spec: PF-RBK-02
#[test]
fn an_open_target_with_other_transactions_is_held() {
    let world = from_the_gate(5, Reason::PromotionAborted);
    world.state().change(TARGET, Server::open);
    world.state().commit(TARGET);
    let (outcome, reason, _) = ended(&world);
    assert_eq!(
        (outcome, reason),
        (Outcome::ManualRecoveryRequired, Reason::ExecuteFailed)
    );
    assert!(world.group().status.planned_failover_hold.is_some());
    assert!(!is_open(&world, SOURCE));
    assert!(world.journal().role_changes(TARGET).is_empty());
}

/// Decision 2: a source that takes writes already is not unfenced, and a target at `super_read_only=OFF` is set back first.
/// spec: PF-RBK-03
#[test]
fn a_writable_source_is_not_unfenced() {
    let world = from_the_gate(6, Reason::SourceUnfenced);
    world.state().change(SOURCE, Server::open);
    world.state().change(TARGET, |server| server.super_read_only = false);
    assert_eq!(ended(&world), (Outcome::RolledBack, Reason::SourceUnfenced, vec![]));
    assert!(world.journal().role_changes(SOURCE).is_empty());
    assert_eq!(
        world.journal().role_changes(TARGET),
        [Kind::SetSuperReadOnly, Kind::ChangeSource, Kind::StartReplica]
    );
}

/// Decision 2: a target that cannot be set back, or read at all, is named in the end; there is no hold and no channel.
/// spec: PF-RBK-03
#[test]
fn a_target_that_cannot_be_set_back_is_named() {
    let refusing = from_the_gate(7, Reason::SourceUnfenced);
    refusing.state().change(TARGET, |server| server.super_read_only = false);
    refusing.faults(TARGET, Some(Kind::SetSuperReadOnly), 0, u32::MAX, Fault::Refuse(1205));
    let silent = from_the_gate(8, Reason::SourceUnfenced);
    silence(&silent, TARGET);
    for world in [refusing, silent] {
        world.state().change(SOURCE, Server::open);
        let warnings = vec![NO_CHANNEL, Warning::TargetSuperReadOnlyNotRestored];
        assert_eq!(ended(&world), (Outcome::RolledBack, Reason::SourceUnfenced, warnings));
        assert!(world.group().status.planned_failover_hold.is_none());
        assert!(!world.journal().role_changes(TARGET).contains(&Kind::ChangeSource));
    }
}

/// Decision 2: a target that takes writes beside a writable source is two writers, and held; another site that the run
/// never touched is not its business. spec: PF-RBK-04, PF-RBK-09
#[test]
fn two_writers_are_held() {
    let world = from_the_gate(9, Reason::SourceUnfenced);
    world.state().change(SOURCE, Server::open);
    world.state().change(TARGET, Server::open);
    let (outcome, reason, _) = ended(&world);
    assert_eq!(
        (outcome, reason),
        (Outcome::ManualRecoveryRequired, Reason::ForeignWritable)
    );
    let hold = world.group().status.planned_failover_hold.unwrap();
    assert_eq!(hold.ambiguous_sites, [SiteName::new(TARGET), SiteName::new(SOURCE)]);
    assert!(world.journal().role_changes(TARGET).is_empty());

    let world = from_the_lag_wait(10, Reason::SourceUnfenced);
    world.state().change(SOURCE, Server::open);
    world.state().change(PEER, Server::open);
    assert_eq!(ended(&world), (Outcome::RolledBack, Reason::SourceUnfenced, vec![]));
}

/// Decision 3: any other site that takes writes keeps the source fenced; one that merely does not answer does not.
/// spec: PF-RBK-05
#[test]
fn a_writable_site_keeps_the_source_fenced() {
    for site in [PEER, READER, TARGET] {
        let world = from_the_lag_wait(11, Reason::LagTimeout);
        world.state().change(site, Server::open);
        let (outcome, reason, _) = ended(&world);
        assert_eq!(
            (outcome, reason),
            (Outcome::SourceLeftFenced, Reason::ForeignWritable),
            "{site}"
        );
        assert!(world.journal().role_changes(SOURCE).is_empty());
        assert_eq!(world.violations(), Vec::<String>::new());
    }
    for site in [PEER, READER, TARGET] {
        let world = from_the_lag_wait(12, Reason::LagTimeout);
        silence(&world, site);
        assert_eq!(
            ended(&world),
            (Outcome::RolledBack, Reason::LagTimeout, vec![]),
            "{site}"
        );
    }
    let world = from_the_gate(13, Reason::PromotionAborted);
    world.state().change(TARGET, Server::open);
    let (outcome, reason, warnings) = ended(&world);
    assert_eq!((outcome, reason), (Outcome::SourceLeftFenced, Reason::ForeignWritable));
    assert_eq!(warnings, [NO_CHANNEL]);
    assert!(
        world.journal().role_changes(TARGET).is_empty(),
        "a writer that is not ours is not fenced by us"
    );
}

/// Decision 4: a lost source is looked at once and left; one that answers writable again is no loss. spec: PF-LOS-01, PF-RBK-02
#[test]
fn a_lost_source_is_left_at_once() {
    let world = from_the_lag_wait(14, Reason::SourceLost);
    silence(&world, SOURCE);
    let began = world.time.now();
    assert_eq!(ended(&world), (Outcome::SourceLeftFenced, Reason::SourceLost, vec![]));
    assert!(world.time.now() - began < Duration::from_secs(6));

    let world = from_the_lag_wait(15, Reason::SourceLost);
    world.state().change(SOURCE, Server::open);
    assert_eq!(ended(&world), (Outcome::RolledBack, Reason::SourceLost, vec![]));

    // For any other reason its silence is waited out.
    let world = from_the_lag_wait(16, Reason::LagTimeout);
    world.faults(SOURCE, None, 0, 2, Fault::Unreachable);
    assert_eq!(ended(&world), (Outcome::RolledBack, Reason::LagTimeout, vec![]));
}

/// Decision 5: a fence that is not provably the run's is never lifted: authority moved before it was sent, or the server
/// that carries it is another one. spec: PF-RBK-06, PF-FEN-05
#[test]
fn a_fence_of_others_is_never_lifted() {
    let world = Setting::new(17).build();
    world.bring_to(Phase::Fencing);
    world.state().change(SOURCE, Server::fence);
    world.feed(Input::Fence(FenceFact::Failed(step_failed(Reason::AuthorityChanged))));
    let (outcome, reason, warnings) = ended_without_reader(&world);
    assert_eq!((outcome, reason), (Outcome::SourceLeftFenced, Reason::AuthorityChanged));
    assert_eq!(warnings, [Warning::FenceNotAttributable]);
    assert!(world.journal().role_changes(SOURCE).is_empty());

    let world = from_the_lag_wait(18, Reason::LagTimeout);
    world.state().change(SOURCE, |server| server.replace(uuid_of("new")));
    let (outcome, _, warnings) = ended(&world);
    assert_eq!(outcome, Outcome::SourceLeftFenced);
    assert!(warnings.contains(&Warning::FenceNotAttributable));
    assert!(world.journal().role_changes(SOURCE).is_empty());
}

fn ended_without_reader(world: &World) -> (Outcome, Reason, Vec<Warning>) {
    let result = to_the_end(world);
    (result.outcome, result.reason.unwrap(), result.warnings)
}

/// Decision 6: a target at `super_read_only=OFF` is set back before the source is opened, and a target that cannot be keeps
/// the source fenced until the deadline. spec: PF-RBK-02, PF-RBK-01; report: B21, B22
#[test]
fn the_target_is_set_back_before_the_source_opens() {
    let world = from_the_gate(19, Reason::PromotionAborted);
    world.state().change(TARGET, |server| server.super_read_only = false);
    assert_eq!(ended(&world), (Outcome::RolledBack, Reason::PromotionAborted, vec![]));
    assert_eq!(world.violations(), Vec::<String>::new());

    let world = from_the_gate(20, Reason::PromotionAborted);
    world.state().change(TARGET, |server| server.super_read_only = false);
    world.faults(TARGET, Some(Kind::SetSuperReadOnly), 0, u32::MAX, Fault::Refuse(1205));
    let began = world.time.now();
    let (outcome, reason, warnings) = ended(&world);
    assert_eq!((outcome, reason), (Outcome::SourceLeftFenced, Reason::PromotionAborted));
    assert!(warnings.contains(&NO_CHANNEL));
    let took = world.time.now() - began;
    assert!(
        took > Duration::from_secs(28) && took <= Duration::from_secs(31),
        "{took:?}"
    );
    assert_eq!(world.violations(), Vec::<String>::new());
}

/// An unfence that keeps failing ends at the deadline of 30 seconds with the source fenced. spec: PF-RBK-01
#[test]
fn the_way_back_has_thirty_seconds() {
    let world = from_the_lag_wait(21, Reason::LagTimeout);
    world.faults(SOURCE, Some(Kind::OpenForWrites), 0, u32::MAX, Fault::Refuse(1205));
    let began = world.time.now();
    let (outcome, reason, _) = ended(&world);
    assert_eq!((outcome, reason), (Outcome::SourceLeftFenced, Reason::LagTimeout));
    let took = world.time.now() - began;
    assert!(
        took > Duration::from_secs(28) && took <= Duration::from_secs(31),
        "{took:?}"
    );
}

/// A source that is another server gets no channel from the target; when it takes writes the run ends with it, and says
/// that it was replaced. spec: PF-RBK-07, PF-RBK-08
#[test]
fn a_replaced_source_gets_no_channel() {
    let fenced = from_the_gate(22, Reason::AuthorityChanged);
    fenced.state().change(SOURCE, |server| server.replace(uuid_of("new")));
    let (outcome, _, warnings) = ended(&fenced);
    assert_eq!(outcome, Outcome::SourceLeftFenced);
    assert!(warnings.contains(&NO_CHANNEL) && warnings.contains(&Warning::FenceNotAttributable));
    assert!(fenced.journal().role_changes(TARGET).is_empty());

    let writable = from_the_gate(23, Reason::AuthorityChanged);
    writable.state().change(SOURCE, |server| {
        server.replace(uuid_of("new"));
        server.open();
    });
    let (outcome, _, warnings) = ended(&writable);
    assert_eq!(outcome, Outcome::RolledBack);
    assert_eq!(warnings, [NO_CHANNEL, Warning::SourceReplaced]);
    assert!(writable.journal().role_changes(TARGET).is_empty());
}

/// A target that is another server is left for a reclone, and the source is unfenced. spec: PF-RBK-02, PF-PRO-10
#[test]
fn a_replaced_target_is_left_alone() {
    let world = from_the_gate(24, Reason::TargetChanged);
    world.state().change(TARGET, |server| server.replace(uuid_of("new")));
    assert_eq!(
        ended(&world),
        (Outcome::RolledBack, Reason::TargetChanged, vec![NO_CHANNEL])
    );
    assert!(world.journal().role_changes(TARGET).is_empty());
}

/// A target that does not answer within its loss window does not keep the source fenced, since nothing was written there.
/// spec: PF-RBK-02, PF-LOS-02
#[test]
fn a_lost_target_does_not_keep_the_source_fenced() {
    let world = from_the_gate(25, Reason::TargetLost);
    silence(&world, TARGET);
    let (outcome, reason, warnings) = ended(&world);
    assert_eq!((outcome, reason), (Outcome::RolledBack, Reason::TargetLost));
    assert!(warnings.contains(&NO_CHANNEL));
    assert!(is_open(&world, SOURCE));
}

/// The claim is read right before each write of the way back, also behind a site that is slow to answer.
/// spec: PF-CLM-04; report: B30
#[test]
fn nothing_is_sent_once_the_record_has_moved_on() {
    let moments = [
        (SOURCE, Kind::TakeAuthority),
        (SOURCE, Kind::Observe),
        (PEER, Kind::Observe),
    ];
    for (site, kind) in moments {
        let world = from_the_lag_wait(26, Reason::LagTimeout);
        world.fault(PEER, Kind::Observe, Fault::Slow(Duration::from_millis(800)));
        world.at(before(site, kind), |state| state.edit(move_record_on));
        let outcome = perform(&world, first_hand(&world));
        assert!(
            matches!(outcome, Err(Refused::NotLive(_))),
            "{site} {kind:?}: {outcome:?}"
        );
        assert!(world.journal().role_changes(SOURCE).is_empty());
    }
    let world = from_the_gate(27, Reason::PromotionAborted);
    world.at(before(SOURCE, Kind::Observe), |state| state.edit(move_record_on));
    let outcome = perform(&world, first_hand(&world));
    assert!(matches!(outcome, Err(Refused::NotLive(_))), "{outcome:?}");
    assert!(world.journal().role_changes(TARGET).is_empty());
    world.state().change(TARGET, |server| server.link = Link::Up);
}
