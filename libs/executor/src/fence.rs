//! Fencing the source: same server, writable, `super_read_only=ON`, read back, set taken, every peer seen read-only.

use std::time::Duration;

use bloodraven_failover::judge::{self, Peers};
use bloodraven_ports::{Clock, Database, DatabaseError, DatabaseSession, GroupStore, ServerAddress, ServerObservation};
use bloodraven_types::command::FenceSource;
use bloodraven_types::fact::{Fact, Fenced, StepFailed};
use bloodraven_types::{Group, Reason, SiteName};

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
        let about = &self.order.about;
        let group = self.hands.claimed(about, command.deadline, self.superseded).await?;
        let Some(site) = group.site(&command.source) else {
            let detail = format!("site \"{}\" is not in spec.sites", command.source);
            return Ok(Attempt::Told(self.failed(Reason::UnknownSite, detail)));
        };
        let address = ServerAddress::administrative(site);
        match self.on_source(&address).await? {
            Ok(Ok(fenced)) => self.prove(&group, fenced).await,
            Ok(Err(fact)) => Ok(Attempt::Told(fact)),
            Err(error) => {
                if self.loss.failed(&error, self.hands.clock.monotonic()) {
                    return Ok(Attempt::Told(self.failed(Reason::SourceLost, error.to_string())));
                }
                Ok(Attempt::Again {
                    reason: Reason::FenceFailed,
                    detail: error.to_string(),
                })
            }
        }
    }

    /// Everything that happens on the pinned session to the source.
    async fn on_source(
        &mut self,
        address: &ServerAddress,
    ) -> Result<Result<Result<ServerObservation, Fact>, DatabaseError>, Refused> {
        let mut session = match self.hands.sessions.checked(address).await {
            Ok(session) => session,
            Err(error) => return Ok(Err(error)),
        };
        match session.take_authority().await {
            Ok(taken) => {
                if let Some(ended) = taken.ended {
                    tracing::warn!(%address, session = ended, "ended the session of an older authority");
                }
            }
            Err(error) => return Ok(Err(error)),
        }
        // Under the lock: whoever had authority before can no longer act here, so what the claim says now holds.
        self.hands
            .claimed(&self.order.about, self.order.command.deadline, self.superseded)
            .await?;
        let outcome = self.set_and_read(&mut session).await;
        if outcome.is_ok() && session.release_authority().await.is_ok() {
            self.hands.sessions.put(session);
        }
        Ok(outcome)
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
        let answers = probe::sites(&self.hands.sessions, group, &[source]).await;
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
