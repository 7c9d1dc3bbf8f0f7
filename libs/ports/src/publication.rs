//! Publication: what tells clients where the primary is.

use std::collections::BTreeMap;
use std::future::Future;

use bloodraven_types::{Group, SiteName};

/// The value of the label `shipstream.io/role` on a site's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodRole {
    /// Behind the `-primary` Service.
    Primary,
    /// Behind the `-replicas` Service.
    Replica,
    /// Behind neither: the site is fenced and the role is moving.
    Fenced,
}

/// What could not be published. It is tried again by the level-triggered publisher.
#[derive(Debug, thiserror::Error)]
#[error("{what} of {group}: {detail}")]
pub struct PublicationError {
    /// What was to be changed.
    pub what: String,
    /// `namespace/name`.
    pub group: String,
    /// What the API server said.
    pub detail: String,
}

/// Labels and DNS. Both calls change only what differs.
pub trait Publication: Clone + Send + Sync + 'static {
    /// Sets the role label on the pods of each named site; a site without pods is no error. Returns how many were changed.
    fn set_roles(
        &self,
        group: &Group,
        roles: &BTreeMap<SiteName, PodRole>,
    ) -> impl Future<Output = Result<u32, PublicationError>> + Send;

    /// Points the group's DNS record at the site's `lbIP`. Returns whether the record was changed.
    fn set_dns(&self, group: &Group, site: &SiteName) -> impl Future<Output = Result<bool, PublicationError>> + Send;
}
