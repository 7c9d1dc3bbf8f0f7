//! `bloodraven-admission`: turns annotations into requests.

mod requests;

use std::process::ExitCode;

use bloodraven_service::{BoxError, Context};
use bloodraven_worker::{BusOnlyConfig, Wires};

fn main() -> ExitCode {
    bloodraven_service::run(
        "admission",
        env!("CARGO_PKG_VERSION"),
        "Turns planned-failover annotations into requests.",
        start,
    )
}

/// Connects, begins to watch groups and returns; the process goes on until a signal or a failure.
async fn start(context: Context<BusOnlyConfig>) -> Result<(), BoxError> {
    let wires = Wires::connect(&context).await?;
    requests::spawn(&context, &wires);
    Ok(())
}
