//! GTID set algebra for MySQL 8.3 and later, tagged GTIDs included.
//!
//! ```text
//! text of a server ─► FromStr ─► GtidSet ─► Display ─► canonical text
//!                                   │
//!              contains · union · subtract · intersect · count
//! ```
//!
//! A set maps each transaction source, that is a server UUID and an optional [`Tag`], to the sequence
//! numbers it has committed. Sets are compared as sets and never as text: a server breaks its text into
//! lines, repeats nothing and sorts, while a record, an annotation or a human does what it likes.
//!
//! # Grammar
//!
//! ```text
//! set      := blanks | member ("," member)* [","]
//! member   := uuid (":" [tag ":"] interval)+        a tag holds for the intervals that follow it
//! interval := number | number "-" number            1 ..= 9223372036854775806, start ≤ end
//! ```
//!
//! Blanks (space, tab, line breaks) may stand around every token. The same UUID may come twice, intervals may
//! overlap, touch and be out of order: all are merged.
//!
//! # Where this differs from the server, on purpose
//!
//! | text | server | here |
//! |---|---|---|
//! | `uuid:5-3` | accepted, means nothing | refused: a damaged set must not read as a smaller one |
//! | `uuid`, `uuid:tag` without an interval | accepted, means nothing | refused, for the same reason |
//! | `uuid:1,,uuid:2` and a comma at the start | accepted | refused: a member may have been lost; one comma at the end is fine |
//! | a tag with a letter beyond ASCII | accepted behind its first one, kept as bytes that are no text | refused |
//! | line break after each comma | printed | not printed |
//!
//! UUIDs are read as the server reads them, with dashes, without, or in braces, in upper or lower case, and printed
//! with dashes in lower case. [`parse_uuid`] does the same for `@@server_uuid`. All of this was compared with MySQL 9.7.4
//! and `tests/server.rs` compares it again.
//!
//! This crate knows no clock, socket, random source or async.

mod error;
mod interval;
mod parse;
mod set;
mod tag;
mod text;

pub use error::{IntervalError, ParseGtidError};
pub use interval::MAXIMUM_SEQUENCE_NUMBER;
pub use parse::parse_uuid;
pub use set::GtidSet;
pub use tag::{Tag, TagError};
