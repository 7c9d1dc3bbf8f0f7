//! The task that owns a session's connection, so that a statement's fate does not hang on its caller.

use std::time::Duration;

use bloodraven_ports::DatabaseError;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, ServerError};
use tokio::sync::{mpsc, oneshot};

use crate::connector::Connector;
use crate::rows::Answer;
use crate::settle::{SessionIdentity, kill_and_see_gone};
use crate::statement::Statement;

/// Server errors that end the session: `ER_SERVER_SHUTDOWN`, `ER_QUERY_INTERRUPTED`, `ER_SESSION_WAS_KILLED`,
/// `ER_CLIENT_INTERACTION_TIMEOUT`. A statement of several steps may have got through some of them.
const ENDING_ERRORS: [u16; 4] = [1053, 1317, 3169, 4031];

/// A statement to carry out. Dropping the receiver of the answer ends the statement and the session.
pub(crate) struct Request {
    pub(crate) statement: Statement,
    pub(crate) timeout: Duration,
    pub(crate) answer: oneshot::Sender<Result<Answer, DatabaseError>>,
}

/// A session's connection and all that is needed to end it from outside.
pub(crate) struct Worker {
    pub(crate) connection: Conn,
    pub(crate) connector: Connector,
    pub(crate) identity: SessionIdentity,
}

/// How a statement ended, as the client sees it.
enum Ending {
    Answered(Answer),
    Refused(ServerError),
    /// The connection broke, or the server ended the session.
    Lost(String),
    TimedOut,
    /// The caller has dropped its future.
    GivenUp,
}

impl Worker {
    /// Serves requests until the session is closed, dropped, or of no further use.
    pub(crate) async fn serve(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(request) = requests.recv().await {
            let Request {
                statement,
                timeout,
                mut answer,
            } = request;
            if answer.is_closed() {
                continue;
            }
            let ending = tokio::select! {
                biased;
                ending = send(&mut self.connection, &statement, timeout) => ending,
                () = answer.closed() => Ending::GivenUp,
            };
            let (result, usable) = self.conclude(&statement, timeout, ending).await;
            if !usable {
                // Before the answer is given, so that nothing is handed over any more that would never be sent.
                requests.close();
            }
            // The caller may have gone in this very moment; then nobody wants to know how the statement ended.
            drop(answer.send(result));
        }
        let timeout = self.connector.options.connect_timeout;
        if tokio::time::timeout(timeout, self.connection.disconnect())
            .await
            .is_err()
        {
            tracing::debug!(site = %self.connector.address.site, "the server did not take leave in time");
        }
    }

    /// What is known of a statement in the end, and whether the session is still of use.
    async fn conclude(
        &self,
        statement: &Statement,
        timeout: Duration,
        ending: Ending,
    ) -> (Result<Answer, DatabaseError>, bool) {
        match ending {
            Ending::Answered(rows) => (Ok(rows), true),
            Ending::Refused(error) => (Err(self.refused(statement, &error)), true),
            Ending::Lost(detail) if statement.changes() => {
                (Err(self.settled(statement, timeout, &detail).await), false)
            }
            Ending::Lost(detail) => (Err(self.unreachable(detail)), false),
            Ending::TimedOut => {
                let detail = format!("no answer within {timeout:?}");
                (Err(self.settled(statement, timeout, &detail).await), false)
            }
            Ending::GivenUp => {
                let error = self.settled(statement, timeout, "the caller has given it up").await;
                tracing::warn!(
                    site = %self.connector.address.site,
                    session = self.identity.connection_id,
                    statement = statement.shown(),
                    outcome = %error,
                    "a statement was given up in the middle",
                );
                (Err(error), false)
            }
        }
    }

    fn refused(&self, statement: &Statement, error: &ServerError) -> DatabaseError {
        DatabaseError::Refused {
            site: self.connector.address.site.clone(),
            statement: statement.shown().to_owned(),
            code: error.code,
            detail: statement.detail(error.code, &error.message),
        }
    }

    fn unreachable(&self, detail: String) -> DatabaseError {
        DatabaseError::Unreachable {
            site: self.connector.address.site.clone(),
            detail,
        }
    }

    /// Ends the session from outside, and says what is then known of the statement.
    async fn settled(&self, statement: &Statement, timeout: Duration, detail: &str) -> DatabaseError {
        let site = self.connector.address.site.clone();
        match kill_and_see_gone(&self.connector, &self.identity).await {
            Ok(()) => DatabaseError::Killed {
                site,
                statement: statement.shown().to_owned(),
                timeout,
            },
            Err(why) => {
                let detail = format!("{detail}; {why}");
                if statement.changes() {
                    DatabaseError::Unsettled {
                        site,
                        statement: statement.shown().to_owned(),
                        detail,
                    }
                } else {
                    DatabaseError::Unreachable { site, detail }
                }
            }
        }
    }
}

/// Sends the statement and reads all of its answers.
async fn send(connection: &mut Conn, statement: &Statement, timeout: Duration) -> Ending {
    match tokio::time::timeout(timeout, query(connection, statement.text())).await {
        Ok(Ok(rows)) => Ending::Answered(rows),
        Ok(Err(mysql_async::Error::Server(error))) if !ENDING_ERRORS.contains(&error.code) => Ending::Refused(error),
        Ok(Err(error)) => Ending::Lost(error.to_string()),
        Err(_elapsed) => Ending::TimedOut,
    }
}

/// One round trip of one or more statements.
pub(crate) async fn query(connection: &mut Conn, text: &str) -> mysql_async::Result<Answer> {
    let mut result = connection.query_iter(text).await?;
    let mut answer = Answer::new();
    loop {
        answer.push(result.collect().await?);
        if result.is_empty() {
            return Ok(answer);
        }
    }
}
