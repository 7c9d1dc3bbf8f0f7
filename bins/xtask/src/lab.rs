//! `cargo xtask lab`: the real servers, by hand.

use anyhow::Context;
use bloodraven_lab::{ConsoleProgress, Lab, LabOptions, LabStatus, Part, ProcessState};

use crate::workspace::Workspace;

/// What to do with the lab.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Brings the servers' programs into the cache folder; the API server is built from source, which takes minutes.
    Install {
        /// `mysql`, `nats`, `kube`, `valkey`. Default: all of them.
        parts: Vec<Part>,
    },
    /// Starts a lab that stays up: three MySQL sites, three NATS servers, an API server with our manifests.
    Up {
        /// The lab's name.
        #[arg(long, default_value = "default")]
        name: String,
        /// Starts a Valkey server for each site too.
        #[arg(long)]
        valkey: bool,
    },
    /// Ends a lab and removes its files.
    Down {
        /// The lab's name.
        #[arg(long, default_value = "default")]
        name: String,
    },
    /// Shows what runs.
    Status {
        /// The lab's name. Default: every lab.
        #[arg(long)]
        name: Option<String>,
        /// As JSON, a list of labs.
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
pub(crate) fn run(workspace: &Workspace, verb: &Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Install { parts } if parts.is_empty() => install(&Part::ALL),
        Verb::Install { parts } => install(parts),
        Verb::Up { name, valkey } => up(workspace, name, *valkey),
        Verb::Down { name } => {
            Lab::attach(name)?.down()?;
            println!("lab {name} is down");
            Ok(())
        }
        Verb::Status { name, json } => status(name.as_deref(), *json),
    }
}

/// Installs the parts that are not there.
pub(crate) fn install(parts: &[Part]) -> anyhow::Result<()> {
    bloodraven_lab::install(parts, &ConsoleProgress::new()).context("installing the lab")
}

fn up(workspace: &Workspace, name: &str, valkey: bool) -> anyhow::Result<()> {
    let options = LabOptions {
        name: name.to_owned(),
        valkey,
        ..LabOptions::default()
    };
    let options = options
        .with_manifests(workspace.path("k8s/crds"))
        .with_manifests(workspace.path("k8s/rbac"));
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let mut lab = runtime.block_on(Lab::up(options))?;
    lab.detach()?;
    print_status(&lab.status());
    for identity in lab.identities() {
        println!(
            "export KUBECONFIG={}   # as {identity}",
            lab.kubeconfig(&identity)?.display()
        );
    }
    println!("end it with: cargo xtask lab down --name {name}");
    Ok(())
}

fn status(name: Option<&str>, json: bool) -> anyhow::Result<()> {
    let names = name.map_or_else(Lab::list, |name| vec![name.to_owned()]);
    let labs: Vec<LabStatus> = names
        .iter()
        .map(|name| Lab::attach(name).map(|lab| lab.status()))
        .collect::<Result<_, _>>()?;
    if json {
        println!("{}", serde_json::to_string_pretty(&labs).context("writing the status")?);
        return Ok(());
    }
    if labs.is_empty() {
        println!("no lab is up");
    }
    labs.iter().for_each(print_status);
    Ok(())
}

fn print_status(lab: &LabStatus) {
    let detached = if lab.detached {
        ""
    } else {
        ", ends with the program that started it"
    };
    println!("lab {} in {}{detached}", lab.name, lab.dir.display());
    for process in &lab.processes {
        let state = match process.state {
            ProcessState::Running => "running",
            ProcessState::Paused => "paused",
            ProcessState::Stopped => "stopped",
        };
        let pid = process.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let megabytes = process.resident_bytes.unwrap_or_default() / 1_000_000;
        let ports: Vec<String> = process
            .ports
            .iter()
            .map(|(purpose, address)| format!("{purpose} {address}"))
            .collect();
        println!(
            "  {:<16} {state:<8} pid {pid:<8} {megabytes:>4} MB  {}",
            process.name.to_string(),
            ports.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use bloodraven_lab::SYSTEM_PACKAGES;

    /// The CI run and the README install exactly the packages that the lab needs.
    #[test]
    fn the_packages_are_the_same_everywhere() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let list = SYSTEM_PACKAGES.join(" ");
        for file in [".ci/run", "README.md"] {
            let text = std::fs::read_to_string(format!("{root}/{file}")).unwrap();
            assert!(text.contains(&list), "{file} does not have the line {list:?}");
        }
    }
}
