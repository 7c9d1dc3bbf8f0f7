//! The test kit: a group to begin with, a world that applies steps, facts of a run that goes well.

pub(crate) mod dice;
pub(crate) mod facts;
pub(crate) mod groups;
pub(crate) mod servers;
mod world;

pub(crate) use groups::{AMS, FRA, IAD, PDX, at, server, site};
pub(crate) use world::World;

use bloodraven_types::{Outcome, Reason};

/// The end of a run, short.
pub(crate) type Ending = (Outcome, Option<Reason>);
