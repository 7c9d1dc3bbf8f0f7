//! The machine of a planned failover: one door, [`step`], and one derivation, [`commands`].

mod admitting;
mod authority;
mod cache;
mod ending;
mod executing;
mod promoting;
mod request;
mod rollback;

use std::time::Duration;

use bloodraven_types::annotation;
use bloodraven_types::command::Command;
use bloodraven_types::fact::{
    CacheFailed, CacheOffset, CacheSynced, CacheTakenOver, CaughtUp, Drained, Fact, Fenced, Granted, Promoted,
    PromotionFailed, Published, Refused, StepFailed, TargetRestored, UnfenceFailed, Unfenced, Waiting,
};
use bloodraven_types::group::GroupStatus;
use bloodraven_types::{EventReason, Group, Phase, PlannedFailover, RunId, SiteName, Timestamp};

pub use bloodraven_types::Outcome;
pub use promoting::{PromotionStage, promotion_stage};
pub use request::{Refusal, Settlement, settlement, validate};

use std::collections::BTreeMap;

/// What comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// An annotation with this value was seen; `run_id` is fresh and used only if a run begins.
    Requested {
        /// The id for a new run.
        run_id: RunId,
        /// The annotation's value as it was seen.
        value: String,
    },
    /// The annotation whose value was judged is to go.
    RemoveRequest {
        /// That value; another one is left for the next pass.
        value: String,
    },
    /// The annotation of a deferred request is gone.
    Cancelled,
    /// Something about the claim.
    Admission(AdmissionFact),
    /// Something about the fence.
    Fence(FenceFact),
    /// Something about the drain.
    Drain(DrainFact),
    /// Something about the target's catching up.
    CatchUp(CatchUpFact),
    /// Something about the cache.
    Cache(CacheFact),
    /// Something about the promotion.
    Promotion(PromotionFact),
    /// Something about the way back.
    Rollback(RollbackFact),
    /// Publication was tried.
    Published(Published),
    /// Time has passed, or the object has changed.
    Tick,
}

/// What the claim's probes found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the fact of the same name")]
pub enum AdmissionFact {
    Granted(Granted),
    Waiting(Waiting),
    Refused(Refused),
}

/// What became of the fence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the fact of the same name")]
pub enum FenceFact {
    Fenced(Fenced),
    Failed(StepFailed),
}

/// What became of the drain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the fact of the same name")]
pub enum DrainFact {
    Drained(Drained),
    Failed(StepFailed),
}

/// What became of the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the fact of the same name")]
pub enum CatchUpFact {
    CaughtUp(CaughtUp),
    Lagging,
    Failed(StepFailed),
}

/// What became of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the fact of the same name")]
pub enum CacheFact {
    Offset(CacheOffset),
    Synced(CacheSynced),
    TakenOver(CacheTakenOver),
    Failed(CacheFailed),
}

/// What became of the promotion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the fact of the same name")]
pub enum PromotionFact {
    Promoted(Promoted),
    Failed(PromotionFailed),
}

/// What became of the way back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the fact of the same name")]
pub enum RollbackFact {
    TargetRestored(TargetRestored),
    Unfenced(Unfenced),
    Failed(UnfenceFailed),
}

impl Input {
    /// The input that a fact is; `run_id` is the id that came with it.
    pub fn from_fact(run_id: RunId, fact: Fact) -> Self {
        match fact {
            Fact::Requested(fact) => Self::Requested {
                run_id,
                value: fact.value,
            },
            Fact::Cancelled(_) => Self::Cancelled,
            Fact::Granted(fact) => Self::Admission(AdmissionFact::Granted(fact)),
            Fact::Waiting(fact) => Self::Admission(AdmissionFact::Waiting(fact)),
            Fact::Refused(fact) => Self::Admission(AdmissionFact::Refused(fact)),
            Fact::Fenced(fact) => Self::Fence(FenceFact::Fenced(fact)),
            Fact::FenceFailed(fact) => Self::Fence(FenceFact::Failed(fact)),
            Fact::Drained(fact) => Self::Drain(DrainFact::Drained(fact)),
            Fact::DrainFailed(fact) => Self::Drain(DrainFact::Failed(fact)),
            Fact::CaughtUp(fact) => Self::CatchUp(CatchUpFact::CaughtUp(fact)),
            Fact::Lagging(_) => Self::CatchUp(CatchUpFact::Lagging),
            Fact::CatchUpFailed(fact) => Self::CatchUp(CatchUpFact::Failed(fact)),
            Fact::CacheOffset(fact) => Self::Cache(CacheFact::Offset(fact)),
            Fact::CacheSynced(fact) => Self::Cache(CacheFact::Synced(fact)),
            Fact::CacheTakenOver(fact) => Self::Cache(CacheFact::TakenOver(fact)),
            Fact::CacheFailed(fact) => Self::Cache(CacheFact::Failed(fact)),
            Fact::Promoted(fact) => Self::Promotion(PromotionFact::Promoted(fact)),
            Fact::PromotionFailed(fact) => Self::Promotion(PromotionFact::Failed(fact)),
            Fact::TargetRestored(fact) => Self::Rollback(RollbackFact::TargetRestored(fact)),
            Fact::Unfenced(fact) => Self::Rollback(RollbackFact::Unfenced(fact)),
            Fact::UnfenceFailed(fact) => Self::Rollback(RollbackFact::Failed(fact)),
            Fact::Published(fact) => Self::Published(fact),
        }
    }

    /// A static name for logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Requested { .. } => "requested",
            Self::RemoveRequest { .. } => "remove-request",
            Self::Cancelled => "cancelled",
            Self::Admission(_) => "admission",
            Self::Fence(_) => "fence",
            Self::Drain(_) => "drain",
            Self::CatchUp(_) => "catch-up",
            Self::Cache(_) => "cache",
            Self::Promotion(_) => "promotion",
            Self::Rollback(_) => "rollback",
            Self::Published(_) => "published",
            Self::Tick => "tick",
        }
    }
}

/// One conditioned write of the object. A step makes at most one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The whole status.
    Status(Box<GroupStatus>),
    /// Annotations to set or remove.
    Annotations(BTreeMap<String, Option<String>>),
}

/// What to say once the write has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A Kubernetes Event.
    Event {
        /// Its reason.
        reason: EventReason,
        /// Its message.
        message: String,
    },
    /// A run ended, or a request was refused without a block.
    Ended {
        /// The requested site.
        target: SiteName,
        /// How.
        outcome: Outcome,
        /// How long the run took; absent for a request without a block.
        duration: Option<Duration>,
    },
    /// The lag wait was over (one sample a run).
    LagWaited {
        /// The target.
        target: SiteName,
        /// How long.
        duration: Duration,
    },
    /// A request was deferred.
    Deferred {
        /// Why.
        reason: bloodraven_types::words::DeferReason,
    },
    /// The claim was released.
    Released {
        /// Why, for the log.
        why: &'static str,
    },
}

/// What one input makes of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The conditioned write.
    pub write: Write,
    /// What to say after its commit.
    pub effects: Vec<Effect>,
    /// What to feed in after its commit, to the object as committed.
    pub then: Option<Input>,
}

/// What [`step`] says to an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write, then speak.
    Write(Step),
    /// Nothing is to be written; the effects may be said.
    Nothing(Vec<Effect>),
}

/// An input that the record's phase has no place for. A late or repeated message: dropped, never acted on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run in phase {phase:?} has no place for {input}")]
pub struct Illegal {
    /// The phase; none without a run.
    pub phase: Option<Phase>,
    /// The input's name.
    pub input: &'static str,
}

/// What `input` makes of `group` at `now`.
///
/// The caller has checked that a fact is about this object's latest run and not of a later revision than the record.
///
/// # Errors
/// [`Illegal`] for an input that does not belong to the record's phase.
pub fn step(group: &Group, input: Input, now: Timestamp) -> Result<Verdict, Illegal> {
    let now = now.whole_seconds();
    let input = match input {
        Input::Requested { run_id, value } => return Ok(request::requested(group, run_id, &value, now)),
        Input::RemoveRequest { value } => return Ok(request::remove(group, &value)),
        other @ (Input::Cancelled
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Cache(_)
        | Input::Promotion(_)
        | Input::Rollback(_)
        | Input::Published(_)
        | Input::Tick) => other,
    };
    let Some(run) = group.run() else {
        return match input {
            Input::Tick => Ok(Verdict::nothing()),
            other @ (Input::Requested { .. }
            | Input::RemoveRequest { .. }
            | Input::Cancelled
            | Input::Admission(_)
            | Input::Fence(_)
            | Input::Drain(_)
            | Input::CatchUp(_)
            | Input::Cache(_)
            | Input::Promotion(_)
            | Input::Rollback(_)
            | Input::Published(_)) => Err(Illegal {
                phase: None,
                input: other.name(),
            }),
        };
    };
    if let Some(step) = authority::overruled(group, run, now) {
        return Ok(measured(run, Verdict::Write(step), now));
    }
    let verdict = match run.phase {
        Phase::Admitting => admitting::admitting(group, run, input, now),
        Phase::Deferred => admitting::deferred(group, run, input, now),
        Phase::Fencing => executing::fencing(group, run, input, now),
        Phase::Draining => executing::draining(group, run, input, now),
        Phase::WaitingForLag => executing::waiting_for_lag(group, run, input, now),
        Phase::WaitingForDragonflySync => cache::waiting_for_sync(group, run, input, now),
        Phase::PromotingDragonfly => cache::promoting(group, run, input, now),
        Phase::Promoting => promoting::promoting(group, run, input, now),
        Phase::Publishing => promoting::publishing(group, run, input, now),
        Phase::RollingBack => rollback::rolling_back(group, run, input, now),
        Phase::Succeeded | Phase::Failed => ended(group, run, input),
    };
    verdict.map(|verdict| measured(run, verdict, now))
}

/// Adds the lag wait's one sample to the write that ends the wait, whichever way it ends (PF-OBS-03).
fn measured(run: &PlannedFailover, verdict: Verdict, now: Timestamp) -> Verdict {
    let (Verdict::Write(step), Phase::WaitingForLag, Some(wait)) = (&verdict, run.phase, &run.lag_wait) else {
        return verdict;
    };
    let over = match &step.write {
        Write::Status(status) => status
            .planned_failover
            .as_ref()
            .is_some_and(|next| next.phase != Phase::WaitingForLag),
        Write::Annotations(_) => false,
    };
    if !over {
        return verdict;
    }
    Verdict::Write(step.clone().effect(Effect::LagWaited {
        target: run.target_site.clone(),
        duration: now.since(wait.start_time),
    }))
}

/// The commands of the record as it stands: the same before and after a crash.
pub fn commands(group: &Group) -> Vec<Command> {
    let Some(run) = group.run() else { return Vec::new() };
    match run.phase {
        Phase::Admitting => admitting::commands(group, run),
        Phase::Fencing | Phase::Draining | Phase::WaitingForLag => executing::commands(run),
        Phase::WaitingForDragonflySync | Phase::PromotingDragonfly => cache::commands(run),
        Phase::Promoting => promoting::commands(group, run),
        Phase::RollingBack => rollback::commands(group, run),
        Phase::Deferred | Phase::Publishing | Phase::Succeeded | Phase::Failed => Vec::new(),
    }
}

/// After the end only the run's own annotations are left to be tidied.
fn ended(group: &Group, run: &PlannedFailover, input: Input) -> Result<Verdict, Illegal> {
    match input {
        Input::Tick => Ok(tidy(group, run)),
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Cache(_)
        | Input::Promotion(_)
        | Input::Rollback(_)
        | Input::Published(_)) => Err(Illegal {
            phase: Some(run.phase),
            input: other.name(),
        }),
    }
}

fn tidy(group: &Group, run: &PlannedFailover) -> Verdict {
    let mine = |key: &str| {
        group
            .annotation(key)
            .is_some_and(|value| value.starts_with(&format!("{}:", run.run_id)))
    };
    let changes: BTreeMap<String, Option<String>> = [
        annotation::CONFIRMED,
        annotation::STALL_SINCE,
        annotation::MANAGER_ABSENT_SINCE,
    ]
    .into_iter()
    .filter(|key| mine(key))
    .map(|key| (key.to_owned(), None))
    .collect();
    if changes.is_empty() {
        return Verdict::nothing();
    }
    Verdict::Write(Step {
        write: Write::Annotations(changes),
        effects: Vec::new(),
        then: None,
    })
}

impl Verdict {
    /// Nothing to write and nothing to say.
    pub const fn nothing() -> Self {
        Self::Nothing(Vec::new())
    }
}

impl Step {
    /// A new status with the run moved on by one revision.
    fn status(group: &Group, run: PlannedFailover) -> Self {
        let mut status = group.status.clone();
        status.planned_failover = Some(PlannedFailover {
            revision: run.revision.next(),
            ..run
        });
        Self {
            write: Write::Status(Box::new(status)),
            effects: Vec::new(),
            then: None,
        }
    }

    fn event(mut self, reason: EventReason, message: impl Into<String>) -> Self {
        self.effects.push(Effect::Event {
            reason,
            message: message.into(),
        });
        self
    }

    fn effect(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    fn then(mut self, input: Input) -> Self {
        self.then = Some(input);
        self
    }

    fn verdict(self) -> Result<Verdict, Illegal> {
        Ok(Verdict::Write(self))
    }
}

fn illegal(run: &PlannedFailover, input: &Input) -> Illegal {
    Illegal {
        phase: Some(run.phase),
        input: input.name(),
    }
}
