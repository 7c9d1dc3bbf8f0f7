//! The tag of a tagged GTID, validated and normalised once.

use std::fmt;
use std::str::FromStr;

/// The tag of a GTID: a letter or underscore, then letters, digits and underscores, 32 characters at most.
///
/// Tags are case-insensitive; the server keeps and prints them in lower case, and so does this type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag(String);

/// Why a text is not a [`Tag`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TagError {
    /// The text has no characters.
    #[error("a tag must not be empty")]
    Empty,
    /// The text is longer than [`Tag::MAXIMUM_LENGTH`].
    #[error("a tag has {length} characters, more than the maximum of {maximum}")]
    TooLong {
        /// Characters in the text.
        length: usize,
        /// The longest tag the server accepts.
        maximum: usize,
    },
    /// A character is not allowed, or not allowed at its place.
    #[error("a tag has the character {character:?} at index {index}")]
    Character {
        /// The refused character.
        character: char,
        /// Its index, in characters from 0.
        index: usize,
    },
}

impl Tag {
    /// The longest tag the server accepts, in characters.
    pub const MAXIMUM_LENGTH: usize = 32;

    /// The tag in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = TagError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(TagError::Empty);
        }
        for (index, character) in text.chars().enumerate() {
            let allowed =
                character.is_ascii_alphabetic() || character == '_' || (index > 0 && character.is_ascii_digit());
            if !allowed {
                return Err(TagError::Character { character, index });
            }
        }
        if text.len() > Self::MAXIMUM_LENGTH {
            return Err(TagError::TooLong {
                length: text.len(),
                maximum: Self::MAXIMUM_LENGTH,
            });
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tag is kept in lower case, so two spellings of one tag are equal.
    #[test]
    fn a_tag_is_case_insensitive() {
        let upper: Tag = "MySQLsh_1".parse().unwrap();
        assert_eq!(upper, "mysqlsh_1".parse().unwrap());
        assert_eq!(upper.to_string(), "mysqlsh_1");
        assert_eq!(upper.as_str(), "mysqlsh_1");
    }

    /// The server's rule for tags holds at each of its edges.
    #[test]
    fn a_tag_follows_the_rule_of_the_server() {
        for text in ["a", "_", "_9", "A0_", &"x".repeat(32)] {
            assert!(text.parse::<Tag>().is_ok(), "{text}");
        }
        assert_eq!("".parse::<Tag>(), Err(TagError::Empty));
        let (length, maximum) = (33, 32);
        assert_eq!(
            "x".repeat(33).parse::<Tag>(),
            Err(TagError::TooLong { length, maximum })
        );
        for (text, character, index) in [("9a", '9', 0), ("a-b", '-', 1), ("a b", ' ', 1), ("é", 'é', 0)] {
            let refused = Err(TagError::Character { character, index });
            assert_eq!(text.parse::<Tag>(), refused);
        }
    }
}
