//! A virtual world behind the ports: database servers, an API server, a bus, publication and a clock, under one seed.
//!
//! ```text
//! procedures, keeper, desks (the real ones) ─► ports ─► World { servers, object, bus, labels } ─► Journal, violations
//!                                                          ▲
//!                              seed ─► latencies, losses, repetitions, crashes; time moves only when nothing else can
//! ```
//!
//! The same seed tells the same story on every machine. The world keeps what must hold at every moment and notes each
//! [violation](World::violations): two sites that take writes, and a role change that no committed record announces.

pub mod api;
pub mod bus;
pub mod cast;
pub mod clock;
pub mod database;
pub mod journal;
pub mod publication;
pub mod random;
pub mod server;
pub mod setting;
pub mod statement;
pub mod store;
pub mod time;
mod traffic;
mod world;

pub use cast::{Cast, Plan};
pub use journal::{Event, Journal, Writer};
pub use setting::Setting;
pub use statement::{Applied, Fault, Kind};
pub use world::{Moment, SimHands, World, WorldState};
