//! Fencing the source: same server, writable, `super_read_only=ON`, read back, set taken, every peer seen read-only.

use std::time::Duration;

use bloodraven_failover::judge::{self, Peers};
use bloodraven_ports::{Clock, Database, DatabaseError, DatabaseSession, GroupStore, ServerObservation};
use bloodraven_types::command::FenceSource;
use bloodraven_types::fact::{Fact, Fenced, StepFailed};
use bloodraven_types::{Group, Reason, SiteName};

use crate::authority::{Authority, NoAuthority};
use crate::hands::{Hands, LossWindow, Order, Refused, Superseded};
use crate::probe;

/// How long to wait before a fence that could not be applied or proven is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// What one attempt came to.
enum Attempt {
    Told(Fact),
    Again { reason: Reason, detail: String },
}

struct Fencing<'a, D: Database, S: GroupStore, C: Clock> {
    hands: &'a Hands<D, S, C>,
    order: &'a Order<FenceSource>,
    superseded: &'a Superseded,
    loss: LossWindow,
    /// Whether this process has sent the fence (PF-FEN-05, PF-RBK-06).
    sent: bool,
    /// Must-answer peers that were silent at some attempt after the fence.
    silent_once: Vec<SiteName>,
}

/// Fences the source (PF-FEN-02 to PF-FEN-05).
///
/// # Errors
/// [`Refused`] when the record no longer asks for it: then nothing was sent, or what was sent is for the record's next
/// state to judge.
pub async fn fence<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    order: &Order<FenceSource>,
    superseded: &Superseded,
) -> Result<Fact, Refused> {
    let mut fencing = Fencing {
        hands,
        order,
        superseded,
        loss: LossWindow::default(),
        sent: false,
        silent_once: Vec::new(),
    };
    loop {
        match fencing.attempt().await? {
            Attempt::Told(fact) => return Ok(fact),
            Attempt::Again { reason, detail } => {
                tracing::warn!(run = %order.about.run_id, %reason, detail, "the fence is not proven yet; trying again");
                if hands.clock.now().after(RETRY) >= order.command.deadline {
                    return Ok(fencing.failed(reason, detail));
                }
            }
        }
        if superseded.is_set() {
            return Err(Refused::Superseded);
        }
        hands.clock.sleep(RETRY).await;
    }
}

impl<D: Database, S: GroupStore, C: Clock> Fencing<'_, D, S, C> {
    async fn attempt(&mut self) -> Result<Attempt, Refused> {
        let command = &self.order.command;
        let began = self.hands.clock.monotonic();
        let taken = self
            .hands
            .authority(&command.source, &self.order.about, command.deadline, self.superseded)
            .await;
        let Authority { mut session, group } = match taken {
            Ok(authority) => authority,
            Err(NoAuthority::Refused(refused)) => return Err(refused),
            Err(NoAuthority::SiteGone) => {
                let detail = format!("site \"{}\" is not in spec.sites", command.source);
                return Ok(Attempt::Told(self.failed(Reason::UnknownSite, detail)));
            }
            Err(NoAuthority::Server(error)) => return Ok(self.source_failed(&error, began)),
        };
        match self.set_and_read(&mut session).await {
            Ok(Ok(fenced)) => {
                // The lock is given back while the peers are asked: none of it changes the source any more.
                let ((), attempt) = futures::join!(self.hands.give_back(session), self.prove(&group, fenced));
                attempt
            }
            Ok(Err(fact)) => {
                self.hands.give_back(session).await;
                Ok(Attempt::Told(fact))
            }
            Err(error) => Ok(self.source_failed(&error, began)),
        }
    }

    fn source_failed(&mut self, error: &DatabaseError, began: Duration) -> Attempt {
        if self.loss.failed(error, began, self.hands.clock.monotonic()) {
            return Attempt::Told(self.failed(Reason::SourceLost, error.to_string()));
        }
        Attempt::Again {
            reason: Reason::FenceFailed,
            detail: error.to_string(),
        }
    }

    async fn set_and_read(
        &mut self,
        session: &mut D::Session,
    ) -> Result<Result<ServerObservation, Fact>, DatabaseError> {
        let before = session.observe().await?;
        self.loss.answered();
        let expected = self.order.command.source_server_uuid;
        if before.server_uuid != expected {
            let detail = format!("the source is server {}, not {expected}", before.server_uuid);
            return Ok(Err(self.failed(Reason::AuthorityChanged, detail)));
        }
        if before.is_fenced() && !self.sent && self.order.first_hand {
            let detail = "the source turned read-only before the fence was sent".to_owned();
            return Ok(Err(self.failed(Reason::AuthorityChanged, detail)));
        }
        if !before.is_fenced() {
            self.sent = true;
            session.set_super_read_only().await?;
        }
        let after = session.observe().await?;
        if after.server_uuid != expected {
            let detail = format!("the source became server {} while it was fenced", after.server_uuid);
            return Ok(Err(self.failed(Reason::AuthorityChanged, detail)));
        }
        if after.is_fenced() {
            return Ok(Ok(after));
        }
        Err(DatabaseError::Malformed {
            site: session.address().site.clone(),
            statement: "SELECT @@GLOBAL.super_read_only".to_owned(),
            detail: "super_read_only reads OFF right after it was set".to_owned(),
        })
    }

    /// The fence is applied; every peer must be seen read-only before it counts as proven.
    async fn prove(&mut self, group: &Group, fenced: ServerObservation) -> Result<Attempt, Refused> {
        let source = &self.order.command.source;
        let answers = probe::sites(self.hands, group, &[source]).await;
        let Peers {
            writable,
            unreadable,
            silent_readers,
        } = judge::peers(group, &[source], &answers);
        if let Some(site) = writable.first() {
            let detail = format!("site \"{site}\" answers writable while the source is fenced");
            return Ok(Attempt::Told(self.failed(Reason::ForeignWritable, detail)));
        }
        if let Some((site, error)) = unreadable.first() {
            if !self.silent_once.contains(site) {
                self.silent_once.push(site.clone());
            }
            let detail = format!("site \"{site}\" does not answer after the fence: {error}");
            return Ok(Attempt::Again {
                reason: Reason::FenceFailed,
                detail,
            });
        }
        let unreachable_peers = self.silent_once.iter().cloned().chain(silent_readers).collect();
        Ok(Attempt::Told(Fact::Fenced(Fenced {
            source_server_uuid: fenced.server_uuid,
            gtid_set: fenced.gtid_executed,
            apply_time: self.hands.clock.now(),
            unreachable_peers,
        })))
    }

    fn failed(&self, reason: Reason, detail: String) -> Fact {
        Fact::FenceFailed(StepFailed {
            reason,
            detail,
            sent: self.sent || !self.order.first_hand,
        })
    }
}
