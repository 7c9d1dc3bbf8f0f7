//! What every binary of Bloodraven shares, so that a `main` is one screen and all of them start, report and stop alike.
//!
//! ```text
//! args ─► config ─► telemetry, metrics ─► admin endpoints ─► body: tasks, health ─► signal or failure ─► drain ─► exit code
//! ```
//!
//! This crate knows no bus, no API server and no database: a body connects what it needs through the adapters. It is the only
//! crate that reads the wall clock, makes random ids, installs signal handlers and global recorders.
//!
//! A complete binary:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::time::Duration;
//!
//! use bloodraven_service::config::{CommonConfig, Config, Problems, duration};
//! use bloodraven_service::metrics::MessageResult;
//! use bloodraven_service::{BoxError, Context};
//! use serde::{Deserialize, Serialize};
//!
//! fn main() -> ExitCode {
//!     bloodraven_service::run("fencer", env!("CARGO_PKG_VERSION"), "Fences, drains and unfences a source.", start)
//! }
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! #[serde(default, rename_all = "kebab-case")]
//! struct FencerConfig {
//!     #[serde(flatten)]
//!     common: CommonConfig,
//!     /// How long a fence may take.
//!     #[serde(with = "duration")]
//!     fence_timeout: Duration,
//! }
//!
//! impl Default for FencerConfig {
//!     fn default() -> Self {
//!         Self { common: CommonConfig::default(), fence_timeout: Duration::from_secs(30) }
//!     }
//! }
//!
//! impl Config for FencerConfig {
//!     fn common(&self) -> &CommonConfig {
//!         &self.common
//!     }
//!
//!     fn common_mut(&mut self) -> &mut CommonConfig {
//!         &mut self.common
//!     }
//!
//!     fn validate(&self, problems: &mut Problems) {
//!         self.common.mysql.require_admin(problems);
//!     }
//! }
//!
//! /// Connects, spawns the loops and returns; the process goes on until a signal or a failure.
//! async fn start(context: Context<FencerConfig>) -> Result<(), BoxError> {
//!     let bus_ready = context.health.check("bus");
//!     // … connect to context.config.common.bus.urls …
//!     bus_ready.ready();
//!     let heartbeat = context.health.heartbeat("commands", Duration::from_secs(30));
//!     let (cancel, messages) = (context.cancel.clone(), context.messages.clone());
//!     context.tasks.spawn_loop("commands", async move {
//!         while heartbeat.idle(cancel.run_until_cancelled(next_command())).await.is_some() {
//!             messages.count("fence", MessageResult::Handled);
//!         }
//!         Ok::<(), BoxError>(())
//!     });
//!     Ok(())
//! }
//!
//! async fn next_command() {}
//! ```

mod admin;
mod args;
mod clock;
pub mod config;
mod error;
mod health;
mod ids;
pub mod metrics;
mod run;
mod shutdown;
mod tasks;
pub mod telemetry;
pub mod testing;

pub use admin::Admin;
pub use args::CommonArgs;
pub use clock::SystemClock;
pub use error::{BoxError, chain};
pub use health::{Failing, Health, Heartbeat, ReadinessCheck};
pub use ids::IdSource;
pub use run::{Context, Service, run};
pub use tasks::{TaskOutput, Tasks};
