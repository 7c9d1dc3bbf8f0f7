//! One database server: its flags, its transactions, its channel, its sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_gtid::GtidSet;
use bloodraven_ports::{ApplicationSession, BlockingSession, Channel, ServerObservation};
use bloodraven_types::{ServerUuid, SiteName};

/// How a server is reached by the controllers and by its replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// It answers.
    #[default]
    Up,
    /// Nobody listens: a new session is refused at once, an old one is broken.
    Refusing,
    /// Nothing comes back.
    Silent,
}

/// One committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transaction {
    /// The server that it began on.
    pub origin: ServerUuid,
    /// Its number there.
    pub number: u64,
}

/// A transaction as one server has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    pub(crate) transaction: Transaction,
    pub(crate) at: Duration,
}

/// A replication channel.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Its name; empty for the default one.
    pub name: String,
    /// The configured source, host and port.
    pub source: (String, u16),
    /// The source as it was seen.
    pub source_uuid: Option<ServerUuid>,
    /// Whether the IO thread is started.
    pub io_started: bool,
    /// Whether the applier is started.
    pub sql_started: bool,
    /// From when on the threads are up.
    pub up_at: Duration,
    /// How long after its commit on the source a transaction is applied here.
    pub lag: Duration,
    /// The IO thread's error; it does not run with one.
    pub io_error: Option<String>,
    /// The applier's error; it does not run with one.
    pub sql_error: Option<String>,
    /// How many of the source's transactions have been looked at.
    pub(crate) position: usize,
}

/// A session of an application.
#[derive(Clone, Debug)]
pub struct Application {
    /// What the server lists.
    pub session: ApplicationSession,
    /// Whether the controllers may end it.
    pub killable: bool,
}

/// A session of a controller, as the server knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerSession {
    /// The client is gone.
    pub(crate) orphaned: bool,
    /// The server does not notice that: the session stays until it is killed.
    pub(crate) lingers: bool,
    /// Statements that are on their way or running.
    pub(crate) pending: u32,
}

/// A database server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The site that it stands at.
    pub site: SiteName,
    /// Its address, host and port.
    pub address: (String, u16),
    /// Which server it is.
    pub uuid: ServerUuid,
    /// `read_only`.
    pub read_only: bool,
    /// `super_read_only`.
    pub super_read_only: bool,
    /// `offline_mode`.
    pub offline_mode: bool,
    /// What stands for the set in its answers, in place of the truth.
    pub told_set: Option<String>,
    /// Its channels.
    pub channels: Vec<Replica>,
    /// Sessions of applications.
    pub applications: Vec<Application>,
    /// What a fence would wait for.
    pub blockers: Vec<BlockingSession>,
    /// How it is reached.
    pub link: Link,
    /// Whether the session that holds the authority lock can be ended.
    pub authority_can_be_ended: bool,
    /// A transaction that was committed before the world began has no place in the list of commits.
    pub(crate) executed: GtidSet,
    pub(crate) commits: Vec<Committed>,
    pub(crate) sessions: BTreeMap<u64, ServerSession>,
    pub(crate) authority: Option<u64>,
    next_number: u64,
}

impl Server {
    /// A writable server without sessions, transactions or channels.
    pub fn new(site: SiteName, address: (String, u16), uuid: ServerUuid) -> Self {
        Self {
            site,
            address,
            uuid,
            read_only: false,
            super_read_only: false,
            offline_mode: false,
            told_set: None,
            channels: Vec::new(),
            applications: Vec::new(),
            blockers: Vec::new(),
            link: Link::Up,
            authority_can_be_ended: true,
            executed: GtidSet::new(),
            commits: Vec::new(),
            sessions: BTreeMap::new(),
            authority: None,
            next_number: 1,
        }
    }

    /// Sets both flags, as `super_read_only` does.
    pub fn fence(&mut self) {
        self.read_only = true;
        self.super_read_only = true;
    }

    /// Clears both flags.
    pub fn open(&mut self) {
        self.read_only = false;
        self.super_read_only = false;
    }

    /// What it has executed.
    pub const fn executed(&self) -> &GtidSet {
        &self.executed
    }

    /// Whether it has executed the transaction.
    pub fn has(&self, transaction: Transaction) -> bool {
        self.executed
            .contains_gtid(transaction.origin.as_uuid(), None, transaction.number)
    }

    /// Whether applications can write.
    pub const fn serves_writes(&self) -> bool {
        !self.read_only && !self.super_read_only && !self.offline_mode
    }

    /// Commits a transaction of its own, whatever its flags say.
    pub fn commit(&mut self, at: Duration) -> Transaction {
        let transaction = Transaction {
            origin: self.uuid,
            number: self.next_number,
        };
        self.apply(transaction, at);
        transaction
    }

    /// Applies a transaction of another server, or one of its own.
    pub fn apply(&mut self, transaction: Transaction, at: Duration) {
        let number = transaction.number;
        // A number below one is no transaction; there is none in any world.
        if self
            .executed
            .insert_interval(transaction.origin.as_uuid(), None, number, number)
            .is_ok()
        {
            self.commits.push(Committed { transaction, at });
        }
        if transaction.origin == self.uuid {
            self.next_number = self.next_number.max(number + 1);
        }
    }

    /// Gives it transactions from before the world began.
    pub fn preload(&mut self, origin: ServerUuid, up_to: u64) {
        // No interval below one is asked for.
        let _ = self.executed.insert_interval(origin.as_uuid(), None, 1, up_to);
        if origin == self.uuid {
            self.next_number = self.next_number.max(up_to + 1);
        }
    }

    /// Makes it another server at the same address: a clone, or a restored backup. Its sessions are gone.
    pub fn replace(&mut self, uuid: ServerUuid) {
        self.uuid = uuid;
        self.next_number = 1;
        self.disconnect();
    }

    /// Starts it again as it boots: read-only, with its channels started and without sessions.
    pub fn restart(&mut self, at: Duration) {
        self.fence();
        self.disconnect();
        for channel in &mut self.channels {
            channel.io_started = true;
            channel.sql_started = true;
            channel.up_at = at;
        }
    }

    /// Ends every session of the controllers.
    pub fn disconnect(&mut self) {
        self.sessions.clear();
        self.authority = None;
    }

    /// Ends one session; the locks that it holds go with it.
    pub(crate) fn end_session(&mut self, id: u64) {
        self.sessions.remove(&id);
        if self.authority == Some(id) {
            self.authority = None;
        }
    }

    /// The answer to a look at everything. `connected` says of each channel whether its source can be reached.
    pub(crate) fn observation(&self, now: Duration, connected: &[bool]) -> ServerObservation {
        let channels = self
            .channels
            .iter()
            .zip(connected)
            .map(|(channel, connected)| channel.shown(now, *connected))
            .collect();
        ServerObservation {
            server_uuid: self.uuid,
            read_only: self.read_only,
            super_read_only: self.super_read_only,
            offline_mode: self.offline_mode,
            gtid_executed: self.set_as_told(),
            channels,
        }
    }

    pub(crate) fn set_as_told(&self) -> String {
        self.told_set.clone().unwrap_or_else(|| self.executed.to_string())
    }
}

impl Replica {
    /// A running channel from that source.
    pub fn running(source: (String, u16), lag: Duration) -> Self {
        Self {
            name: String::new(),
            source,
            source_uuid: None,
            io_started: true,
            sql_started: true,
            up_at: Duration::ZERO,
            lag,
            io_error: None,
            sql_error: None,
            position: 0,
        }
    }

    /// Starts both threads; they are up at `at`.
    pub fn start(&mut self, at: Duration) {
        self.io_started = true;
        self.sql_started = true;
        self.up_at = at;
    }

    /// Stops both threads.
    pub const fn stop(&mut self) {
        self.io_started = false;
        self.sql_started = false;
    }

    pub(crate) const fn transfers(&self, now_reached: bool) -> bool {
        now_reached && self.io_started && self.sql_started && self.io_error.is_none() && self.sql_error.is_none()
    }

    fn shown(&self, now: Duration, connected: bool) -> Channel {
        let up = now >= self.up_at;
        Channel {
            name: self.name.clone(),
            source_host: self.source.0.clone(),
            source_port: self.source.1,
            source_uuid: self.source_uuid,
            io_running: up && connected && self.io_started && self.io_error.is_none(),
            sql_running: up && self.sql_started && self.sql_error.is_none(),
            io_error: self.io_error.clone(),
            sql_error: self.sql_error.clone(),
            delay_seconds: 0,
            retrieved_gtid_set: String::new(),
            seconds_behind_source: connected.then_some(self.lag.as_secs()),
        }
    }
}
