//! The text of a GTID set, read in one pass.

use std::collections::BTreeMap;
use std::str::FromStr;

use uuid::Uuid;

use crate::error::ParseGtidError;
use crate::interval::{Interval, IntervalList};
use crate::set::{GtidSet, Tsid};
use crate::tag::Tag;

/// What the server skips between tokens: the white space of ASCII, vertical tab included.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

/// The longest excerpt in an error, in characters. A set can be megabytes, a status message cannot.
const EXCERPT_LENGTH: usize = 64;

/// Reads a server UUID in any of the forms a GTID set may use, so that `@@server_uuid` and sets agree on identity:
/// 36 characters with dashes, the same in braces, or 32 without dashes, in upper or lower case.
///
/// # Errors
///
/// The text is none of these; the position is 0.
pub fn parse_uuid(text: &str) -> Result<Uuid, ParseGtidError> {
    Token { position: 0, text }.trimmed().uuid()
}

impl FromStr for GtidSet {
    type Err = ParseGtidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut sources = BTreeMap::new();
        let mut members = Token { position: 0, text }.split(',').peekable();
        while let Some(member) = members.next() {
            let is_last = members.peek().is_none();
            if !member.text.is_empty() {
                read_member(member, &mut sources)?;
            } else if !is_last {
                let position = member.position;
                return Err(ParseGtidError::EmptyMember { position });
            }
        }
        let lists = sources.into_iter();
        Ok(Self::from_lists(lists.map(|(tsid, intervals)| {
            (tsid, IntervalList::from_unordered(intervals))
        })))
    }
}

/// Adds one `uuid[:tag]:interval…` to `sources`, in the order of the text.
fn read_member(member: Token<'_>, sources: &mut BTreeMap<Tsid, Vec<Interval>>) -> Result<(), ParseGtidError> {
    let mut tokens = member.split(':').peekable();
    let uuid = match tokens.next() {
        Some(token) => token.uuid()?,
        None => return Ok(()),
    };
    let missing = |position| ParseGtidError::MissingInterval { position, uuid };
    let end = member.end();
    if tokens.peek().is_none() {
        return Err(missing(end));
    }
    let mut tag = None;
    while tokens.peek().is_some() {
        if let Some(token) = tokens.next_if(Token::opens_tag) {
            tag = Some(token.tag()?);
        }
        let first = tokens.next().ok_or_else(|| missing(end))?;
        if first.opens_tag() {
            return Err(missing(first.position));
        }
        let intervals = sources.entry(Tsid { uuid, tag: tag.clone() }).or_default();
        intervals.push(first.interval(uuid)?);
        while let Some(next) = tokens.next_if(|token| !token.opens_tag()) {
            intervals.push(next.interval(uuid)?);
        }
    }
    Ok(())
}

/// A piece of the text and where it starts.
#[derive(Clone, Copy)]
struct Token<'text> {
    position: usize,
    text: &'text str,
}

impl<'text> Token<'text> {
    /// The pieces between separators, blanks around them taken off.
    fn split(self, separator: char) -> impl Iterator<Item = Self> {
        let mut position = self.position;
        self.text.split(separator).map(move |text| {
            let piece = Token { position, text };
            position += text.len() + separator.len_utf8();
            piece.trimmed()
        })
    }

    fn trimmed(self) -> Self {
        let text = self.text.trim_start_matches(BLANKS);
        let position = self.position + (self.text.len() - text.len());
        Token {
            position,
            text: text.trim_end_matches(BLANKS),
        }
    }

    const fn end(self) -> usize {
        self.position + self.text.len()
    }

    fn excerpt(self) -> String {
        self.text.chars().take(EXCERPT_LENGTH).collect()
    }

    /// Whether the token is meant as a tag: neither empty nor a number.
    fn opens_tag(&self) -> bool {
        self.text
            .starts_with(|first: char| !first.is_ascii_digit() && first != '-')
    }

    fn uuid(self) -> Result<Uuid, ParseGtidError> {
        // Longer texts could be the URN form, which no server and no set uses.
        let parsed = if self.text.len() <= 38 {
            Uuid::try_parse(self.text).ok()
        } else {
            None
        };
        parsed.ok_or_else(|| ParseGtidError::Uuid {
            position: self.position,
            text: self.excerpt(),
        })
    }

    fn tag(self) -> Result<Tag, ParseGtidError> {
        let Token { position, .. } = self;
        self.text.parse().map_err(|source| ParseGtidError::Tag {
            position,
            text: self.excerpt(),
            source,
        })
    }

    fn interval(self, uuid: Uuid) -> Result<Interval, ParseGtidError> {
        let position = self.position;
        if self.text.is_empty() {
            return Err(ParseGtidError::MissingInterval { position, uuid });
        }
        let mut numbers = self.split('-');
        let start = self.number(numbers.next())?;
        let end = match numbers.next() {
            None => start,
            last => self.number(last)?,
        };
        if numbers.next().is_some() {
            return Err(self.not_a_number());
        }
        Interval::new(start, end).map_err(|source| ParseGtidError::Interval { position, source })
    }

    /// One end of the interval that this token is.
    fn number(self, end: Option<Self>) -> Result<u64, ParseGtidError> {
        let digits = end.ok_or_else(|| self.not_a_number())?;
        if digits.text.is_empty() || !digits.text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.not_a_number());
        }
        // Only digits are left, so the one way to fail is a number that does not fit.
        digits.text.parse().map_err(|_| ParseGtidError::Overflow {
            position: digits.position,
            text: digits.excerpt(),
        })
    }

    fn not_a_number(self) -> ParseGtidError {
        ParseGtidError::Number {
            position: self.position,
            text: self.excerpt(),
        }
    }
}
