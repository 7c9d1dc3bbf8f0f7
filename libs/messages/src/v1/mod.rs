//! Version 1 of the messages.
//!
//! The payloads of facts and commands *are* the domain's [`Fact`](bloodraven_types::Fact) and
//! [`Command`](bloodraven_types::Command) while the two are equal. The day the domain changes in a way that the schemas
//! in `schemas/v1` do not allow, the old shapes are copied here, with a conversion.
//!
//! # Ids
//!
//! A message's id is `<runid>/<revision>/<name>/<attempt>`; the same id is the same message, and the first copy wins.
//! The attempt of a command counts from 1 and is the sender's. Facts and records have no such count: their
//! attempt is a number that the sender draws for every telling and that grows, also over the sender's restarts (the
//! wall clock's milliseconds, or one more than the last number when the clock has not moved). Two tellings of one name
//! at one revision are so never taken for one, as they may say different things (`waiting` for another reason) or be
//! said again because the first was lost; what is repeated until the stream has it is one telling with one id.

mod asyncapi;
mod codec;
mod id;
mod message;
mod names;
mod schema;
mod subject;

pub use asyncapi::asyncapi;
pub use codec::{DecodeError, EncodeError, decode, encode};
pub use id::MessageId;
pub use message::{GroupRecord, LARGEST_SET_BYTES, LeftOut, Message, Payload};
pub use names::{COMMANDS, FACTS, Kind, RECORDS, record_name};
pub use schema::schemas;
pub use subject::{GroupTokens, STREAM_SUBJECTS, SubjectFilter, VERSION, decode_token, encode_token, group_subjects};
