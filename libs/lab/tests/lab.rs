//! The lab against its own promises: separate, complete, gone without a trace, honest in its errors.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests may")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use bloodraven_lab::{Lab, LabError, LabOptions, ProcessName, ProcessState};

/// All processes whose command line mentions a text.
fn processes_mentioning(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

/// Files of the lab's port reservations that mention a folder.
fn reservations_of(dir: &Path) -> usize {
    let entries = std::fs::read_dir(bloodraven_lab::cache_dir().join("ports"))
        .unwrap()
        .flatten();
    entries
        .filter(|entry| std::fs::read_to_string(entry.path()).is_ok_and(|held| Path::new(held.trim()) == dir))
        .count()
}

fn assert_gone(dir: &Path) {
    assert!(!dir.exists(), "{} is still there", dir.display());
    assert_eq!(reservations_of(dir), 0);
    let left = processes_mentioning(&dir.display().to_string());
    assert!(left.is_empty(), "still running: {left:#?}");
}

/// Two labs run side by side on ports of their own, and each leaves no process and no file behind.
#[tokio::test]
async fn two_labs_side_by_side_leave_nothing() {
    let options = || LabOptions::for_test("pair").with_mysql().with_nats();
    let (first, second) = tokio::try_join!(Lab::up(options()), Lab::up(options())).unwrap();
    let addresses = [&first, &second].map(|lab| {
        let status = lab.status();
        assert!(status.is_all_running(), "{status:#?}");
        assert_eq!(status.processes.len(), 6);
        status
            .processes
            .into_iter()
            .flat_map(|process| process.ports.into_values())
            .collect::<Vec<_>>()
    });
    let [ours, theirs] = &addresses;
    assert_eq!(ours.len(), 12);
    assert!(!ours.iter().any(|address| theirs.contains(address)), "{addresses:?}");

    let dirs = [first.dir().to_path_buf(), second.dir().to_path_buf()];
    assert_eq!(reservations_of(&dirs[0]), 1);
    first.down().unwrap();
    assert_gone(&dirs[0]);
    assert!(second.status().is_all_running());
    drop(second);
    assert_gone(&dirs[1]);
}

/// A port asked for by number that is in use is refused with its number and the process that holds it, and nothing is
/// left of the attempt; one that is free is used.
#[tokio::test]
async fn a_taken_port_is_named_with_its_holder() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().port();
    let ports = BTreeMap::from([("nats-2".to_owned(), taken)]);
    let options = LabOptions {
        ports: ports.clone(),
        ..LabOptions::for_test("taken").with_nats()
    };
    let error = Lab::up(options.clone()).await.unwrap_err();
    assert!(matches!(error, LabError::PortTaken { .. }), "{error}");
    let text = error.to_string();
    let own = format!("pid {}:", std::process::id());
    assert!(
        text.contains(&format!("127.0.0.1:{taken}")) && text.contains("nats-2") && text.contains(&own),
        "{text}"
    );
    assert!(matches!(Lab::attach(&options.name), Err(LabError::NoSuchLab { .. })));

    drop(holder);
    let lab = Lab::up(options).await.unwrap();
    assert_eq!(lab.nats_nodes()[1].port, taken);

    let unknown = LabOptions {
        ports: BTreeMap::from([("nats-9".to_owned(), 1)]),
        ..LabOptions::for_test("unknown").with_nats()
    };
    assert!(Lab::up(unknown).await.unwrap_err().to_string().contains("nats-9"));
}

/// A server that does not start is reported with the end of its log, at once, and the others are ended.
#[tokio::test]
async fn a_failed_start_shows_the_log_and_leaves_nothing() {
    let mysqld_config = vec!["no_such_option=1".to_owned()];
    let options = LabOptions {
        mysqld_config,
        ..LabOptions::for_test("broken").with_mysql().with_nats()
    };
    let started = Instant::now();
    let error = Lab::up(options.clone()).await.unwrap_err();
    assert!(matches!(error, LabError::Died { .. }), "{error}");
    assert!(
        error.to_string().contains("unknown variable 'no_such_option=1'"),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(processes_mentioning(&options.name).is_empty());
}

/// Another program finds a detached lab, sees its state, uses it and ends it; an undetached name cannot be taken twice.
#[tokio::test]
async fn attach_status_and_down_work_from_elsewhere() {
    let options = LabOptions::for_test("attach").with_nats();
    let mut lab = Lab::up(options.clone()).await.unwrap();
    assert!(matches!(Lab::up(options).await, Err(LabError::AlreadyUp { .. })));
    let (name, dir) = (lab.name().to_owned(), lab.dir().to_path_buf());
    let mode = std::os::unix::fs::PermissionsExt::mode(&dir.join("lab.json").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    lab.detach().unwrap();
    drop(lab);

    assert!(Lab::list().contains(&name));
    let attached = Lab::attach(&name).unwrap();
    let status = attached.status();
    assert!(status.detached && status.is_all_running(), "{status:#?}");
    assert!(
        status
            .processes
            .iter()
            .all(|process| process.uptime.is_some() && process.resident_bytes > Some(1_000_000))
    );
    let nats = ProcessName::Nats(3);
    attached.kill(&nats).await.unwrap();
    assert!(!attached.status().is_all_running());
    assert!(matches!(attached.kill(&nats).await, Err(LabError::WrongState { .. })));
    attached.start(&nats).await.unwrap();
    attached.pause(&nats).await.unwrap();
    assert_eq!(attached.process_state(&nats).unwrap(), ProcessState::Paused);
    attached.resume(&nats).await.unwrap();
    attached.stop(&nats).await.unwrap();
    attached.down().unwrap();
    assert_gone(&dir);
}

/// A lab whose program was killed before it could end it is ended by the next lab that is started.
#[tokio::test]
async fn an_abandoned_lab_is_swept() {
    let mut lab = Lab::up(LabOptions::for_test("abandoned").with_nats()).await.unwrap();
    lab.detach().unwrap();
    let dir = lab.dir().to_path_buf();
    drop(lab);
    // As if a program that has ended were its owner: no process has this id and start time.
    let file = dir.join("lab.json");
    let mut state: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    state["owner"] = serde_json::json!({"pid": std::process::id(), "start_ticks": 1});
    std::fs::write(&file, state.to_string()).unwrap();
    let _next = Lab::up(LabOptions::for_test("next")).await.unwrap();
    assert_gone(&dir);
}

/// The Valkey servers of the other sites follow the first one.
#[tokio::test]
async fn valkey_replicates() {
    let lab = Lab::up(LabOptions::for_test("valkey").with_valkey()).await.unwrap();
    let client = bloodraven_lab::valkey_client().unwrap();
    let primary = &lab.valkey_nodes()[0];
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let output = std::process::Command::new(&client[0])
            .args(&client[1..])
            .args([
                "-p",
                &primary.port.to_string(),
                "--no-auth-warning",
                "-a",
                &lab.credentials().valkey.password,
            ])
            .args(["WAIT", "2", "1000"])
            .output()
            .unwrap();
        if String::from_utf8_lossy(&output.stdout).trim() == "2" {
            break;
        }
        assert!(Instant::now() < deadline, "{output:?}");
    }
}
