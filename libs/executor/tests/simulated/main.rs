//! The procedures, the keeper and whole runs in a virtual world: no server, no sleep, the same story for the same seed.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it is about out of everything that happened"
)]

mod annotations;
mod catch_up;
mod chaos;
mod common;
mod crashes;
mod desk;
mod drain;
mod fence;
mod followers;
mod gate;
mod grant;
mod keeper;
mod promote;
mod rollback;
mod story;
