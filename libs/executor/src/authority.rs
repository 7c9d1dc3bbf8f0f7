//! Acting under authority: a pinned session that holds the server's lock, and the claim read uncached under it.
//!
//! Whoever had authority before can no longer act on that server once the lock is ours, so what the claim says then holds
//! for as long as the session does.

use bloodraven_ports::{Clock, Database, DatabaseError, DatabaseSession, GroupStore, ServerAddress};
use bloodraven_types::{Group, RunRef, SiteName, Timestamp};

use crate::hands::{Hands, Refused, Superseded};

/// A pinned session under the authority lock, and the group as it was read under it.
pub struct Authority<D: Database> {
    /// The session.
    pub session: D::Session,
    /// The claim's read.
    pub group: Group,
}

/// Why there is no authority.
#[derive(Debug)]
pub enum NoAuthority {
    /// The record no longer asks for anything.
    Refused(Refused),
    /// The site is not in the spec.
    SiteGone,
    /// The server gave no session or no lock.
    Server(DatabaseError),
}

impl From<Refused> for NoAuthority {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<DatabaseError> for NoAuthority {
    fn from(error: DatabaseError) -> Self {
        Self::Server(error)
    }
}

impl<D: Database, S: GroupStore, C: Clock> Hands<D, S, C> {
    /// Takes authority over a site's server for the run (X-AUTH-01, PF-CLM-04).
    ///
    /// # Errors
    /// When the record has moved on, the site is gone, or the server gives no session or lock.
    pub async fn authority(
        &self,
        site: &SiteName,
        about: &RunRef,
        deadline: Timestamp,
        superseded: &Superseded,
    ) -> Result<Authority<D>, NoAuthority> {
        let group = self.claimed(about, deadline, superseded).await?;
        let address = address_of(&group, site)?;
        let mut session = self.sessions.checked(&address).await?;
        let taken = session.take_authority().await?;
        if let Some(ended) = taken.ended {
            tracing::warn!(%address, session = ended, "ended the session of an older authority");
        }
        let group = self.claimed(about, deadline, superseded).await?;
        if address_of(&group, site)? != address {
            let detail = "the site's address changed while the lock was taken".to_owned();
            return Err(NoAuthority::Server(DatabaseError::Unreachable {
                site: site.clone(),
                detail,
            }));
        }
        Ok(Authority { session, group })
    }

    /// Gives the lock back and keeps the session warm. After an error the session is dropped instead, which ends both.
    pub async fn give_back(&self, mut session: D::Session) {
        if session.release_authority().await.is_ok() {
            self.sessions.put(session);
        }
    }
}

fn address_of(group: &Group, site: &SiteName) -> Result<ServerAddress, NoAuthority> {
    group
        .site(site)
        .map(ServerAddress::administrative)
        .ok_or(NoAuthority::SiteGone)
}
