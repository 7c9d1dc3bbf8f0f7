//! One site's prober: a look each poll, debounced into a state (interface: state per site and debounce).

use bloodraven_ports::ServerObservation;
use bloodraven_types::group::{GroupSpec, SiteSpec, SiteStatus};
use bloodraven_types::{SiteRole, SiteState, Timestamp};

/// Healthy looks in a row before a replica counts as replicating.
const REPLICATING_AFTER: u32 = 2;

/// What a prober remembers between two looks.
#[derive(Clone, Debug, Default)]
pub struct SiteProber {
    failures: u32,
    writable_looks: u32,
    healthy_looks: u32,
    status: SiteStatus,
}

impl SiteProber {
    /// A prober that has seen nothing.
    pub fn new(site: &SiteSpec) -> Self {
        Self {
            status: SiteStatus {
                name: site.name.to_string(),
                ..SiteStatus::default()
            },
            ..Self::default()
        }
    }

    /// What is known.
    pub const fn status(&self) -> &SiteStatus {
        &self.status
    }

    /// Takes a look in and says whether the state changed.
    pub fn look(
        &mut self,
        spec: &GroupSpec,
        site: &SiteSpec,
        answer: &Result<ServerObservation, String>,
        now: Timestamp,
    ) -> bool {
        let before = self.status.state;
        match answer {
            Ok(observation) => self.answered(spec, site, observation, now),
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.writable_looks = 0;
                self.healthy_looks = 0;
                self.status.message = Some(error.clone());
                if self.failures >= spec.failure_threshold {
                    self.status.state = SiteState::Unreachable;
                    self.status.replicating = false;
                }
            }
        }
        before != self.status.state
    }

    fn answered(&mut self, spec: &GroupSpec, site: &SiteSpec, observation: &ServerObservation, now: Timestamp) {
        self.failures = 0;
        self.status.message = None;
        self.status.last_seen = Some(now.whole_seconds());
        self.status.server_uuid = Some(observation.server_uuid);
        self.status.gtid_executed = Some(observation.gtid_executed.clone());
        let channel = observation.channels.first();
        let healthy = channel.is_some_and(|channel| channel.is_running() && !channel.source_host.is_empty());
        self.healthy_looks = if healthy {
            self.healthy_looks.saturating_add(1)
        } else {
            0
        };
        self.status.replicating = self.healthy_looks >= REPLICATING_AFTER;
        self.status.seconds_behind_source = channel.and_then(|channel| channel.seconds_behind_source);
        self.status.source_host = channel.map(|channel| format!("{}:{}", channel.source_host, channel.source_port));
        if observation.is_fenced() {
            self.writable_looks = 0;
            self.status.state = SiteState::ReadOnly;
            return;
        }
        self.writable_looks = self.writable_looks.saturating_add(1);
        // A site that must never take writes is writable at the first sight of it, so that it is fenced at once.
        let threshold = match site.role {
            SiteRole::PrimaryCandidate => spec.recovery_threshold,
            SiteRole::DisasterRecovery | SiteRole::ReadOnly => 1,
        };
        if self.writable_looks >= threshold {
            self.status.state = SiteState::Writable;
        }
    }
}
