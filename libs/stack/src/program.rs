//! The programs that make up Bloodraven.

use std::fmt;

/// One of the eight binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// Turns annotations into requests.
    Admission,
    /// Writes the run record.
    StatusWriter,
    /// Fences, drains and unfences.
    Fencer,
    /// Waits for the target.
    LagWatcher,
    /// Promotes.
    Promoter,
    /// Promotes the cache.
    DragonflyPromoter,
    /// Probes the sites.
    TopologyManager,
    /// Labels pods and publishes DNS.
    Publisher,
}

impl Program {
    /// Every binary.
    pub const ALL: [Self; 8] = [
        Self::Admission,
        Self::StatusWriter,
        Self::Fencer,
        Self::LagWatcher,
        Self::Promoter,
        Self::DragonflyPromoter,
        Self::TopologyManager,
        Self::Publisher,
    ];

    /// Its name, which its package, its ServiceAccount and its executable share.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admission => "bloodraven-admission",
            Self::StatusWriter => "bloodraven-status-writer",
            Self::Fencer => "bloodraven-fencer",
            Self::LagWatcher => "bloodraven-lag-watcher",
            Self::Promoter => "bloodraven-promoter",
            Self::DragonflyPromoter => "bloodraven-dragonfly-promoter",
            Self::TopologyManager => "bloodraven-topology-manager",
            Self::Publisher => "bloodraven-publisher",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
