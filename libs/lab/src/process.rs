//! Server processes that outlive the program which started them: started in a session of their own, remembered by
//! process id *and* start time (so that a recycled id is never signalled), reaped when they are our children.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::files;

/// How long a killed process may take until it has left the process table.
const KILL_BUDGET: Duration = Duration::from_secs(15);
/// Pause between two looks at a process that is being waited for.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Lines of a log that an error shows.
const TAIL_LINES: usize = 12;

/// Names one process of a lab: `mysql-iad`, `nats-1`, `etcd`, `kube-apiserver`, `valkey-iad`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ProcessName {
    /// The MySQL server of a site.
    Mysql(String),
    /// A NATS server, counted from 1.
    Nats(u8),
    /// The etcd server behind the Kubernetes API server.
    Etcd,
    /// The Kubernetes API server.
    KubeApiserver,
    /// The Valkey server of a site.
    Valkey(String),
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessState {
    /// It runs.
    Running,
    /// It is stopped by a signal (`SIGSTOP`).
    Paused,
    /// It has ended or was never started.
    Stopped,
}

/// All that is needed to start a process, also again and from another program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProcessSpec {
    pub(crate) name: ProcessName,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// Folder of the process's own files.
    pub(crate) dir: PathBuf,
    pub(crate) log: PathBuf,
    /// What it listens on, by purpose.
    pub(crate) ports: BTreeMap<String, SocketAddr>,
    /// Files that a killed process leaves and that would keep a new one from starting.
    pub(crate) stale_files: Vec<PathBuf>,
}

/// A process by id and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    /// Clock ticks between boot and the start of the process.
    pub(crate) start_ticks: u64,
}

/// Where the thread that reaps a child leaves its exit status.
pub(crate) type ExitCell = Arc<Mutex<Option<ExitStatus>>>;

impl ProcessName {
    /// The MySQL server of `site`.
    #[must_use]
    pub fn mysql(site: &str) -> Self {
        Self::Mysql(site.to_owned())
    }

    /// The Valkey server of `site`.
    #[must_use]
    pub fn valkey(site: &str) -> Self {
        Self::Valkey(site.to_owned())
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mysql(site) => write!(formatter, "mysql-{site}"),
            Self::Nats(number) => write!(formatter, "nats-{number}"),
            Self::Etcd => formatter.write_str("etcd"),
            Self::KubeApiserver => formatter.write_str("kube-apiserver"),
            Self::Valkey(site) => write!(formatter, "valkey-{site}"),
        }
    }
}

impl FromStr for ProcessName {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let unknown = || LabError::Unknown {
            kind: "process",
            name: text.to_owned(),
            known: [
                "mysql-<site>",
                "nats-<number>",
                "etcd",
                "kube-apiserver",
                "valkey-<site>",
            ]
            .map(str::to_owned)
            .to_vec(),
        };
        match text.split_once('-') {
            Some(("mysql", site)) if !site.is_empty() => Ok(Self::mysql(site)),
            Some(("valkey", site)) if !site.is_empty() => Ok(Self::valkey(site)),
            Some(("nats", number)) => number.parse().map(Self::Nats).map_err(|_| unknown()),
            None if text == "etcd" => Ok(Self::Etcd),
            Some(_) if text == "kube-apiserver" => Ok(Self::KubeApiserver),
            Some(_) | None => Err(unknown()),
        }
    }
}

impl From<ProcessName> for String {
    fn from(name: ProcessName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for ProcessName {
    type Error = LabError;

    fn try_from(text: String) -> Result<Self, LabError> {
        text.parse()
    }
}

impl ProcessId {
    /// The running process with this id, whatever it is.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        stat_fields(pid).map(|(_, start_ticks)| Self { pid, start_ticks })
    }

    /// This very program.
    pub(crate) fn own() -> Option<Self> {
        Self::of(nix::unistd::getpid().as_raw())
    }

    /// Whether the process still runs. A process that has ended but waits for its parent counts as ended.
    pub(crate) fn state(self) -> ProcessState {
        match stat_fields(self.pid) {
            Some((state, start)) if start == self.start_ticks => match state {
                'Z' | 'X' | 'x' => ProcessState::Stopped,
                'T' | 't' => ProcessState::Paused,
                _ => ProcessState::Running,
            },
            Some(_) | None => ProcessState::Stopped,
        }
    }

    /// Whether anything of the process is left, an unreaped corpse included.
    fn is_listed(self) -> bool {
        stat_fields(self.pid).is_some_and(|(_, start)| start == self.start_ticks)
    }

    /// Sends a signal unless the process has ended (or its id belongs to another one by now).
    pub(crate) fn signal(self, signal: Signal) {
        if self.state() != ProcessState::Stopped {
            // It may end between the look and the signal; that is what the signal is for in all but two cases, and
            // for SIGSTOP and SIGCONT the caller looks at the state afterwards.
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }

    /// Time since the process was started; `None` when it has ended.
    pub(crate) fn uptime(self) -> Option<Duration> {
        let up: f64 = fs::read_to_string("/proc/uptime")
            .ok()?
            .split_whitespace()
            .next()?
            .parse()
            .ok()?;
        let ticks_per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
        #[expect(clippy::cast_precision_loss, reason = "ticks since boot stay far below 2^52")]
        let started = self.start_ticks as f64 / ticks_per_second as f64;
        (self.state() != ProcessState::Stopped).then(|| Duration::from_secs_f64((up - started).max(0.0)))
    }

    /// Resident memory in bytes; `None` when the process has ended.
    pub(crate) fn resident_bytes(self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
            .map(|kibibytes| kibibytes * 1024)
    }
}

impl ProcessSpec {
    fn id_file(&self) -> PathBuf {
        self.dir.join("process.json")
    }

    /// The process as it was last started, by whichever program.
    pub(crate) fn last_started(&self) -> Option<ProcessId> {
        fs::read(self.id_file())
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
    }

    /// Whether it runs now.
    pub(crate) fn state(&self) -> ProcessState {
        self.last_started().map_or(ProcessState::Stopped, ProcessId::state)
    }

    /// Starts the process in a session of its own with its output in its log, and notes its id beside its files.
    pub(crate) fn spawn(&self) -> Result<(ProcessId, ExitCell), LabError> {
        for stale in &self.stale_files {
            files::remove_all(stale)?;
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(|source| LabError::io("open", &self.log, source))?;
        let errors = log
            .try_clone()
            .map_err(|source| LabError::io("open", &self.log, source))?;
        // setsid(1) calls setsid(2) and then becomes the server, so the process id is the server's.
        let mut child = Command::new("setsid")
            .arg(&self.program)
            .args(&self.args)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|error| self.spawn_error(&error))?;
        let pid = i32::try_from(child.id()).unwrap_or_default();
        // A child that has not been waited for keeps its entry, so it can always be looked up here.
        let id =
            ProcessId::of(pid).ok_or_else(|| self.spawn_error(&std::io::Error::from(std::io::ErrorKind::NotFound)))?;
        let exit: ExitCell = Arc::default();
        let cell = Arc::clone(&exit);
        std::thread::spawn(move || {
            let status = child.wait().ok();
            *cell.lock().unwrap_or_else(PoisonError::into_inner) = status;
        });
        let json = serde_json::to_vec(&id).map_err(|source| LabError::State {
            path: self.id_file(),
            source,
        })?;
        files::write_private(&self.id_file(), &json).inspect_err(|_| id.signal(Signal::SIGKILL))?;
        Ok((id, exit))
    }

    fn spawn_error(&self, error: &std::io::Error) -> LabError {
        LabError::Command {
            what: self.name.to_string(),
            command: format!("setsid {} {}", self.program.display(), self.args.join(" ")),
            status: error.to_string(),
            output: String::new(),
        }
    }

    /// The error for a process that ended while it was waited for.
    pub(crate) fn died(&self, exit: Option<ExitStatus>) -> LabError {
        LabError::Died {
            process: self.name.clone(),
            status: exit.map_or_else(|| "exit status unknown".to_owned(), |status| status.to_string()),
            log: self.log.clone(),
            tail: files::tail(&self.log, TAIL_LINES),
        }
    }

    /// The error for a process that did not reach a state in time.
    pub(crate) fn timed_out(&self, state: &'static str, waited: Duration) -> LabError {
        LabError::TimedOut {
            process: self.name.clone(),
            state,
            waited,
            log: self.log.clone(),
            tail: files::tail(&self.log, TAIL_LINES),
        }
    }
}

/// Kills processes at once and returns when none of them runs any more.
///
/// # Errors
/// `TimedOut` when one is still there after 15 s (a process in uninterruptible sleep).
pub(crate) fn kill_all(specs: &[ProcessSpec]) -> Result<(), LabError> {
    let running: Vec<(&ProcessSpec, ProcessId)> = specs
        .iter()
        .filter_map(|spec| spec.last_started().map(|id| (spec, id)))
        .collect();
    for (_, id) in &running {
        id.signal(Signal::SIGKILL);
    }
    let own = nix::unistd::getpid().as_raw();
    let started = Instant::now();
    for (spec, id) in running {
        // A child of ours is gone when its reaper has run; somebody else's child when it no longer runs.
        while id.state() != ProcessState::Stopped || (id.is_listed() && parent(id.pid) == Some(own)) {
            if started.elapsed() > KILL_BUDGET {
                return Err(spec.timed_out("gone", started.elapsed()));
            }
            std::thread::sleep(POLL_INTERVAL / 5);
        }
    }
    Ok(())
}

/// State letter and start time of a process.
fn stat_fields(pid: i32) -> Option<(char, u64)> {
    let fields = stat_after_name(pid)?;
    let mut words = fields.split_whitespace();
    let state = words.next()?.chars().next()?;
    // Field 22 of the file is the start time; the state is field 3.
    let start = words.nth(18)?.parse().ok()?;
    Some((state, start))
}

fn parent(pid: i32) -> Option<i32> {
    stat_after_name(pid)?.split_whitespace().nth(1)?.parse().ok()
}

/// The fields of `/proc/<pid>/stat` that follow the program's name, which may itself hold blanks and brackets.
fn stat_after_name(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit_once(')').map(|(_, fields)| fields.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{ProcessId, ProcessName, ProcessState};

    /// Every process name reads back from its text form and nonsense is refused.
    #[test]
    fn names_round_trip() {
        for name in ["mysql-iad", "nats-3", "etcd", "kube-apiserver", "valkey-ord"] {
            assert_eq!(name.parse::<ProcessName>().unwrap().to_string(), name);
        }
        for name in ["", "mysql-", "nats-x", "etcd-1", "kube", "redis-iad"] {
            assert!(name.parse::<ProcessName>().is_err(), "{name}");
        }
    }

    /// A recycled process id (same number, other start time) counts as stopped and is never signalled.
    #[test]
    fn another_start_time_is_another_process() {
        let own = ProcessId::own().unwrap();
        assert_eq!(own.state(), ProcessState::Running);
        let other = ProcessId {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        assert_eq!(other.state(), ProcessState::Stopped);
        other.signal(nix::sys::signal::Signal::SIGKILL);
        assert!(own.uptime().is_some() && other.uptime().is_none());
    }
}
