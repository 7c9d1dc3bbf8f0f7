//! A model check: every trace of the machine with its two actors, the one on the source and the one on the target.
//!
//! A state is the object, what the two servers do, and every fact ever told. Facts may be lost, come again and come in any
//! order; processes are killed after any write and between their statement and their word; timers run late; somebody else
//! records a failover; a site leaves the spec. Actors obey the one rule that they obey in production: no statement without
//! `check_claimed` on the object of now. They read no server beside their own, so what is proven here rests on the record
//! alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bloodraven_failover::claim::check_claimed;
use bloodraven_failover::{Input, Verdict, Write, commands, step};
use bloodraven_types::fact::PromotionReach::{MayBeWritable, NothingWritten};
use bloodraven_types::fact::UnfenceObstacle;
use bloodraven_types::words::OnSyncTimeout::{self, Fail, Proceed};
use bloodraven_types::{Command, Fact, Group, Outcome, Phase, Reason, RunRef, StepState};

use crate::kit::{World, at, facts, groups};

/// Later than every deadline of a phase.
const LATE: i64 = 1000;
/// A run has no more phases than this, so more late timers change nothing.
const MOST_LATE_TIMERS: i64 = 4;

/// One state of the whole.
#[derive(Clone)]
struct State {
    group: Group,
    now: i64,
    source_fenced: bool,
    target_open: bool,
    told: BTreeMap<String, (RunRef, Fact)>,
}

/// What a step of an actor does and tells.
struct Act {
    source_fenced: Option<bool>,
    target_open: Option<bool>,
    tells: Option<Fact>,
}

impl Act {
    fn tells(fact: Fact) -> Self {
        Self {
            source_fenced: None,
            target_open: None,
            tells: Some(fact),
        }
    }

    fn fences(fenced: bool, tells: Option<Fact>) -> Self {
        Self {
            source_fenced: Some(fenced),
            target_open: None,
            tells,
        }
    }

    fn opens(open: bool, tells: Option<Fact>) -> Self {
        Self {
            source_fenced: None,
            target_open: Some(open),
            tells,
        }
    }
}

/// Everything that an actor may do about a command, and truthfully tell.
fn acts(state: &State, command: &Command) -> Vec<Act> {
    match command {
        Command::ProbeGrant(_) => vec![Act::tells(facts::granted())],
        Command::Fence(_) => vec![
            Act::fences(true, Some(facts::fenced())),
            Act::fences(true, Some(facts::fenced_with("mysqlsh"))),
            Act::fences(true, Some(facts::fence_failed(Reason::FenceFailed))),
            Act::fences(true, None),
            Act::tells(facts::fence_failed(Reason::AuthorityChanged)),
        ],
        Command::Drain(_) => vec![
            Act::tells(facts::drained()),
            Act::tells(facts::drain_failed(Reason::SourceLost)),
            Act::tells(facts::drain_failed(Reason::AuthorityChanged)),
        ],
        Command::AwaitCatchUp(_) => vec![
            Act::tells(facts::caught_up()),
            Act::tells(facts::caught_up_with("")),
            Act::tells(facts::catch_up_failed(Reason::TargetLost)),
        ],
        Command::SyncCache(command) if command.source_offset.is_none() => {
            vec![
                Act::tells(facts::cache_offset(Some(7))),
                Act::tells(facts::cache_offset(None)),
            ]
        }
        Command::SyncCache(_) => vec![Act::tells(facts::cache_synced(7))],
        Command::TakeOverCache(_) => vec![
            Act::tells(facts::cache_taken_over()),
            Act::tells(facts::cache_failed(Reason::DragonflyPromotionFailed)),
        ],
        Command::Promote(_) => {
            let mut acts = vec![
                Act::opens(true, Some(facts::promoted())),
                Act::opens(true, Some(facts::promotion_failed(Reason::TargetLost, MayBeWritable))),
                Act::opens(true, None),
            ];
            if !state.target_open {
                // Told by a process that has not opened it; another one may still do so before this is heard.
                acts.push(Act::tells(facts::promotion_failed(
                    Reason::PeerUnreadable,
                    NothingWritten,
                )));
            }
            acts
        }
        Command::RestoreTarget(_) => vec![Act::opens(false, Some(facts::restored())), Act::opens(false, None)],
        Command::Unfence(command) if !command.attributable => {
            vec![Act::tells(facts::unfence_failed(UnfenceObstacle::FenceNotAttributable))]
        }
        Command::Unfence(command) => {
            let mut acts = vec![
                Act::fences(false, Some(facts::unfenced())),
                Act::fences(false, None),
                Act::tells(facts::unfence_failed(UnfenceObstacle::StatementsFailed)),
            ];
            if command.target_server_uuid.is_some() {
                acts.push(Act::tells(facts::unfence_failed(UnfenceObstacle::BothWritable)));
            }
            acts
        }
        Command::Publish(_) => vec![Act::tells(facts::published())],
    }
}

impl State {
    fn key(&self) -> String {
        let told: Vec<&String> = self.told.keys().collect();
        let status = serde_json::to_string(&self.group.status).unwrap();
        format!(
            "{status} {:?} {} {} {} {} {told:?}",
            self.group.annotations,
            self.group.spec.sites.len(),
            self.now,
            self.source_fenced,
            self.target_open
        )
    }

    /// Forgets facts without a place. A run never comes back to a phase that it left, so they will not have one again.
    fn without_stragglers(mut self) -> Self {
        let (group, now) = (self.group.clone(), at(self.now));
        self.told
            .retain(|_, (about, fact)| step(&group, Input::from_fact(about.run_id, fact.clone()), now).is_ok());
        self
    }

    /// Everything that can happen next.
    fn successors(&self) -> Vec<Self> {
        let mut next: Vec<Self> = self.acted().into_iter().map(|(state, _)| state).collect();
        for (about, fact) in self.told.values() {
            let record = RunRef::of(&self.group);
            let belongs = record.is_some_and(|record| record.epoch == about.epoch && about.revision <= record.revision);
            if belongs {
                next.extend(self.kept(Input::from_fact(about.run_id, fact.clone())));
            }
        }
        next.extend(self.kept(Input::Tick));
        next.extend(self.disturbed());
        if self.now < LATE * MOST_LATE_TIMERS {
            let mut late = self.clone();
            late.now += LATE;
            next.extend(late.kept(Input::Tick));
        }
        next
    }

    /// What others may do to the object, once each.
    fn disturbed(&self) -> Vec<Self> {
        let mut recorded = self.clone();
        groups::failed_over(&mut recorded.group, "fra", 5);
        let mut removed = self.clone();
        removed.group.spec.sites.retain(|site| site.name.as_str() != "pdx");
        vec![recorded, removed]
    }

    /// Every actor's step on the record of now, with what it tells.
    fn acted(&self) -> Vec<(Self, Option<Fact>)> {
        let about = RunRef::of(&self.group).unwrap();
        let mut next = Vec::new();
        for command in commands(&self.group) {
            let changes_a_role = matches!(
                command,
                Command::Fence(_) | Command::Promote(_) | Command::RestoreTarget(_) | Command::Unfence(_)
            );
            if changes_a_role && check_claimed(&self.group, &about, None, at(self.now)).is_err() {
                continue;
            }
            for act in acts(self, &command) {
                let mut state = self.clone();
                state.source_fenced = act.source_fenced.unwrap_or(self.source_fenced);
                state.target_open = act.target_open.unwrap_or(self.target_open);
                if let Some(fact) = act.tells.clone() {
                    let name = format!("{} {} {fact:?}", about.revision, fact.name());
                    state.told.insert(name, (about.clone(), fact));
                }
                next.push((state, act.tells));
            }
        }
        next
    }

    /// The keeper takes an input in, and is killed after any of its writes or none.
    fn kept(&self, input: Input) -> Vec<Self> {
        let mut states = Vec::new();
        let mut state = self.clone();
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let Ok(Verdict::Write(step)) = step(&state.group, input, at(state.now)) else {
                break;
            };
            match step.write {
                Write::Status(status) => state.group.status = *status,
                Write::Annotations(changes) => {
                    for (key, value) in changes {
                        match value {
                            Some(value) => state.group.annotations.insert(key, value),
                            None => state.group.annotations.remove(&key),
                        };
                    }
                }
            }
            next = step.then;
            states.push(state.clone());
        }
        states
    }

    /// What must hold in every state.
    fn check(&self) {
        let run = self.group.run().unwrap();
        let fence = run.fence.as_ref();
        let applied = fence.is_some_and(|fence| fence.state == StepState::Applied && fence.gtid_set.is_some());
        for command in commands(&self.group) {
            if let Command::Promote(command) = &command {
                assert!(applied, "asked to promote without a proven fence: {run:?}");
                assert_eq!(Some(&command.gtid_set), fence.unwrap().gtid_set.as_ref());
            }
            if let Command::Unfence(_) = &command {
                let looked_at = run.rollback.as_ref().unwrap().target.is_some();
                assert!(
                    run.promotion.is_none() || looked_at,
                    "the source before the target: {run:?}"
                );
            }
        }
        assert!(
            self.source_fenced || !self.target_open,
            "both sites take writes: {run:?}"
        );
        assert!(self.group.epoch().get() <= 1);
        if let Some(result) = &run.result {
            match result.outcome {
                Outcome::Succeeded => assert!(self.source_fenced && self.target_open),
                Outcome::RolledBack => assert!(!self.source_fenced && !self.target_open),
                Outcome::NotStarted => assert!(fence.is_none() && !self.source_fenced),
                Outcome::SourceLeftFenced => assert!(!self.target_open, "{run:?}"),
                Outcome::PromotedUnconfirmed | Outcome::ManualRecoveryRequired => assert!(applied),
            }
        }
    }

    /// With everybody alive again the run ends: actors act and are heard, and timers run.
    fn ends(&self) -> bool {
        let mut state = self.clone();
        for _ in 0..12 {
            if state.group.run().unwrap().phase.is_terminal() {
                return true;
            }
            let run_id = state.group.run().unwrap().run_id;
            let acted = state.acted().into_iter().find_map(|(next, tells)| Some((next, tells?)));
            if let Some((next, fact)) = acted {
                let kept = next.kept(Input::from_fact(run_id, fact));
                state = kept.last().cloned().unwrap_or(next);
            }
            state.now += LATE;
            state = state.kept(Input::Tick).last().cloned().unwrap_or(state);
        }
        false
    }
}

/// Searches all traces, and gives the number of states and the ways that runs end in.
fn search(cache: Option<OnSyncTimeout>) -> (usize, BTreeSet<Outcome>, BTreeSet<Phase>) {
    let mut world = cache.map_or_else(World::orders, World::with_cache);
    world.annotate("pdx");
    let first = State {
        group: world.group,
        now: 0,
        source_fenced: false,
        target_open: false,
        told: BTreeMap::new(),
    };
    let mut seen = BTreeSet::from([first.key()]);
    let mut open = VecDeque::from([first]);
    let (mut outcomes, mut phases) = (BTreeSet::new(), BTreeSet::new());
    while let Some(state) = open.pop_front() {
        state.check();
        assert!(state.ends(), "a run that cannot end: {:?}", state.group.run());
        let run = state.group.run().unwrap();
        phases.insert(run.phase);
        outcomes.extend(run.result.as_ref().map(|result| result.outcome));
        for next in state.successors().into_iter().map(State::without_stragglers) {
            if seen.insert(next.key()) {
                open.push_back(next);
            }
        }
    }
    (seen.len(), outcomes, phases)
}

/// In no reachable state is a promotion asked for without a proven fence, or do both sites take writes; every end says the
/// truth about the two servers, and from every state the run can still end. spec: PF-PRO-01, PF-DUR-12 report: B22
#[test]
fn the_old_writer_has_stopped_before_the_new_one_starts() {
    let (states, outcomes, phases) = search(None);
    assert!(states > 1000, "{states}");
    assert_eq!(outcomes.len(), Outcome::ALL.len(), "{outcomes:?}");
    assert_eq!(phases.len(), 9, "all but the deferral and the cache: {phases:?}");
}

/// The same with a cache, whichever its policy. spec: PF-DFY-08 report: B22
#[test]
fn a_cache_changes_nothing_about_it() {
    for policy in [Proceed, Fail] {
        let (states, outcomes, phases) = search(Some(policy));
        assert!(states > 2000, "{states}");
        assert_eq!(outcomes.len(), Outcome::ALL.len(), "{outcomes:?}");
        assert_eq!(phases.len(), 11, "{phases:?}");
    }
}
