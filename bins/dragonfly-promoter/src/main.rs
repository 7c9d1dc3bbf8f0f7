//! `bloodraven-dragonfly-promoter`: looks after the caches of the groups.

mod caches;

use std::process::ExitCode;

use bloodraven_service::{BoxError, Context};
use bloodraven_worker::{BusOnlyConfig, Wires};

fn main() -> ExitCode {
    bloodraven_service::run(
        "dragonfly-promoter",
        env!("CARGO_PKG_VERSION"),
        "Looks after the caches of the groups.",
        start,
    )
}

/// Connects, begins to watch groups and returns; the process goes on until a signal or a failure.
async fn start(context: Context<BusOnlyConfig>) -> Result<(), BoxError> {
    let wires = Wires::connect(&context).await?;
    caches::spawn(&context, &wires);
    Ok(())
}
