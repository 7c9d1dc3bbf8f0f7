//! The names on the wire: the kinds of messages and what each kind can say.

use std::fmt;

use bloodraven_types::Phase;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What a binary has seen or done.
    Fact,
    /// What a record asks a binary to do.
    Command,
    /// A record that was committed.
    Record,
}

/// The names of all facts, in the order of the domain.
pub const FACTS: [&str; 22] = [
    "requested",
    "cancelled",
    "granted",
    "waiting",
    "refused",
    "fenced",
    "fence-failed",
    "drained",
    "drain-failed",
    "caught-up",
    "lagging",
    "catch-up-failed",
    "cache-offset",
    "cache-synced",
    "cache-taken-over",
    "cache-failed",
    "promoted",
    "promotion-failed",
    "target-restored",
    "unfenced",
    "unfence-failed",
    "published",
];

/// The names of all commands, in the order of the domain.
pub const COMMANDS: [&str; 10] = [
    "probe-grant",
    "fence",
    "drain",
    "await-catch-up",
    "sync-cache",
    "take-over-cache",
    "promote",
    "restore-target",
    "unfence",
    "publish",
];

/// The names of all records: the phases, in the order of a run.
pub const RECORDS: [&str; 12] = [
    "admitting",
    "deferred",
    "fencing",
    "draining",
    "waiting-for-lag",
    "waiting-for-dragonfly-sync",
    "promoting-dragonfly",
    "promoting",
    "publishing",
    "rolling-back",
    "succeeded",
    "failed",
];

/// The name of a record of that phase.
pub const fn record_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Admitting => "admitting",
        Phase::Deferred => "deferred",
        Phase::Fencing => "fencing",
        Phase::Draining => "draining",
        Phase::WaitingForLag => "waiting-for-lag",
        Phase::WaitingForDragonflySync => "waiting-for-dragonfly-sync",
        Phase::PromotingDragonfly => "promoting-dragonfly",
        Phase::Promoting => "promoting",
        Phase::Publishing => "publishing",
        Phase::RollingBack => "rolling-back",
        Phase::Succeeded => "succeeded",
        Phase::Failed => "failed",
    }
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Fact, Self::Command, Self::Record];

    /// The token in subjects and types.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Command => "command",
            Self::Record => "record",
        }
    }

    /// The kind of that token.
    pub fn from_token(token: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == token)
    }

    /// Every name of this kind.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Fact => &FACTS,
            Self::Command => &COMMANDS,
            Self::Record => &RECORDS,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bloodraven_types::{Command, Fact};
    use schemars::schema_for;
    use serde_json::Value;

    use super::*;

    fn names_in(schema: &schemars::Schema) -> Vec<String> {
        let variants = schema.get("oneOf").and_then(Value::as_array).unwrap();
        variants
            .iter()
            .map(|variant| variant["properties"]["name"]["const"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The lists of names are the domain's, so that no fact or command is without a channel.
    #[test]
    fn names_are_those_of_the_domain() {
        assert_eq!(names_in(&schema_for!(Fact)), FACTS);
        assert_eq!(names_in(&schema_for!(Command)), COMMANDS);
        let phases: Vec<_> = Phase::ALL.iter().map(|phase| record_name(*phase)).collect();
        assert_eq!(phases, RECORDS);
    }

    /// No name is used by two kinds, so that an id, which does not say the kind, names one message.
    #[test]
    fn no_name_is_used_twice() {
        let all: Vec<_> = Kind::ALL.iter().flat_map(|kind| kind.names()).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
