//! Warm sessions: opened and authenticated before they are needed, so that no handshake is on the write-outage path.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bloodraven_ports::{Database, DatabaseError, DatabaseSession, ServerAddress};
use bloodraven_types::Group;

/// At most this many idle sessions are kept for one server: one to act on and one to look with.
const IDLE_PER_SERVER: usize = 2;

/// Idle sessions by server. A session is out of the map while it is used, and comes back only when it is sound.
pub struct Sessions<D: Database> {
    database: D,
    idle: Arc<Mutex<HashMap<ServerAddress, Vec<D::Session>>>>,
}

impl<D: Database> Clone for Sessions<D> {
    fn clone(&self) -> Self {
        Self {
            database: self.database.clone(),
            idle: Arc::clone(&self.idle),
        }
    }
}

impl<D: Database> Sessions<D> {
    /// No session yet.
    pub fn new(database: D) -> Self {
        Self {
            database,
            idle: Arc::default(),
        }
    }

    /// Makes sure that a sound idle session to every site of the group is there. Sites that do not answer are left out:
    /// whoever needs them will find out.
    pub async fn warm(&self, group: &Group) {
        let checks = group.spec.sites.iter().map(|site| async {
            let address = ServerAddress::administrative(site);
            match self.checked(&address).await {
                Ok(session) => self.put(session),
                Err(error) => tracing::debug!(%address, %error, "no session kept warm"),
            }
        });
        futures::future::join_all(checks).await;
    }

    /// A session that was sound when it was last used, or a new one. It may have been cut since: the first statement tells.
    ///
    /// # Errors
    /// When no session can be opened.
    pub async fn take(&self, address: &ServerAddress) -> Result<D::Session, DatabaseError> {
        match self.idle_one(address) {
            Some(session) => Ok(session),
            None => self.database.open(address).await,
        }
    }

    /// A session whose server has just answered on it: an idle one that was cut meanwhile is replaced by a new one. Where one
    /// was cut or hangs so do the others, and each would cost its timeout, so none of them is asked.
    ///
    /// # Errors
    /// When no session can be opened.
    pub async fn checked(&self, address: &ServerAddress) -> Result<D::Session, DatabaseError> {
        if let Some(mut session) = self.idle_one(address) {
            if session.ping().await.is_ok() {
                return Ok(session);
            }
            self.forget(address);
        }
        self.database.open(address).await
    }

    /// Drops the idle sessions to a server.
    pub(crate) fn forget(&self, address: &ServerAddress) {
        let forgotten = self.lock().remove(address);
        drop(forgotten);
    }

    /// Gives a sound session back.
    pub fn put(&self, session: D::Session) {
        let mut idle = self.lock();
        let kept = idle.entry(session.address().clone()).or_default();
        if kept.len() < IDLE_PER_SERVER {
            kept.push(session);
        }
    }

    fn idle_one(&self, address: &ServerAddress) -> Option<D::Session> {
        self.lock().get_mut(address).and_then(Vec::pop)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ServerAddress, Vec<D::Session>>> {
        // Nothing panics under this lock; if something did, the idle sessions are still sound.
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
