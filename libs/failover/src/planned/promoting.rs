//! `Promoting` and `Publishing`: from the promotion's intent to the end.
//!
//! While the phase reads `Promoting` the annotations tell how far the tail is: the failover record, then the
//! confirmation that releases the claim. So a restart lands on the stage that was durable last (PF-CLM-06).

use bloodraven_types::annotation::{self, RunSince};
use bloodraven_types::command::{Command, PromoteTarget, PublishAuthority};
use bloodraven_types::fact::{Promoted, PromotionFailed, PromotionReach, Published};
use bloodraven_types::record::{DnsPublication, PlannedFailover, Promotion};
use bloodraven_types::{EventReason, Group, Outcome, Phase, Reason, StepState, Timestamp, Warning};

use super::authority::inconsistent;
use super::ending::{self, End};
use super::executing::roll_back;
use super::{Effect, Illegal, Input, PromotionFact, Step, Verdict, Write, illegal};
use crate::{claim, deadlines, history};

/// How far a promotion is, as one read of the object shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromotionStage {
    /// The intent is durable; the promotion may or may not have been carried out.
    Intended,
    /// The promotion is confirmed and its failover record durable.
    Recorded {
        /// When it was confirmed.
        at: Timestamp,
    },
    /// The claim is released.
    Released {
        /// When the promotion was confirmed.
        at: Timestamp,
    },
}

/// How far the run's promotion is.
pub fn promotion_stage(group: &Group, run: &PlannedFailover) -> PromotionStage {
    if let Some(at) = claim::confirmed_at(group, run.run_id) {
        return PromotionStage::Released { at };
    }
    match history::failover_record(group) {
        Ok(Some(record)) if history::is_own(run, &record) => PromotionStage::Recorded { at: record.time },
        Ok(Some(_) | None) | Err(_) => PromotionStage::Intended,
    }
}

pub(super) fn commands(group: &Group, run: &PlannedFailover) -> Vec<Command> {
    let (Some(source), Some(fence), Some(promotion)) = (&run.source_site, &run.fence, &run.promotion) else {
        return Vec::new();
    };
    match promotion_stage(group, run) {
        PromotionStage::Intended => vec![Command::Promote(PromoteTarget {
            source: source.clone(),
            source_server_uuid: fence.source_server_uuid,
            target: run.target_site.clone(),
            target_server_uuid: promotion.target_server_uuid,
            gtid_set: fence.gtid_set.clone().unwrap_or_default(),
            deadline: promotion.intent_time.after(deadlines::PROMOTION),
        })],
        PromotionStage::Recorded { .. } | PromotionStage::Released { .. } => {
            vec![Command::Publish(PublishAuthority {
                target: run.target_site.clone(),
                source: source.clone(),
            })]
        }
    }
}

pub(super) fn promoting(
    group: &Group,
    run: &PlannedFailover,
    input: Input,
    now: Timestamp,
) -> Result<Verdict, Illegal> {
    let Some(promotion) = &run.promotion else {
        return Ok(inconsistent(group, run, "no promotion intent in Promoting", now));
    };
    match input {
        Input::Promotion(PromotionFact::Promoted(promoted)) => Ok(promoted_now(group, run, promotion, promoted, now)),
        Input::Promotion(PromotionFact::Failed(failed)) => Ok(failed_now(group, run, &failed, now)),
        Input::Published(published) => Ok(published_now(group, run, promotion, published)),
        Input::Tick => Ok(late(group, run, promotion, now)),
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Cache(_)
        | Input::Rollback(_)) => Err(illegal(run, &other)),
    }
}

/// Confirmed live: the failover record is durable before anything is published (PF-PUB-01).
fn promoted_now(
    group: &Group,
    run: &PlannedFailover,
    promotion: &Promotion,
    promoted: Promoted,
    now: Timestamp,
) -> Verdict {
    if promoted.target_server_uuid != promotion.target_server_uuid {
        let failed = PromotionFailed {
            reason: Reason::TargetChanged,
            detail: format!(
                "the promotion was intended for server {} and reported by server {}",
                promotion.target_server_uuid, promoted.target_server_uuid
            ),
            reached: PromotionReach::MayBeWritable,
            ambiguous_sites: Vec::new(),
        };
        return failed_now(group, run, &failed, now);
    }
    match promotion_stage(group, run) {
        PromotionStage::Intended => {
            // The record's own clock rule: a failover record never moves to an older time (PF-PUB-03).
            let time = promoted.confirmation_time.whole_seconds().max(promotion.intent_time);
            let fenced = run
                .fence
                .as_ref()
                .and_then(|fence| fence.gtid_set.as_deref())
                .unwrap_or_default();
            let changes = [
                (annotation::LAST_FAILOVER.to_owned(), Some(time.to_string())),
                (
                    annotation::LAST_FAILOVER_TARGET.to_owned(),
                    Some(run.target_site.to_string()),
                ),
                (
                    annotation::LAST_FAILOVER_WATERMARK.to_owned(),
                    history::watermark(fenced),
                ),
            ];
            let again = Input::Promotion(PromotionFact::Promoted(promoted));
            Verdict::Write(Step {
                write: Write::Annotations(changes.into_iter().collect()),
                effects: Vec::new(),
                then: Some(again),
            })
        }
        PromotionStage::Recorded { .. } | PromotionStage::Released { .. } => {
            let silent =
                !promoted.unreachable_peers.is_empty() && !promotion.warnings.contains(&Warning::UnreachablePeers);
            if !silent {
                return Verdict::nothing();
            }
            let mut next = run.clone();
            let mut promotion = promotion.clone();
            promotion.warnings.push(Warning::UnreachablePeers);
            next.promotion = Some(promotion);
            Verdict::Write(Step::status(group, next))
        }
    }
}

/// Published: the claim is released by the confirmation, and only then is `Publishing` written (PF-CLM-06).
fn published_now(group: &Group, run: &PlannedFailover, promotion: &Promotion, published: Published) -> Verdict {
    match promotion_stage(group, run) {
        // A publication that nothing recorded can only be a stray message.
        PromotionStage::Intended => Verdict::nothing(),
        PromotionStage::Recorded { at } => {
            let value = RunSince {
                run_id: run.run_id,
                since: at,
            }
            .to_string();
            Verdict::Write(Step {
                write: Write::Annotations([(annotation::CONFIRMED.to_owned(), Some(value))].into_iter().collect()),
                effects: vec![Effect::Released {
                    why: "promotionConfirmed",
                }],
                then: Some(Input::Published(published)),
            })
        }
        PromotionStage::Released { at } => {
            let mut next = run.clone();
            let mut promotion = promotion.clone();
            promotion.state = StepState::Confirmed;
            promotion.confirmation_time = Some(at);
            let mut failure = None;
            if published.dns == Some(StepState::Failed) {
                promotion.warnings.push(Warning::DNSUpdateFailed);
                failure.clone_from(&published.dns_error);
            }
            next.promotion = Some(promotion);
            next.dns = published.dns.map(|state| DnsPublication {
                state,
                attempt_time: published.attempt_time.whole_seconds(),
                last_error: published.dns_error,
            });
            next.phase = Phase::Publishing;
            next.message = match &published.label_error {
                Some(error) => format!(
                    "publishing \"{}\"; the role labels are still to be moved: {error}",
                    run.target_site
                ),
                None => format!("publishing \"{}\"", run.target_site),
            };
            let mut step = Step::status(group, next).then(Input::Tick);
            if let Some(error) = failure {
                let message = format!(
                    "\"{}\" is promoted, but the DNS record was not updated: {error}",
                    run.target_site
                );
                step = step.event(EventReason::PlannedFailoverDNSUpdateFailed, message);
            }
            Verdict::Write(step)
        }
    }
}

fn failed_now(group: &Group, run: &PlannedFailover, failed: &PromotionFailed, now: Timestamp) -> Verdict {
    if promotion_stage(group, run) != PromotionStage::Intended {
        // The promotion is confirmed and recorded: a late failure of another attempt says nothing about it.
        return Verdict::nothing();
    }
    match failed.reached {
        PromotionReach::NothingWritten => Verdict::Write(roll_back(group, run, failed.reason, &failed.detail, now)),
        PromotionReach::MayBeWritable | PromotionReach::Writable => {
            let (outcome, reason) = after_a_possible_write(failed.reason);
            let end = End {
                outcome,
                reason: Some(reason),
                warnings: Vec::new(),
                message: failed.detail.clone(),
                ambiguous_sites: failed.ambiguous_sites.clone(),
            };
            Verdict::Write(ending::end(group, run.clone(), end, now))
        }
    }
}

/// After a possible write: what cannot be explained is held, what could merely not be seen is unconfirmed (PF-PRO-08, PF-PRO-09).
///
/// Some refusals mean another thing once the target may be writable: the reference's tables know them only before a write.
const fn after_a_possible_write(reason: Reason) -> (Outcome, Reason) {
    match reason {
        Reason::ForeignWritable | Reason::ExecuteFailed | Reason::AuthorityChanged => {
            (Outcome::ManualRecoveryRequired, reason)
        }
        // A source that takes writes again beside such a target is another writer.
        Reason::SourceUnfenced => (Outcome::ManualRecoveryRequired, Reason::ForeignWritable),
        Reason::TargetChanged | Reason::DivergentTarget | Reason::InvalidGTID => {
            (Outcome::ManualRecoveryRequired, Reason::ExecuteFailed)
        }
        Reason::TargetLost | Reason::SourceLost | Reason::PeerUnreadable | Reason::UnknownSite => {
            (Outcome::PromotedUnconfirmed, reason)
        }
        Reason::PromotionUnconfirmed
        | Reason::ManagerUnavailable
        | Reason::StatusStalled
        | Reason::LegacyRunRefused
        | Reason::InternalError => (Outcome::PromotedUnconfirmed, reason),
        Reason::InvalidAnnotation
        | Reason::TargetNotPromotable
        | Reason::AlreadyActive
        | Reason::TargetUnhealthy
        | Reason::KeyringRotation
        | Reason::CooldownActive
        | Reason::ConcurrentOperation
        | Reason::InvalidFailoverState
        | Reason::Canceled
        | Reason::UnexpectedActiveSite
        | Reason::ManualRecoveryPending
        | Reason::AdmissionTimeout
        | Reason::FenceFailed
        | Reason::LagTimeout
        | Reason::DragonflySyncTimeout
        | Reason::DragonflyPromotionFailed
        | Reason::PromotionAborted => (Outcome::PromotedUnconfirmed, Reason::PromotionUnconfirmed),
    }
}

/// No word from the promoter long past the deadline. Whether it sent the write is not known, so it is not assumed away.
fn late(group: &Group, run: &PlannedFailover, promotion: &Promotion, now: Timestamp) -> Verdict {
    match promotion_stage(group, run) {
        PromotionStage::Recorded { .. } | PromotionStage::Released { .. } => Verdict::nothing(),
        PromotionStage::Intended => {
            let limit = deadlines::PROMOTION + deadlines::LOSS_WINDOW + deadlines::KEEPER_GRACE;
            if now < promotion.intent_time.after(limit) {
                return Verdict::nothing();
            }
            let failed = PromotionFailed {
                reason: Reason::PromotionUnconfirmed,
                detail: format!(
                    "the promoter gave no answer for {limit:?}; \"{}\" may be writable",
                    run.target_site
                ),
                reached: PromotionReach::MayBeWritable,
                ambiguous_sites: Vec::new(),
            };
            failed_now(group, run, &failed, now)
        }
    }
}

/// Only bookkeeping is left: the claim is free and nothing can change the outcome.
pub(super) fn publishing(
    group: &Group,
    run: &PlannedFailover,
    input: Input,
    now: Timestamp,
) -> Result<Verdict, Illegal> {
    match input {
        Input::Tick | Input::Published(_) => Ok(Verdict::Write(ending::succeeded(group, run, now))),
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Cache(_)
        | Input::Promotion(_)
        | Input::Rollback(_)) => Err(illegal(run, &other)),
    }
}
