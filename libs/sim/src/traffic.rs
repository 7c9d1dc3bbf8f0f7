//! What a statement does when it reaches its server, how transactions travel, and what must never be.

use std::time::Duration;

use bloodraven_failover::claim::{self, Claim};
use bloodraven_ports::{AuthorityTaken, DatabaseError};
use bloodraven_types::{Phase, SiteName};

use crate::journal::Event;
use crate::server::{Link, Replica, Server};
use crate::statement::{Answer, Kind, Statement, no_answer, refused};
use crate::world::{Moment, Outcome, WorldState};

/// How long replication threads take to come up.
const THREADS: Duration = Duration::from_millis(5);

/// A statement on its way to a server.
pub(crate) struct Call {
    pub(crate) ticket: u64,
    pub(crate) site: SiteName,
    pub(crate) session: u64,
    pub(crate) statement: Statement,
    pub(crate) fate: Fate,
}

/// What becomes of it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out and answered.
    Answered,
    /// It is carried out; its answer is lost.
    Unanswered,
    /// It is refused.
    Refused(u16),
    /// It never arrives.
    Lost,
}

impl WorldState {
    /// A statement reaches its server.
    pub(crate) fn arrive(&mut self, call: Call) {
        let outcome = self.outcome(&call);
        if let Some(server) = self.servers.get_mut(&call.site) {
            let ended = server.sessions.get_mut(&call.session).is_some_and(|session| {
                session.pending = session.pending.saturating_sub(1);
                session.orphaned && !session.lingers && session.pending == 0
            });
            if ended {
                server.end_session(call.session);
            }
        }
        self.results.insert(call.ticket, outcome);
    }

    fn outcome(&mut self, call: &Call) -> Outcome {
        let kind = call.statement.kind();
        let site = &call.site;
        let Some(server) = self.servers.get(site) else {
            return Outcome::Silence;
        };
        match (server.link, call.fate) {
            (Link::Silent, _) | (Link::Up, Fate::Lost) => return Outcome::Silence,
            (Link::Refusing, _) => return Outcome::Call(Err(no_answer(site, kind, "the connection is broken"))),
            (Link::Up, Fate::Answered | Fate::Unanswered | Fate::Refused(_)) => {}
        }
        if !server.sessions.contains_key(&call.session) {
            // A session that was ended before its statement came has no effect any more, and that is known.
            let site = site.clone();
            return Outcome::Call(Err(if kind.changes() {
                DatabaseError::Killed {
                    site,
                    statement: kind.text().to_owned(),
                    timeout: Duration::ZERO,
                }
            } else {
                DatabaseError::Unreachable {
                    site,
                    detail: "the session was ended".to_owned(),
                }
            }));
        }
        self.fire(&Moment::Before(site.clone(), kind));
        let result = match call.fate {
            Fate::Refused(code) => Err(refused(site, kind, code, "as the test wants it")),
            Fate::Answered | Fate::Unanswered | Fate::Lost => self.execute(call, kind),
        };
        self.note(call, kind, result.is_ok());
        self.fire(&Moment::After(site.clone(), kind));
        self.judge_writers();
        if call.fate == Fate::Unanswered {
            Outcome::Silence
        } else {
            Outcome::Call(result)
        }
    }

    fn note(&mut self, call: &Call, kind: Kind, done: bool) {
        let phase = self.api.group().run().map(|run| run.phase);
        if done && kind.changes_role() && !self.is_announced(&call.site, kind) {
            self.violated(format_args!(
                "{} on \"{}\" in phase {phase:?}, which does not announce it",
                kind.text(),
                call.site
            ));
        }
        let event = Event::Statement {
            site: call.site.clone(),
            session: call.session,
            kind,
            done,
            phase,
        };
        self.journal.push(self.now, event);
    }

    /// No two servers take writes at a time: the target never before the source's fence.
    pub(crate) fn judge_writers(&mut self) {
        let writers: Vec<&str> = self
            .servers
            .values()
            .filter(|server| !server.super_read_only)
            .map(|server| server.site.as_str())
            .collect();
        if writers.len() > self.expected_writers {
            let writers = writers.join(", ");
            self.violated(format_args!("more than one site takes writes: {writers}"));
        }
    }

    /// Whether the object as committed announces such a statement there.
    fn is_announced(&self, site: &SiteName, kind: Kind) -> bool {
        let group = self.api.group();
        let unclaimed = claim::holder(group) == Claim::Free;
        let at_source = |phase| {
            let run = group.run().filter(|run| run.phase == phase);
            run.is_some_and(|run| run.source_site.as_ref() == Some(site))
        };
        let at_target = |phase| {
            let run = group.run().filter(|run| run.phase == phase);
            run.is_some_and(|run| run.target_site == *site)
        };
        match kind {
            Kind::SetSuperReadOnly => at_source(Phase::Fencing) || at_target(Phase::RollingBack),
            Kind::OpenForWrites => at_target(Phase::Promoting) || at_source(Phase::RollingBack),
            Kind::ResetReplicaAll => at_target(Phase::Promoting),
            Kind::StopReplica => at_target(Phase::Promoting) || unclaimed,
            Kind::ChangeSource | Kind::StartReplica => at_target(Phase::RollingBack) || unclaimed,
            Kind::Open
            | Kind::Observe
            | Kind::Executed
            | Kind::TakeAuthority
            | Kind::ReleaseAuthority
            | Kind::ApplicationSessions
            | Kind::Kill
            | Kind::FenceBlockers
            | Kind::WaitForExecuted => true,
        }
    }

    fn execute(&mut self, call: &Call, kind: Kind) -> Result<Answer, DatabaseError> {
        let now = self.now;
        if kind.changes() {
            self.next_arrival = Duration::ZERO;
        }
        let connected = self.connected(&call.site);
        let Some(server) = self.servers.get_mut(&call.site) else {
            return Err(no_answer(&call.site, kind, "there is no such server"));
        };
        let refuse = |code, detail| Err(refused(&call.site, kind, code, detail));
        match &call.statement {
            Statement::Observe => {
                return Ok(Answer::Observation(Box::new(server.observation(now, &connected))));
            }
            Statement::Executed | Statement::WaitForExecuted => {
                return Ok(Answer::Executed(server.uuid, server.set_as_told()));
            }
            Statement::TakeAuthority => return take_authority(server, call),
            Statement::ReleaseAuthority => {
                server.authority = server.authority.filter(|holder| *holder != call.session);
            }
            Statement::SetSuperReadOnly => server.fence(),
            Statement::OpenForWrites => server.open(),
            Statement::ApplicationSessions => {
                let sessions = server.applications.iter().map(|one| one.session.clone());
                return Ok(Answer::Applications(sessions.collect()));
            }
            Statement::Kill(id) => {
                if server
                    .applications
                    .iter()
                    .any(|one| one.session.id == *id && !one.killable)
                {
                    return refuse(1095, "the session belongs to somebody with more rights");
                }
                server.applications.retain(|one| one.session.id != *id);
                server.end_session(*id);
            }
            Statement::FenceBlockers(longer_than) => {
                let blockers = server.blockers.iter().cloned();
                let long = blockers.filter(|one| one.seconds >= longer_than.as_secs());
                return Ok(Answer::Blockers(long.collect()));
            }
            Statement::StopReplica => server.channels.iter_mut().for_each(Replica::stop),
            Statement::ResetReplicaAll if server.channels.iter().any(|one| one.io_started || one.sql_started) => {
                return refuse(3081, "the replication threads run");
            }
            Statement::ResetReplicaAll => server.channels.clear(),
            Statement::ChangeSource(_) if server.channels.iter().any(|one| one.io_started || one.sql_started) => {
                return refuse(3021, "the replication threads run");
            }
            Statement::ChangeSource(source) => {
                let lag = server.channels.first().map_or(Duration::from_millis(5), |one| one.lag);
                let mut channel = Replica::running((source.host.clone(), source.port), lag);
                channel.stop();
                server.channels = vec![channel];
            }
            Statement::StartReplica if server.channels.is_empty() => {
                return refuse(1200, "the server is no replica");
            }
            Statement::StartReplica => server.channels.iter_mut().for_each(|one| one.start(now + THREADS)),
        }
        Ok(Answer::Done)
    }

    /// Of each channel of a site, whether its source can be reached.
    fn connected(&self, site: &SiteName) -> Vec<bool> {
        let channels = self.servers.get(site).map_or(&[][..], |server| &server.channels);
        let reached = channels
            .iter()
            .map(|channel| self.source_of(channel).is_some_and(|source| source.link == Link::Up));
        reached.collect()
    }

    fn source_of(&self, channel: &Replica) -> Option<&Server> {
        self.servers.values().find(|server| server.address == channel.source)
    }

    /// Transactions travel along the running channels, also over several servers.
    pub(crate) fn replicate(&mut self) {
        let sites: Vec<SiteName> = self
            .servers
            .values()
            .filter(|server| !server.channels.is_empty())
            .map(|server| server.site.clone())
            .collect();
        loop {
            let mut moved = false;
            for site in &sites {
                moved |= self.replicate_to(site);
            }
            if !moved {
                break;
            }
        }
        self.next_arrival = self.upcoming();
    }

    /// When the next transaction arrives, or the next thread comes up, if nothing changes before.
    fn upcoming(&self) -> Duration {
        let channels = self.servers.values().flat_map(|server| &server.channels);
        let arrivals = channels.filter_map(|channel| {
            let next = self.source_of(channel)?.commits.get(channel.position)?;
            // One that is due and did not move waits for a change of the world, which asks again.
            let at = (next.at + channel.lag).max(channel.up_at);
            (at > self.now).then_some(at)
        });
        arrivals.min().unwrap_or(Duration::MAX)
    }

    fn replicate_to(&mut self, site: &SiteName) -> bool {
        let now = self.now;
        let Some(server) = self.servers.get(site) else {
            return false;
        };
        let mut news = Vec::new();
        let mut seen = Vec::new();
        for channel in &server.channels {
            let source = self.source_of(channel).filter(|source| source.link == Link::Up);
            let Some(source) = source.filter(|_| channel.transfers(now >= channel.up_at)) else {
                seen.push((channel.position, channel.source_uuid));
                continue;
            };
            let due = source.commits.iter().skip(channel.position);
            let due: Vec<_> = due.take_while(|commit| commit.at + channel.lag <= now).collect();
            seen.push((channel.position + due.len(), Some(source.uuid)));
            news.extend(
                due.iter()
                    .map(|commit| commit.transaction)
                    .filter(|one| !server.has(*one)),
            );
        }
        let Some(server) = self.servers.get_mut(site) else {
            return false;
        };
        for (channel, (position, source_uuid)) in server.channels.iter_mut().zip(seen) {
            channel.position = position;
            channel.source_uuid = source_uuid;
        }
        let moved = !news.is_empty();
        for transaction in news {
            if !server.has(transaction) {
                server.apply(transaction, now);
            }
        }
        moved
    }
}

/// Whoever held the lock is ended for it, with whatever that session was about to do.
fn take_authority(server: &mut Server, call: &Call) -> Result<Answer, DatabaseError> {
    let holder = server.authority.filter(|holder| *holder != call.session);
    if let Some(holder) = holder {
        if !server.authority_can_be_ended {
            return Err(DatabaseError::AuthorityHeld {
                site: call.site.clone(),
                holder,
            });
        }
        server.end_session(holder);
    }
    server.authority = Some(call.session);
    Ok(Answer::Taken(AuthorityTaken { ended: holder }))
}
