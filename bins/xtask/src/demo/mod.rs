//! `cargo xtask demo`: planned failovers on real servers while an application writes, and the ledger's verdict.
//!
//! ```text
//! install ─► build ─► stack up ─► writers ─► kubectl annotate: iad ─► pdx ─► kubectl bloodraven promote: pdx ─► iad ─► …
//!   ─► timelines from the records on the bus ─► the ledger's verdict ─► down
//! ```

mod outcome;
mod play;
mod story;

use std::path::PathBuf;

use anyhow::{Context, bail};
use bloodraven_lab::Part;
use tokio::signal::unix::{SignalKind, signal};

use crate::workspace::Workspace;

/// How to demonstrate.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many planned failovers, alternating between the two candidates.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    switchovers: u32,
    /// Writes what happened to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leaves everything up afterwards, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Uses optimised programs.
    #[arg(long)]
    release: bool,
}

/// Demonstrates; an error when a run did not succeed or the ledger is not clean.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    story::heading("installing the servers");
    crate::lab::install(&[Part::Nats, Part::Mysql, Part::Kube])?;
    story::heading("building the programs");
    let programs = workspace.build_programs(options.release)?;
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let outcome = runtime.block_on(async {
        // Everything that was started ends with the future, so neither Ctrl-C nor a plain kill leaves anything behind.
        tokio::select! {
            outcome = play::play(workspace, programs, options) => outcome.map(Some),
            interrupted = interruption() => interrupted.map(|()| None),
        }
    })?;
    let Some(outcome) = outcome else {
        bail!("everything is down, as was asked for")
    };
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&outcome).context("writing the outcome")?;
        std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    outcome.verdict()
}

/// Completes when somebody asks for the end.
async fn interruption() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt.context("listening for Ctrl-C"),
        _ = terminate.recv() => Ok(()),
    }
}
