//! The group's record: uncached reads and conditioned writes of the `MysqlFailoverGroup`.

use std::collections::BTreeMap;
use std::future::Future;

use bloodraven_types::group::{GroupStatus, SiteStatus};
use bloodraven_types::{EventReason, Group, GroupKey, ObjectUid, SiteName};

/// Annotation keys to set (`Some`) or remove (`None`).
pub type AnnotationChanges = BTreeMap<String, Option<String>>;

/// What the topology manager writes: observations only, never the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitesUpdate {
    /// The unique writable promotable site.
    pub active_site: Option<SiteName>,
    /// What is known of each site.
    pub sites: Vec<SiteStatus>,
}

/// Why a read or write has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The object is at another version (409), or another object has the name: the write did not happen.
    #[error("{group} changed since version {version}")]
    Conflict {
        /// `namespace/name`.
        group: String,
        /// The version that the write was conditioned on.
        version: String,
    },
    /// There is no such object.
    #[error("{group} does not exist")]
    NotFound {
        /// `namespace/name`.
        group: String,
    },
    /// The API server refused (403, 422, …): the write did not happen.
    #[error("the API server refused a request for {group} with {code}: {detail}")]
    Refused {
        /// `namespace/name`.
        group: String,
        /// The HTTP status.
        code: u16,
        /// What it said.
        detail: String,
    },
    /// Timeout, connection lost, 5xx: a write may have happened or may still happen (PF-DUR-02).
    #[error("it is not known whether a request for {group} was carried out: {detail}")]
    Ambiguous {
        /// `namespace/name`.
        group: String,
        /// What the client said.
        detail: String,
    },
    /// The object cannot be read as a group.
    #[error("{group} cannot be read: {detail}")]
    Malformed {
        /// `namespace/name`.
        group: String,
        /// The field and what is wrong with it.
        detail: String,
    },
}

/// Reads and writes of groups. No call is served from a cache.
pub trait GroupStore: Clone + Send + Sync + 'static {
    /// Reads the object from the API server now.
    fn get(&self, key: &GroupKey) -> impl Future<Output = Result<Group, StoreError>> + Send;

    /// Replaces the whole status, conditioned on `group`'s version and uid, and returns the object as committed (PF-DUR-01).
    fn write_status(
        &self,
        group: &Group,
        status: &GroupStatus,
    ) -> impl Future<Output = Result<Group, StoreError>> + Send;

    /// Changes annotations, conditioned on `group`'s version and uid, and returns the object as committed.
    fn write_annotations(
        &self,
        group: &Group,
        changes: &AnnotationChanges,
    ) -> impl Future<Output = Result<Group, StoreError>> + Send;

    /// Writes observations. Conditioned on the uid only: it never touches the run, and never makes the run's writer wrong.
    fn write_sites(
        &self,
        key: &GroupKey,
        uid: &ObjectUid,
        update: &SitesUpdate,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Emits a Kubernetes Event about the group. Best effort: nothing waits for it (PF-DUR-13).
    fn emit(&self, group: &Group, reason: EventReason, message: &str) -> impl Future<Output = ()> + Send;
}
