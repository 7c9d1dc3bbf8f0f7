//! Errors of the crate: each says where, what was read and what was allowed.

use uuid::Uuid;

use crate::interval::MAXIMUM_SEQUENCE_NUMBER;
use crate::tag::TagError;

/// Why two numbers are not an interval of sequence numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IntervalError {
    /// Sequence numbers start at 1.
    #[error("the interval {start}-{end} holds the sequence number 0; the first one is 1")]
    Zero {
        /// First sequence number read.
        start: u64,
        /// Last sequence number read.
        end: u64,
    },
    /// The interval runs backwards.
    #[error("the interval starts at {start}, after its end {end}")]
    Reversed {
        /// First sequence number read.
        start: u64,
        /// Last sequence number read.
        end: u64,
    },
    /// The server never assigns a sequence number this high.
    #[error("the sequence number {number} is beyond the maximum {MAXIMUM_SEQUENCE_NUMBER}")]
    BeyondMaximum {
        /// The sequence number read.
        number: u64,
    },
}

/// Why a text is not a GTID set. Positions are byte offsets from 0; excerpts are cut to a readable length.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseGtidError {
    /// A member does not open with a UUID.
    #[error("byte {position}: {text:?} is not a server UUID")]
    Uuid {
        /// Where the token starts.
        position: usize,
        /// The token.
        text: String,
    },
    /// A token that should be a tag is none.
    #[error("byte {position}: {text:?} is neither a tag nor an interval: {source}")]
    Tag {
        /// Where the token starts.
        position: usize,
        /// The token.
        text: String,
        /// The rule it breaks.
        #[source]
        source: TagError,
    },
    /// A token that should be a sequence number has other characters than digits, or none.
    #[error("byte {position}: {text:?} is not an interval of sequence numbers")]
    Number {
        /// Where the token starts.
        position: usize,
        /// The token.
        text: String,
    },
    /// A sequence number does not even fit 64 bits.
    #[error("byte {position}: the sequence number {text} is beyond the maximum {MAXIMUM_SEQUENCE_NUMBER}")]
    Overflow {
        /// Where the token starts.
        position: usize,
        /// The digits.
        text: String,
    },
    /// Two numbers that make no interval.
    #[error("byte {position}: {source}")]
    Interval {
        /// Where the token starts.
        position: usize,
        /// Both numbers and the rule they break.
        #[source]
        source: IntervalError,
    },
    /// Nothing stands before a comma, so a member may have been lost.
    #[error("byte {position}: a comma with no member before it")]
    EmptyMember {
        /// Where the comma is.
        position: usize,
    },
    /// A UUID or a tag is followed by no interval.
    #[error("byte {position}: {uuid} ends without the interval of sequence numbers it needs")]
    MissingInterval {
        /// Where the interval was expected.
        position: usize,
        /// The source the member names.
        uuid: Uuid,
    },
}
