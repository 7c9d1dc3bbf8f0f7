//! The bus on NATS: one stream, messages that are acted on at once, and durable consumers for what was missed.
//!
//! ```text
//! NatsBus: publish ──subject──► core subscription ─┐
//!             │                                    ├─ same id, first wins ─► Inbox ─► handler ─► ack
//!             └─repeat, same id─► BLOODRAVEN_RUNS ─► durable pull consumer ─┘
//! ```
//!
//! No caller waits for the stream: losing an R3 leader stalls its acknowledgements for seconds, and a write outage
//! must not. A message on the subject is acted on at once; the stream's copy of it is for those that missed it.
//!
//! This crate decides nothing, and what it delivers is a hint: it may come twice, late, or not at all.

mod connection;
mod drive;
mod error;
mod inbox;
mod publisher;
mod records;
mod repeat;
mod runs;
mod stream;

pub use connection::{BusOptions, Connection, Credentials, connect};
pub use drive::{DriveOptions, Handler, drive};
pub use error::{Error, Result};
pub use inbox::{Delivery, Exclusive, Inbox, InboxOptions, Outcome, durable_config};
pub use publisher::NatsBus;
pub use records::RecordFeed;
pub use runs::read_run;
pub use stream::{STREAM, StreamReport, SyncInterval, ensure_stream};
