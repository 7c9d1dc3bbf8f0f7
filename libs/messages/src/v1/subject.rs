//! Subjects: `bloodraven.v1.<namespace>.<group>.<kind>.<name>`.
//!
//! A subject's tokens are divided by dots, and the name of an object may have dots. Namespace and name are therefore
//! percent-encoded: letters, digits, `-` and `_` stand for themselves, so that nearly every group reads as it is called.

use bloodraven_types::GroupKey;

use super::names::Kind;

/// The version's token.
pub const VERSION: &str = "v1";

/// Every subject of this version: what the stream captures.
pub const STREAM_SUBJECTS: &str = "bloodraven.v1.>";

/// The two tokens of a group, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTokens {
    /// The namespace's token.
    pub namespace: String,
    /// The name's token.
    pub name: String,
}

/// Which messages of all groups a binary wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubjectFilter {
    /// Their kind.
    pub kind: Kind,
    /// Their name; every name of the kind when absent.
    pub name: Option<&'static str>,
}

impl SubjectFilter {
    /// Every fact.
    pub const FACTS: Self = Self {
        kind: Kind::Fact,
        name: None,
    };
    /// Every committed record.
    pub const RECORDS: Self = Self {
        kind: Kind::Record,
        name: None,
    };

    /// One command, by its name.
    pub const fn command(name: &'static str) -> Self {
        Self {
            kind: Kind::Command,
            name: Some(name),
        }
    }

    /// One fact, by its name.
    pub const fn fact(name: &'static str) -> Self {
        Self {
            kind: Kind::Fact,
            name: Some(name),
        }
    }

    /// The subject with wildcards.
    pub fn subject(&self) -> String {
        format!("bloodraven.{VERSION}.*.*.{}.{}", self.kind, self.name.unwrap_or("*"))
    }
}

impl GroupTokens {
    /// The tokens of a group.
    pub fn of(group: &GroupKey) -> Self {
        Self {
            namespace: encode_token(&group.namespace),
            name: encode_token(&group.name),
        }
    }
}

/// The subject with wildcards for everything that is said about one group.
pub fn group_subjects(group: &GroupKey) -> String {
    let tokens = GroupTokens::of(group);
    format!("bloodraven.{VERSION}.{}.{}.>", tokens.namespace, tokens.name)
}

/// The subject of one message.
pub(crate) fn message_subject(group: &GroupKey, kind: Kind, name: &str) -> String {
    let tokens = GroupTokens::of(group);
    format!(
        "bloodraven.{VERSION}.{}.{}.{kind}.{name}",
        tokens.namespace, tokens.name
    )
}

/// One token that stands for any text; [`decode_token`] gives the text back.
pub fn encode_token(text: &str) -> String {
    use std::fmt::Write as _;
    // A token cannot be empty; a lone percent sign is what no other text encodes to.
    if text.is_empty() {
        return "%".to_owned();
    }
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            token.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(token, "%{byte:02X}");
        }
    }
    token
}

/// The text of a token; absent when [`encode_token`] makes no such token.
pub fn decode_token(token: &str) -> Option<String> {
    if token == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    // Only one token stands for a text, so that two subjects never mean one group.
    (encode_token(&text) == token).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An ordinary group's subject reads as the group is called; a name with dots stays one token.
    #[test]
    fn subjects_read_as_the_group_is_called() {
        let subject = |name| message_subject(&GroupKey::new("default", name), Kind::Fact, "fenced");
        assert_eq!(subject("orders"), "bloodraven.v1.default.orders.fact.fenced");
        assert_eq!(subject("orders.eu"), "bloodraven.v1.default.orders%2Eeu.fact.fenced");
        assert_eq!(
            SubjectFilter::command("fence").subject(),
            "bloodraven.v1.*.*.command.fence"
        );
        assert_eq!(SubjectFilter::RECORDS.subject(), "bloodraven.v1.*.*.record.*");
    }

    /// Tokens that the encoding never makes are refused, so that a group has one subject only.
    #[test]
    fn foreign_tokens_are_refused() {
        for token in ["", "a.b", "%2e", "%41", "%+1", "%2", "%FF", "a b"] {
            assert_eq!(decode_token(token), None, "{token:?}");
        }
    }

    proptest! {
        /// Any text becomes one valid token and comes back unchanged.
        #[test]
        fn tokens_are_reversible(text in any::<String>()) {
            let token = encode_token(&text);
            prop_assert!(!token.is_empty());
            prop_assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_%".contains(&byte)));
            prop_assert_eq!(decode_token(&token), Some(text));
        }
    }
}
