//! Logs. A line is an event; the fields of its spans come with it, so the failover group of a run is given once, on the span.
//!
//! ```text
//! {"time":"2026-12-01T10:00:00.123456Z","level":"INFO","msg":"promotion confirmed: site is writable","fg":"default/orders",
//!  "logger":"bloodraven_promoter::promote","binary":"promoter","runId":"…","site":"west"}
//! ```
//!
//! `time`, `level`, `msg` and `fg` (the failover group, `namespace/name`) come first and in this order; keys are camelCase,
//! also where the code says `run_id`. `error` fields carry the whole chain of causes. `msg` texts are stable, what varies is a
//! field. Lines go to the standard error stream.

mod json;

pub use json::JsonLayer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{LogConfig, LogFormat};

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not valid; validation finds this before.
    #[error("the log filter {filter:?} is not valid")]
    Filter {
        /// The filter as configured.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: ParseError,
    },
    /// Something has set up logging before.
    #[error("logging is set up already")]
    Installed(#[from] TryInitError),
}

/// Sets up logging for the process, and lets panics be logged as errors.
///
/// # Errors
///
/// [`TelemetryError`], when the filter is wrong or logging was set up before.
pub fn init(binary: &str, config: &LogConfig) -> Result<(), TelemetryError> {
    let filter = EnvFilter::builder()
        .parse(&config.filter)
        .map_err(|source| TelemetryError::Filter {
            filter: config.filter.clone(),
            source,
        })?;
    let layer = match config.format {
        LogFormat::Json => {
            let json = JsonLayer::new(std::io::stderr).with_field("binary", binary);
            config
                .fields
                .iter()
                .fold(json, |json, (name, value)| json.with_field(name, value))
                .boxed()
        }
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// A panic is one line like any other; without this it would break the JSON stream.
fn log_panic(info: &std::panic::PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let message = info.payload_as_str().unwrap_or("no message");
    let thread = std::thread::current();
    // Empty unless RUST_BACKTRACE asks for it.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(
        error = message,
        location,
        thread = thread.name().unwrap_or("unnamed"),
        backtrace,
        "panic"
    );
}
