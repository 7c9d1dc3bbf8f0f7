//! The machines: pure functions from (record, input, now) to (next record, what to say about it).
//!
//! ```text
//! annotation ─► Admitting ─► Fencing ─► Draining ─► WaitingForLag ─► [cache] ─► Promoting ─► Publishing ─► Succeeded
//!                   │           └──────────┴──────────────┴───────────────┴──► RollingBack ─► Failed
//!                   └──► Failed{NotStarted}
//! ```
//!
//! No clock, no socket, no randomness, no async: `now` and fresh ids come in with the input. Recovery is replay
//! through the same function, since everything that it needs is in the object that it is given.

pub mod claim;
pub mod deadlines;
pub mod history;
pub mod judge;
pub mod planned;
pub mod roles;
pub mod topology;

pub use planned::{Effect, Illegal, Input, Outcome, Refusal, Settlement, Step, Verdict, Write, commands, step};
