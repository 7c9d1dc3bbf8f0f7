//! Promotion: what an earlier attempt reached, detach, gate, open, confirm. The only place that opens a target.

use std::time::Duration;

use bloodraven_failover::judge::{self, Bound, GateShut, TargetState};
use bloodraven_gtid::GtidSet;
use bloodraven_ports::{Clock, Database, DatabaseError, DatabaseSession, GroupStore, ServerObservation};
use bloodraven_types::command::PromoteTarget;
use bloodraven_types::fact::{Fact, Promoted, PromotionFailed, PromotionReach};
use bloodraven_types::{Group, Reason, SiteName};

use crate::authority::{Authority, NoAuthority};
use crate::hands::{Hands, LossWindow, Order, Refused, Superseded};
use crate::probe;

/// Before an attempt that failed with a reachable target is repeated.
const RETRY: Duration = Duration::from_millis(200);
/// How long a peer may be silent at the gate before the run goes back: one repeat of a probe, not a loss window.
const PEER_PATIENCE: Duration = Duration::from_secs(2);

/// A claim that was read longer ago than this is read once more before the write: a peer may have been slow to answer.
const CLAIM_HOLDS_FOR: Duration = Duration::from_millis(100);

/// What one attempt came to.
enum Attempt {
    Told(Fact),
    Again(String),
}

struct Promotion<'a, D: Database, S: GroupStore, C: Clock> {
    hands: &'a Hands<D, S, C>,
    order: &'a Order<PromoteTarget>,
    superseded: &'a Superseded,
    fenced: GtidSet,
    target_loss: LossWindow,
    source_loss: LossWindow,
    peer_silent_since: Option<Duration>,
    /// How far this process, or an earlier one, may have changed the target. An earlier process may have sent anything
    /// until a look under the lock shows how far it got (PF-PRO-06).
    reached: PromotionReach,
    /// Whether this process has sent the write.
    sent: bool,
}

/// Promotes the target (PF-PRO-01 to PF-PRO-09).
///
/// # Errors
/// [`Refused`] when the record no longer asks for it.
pub async fn promote<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<PromoteTarget>,
    superseded: &Superseded,
) -> Result<Fact, Refused> {
    let reached = if order.first_hand {
        PromotionReach::NothingWritten
    } else {
        PromotionReach::MayBeWritable
    };
    let Ok(fenced) = order.command.gtid_set.parse::<GtidSet>() else {
        let detail = format!("the fenced set cannot be parsed: {:?}", order.command.gtid_set);
        return Ok(failed(Reason::InvalidGTID, detail, reached, Vec::new()));
    };
    let mut promotion = Promotion {
        hands,
        order,
        superseded,
        fenced,
        target_loss: LossWindow::default(),
        source_loss: LossWindow::default(),
        peer_silent_since: None,
        reached,
        sent: false,
    };
    loop {
        match promotion.attempt().await? {
            Attempt::Told(fact) => return Ok(fact),
            Attempt::Again(detail) => {
                tracing::warn!(run = %order.about.run_id, detail, "the promotion is not through yet; trying again");
                if hands.clock.now().after(RETRY) >= order.command.deadline {
                    return Ok(promotion.out_of_time(detail));
                }
            }
        }
        if superseded.is_set() {
            return Err(Refused::Superseded);
        }
        hands.clock.sleep(RETRY).await;
    }
}

impl<D: Database, S: GroupStore, C: Clock> Promotion<'_, D, S, C> {
    async fn attempt(&mut self) -> Result<Attempt, Refused> {
        let command = &self.order.command;
        let began = self.hands.clock.monotonic();
        let taken = self
            .hands
            .authority(&command.target, &self.order.about, command.deadline, self.superseded)
            .await;
        let Authority { mut session, group } = match taken {
            Ok(authority) => authority,
            Err(NoAuthority::Refused(refused)) => return Err(refused),
            Err(NoAuthority::SiteGone) => {
                let detail = format!("site \"{}\" is not in spec.sites", command.target);
                return Ok(Attempt::Told(failed(
                    Reason::UnknownSite,
                    detail,
                    self.reached,
                    Vec::new(),
                )));
            }
            Err(NoAuthority::Server(error)) => return Ok(self.target_failed(&error, began)),
        };
        match self.detach_and_open(&mut session, &group).await? {
            Ok(attempt) => {
                self.hands.give_back(session).await;
                Ok(attempt)
            }
            Err(error) => Ok(self.target_failed(&error, began)),
        }
    }

    fn target_failed(&mut self, error: &DatabaseError, began: Duration) -> Attempt {
        if self.target_loss.failed(error, began, self.hands.clock.monotonic()) {
            return Attempt::Told(failed(Reason::TargetLost, error.to_string(), self.reached, Vec::new()));
        }
        Attempt::Again(error.to_string())
    }

    async fn detach_and_open(
        &mut self,
        session: &mut D::Session,
        group: &Group,
    ) -> Result<Result<Attempt, DatabaseError>, Refused> {
        let mut target = match session.observe().await {
            Ok(target) => target,
            Err(error) => return Ok(Err(error)),
        };
        self.target_loss.answered();
        match judge::target_state(&target, self.bound()) {
            TargetState::Changed { reason, detail } => return Ok(Ok(self.changed(group, reason, detail).await)),
            TargetState::Unexplained { detail } => {
                let ambiguous = vec![self.order.command.target.clone()];
                let fact = failed(Reason::ExecuteFailed, detail, PromotionReach::Writable, ambiguous);
                return Ok(Ok(Attempt::Told(fact)));
            }
            TargetState::Opened => self.reached = PromotionReach::Writable,
            TargetState::Detached | TargetState::Replica => self.reached = PromotionReach::NothingWritten,
        }
        if let Err(shut) = judge::promotable(group, &self.order.command.target) {
            return Ok(Ok(Attempt::Told(self.shut(shut))));
        }
        if !target.channels.is_empty() {
            match self.detach(session).await {
                Ok(detached) => target = detached,
                Err(error) => return Ok(Err(error)),
            }
        }
        self.gate_and_open(session, group, &target).await
    }

    /// The target is not what the intent recorded. A process that has not seen it before may find a server in place of one
    /// that an earlier process had opened: whatever only that one held was written after the fence, so the run goes back
    /// while the source still has all of the fenced set under its fence and nobody else takes writes (PF-PRO-10).
    async fn changed(&mut self, group: &Group, reason: Reason, detail: String) -> Attempt {
        let command = &self.order.command;
        if self.reached == PromotionReach::MayBeWritable && !self.sent && reason == Reason::TargetChanged {
            let answers = probe::sites(self.hands, group, &[&command.target]).await;
            let peers = judge::peers(group, &[&command.source, &command.target], &answers);
            let intact = answers.get(&command.source).is_some_and(|answer| {
                answer.as_ref().is_ok_and(|source| {
                    let executed = source.gtid_executed.parse::<GtidSet>();
                    source.server_uuid == command.source_server_uuid
                        && source.is_fenced()
                        && executed.is_ok_and(|executed| executed.contains(&self.fenced))
                })
            });
            if intact && peers.writable.is_empty() && peers.unreadable.is_empty() {
                return Attempt::Told(failed(reason, detail, PromotionReach::NothingWritten, Vec::new()));
            }
            let silent = !peers.unreadable.is_empty() || answers.get(&command.source).is_none_or(Result::is_err);
            if silent && !self.source_silent() {
                return Attempt::Again(detail);
            }
        }
        Attempt::Told(failed(reason, detail, self.reached, Vec::new()))
    }

    /// Stops and forgets the channel: from here on nothing reaches the target but what the gate lets through.
    async fn detach(&self, session: &mut D::Session) -> Result<ServerObservation, DatabaseError> {
        session.stop_replica().await?;
        session.reset_replica_all().await?;
        session.observe().await
    }

    /// The gate is read in one go with the claim, all in parallel, and the write follows it at once (PF-PRO-02).
    async fn gate_and_open(
        &mut self,
        session: &mut D::Session,
        known: &Group,
        target: &ServerObservation,
    ) -> Result<Result<Attempt, DatabaseError>, Refused> {
        let command = &self.order.command;
        let claimed = self.hands.claimed(&self.order.about, command.deadline, self.superseded);
        let except = [&command.target];
        let probed = probe::sites(self.hands, known, &except);
        // A site that was added since `known` was read has no answer here, so the gate takes it for unreadable.
        let began = self.hands.clock.monotonic();
        let (group, answers) = futures::join!(claimed, probed);
        let mut group = group?;
        if self.hands.clock.monotonic().saturating_sub(began) > CLAIM_HOLDS_FOR {
            group = self
                .hands
                .claimed(&self.order.about, command.deadline, self.superseded)
                .await?;
        }
        let gate = judge::gate(
            &group,
            (&command.source, &command.target),
            self.bound(),
            target,
            &answers,
        );
        let peers = match gate {
            Ok(peers) => peers,
            Err(shut) => return Ok(Ok(self.refused_by_gate(shut))),
        };
        self.source_loss.answered();
        self.peer_silent_since = None;
        if self.reached != PromotionReach::Writable || !target.serves_writes() {
            self.reached = PromotionReach::MayBeWritable;
            self.sent = true;
            if let Err(error) = session.open_for_writes().await {
                if !error.may_have_happened() && !error.is_no_answer() {
                    self.reached = PromotionReach::NothingWritten;
                }
                return Ok(Err(error));
            }
        }
        Ok(self.confirm(session, peers.silent_readers).await)
    }

    /// Read back on the same session: the same server, and it takes writes.
    async fn confirm(
        &mut self,
        session: &mut D::Session,
        unreachable_peers: Vec<SiteName>,
    ) -> Result<Attempt, DatabaseError> {
        let opened = session.observe().await?;
        match judge::target_state(&opened, self.bound()) {
            TargetState::Opened if opened.serves_writes() => Ok(Attempt::Told(Fact::Promoted(Promoted {
                target_server_uuid: opened.server_uuid,
                confirmation_time: self.hands.clock.now(),
                unreachable_peers,
            }))),
            TargetState::Opened | TargetState::Detached | TargetState::Replica => {
                self.reached = PromotionReach::MayBeWritable;
                Ok(Attempt::Again(
                    "the target does not read writable right after it was opened".to_owned(),
                ))
            }
            TargetState::Changed { reason, detail } => Ok(Attempt::Told(failed(
                reason,
                detail,
                PromotionReach::MayBeWritable,
                Vec::new(),
            ))),
            TargetState::Unexplained { detail } => {
                let ambiguous = vec![self.order.command.target.clone()];
                Ok(Attempt::Told(failed(
                    Reason::ExecuteFailed,
                    detail,
                    PromotionReach::Writable,
                    ambiguous,
                )))
            }
        }
    }

    /// A silent source has its loss window, a silent peer a moment; everything else is final (PF-PRO-03, PF-PRO-04).
    fn refused_by_gate(&mut self, shut: GateShut) -> Attempt {
        if !shut.transient || self.reached != PromotionReach::NothingWritten {
            return Attempt::Told(self.shut(shut));
        }
        let now = self.hands.clock.monotonic();
        let over = if shut.reason == Reason::SourceLost {
            self.source_silent()
        } else {
            now.saturating_sub(*self.peer_silent_since.get_or_insert(now)) >= PEER_PATIENCE
        };
        if over {
            Attempt::Told(self.shut(shut))
        } else {
            Attempt::Again(shut.detail)
        }
    }

    /// The source did not answer a look, which is bounded itself. Whether its loss window is over.
    fn source_silent(&mut self) -> bool {
        let now = self.hands.clock.monotonic();
        self.source_loss.silent(now, now)
    }

    fn shut(&self, shut: GateShut) -> Fact {
        failed(shut.reason, shut.detail, self.reached, shut.ambiguous_sites)
    }

    fn out_of_time(&self, detail: String) -> Fact {
        let reason = match self.reached {
            PromotionReach::NothingWritten => Reason::PromotionAborted,
            PromotionReach::MayBeWritable | PromotionReach::Writable => Reason::PromotionUnconfirmed,
        };
        failed(reason, detail, self.reached, Vec::new())
    }

    fn bound(&self) -> Bound<'_> {
        Bound {
            source_server_uuid: self.order.command.source_server_uuid,
            target_server_uuid: self.order.command.target_server_uuid,
            fenced: &self.fenced,
        }
    }
}

fn failed(reason: Reason, detail: String, reached: PromotionReach, ambiguous_sites: Vec<SiteName>) -> Fact {
    Fact::PromotionFailed(PromotionFailed {
        reason,
        detail,
        reached,
        ambiguous_sites,
    })
}
