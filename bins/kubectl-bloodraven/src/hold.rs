//! `ack-planned-failover-hold`: says that the sites were put in order by hand.

use bloodraven_types::annotation::ACKNOWLEDGE_HOLD;
use bloodraven_types::words::Outcome;
use bloodraven_types::{Group, RunId};

use crate::api::{Server, Written};
use crate::args::AckHold;
use crate::exit;
use crate::marker::Marker;

/// How often the acknowledgement is tried because somebody changed the group in between.
const ATTEMPTS: u32 = 10;

/// Acknowledges the hold that stands.
pub(crate) async fn run(server: &Server, options: &AckHold) -> anyhow::Result<u8> {
    for _ in 0..ATTEMPTS {
        let group = server.group(&options.group).await?;
        let Some(run_id) = held_run(&group) else {
            eprintln!("no automation hold stands for {}", group.key);
            return Ok(exit::NOT_STARTED);
        };
        if server.annotate(&group, ACKNOWLEDGE_HOLD, &run_id.to_string()).await? == Written::Done {
            println!("acknowledged the automation hold of run {run_id} on {}", group.key);
            return Ok(exit::SUCCESS);
        }
    }
    eprintln!("the group kept changing; nothing was acknowledged");
    Ok(exit::UNAVAILABLE)
}

/// The run whose hold stands: on the status, or carried by the terminal marker alone.
pub(crate) fn held_run(group: &Group) -> Option<RunId> {
    let on_status = group.status.planned_failover_hold.as_ref().map(|hold| hold.run_id);
    let on_marker = || {
        let marker = Marker::of(group).filter(|marker| marker.outcome == Outcome::ManualRecoveryRequired)?;
        Some(marker.run_id)
    };
    on_status.or_else(on_marker)
}
