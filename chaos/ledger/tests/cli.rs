//! The binary's exit status, without a server.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy knows only the test functions themselves"
)]

use std::path::Path;
use std::process::{Command, Output};

fn ledger(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bloodraven-ledger"))
        .args(arguments)
        .env("LEDGER_TEST_PASSWORD", "hush")
        .output()
        .unwrap()
}

fn status(arguments: &[&str]) -> i32 {
    ledger(arguments).status.code().unwrap()
}

fn in_folder(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

/// Wrong usage of any kind exits 64, and help does not.
#[test]
fn wrong_usage_exits_64() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_folder(folder.path(), "ledger.sqlite");
    let write = [
        "write",
        "--endpoint",
        "127.0.0.1:1",
        "--store",
        &store,
        "--password-env",
    ];
    assert_eq!(status(&[]), 64);
    assert_eq!(status(&["judge"]), 64);
    assert_eq!(status(&["write", "--store", &store]), 64);
    assert_eq!(
        status(&["report", "--store", &store, "--password-env", "LEDGER_TEST_PASSWORD"]),
        64
    );
    assert_eq!(status(&[&write[..], &["LEDGER_TEST_UNSET"]].concat()), 64);
    assert_eq!(
        status(&[&write[..], &["LEDGER_TEST_PASSWORD", "--tick", "soon"]].concat()),
        64
    );
    assert_eq!(
        status(&[&write[..], &["LEDGER_TEST_PASSWORD", "--writers", "0"]].concat()),
        64
    );
    assert_eq!(
        status(&[&write[..], &["LEDGER_TEST_PASSWORD", "--table", "a`b"]].concat()),
        64
    );
    assert_eq!(status(&["--help"]), 0);
}

/// A run in which nobody answers is not clean, is recorded all the same, and shows no password; a report that cannot be
/// made is neither clean nor unclean.
#[test]
fn a_run_without_a_server_is_not_clean() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_folder(folder.path(), "ledger.sqlite");
    // Port 1 is closed on any machine that runs these tests.
    let run = [
        "--endpoint",
        "127.0.0.1:1",
        "--store",
        &store,
        "--for",
        "100ms",
        "--password-env",
        "LEDGER_TEST_PASSWORD",
    ];
    let output = ledger(&[&["write"][..], &run[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "0 acknowledged, 0 refused, 0 unknown\n"
    );
    assert!(!String::from_utf8_lossy(&output.stderr).contains("hush"));
    let (history, _) = bloodraven_ledger::load(Path::new(&store)).unwrap();
    assert!(!history.connect_failures.is_empty());
    let report = [
        "report",
        "--store",
        &store,
        "--survivor",
        "iad=127.0.0.1:1",
        "--password-env",
        "LEDGER_TEST_PASSWORD",
    ];
    assert_eq!(status(&report), 69);
}
