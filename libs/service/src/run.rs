//! The order in which every binary starts and ends.
//!
//! ```text
//! crypto provider ─► arguments ─► configuration ─► logging ─► metrics ─► build info line ─► signals ─► admin endpoints
//!   ─► body ─► until a signal, a failure or the end of all work ─► drain under the grace period ─► exit code
//! ```

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::admin::Admin;
use crate::args;
use crate::clock::SystemClock;
use crate::config::{Config, Loaded, Sources, load};
use crate::error::{BoxError, chain};
use crate::health::Health;
use crate::ids::IdSource;
use crate::metrics::{self, Buckets, MessageCounter, MetricsHandle};
use crate::shutdown::{self, Ending};
use crate::tasks::{Failure, TaskOutput, Tasks};
use crate::telemetry;

/// Wrong usage, as in sysexits.
const USAGE: u8 = 64;
/// Something of the operating system was refused, as in sysexits: an address, a thread, a signal handler.
const OS_ERROR: u8 = 71;

/// What a binary's body is given.
#[derive(Clone, Debug)]
pub struct Context<C> {
    /// The configuration.
    pub config: Arc<C>,
    /// The binary's name.
    pub binary: &'static str,
    /// Cancelled when the process is to stop; every loop ends on it. Cancelling it stops the process.
    pub cancel: CancellationToken,
    /// Spawns supervised tasks.
    pub tasks: Tasks,
    /// Registers readiness checks and heartbeats.
    pub health: Health,
    /// The admin server, to mount routes on.
    pub admin: Admin,
    /// Counts handled messages.
    pub messages: MessageCounter,
    /// The machine's clock.
    pub clock: SystemClock,
    /// Fresh ids.
    pub ids: IdSource,
}

/// A binary to run.
#[derive(Clone, Debug)]
pub struct Service {
    name: &'static str,
    version: &'static str,
    purpose: &'static str,
    buckets: Vec<Buckets>,
    describe: Vec<fn()>,
    args: Option<Vec<OsString>>,
    sources: Option<Sources>,
}

/// Runs a binary: [`Service`] without options.
pub fn run<C, F, Fut>(name: &'static str, version: &'static str, purpose: &'static str, body: F) -> ExitCode
where
    C: Config,
    F: FnOnce(Context<C>) -> Fut + Send + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: TaskOutput,
{
    Service::new(name, version, purpose).run(body)
}

impl Service {
    /// `purpose` is the one sentence that `--help` and the first log line say.
    pub fn new(name: &'static str, version: &'static str, purpose: &'static str) -> Self {
        Self {
            name,
            version,
            purpose,
            buckets: Vec::new(),
            describe: Vec::new(),
            args: None,
            sources: None,
        }
    }

    /// Gives a histogram buckets other than [`metrics::SECONDS_BUCKETS`].
    #[must_use]
    pub fn buckets(mut self, histogram: &'static str, bounds: &'static [f64]) -> Self {
        self.buckets.push((histogram, bounds));
        self
    }

    /// Calls `describe` once the recorder is there; each crate with metrics has such a function.
    #[must_use]
    pub fn describe(mut self, describe: fn()) -> Self {
        self.describe.push(describe);
        self
    }

    /// Takes arguments and environment from here and not from the process, for tests.
    #[must_use]
    pub fn with_input(mut self, args: Vec<OsString>, sources: Sources) -> Self {
        self.args = Some(args);
        self.sources = Some(sources);
        self
    }

    /// Runs the body until a signal, a failure, or the end of the body and all tasks it has spawned.
    ///
    /// Exit codes: 0 stopped in order, 1 a task failed or did not stop in time, 64 wrong usage or configuration, 70 a task
    /// panicked, 71 the system refused something at the start, 128 + n ended at once by a second signal n.
    pub fn run<C, F, Fut>(self, body: F) -> ExitCode
    where
        C: Config,
        F: FnOnce(Context<C>) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: TaskOutput,
    {
        ExitCode::from(self.run_to_code(body))
    }

    /// [`Service::run`] with the exit code as a number.
    pub fn run_to_code<C, F, Fut>(mut self, body: F) -> u8
    where
        C: Config,
        F: FnOnce(Context<C>) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: TaskOutput,
    {
        // An error means that somebody has installed one before, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let loaded = match self.configure::<C>() {
            Ok(loaded) => loaded,
            Err(code) => return code,
        };
        let started = telemetry::init(self.name, &loaded.config.common().log).map_err(BoxError::from);
        let metrics = match started.and_then(|()| metrics::install(&self.buckets)) {
            Ok(metrics) => metrics,
            Err(error) => return self.cannot_start(error.as_ref()),
        };
        metrics::announce(self.name, self.version);
        self.describe.iter().for_each(|describe| describe());
        self.log_start(&loaded);
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return self.cannot_start(&error),
        };
        let ending = runtime.block_on(self.live(loaded, metrics, body));
        // Threads that block must not hold the process up: whoever matters was waited for.
        runtime.shutdown_background();
        match ending {
            Ok(ending) => {
                tracing::info!(exitCode = ending.code(), ending = ?ending, "ended");
                ending.code()
            }
            Err(error) => self.cannot_start(error.as_ref()),
        }
    }

    /// Arguments and configuration; the error is the exit code, whatever there was to say has been said.
    fn configure<C: Config>(&mut self) -> Result<Loaded<C>, u8> {
        let args = self.args.take().unwrap_or_else(|| std::env::args_os().collect());
        let args = args::parse(self.name, self.version, self.purpose, args).map_err(|error| {
            // Nothing is left to do when the terminal is gone.
            let _ = error.print();
            if error.use_stderr() { USAGE } else { 0 }
        })?;
        let mut sources = self.sources.take().unwrap_or_else(Sources::from_process);
        args.add_to(&mut sources);
        let loaded = load::<C>(&sources).map_err(|errors| {
            let _ = writeln!(std::io::stderr(), "{}: {errors}", self.name);
            USAGE
        })?;
        if args.print_config {
            let _ = write!(std::io::stdout(), "{}", loaded.show());
            return Err(0);
        }
        Ok(loaded)
    }

    fn log_start<C: Config>(&self, loaded: &Loaded<C>) {
        let instance = &loaded.config.common().instance;
        tracing::info!(
            version = self.version,
            purpose = self.purpose,
            instance,
            pid = std::process::id(),
            "starting"
        );
        if !loaded.ignored_variables.is_empty() {
            tracing::warn!(
                variables = loaded.ignored_variables.join(", "),
                "environment variables that set nothing"
            );
        }
    }

    fn cannot_start(&self, error: &(dyn std::error::Error + 'static)) -> u8 {
        let text = chain(error);
        if tracing::dispatcher::has_been_set() {
            tracing::error!(error = text, "cannot start");
        } else {
            let _ = writeln!(std::io::stderr(), "{}: cannot start: {text}", self.name);
        }
        OS_ERROR
    }

    async fn live<C, F, Fut>(&self, loaded: Loaded<C>, metrics: MetricsHandle, body: F) -> Result<Ending, BoxError>
    where
        C: Config,
        F: FnOnce(Context<C>) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: TaskOutput,
    {
        let signals = shutdown::signals()?;
        metrics.keep_up();
        let grace = loaded.config.common().shutdown_grace;
        let Wired {
            context,
            failures,
            stop_admin,
        } = wire(self.name, loaded, metrics).await?;
        tracing::info!(address = %context.admin.address(), "admin endpoints are served");
        let (tasks, cancel) = (context.tasks.clone(), context.cancel.clone());
        spawn_body(context, body);
        let ending = shutdown::supervise(&tasks, failures, &cancel, signals, grace).await;
        stop_admin.cancel();
        Ok(ending)
    }
}

/// A context, and what its supervisor keeps for itself.
pub(crate) struct Wired<C> {
    pub(crate) context: Context<C>,
    pub(crate) failures: mpsc::UnboundedReceiver<Failure>,
    /// Ends the admin server.
    pub(crate) stop_admin: CancellationToken,
}

/// Binds the admin endpoints and makes the context of a body.
pub(crate) async fn wire<C: Config>(
    binary: &'static str,
    loaded: Loaded<C>,
    metrics: MetricsHandle,
) -> Result<Wired<C>, BoxError> {
    let (health, stop_admin, cancel) = (Health::default(), CancellationToken::new(), CancellationToken::new());
    let address = loaded.config.common().admin.address;
    let admin = Admin::serve(address, health.clone(), metrics, loaded.show(), stop_admin.clone())
        .await
        .map_err(|error| format!("admin.address = {address}: {error}"))?;
    let (tasks, failures) = Tasks::new(cancel.clone());
    let context = Context {
        config: Arc::new(loaded.config),
        binary,
        cancel,
        tasks,
        health,
        admin,
        messages: MessageCounter::new(binary),
        clock: SystemClock::new(),
        ids: IdSource::default(),
    };
    Ok(Wired {
        context,
        failures,
        stop_admin,
    })
}

/// Starts the body as the first task, and lets readiness end with the stop.
pub(crate) fn spawn_body<C, F, Fut>(context: Context<C>, body: F)
where
    C: Config,
    F: FnOnce(Context<C>) -> Fut + Send + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: TaskOutput,
{
    let (health, cancel) = (context.health.clone(), context.cancel.clone());
    tokio::spawn(async move {
        cancel.cancelled().await;
        health.stopping();
    });
    let (health, tasks) = (context.health.clone(), context.tasks.clone());
    tasks.spawn("main", async move {
        let result = body(context).await.into_result();
        health.started();
        result
    });
}
