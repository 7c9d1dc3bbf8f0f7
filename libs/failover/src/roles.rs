//! Which role each site's pods are to carry: a pure function of the object, so that publication is level-triggered.

use std::collections::BTreeMap;

use bloodraven_types::{Group, Phase, SiteName, SiteRole};

use crate::claim;
use crate::planned::PromotionStage;
use crate::planned::promotion_stage;

/// A role on the wire to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedRole {
    /// Takes writes.
    Primary,
    /// Serves reads.
    Replica,
    /// Neither: the role is moving.
    Fenced,
}

/// The site that clients are to be sent to; none while the role is moving or unknown.
pub fn published_primary(group: &Group) -> Option<&SiteName> {
    if let Some(run) = group.run() {
        let moving = match run.phase {
            Phase::Fencing
            | Phase::Draining
            | Phase::WaitingForLag
            | Phase::WaitingForDragonflySync
            | Phase::PromotingDragonfly
            | Phase::RollingBack => true,
            Phase::Promoting => match promotion_stage(group, run) {
                PromotionStage::Intended => true,
                PromotionStage::Recorded { .. } | PromotionStage::Released { .. } => return Some(&run.target_site),
            },
            Phase::Publishing => return Some(&run.target_site),
            Phase::Admitting | Phase::Deferred | Phase::Succeeded | Phase::Failed => false,
        };
        if moving {
            return None;
        }
    }
    group.status.active_site.as_ref()
}

/// The role of every site's pods.
///
/// While a run holds the claim its source is `Fenced` from the fence intent on, so that the `-primary` Service sheds it
/// before the drain (PF-FEN-02), and the target stays what it was until the promotion is recorded.
pub fn published_roles(group: &Group) -> BTreeMap<SiteName, PublishedRole> {
    let primary = published_primary(group);
    let source = match claim::holder(group) {
        claim::Claim::Planned { .. } => group.run().and_then(|run| run.source_site.as_ref()),
        claim::Claim::Free | claim::Claim::Held { .. } | claim::Claim::Other { .. } => None,
    };
    let settled = primary.is_some() || source.is_some();
    group
        .spec
        .sites
        .iter()
        .filter(|_| settled)
        .map(|site| {
            let role = if primary == Some(&site.name) {
                PublishedRole::Primary
            } else if source == Some(&site.name) {
                PublishedRole::Fenced
            } else {
                match site.role {
                    SiteRole::PrimaryCandidate | SiteRole::DisasterRecovery | SiteRole::ReadOnly => {
                        PublishedRole::Replica
                    }
                }
            };
            (site.name.clone(), role)
        })
        .collect()
}
