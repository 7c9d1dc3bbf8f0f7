//! `bloodraven-publisher`: makes labels and DNS follow the record.

mod reconcile;
mod work;

use std::process::ExitCode;

use bloodraven_kubernetes::KubernetesPublication;
use bloodraven_service::{BoxError, Context, Service};
use bloodraven_worker::{BusOnlyConfig, Wires, serve};

use crate::work::Publisher;

fn main() -> ExitCode {
    Service::new(
        "publisher",
        env!("CARGO_PKG_VERSION"),
        "Makes role labels and DNS follow the record.",
    )
    .describe(reconcile::describe)
    .run(start)
}

/// Connects, begins to serve orders and to watch groups, and returns.
async fn start(context: Context<BusOnlyConfig>) -> Result<(), BoxError> {
    let wires = Wires::connect(&context).await?;
    let publication = KubernetesPublication::new(wires.client.clone());
    reconcile::spawn(&context, &wires, publication.clone());
    serve(&context, &wires, Publisher::new(&wires, publication)).await
}
