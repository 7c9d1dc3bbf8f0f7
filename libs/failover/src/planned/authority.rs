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
    let message =
        format!("site \"{missing}\" was removed from spec.sites during the run; check the remaining sites by hand");
    let end = End {
        outcome: unlooked(run),
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
    if may_have_written(run) {
        if promotion_stage(group, run) != PromotionStage::Intended {
            return None;
        }
        let end = End {
            outcome: Outcome::ManualRecoveryRequired,
            reason: Some(Reason::AuthorityChanged),
            warnings: Vec::new(),
            message: detail.to_owned(),
            ambiguous_sites: Vec::new(),
        };
        return Some(ending::end(group, run.clone(), end, now));
    }
    let Some(rollback) = &run.rollback else {
        return Some(roll_back(group, run, Reason::AuthorityChanged, detail, now));
    };
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

/// Whether the target may have been written to: from the promotion's intent until a way back has looked at it. The promoter
/// tells that it wrote nothing, but another attempt of its may have begun before that was heard.
fn may_have_written(run: &PlannedFailover) -> bool {
    let looked_at = run.rollback.as_ref().is_some_and(|rollback| rollback.target.is_some());
    match run.phase {
        Phase::Promoting => true,
        Phase::RollingBack => run.promotion.is_some() && !looked_at,
        Phase::Admitting
        | Phase::Deferred
        | Phase::Fencing
        | Phase::Draining
        | Phase::WaitingForLag
        | Phase::WaitingForDragonflySync
        | Phase::PromotingDragonfly
        | Phase::Publishing
        | Phase::Succeeded
        | Phase::Failed => false,
    }
}

/// The outcome of a run that ends without another look at any server.
fn unlooked(run: &PlannedFailover) -> Outcome {
    if may_have_written(run) {
        Outcome::PromotedUnconfirmed
    } else {
        Outcome::SourceLeftFenced
    }
}

/// The record contradicts itself. That is our fault, never the group's: it goes back if it can, and says so.
pub(super) fn inconsistent(group: &Group, run: &PlannedFailover, what: &str, now: Timestamp) -> Verdict {
    let end = End {
        outcome: unlooked(run),
        reason: Some(Reason::InternalError),
        warnings: Vec::new(),
        message: format!("the run's record contradicts itself: {what}; {}", ending::MANUAL_ADVICE),
        ambiguous_sites: Vec::new(),
    };
    Verdict::Write(ending::end(group, run.clone(), end, now))
}
