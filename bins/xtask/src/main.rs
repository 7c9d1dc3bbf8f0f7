//! bloodraven-xtask: what is done in a checkout of Bloodraven beside building it. `cargo xtask --help` lists the verbs.

mod layers;
mod test;
mod workspace;

use std::process::ExitCode;

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
    /// Runs every test, cheap levels first, and says how many ran at each level.
    Test(test::Options),
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
        Verb::Test(options) => test::run(&workspace, options),
    }
}
