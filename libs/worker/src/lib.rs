//! The wiring that the binaries share: adapters made from configuration, and executors that serve orders.
//!
//! ```text
//! config ─► Wires { bus, store, sessions }        inbox ─► Desks ─► one group's desk ─► Work ─► fact ─► bus
//! ```
//!
//! A binary adds what it does with an order, and nothing else.

mod config;
mod serve;
mod wires;

pub use config::{BusOnlyConfig, DatabaseConfig};
pub use serve::{Work, serve};
pub use wires::{DatabaseHands, Wires};
