//! `bloodraven-lag-watcher`: waits until the target of a run holds exactly the fenced set.

mod work;

use std::process::ExitCode;

use bloodraven_service::config::Config as _;
use bloodraven_service::{BoxError, Context};
use bloodraven_worker::{DatabaseConfig, Wires, serve};

use crate::work::LagWatcher;

fn main() -> ExitCode {
    bloodraven_service::run(
        "lag-watcher",
        env!("CARGO_PKG_VERSION"),
        "Waits until the target of a run holds exactly the fenced set.",
        start,
    )
}

/// Connects, begins to serve orders and returns; the process goes on until a signal or a failure.
async fn start(context: Context<DatabaseConfig>) -> Result<(), BoxError> {
    let wires = Wires::connect(&context).await?;
    let hands = wires.hands(context.binary, &context.config.common().mysql);
    serve(&context, &wires, LagWatcher::new(hands, &wires)).await
}
