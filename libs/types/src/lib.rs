//! The words of the domain: ids, moments, spans, vocabularies, the run record, the group, facts and commands.
//!
//! ```text
//! words ─► record ─► group        fact, command: what the binaries tell one another
//! ```
//!
//! Everything here is plain data. This crate does no IO and has no clock.

pub mod annotation;
pub mod command;
pub mod fact;
pub mod group;
pub mod ids;
pub mod observation;
pub mod record;
pub mod run;
pub mod time;
pub mod words;

pub use command::Command;
pub use fact::Fact;
pub use group::{Group, GroupSpec, GroupStatus, SiteSpec};
pub use ids::{Epoch, GroupKey, ObjectUid, ResourceVersion, Revision, RunId, ServerUuid, SiteName};
pub use record::PlannedFailover;
pub use run::RunRef;
pub use time::{Span, Timestamp};
pub use words::{EventReason, Outcome, Phase, Reason, SiteRole, SiteState, StepState, WaitReason, Warning};
