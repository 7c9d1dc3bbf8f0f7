//! Catching up: the target applies the fenced set while the source is watched, and holds nothing else at the end.

use std::time::Duration;

use bloodraven_gtid::GtidSet;
use bloodraven_ports::{Bus, Clock, Database, DatabaseError, DatabaseSession, GroupStore, ServerAddress};
use bloodraven_types::command::AwaitCatchUp;
use bloodraven_types::fact::{CaughtUp, Fact, Lagging, StepFailed};
use bloodraven_types::{Reason, SiteName};

use crate::hands::{Hands, LossWindow, Order, Refused, Superseded};

/// The longest single wait in the server. Between two the source is looked at and the end is checked.
const SLICE: Duration = Duration::from_secs(1);
/// After a target that did not answer.
const RETRY: Duration = Duration::from_millis(200);

struct CatchUp<'a, D: Database, S: GroupStore, C: Clock, B: Bus> {
    hands: &'a Hands<D, S, C>,
    bus: &'a B,
    order: &'a Order<AwaitCatchUp>,
    fenced: GtidSet,
    source: ServerAddress,
    target: ServerAddress,
    source_loss: LossWindow,
    target_loss: LossWindow,
}

/// Waits until the target holds exactly the fenced set (PF-LAG-01 to PF-LAG-03, PF-LOS-01, PF-LOS-02).
///
/// # Errors
/// [`Refused`] when the record no longer asks for it.
pub async fn await_catch_up<D: Database, S: GroupStore, C: Clock, B: Bus>(
    hands: &Hands<D, S, C>,
    bus: &B,
    order: &Order<AwaitCatchUp>,
    superseded: &Superseded,
) -> Result<Fact, Refused> {
    let command = &order.command;
    let Ok(fenced) = command.gtid_set.parse::<GtidSet>() else {
        return Ok(failed(
            Reason::InvalidGTID,
            format!("the fenced set cannot be parsed: {:?}", command.gtid_set),
        ));
    };
    let group = hands.store.get(&order.about.group).await.map_err(Refused::Gone)?;
    bloodraven_failover::claim::check_live(&group, &order.about, None, hands.clock.now())?;
    let address = |site: &SiteName| group.site(site).map(ServerAddress::administrative);
    let (Some(source), Some(target)) = (address(&command.source), address(&command.target)) else {
        return Ok(failed(
            Reason::UnknownSite,
            "the source or the target is not in spec.sites".to_owned(),
        ));
    };
    let mut catch_up = CatchUp {
        hands,
        bus,
        order,
        fenced,
        source,
        target,
        source_loss: LossWindow::default(),
        target_loss: LossWindow::default(),
    };
    loop {
        if let Some(fact) = catch_up.look().await {
            return Ok(fact);
        }
        if superseded.is_set() {
            return Err(Refused::Superseded);
        }
    }
}

impl<D: Database, S: GroupStore, C: Clock, B: Bus> CatchUp<'_, D, S, C, B> {
    /// One slice: wait in the target, judge its set, then look at the source.
    async fn look(&mut self) -> Option<Fact> {
        let began = self.hands.clock.monotonic();
        let judged = self.on_target().await;
        match judged {
            Ok(Some(fact)) => return Some(fact),
            Ok(None) => self.target_loss.answered(),
            Err(error) => {
                // A server that refuses to say who it is and what it holds is no evidence either (PF-LAG-03).
                if self.target_loss.silent(began, self.hands.clock.monotonic()) {
                    return Some(failed(Reason::TargetLost, error.to_string()));
                }
                tracing::warn!(run = %self.order.about.run_id, %error, "the target does not answer while it catches up");
                self.hands.clock.sleep(RETRY).await;
            }
        }
        if let Some(fact) = self.on_source().await {
            return Some(fact);
        }
        let deadline = self.order.command.deadline;
        (self.hands.clock.now() >= deadline).then(|| {
            let detail = format!(
                "\"{}\" did not apply the fenced set by {deadline}",
                self.order.command.target
            );
            failed(Reason::LagTimeout, detail)
        })
    }

    async fn on_target(&mut self) -> Result<Option<Fact>, DatabaseError> {
        let left = self.order.command.deadline.since(self.hands.clock.now());
        let mut session = self.hands.sessions.checked(&self.target).await?;
        let slice = left.min(SLICE).max(Duration::from_millis(1));
        let applied = session.wait_for_executed(&self.order.command.gtid_set, slice).await?;
        let (target_server_uuid, gtid_executed) = session.executed().await?;
        self.hands.sessions.put(session);
        let Ok(executed) = gtid_executed.parse::<GtidSet>() else {
            let detail = format!("the target's set cannot be parsed: {gtid_executed:?}");
            return Ok(Some(failed(Reason::InvalidGTID, detail)));
        };
        let extra = executed.subtract(&self.fenced);
        if !extra.is_empty() {
            let detail = format!(
                "\"{}\" holds {} transactions outside the fenced set: {extra}",
                self.order.command.target,
                extra.count()
            );
            return Ok(Some(failed(Reason::DivergentTarget, detail)));
        }
        if applied && executed.contains(&self.fenced) {
            return Ok(Some(Fact::CaughtUp(CaughtUp {
                target_server_uuid,
                gtid_executed,
            })));
        }
        let missing = self.fenced.subtract(&executed).count();
        let lagging = Lagging {
            missing_transactions: u64::try_from(missing).unwrap_or(u64::MAX),
        };
        if let Err(error) = self.bus.tell(&self.order.about, Fact::Lagging(lagging)).await {
            tracing::debug!(%error, "progress was not told");
        }
        Ok(None)
    }

    /// The fence must still be there: a source that is writable again, or silent for too long, ends the wait.
    async fn on_source(&mut self) -> Option<Fact> {
        let began = self.hands.clock.monotonic();
        let mut session = match self.hands.sessions.checked(&self.source).await {
            Ok(session) => session,
            Err(error) => return self.source_silent(&error, began),
        };
        match session.observe().await {
            Ok(source) => {
                self.source_loss.answered();
                self.hands.sessions.put(session);
                let same = source.server_uuid == self.order.command.source_server_uuid;
                if same && source.is_fenced() {
                    return None;
                }
                let detail = if same {
                    "the source is no longer read-only"
                } else {
                    "the source is another server now"
                };
                Some(failed(Reason::SourceUnfenced, detail.to_owned()))
            }
            Err(error) => self.source_silent(&error, began),
        }
    }

    fn source_silent(&mut self, error: &DatabaseError, began: Duration) -> Option<Fact> {
        let over = self.source_loss.failed(error, began, self.hands.clock.monotonic());
        over.then(|| failed(Reason::SourceLost, error.to_string()))
    }
}

fn failed(reason: Reason, detail: String) -> Fact {
    Fact::CatchUpFailed(StepFailed {
        reason,
        detail,
        sent: false,
    })
}
