//! NATS servers: a cluster with JetStream that syncs every write to disk before it acknowledges it.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::error::LabError;
use crate::files;
use crate::http;
use crate::install::nats_server;
use crate::ports::PortPlan;
use crate::process::{ProcessName, ProcessSpec};
use crate::state::{Credentials, NatsNode};

/// Servers of the cluster: the least that keep a replicated stream when one is lost.
pub(crate) const SERVERS: u8 = 3;

/// Plans all servers of the cluster and writes their configuration.
pub(crate) fn plan(
    lab_dir: &Path,
    lab_name: &str,
    credentials: &Credentials,
    ports: &mut PortPlan,
) -> Result<Vec<(NatsNode, ProcessSpec)>, LabError> {
    let program = nats_server()?;
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut nodes = Vec::new();
    for number in 1..=SERVERS {
        let name = ProcessName::Nats(number);
        nodes.push(NatsNode {
            number,
            host,
            port: ports.take(&name.to_string(), host)?,
            cluster_port: ports.take(&format!("{name}-cluster"), host)?,
            monitoring_port: ports.take(&format!("{name}-monitoring"), host)?,
            log: lab_dir.join(name.to_string()).join("nats.log"),
        });
    }
    let routes: Vec<String> = nodes
        .iter()
        .map(|node| format!("nats-route://{}:{}", node.host, node.cluster_port))
        .collect();
    let mut planned = Vec::new();
    for node in nodes {
        let name = ProcessName::Nats(node.number);
        let dir = lab_dir.join(name.to_string());
        files::create_private_dir(&dir).map_err(|source| LabError::io("create", &dir, source))?;
        let config = dir.join("nats.conf");
        let text = configuration(&node, lab_name, &dir, &routes, credentials);
        files::write_private(&config, text.as_bytes())?;
        let listening = [
            ("client".to_owned(), node.address()),
            ("monitoring".to_owned(), node.monitoring_address()),
        ];
        let spec = ProcessSpec {
            name,
            program: program.clone(),
            args: vec!["--config".to_owned(), config.display().to_string()],
            log: node.log.clone(),
            ports: listening.into(),
            stale_files: Vec::new(),
            dir,
        };
        planned.push((node, spec));
    }
    Ok(planned)
}

/// Whether the server serves clients; JetStream needs more than this one.
pub(crate) async fn is_ready(node: &NatsNode) -> bool {
    http::get(node.monitoring_address(), "/healthz?js-server-only=true")
        .await
        .is_some_and(|(status, _)| status == 200)
}

/// Whether the cluster has elected the leader without which no stream can be made.
pub(crate) async fn has_meta_leader(node: &NatsNode) -> bool {
    let Some((200, body)) = http::get(node.monitoring_address(), "/jsz").await else {
        return false;
    };
    let Ok(json) = serde_json::from_str::<serde_json::Value>(&body) else {
        return false;
    };
    let cluster = json.get("meta_cluster");
    let leader = cluster
        .and_then(|cluster| cluster.get("leader"))
        .and_then(serde_json::Value::as_str);
    let size = cluster
        .and_then(|cluster| cluster.get("cluster_size"))
        .and_then(serde_json::Value::as_u64);
    leader.is_some_and(|name| !name.is_empty()) && size == Some(u64::from(SERVERS))
}

fn configuration(node: &NatsNode, lab_name: &str, dir: &Path, routes: &[String], credentials: &Credentials) -> String {
    let user = |account: &crate::state::Account| {
        format!("{{ user: \"{}\", password: \"{}\" }}", account.user, account.password)
    };
    format!(
        "server_name: n{number}\nlisten: {client}\nhttp: {monitoring}\nlog_file: \"{log}\"\n\
         jetstream {{ store_dir: \"{store}\", max_mem: 64MB, max_file: 1GB, sync_interval: always }}\n\
         cluster {{ name: \"{lab_name}\", listen: {host}:{cluster_port}, no_advertise: true, routes: [ {routes} ] }}\n\
         accounts {{\n  $SYS {{ users: [ {system} ] }}\n  BLOODRAVEN {{ jetstream: enabled, users: [ {controllers} ] }}\n}}\n",
        number = node.number,
        client = node.address(),
        monitoring = node.monitoring_address(),
        log = node.log.display(),
        store = dir.join("jetstream").display(),
        host = node.host,
        cluster_port = node.cluster_port,
        routes = routes.join(", "),
        system = user(&credentials.nats_system),
        controllers = user(&credentials.nats),
    )
}
