//! Exit codes that are no outcome of a run; [`crate::ending::Ending::exit_code`] has the others.

/// Done, or nothing to do.
pub(crate) const SUCCESS: u8 = 0;
/// Nothing was sent to any site.
pub(crate) const NOT_STARTED: u8 = 1;
/// The run is deferred or goes on past the timeout.
pub(crate) const UNFINISHED: u8 = 6;
/// Wrong usage, as in sysexits.
pub(crate) const USAGE: u8 = 64;
/// The API server did not answer or refused, as in sysexits.
pub(crate) const UNAVAILABLE: u8 = 69;
