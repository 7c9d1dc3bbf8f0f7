//! `cargo xtask test`: every test of the workspace, cheap levels first, with a count for each level.
//!
//! ```text
//! build the programs ─► install the lab ─► unit and property tests ─► documentation examples ─► tests on real servers
//! ```
//!
//! A test on real servers is one whose test target is named so ([`level::SERVER_TARGETS`]); everything else is a unit
//! or property test. A level that fails does not keep the next from running.

mod cargo_test;
mod level;
mod nextest;

use std::time::Instant;

use anyhow::{Context, bail};
use bloodraven_lab::Part;

use crate::workspace::Workspace;
use level::{Count, Level};

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs only the tests whose name contains this.
    filter: Option<String>,
    /// Runs only this level; may be given more than once.
    #[arg(long, value_enum)]
    level: Vec<Level>,
    /// Uses `cargo test` even where cargo-nextest is installed.
    #[arg(long)]
    no_nextest: bool,
}

/// Runs the levels and reports. An error when a test failed or a level could not be run.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let begin = Instant::now();
    let levels: Vec<Level> = Level::ALL
        .into_iter()
        .filter(|level| options.level.is_empty() || options.level.contains(level))
        .collect();
    if levels.contains(&Level::Lab) {
        prepare(workspace)?;
    }
    let nextest = !options.no_nextest && nextest::is_installed(workspace);
    if !nextest {
        println!("cargo-nextest is not used; the tests run under cargo test");
    }
    let mut counts = Vec::new();
    for level in levels {
        println!("\n== {} ==", level.title());
        let started = Instant::now();
        let filter = options.filter.as_deref();
        let count = match level {
            Level::Unit | Level::Lab if nextest => nextest::run(workspace, level, filter),
            Level::Unit | Level::Lab | Level::Doc => cargo_test::run(workspace, level, filter),
        };
        let mut count = count.with_context(|| format!("running the {}", level.title()))?;
        count.elapsed = started.elapsed();
        counts.push((level, count));
    }
    report(&counts);
    let total = counts.iter().fold(Count::default(), |sum, (_, count)| sum.plus(count));
    println!("wall time {:.0?}", begin.elapsed());
    println!(
        "{} passed, {} failed, {} skipped",
        total.passed,
        total.failed,
        total.skipped.len()
    );
    if total.failed > 0 {
        bail!("{} tests failed", total.failed);
    }
    Ok(())
}

/// Builds the programs that the tests start, and brings the servers they need.
fn prepare(workspace: &Workspace) -> anyhow::Result<()> {
    println!("== building the programs ==");
    workspace.build_programs(false)?;
    println!("\n== installing the lab ==");
    crate::lab::install(&Part::ALL)
}

fn report(counts: &[(Level, Count)]) {
    println!();
    for (level, count) in counts {
        let Count {
            passed,
            failed,
            skipped,
            elapsed,
        } = count;
        let ran = passed + failed;
        println!(
            "{:<26} {ran:>5} ran, {passed} passed, {failed} failed, {} skipped in {elapsed:.1?}",
            level.title(),
            skipped.len()
        );
        for (name, reason) in skipped {
            println!("    skipped {name}: {reason}");
        }
    }
}
