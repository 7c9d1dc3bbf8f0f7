//! `bloodraven-fencer`: fences, drains and unfences the source of a run.

mod work;

use std::process::ExitCode;

use bloodraven_service::config::Config as _;
use bloodraven_service::{BoxError, Context};
use bloodraven_worker::{DatabaseConfig, Wires, serve};

use crate::work::Fencer;

fn main() -> ExitCode {
    bloodraven_service::run(
        "fencer",
        env!("CARGO_PKG_VERSION"),
        "Fences, drains and unfences the source of a run.",
        start,
    )
}

/// Connects, begins to serve orders and returns; the process goes on until a signal or a failure.
async fn start(context: Context<DatabaseConfig>) -> Result<(), BoxError> {
    let wires = Wires::connect(&context).await?;
    let hands = wires.hands(context.binary, &context.config.common().mysql);
    serve(&context, &wires, Fencer::new(hands, &wires)).await
}
