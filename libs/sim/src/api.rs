//! The API server: one object, its versions, and what becomes of a write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bloodraven_ports::{AnnotationChanges, SitesUpdate, StoreError};
use bloodraven_types::{Group, GroupKey, GroupStatus, ObjectUid, ResourceVersion, annotation};

use crate::bus::Body;
use crate::journal::{Event, Writer};
use crate::world::{Moment, Outcome, WorldState};

/// What becomes of a write whose outcome its writer does not learn in time (report B60).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The request never arrives.
    LostRequest,
    /// It is committed; the answer is lost.
    LostReply,
    /// It is committed at once; the answer takes that long.
    LateReply(Duration),
    /// The connection breaks at once; the request arrives that much later.
    LateCommit(Duration),
    /// It is refused with this HTTP status.
    Refused(u16),
}

/// The API server, with the one object that matters.
#[derive(Clone, Debug)]
pub struct ApiServer {
    /// Whether requests are answered at all.
    pub answers: bool,
    /// What becomes of the record keeper's writes, counted from 0; status fences are not counted.
    pub faults: BTreeMap<u32, WriteFault>,
    /// In thousandths: how often any write of the record keeper meets a fault.
    pub misfortune: u64,
    /// Every write of the record keeper to the status is refused with this HTTP status.
    pub forbids_status: Option<u16>,
    /// How many writes the record keeper has begun.
    pub(crate) writes: u32,
    group: Group,
    deleted: bool,
    version: u64,
}

/// A write on its way.
pub(crate) struct Request {
    pub(crate) ticket: u64,
    pub(crate) by: Writer,
    /// The version that it is conditioned on.
    pub(crate) base: Option<ResourceVersion>,
    pub(crate) uid: ObjectUid,
    pub(crate) change: Change,
}

/// What is written.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Status(Box<GroupStatus>),
    Annotations(AnnotationChanges),
    Sites(SitesUpdate),
}

impl ApiServer {
    pub(crate) fn new(mut group: Group) -> Self {
        group.resource_version = ResourceVersion::new("1");
        Self {
            answers: true,
            faults: BTreeMap::new(),
            misfortune: 0,
            forbids_status: None,
            writes: 0,
            group,
            deleted: false,
            version: 1,
        }
    }

    /// The object's name.
    pub const fn key(&self) -> &GroupKey {
        &self.group.key
    }

    /// The object as it is now, or was before it was deleted.
    pub const fn group(&self) -> &Group {
        &self.group
    }

    /// How many writes the record keeper has begun, status fences apart.
    pub const fn writes(&self) -> u32 {
        self.writes
    }

    /// Reads the object.
    pub(crate) fn read(&self) -> Result<Group, StoreError> {
        let group = self.group.key.to_string();
        if !self.answers {
            return Err(StoreError::Ambiguous {
                group,
                detail: "no answer".to_owned(),
            });
        }
        if self.deleted {
            return Err(StoreError::NotFound { group });
        }
        Ok(self.group.clone())
    }

    /// Whether a write carries nothing but a status fence (PF-DUR-02).
    pub(crate) fn is_status_fence(change: &Change) -> bool {
        match change {
            Change::Annotations(changes) => changes.keys().all(|key| key == annotation::STATUS_FENCE),
            Change::Status(_) | Change::Sites(_) => false,
        }
    }

    fn commit(&mut self, mut next: Group) -> bool {
        next.resource_version = self.group.resource_version.clone();
        if next == self.group {
            // A write that changes nothing makes no version.
            return false;
        }
        self.version += 1;
        next.resource_version = ResourceVersion::new(self.version.to_string());
        self.group = next;
        true
    }
}

impl WorldState {
    /// Somebody changes the object, at once: an admin, or another controller.
    pub fn edit(&mut self, change: impl FnOnce(&mut Group)) {
        self.write(Writer::User, change);
    }

    /// Sets or removes the annotation that asks for a planned failover.
    pub fn annotate(&mut self, value: Option<&str>) {
        self.edit(|group| {
            match value {
                Some(value) => group
                    .annotations
                    .insert(annotation::PLANNED_FAILOVER.to_owned(), value.to_owned()),
                None => group.annotations.remove(annotation::PLANNED_FAILOVER),
            };
        });
    }

    /// Deletes the object, and makes another one of the same name and spec when `again` names it.
    pub fn delete(&mut self, again: Option<ObjectUid>) {
        match again {
            Some(uid) => self.edit(|group| {
                group.uid = uid;
                group.annotations.clear();
                group.status = GroupStatus {
                    active_site: group.status.active_site.clone(),
                    sites: group.status.sites.clone(),
                    ..GroupStatus::default()
                };
            }),
            None => self.api.deleted = true,
        }
    }

    pub(crate) fn write(&mut self, by: Writer, change: impl FnOnce(&mut Group)) {
        let before = self.api.group.clone();
        let mut next = before.clone();
        change(&mut next);
        if !self.api.commit(next) {
            return;
        }
        let group = self.api.group.clone();
        let run = group.run();
        let event = Event::Wrote {
            by,
            version: self.api.version,
            phase: run.map(|run| run.phase),
            revision: run.map_or(0, |run| run.revision.get()),
            annotations: changed_annotations(&before, &group),
        };
        self.journal.push(self.now, event);
        self.deliver(Body::Changed(Box::new(group)));
    }

    /// A write reaches the API server.
    pub(crate) fn receive(&mut self, request: Request) {
        let counted = request.by == Writer::Keeper && !ApiServer::is_status_fence(&request.change);
        if counted {
            self.fire(&Moment::BeforeWrite);
        }
        let result = self.take_in(&request).map(Box::new);
        let committed = result.is_ok();
        self.results.insert(request.ticket, Outcome::Request(result));
        if counted && committed {
            self.fire(&Moment::AfterWrite);
        }
    }

    fn take_in(&mut self, request: &Request) -> Result<Group, StoreError> {
        let current = self.api.read()?;
        let stale = request
            .base
            .as_ref()
            .is_some_and(|base| *base != current.resource_version);
        if stale || current.uid != request.uid {
            self.journal.push(self.now, Event::Conflicted { by: request.by });
            return Err(StoreError::Conflict {
                group: current.key.to_string(),
                version: current.resource_version.as_str().to_owned(),
            });
        }
        if let (Some(code), Change::Status(_)) = (self.api.forbids_status, &request.change) {
            return Err(StoreError::Refused {
                group: current.key.to_string(),
                code,
                detail: "as the test wants it".to_owned(),
            });
        }
        let change = request.change.clone();
        self.write(request.by, |group| apply(group, change));
        Ok(self.api.group.clone())
    }
}

fn apply(group: &mut Group, change: Change) {
    match change {
        Change::Status(status) => group.status = as_stored(*status),
        Change::Annotations(changes) => {
            for (key, value) in changes {
                match value {
                    Some(value) => group.annotations.insert(key, value),
                    None => group.annotations.remove(&key),
                };
            }
        }
        Change::Sites(update) => {
            group.status.active_site = update.active_site;
            group.status.sites = update.sites;
        }
    }
}

/// A status comes back from the API server as its JSON says it: whole seconds, and nothing that is not on the interface.
fn as_stored(status: GroupStatus) -> GroupStatus {
    let stored = serde_json::to_value(&status).and_then(serde_json::from_value);
    stored.unwrap_or(status)
}

fn changed_annotations(before: &Group, after: &Group) -> BTreeMap<String, (Option<String>, Option<String>)> {
    let keys: BTreeSet<&String> = before.annotations.keys().chain(after.annotations.keys()).collect();
    let values = |key: &String| {
        (
            before.annotations.get(key).cloned(),
            after.annotations.get(key).cloned(),
        )
    };
    keys.into_iter()
        .map(|key| (key.clone(), values(key)))
        .filter(|(_, (before, after))| before != after)
        .collect()
}
