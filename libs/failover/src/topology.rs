//! What the probes of all sites say together: the active site, and which follower is to be re-pointed.

use bloodraven_gtid::GtidSet;
use bloodraven_types::group::SiteStatus;
use bloodraven_types::words::{ConvergenceReason, ConvergenceState};
use bloodraven_types::{Group, SiteName, SiteRole, SiteState};

/// The unique writable promotable site. A second writable site of any role empties it.
pub fn active_site(group: &Group, sites: &[SiteStatus]) -> Option<SiteName> {
    let mut writable = sites.iter().filter(|site| site.state == SiteState::Writable);
    let first = writable.next()?;
    if writable.next().is_some() {
        return None;
    }
    let site = group.spec.sites.iter().find(|site| site.name.as_str() == first.name)?;
    match site.role {
        SiteRole::PrimaryCandidate => Some(site.name.clone()),
        SiteRole::DisasterRecovery | SiteRole::ReadOnly => None,
    }
}

/// What is to be done about one follower (PF-TOP-04).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Convergence {
    /// Nothing.
    Done(ConvergenceState, ConvergenceReason),
    /// Re-point it to the primary: both reads are of now, the follower's first.
    Repoint,
}

/// Judges one follower's live set and channel against the primary's set.
///
/// The follower's set is read before the primary's, so that a transaction on its way never looks like a divergence
/// (report B10).
pub fn convergence(follower: &GtidSet, primary: &GtidSet, follows_primary: bool, running: bool) -> Convergence {
    if !primary.contains(follower) {
        return Convergence::Done(ConvergenceState::Blocked, ConvergenceReason::GTIDDiverged);
    }
    if follows_primary && running {
        return Convergence::Done(ConvergenceState::Converged, ConvergenceReason::DirectSource);
    }
    Convergence::Repoint
}
