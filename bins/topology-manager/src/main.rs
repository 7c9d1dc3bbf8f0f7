//! `bloodraven-topology-manager`: knows what every site does, and probes the claim.

mod grant;
mod group;
mod report;
mod site;
mod watch;

use std::process::ExitCode;

use bloodraven_service::config::Config as _;
use bloodraven_service::{BoxError, Context, Service};
use bloodraven_worker::{DatabaseConfig, Wires, serve};

fn main() -> ExitCode {
    let purpose = "Knows what every site does, probes the claim and keeps followers at the primary.";
    Service::new("topology-manager", env!("CARGO_PKG_VERSION"), purpose)
        .describe(report::describe)
        .run(start)
}

/// Connects, begins to probe and returns; the process goes on until a signal or a failure.
async fn start(context: Context<DatabaseConfig>) -> Result<(), BoxError> {
    let wires = Wires::connect(&context).await?;
    let hands = wires.hands(context.binary, &context.config.common().mysql);
    watch::spawn(&context, &wires, hands.clone());
    serve(&context, &wires, grant::Prober::new(hands, &wires)).await
}
