//! The world: every server, the API server, the bus and publication in one place, moved on together in virtual time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bloodraven_executor::{Hands, Sessions};
use bloodraven_types::{Group, GroupKey, SiteName, Timestamp};

use crate::api::{ApiServer, Request};
use crate::bus::{Post, SimBus};
use crate::clock::SimClock;
use crate::database::SimDatabase;
use crate::journal::{Event, Journal};
use crate::publication::{Published, SimPublication};
use crate::random::Random;
use crate::server::{Server, Transaction};
use crate::statement::{Answer, Fault, Kind, Rule};
use crate::store::SimStore;
use crate::time::{Stalled, VirtualTime};
use crate::traffic::Call;

/// The longest story that a test tells, in virtual time.
const LIMIT: Duration = Duration::from_secs(4 * 3600);

/// The procedures' hands in a world.
pub type SimHands = Hands<SimDatabase, SimStore, SimClock>;

/// A moment that something else can be made to happen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Just before a statement has its effect on a site.
    Before(SiteName, Kind),
    /// Just after.
    After(SiteName, Kind),
    /// Just before a write of the record keeper reaches the object.
    BeforeWrite,
    /// Just after one was committed.
    AfterWrite,
}

type Action = Box<dyn FnOnce(&mut WorldState) + Send>;

struct Hook {
    moment: Moment,
    skip: u32,
    action: Option<Action>,
}

/// A handle on a world. Clones share it.
#[derive(Clone)]
pub struct World {
    /// Its time.
    pub time: VirtualTime,
    state: Arc<Mutex<WorldState>>,
}

/// Everything there is.
pub struct WorldState {
    /// What happened.
    pub journal: Journal,
    /// The servers by site.
    pub servers: BTreeMap<SiteName, Server>,
    /// The API server.
    pub api: ApiServer,
    /// The bus.
    pub post: Post,
    /// Labels and DNS.
    pub published: Published,
    /// How many sites may take writes at a time; more are a violation. A test that sets up more raises it.
    pub expected_writers: usize,
    /// In thousandths: how often a server does not notice that a client is gone.
    pub lingering: u64,
    /// The wall clock at the beginning.
    pub(crate) began: Timestamp,
    pub(crate) random: Random,
    pub(crate) now: Duration,
    pub(crate) results: BTreeMap<u64, Outcome>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) next_session: u64,
    pending: BTreeMap<(Duration, u64), Arrival>,
    sequence: u64,
    /// When the next transaction arrives somewhere; zero when that is to be found out anew.
    pub(crate) next_arrival: Duration,
    hooks: Vec<Hook>,
    violations: Vec<String>,
}

/// Something under way.
pub(crate) enum Arrival {
    Call(Call),
    Request(Request),
}

/// What came of it.
pub(crate) enum Outcome {
    Call(Result<Answer, bloodraven_ports::DatabaseError>),
    /// It met a server that does not answer.
    Silence,
    Request(Result<Box<Group>, bloodraven_ports::StoreError>),
}

impl World {
    /// A world with a group and its servers.
    pub fn new(seed: u64, group: Group, servers: Vec<Server>) -> Self {
        let mut random = Random::new(seed);
        let post = Post::new(random.fork());
        let state = WorldState {
            journal: Journal::default(),
            servers: servers
                .into_iter()
                .map(|server| (server.site.clone(), server))
                .collect(),
            api: ApiServer::new(group),
            post,
            published: Published::default(),
            expected_writers: 1,
            lingering: 0,
            began: Timestamp::from_unix_seconds(1_776_000_000),
            random,
            now: Duration::ZERO,
            results: BTreeMap::new(),
            rules: Vec::new(),
            next_session: 1,
            pending: BTreeMap::new(),
            sequence: 0,
            next_arrival: Duration::ZERO,
            hooks: Vec::new(),
            violations: Vec::new(),
        };
        Self {
            time: VirtualTime::default(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Lets the future run in this world until it is done.
    ///
    /// # Errors
    /// When it waits for something that nobody will do, or for hours.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> Result<T, Stalled> {
        self.time.run(LIMIT, future)
    }

    /// The world as it is now, to look at or to change.
    pub fn state(&self) -> MutexGuard<'_, WorldState> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.advance(self.time.now());
        state
    }

    /// The databases of this world.
    pub fn database(&self) -> SimDatabase {
        SimDatabase::new(self.clone())
    }

    /// The API server of this world.
    pub fn store(&self) -> SimStore {
        SimStore::new(self.clone())
    }

    /// The bus of this world.
    pub fn bus(&self) -> SimBus {
        SimBus::new(self.clone())
    }

    /// Labels and DNS of this world.
    pub fn publication(&self) -> SimPublication {
        SimPublication::new(self.clone())
    }

    /// The clock of this world.
    pub fn clock(&self) -> SimClock {
        SimClock::new(self.clone())
    }

    /// The hands of a new process: no session is open yet.
    pub fn hands(&self) -> SimHands {
        Hands {
            sessions: Sessions::new(self.database()),
            store: self.store(),
            clock: self.clock(),
        }
    }

    /// The group's key.
    pub fn key(&self) -> GroupKey {
        self.state().api.key().clone()
    }

    /// The object as the API server has it.
    pub fn group(&self) -> Group {
        self.state().api.group().clone()
    }

    /// What happened so far.
    pub fn journal(&self) -> Journal {
        self.state().journal.clone()
    }

    /// Lets something happen at the next such moment.
    pub fn at(&self, moment: Moment, action: impl FnOnce(&mut WorldState) + Send + 'static) {
        self.at_later(moment, 0, action);
    }

    /// Lets something happen at such a moment, once as many have passed.
    pub fn at_later(&self, moment: Moment, skip: u32, action: impl FnOnce(&mut WorldState) + Send + 'static) {
        self.state().hooks.push(Hook {
            moment,
            skip,
            action: Some(Box::new(action)),
        });
    }

    /// The next statement of that kind on the site goes wrong.
    pub fn fault(&self, site: &str, kind: Kind, fault: Fault) {
        self.faults(site, Some(kind), 0, 1, fault);
    }

    /// Statements on the site go wrong: `times` of them, after `skip` have passed; of one kind or of any.
    pub fn faults(&self, site: &str, kind: Option<Kind>, skip: u32, times: u32, fault: Fault) {
        self.state().rules.push(Rule {
            site: SiteName::new(site),
            kind,
            skip,
            times,
            fault,
        });
    }

    /// No statement on the site goes wrong any more.
    pub fn heal(&self, site: &str) {
        self.state().rules.retain(|rule| rule.site.as_str() != site);
    }

    /// What must never be and was, with the time of it. Empty in a sound world.
    pub fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }
}

impl WorldState {
    /// The server of a site.
    pub fn server(&mut self, site: &str) -> Option<&mut Server> {
        self.next_arrival = Duration::ZERO;
        self.servers.get_mut(&SiteName::new(site))
    }

    /// Changes the server of a site.
    pub fn change(&mut self, site: &str, change: impl FnOnce(&mut Server)) {
        if let Some(server) = self.server(site) {
            change(server);
        }
    }

    /// A transaction on a site, whatever its flags say: the work of replication from elsewhere, or of an administrator.
    pub fn commit(&mut self, site: &str) -> Option<Transaction> {
        let now = self.now;
        self.server(site).map(|server| server.commit(now))
    }

    /// A client writes. It is told of its commit, or refused.
    pub fn client_write(&mut self, site: &SiteName) -> Option<Transaction> {
        let now = self.now;
        self.next_arrival = Duration::ZERO;
        let server = self.servers.get_mut(site).filter(|server| server.serves_writes())?;
        let transaction = server.commit(now);
        self.journal.push(now, Event::Acknowledged(site.clone(), transaction));
        Some(transaction)
    }

    /// Which moment of the world it is.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// A random choice of the world.
    pub const fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Notes something that must never be.
    pub(crate) fn violated(&mut self, what: impl fmt::Display) {
        self.violations.push(format!("{:?}: {what}", self.now));
    }

    /// Puts something under way and says how its outcome is found.
    pub(crate) fn schedule(&mut self, at: Duration, arrival: impl FnOnce(u64) -> Arrival) -> u64 {
        self.sequence += 1;
        let ticket = self.sequence;
        self.pending.insert((at, ticket), arrival(ticket));
        ticket
    }

    /// Lets everything happen that is due by now, in order.
    pub(crate) fn advance(&mut self, now: Duration) {
        loop {
            let due = self
                .pending
                .first_key_value()
                .map(|(key, _)| *key)
                .filter(|(at, _)| *at <= now);
            let Some((key, arrival)) = due.and_then(|key| self.pending.remove(&key).map(|arrival| (key, arrival)))
            else {
                break;
            };
            self.pass_to(key.0);
            match arrival {
                Arrival::Call(call) => self.arrive(call),
                Arrival::Request(request) => self.receive(request),
            }
        }
        self.pass_to(now);
    }

    /// Moves to a moment, with the transactions that travelled meanwhile.
    fn pass_to(&mut self, moment: Duration) {
        self.now = self.now.max(moment);
        if self.next_arrival <= self.now {
            self.replicate();
        }
    }

    /// Runs what waits for this moment.
    pub(crate) fn fire(&mut self, moment: &Moment) {
        let mut due = Vec::new();
        for hook in &mut self.hooks {
            if hook.moment != *moment {
                continue;
            }
            if hook.skip > 0 {
                hook.skip -= 1;
            } else {
                due.extend(hook.action.take());
            }
        }
        self.hooks.retain(|hook| hook.action.is_some());
        due.into_iter().for_each(|action| action(self));
    }
}
