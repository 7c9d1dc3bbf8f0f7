//! Settings: a group with its servers as a story begins, and the shortest way to a phase of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_failover::planned::{AdmissionFact, CatchUpFact, DrainFact, FenceFact};
use bloodraven_failover::{Input, Verdict, Write, commands, step};
use bloodraven_types::fact::{CaughtUp, Drained, Fenced, Granted};
use bloodraven_types::group::{DnsSpec, PlannedFailoverSpec, SiteSpec, SiteStatus};
use bloodraven_types::{
    Command, Group, GroupKey, GroupSpec, GroupStatus, ObjectUid, Phase, ResourceVersion, RunId, RunRef, ServerUuid,
    SiteName, SiteRole, SiteState, Span, Timestamp,
};
use uuid::Uuid;

use crate::journal::Writer;
use crate::server::{Replica, Server};
use crate::world::World;

/// The site that holds the role when a story begins.
pub const SOURCE: &str = "iad";
/// The site to promote.
pub const TARGET: &str = "pdx";
/// The peer that must answer.
pub const PEER: &str = "ord";
/// The reader, where there is one.
pub const READER: &str = "lax";

/// How many transactions there are before a story begins.
const BEFORE: u64 = 100;
const LAG: Duration = Duration::from_millis(5);

/// A group with its servers: a primary, a candidate that follows it, a disaster recovery site, and perhaps a reader.
#[derive(Clone, Debug)]
pub struct Setting {
    seed: u64,
    sites: Vec<(&'static str, SiteRole)>,
    lag: Duration,
    dns: bool,
}

impl Setting {
    /// The usual group, under this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            sites: vec![
                (SOURCE, SiteRole::PrimaryCandidate),
                (TARGET, SiteRole::PrimaryCandidate),
                (PEER, SiteRole::DisasterRecovery),
            ],
            lag: LAG,
            dns: true,
        }
    }

    /// With a reader too.
    #[must_use]
    pub fn with_reader(mut self) -> Self {
        self.sites.push((READER, SiteRole::ReadOnly));
        self
    }

    /// With that much lag on every channel.
    #[must_use]
    pub const fn lag(mut self, lag: Duration) -> Self {
        self.lag = lag;
        self
    }

    /// Without a DNS record.
    #[must_use]
    pub const fn without_dns(mut self) -> Self {
        self.dns = false;
        self
    }

    /// Makes the world.
    pub fn build(self) -> World {
        let servers: Vec<Server> = self.sites.iter().map(|(name, _)| self.server(name)).collect();
        World::new(self.seed, self.group(&servers), servers)
    }

    fn server(&self, name: &str) -> Server {
        let mut server = Server::new(SiteName::new(name), address(name), uuid_of(name));
        server.preload(uuid_of(SOURCE), BEFORE);
        if name != SOURCE {
            server.fence();
            let mut channel = Replica::running(address(SOURCE), self.lag);
            channel.source_uuid = Some(uuid_of(SOURCE));
            server.channels = vec![channel];
        }
        server
    }

    fn group(&self, servers: &[Server]) -> Group {
        let sites = self.sites.iter().map(|(name, role)| SiteSpec {
            name: SiteName::new(*name),
            role: *role,
            host: address(name).0,
            port: address(name).1,
            admin_port: None,
            lb_ip: Some("192.0.2.1".to_owned()),
            pod_selector: BTreeMap::new(),
        });
        let observed = servers.iter().map(|server| SiteStatus {
            name: server.site.to_string(),
            state: if server.super_read_only {
                SiteState::ReadOnly
            } else {
                SiteState::Writable
            },
            server_uuid: Some(server.uuid),
            replicating: server.super_read_only,
            ..SiteStatus::default()
        });
        Group {
            key: GroupKey::new("default", "orders"),
            uid: ObjectUid::new("uid-1"),
            resource_version: ResourceVersion::new("1"),
            generation: 1,
            annotations: BTreeMap::new(),
            spec: GroupSpec {
                sites: sites.collect(),
                failover_cooldown: Span::seconds(300),
                poll_interval: Span::seconds(1),
                failure_threshold: 3,
                recovery_threshold: 2,
                planned_failover: PlannedFailoverSpec::default(),
                dragonfly: None,
                dns: self.dns.then(|| DnsSpec {
                    hostname: "orders.example.org".to_owned(),
                    ttl: 60,
                }),
            },
            status: GroupStatus {
                active_site: Some(SiteName::new(SOURCE)),
                sites: observed.collect(),
                ..GroupStatus::default()
            },
        }
    }
}

/// Where a site's server is reached.
pub fn address(site: &str) -> (String, u16) {
    (format!("{site}.example.org"), 3306)
}

/// Which server a site has when a story begins.
pub fn uuid_of(site: &str) -> ServerUuid {
    let number = site
        .bytes()
        .fold(0_u128, |number, byte| number * 256 + u128::from(byte));
    ServerUuid::new(Uuid::from_u128(number))
}

/// A run's id.
pub const fn run_id(number: u128) -> RunId {
    RunId::new(Uuid::from_u128(number))
}

impl World {
    /// What the wall clock says.
    pub fn wall_clock(&self) -> Timestamp {
        let began = self.state().began;
        began.after(self.time.now())
    }

    /// Feeds an input to the machine and commits what it says, with all that follows, at once and without a word: the
    /// shortest way to a record.
    pub fn feed(&self, input: Input) -> Group {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let now = self.wall_clock();
            let Ok(Verdict::Write(step)) = step(&self.group(), input, now) else {
                break;
            };
            self.state().write(Writer::Keeper, |group| match step.write {
                Write::Status(status) => group.status = *status,
                Write::Annotations(changes) => {
                    for (key, value) in changes {
                        match value {
                            Some(value) => group.annotations.insert(key, value),
                            None => group.annotations.remove(&key),
                        };
                    }
                }
            });
            next = step.then;
        }
        self.group()
    }

    /// What the record asks for first.
    pub fn command(&self) -> Option<(RunRef, Command)> {
        let group = self.group();
        let command = commands(&group).into_iter().next()?;
        Some((RunRef::of(&group)?, command))
    }

    /// A run from the source to the target, asked for and brought to that phase by facts that are true of this world.
    /// Phases off the straight way end it at the phase before.
    pub fn bring_to(&self, phase: Phase) -> Group {
        let value = TARGET.to_owned();
        self.state().annotate(Some(TARGET));
        self.feed(Input::Requested {
            run_id: run_id(1),
            value,
        });
        for _ in 0..6 {
            let now = self.group().run().map(|run| run.phase);
            if now == Some(phase) {
                break;
            }
            let Some(input) = now.and_then(|now| self.next_input(now)) else {
                break;
            };
            self.feed(input);
        }
        self.group()
    }

    fn next_input(&self, phase: Phase) -> Option<Input> {
        let set = |site: &str| self.state().server(site).map(|server| server.executed().to_string());
        let uuid = |site: &str| self.state().server(site).map(|server| server.uuid);
        match phase {
            Phase::Admitting => Some(Input::Admission(AdmissionFact::Granted(Granted {
                source: SiteName::new(SOURCE),
                source_server_uuid: uuid(SOURCE)?,
                target_server_uuid: uuid(TARGET)?,
                unreachable_readers: Vec::new(),
            }))),
            Phase::Fencing => {
                self.state().change(SOURCE, Server::fence);
                Some(Input::Fence(FenceFact::Fenced(Fenced {
                    source_server_uuid: uuid(SOURCE)?,
                    gtid_set: set(SOURCE)?,
                    apply_time: self.wall_clock(),
                    unreachable_peers: Vec::new(),
                })))
            }
            Phase::Draining => Some(Input::Drain(DrainFact::Drained(Drained {
                remaining_connections: Some(0),
                killed: 0,
                error: None,
            }))),
            Phase::WaitingForLag => Some(Input::CatchUp(CatchUpFact::CaughtUp(CaughtUp {
                target_server_uuid: uuid(TARGET)?,
                gtid_executed: set(TARGET)?,
            }))),
            Phase::Deferred
            | Phase::WaitingForDragonflySync
            | Phase::PromotingDragonfly
            | Phase::Promoting
            | Phase::Publishing
            | Phase::RollingBack
            | Phase::Succeeded
            | Phase::Failed => None,
        }
    }
}
