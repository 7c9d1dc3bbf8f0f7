//! Follower convergence: every follower replicates straight from the primary, and none loses a transaction for it.

use std::time::Duration;

use bloodraven_failover::claim::{self, Claim};
use bloodraven_failover::topology::{Convergence, convergence};
use bloodraven_gtid::GtidSet;
use bloodraven_ports::{Clock, Database, DatabaseError, DatabaseSession, GroupStore, ReplicationSource, ServerAddress};
use bloodraven_types::group::SiteSpec;
use bloodraven_types::words::{ConvergenceReason, ConvergenceState};
use bloodraven_types::{GroupKey, ServerUuid, SiteName};

use crate::hands::Hands;

/// How long a commit that is in a primary's binary log may take to show as executed: a stalled disk, rounded up.
const COMMIT_IN_PROGRESS: Duration = Duration::from_secs(2);

/// What a pass over one follower came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converged {
    /// Whether it follows the primary.
    pub state: ConvergenceState,
    /// Why.
    pub reason: ConvergenceReason,
    /// Transactions that the primary does not have.
    pub divergent: Option<GtidSet>,
    /// What went wrong.
    pub detail: Option<String>,
}

/// Looks at one follower and re-points it when it should and may be (PF-TOP-04).
///
/// Containment is checked before and after `STOP REPLICA`, which closes the race with the applier; replication metadata is not reset.
/// The claim must be free and the primary unchanged, read uncached under the follower's authority lock.
/// `None` means that somebody else holds the sites, or that the primary is another one by now.
pub async fn converge<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    key: &GroupKey,
    primary: &SiteSpec,
    follower: &SiteSpec,
) -> Option<Converged> {
    match try_converge(hands, key, primary, follower).await {
        Ok(converged) => converged,
        Err(error) => {
            let reason = if error.is_no_answer() {
                ConvergenceReason::ProbeFailed
            } else {
                ConvergenceReason::MutationFailed
            };
            Some(Converged {
                state: ConvergenceState::Pending,
                reason,
                divergent: None,
                detail: Some(error.to_string()),
            })
        }
    }
}

/// How many transactions a set holds, as the status counts them.
pub fn transactions(set: &GtidSet) -> u64 {
    u64::try_from(set.count()).unwrap_or(u64::MAX)
}

async fn try_converge<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    key: &GroupKey,
    primary: &SiteSpec,
    follower: &SiteSpec,
) -> Result<Option<Converged>, DatabaseError> {
    let follower_address = ServerAddress::administrative(follower);
    let mut session = hands.sessions.checked(&follower_address).await?;
    let judged = judge(hands, primary, &mut session).await?;
    if let Some(done) = judged {
        hands.sessions.put(session);
        return Ok(Some(done));
    }
    session.take_authority().await?;
    if !still_free(hands, key, &primary.name).await {
        return Ok(None);
    }
    session.stop_replica().await?;
    let judged = judge(hands, primary, &mut session).await?;
    if let Some(done) = judged.filter(|done| done.state == ConvergenceState::Blocked) {
        session.release_authority().await?;
        hands.sessions.put(session);
        return Ok(Some(done));
    }
    tracing::info!(group = %key, site = %follower.name, primary = %primary.name, "replication source convergence started");
    session
        .change_source(&ReplicationSource {
            host: primary.host.clone(),
            port: primary.port,
        })
        .await?;
    session.start_replica().await?;
    session.release_authority().await?;
    hands.sessions.put(session);
    Ok(Some(Converged {
        state: ConvergenceState::Pending,
        reason: ConvergenceReason::SourceMismatch,
        divergent: None,
        detail: Some("re-pointed to the primary; the threads are starting".to_owned()),
    }))
}

/// The follower is read first, then the primary: a transaction on its way never looks like a divergence (report B10).
async fn judge<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    primary: &SiteSpec,
    session: &mut D::Session,
) -> Result<Option<Converged>, DatabaseError> {
    let follower = session.observe().await?;
    if follower.is_writable() {
        let writable = Converged {
            state: ConvergenceState::Blocked,
            reason: ConvergenceReason::SourceMismatch,
            divergent: None,
            detail: Some("the follower is writable; it is fenced before it is re-pointed".to_owned()),
        };
        return Ok(Some(writable));
    }
    let executed = set(&session.address().site, &follower.gtid_executed)?;
    let (primary_uuid, reference) = primarys_set(hands, primary, &executed).await?;
    let channel = follower.channels.first();
    let follows = channel.is_some_and(|channel| {
        channel.source_uuid == Some(primary_uuid)
            || (channel.source_uuid.is_none()
                && channel.source_host == primary.host
                && channel.source_port == primary.port)
    });
    let running = follower.channels.len() == 1 && channel.is_some_and(bloodraven_ports::Channel::is_running);
    let judged = match convergence(&executed, &reference, follows, running) {
        Convergence::Repoint => None,
        Convergence::Done(state, reason) => Some(Converged {
            state,
            reason,
            divergent: (state == ConvergenceState::Blocked).then(|| executed.subtract(&reference)),
            detail: None,
        }),
    };
    Ok(judged)
}

/// What the primary has executed, as far as the follower's set can be judged by it.
///
/// A replica is sent a transaction once the primary's binary log has it, which is before the primary itself shows it as
/// executed. A transaction of the primary's own that only the follower shows is therefore waited for before it counts as
/// one that the primary does not have (report B10).
async fn primarys_set<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    primary: &SiteSpec,
    follower: &GtidSet,
) -> Result<(ServerUuid, GtidSet), DatabaseError> {
    let mut session = hands.sessions.checked(&ServerAddress::administrative(primary)).await?;
    let (uuid, executed) = session.executed().await?;
    let mut reference = set(&primary.name, &executed)?;
    let ahead = follower.subtract(&reference);
    if !ahead.is_empty() && ahead.without(uuid.as_uuid()).is_empty() {
        session
            .wait_for_executed(&ahead.to_string(), COMMIT_IN_PROGRESS)
            .await?;
        let (_, executed) = session.executed().await?;
        reference = set(&primary.name, &executed)?;
    }
    hands.sessions.put(session);
    Ok((uuid, reference))
}

fn set(site: &SiteName, text: &str) -> Result<GtidSet, DatabaseError> {
    text.parse().map_err(|_| DatabaseError::Malformed {
        site: site.clone(),
        statement: "SELECT @@GLOBAL.gtid_executed".to_owned(),
        detail: format!("{text:?} is no GTID set"),
    })
}

async fn still_free<D: Database, S: GroupStore, C: Clock>(
    hands: &Hands<D, S, C>,
    key: &GroupKey,
    primary: &SiteName,
) -> bool {
    match hands.store.get(key).await {
        Ok(group) => claim::holder(&group) == Claim::Free && group.status.active_site.as_ref() == Some(primary),
        Err(error) => {
            tracing::debug!(group = %key, %error, "the claim cannot be read; the follower is left as it is");
            false
        }
    }
}
