//! The machine of a planned failover against its contract: stories, exhaustive searches and random walks.
//!
//! Everything here is pure: a [`kit::World`] applies each step to its group as the record keeper does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod kit;

mod admission;
mod authority;
mod cache;
mod claim;
mod crash;
mod every_pair;
mod fencing;
mod gate;
mod grant;
mod history;
mod hold;
mod lag;
mod model;
mod observability;
mod promotion;
mod random;
mod requests;
mod rivals;
mod roles;
mod rollback;
mod topology;
