//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use bloodraven_types::time::Span;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Shows and asks for planned failovers of MySQL failover groups.
#[derive(Debug, Parser)]
#[command(name = "kubectl-bloodraven", bin_name = "kubectl bloodraven", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Which API server and namespace.
#[derive(Debug, Args)]
pub(crate) struct Cluster {
    /// Kubeconfig file. Default: $KUBECONFIG, else ~/.kube/config.
    #[arg(long, global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig file.
    #[arg(long, global = true)]
    pub(crate) context: Option<String>,
    /// Namespace. Default: the context's.
    #[arg(long, short, global = true)]
    pub(crate) namespace: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Shows one group in detail, or all groups in a list.
    Status(Status),
    /// Asks for a planned failover: the site becomes the primary.
    ///
    /// Exit codes: 0 succeeded or already active (without --wait: asked for), 1 not started, 2 rolled back, 3 source left
    /// fenced, 4 promoted but unconfirmed, 5 manual recovery required, 6 deferred or still running at the timeout,
    /// 64 wrong usage, 69 the API server did not answer or refused.
    Promote(Promote),
    /// Lists the runs that the bus knows of a group, or tells the story of one, a line for each message.
    Runs(Runs),
    /// Acknowledges the automation hold after the sites were put in order by hand.
    AckPlannedFailoverHold(AckHold),
}

/// `status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The group. Default: all of them, as a list.
    pub(crate) group: Option<String>,
    /// The groups of all namespaces.
    #[arg(long, short = 'A', conflicts_with = "group")]
    pub(crate) all_namespaces: bool,
    /// Format.
    #[arg(long, short, value_enum, default_value = "table")]
    pub(crate) output: Output,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// The objects as JSON.
    Json,
    /// The objects as YAML.
    Yaml,
}

/// `promote`.
#[derive(Debug, Args)]
pub(crate) struct Promote {
    /// The group.
    pub(crate) group: String,
    /// The site that is to become the primary.
    pub(crate) site: String,
    /// How long the target may take to apply what the source has executed, 1s to 1h. Default: the group's.
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_lag_wait: Option<String>,
    /// Refuses unless this site is active when the request is admitted.
    #[arg(long, value_name = "SITE")]
    pub(crate) expect: Option<String>,
    /// Follows the run to its end.
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to follow it.
    #[arg(long, value_parser = duration, default_value = "10m")]
    pub(crate) timeout: Duration,
}

/// `runs`.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// The group.
    pub(crate) group: String,
    /// The run, or the beginning of its id, or `latest`. Default: all of them, as a list.
    #[arg(value_name = "RUN-ID")]
    pub(crate) run_id: Option<String>,
    /// A server of the bus, like nats://user:password@nats-0.nats:4222; repeat it for each.
    #[arg(
        long,
        env = "BLOODRAVEN_BUS_URL",
        value_name = "URL",
        required = true,
        hide_env_values = true
    )]
    pub(crate) bus: Vec<String>,
    /// Certificates (PEM) to trust for tls:// servers.
    #[arg(long, value_name = "FILE")]
    pub(crate) bus_ca_file: Option<PathBuf>,
}

/// `ack-planned-failover-hold`.
#[derive(Debug, Args)]
pub(crate) struct AckHold {
    /// The group.
    pub(crate) group: String,
}

fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<Span>().map(Span::get).map_err(|error| error.to_string())
}
