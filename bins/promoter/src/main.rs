//! `bloodraven-promoter`: opens the target of a run behind the pre-write gate, or brings it back.

mod work;

use std::process::ExitCode;

use bloodraven_service::config::Config as _;
use bloodraven_service::{BoxError, Context};
use bloodraven_worker::{DatabaseConfig, Wires, serve};

use crate::work::Promoter;

fn main() -> ExitCode {
    bloodraven_service::run(
        "promoter",
        env!("CARGO_PKG_VERSION"),
        "Opens the target of a run behind the pre-write gate, or brings it back.",
        start,
    )
}

/// Connects, begins to serve orders and returns; the process goes on until a signal or a failure.
async fn start(context: Context<DatabaseConfig>) -> Result<(), BoxError> {
    let wires = Wires::connect(&context).await?;
    let hands = wires.hands(context.binary, &context.config.common().mysql);
    serve(&context, &wires, Promoter::new(hands, &wires)).await
}
