//! The whole of Bloodraven on one machine: real servers, the eight binaries as processes, one group.
//!
//! ```text
//! Stack::up ─► Lab (MySQL ×3, NATS ×3, API server) ─► manifests, pods, group ─► binaries ─► settled: first site active
//! annotate, kubectl, plugin ─► wait_for_end ─► timeline, logs, ledger report ─► down
//! ```
//!
//! A test asks for a failover as an administrator does, with kubectl, and looks at what an administrator can see. It
//! may also kill, pause and restart any binary or server at any moment. Everything ends with the [`Stack`].
//!
//! ```no_run
//! use std::time::Duration;
//! use bloodraven_stack::{Program, Stack, StackOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let stack = Stack::up(StackOptions::for_test("kill-promoter")).await?;
//! let ledger = stack.start_ledger().await?;
//! let asked = stack.annotate("pdx").await?;
//! stack.kill(Program::Promoter).await?;
//! stack.start(Program::Promoter).await?;
//! let group = stack.wait_for_end(&asked, Duration::from_secs(60)).await?;
//! let report = stack.judge(ledger).await?;
//! assert!(report.is_clean());
//! stack.down().await?; // fails when a binary logged an error
//! # Ok(())
//! # }
//! ```

mod access;
mod control;
mod error;
mod files;
mod group;
mod ledger;
mod logs;
mod options;
mod process;
mod program;
mod spawner;
mod stack;
mod timeline;

pub use bloodraven_lab as lab;
pub use bloodraven_ledger as ledger_report;
pub use error::StackError;
pub use group::Asked;
pub use ledger::RunningLedger;
pub use logs::LogLine;
pub use options::StackOptions;
pub use program::Program;
pub use stack::Stack;
pub use timeline::{PhaseTime, Timeline};
