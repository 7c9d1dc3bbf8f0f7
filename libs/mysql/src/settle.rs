//! What became of a session: killed by its id from a side connection, and seen gone.

use std::time::Duration;

use bloodraven_types::ServerUuid;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Row};

use crate::connector::{ConnectError, Connector};
use crate::rows::{Malformation, column, parsed};
use crate::statement::{SESSION_LOCK_PREFIX, quoted};

/// How long a killed session is given to go.
const DEADLINE: Duration = Duration::from_secs(2);

/// How often we look whether it is gone; a look costs 0.1 ms.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// `ER_NO_SUCH_THREAD`: the session is gone already.
pub(crate) const NO_SUCH_THREAD: u16 = 1094;

/// Which session it is, beyond doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionIdentity {
    /// The server.
    pub(crate) server_uuid: ServerUuid,
    /// The connection id: unique as long as the server runs.
    pub(crate) connection_id: u64,
    /// What the session's own lock is named after: unique for all times.
    pub(crate) token: String,
}

/// Why it could not be seen that the session is gone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSeenGone {
    #[error("no side connection: {0}")]
    Connect(#[from] ConnectError),
    #[error("the side connection failed: {0}")]
    Client(#[from] mysql_async::Error),
    #[error("the side connection's answer cannot be read: {0}")]
    Malformed(Malformation),
    #[error("another server answers now: {found} instead of {expected}")]
    OtherServer { expected: ServerUuid, found: ServerUuid },
    #[error("session {connection_id} is still there {waited:?} after it was killed")]
    StillThere { connection_id: u64, waited: Duration },
}

/// One look at the session from outside.
struct Look {
    server_uuid: ServerUuid,
    holds_its_lock: bool,
    is_listed: bool,
}

/// Kills the session and waits until it is gone, bounded by the connect timeout and two seconds.
pub(crate) async fn kill_and_see_gone(connector: &Connector, identity: &SessionIdentity) -> Result<(), NotSeenGone> {
    let mut side = connector.connect(connector.deadline()).await?;
    let outcome = match tokio::time::timeout(DEADLINE, kill_until_gone(&mut side, identity)).await {
        Ok(outcome) => outcome,
        Err(_elapsed) => Err(NotSeenGone::StillThere {
            connection_id: identity.connection_id,
            waited: DEADLINE,
        }),
    };
    drop(side);
    outcome
}

/// The session holds its lock until its last statement has ended. A session that has lost it before we killed anything is
/// gone, even when its id is listed: then the server was restarted and the id is somebody else's.
async fn kill_until_gone(side: &mut Conn, identity: &SessionIdentity) -> Result<(), NotSeenGone> {
    let mut killed = false;
    loop {
        let look = look(side, identity).await?;
        if look.server_uuid != identity.server_uuid {
            return Err(NotSeenGone::OtherServer {
                expected: identity.server_uuid,
                found: look.server_uuid,
            });
        }
        let is_there = look.holds_its_lock || (killed && look.is_listed);
        if !is_there {
            return Ok(());
        }
        if look.holds_its_lock && !killed {
            kill(side, identity.connection_id).await?;
            killed = true;
        } else {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

async fn look(side: &mut Conn, identity: &SessionIdentity) -> Result<Look, NotSeenGone> {
    let id = identity.connection_id;
    let lock = quoted(&format!("{SESSION_LOCK_PREFIX}{}", identity.token));
    let query = format!(
        "SELECT @@server_uuid AS server_uuid, IFNULL(IS_USED_LOCK({lock}) = {id}, 0) AS holds_its_lock, \
         EXISTS (SELECT 1 FROM information_schema.processlist WHERE id = {id}) AS is_listed"
    );
    let row: Option<Row> = side.query_first(query).await?;
    let row = row.ok_or_else(|| NotSeenGone::Malformed("no row".to_owned()))?;
    let read = || -> Result<Look, Malformation> {
        Ok(Look {
            server_uuid: parsed(&row, "server_uuid")?,
            holds_its_lock: column(&row, "holds_its_lock")?,
            is_listed: column(&row, "is_listed")?,
        })
    };
    read().map_err(NotSeenGone::Malformed)
}

async fn kill(side: &mut Conn, connection_id: u64) -> Result<(), NotSeenGone> {
    match side.query_drop(format!("KILL CONNECTION {connection_id}")).await {
        Err(mysql_async::Error::Server(error)) if error.code == NO_SUCH_THREAD => Ok(()),
        outcome => Ok(outcome?),
    }
}
