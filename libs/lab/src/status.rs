//! What `lab status` shows.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::process::{ProcessName, ProcessSpec, ProcessState};

/// A lab and its processes.
#[derive(Clone, Debug, Serialize)]
pub struct LabStatus {
    /// The lab's name.
    pub name: String,
    /// Its state folder.
    pub dir: PathBuf,
    /// Whether it stays up without the program that started it.
    pub detached: bool,
    /// All its processes.
    pub processes: Vec<ProcessStatus>,
}

/// One process of a lab.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessStatus {
    /// Its name.
    pub name: ProcessName,
    /// Whether it runs.
    pub state: ProcessState,
    /// Process id, also of one that has ended; absent when it was never started.
    pub pid: Option<i32>,
    /// Time since it was started, when it runs.
    pub uptime: Option<Duration>,
    /// Resident memory in bytes, when it runs.
    pub resident_bytes: Option<u64>,
    /// What it listens on, by purpose.
    pub ports: BTreeMap<String, SocketAddr>,
    /// Its log file.
    pub log: PathBuf,
}

impl ProcessStatus {
    pub(crate) fn of(spec: &ProcessSpec) -> Self {
        let id = spec.last_started();
        Self {
            name: spec.name.clone(),
            state: spec.state(),
            pid: id.map(|id| id.pid),
            uptime: id.and_then(|id| id.uptime()),
            resident_bytes: id.and_then(|id| id.resident_bytes()),
            ports: spec.ports.clone(),
            log: spec.log.clone(),
        }
    }
}

impl LabStatus {
    /// Whether every process runs.
    #[must_use]
    pub fn is_all_running(&self) -> bool {
        self.processes
            .iter()
            .all(|process| process.state == ProcessState::Running)
    }
}
