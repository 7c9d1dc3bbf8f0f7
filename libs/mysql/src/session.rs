//! One pinned session: the port's calls as statements, and their answers as the port's words.

use std::time::Duration;

use bloodraven_ports::{
    ApplicationSession, AuthorityTaken, BlockingSession, DatabaseError, DatabaseSession, ReplicationSource,
    ServerAddress, ServerObservation,
};
use bloodraven_types::ServerUuid;
use mysql_async::Conn;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::blockers::{self, LOCKS, STATEMENTS};
use crate::connector::{Connector, SESSION_SETTINGS};
use crate::host::Host;
use crate::rows::{self, Answer, Malformation, OBSERVATION, column, only_row, parsed};
use crate::settle::{NO_SUCH_THREAD, SessionIdentity};
use crate::statement::{AUTHORITY_LOCK, SESSION_LOCK_PREFIX, Statement, quoted};
use crate::worker::{Request, Worker, query};

/// How often we look whether a killed session is gone; a look costs 0.1 ms.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How long an idle session is given to show that its server still answers. A false alarm costs one new connection.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// `ER_KILL_DENIED_ERROR`: the session belongs to an account that ours may not end.
const KILL_DENIED: u16 = 1095;

/// Commands that are no application's: replication and clone of others from here, and the server's own threads.
const OTHER_COMMANDS: [&str; 4] = ["Binlog Dump", "Binlog Dump GTID", "Clone", "Daemon"];

/// Users that are no application's: the server's own threads, accounts that it uses itself, and who has not logged in yet.
const OTHER_USERS: [&str; 6] = [
    "system user",
    "event_scheduler",
    "unauthenticated user",
    "mysql.session",
    "mysql.sys",
    "mysql.infoschema",
];

/// One pinned session. Its connection belongs to a task of its own: see the crate's documentation.
#[derive(Debug)]
pub struct MysqlSession {
    connector: Connector,
    identity: SessionIdentity,
    requests: mpsc::Sender<Request>,
    task: JoinHandle<()>,
}

impl MysqlSession {
    /// The server's id of this connection.
    pub const fn connection_id(&self) -> u64 {
        self.identity.connection_id
    }

    /// The server that the session is with; it stays the same as long as the session lasts.
    pub const fn server_uuid(&self) -> ServerUuid {
        self.identity.server_uuid
    }

    /// Prepares a fresh connection until the deadline and hands it to its task: one round trip.
    pub(crate) async fn start(
        connector: Connector,
        mut connection: Conn,
        deadline: Instant,
    ) -> Result<Self, DatabaseError> {
        let text = format!(
            "{SESSION_SETTINGS}; SET @bloodraven_session = UUID(); \
             SELECT @@server_uuid AS server_uuid, CONNECTION_ID() AS connection_id, @bloodraven_session AS token, \
             GET_LOCK(CONCAT('{SESSION_LOCK_PREFIX}', @bloodraven_session), 0) AS locked"
        );
        let site = || connector.address.site.clone();
        let statement = || "(prepare the session)".to_owned();
        let answer = match tokio::time::timeout_at(deadline, query(&mut connection, &text)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(mysql_async::Error::Server(error))) => {
                let (site, statement) = (site(), statement());
                return Err(DatabaseError::Refused {
                    site,
                    statement,
                    code: error.code,
                    detail: error.message,
                });
            }
            Ok(Err(error)) => {
                return Err(DatabaseError::Unreachable {
                    site: site(),
                    detail: error.to_string(),
                });
            }
            Err(_elapsed) => {
                let detail = format!(
                    "the session was not ready within {:?}",
                    connector.options.connect_timeout
                );
                return Err(DatabaseError::Unreachable { site: site(), detail });
            }
        };
        let identity = identity(&answer).map_err(|detail| DatabaseError::Malformed {
            site: site(),
            statement: statement(),
            detail,
        })?;
        let worker = Worker {
            connection,
            connector: connector.clone(),
            identity: identity.clone(),
        };
        let (requests, receiver) = mpsc::channel(1);
        let task = tokio::spawn(worker.serve(receiver));
        Ok(Self {
            connector,
            identity,
            requests,
            task,
        })
    }

    async fn run(&self, statement: Statement) -> Result<Answer, DatabaseError> {
        self.run_within(statement, self.connector.options.statement_timeout)
            .await
    }

    async fn run_within(&self, statement: Statement, timeout: Duration) -> Result<Answer, DatabaseError> {
        let (answer, answered) = oneshot::channel();
        let changed = statement.changes().then(|| statement.shown().to_owned());
        if self
            .requests
            .send(Request {
                statement,
                timeout,
                answer,
            })
            .await
            .is_err()
        {
            return Err(self.ended());
        }
        // A task that goes without an answer was ended in the middle of the statement, by its runtime or by a panic.
        answered.await.unwrap_or_else(|_no_answer| match changed {
            Some(statement) => Err(DatabaseError::Unsettled {
                site: self.connector.address.site.clone(),
                statement,
                detail: "the task that had sent it was ended".to_owned(),
            }),
            None => Err(self.ended()),
        })
    }

    async fn change(&self, text: &str) -> Result<(), DatabaseError> {
        self.run(Statement::changing(text)).await.map(drop)
    }

    /// Sends a statement and reads its answer in the form that is wanted.
    async fn read<T>(
        &self,
        statement: Statement,
        timeout: Duration,
        form: impl FnOnce(&Answer) -> Result<T, Malformation> + Send,
    ) -> Result<T, DatabaseError> {
        let shown = statement.shown().to_owned();
        let answer = self.run_within(statement, timeout).await?;
        form(&answer).map_err(|detail| DatabaseError::Malformed {
            site: self.connector.address.site.clone(),
            statement: shown,
            detail,
        })
    }

    fn ended(&self) -> DatabaseError {
        DatabaseError::Unreachable {
            site: self.connector.address.site.clone(),
            detail: "the session has ended".to_owned(),
        }
    }

    fn statement_timeout(&self) -> Duration {
        self.connector.options.statement_timeout
    }

    fn authority_held(&self, holder: u64) -> DatabaseError {
        DatabaseError::AuthorityHeld {
            site: self.connector.address.site.clone(),
            holder,
        }
    }

    /// Takes the authority lock if it is free or ours; else says who holds it, if somebody still does.
    async fn try_authority(&self) -> Result<(bool, Option<u64>), DatabaseError> {
        let statement = Statement::reading(format!(
            "SELECT IF(IS_USED_LOCK('{AUTHORITY_LOCK}') = CONNECTION_ID(), 1, GET_LOCK('{AUTHORITY_LOCK}', 0)) AS taken, \
             IS_USED_LOCK('{AUTHORITY_LOCK}') AS holder"
        ));
        self.read(statement, self.statement_timeout(), |answer| {
            let row = only_row(answer, 0)?;
            let taken: Option<bool> = column(row, "taken")?;
            Ok((taken.unwrap_or(false), column(row, "holder")?))
        })
        .await
    }

    /// Ends the holder of the authority lock and waits until it is no longer listed.
    async fn end_holder(&mut self, holder: u64, deadline: Instant) -> Result<(), DatabaseError> {
        match self.kill(holder).await {
            Err(DatabaseError::Refused { code: KILL_DENIED, .. }) => return Err(self.authority_held(holder)),
            outcome => outcome?,
        }
        loop {
            let statement = Statement::reading(format!(
                "SELECT EXISTS (SELECT 1 FROM information_schema.processlist WHERE id = {holder}) AS is_listed"
            ));
            let is_listed: bool = self
                .read(statement, self.statement_timeout(), |answer| {
                    column(only_row(answer, 0)?, "is_listed")
                })
                .await?;
            if !is_listed {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(self.authority_held(holder));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// The processlist without all that is not an application: everybody else counts as one, administrators included,
    /// since a fence stops them too.
    fn application_sessions_statement(&self) -> Statement {
        let options = &self.connector.options;
        let own_users = [&options.user, &options.replication_user];
        let users = OTHER_USERS
            .into_iter()
            .chain(own_users.into_iter().chain(&options.controllers).map(String::as_str))
            .map(quoted)
            .collect::<Vec<_>>()
            .join(", ");
        let commands = OTHER_COMMANDS.map(quoted).join(", ");
        Statement::reading(format!(
            "SELECT id AS id, user AS user, host AS host, time AS time FROM information_schema.processlist \
             WHERE id <> CONNECTION_ID() AND command NOT IN ({commands}) AND user NOT IN ({users}) ORDER BY id"
        ))
        .shown_as("SELECT application sessions FROM information_schema.processlist")
    }
}

impl DatabaseSession for MysqlSession {
    fn address(&self) -> &ServerAddress {
        &self.connector.address
    }

    async fn observe(&mut self) -> Result<ServerObservation, DatabaseError> {
        self.read(
            Statement::reading(OBSERVATION),
            self.statement_timeout(),
            rows::observation,
        )
        .await
    }

    async fn executed(&mut self) -> Result<(ServerUuid, String), DatabaseError> {
        let statement =
            Statement::reading("SELECT @@server_uuid AS server_uuid, @@GLOBAL.gtid_executed AS gtid_executed");
        self.read(statement, self.statement_timeout(), |answer| {
            let row = only_row(answer, 0)?;
            Ok((parsed(row, "server_uuid")?, column(row, "gtid_executed")?))
        })
        .await
    }

    async fn ping(&mut self) -> Result<(), DatabaseError> {
        let timeout = PING_TIMEOUT.min(self.statement_timeout());
        self.run_within(Statement::reading("SELECT 1"), timeout).await.map(drop)
    }

    async fn take_authority(&mut self) -> Result<AuthorityTaken, DatabaseError> {
        let deadline = Instant::now() + self.statement_timeout();
        let mut ended = None;
        loop {
            match self.try_authority().await? {
                (true, _) => return Ok(AuthorityTaken { ended }),
                (false, Some(holder)) if Instant::now() >= deadline => return Err(self.authority_held(holder)),
                (false, Some(holder)) => {
                    self.end_holder(holder, deadline).await?;
                    ended = Some(holder);
                }
                // It was given back between the two looks.
                (false, None) => {}
            }
        }
    }

    async fn release_authority(&mut self) -> Result<(), DatabaseError> {
        self.run(Statement::reading(format!("DO RELEASE_LOCK('{AUTHORITY_LOCK}')")))
            .await
            .map(drop)
    }

    async fn set_super_read_only(&mut self) -> Result<(), DatabaseError> {
        self.change("SET GLOBAL super_read_only = ON").await
    }

    async fn open_for_writes(&mut self) -> Result<(), DatabaseError> {
        self.change("SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF")
            .await
    }

    async fn application_sessions(&mut self) -> Result<Vec<ApplicationSession>, DatabaseError> {
        self.read(
            self.application_sessions_statement(),
            self.statement_timeout(),
            |answer| {
                answer
                    .first()
                    .map_or(&[][..], Vec::as_slice)
                    .iter()
                    .map(rows::application_session)
                    .collect()
            },
        )
        .await
    }

    async fn kill(&mut self, session: u64) -> Result<(), DatabaseError> {
        match self.change(&format!("KILL CONNECTION {session}")).await {
            Err(DatabaseError::Refused {
                code: NO_SUCH_THREAD, ..
            }) => Ok(()),
            outcome => outcome,
        }
    }

    async fn fence_blockers(&mut self, longer_than: Duration) -> Result<Vec<BlockingSession>, DatabaseError> {
        let statement = Statement::reading(format!("{STATEMENTS}; {LOCKS}"))
            .shown_as("SELECT what a fence would wait for FROM information_schema.processlist and metadata_locks");
        self.read(statement, self.statement_timeout(), |answer| {
            blockers::blockers(answer, longer_than)
        })
        .await
    }

    async fn wait_for_executed(&mut self, gtid_set: &str, timeout: Duration) -> Result<bool, DatabaseError> {
        // The server takes zero for no limit.
        let seconds = timeout.max(Duration::from_millis(1)).as_secs_f64();
        let statement = Statement::reading(format!(
            "SELECT WAIT_FOR_EXECUTED_GTID_SET({}, {seconds:.3}) AS timed_out",
            quoted(gtid_set)
        ));
        let limit = timeout + self.statement_timeout();
        let timed_out: bool = self
            .read(statement, limit, |answer| column(only_row(answer, 0)?, "timed_out"))
            .await?;
        Ok(!timed_out)
    }

    async fn stop_replica(&mut self) -> Result<(), DatabaseError> {
        self.change("STOP REPLICA").await
    }

    async fn reset_replica_all(&mut self) -> Result<(), DatabaseError> {
        self.change("RESET REPLICA ALL").await
    }

    async fn change_source(&mut self, source: &ReplicationSource) -> Result<(), DatabaseError> {
        match Host::parse(&source.host) {
            Ok(host) => self
                .run(Statement::change_source(&host, source.port, &self.connector.options))
                .await
                .map(drop),
            // As the server would, but nothing that is no host gets as far as a statement.
            Err(invalid) => Err(DatabaseError::Refused {
                site: self.connector.address.site.clone(),
                statement: "CHANGE REPLICATION SOURCE TO".to_owned(),
                code: 0,
                detail: invalid.to_string(),
            }),
        }
    }

    async fn start_replica(&mut self) -> Result<(), DatabaseError> {
        self.change("START REPLICA").await
    }

    async fn close(self) {
        let Self {
            connector,
            requests,
            task,
            ..
        } = self;
        drop(requests);
        // The task bounds its own leave-taking; this only keeps a caller from waiting for a runtime that is going down.
        drop(tokio::time::timeout(connector.options.connect_timeout * 2, task).await);
    }
}

fn identity(answer: &Answer) -> Result<SessionIdentity, Malformation> {
    let row = only_row(answer, answer.len().saturating_sub(1))?;
    if !column::<Option<bool>>(row, "locked")?.unwrap_or(false) {
        return Err("the session's own lock is not free".to_owned());
    }
    Ok(SessionIdentity {
        server_uuid: parsed(row, "server_uuid")?,
        connection_id: column(row, "connection_id")?,
        token: column(row, "token")?,
    })
}
