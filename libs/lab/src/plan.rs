//! Turns options into a lab's state: every server with its ports, files and command line, nothing started yet.

use std::path::Path;

use crate::error::LabError;
use crate::options::LabOptions;
use crate::ports::PortPlan;
use crate::process::ProcessId;
use crate::servers::{kube, mysql, nats, valkey};
use crate::state::{Credentials, LabState, ValkeyNode};

/// Plans all servers and writes their configuration into the lab's folder.
pub(crate) fn plan(dir: &Path, options: &LabOptions, credentials: Credentials) -> Result<LabState, LabError> {
    let mut ports = PortPlan::reserve(dir, &options.ports)?;
    let mut state = LabState {
        name: options.name.clone(),
        owner: ProcessId::own(),
        mysql: Vec::new(),
        nats: Vec::new(),
        valkey: Vec::new(),
        kube: None,
        credentials,
        processes: Vec::new(),
    };
    if options.mysql {
        for (index, site) in options.sites.iter().enumerate() {
            let (node, spec) = mysql::plan(dir, options, index, site, &mut ports)?;
            state.mysql.push(node);
            state.processes.push(spec);
        }
    }
    if options.nats {
        for (node, spec) in nats::plan(dir, &options.name, &state.credentials, &mut ports)? {
            state.nats.push(node);
            state.processes.push(spec);
        }
    }
    if options.valkey {
        for site in &options.sites {
            let primary: Option<ValkeyNode> = state.valkey.first().cloned();
            let (node, spec) = valkey::plan(dir, site, primary.as_ref(), &state.credentials.valkey, &mut ports)?;
            state.valkey.push(node);
            state.processes.push(spec);
        }
    }
    if options.kube {
        let (node, specs) = kube::plan(dir, &mut ports)?;
        state.kube = Some(node);
        state.processes.extend(specs);
    }
    ports.finish()?;
    Ok(state)
}
