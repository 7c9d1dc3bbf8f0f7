//! Random walks: any facts in any order at any time, with a group that changes under the run.

use std::collections::BTreeSet;

use bloodraven_failover::claim::{Claim, holder};
use bloodraven_failover::{Effect, roles};
use bloodraven_types::fact::PromotionReach::{MayBeWritable, NothingWritten, Writable};
use bloodraven_types::fact::{Fact, UnfenceObstacle};
use bloodraven_types::words::OnCooldown;
use bloodraven_types::words::OnSyncTimeout::{Fail, Proceed};
use bloodraven_types::{Command, Outcome, Phase, Reason, RunId, SiteRole, SiteState, StepState, WaitReason};
use proptest::prelude::*;
use uuid::Uuid;

use crate::kit::dice::Dice;
use crate::kit::{Ending, FRA, IAD, PDX, World, at, facts, groups, server, site};

/// What the executors may tell in each phase, for every reason that they have.
fn words_of(phase: Phase) -> Vec<Fact> {
    let failed = |reasons: &[Reason], tell: fn(Reason) -> Fact| reasons.iter().map(|reason| tell(*reason)).collect();
    match phase {
        Phase::Admitting => vec![
            facts::granted(),
            facts::waiting(WaitReason::PeerUnreadable, "fra"),
            facts::waiting(WaitReason::TargetNotReady, "pdx"),
            facts::refused(Reason::KeyringRotation),
            facts::refused(Reason::ConcurrentOperation),
        ],
        Phase::Deferred | Phase::Succeeded | Phase::Failed => {
            vec![Fact::Cancelled(bloodraven_types::fact::Cancelled {})]
        }
        Phase::Fencing => {
            let mut words: Vec<Fact> = failed(
                &[Reason::FenceFailed, Reason::AuthorityChanged, Reason::SourceLost],
                facts::fence_failed,
            );
            words.extend([facts::fenced_with(""), facts::fenced_with("mysqlsh")]);
            words.extend(vec![facts::fenced(); 8]);
            words
        }
        Phase::Draining => {
            let mut words: Vec<Fact> = failed(
                &[Reason::SourceLost, Reason::SourceUnfenced, Reason::AuthorityChanged],
                facts::drain_failed,
            );
            words.extend(vec![facts::drained(); 8]);
            words
        }
        Phase::WaitingForLag => {
            let mut words: Vec<Fact> = failed(
                &[
                    Reason::LagTimeout,
                    Reason::SourceLost,
                    Reason::TargetLost,
                    Reason::SourceUnfenced,
                ],
                facts::catch_up_failed,
            );
            words.extend(vec![facts::caught_up(); 8]);
            words.push(facts::caught_up_with(""));
            words.push(facts::caught_up_with(&format!("{}:1-101", server(IAD))));
            words
        }
        Phase::WaitingForDragonflySync => vec![
            facts::cache_offset(Some(7)),
            facts::cache_offset(None),
            facts::cache_offset(Some(7)),
            facts::cache_synced(7),
            facts::cache_synced(7),
            facts::cache_failed(Reason::DragonflySyncTimeout),
        ],
        Phase::PromotingDragonfly => vec![
            facts::cache_taken_over(),
            facts::cache_failed(Reason::DragonflyPromotionFailed),
        ],
        Phase::Promoting => promotions(),
        Phase::Publishing => vec![facts::published()],
        Phase::RollingBack => {
            let mut words: Vec<Fact> = [
                UnfenceObstacle::TargetUnreadable,
                UnfenceObstacle::TargetHasOtherTransactions,
                UnfenceObstacle::BothWritable,
                UnfenceObstacle::ForeignWritable,
                UnfenceObstacle::SourceLost,
                UnfenceObstacle::FenceNotAttributable,
                UnfenceObstacle::StatementsFailed,
            ]
            .map(facts::unfence_failed)
            .to_vec();
            words.extend([
                facts::restored(),
                facts::unfenced(),
                facts::unfenced(),
                facts::unfenced(),
            ]);
            words
        }
    }
}

fn promotions() -> Vec<Fact> {
    let mut words = vec![facts::promoted(); 8];
    words.extend(vec![facts::published(); 8]);
    words.extend([
        facts::published_dns(Some(StepState::Failed)),
        facts::promotion_failed(Reason::PromotionAborted, NothingWritten),
        facts::promotion_failed(Reason::PromotionUnconfirmed, MayBeWritable),
        facts::promotion_failed(Reason::ExecuteFailed, Writable),
    ]);
    let refusals = [
        Reason::SourceLost,
        Reason::PeerUnreadable,
        Reason::TargetNotPromotable,
        Reason::TargetChanged,
        Reason::TargetLost,
        Reason::ForeignWritable,
        Reason::SourceUnfenced,
        Reason::AuthorityChanged,
        Reason::DivergentTarget,
        Reason::InvalidGTID,
    ];
    for reason in refusals {
        for reached in [NothingWritten, NothingWritten, MayBeWritable, Writable] {
            words.push(facts::promotion_failed(reason, reached));
        }
    }
    words
}

/// The pairs of the reference's two tables, the compare-and-set's beside them.
fn is_in_the_tables((outcome, reason): Ending) -> bool {
    use Reason::*;
    let Some(reason) = reason else {
        return outcome == Outcome::Succeeded;
    };
    let after_the_fence = [
        TargetNotPromotable,
        DivergentTarget,
        AuthorityChanged,
        FenceFailed,
        SourceLost,
        SourceUnfenced,
        TargetLost,
        ForeignWritable,
        PeerUnreadable,
        LagTimeout,
        InvalidGTID,
        DragonflySyncTimeout,
        DragonflyPromotionFailed,
        TargetChanged,
        PromotionAborted,
        InternalError,
    ];
    match outcome {
        Outcome::Succeeded => false,
        Outcome::NotStarted => [
            InvalidAnnotation,
            UnknownSite,
            TargetNotPromotable,
            AlreadyActive,
            TargetUnhealthy,
            KeyringRotation,
            CooldownActive,
            ConcurrentOperation,
            InvalidFailoverState,
            Canceled,
            DivergentTarget,
            ManualRecoveryPending,
            AdmissionTimeout,
            UnexpectedActiveSite,
        ]
        .contains(&reason),
        Outcome::RolledBack => after_the_fence.contains(&reason),
        Outcome::SourceLeftFenced => after_the_fence.contains(&reason) || reason == UnknownSite,
        Outcome::PromotedUnconfirmed => [
            UnknownSite,
            SourceLost,
            TargetLost,
            PeerUnreadable,
            PromotionUnconfirmed,
            InternalError,
        ]
        .contains(&reason),
        Outcome::ManualRecoveryRequired => {
            [AuthorityChanged, ForeignWritable, ExecuteFailed, InternalError].contains(&reason)
        }
    }
}

/// How many different steps there are: what happens, and how.
const CHOICES: usize = 32 * 720_720;

/// One step of a walk. `choice` is spent on what happens, and on how.
fn wander(world: &mut World, choice: usize) {
    let (what, how) = (choice % 32, choice / 32);
    let phase = world.group.run().map(|run| run.phase);
    match what {
        0..=23 => {
            let words = words_of(phase.unwrap_or(Phase::Deferred));
            let input = world.input_of(words[how % words.len()].clone());
            let _placed = world.input(input);
        }
        24 => {
            let all = facts::one_of_each();
            let input = world.input_of(all[how % all.len()].clone());
            let _placed = world.input(input);
        }
        25 | 26 => world.tick_after([0, 1, 5, 30, 130, 400, -3, 2][how % 8]),
        27 | 28 => {
            let values = [
                "pdx",
                "pdx",
                "pdx",
                "pdx:maxLagWait=30s",
                "iad",
                "fra",
                "pdx:colour=red",
                "pdx:expect=fra",
            ];
            world.annotate(values[how % values.len()]);
        }
        29 => {
            world.remove_request();
            world.tick();
        }
        30 if how.is_multiple_of(4) => world.write_request("pdx:colour=red"),
        _ => disturb(world, how),
    }
}

/// The group changes under the run.
fn disturb(world: &mut World, how: usize) {
    let second = at(world.now).to_string();
    match how % 26 {
        0 => world.group.status.active_site = None,
        1 => world.group.status.active_site = Some(site(PDX)),
        2..=6 => world.group.status.active_site = Some(site(IAD)),
        7 => groups::status_of(&mut world.group, PDX).state = SiteState::Unreachable,
        8..=11 => groups::status_of(&mut world.group, PDX).state = SiteState::ReadOnly,
        12 => groups::annotate_failover(&mut world.group, &second, FRA),
        13 => groups::annotate_failover(&mut world.group, "junk", FRA),
        14 | 15 => world.group.annotations.clear(),
        16 => world.group.spec.planned_failover.on_cooldown = OnCooldown::Defer,
        17 => world.group.spec.planned_failover.on_cooldown = OnCooldown::Reject,
        18 => groups::with_cache(&mut world.group, Fail),
        19 => groups::with_cache(&mut world.group, Proceed),
        20 if how.is_multiple_of(3) => {
            let waits = world.group.run().is_none_or(|run| !run.phase.needs_claim());
            world.group.status.planned_failover_hold =
                waits.then(|| crate::claim::hold(RunId::new(Uuid::from_u128(5))));
        }
        20 => world.group.status.planned_failover_hold = None,
        21 => groups::status_of(&mut world.group, IAD).state = SiteState::Writable,
        22 => groups::status_of(&mut world.group, PDX).divergent_gtid = Some("x:1".to_owned()),
        23 => groups::status_of(&mut world.group, PDX).divergent_gtid = None,
        24 => {
            world.drop_site(PDX);
            world.tick();
            world.group.spec.sites = groups::orders().spec.sites;
        }
        _ => {
            let candidate = groups::spec_of(&mut world.group, FRA);
            candidate.role = SiteRole::PrimaryCandidate;
        }
    }
    world.touch();
}

/// What holds after every step of every walk. `World` itself holds each write against the revision, the epoch, the fields
/// of others and the finality of an end.
fn check(world: &World, endings: &mut BTreeSet<Ending>) {
    let Some(run) = world.group.run() else { return };
    let applied = run
        .fence
        .as_ref()
        .is_some_and(|fence| fence.state == StepState::Applied && fence.gtid_set.is_some());
    for command in world.commands() {
        if matches!(command, Command::Promote(_)) {
            assert!(applied, "{run:?}");
        }
    }
    assert_eq!(run.phase.is_terminal(), run.result.is_some());
    if let Some(result) = &run.result {
        let ending = (result.outcome, result.reason);
        assert!(is_in_the_tables(ending), "{ending:?}");
        assert_eq!(result.outcome == Outcome::Succeeded, run.phase == Phase::Succeeded);
        assert_eq!(world.commands(), []);
        assert!(matches!(holder(&world.group), Claim::Free | Claim::Held { .. }));
        endings.insert(ending);
    } else {
        assert!(world.group.status.planned_failover_hold.is_none() || !run.phase.needs_claim());
    }
    let primaries = roles::published_roles(&world.group);
    let leads = primaries
        .values()
        .filter(|role| **role == roles::PublishedRole::Primary)
        .count();
    assert!(leads <= 1);
}

/// How many runs ended, as it was told.
fn ends_told(world: &World) -> usize {
    let ended = |effect: &&Effect| matches!(effect, Effect::Ended { duration: Some(_), .. });
    world.effects.iter().filter(ended).count()
}

proptest! {
    /// Whatever is told in whatever order, at whatever time: no step panics, one revision a write, one epoch a claim, an end is
    /// left only by a new request, and every end is one of the reference's tables. spec: PF-DUR-01, PF-CLM-01, PF-OBS-01
    #[test]
    fn any_walk_keeps_the_rules(choices in prop::collection::vec(0_usize..CHOICES, 1..200)) {
        let mut world = World::orders();
        let mut endings = BTreeSet::new();
        let mut ended = BTreeSet::new();
        for choice in choices {
            wander(&mut world, choice);
            check(&world, &mut endings);
            ended.extend(world.group.run().filter(|run| run.result.is_some()).map(|run| run.run_id));
        }
        prop_assert!(ends_told(&world) >= ended.len());
    }
}

/// Long walks reach every pair of the reference's tables that the machine decides by itself. spec: PF-OBS-01
#[test]
fn long_walks_reach_every_pair_of_the_tables() {
    let mut endings = BTreeSet::new();
    for seed in 0..10_000 {
        let mut dice = Dice::of(seed);
        let mut world = World::orders();
        if seed % 4 == 0 {
            groups::with_cache(&mut world.group, if seed % 8 == 0 { Fail } else { Proceed });
        }
        if seed % 10 == 1 {
            world.group.spec.planned_failover.on_cooldown = OnCooldown::Defer;
            groups::failed_over(&mut world.group, IAD, -100);
        }
        for _ in 0..60 {
            wander(&mut world, dice.throw(CHOICES));
            check(&world, &mut endings);
        }
    }
    let missing: Vec<Ending> = Outcome::ALL
        .iter()
        .flat_map(|outcome| Reason::ALL.iter().map(move |reason| (*outcome, Some(*reason))))
        .filter(|ending| is_in_the_tables(*ending) && !endings.contains(ending))
        .filter(|(_, reason)| *reason != Some(Reason::InternalError))
        .collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
    assert!(endings.contains(&(Outcome::Succeeded, None)));
}
