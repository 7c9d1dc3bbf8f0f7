//! How a run ended, from its record or its terminal marker, and the exit code for it.

use std::fmt;

use bloodraven_types::Group;
use bloodraven_types::words::{Outcome, Reason, Warning};

use crate::marker::Marker;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// What the group was left in.
    pub(crate) outcome: Outcome,
    /// Why; absent for `Succeeded`.
    pub(crate) reason: Option<Reason>,
    /// What qualifies it.
    pub(crate) warnings: Vec<Warning>,
    /// Whether only the marker says so.
    pub(crate) by_marker: bool,
}

impl Ending {
    /// The end of the group's latest run, when it has ended. A marker that names the run counts whatever its phase says.
    pub(crate) fn of(group: &Group) -> Option<Self> {
        let run = group.run()?;
        if let Some(result) = &run.result {
            return Some(Self {
                outcome: result.outcome,
                reason: result.reason,
                warnings: result.warnings.clone(),
                by_marker: false,
            });
        }
        let marker = Marker::ending(group, run.run_id)?;
        Some(Self {
            outcome: marker.outcome,
            reason: marker.reason,
            warnings: marker.warnings,
            by_marker: true,
        })
    }

    /// The exit code of `promote --wait`.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self.outcome {
            Outcome::Succeeded => 0,
            Outcome::NotStarted => 1,
            Outcome::RolledBack => 2,
            Outcome::SourceLeftFenced => 3,
            Outcome::PromotedUnconfirmed => 4,
            Outcome::ManualRecoveryRequired => 5,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.outcome)?;
        if let Some(reason) = self.reason {
            write!(f, ":{reason}")?;
        }
        Ok(())
    }
}
