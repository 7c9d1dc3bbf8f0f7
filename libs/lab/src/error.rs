//! The one error type of the lab. Every variant says which part or process failed, what was being done and what to do
//! about it, because its reader is somebody at a terminal.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::install::Part;
use crate::process::ProcessName;

/// What can go wrong while servers are installed, started, used or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Programs that the installation needs are absent; `cure` is the command that brings them all.
    #[error("these programs are missing: {}; install them with: {cure}", programs.join(", "))]
    MissingTools {
        /// Names of the missing programs.
        programs: Vec<String>,
        /// One shell line that installs them all.
        cure: String,
    },
    /// A part was asked for that `install` has not brought yet.
    #[error("{part} is not installed ({missing} is missing); run `cargo xtask lab install`")]
    NotInstalled {
        /// The part.
        part: Part,
        /// The first file that is missing.
        missing: PathBuf,
    },
    /// An installation step cannot go on, for a reason other than a failed command.
    #[error("installing {part}: {reason}")]
    Install {
        /// The part.
        part: Part,
        /// What is wrong, as a sentence without its full stop.
        reason: String,
    },
    /// A command of an installation or start step failed.
    #[error("{what}: `{command}` failed ({status}); its last lines:\n{output}")]
    Command {
        /// The part or process that the command was run for.
        what: String,
        /// The command line.
        command: String,
        /// Its exit status, or why it could not be started.
        status: String,
        /// The last lines of its standard error (or output when that is empty).
        output: String,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The path it was tried on.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A stored state file of the lab does not parse.
    #[error("{path} is damaged: {source}")]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A port that was asked for by number is in use.
    #[error("port {address} asked for as {port} is taken by {holder}")]
    PortTaken {
        /// Which of the lab's ports was to use it.
        port: String,
        /// The address and port number.
        address: SocketAddr,
        /// The process that listens there, as far as it can be found out.
        holder: String,
    },
    /// No free port is left in the lab's range.
    #[error("no free port is left for {port} on {host} between {first} and {last}")]
    NoFreePort {
        /// Which of the lab's ports needs one.
        port: String,
        /// The address it has to be free on.
        host: std::net::IpAddr,
        /// First port number that was tried.
        first: u16,
        /// Last port number that was tried.
        last: u16,
    },
    /// An option does not make sense.
    #[error("lab option {option}: {reason}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
    /// A lab of this name is already up.
    #[error("a lab named {name} is up already (state in {path}); end it with `cargo xtask lab down --name {name}`")]
    AlreadyUp {
        /// The lab's name.
        name: String,
        /// Its state folder.
        path: PathBuf,
    },
    /// No lab of this name is up.
    #[error("no lab named {name} is up (no state in {path}); start it with `cargo xtask lab up --name {name}`")]
    NoSuchLab {
        /// The lab's name.
        name: String,
        /// Where its state would be.
        path: PathBuf,
    },
    /// The lab has no such site, process, account or kubeconfig.
    #[error("this lab has no {kind} named {name}; it has: {}", known.join(", "))]
    Unknown {
        /// What was looked for.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A process ended while it was being waited for.
    #[error("{process} ended while starting ({status}); last lines of {log}:\n{tail}")]
    Died {
        /// The process.
        process: ProcessName,
        /// How it ended.
        status: String,
        /// Its log file.
        log: PathBuf,
        /// The end of that log.
        tail: String,
    },
    /// A process was not ready, or not gone, in time.
    #[error("{process} was not {state} after {waited:?}; last lines of {log}:\n{tail}")]
    TimedOut {
        /// The process.
        process: ProcessName,
        /// What was waited for.
        state: &'static str,
        /// How long it was waited for.
        waited: Duration,
        /// Its log file.
        log: PathBuf,
        /// The end of that log.
        tail: String,
    },
    /// A process that is already running was to be started, or one that is not was to be signalled.
    #[error("{process} is {state}, so it cannot be {verb}")]
    WrongState {
        /// The process.
        process: ProcessName,
        /// Its state.
        state: String,
        /// What was wanted of it.
        verb: &'static str,
    },
    /// A MySQL server refused a statement or a connection.
    #[error("MySQL at {site}: {doing}: {source}")]
    MySql {
        /// The site.
        site: String,
        /// What was being done.
        doing: String,
        /// The client's error.
        #[source]
        source: mysql_async::Error,
    },
    /// The Kubernetes API server refused a request.
    #[error("Kubernetes API: {doing}: {source}")]
    Kube {
        /// What was being done.
        doing: String,
        /// The client's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A manifest cannot be read as Kubernetes objects.
    #[error("manifest {path}: {reason}")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl LabError {
    /// An error of a file operation.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_path_buf(),
            source,
        }
    }

    /// An error of a Kubernetes request.
    pub(crate) fn kube(doing: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Kube {
            doing: doing.into(),
            source: Box::new(source),
        }
    }

    /// An error of a MySQL statement or connection.
    pub(crate) fn mysql(site: &str, doing: impl Into<String>, source: mysql_async::Error) -> Self {
        Self::MySql {
            site: site.to_owned(),
            doing: doing.into(),
            source,
        }
    }
}
