//! The newest version of the messages. Items are named one by one, so that a new version is a change to see here.

pub use crate::v1::{
    COMMANDS, DecodeError, EncodeError, FACTS, GroupRecord, GroupTokens, Kind, LARGEST_SET_BYTES, LeftOut, Message,
    MessageId, Payload, RECORDS, STREAM_SUBJECTS, SubjectFilter, VERSION, asyncapi, decode, decode_token, encode,
    encode_token, group_subjects, record_name, schemas,
};
