//! Following one's own run from version to version of the group, without a clock or a connection.

use bloodraven_types::annotation::PLANNED_FAILOVER;
use bloodraven_types::record::PlannedFailover;
use bloodraven_types::words::Phase;
use bloodraven_types::{Group, ObjectUid, RunId, SiteName, Timestamp};

use crate::ending::Ending;
use crate::request::Before;

/// Follows the run that a request brings about.
#[derive(Debug)]
pub(crate) struct Follower {
    uid: ObjectUid,
    target: SiteName,
    value: String,
    before: Before,
    own: Option<RunId>,
    last: String,
}

/// What a version of the group means for the one who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing new.
    Quiet,
    /// Something to print.
    Progress(String),
    /// The run waits for a cooldown or a hold and is tried again then.
    Deferred {
        /// Something to print, when it is new.
        line: Option<String>,
        /// When it is tried again.
        retry: Option<Timestamp>,
    },
    /// The run has ended.
    Ended(Ending),
    /// The request was taken away and there is no run: it was refused or skipped, and an Event says why.
    Withdrawn,
    /// The run can no longer be followed.
    Lost(String),
}

impl Follower {
    /// Follows what the annotation value `value`, written to the object `uid`, brings about.
    pub(crate) fn new(uid: ObjectUid, target: SiteName, value: String, before: Before) -> Self {
        Self {
            uid,
            target,
            value,
            before,
            own: None,
            last: String::new(),
        }
    }

    /// The run, once it is known.
    pub(crate) fn run_id(&self) -> Option<RunId> {
        self.own
    }

    /// Takes one version in.
    pub(crate) fn see(&mut self, group: &Group) -> Step {
        if group.uid != self.uid {
            return Step::Lost("the group was deleted and made again".to_owned());
        }
        let run = group.run().filter(|run| self.is_own(run));
        let Some(run) = run else {
            if let Some(own) = self.own {
                return Step::Lost(format!("run {own} was replaced by another before its end was seen"));
            }
            let pending = group.annotation(PLANNED_FAILOVER) == Some(self.value.as_str());
            return if pending {
                self.say("phase: (requested) — waits to be admitted".to_owned())
            } else {
                Step::Withdrawn
            };
        };
        self.own = Some(run.run_id);
        if let Some(ending) = Ending::of(group) {
            return Step::Ended(ending);
        }
        let said = self.say(progress(run));
        if run.phase != Phase::Deferred {
            return said;
        }
        let line = match said {
            Step::Progress(line) => Some(line),
            Step::Quiet | Step::Deferred { .. } | Step::Ended(_) | Step::Withdrawn | Step::Lost(_) => None,
        };
        Step::Deferred {
            line,
            retry: run.admission.retry_time,
        }
    }

    /// Whether the run is the one that the request brought about: a new one, or the deferred one that took the target in.
    fn is_own(&self, run: &PlannedFailover) -> bool {
        match self.own {
            Some(own) => run.run_id == own,
            None if Some(run.run_id) != self.before.run_id => true,
            None => self.before.deferred && run.target_site == self.target,
        }
    }

    fn say(&mut self, line: String) -> Step {
        if line == self.last {
            return Step::Quiet;
        }
        self.last.clone_from(&line);
        Step::Progress(line)
    }
}

/// One line for where the run stands.
fn progress(run: &PlannedFailover) -> String {
    let admission = &run.admission;
    let mut said = Vec::new();
    if run.claim_time.is_none() {
        if let Some(reason) = admission.wait_reason {
            let detail = admission
                .wait_detail
                .as_ref()
                .map(|detail| format!(" ({detail})"))
                .unwrap_or_default();
            said.push(format!("waits for {reason}{detail}"));
        }
        if let Some(reason) = admission.defer_reason {
            let retry = admission
                .retry_time
                .map(|time| format!(", tried again at {time}"))
                .unwrap_or_default();
            said.push(format!("{reason}{retry}"));
        }
    }
    if !run.message.is_empty() {
        said.push(run.message.clone());
    }
    if said.is_empty() {
        return format!("phase: {}", run.phase);
    }
    format!("phase: {} — {}", run.phase, said.join("; "))
}
