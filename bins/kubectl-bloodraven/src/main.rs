//! kubectl-bloodraven: the administrator's tool. It reads and writes the API server; `runs` alone reads the bus.
//!
//! ```text
//! status ─► read ─► render(group, now)
//! promote ─► read ─► judge ─► conditioned annotation ─► watch ─► follow ─► exit code by outcome
//! ```

mod api;
mod args;
mod ending;
mod exit;
mod follow;
mod hold;
mod marker;
mod promote;
mod render;
mod request;
mod runs;
mod status;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use bloodraven_types::Timestamp;
use clap::Parser;

use api::Server;
use args::{Arguments, Verb};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing is left to do when the terminal is gone.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::SUCCESS });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = match runtime {
        Ok(runtime) => runtime.block_on(run(&arguments)),
        Err(error) => Err(error.into()),
    };
    ExitCode::from(code.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        exit::UNAVAILABLE
    }))
}

async fn run(arguments: &Arguments) -> anyhow::Result<u8> {
    if let Verb::Runs(options) = &arguments.verb {
        return runs::run(&arguments.cluster, options).await;
    }
    let server = Server::connect(&arguments.cluster).await?;
    match &arguments.verb {
        Verb::Status(options) => status::run(&server, options).await,
        Verb::Promote(options) => promote::run(&server, options).await,
        Verb::Runs(options) => runs::run(&arguments.cluster, options).await,
        Verb::AckPlannedFailoverHold(options) => hold::run(&server, options).await,
    }
}

/// The wall clock, for ages and retry times on the terminal.
#[expect(clippy::disallowed_methods, reason = "a tool for people has no simulated time")]
pub(crate) fn now() -> Timestamp {
    Timestamp::new(jiff::Timestamp::now())
}
