//! Unfencing the source: every step decided live, and only the run's own fence is ever lifted.

use std::time::Duration;

use bloodraven_failover::judge::{self, Answers};
use bloodraven_ports::{Clock, Database, DatabaseError, DatabaseSession, GroupStore, ServerObservation};
use bloodraven_types::command::UnfenceSource;
use bloodraven_types::fact::{Fact, TargetRestored, UnfenceFailed, UnfenceObstacle, Unfenced};
use bloodraven_types::{Group, SiteName};

use crate::authority::{Authority, NoAuthority};
use crate::hands::{Hands, LossWindow, Order, Refused, Superseded};
use crate::probe;

const RETRY: Duration = Duration::from_millis(200);

/// What one attempt came to.
enum Attempt {
    Told(Fact),
    Again(String),
}

/// Makes the source writable again (PF-RBK-02 to PF-RBK-09).
///
/// # Errors
/// [`Refused`] when the record no longer asks for it.
pub async fn unfence<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<UnfenceSource>,
    superseded: &Superseded,
) -> Result<Fact, Refused> {
    let mut loss = LossWindow::default();
    loop {
        let began = hands.clock.monotonic();
        let detail = match attempt(hands, order, superseded).await? {
            Ok(Attempt::Told(fact)) => return Ok(fact),
            Ok(Attempt::Again(detail)) => {
                loss.answered();
                detail
            }
            Err(error) => {
                let over = loss.failed(&error, began, hands.clock.monotonic());
                if over || (error.is_no_answer() && !order.command.retry) {
                    return Ok(unseen(UnfenceObstacle::SourceLost, error.to_string()));
                }
                error.to_string()
            }
        };
        tracing::warn!(run = %order.about.run_id, detail, "the source is not unfenced yet; trying again");
        if hands.clock.now().after(RETRY) >= order.command.deadline {
            return Ok(unseen(UnfenceObstacle::StatementsFailed, detail));
        }
        if superseded.is_set() {
            return Err(Refused::Superseded);
        }
        hands.clock.sleep(RETRY).await;
    }
}

async fn attempt<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<UnfenceSource>,
    superseded: &Superseded,
) -> Result<Result<Attempt, DatabaseError>, Refused> {
    let command = &order.command;
    let taken = hands
        .authority(&command.source, &order.about, command.deadline, superseded)
        .await;
    let Authority { mut session, group } = match taken {
        Ok(authority) => authority,
        Err(NoAuthority::Refused(refused)) => return Err(refused),
        Err(NoAuthority::SiteGone) => {
            let detail = format!("site \"{}\" is not in spec.sites", command.source);
            return Ok(Ok(Attempt::Told(unseen(UnfenceObstacle::StatementsFailed, detail))));
        }
        Err(NoAuthority::Server(error)) => return Ok(Err(error)),
    };
    let outcome = on_source(hands, order, superseded, &group, &mut session).await?;
    if outcome.is_ok() {
        hands.give_back(session).await;
    }
    Ok(outcome)
}

async fn on_source<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<UnfenceSource>,
    superseded: &Superseded,
    group: &Group,
    session: &mut D::Session,
) -> Result<Result<Attempt, DatabaseError>, Refused> {
    let command = &order.command;
    let except = [&command.source];
    let (source, answers) = futures::join!(session.observe(), probe::sites(hands, group, &except));
    let source = match source {
        Ok(source) => source,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(attempt) = judge_source(group, order, &source, &answers) {
        return Ok(Ok(attempt));
    }
    // A silent site may have held the answers up: the claim is read again right before the write (PF-CLM-04).
    hands.claimed(&order.about, command.deadline, superseded).await?;
    Ok(open(order, session, &answers).await)
}

async fn open<S: DatabaseSession>(
    order: &Order<UnfenceSource>,
    session: &mut S,
    answers: &Answers,
) -> Result<Attempt, DatabaseError> {
    let command = &order.command;
    session.open_for_writes().await?;
    let opened = session.observe().await?;
    if opened.server_uuid == command.source_server_uuid && opened.serves_writes() {
        return Ok(Attempt::Told(unfenced(command, &opened, false, answers)));
    }
    Ok(Attempt::Again(
        "the source does not read writable right after it was opened".to_owned(),
    ))
}

/// The reference's decisions 2 to 5; none of them left means that the fence is the run's and is to be lifted.
fn judge_source(
    group: &Group,
    order: &Order<UnfenceSource>,
    source: &ServerObservation,
    answers: &Answers,
) -> Option<Attempt> {
    let command = &order.command;
    let told = |fact| Some(Attempt::Told(fact));
    let target = answers.get(&command.target).and_then(|answer| answer.as_ref().ok());
    let target_writable = target.is_some_and(|target| !target.read_only && !target.super_read_only);
    let replicating = target_replicates(command, answers);
    if source.serves_writes() {
        if target_writable && command.target_server_uuid.is_some() {
            let detail = "the rollback found another writable site beside the writable source".to_owned();
            let sites = vec![command.source.clone(), command.target.clone()];
            return told(failed(UnfenceObstacle::BothWritable, detail, replicating, sites));
        }
        let others = judge::peers(group, &[&command.source], answers).writable;
        if !others.is_empty() {
            tracing::warn!(sites = ?others, "planned failover: rollback found another writable site beside the source");
        }
        return told(unfenced(command, source, true, answers));
    }
    let half_open = target.is_some_and(|target| target.read_only && !target.super_read_only);
    let restored_by_us = command.target_server_uuid.is_some();
    let except: &[&SiteName] = if half_open && restored_by_us {
        &[&command.source, &command.target]
    } else {
        &[&command.source]
    };
    let writable = judge::peers(group, except, answers).writable;
    if let Some(site) = writable.first() {
        let detail = format!("site \"{site}\" answers writable, so the source stays fenced");
        return told(failed(UnfenceObstacle::ForeignWritable, detail, replicating, writable));
    }
    if source.server_uuid != command.source_server_uuid {
        let detail = format!(
            "the source is server {}, the fence was recorded for another one",
            source.server_uuid
        );
        return told(failed(
            UnfenceObstacle::FenceNotAttributable,
            detail,
            replicating,
            Vec::new(),
        ));
    }
    if !command.attributable {
        let detail = "authority over the source moved before the run's fence was applied".to_owned();
        return told(failed(
            UnfenceObstacle::FenceNotAttributable,
            detail,
            replicating,
            Vec::new(),
        ));
    }
    // The promoter could not set it back: the source stays fenced while privileged accounts can write there.
    (half_open && restored_by_us).then(|| Attempt::Again("the target does not read super_read_only=ON".to_owned()))
}

/// A target that does not answer is not known to have lost its channel; the promoter has reported what it did there.
fn target_replicates(command: &UnfenceSource, answers: &Answers) -> bool {
    match answers.get(&command.target) {
        Some(Ok(target)) => !target.channels.is_empty(),
        Some(Err(_)) | None => command.target_server_uuid.is_none(),
    }
}

/// Whether the target is known not to take anybody's writes; one that no promotion was intended for was never touched.
fn target_is_fenced(command: &UnfenceSource, answers: &Answers) -> bool {
    match answers.get(&command.target) {
        Some(Ok(target)) => target.super_read_only || command.target_server_uuid.is_none(),
        Some(Err(_)) | None => command.target_server_uuid.is_none(),
    }
}

fn unfenced(command: &UnfenceSource, source: &ServerObservation, already_writable: bool, answers: &Answers) -> Fact {
    Fact::Unfenced(Unfenced {
        source_server_uuid: source.server_uuid,
        already_writable,
        target: TargetRestored {
            super_read_only: target_is_fenced(command, answers),
            replicating: target_replicates(command, answers),
            detail: String::new(),
        },
    })
}

/// An end without a look at the target: what the record says of its channel stands.
fn unseen(cause: UnfenceObstacle, detail: String) -> Fact {
    failed(cause, detail, true, Vec::new())
}

fn failed(cause: UnfenceObstacle, detail: String, target_replicating: bool, ambiguous_sites: Vec<SiteName>) -> Fact {
    Fact::UnfenceFailed(UnfenceFailed {
        cause,
        detail,
        target_replicating,
        ambiguous_sites,
    })
}
