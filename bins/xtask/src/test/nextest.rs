//! Runs a level under cargo-nextest, one process a test.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::level::{Count, Level, SERVER_TARGETS, ignore_reason};
use crate::workspace::Workspace;

#[derive(Debug, Deserialize)]
struct List {
    #[serde(rename = "rust-suites")]
    suites: std::collections::BTreeMap<String, Suite>,
}

#[derive(Debug, Deserialize)]
struct Suite {
    cwd: PathBuf,
    #[serde(default)]
    testcases: std::collections::BTreeMap<String, TestCase>,
}

#[derive(Debug, Deserialize)]
struct TestCase {
    #[serde(rename = "filter-match")]
    filter_match: FilterMatch,
}

#[derive(Debug, Deserialize)]
struct FilterMatch {
    status: String,
}

/// Whether nextest is there.
pub(crate) fn is_installed(workspace: &Workspace) -> bool {
    let status = workspace
        .cargo(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Runs the level's tests whose names contain `filter`.
pub(crate) fn run(workspace: &Workspace, level: Level, filter: Option<&str>) -> anyhow::Result<Count> {
    let mut command = nextest(workspace, "run", level, filter);
    command.args([
        "--no-fail-fast",
        "--no-tests=pass",
        "--status-level=slow",
        "--color=never",
    ]);
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .context("starting cargo nextest")?;
    let stderr = child.stderr.take().context("reading what nextest says")?;
    let mut summary = None;
    for line in BufReader::new(stderr).lines() {
        let line = line.context("reading what nextest says")?;
        eprintln!("{line}");
        summary = read_summary(&line).or(summary);
    }
    let status = child.wait().context("waiting for nextest")?;
    let (passed, failed) = match summary {
        Some(counts) => counts,
        None if status.success() => (0, 0),
        None => bail!("nextest ran no test and ended with {status}"),
    };
    if !status.success() && failed == 0 {
        bail!("nextest ended with {status} although no test failed");
    }
    let skipped = ignored(workspace, level, filter)?;
    Ok(Count {
        passed,
        failed,
        skipped,
        ..Count::default()
    })
}

fn nextest(workspace: &Workspace, verb: &str, level: Level, filter: Option<&str>) -> Command {
    let server_tests = format!("({})", server_tests());
    let expression = if level == Level::Lab {
        server_tests
    } else {
        format!("not {server_tests}")
    };
    let mut command = workspace.cargo(["nextest", verb, "--workspace", "-E", &expression]);
    command.args(filter);
    command.env("BLOODRAVEN_PROGRAMS", workspace.programs());
    command
}

/// Test targets that need real servers, in nextest's filter language.
fn server_tests() -> String {
    format!("kind(test) & binary(/^({}|e2e.*)$/)", SERVER_TARGETS.join("|"))
}

/// The tests marked `#[ignore]`; nextest counts those of other levels as skipped too, so its own number says nothing.
fn ignored(workspace: &Workspace, level: Level, filter: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    let output = nextest(workspace, "list", level, filter)
        .args(["--run-ignored", "only", "--message-format", "json"])
        .stderr(Stdio::null())
        .output()
        .context("listing tests")?;
    if !output.status.success() {
        bail!("cargo nextest list failed with {}", output.status);
    }
    let list: List = serde_json::from_slice(&output.stdout).context("reading the list of tests")?;
    let of_suite = |(name, suite): (String, Suite)| {
        let ignored = suite
            .testcases
            .into_iter()
            .filter(|(_, test)| test.filter_match.status == "matches");
        ignored.map(move |(test, _)| {
            let reason = ignore_reason(&suite.cwd, &test).unwrap_or_else(|| "marked #[ignore]".to_owned());
            (format!("{name} {test}"), reason)
        })
    };
    Ok(list.suites.into_iter().flat_map(of_suite).collect())
}

/// Reads `Summary [   1.2s] 10 tests run: 9 passed (1 slow), 1 failed, 3 skipped` into how many passed and how many did not.
fn read_summary(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.trim_start().strip_prefix("Summary [")?.split_once(']')?;
    let (run, outcomes) = rest.split_once(" run: ")?;
    // A run that was cut short says how many of how many: `5/9 tests`.
    let run: u64 = run.trim().split([' ', '/']).next()?.parse().ok()?;
    let passed = outcomes
        .split(',')
        .find_map(|part| part.trim().split_once(" passed"))?
        .0
        .parse()
        .ok()?;
    Some((passed, run.saturating_sub(passed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever calls nextest directly gets the same two tests at a time.
    #[test]
    fn nextest_itself_knows_the_tests_on_servers() {
        let config = include_str!("../../../../.config/nextest.toml");
        assert!(
            config.contains(&format!("filter = '{}'", server_tests())),
            "{}",
            server_tests()
        );
    }

    /// The summary line is read whether or not tests failed, were slow, or a run was cut short.
    #[test]
    fn summaries_are_read() {
        let cases = [
            (
                "     Summary [   0.010s] 9 tests run: 9 passed, 0 skipped",
                Some((9, 0)),
            ),
            (
                "     Summary [   1.210s] 1 test run: 1 passed (1 slow), 3 skipped",
                Some((1, 0)),
            ),
            (
                "     Summary [   9.000s] 10 tests run: 7 passed (1 leaky), 2 failed, 1 timed out, 0 skipped",
                Some((7, 3)),
            ),
            (
                "     Summary [   9.000s] 5/9 tests run: 4 passed, 1 failed, 0 skipped",
                Some((4, 1)),
            ),
            ("        PASS [   0.005s] bloodraven-types words", None),
        ];
        for (line, expected) in cases {
            assert_eq!(read_summary(line), expected, "{line}");
        }
    }
}
