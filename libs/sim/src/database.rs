//! The database port over the world's servers.

use std::time::Duration;

use bloodraven_gtid::GtidSet;
use bloodraven_ports::{
    ApplicationSession, AuthorityTaken, BlockingSession, Database, DatabaseError, DatabaseSession, ReplicationSource,
    ServerAddress, ServerObservation,
};
use bloodraven_types::{ServerUuid, SiteName};

use crate::server::{Link, ServerSession};
use crate::statement::{Answer, Applied, Fault, Kind, Statement, no_answer, refused};
use crate::traffic::{Call, Fate};
use crate::world::{Arrival, Outcome, World, WorldState};

/// How long a connection may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a statement may take.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// One way of a message between a controller and a server.
const TRAVEL: std::ops::RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_micros(900);
/// Between two looks of a wait inside the server.
const LOOK: Duration = Duration::from_millis(10);

/// The servers of a world.
#[derive(Clone)]
pub struct SimDatabase(World);

/// One pinned session.
pub struct SimSession {
    world: World,
    address: ServerAddress,
    site: SiteName,
    id: u64,
    broken: bool,
}

/// A statement that was sent.
struct Sent {
    ticket: u64,
    reply_at: Duration,
    fault: Option<Fault>,
}

impl SimDatabase {
    pub(crate) const fn new(world: World) -> Self {
        Self(world)
    }
}

impl Database for SimDatabase {
    type Session = SimSession;

    async fn open(&self, address: &ServerAddress) -> Result<SimSession, DatabaseError> {
        let sent = self.0.time.now();
        let travel = self.0.state().random.duration(&TRAVEL);
        self.0.time.sleep(travel).await;
        let unreachable = |detail: &str| DatabaseError::Unreachable {
            site: address.site.clone(),
            detail: detail.to_owned(),
        };
        let opened = {
            let mut state = self.0.state();
            state.connect(address)
        };
        match opened {
            Ok((site, id)) => {
                // From here on a caller that goes away leaves a session behind, as it does in the real world.
                let session = SimSession {
                    world: self.0.clone(),
                    address: address.clone(),
                    site,
                    id,
                    broken: false,
                };
                self.0.time.sleep(travel).await;
                Ok(session)
            }
            Err(Some(error)) => Err(error),
            Err(None) => {
                self.0.time.sleep_until(sent + CONNECT_TIMEOUT).await;
                Err(unreachable("no answer"))
            }
        }
    }
}

impl WorldState {
    /// A new session, an error, or nothing at all.
    fn connect(&mut self, address: &ServerAddress) -> Result<(SiteName, u64), Option<DatabaseError>> {
        let wanted = (address.host.clone(), address.port);
        let found = self.servers.values().find(|server| server.address == wanted);
        let Some((site, link)) = found.map(|server| (server.site.clone(), server.link)) else {
            return Err(None);
        };
        match (self.strike(&site, Kind::Open), link) {
            (Some(Fault::Refuse(code)), Link::Up) => {
                return Err(Some(refused(&site, Kind::Open, code, "as the test wants it")));
            }
            (Some(Fault::Slow(_)) | None, Link::Up) => {}
            (Some(_), Link::Up) | (_, Link::Silent) => return Err(None),
            (_, Link::Refusing) => return Err(Some(no_answer(&site, Kind::Open, "connection refused"))),
        }
        let id = self.next_session;
        self.next_session += 1;
        if let Some(server) = self.servers.get_mut(&site) {
            server.sessions.insert(id, ServerSession::default());
        }
        Ok((site, id))
    }

    fn strike(&mut self, site: &SiteName, kind: Kind) -> Option<Fault> {
        self.rules.iter_mut().find_map(|rule| rule.strike(site, kind))
    }

    /// Puts a statement on its way.
    fn send(&mut self, site: &SiteName, session: u64, statement: Statement) -> Sent {
        let fault = self.strike(site, statement.kind());
        let travel = self.random.duration(&TRAVEL);
        let mut at = self.now + travel;
        let fate = match &fault {
            None => Fate::Answered,
            Some(Fault::Refuse(code)) => Fate::Refused(*code),
            Some(Fault::Slow(extra)) => {
                at += *extra;
                Fate::Answered
            }
            Some(Fault::Killed { applied: true } | Fault::Unsettled(Applied::Before)) => Fate::Unanswered,
            Some(Fault::Killed { applied: false } | Fault::Unsettled(Applied::Never) | Fault::Unreachable) => {
                Fate::Lost
            }
            Some(Fault::Unsettled(Applied::Later(delay))) => {
                at += STATEMENT_TIMEOUT + *delay;
                Fate::Unanswered
            }
        };
        if let Some(session) = self
            .servers
            .get_mut(site)
            .and_then(|one| one.sessions.get_mut(&session))
        {
            session.pending += 1;
        }
        let ticket = self.schedule(at, |ticket| {
            Arrival::Call(Call {
                ticket,
                site: site.clone(),
                session,
                statement,
                fate,
            })
        });
        Sent {
            ticket,
            reply_at: at + travel,
            fault,
        }
    }

    fn orphan(&mut self, site: &SiteName, id: u64) {
        let lingering = self.lingering;
        let lingers = lingering > 0 && self.random.chance(lingering);
        let Some(server) = self.servers.get_mut(site) else {
            return;
        };
        let Some(session) = server.sessions.get_mut(&id) else {
            return;
        };
        session.orphaned = true;
        session.lingers = lingers;
        if !lingers && session.pending == 0 {
            server.end_session(id);
        }
    }
}

impl SimSession {
    async fn call(&mut self, statement: Statement) -> Result<Answer, DatabaseError> {
        let kind = statement.kind();
        if self.broken {
            return Err(DatabaseError::Unreachable {
                site: self.site.clone(),
                detail: "the session has ended".to_owned(),
            });
        }
        let began = self.world.time.now();
        let sent = self.world.state().send(&self.site, self.id, statement);
        let give_up = began + STATEMENT_TIMEOUT;
        self.world.time.sleep_until(sent.reply_at.min(give_up)).await;
        let outcome = self.world.state().results.remove(&sent.ticket);
        match outcome {
            Some(Outcome::Call(Ok(answer))) => Ok(answer),
            Some(Outcome::Call(Err(error))) => {
                self.broken = error.is_no_answer();
                Err(error)
            }
            Some(Outcome::Silence | Outcome::Request(_)) | None => {
                self.broken = true;
                Err(self.timed_out(kind, &sent, give_up).await)
            }
        }
    }

    /// No answer came in time: what is known then depends on whether the session could be killed.
    async fn timed_out(&self, kind: Kind, sent: &Sent, give_up: Duration) -> DatabaseError {
        if sent.fault != Some(Fault::Unreachable) {
            self.world.time.sleep_until(give_up).await;
        }
        let unsettled = matches!(sent.fault, Some(Fault::Unsettled(_)));
        let mut state = self.world.state();
        state.results.remove(&sent.ticket);
        let reachable = state
            .servers
            .get(&self.site)
            .is_some_and(|server| server.link == Link::Up);
        let detail = "no answer in time";
        if !reachable || unsettled || sent.fault == Some(Fault::Unreachable) {
            return no_answer(&self.site, kind, detail);
        }
        // Killed by its id from another connection and seen gone: whatever is still on its way has no session any more.
        if let Some(server) = state.servers.get_mut(&self.site) {
            server.end_session(self.id);
        }
        DatabaseError::Killed {
            site: self.site.clone(),
            statement: kind.text().to_owned(),
            timeout: STATEMENT_TIMEOUT,
        }
    }

    async fn done(&mut self, statement: Statement) -> Result<(), DatabaseError> {
        self.call(statement).await.map(drop)
    }

    fn unexpected(&self, kind: Kind) -> DatabaseError {
        DatabaseError::Malformed {
            site: self.site.clone(),
            statement: kind.text().to_owned(),
            detail: "an answer of another form".to_owned(),
        }
    }
}

impl Drop for SimSession {
    fn drop(&mut self) {
        self.world.state().orphan(&self.site, self.id);
    }
}

impl DatabaseSession for SimSession {
    fn address(&self) -> &ServerAddress {
        &self.address
    }

    async fn observe(&mut self) -> Result<ServerObservation, DatabaseError> {
        let answer = self.call(Statement::Observe).await?;
        let Answer::Observation(observation) = answer else {
            return Err(self.unexpected(Kind::Observe));
        };
        Ok(*observation)
    }

    async fn executed(&mut self) -> Result<(ServerUuid, String), DatabaseError> {
        let answer = self.call(Statement::Executed).await?;
        let Answer::Executed(uuid, set) = answer else {
            return Err(self.unexpected(Kind::Executed));
        };
        Ok((uuid, set))
    }

    async fn take_authority(&mut self) -> Result<AuthorityTaken, DatabaseError> {
        let answer = self.call(Statement::TakeAuthority).await?;
        let Answer::Taken(taken) = answer else {
            return Err(self.unexpected(Kind::TakeAuthority));
        };
        Ok(taken)
    }

    async fn release_authority(&mut self) -> Result<(), DatabaseError> {
        self.done(Statement::ReleaseAuthority).await
    }

    async fn set_super_read_only(&mut self) -> Result<(), DatabaseError> {
        self.done(Statement::SetSuperReadOnly).await
    }

    async fn open_for_writes(&mut self) -> Result<(), DatabaseError> {
        self.done(Statement::OpenForWrites).await
    }

    async fn application_sessions(&mut self) -> Result<Vec<ApplicationSession>, DatabaseError> {
        let answer = self.call(Statement::ApplicationSessions).await?;
        let Answer::Applications(sessions) = answer else {
            return Err(self.unexpected(Kind::ApplicationSessions));
        };
        Ok(sessions)
    }

    async fn kill(&mut self, session: u64) -> Result<(), DatabaseError> {
        self.done(Statement::Kill(session)).await
    }

    async fn fence_blockers(&mut self, longer_than: Duration) -> Result<Vec<BlockingSession>, DatabaseError> {
        let answer = self.call(Statement::FenceBlockers(longer_than)).await?;
        let Answer::Blockers(blockers) = answer else {
            return Err(self.unexpected(Kind::FenceBlockers));
        };
        Ok(blockers)
    }

    async fn wait_for_executed(&mut self, gtid_set: &str, timeout: Duration) -> Result<bool, DatabaseError> {
        let Ok(wanted) = gtid_set.parse::<GtidSet>() else {
            return Err(refused(&self.site, Kind::WaitForExecuted, 1772, "malformed GTID set"));
        };
        let end = self.world.time.now() + timeout;
        self.done(Statement::WaitForExecuted).await?;
        loop {
            let (gone, applied) = {
                let state = self.world.state();
                let server = state.servers.get(&self.site);
                let gone = server.is_none_or(|one| one.link != Link::Up || !one.sessions.contains_key(&self.id));
                (gone, server.is_some_and(|one| one.executed().contains(&wanted)))
            };
            if gone {
                self.broken = true;
                return Err(no_answer(&self.site, Kind::WaitForExecuted, "the connection is broken"));
            }
            let now = self.world.time.now();
            if applied || now >= end {
                return Ok(applied);
            }
            self.world.time.sleep(LOOK.min(end.saturating_sub(now))).await;
        }
    }

    async fn stop_replica(&mut self) -> Result<(), DatabaseError> {
        self.done(Statement::StopReplica).await
    }

    async fn reset_replica_all(&mut self) -> Result<(), DatabaseError> {
        self.done(Statement::ResetReplicaAll).await
    }

    async fn change_source(&mut self, source: &ReplicationSource) -> Result<(), DatabaseError> {
        self.done(Statement::ChangeSource(source.clone())).await
    }

    async fn start_replica(&mut self) -> Result<(), DatabaseError> {
        self.done(Statement::StartReplica).await
    }

    async fn close(self) {}
}
