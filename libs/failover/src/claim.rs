//! The claim as a predicate over the object: who may change roles now (PF-CLM-01).

use bloodraven_types::annotation::{self, RunSince};
use bloodraven_types::group::ClaimKind;
use bloodraven_types::{Epoch, Group, Phase, PlannedFailover, Reason, RunId, RunRef, Timestamp};

use crate::history;

/// Who holds the claim, as one read of the object shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody.
    Free,
    /// A planned run.
    Planned {
        /// The run.
        run_id: RunId,
    },
    /// An automation hold: the run ended in a way that only a human can explain.
    Held {
        /// The run.
        run_id: RunId,
    },
    /// Another actor.
    Other {
        /// What it is.
        kind: ClaimKind,
        /// Who it is.
        holder: String,
    },
}

/// Why a command must not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLive {
    /// The object of that name is another one.
    #[error("the group was recreated: the command is for object {expected}, the object is {found}")]
    Recreated {
        /// The command's.
        expected: String,
        /// The object's.
        found: String,
    },
    /// The latest run is another one.
    #[error("the command is for run {expected}, the latest run is {found:?}")]
    OtherRun {
        /// The command's.
        expected: RunId,
        /// The record's.
        found: Option<RunId>,
    },
    /// The record moved on, or is behind what the command was derived from.
    #[error("the command is for revision {expected}, the record is at {found}")]
    OtherRevision {
        /// The command's.
        expected: u64,
        /// The record's.
        found: u64,
    },
    /// The claim was taken by somebody else since.
    #[error("the command is of claim epoch {expected}, the group is at {found}")]
    OtherEpoch {
        /// The command's.
        expected: Epoch,
        /// The group's.
        found: Epoch,
    },
    /// The run does not hold the claim.
    #[error("run {run_id} does not hold the claim")]
    NotClaimed {
        /// The run.
        run_id: RunId,
    },
    /// Somebody else recorded a failover since the run took its claim (PF-CLM-05).
    #[error("a failover was recorded beside run {run_id} since it took its claim")]
    AuthorityMoved {
        /// The run.
        run_id: RunId,
    },
    /// The time is over.
    #[error("the deadline {deadline} has passed")]
    DeadlinePassed {
        /// The command's.
        deadline: Timestamp,
    },
}

/// Who holds the group's claim.
pub fn holder(group: &Group) -> Claim {
    if let Some(hold) = &group.status.planned_failover_hold {
        return Claim::Held { run_id: hold.run_id };
    }
    if let Some(run) = group.run()
        && run.phase.needs_claim()
        && !is_released(group, run.run_id)
    {
        return Claim::Planned { run_id: run.run_id };
    }
    let Some(claim) = &group.status.claim else {
        return Claim::Free;
    };
    match claim.kind {
        // A planned run's holding is told by the run itself, so what is left of it here is spent.
        Some(ClaimKind::PlannedFailover) | None => Claim::Free,
        Some(
            kind @ (ClaimKind::Emergency
            | ClaimKind::Update
            | ClaimKind::Restore
            | ClaimKind::Bootstrap
            | ClaimKind::KeyringRotation
            | ClaimKind::Recovery
            | ClaimKind::DragonflyUpgrade),
        ) => Claim::Other {
            kind,
            holder: claim.holder.clone().unwrap_or_default(),
        },
    }
}

/// Whether the run's confirmed annotation has released its claim (PF-CLM-06).
pub fn is_released(group: &Group, run_id: RunId) -> bool {
    confirmed_at(group, run_id).is_some()
}

/// When the run's promotion was confirmed, as its annotation says.
pub fn confirmed_at(group: &Group, run_id: RunId) -> Option<Timestamp> {
    let value = group.annotation(annotation::CONFIRMED)?;
    RunSince::parse(value)
        .ok()
        .filter(|confirmed| confirmed.run_id == run_id)
        .map(|confirmed| confirmed.since)
}

/// Whether a command derived from `about` may still be carried out against `group`, an uncached read (PF-CLM-04).
///
/// # Errors
/// Says what moved on, with both values.
pub fn check_live(group: &Group, about: &RunRef, deadline: Option<Timestamp>, now: Timestamp) -> Result<(), NotLive> {
    if group.uid != about.uid {
        return Err(NotLive::Recreated {
            expected: about.uid.to_string(),
            found: group.uid.to_string(),
        });
    }
    let found = group.run().map(|run| run.run_id);
    let Some(run) = group
        .run()
        .filter(|run| run.run_id == about.run_id && !run.phase.is_terminal())
    else {
        return Err(NotLive::OtherRun {
            expected: about.run_id,
            found,
        });
    };
    if run.revision != about.revision {
        return Err(NotLive::OtherRevision {
            expected: about.revision.get(),
            found: run.revision.get(),
        });
    }
    if group.epoch() != about.epoch {
        return Err(NotLive::OtherEpoch {
            expected: about.epoch,
            found: group.epoch(),
        });
    }
    if let Some(deadline) = deadline.filter(|deadline| now >= *deadline) {
        return Err(NotLive::DeadlinePassed { deadline });
    }
    Ok(())
}

/// [`check_live`], and the run holds the claim with its authority unbroken: what every statement that changes a role needs.
///
/// # Errors
/// Says what moved on, with both values.
pub fn check_claimed(
    group: &Group,
    about: &RunRef,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), NotLive> {
    check_live(group, about, deadline, now)?;
    match holder(group) {
        Claim::Planned { run_id } if run_id == about.run_id => match group.run() {
            Some(run) if history::authority_holds(group, run) || only_looks(run) => Ok(()),
            Some(_) | None => Err(NotLive::AuthorityMoved { run_id }),
        },
        Claim::Planned { .. } | Claim::Free | Claim::Held { .. } | Claim::Other { .. } => {
            Err(NotLive::NotClaimed { run_id: about.run_id })
        }
    }
}

/// A run that goes back because its authority moved: it has nothing left to send, its fence is not its own any more, and
/// what it still does is to look how it left the source.
fn only_looks(run: &PlannedFailover) -> bool {
    run.phase == Phase::RollingBack
        && run.promotion.is_none()
        && run
            .rollback
            .as_ref()
            .is_some_and(|rollback| rollback.reason == Reason::AuthorityChanged)
}
