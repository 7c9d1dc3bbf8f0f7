//! The adapter against a real API server.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails by panicking")]

mod ambiguity;
mod cluster;
mod definition;
mod events;
mod publication;
mod rights;
mod store;
mod watch;
