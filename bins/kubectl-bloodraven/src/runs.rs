//! `runs`: what the bus knows of a group's runs. It needs no API server.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bloodraven_bus::{BusOptions, connect, read_run};
use bloodraven_types::GroupKey;

use crate::args::{Cluster, Runs};
use crate::exit;
use crate::render::{runs, story};

/// How long the bus may take to answer.
const ANSWER_BUDGET: Duration = Duration::from_secs(5);
/// Pause between two looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// Lists the runs of the group, or tells the story of one.
pub(crate) async fn run(cluster: &Cluster, options: &Runs) -> anyhow::Result<u8> {
    let group = GroupKey::new(crate::api::namespace(cluster).await, options.group.clone());
    let bus = BusOptions {
        urls: options.bus.clone(),
        credentials: None,
        certificates: options.bus_ca_file.clone(),
        name: "kubectl-bloodraven".to_owned(),
    };
    let connection = connect(bus).await?;
    let started = Instant::now();
    // The connection is made in the background, so the first look comes too early.
    while !connection.answers_within(ANSWER_BUDGET).await {
        if started.elapsed() > ANSWER_BUDGET {
            bail!("no server of the bus answers");
        }
        tokio::time::sleep(INTERVAL).await;
    }
    let messages = read_run(&connection, &group, None)
        .await
        .context("reading the stream")?;
    let Some(wanted) = &options.run_id else {
        print!("{}", runs(&messages));
        return Ok(exit::SUCCESS);
    };
    let latest = messages
        .last()
        .filter(|_| wanted == "latest")
        .map(|message| message.about.run_id.to_string());
    let wanted = latest.as_ref().unwrap_or(wanted);
    let own: Vec<_> = messages
        .into_iter()
        .filter(|message| message.about.run_id.to_string().starts_with(wanted.as_str()))
        .collect();
    print!("{}", story(&own));
    Ok(if own.is_empty() {
        exit::NOT_STARTED
    } else {
        exit::SUCCESS
    })
}
