//! The procedures, the keeper and whole runs in a virtual world: no server, no sleep, the same story for the same seed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails by panicking")]

mod catch_up;
mod chaos;
mod common;
mod drain;
mod fence;
mod promote;
mod rollback;
mod story;
