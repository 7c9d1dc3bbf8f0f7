//! What can go wrong on the bus.

use bloodraven_messages::latest::DecodeError;

/// The result of a call to the bus.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the bus could not do it. Nothing of this stops a run: the record re-derives what was to be said.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options cannot be used.
    #[error("cannot connect to {urls}")]
    Connect {
        /// The servers, as they were given.
        urls: String,
        /// What the client says.
        #[source]
        source: async_nats::ConnectError,
    },
    /// The stream could not be made or read.
    #[error("stream {stream}: could not {action}")]
    Stream {
        /// The stream.
        stream: &'static str,
        /// What was tried.
        action: &'static str,
        /// What the client says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The durable consumer could not be made or read.
    #[error("consumer {durable}: could not {action}")]
    Consumer {
        /// The consumer.
        durable: String,
        /// What was tried.
        action: &'static str,
        /// What the client says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A subject could not be subscribed to.
    #[error("could not subscribe to {subject}")]
    Subscribe {
        /// The subject.
        subject: String,
        /// What the client says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A stored message cannot be read.
    #[error("a message of {subject} cannot be read")]
    Decode {
        /// Its subject.
        subject: String,
        /// Why.
        #[source]
        source: DecodeError,
    },
}
