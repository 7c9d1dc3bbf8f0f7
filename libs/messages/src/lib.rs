//! The messages that the binaries exchange: envelope, names, subjects, codec and schemas.
//!
//! ```text
//! Fact, Command, Group ─► v1::Message ─encode─► bytes on bloodraven.v1.<namespace>.<group>.<kind>.<name>
//!                                     ◄─decode─
//! ```
//!
//! A version of the messages is a module. [`latest`] names the items of the newest one; a reader that must understand
//! an older version names its module. To add a version: copy the module, change the copy, write the conversion from
//! the older one in the newer one, and point [`latest`] there. A schema that has been published in `schemas/` does not
//! change other than by new optional fields and new names, which older readers ignore.
//!
//! Nothing here sends, receives, or decides.

pub mod latest;
pub mod v1;
