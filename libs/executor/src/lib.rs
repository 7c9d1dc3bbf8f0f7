//! The procedures: what fencing, draining, catching up, promoting and going back do, step by step, over ports.
//!
//! ```text
//! command ─► procedure ─► Database (live reads, role changes) + GroupStore (uncached claim) ─► fact
//! fact ─► keeper ─► machine ─► conditioned write ─► commands, events
//! ```
//!
//! The same code runs in production and in simulation. No procedure acts on a message alone: before each statement that
//! changes a role the claim is read again, uncached, under the server's authority lock.

pub mod authority;
pub mod catch_up;
pub mod converge;
pub mod desk;
pub mod drain;
pub mod fence;
pub mod grant;
pub mod hands;
pub mod keeper;
pub mod probe;
pub mod prober;
pub mod promote;
pub mod publish;
pub mod restore;
pub mod sessions;
pub mod settle;
pub mod unfence;

pub use hands::{Hands, LossWindow, Order, Superseded};
pub use sessions::Sessions;
