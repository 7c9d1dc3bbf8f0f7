//! One running program: its process, its log, its admin address.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::StackError;
use crate::files::tail;
use crate::logs;
use crate::program::Program;
use crate::spawner;

/// How long a program may take until it is ready; a debug build on a busy machine needs some of it.
const READY_BUDGET: Duration = Duration::from_secs(60);
/// How long a program may take to end in good order.
const STOP_BUDGET: Duration = Duration::from_secs(20);
/// How long an admin endpoint may take to answer.
const HTTP_BUDGET: Duration = Duration::from_secs(2);
/// Pause between two looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// All that is needed to start a program, also again.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) program: Program,
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) log: PathBuf,
}

/// A program that was started. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Process {
    program: Program,
    child: Child,
    log: PathBuf,
    /// Where this start's lines begin: a restart goes on in the same file.
    log_start: u64,
}

impl Process {
    /// Starts the program with its output at the end of its log.
    pub(crate) fn start(plan: &Plan) -> Result<Self, StackError> {
        let open = || OpenOptions::new().create(true).append(true).open(&plan.log);
        let log = open().map_err(|source| StackError::io("open", &plan.log, source))?;
        let log_start = log.metadata().map_or(0, |metadata| metadata.len());
        let errors = log
            .try_clone()
            .map_err(|source| StackError::io("open", &plan.log, source))?;
        let mut command = spawner::bound_to_this_program(&plan.path);
        command
            .args(&plan.arguments)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        // Its environment is its configuration, so nothing of ours goes in; and a Ctrl-C is for whoever tears down.
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("RUST_BACKTRACE", "1");
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = spawner::spawn(command).map_err(|source| StackError::io("start", &plan.path, source))?;
        Ok(Self {
            program: plan.program,
            child,
            log: plan.log.clone(),
            log_start,
        })
    }

    /// Waits until the program says that it is ready; notices at once when it ends instead.
    pub(crate) async fn await_ready(&mut self) -> Result<(), StackError> {
        let started = Instant::now();
        let mut last = "nothing was logged".to_owned();
        while started.elapsed() < READY_BUDGET {
            self.check_running()?;
            if let Some(address) = self.admin_address() {
                match get(address, "/readyz").await {
                    Ok((200, _)) => return Ok(()),
                    Ok((status, body)) => last = format!("/readyz answers {status}: {}", body.trim()),
                    Err(error) => last = format!("/readyz: {error}"),
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
        Err(StackError::TimedOut {
            what: format!("{} being ready", self.program),
            waited: started.elapsed(),
            last: format!("{last}\n{}", tail(&self.log)),
        })
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended; nothing while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// An error when it has ended.
    pub(crate) fn check_running(&mut self) -> Result<(), StackError> {
        match self.ended() {
            None => Ok(()),
            Some(status) => {
                let (program, status) = (self.program, status.to_string());
                Err(StackError::Ended {
                    program,
                    status,
                    tail: tail(&self.log),
                })
            }
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // A process that has ended keeps its id until it is waited for, so no other one is hit.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Kills the process as a crash does, and returns when it is gone.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Asks the program to stop and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<(), StackError> {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
        let started = Instant::now();
        while started.elapsed() < STOP_BUDGET {
            match self.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(_) => return self.check_running(),
                None => tokio::time::sleep(INTERVAL).await,
            }
        }
        let last = tail(&self.log);
        Err(StackError::TimedOut {
            what: format!("the orderly end of {}", self.program),
            waited: started.elapsed(),
            last,
        })
    }

    fn end(&mut self) {
        // Killing a child that has ended already is no error that matters, and SIGKILL cannot be refused.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The address that the program has logged since this start.
    pub(crate) fn admin_address(&self) -> Option<SocketAddr> {
        let lines = logs::read(self.program, &self.log, self.log_start);
        let line = lines.iter().find(|line| line.message == "admin endpoints are served")?;
        line.fields.get("address")?.as_str()?.parse().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The least of HTTP: status and body of a GET.
pub(crate) async fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(HTTP_BUDGET, exchange)
        .await
        .map_err(|_| std::io::ErrorKind::TimedOut)??;
    let malformed = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok())
        .ok_or_else(malformed)?;
    Ok((status, body.to_owned()))
}
