//! Opens pinned sessions.

use std::sync::Arc;

use bloodraven_ports::{Database, DatabaseError, ServerAddress};

use crate::connector::{ConnectError, Connector};
use crate::options::MysqlOptions;
use crate::session::MysqlSession;

/// MySQL servers. Sessions are made one by one and never pooled.
#[derive(Clone, Debug)]
pub struct MysqlDatabase {
    options: Arc<MysqlOptions>,
}

impl MysqlDatabase {
    /// Servers that are all reached with the same accounts.
    pub fn new(options: MysqlOptions) -> Self {
        Self {
            options: Arc::new(options),
        }
    }
}

impl Database for MysqlDatabase {
    type Session = MysqlSession;

    /// A server that answers, but refuses the connection (too many connections, wrong password, shutting down), is
    /// [`DatabaseError::Refused`]: it is there.
    async fn open(&self, address: &ServerAddress) -> Result<MysqlSession, DatabaseError> {
        let connector = Connector {
            options: Arc::clone(&self.options),
            address: address.clone(),
        };
        let deadline = connector.deadline();
        match connector.connect(deadline).await {
            Ok(connection) => MysqlSession::start(connector, connection, deadline).await,
            Err(error) => Err(open_error(address, error)),
        }
    }
}

fn open_error(address: &ServerAddress, error: ConnectError) -> DatabaseError {
    let site = address.site.clone();
    if let ConnectError::Client {
        source: mysql_async::Error::Server(refusal),
        ..
    } = error
    {
        let statement = "(connect)".to_owned();
        DatabaseError::Refused {
            site,
            statement,
            code: refusal.code,
            detail: refusal.message,
        }
    } else {
        DatabaseError::Unreachable {
            site,
            detail: error.to_string(),
        }
    }
}
