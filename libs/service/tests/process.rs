//! Whole processes: this test binary starts itself again as a small service, and is signalled like one.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;

use bloodraven_service::config::{CommonConfig, Sources};
use bloodraven_service::{BoxError, Context, Service};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const MODE: &str = "SERVICE_TEST_MODE";
const ARGS: &str = "SERVICE_TEST_ARGS";

/// Not a test: the service that the tests below start. It ends the process with the service's exit code.
#[test]
#[ignore = "started by the other tests as a process of its own"]
fn child() {
    let Ok(mode) = std::env::var(MODE) else { return };
    let args = std::env::var(ARGS).unwrap();
    let args = ["child"]
        .into_iter()
        .chain(args.split_whitespace())
        .map(OsString::from)
        .collect();
    let service = Service::new("child", "1.2.3", "Does as the test says.").with_input(args, Sources::from_process());
    let code = service.run_to_code(async move |context: Context<CommonConfig>| {
        match mode.as_str() {
            "polite" => context.tasks.spawn_loop("waiter", wait(context.clone())),
            "stubborn" => context.tasks.spawn_loop("stubborn", std::future::pending::<()>()),
            "failing" => return Err(BoxError::from("the bus is gone")),
            "panicking" => panic!("cannot be"),
            other => panic!("no mode {other}"),
        }
        tracing::info!("up");
        Ok(())
    });
    std::process::exit(i32::from(code));
}

async fn wait(context: Context<CommonConfig>) {
    context.cancel.cancelled().await;
}

struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Running {
    fn start(mode: &str, args: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(MODE, mode)
            .env(ARGS, args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log }
    }

    /// Reads the log up to the line with this message.
    fn line(&mut self, msg: &str) -> Value {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(
                self.log.read_line(&mut line).unwrap(),
                0,
                "{msg:?} was not logged:\n{seen}"
            );
            match serde_json::from_str::<Value>(&line) {
                Ok(found) if found.get("msg").is_some_and(|found| found == msg) => return found,
                _ => seen.push_str(&line),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// The exit status, and what was written after the last line that was read.
    fn end(mut self) -> (ExitStatus, String, String) {
        let (mut out, mut log) = (String::new(), String::new());
        self.log.read_to_string(&mut log).unwrap();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap(), out, log)
    }
}

/// The body may still be on its way out beside it.
fn assert_waiting_for_stubborn(line: &Value) {
    let names = line.get("waitingFor").and_then(Value::as_str).unwrap();
    assert!(names.split(", ").any(|name| name == "stubborn"), "{line}");
}

const FREE_PORT: &str = "--admin-address 127.0.0.1:0";

/// A service says what it is, stops on SIGTERM and exits with 0.
#[test]
fn a_signal_ends_a_service_in_order() {
    let mut service = Running::start("polite", FREE_PORT);
    let start = service.line("starting");
    assert_eq!(
        (&start["binary"], &start["version"]),
        (&"child".into(), &"1.2.3".into())
    );
    assert_eq!(start["purpose"], "Does as the test says.");
    service.line("up");
    service.signal(Signal::SIGTERM);
    assert_eq!(service.line("stopping")["signal"], "SIGTERM");
    let (status, ..) = service.end();
    assert_eq!(status.code(), Some(0));
}

/// A task that does not stop costs the grace period and exit code 1, and is named.
#[test]
fn a_stuck_task_is_named_in_the_log() {
    let mut service = Running::start("stubborn", &format!("{FREE_PORT} --set shutdown-grace=50ms"));
    service.line("up");
    service.signal(Signal::SIGTERM);
    assert_waiting_for_stubborn(&service.line("tasks did not stop in time"));
    let (status, ..) = service.end();
    assert_eq!(status.code(), Some(1));
}

/// Whoever signals twice need not wait for the grace period.
#[test]
fn a_second_signal_ends_a_service_at_once() {
    let mut service = Running::start("stubborn", &format!("{FREE_PORT} --set shutdown-grace=10m"));
    service.line("up");
    service.signal(Signal::SIGINT);
    service.line("stopping");
    service.signal(Signal::SIGTERM);
    assert_waiting_for_stubborn(&service.line("ending at once, asked twice"));
    let (status, ..) = service.end();
    assert_eq!(status.code(), Some(128 + 15));
}

/// An error of the body is one ERROR line and exit code 1; a panic is one ERROR line with its place and exit code 70.
#[test]
fn failures_are_logged_once_and_show_in_the_exit_code() {
    for (mode, msg, error, code) in [
        ("failing", "task failed", "the bus is gone", 1),
        ("panicking", "panic", "cannot be", 70),
    ] {
        let mut service = Running::start(mode, FREE_PORT);
        let line = service.line(msg);
        assert_eq!((&line["error"], &line["task"]), (&error.into(), &"main".into()));
        let (status, _, rest) = service.end();
        assert!(!rest.contains("ERROR"), "{rest}");
        assert_eq!(status.code(), Some(code));
    }
}

/// Wrong usage and wrong configuration exit with 64 before anything is started; questions are answered on stdout.
#[test]
fn usage_errors_exit_with_64() {
    for (args, expected) in [
        ("--no-such-flag", "unexpected argument '--no-such-flag'"),
        (
            "--set shutdown-grace=soon",
            "child: 1 problem in the configuration\n\n  shutdown-grace = \"soon\" (flag --set)",
        ),
    ] {
        let (status, _, log) = Running::start("polite", args).end();
        assert_eq!(status.code(), Some(64), "{log}");
        assert!(log.contains(expected) && !log.contains("starting"), "{log}");
    }
    for (args, expected) in [
        ("--version", "child 1.2.3"),
        ("--print-config", "shutdown-grace = \"25s\""),
    ] {
        let (status, out, _) = Running::start("polite", args).end();
        assert_eq!(status.code(), Some(0));
        assert!(out.contains(expected), "{out}");
    }
}

/// An address that is taken is a start error with its key.
#[test]
fn a_taken_address_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut service = Running::start("polite", &format!("--admin-address {address}"));
    let error = service.line("cannot start")["error"].as_str().unwrap().to_owned();
    assert!(
        error.starts_with(&format!("admin.address = {address}: Address already in use")),
        "{error}"
    );
    let (status, ..) = service.end();
    assert_eq!(status.code(), Some(71));
}

/// The endpoints of a running service tell its version and, once it stops, that it is not ready.
#[test]
fn endpoints_of_a_running_service() {
    let mut service = Running::start("stubborn", &format!("{FREE_PORT} --set shutdown-grace=10m"));
    let address = service.line("admin endpoints are served")["address"]
        .as_str()
        .unwrap()
        .to_owned();
    service.line("up");
    let metrics = get(&address, "/metrics");
    assert!(
        metrics.contains(r#"bloodraven_build_info{binary="child",version="1.2.3"} 1"#),
        "{metrics}"
    );
    service.signal(Signal::SIGTERM);
    service.line("stopping");
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !get(&address, "/readyz").contains(r#""reason":"stopping""#) {
        assert!(std::time::Instant::now() < deadline, "readiness outlives the stop");
    }
    service.signal(Signal::SIGTERM);
    service.end();
}

fn get(address: &str, path: &str) -> String {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}
