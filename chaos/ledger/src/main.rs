//! `bloodraven-ledger`: writes through a failover and judges it.
//!
//! Exit status: 0 clean, 1 not clean, 64 wrong usage, 69 a server or the store could not be used.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use bloodraven_ledger::{Endpoint, Ledger, LedgerError, Options, Survivor, connect, prepare, report};
use clap::{Args, Parser, Subcommand};
use secrecy::SecretString;
use tokio::signal::unix::{SignalKind, signal};

const NOT_CLEAN: u8 = 1;
const WRONG_USAGE: u8 = 64;
const UNAVAILABLE: u8 = 69;

/// Writes through a failover as an application would, and judges afterwards what became of what it was told.
#[derive(Debug, Parser)]
#[command(name = "bloodraven-ledger", version)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Writes and records every acknowledgement.
    Write(WriteArguments),
    /// Compares the record with the surviving history and gives the verdict.
    Report(ReportArguments),
}

#[derive(Debug, Args)]
struct Credentials {
    /// MySQL user.
    #[arg(long, default_value = "app")]
    user: String,
    /// Name of the environment variable that holds the password.
    #[arg(long, value_name = "VARIABLE")]
    password_env: String,
}

#[derive(Debug, Args)]
struct WriteArguments {
    /// Where to write, host:port; more than one are tried in turn at each reconnect.
    #[arg(long = "endpoint", required = true, value_name = "HOST:PORT")]
    endpoints: Vec<Endpoint>,
    #[command(flatten)]
    credentials: Credentials,
    /// Database of the ledger's table.
    #[arg(long, default_value = "app")]
    database: String,
    /// The ledger's table.
    #[arg(long, default_value = "ledger")]
    table: String,
    /// Number of writers, each with one connection.
    #[arg(long, default_value_t = 4)]
    writers: usize,
    /// Time from one write of a writer to its next.
    #[arg(long, default_value = "10ms", value_parser = duration)]
    tick: Duration,
    /// How long a connection may take.
    #[arg(long, default_value = "1s", value_parser = duration)]
    connect_timeout: Duration,
    /// How long a write may take.
    #[arg(long, default_value = "1s", value_parser = duration)]
    statement_timeout: Duration,
    /// Stop after this time; without it, on SIGINT or SIGTERM.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// The record, an SQLite file; an existing one is continued.
    #[arg(long)]
    store: PathBuf,
    /// Make the database and the table first.
    #[arg(long)]
    prepare: bool,
}

#[derive(Debug, Args)]
struct ReportArguments {
    /// The record.
    #[arg(long)]
    store: PathBuf,
    /// A server whose history survived; the first is the final primary, the others are compared with it.
    #[arg(long = "survivor", required = true, value_name = "NAME=HOST:PORT")]
    survivors: Vec<NamedEndpoint>,
    #[command(flatten)]
    credentials: Credentials,
    /// Also write the report to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone)]
struct NamedEndpoint {
    name: String,
    endpoint: Endpoint,
}

/// What the user got wrong, as opposed to what went wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

impl FromStr for NamedEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, endpoint) = text
            .split_once('=')
            .ok_or_else(|| "NAME=HOST:PORT is meant".to_owned())?;
        if name.is_empty() {
            return Err("NAME=HOST:PORT is meant, the name is missing".to_owned());
        }
        let endpoint = endpoint.parse().map_err(|error: LedgerError| error.to_string())?;
        Ok(Self {
            name: name.to_owned(),
            endpoint,
        })
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let wanted = if error.use_stderr() {
                ExitCode::from(WRONG_USAGE)
            } else {
                ExitCode::SUCCESS
            };
            // When even the message cannot be printed, the exit status still says it.
            return error.print().map_or(ExitCode::from(WRONG_USAGE), |()| wanted);
        }
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match run(cli.action) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NOT_CLEAN),
        Err(error) => {
            tracing::error!("{error:#}");
            let usage =
                error.is::<Usage>() || matches!(error.downcast_ref::<LedgerError>(), Some(LedgerError::Option { .. }));
            ExitCode::from(if usage { WRONG_USAGE } else { UNAVAILABLE })
        }
    }
}

fn run(action: Action) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Runtime::new().context("the runtime did not start")?;
    match action {
        Action::Write(arguments) => runtime.block_on(write(arguments)),
        Action::Report(arguments) => runtime.block_on(judge(arguments)),
    }
}

async fn write(arguments: WriteArguments) -> anyhow::Result<bool> {
    let password = password(&arguments.credentials)?;
    let endpoints = arguments.endpoints.iter().map(ToString::to_string).collect();
    let options = Options {
        database: arguments.database,
        table: arguments.table,
        writers: arguments.writers,
        tick: arguments.tick,
        connect_timeout: arguments.connect_timeout,
        statement_timeout: arguments.statement_timeout,
        ..Options::new(endpoints, arguments.credentials.user, password)
    };
    if arguments.prepare {
        prepare_table(&options).await?;
    }
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be caught")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be caught")?;
    let running = Ledger::start(&options, &arguments.store)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = elapsed(arguments.duration) => {}
    }
    let counts = running.stop().await?;
    println!(
        "{} acknowledged, {} refused, {} unknown",
        counts.acknowledged, counts.refused, counts.unknown
    );
    Ok(counts.acknowledged > 0)
}

async fn judge(arguments: ReportArguments) -> anyhow::Result<bool> {
    let password = password(&arguments.credentials)?;
    let survivors: Vec<Survivor> = arguments
        .survivors
        .into_iter()
        .map(|survivor| Survivor {
            name: survivor.name,
            endpoint: survivor.endpoint.to_string(),
            user: arguments.credentials.user.clone(),
            password: password.clone(),
        })
        .collect();
    let report = report(&arguments.store, &survivors).await?;
    if let Some(path) = arguments.json {
        let json = serde_json::to_string_pretty(&report).context("the report has no JSON form")?;
        std::fs::write(&path, json + "\n").with_context(|| format!("{} cannot be written", path.display()))?;
    }
    println!("{report}");
    Ok(report.is_clean())
}

async fn prepare_table(options: &Options) -> anyhow::Result<()> {
    let table = options.table_name()?;
    let endpoint = options.endpoints.first().context("no endpoint")?;
    let mut conn = connect(endpoint, &options.user, &options.password).await?;
    prepare(&mut conn, &table)
        .await
        .with_context(|| format!("{endpoint} did not make {}", table.quoted()))?;
    conn.disconnect()
        .await
        .with_context(|| format!("{endpoint} did not close the connection"))
}

async fn elapsed(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

fn password(credentials: &Credentials) -> Result<SecretString, Usage> {
    let variable = &credentials.password_env;
    std::env::var(variable).map(SecretString::from).map_err(|_| {
        Usage(format!(
            "the environment variable {variable} of --password-env is not set"
        ))
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Duration::try_from(parsed).map_err(|error| error.to_string())
}
