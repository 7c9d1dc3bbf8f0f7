//! The group's record over the world's API server.

use std::time::Duration;

use bloodraven_ports::{AnnotationChanges, GroupStore, SitesUpdate, StoreError};
use bloodraven_types::{EventReason, Group, GroupKey, GroupStatus, ObjectUid};

use crate::api::{ApiServer, Change, Request, WriteFault};
use crate::journal::{Event, Writer};
use crate::world::{Arrival, Outcome, World, WorldState};

/// How long a request may take before its outcome counts as unknown.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// One way of a request.
const TRAVEL: std::ops::RangeInclusive<Duration> = Duration::from_micros(500)..=Duration::from_micros(2500);

/// The API server of a world.
#[derive(Clone)]
pub struct SimStore(World);

/// A write that was sent.
struct Sent {
    ticket: u64,
    reply_at: Duration,
    fault: Option<WriteFault>,
}

impl SimStore {
    pub(crate) const fn new(world: World) -> Self {
        Self(world)
    }

    async fn write(&self, group: &Group, change: Change) -> Result<Group, StoreError> {
        let request = |ticket, change| Request {
            ticket,
            by: Writer::Keeper,
            base: Some(group.resource_version.clone()),
            uid: group.uid.clone(),
            change,
        };
        let began = self.0.time.now();
        let sent = self.0.state().submit(change, request);
        let ambiguous = |detail: &str| StoreError::Ambiguous {
            group: group.key.to_string(),
            detail: detail.to_owned(),
        };
        self.0.time.sleep_until(sent.reply_at).await;
        let outcome = self.0.state().results.remove(&sent.ticket);
        match sent.fault {
            Some(WriteFault::LateCommit(_)) => return Err(ambiguous("the connection broke")),
            Some(WriteFault::LostReply | WriteFault::LostRequest) => {
                self.0.time.sleep_until(began + REQUEST_TIMEOUT).await;
                return Err(ambiguous("no answer in time"));
            }
            Some(WriteFault::Refused(code)) => {
                return Err(StoreError::Refused {
                    group: group.key.to_string(),
                    code,
                    detail: "as the test wants it".to_owned(),
                });
            }
            Some(WriteFault::LateReply(_)) | None => {}
        }
        match outcome {
            Some(Outcome::Request(Ok(group))) => Ok(*group),
            Some(Outcome::Request(Err(error))) => Err(error),
            Some(Outcome::Call(_) | Outcome::Silence) | None => Err(ambiguous("no answer")),
        }
    }

    async fn travel(&self) {
        let travel = self.0.state().random.duration(&TRAVEL);
        self.0.time.sleep(travel).await;
    }
}

impl WorldState {
    fn submit(&mut self, change: Change, request: impl FnOnce(u64, Change) -> Request) -> Sent {
        let counted = !ApiServer::is_status_fence(&change);
        let planned = if counted {
            let number = self.api.writes;
            self.api.writes += 1;
            self.api.faults.get(&number).copied()
        } else {
            None
        };
        let misfortune = self.api.misfortune;
        let fault = match planned {
            Some(fault) => Some(fault),
            None if misfortune > 0 && self.random.chance(misfortune) => Some(self.some_fault()),
            None => None,
        };
        let travel = self.random.duration(&TRAVEL);
        let mut at = self.now + travel;
        let mut reply_at = at + travel;
        match fault {
            Some(WriteFault::LostRequest | WriteFault::Refused(_)) => {
                return Sent {
                    ticket: 0,
                    reply_at,
                    fault,
                };
            }
            Some(WriteFault::LateReply(late)) => reply_at += late,
            Some(WriteFault::LateCommit(late)) => at += late,
            Some(WriteFault::LostReply) | None => {}
        }
        let ticket = self.schedule(at, |ticket| Arrival::Request(request(ticket, change)));
        Sent {
            ticket,
            reply_at,
            fault,
        }
    }

    fn some_fault(&mut self) -> WriteFault {
        let late = self
            .random
            .duration(&(Duration::from_millis(1)..=Duration::from_millis(400)));
        match self.random.below(5) {
            0 => WriteFault::LostRequest,
            1 => WriteFault::LostReply,
            2 => WriteFault::LateReply(late * 5),
            3 => WriteFault::LateCommit(late),
            _ => WriteFault::Refused(500),
        }
    }
}

impl GroupStore for SimStore {
    async fn get(&self, key: &GroupKey) -> Result<Group, StoreError> {
        self.travel().await;
        let read = {
            let state = self.0.state();
            if *state.api.key() == *key {
                state.api.read()
            } else {
                Err(StoreError::NotFound { group: key.to_string() })
            }
        };
        self.travel().await;
        read
    }

    async fn write_status(&self, group: &Group, status: &GroupStatus) -> Result<Group, StoreError> {
        self.write(group, Change::Status(Box::new(status.clone()))).await
    }

    async fn write_annotations(&self, group: &Group, changes: &AnnotationChanges) -> Result<Group, StoreError> {
        self.write(group, Change::Annotations(changes.clone())).await
    }

    async fn write_sites(&self, _: &GroupKey, uid: &ObjectUid, update: &SitesUpdate) -> Result<(), StoreError> {
        let travel = self.0.state().random.duration(&TRAVEL);
        let ticket = {
            let mut state = self.0.state();
            let at = state.now() + travel;
            state.schedule(at, |ticket| {
                Arrival::Request(Request {
                    ticket,
                    by: Writer::Topology,
                    base: None,
                    uid: uid.clone(),
                    change: Change::Sites(update.clone()),
                })
            })
        };
        self.0.time.sleep(travel * 2).await;
        match self.0.state().results.remove(&ticket) {
            Some(Outcome::Request(result)) => result.map(drop),
            Some(Outcome::Call(_) | Outcome::Silence) | None => Ok(()),
        }
    }

    async fn emit(&self, _: &Group, reason: EventReason, message: &str) {
        let mut state = self.0.state();
        let now = state.now();
        state.journal.push(now, Event::Emitted(reason, message.to_owned()));
    }
}
