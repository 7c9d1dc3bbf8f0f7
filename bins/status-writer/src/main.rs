//! `bloodraven-status-writer`: keeps the record of every run.

mod group;
mod keep;
mod report;

use std::process::ExitCode;

use bloodraven_service::{BoxError, Context, Service};
use bloodraven_worker::{BusOnlyConfig, Wires};

fn main() -> ExitCode {
    Service::new(
        "status-writer",
        env!("CARGO_PKG_VERSION"),
        "Keeps the record of every run: commits, then speaks.",
    )
    .describe(report::describe)
    .buckets(report::DURATION, report::DURATION_BUCKETS)
    .buckets(report::LAG_WAIT, report::LAG_WAIT_BUCKETS)
    .run(start)
}

/// Connects, begins to hear facts and to watch groups, and returns; the process goes on until a signal or a failure.
async fn start(context: Context<BusOnlyConfig>) -> Result<(), BoxError> {
    let wires = Wires::connect(&context).await?;
    keep::spawn(&context, &wires).await
}
