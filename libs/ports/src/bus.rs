//! The bus as the procedures use it: tell a fact, order a command, announce a record.

use std::future::Future;

use bloodraven_types::run::RunRef;
use bloodraven_types::{Command, Fact, Group};

/// Why nothing was handed to the bus. Never a reason to stop: the record re-derives what was to be said.
#[derive(Debug, thiserror::Error)]
#[error("could not publish {name} for {group}: {detail}")]
pub struct BusError {
    /// The fact's, command's or record's name.
    pub name: &'static str,
    /// `namespace/name`.
    pub group: String,
    /// What the client said.
    pub detail: String,
}

/// Speaks; listening is the binaries' drive loop.
///
/// Every call hands the message to the subject's listeners at once and returns without waiting for the stream's
/// acknowledgement; the adapter repeats the message under the same id until the stream has it.
pub trait Bus: Clone + Send + Sync + 'static {
    /// Tells the record keeper what was seen or done.
    fn tell(&self, about: &RunRef, fact: Fact) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Asks a binary to do what the committed record says. `attempt` counts from 1; a repeat has a higher one.
    fn order(
        &self,
        about: &RunRef,
        attempt: u32,
        command: Command,
    ) -> impl Future<Output = Result<(), BusError>> + Send;

    /// Announces the record that was just committed.
    fn announce(&self, group: &Group) -> impl Future<Output = Result<(), BusError>> + Send;
}
