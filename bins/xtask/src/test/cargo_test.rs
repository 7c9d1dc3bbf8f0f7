//! Runs a level under `cargo test`, which is there wherever cargo is.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, bail};

use super::level::{Count, Level, needs_servers, test_targets};
use crate::workspace::Workspace;

/// Runs the level's tests whose names contain `filter`.
pub(crate) fn run(workspace: &Workspace, level: Level, filter: Option<&str>) -> anyhow::Result<Count> {
    let Some(arguments) = arguments(workspace, level)? else {
        return Ok(Count::default());
    };
    let mut command = workspace.cargo(["test", "--workspace", "--no-fail-fast"]);
    command.args(arguments).arg("--").args(filter);
    if level == Level::Lab {
        command.arg("--test-threads=2");
    }
    command.env("BLOODRAVEN_PROGRAMS", workspace.programs());
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting cargo test")?;
    let stdout = child.stdout.take().context("reading what cargo test says")?;
    let mut count = Count::default();
    let mut binaries = 0_u64;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("reading what cargo test says")?;
        match read_line(&line) {
            Line::Result { passed, failed } => {
                count.passed += passed;
                count.failed += failed;
                binaries += 1;
            }
            Line::Ignored(name, reason) => count.skipped.push((name, reason)),
            Line::Uninteresting => {}
            Line::Other => println!("{line}"),
        }
    }
    let status = child.wait().context("waiting for cargo test")?;
    if !status.success() && count.failed == 0 {
        bail!("cargo test ended with {status} although no test failed ({binaries} test programs ran)");
    }
    Ok(count)
}

/// What selects the level's targets; nothing when it has none.
fn arguments(workspace: &Workspace, level: Level) -> anyhow::Result<Option<Vec<String>>> {
    let mut arguments = match level {
        Level::Doc => return Ok(Some(vec!["--doc".to_owned()])),
        Level::Unit => vec!["--lib".to_owned(), "--bins".to_owned()],
        Level::Lab => Vec::new(),
    };
    for target in test_targets(workspace, |name| needs_servers(name) == (level == Level::Lab))? {
        arguments.extend(["--test".to_owned(), target]);
    }
    Ok((!arguments.is_empty()).then_some(arguments))
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Result { passed: u64, failed: u64 },
    Ignored(String, String),
    Uninteresting,
    Other,
}

fn read_line(line: &str) -> Line {
    if let Some(rest) = line.strip_prefix("test result: ") {
        let number = |word: &str| {
            let part = rest.split([';', '.']).find_map(|part| part.trim().strip_suffix(word))?;
            part.trim().parse().ok()
        };
        return Line::Result {
            passed: number("passed").unwrap_or_default(),
            failed: number("failed").unwrap_or_default(),
        };
    }
    match line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
        Some((name, state)) if state.starts_with("ignored") => {
            let reason = state.strip_prefix("ignored, ").unwrap_or("marked #[ignore]");
            Line::Ignored(name.to_owned(), reason.to_owned())
        }
        Some((_, "ok")) => Line::Uninteresting,
        Some(_) => Line::Other,
        None if line.trim().is_empty() || line.starts_with("running ") => Line::Uninteresting,
        None => Line::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results and ignored tests with their reason are read; failures are shown.
    #[test]
    fn lines_are_read() {
        let result =
            "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(read_line(result), Line::Result { passed: 5, failed: 2 });
        let ignored = "test fence::slow ... ignored, needs a day";
        assert_eq!(
            read_line(ignored),
            Line::Ignored("fence::slow".to_owned(), "needs a day".to_owned())
        );
        assert_eq!(read_line("test fence::fast ... ok"), Line::Uninteresting);
        assert_eq!(read_line("test fence::bad ... FAILED"), Line::Other);
    }
}
