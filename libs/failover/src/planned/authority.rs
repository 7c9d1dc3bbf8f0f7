//! What ends or turns back a run of any phase before its own facts are heard: sites that are gone, authority that moved,
//! a record that contradicts itself.

use bloodraven_types::record::{PlannedFailover, Rollback};
use bloodraven_types::{Group, Outcome, Phase, Reason, Timestamp};

use super::ending::{self, End};
use super::executing::roll_back;
use super::promoting::{PromotionStage, promotion_stage};
use super::{Step, Verdict};
use crate::{claim, history};

/// The end or the turn that the object itself asks of a run, whatever the input is.
pub(super) fn overruled(group: &Group, run: &PlannedFailover, now: Timestamp) -> Option<Step> {
    if !run.phase.needs_claim() || claim::is_released(group, run.run_id) {
        return None;
    }
    removed_site(group, run, now).or_else(|| authority_moved(group, run, now))
}

/// The run's source or target is no longer in the spec: it ends at once, without touching any server (PF-CLM-07).
fn removed_site(group: &Group, run: &PlannedFailover, now: Timestamp) -> Option<Step> {
    let missing = std::iter::once(&run.target_site)
        .chain(run.source_site.as_ref())
        .find(|site| group.site(site).is_none())?;
    let outcome = if run.phase == Phase::Promoting {
        Outcome::PromotedUnconfirmed
    } else {
        Outcome::SourceLeftFenced
    };
    let message =
        format!("site \"{missing}\" was removed from spec.sites during the run; check the remaining sites by hand");
    let end = End {
        outcome,
        reason: Some(Reason::UnknownSite),
        warnings: Vec::new(),
        message,
        ambiguous_sites: Vec::new(),
    };
    Some(ending::end(group, run.clone(), end, now))
}

/// Somebody recorded a failover while the run held its claim, so the run's proofs are worth nothing any more (PF-CLM-05).
///
/// Before the promotion's intent it goes back, after it the result cannot be explained. A run that goes back already
/// leaves the target alone from here on.
fn authority_moved(group: &Group, run: &PlannedFailover, now: Timestamp) -> Option<Step> {
    if history::authority_holds(group, run) {
        return None;
    }
    let detail = "a failover was recorded beside the run since it took its claim";
    match run.phase {
        Phase::Fencing
        | Phase::Draining
        | Phase::WaitingForLag
        | Phase::WaitingForDragonflySync
        | Phase::PromotingDragonfly => Some(roll_back(group, run, Reason::AuthorityChanged, detail, now)),
        Phase::Promoting => match promotion_stage(group, run) {
            PromotionStage::Recorded { .. } | PromotionStage::Released { .. } => None,
            PromotionStage::Intended => {
                let end = End {
                    outcome: Outcome::ManualRecoveryRequired,
                    reason: Some(Reason::AuthorityChanged),
                    warnings: Vec::new(),
                    message: detail.to_owned(),
                    ambiguous_sites: Vec::new(),
                };
                Some(ending::end(group, run.clone(), end, now))
            }
        },
        Phase::RollingBack => {
            let rollback = run.rollback.as_ref()?;
            if rollback.reason == Reason::AuthorityChanged && run.promotion.is_none() {
                return None;
            }
            let mut next = run.clone();
            next.promotion = None;
            next.rollback = Some(Rollback {
                reason: Reason::AuthorityChanged,
                detail: detail.to_owned(),
                ..rollback.clone()
            });
            next.message = format!("rolling back ({}): {detail}", Reason::AuthorityChanged);
            Some(Step::status(group, next))
        }
        Phase::Admitting | Phase::Deferred | Phase::Publishing | Phase::Succeeded | Phase::Failed => None,
    }
}

/// The record contradicts itself. That is our fault, never the group's: it goes back if it can, and says so.
pub(super) fn inconsistent(group: &Group, run: &PlannedFailover, what: &str, now: Timestamp) -> Verdict {
    let end = End {
        outcome: if run.phase == Phase::Promoting {
            Outcome::PromotedUnconfirmed
        } else {
            Outcome::SourceLeftFenced
        },
        reason: Some(Reason::InternalError),
        warnings: Vec::new(),
        message: format!("the run's record contradicts itself: {what}; {}", ending::MANUAL_ADVICE),
        ambiguous_sites: Vec::new(),
    };
    Verdict::Write(ending::end(group, run.clone(), end, now))
}
