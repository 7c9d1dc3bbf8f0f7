//! bloodraven-xtask: what is done in a checkout of Bloodraven beside building it. `cargo xtask --help` lists the verbs.

mod demo;
mod generated;
mod lab;
mod layers;
mod test;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};

use workspace::Workspace;

/// Does the chores of a Bloodraven checkout: checks, generated files, the lab, the tests and the demonstration.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Refuses every dependency arrow between crates that the architecture does not draw.
    Layers,
    /// Writes the message schemas and the channel description, or compares the committed ones with the code.
    Schema(generated::Options),
    /// Writes the custom resource definition, or compares the committed one with the code.
    Crd(generated::Options),
    /// Installs, starts, ends and shows the real servers.
    #[command(subcommand)]
    Lab(lab::Verb),
    /// Runs the ledger with these arguments.
    #[command(disable_help_flag = true)]
    Ledger {
        /// See `cargo xtask ledger --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Runs every test, cheap levels first, and says how many ran at each level.
    Test(test::Options),
    /// Demonstrates planned failovers on real servers while an application writes, and judges them.
    Demo(demo::Options),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match &arguments.verb {
        Verb::Layers => layers::run(&workspace),
        Verb::Schema(options) => generated::schema(&workspace, options),
        Verb::Crd(options) => generated::crd(&workspace, options),
        Verb::Lab(verb) => lab::run(&workspace, verb),
        Verb::Ledger { arguments } => ledger(&workspace, arguments),
        Verb::Demo(options) => demo::run(&workspace, options),
        Verb::Test(options) => test::run(&workspace, options),
    }
}

fn ledger(workspace: &Workspace, arguments: &[OsString]) -> anyhow::Result<()> {
    let mut command = workspace.cargo(["run", "--quiet", "--package", "bloodraven-ledger", "--"]);
    let status = command.args(arguments).status().context("running the ledger")?;
    if !status.success() {
        bail!("the ledger ended with {status}");
    }
    Ok(())
}
