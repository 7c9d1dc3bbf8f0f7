//! What is wrong with a configuration: all of it at once, each with key, value, origin and fix.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::duration;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, dotted; empty when the whole source could not be read.
    pub key: String,
    /// The value found, secrets redacted; none when there is none.
    pub value: Option<String>,
    /// Who set it.
    pub origin: Origin,
    /// What is wrong, as the end of a sentence.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}", self.key)?;
        }
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        let separator = if self.key.is_empty() { "" } else { " " };
        write!(
            f,
            "{separator}({})\n    {}\n    fix: {}",
            self.origin, self.message, self.fix
        )
    }
}

/// Every problem of one configuration, in the order of the keys.
#[derive(Debug, thiserror::Error)]
pub struct ConfigErrors {
    /// Never empty.
    pub problems: Vec<Problem>,
}

impl ConfigErrors {
    /// A source that cannot be read at all.
    pub(super) fn of_source(origin: Origin, message: String, fix: &str) -> Self {
        let problem = Problem {
            key: String::new(),
            value: None,
            origin,
            message,
            fix: fix.to_owned(),
        };
        Self {
            problems: vec![problem],
        }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        writeln!(
            f,
            "{count} {} in the configuration",
            if count == 1 { "problem" } else { "problems" }
        )?;
        for problem in &self.problems {
            write!(f, "\n  {problem}\n")?;
        }
        Ok(())
    }
}

/// Collects what `derive` and `validate` find. Value and origin are added by the loader.
#[derive(Debug, Default)]
pub struct Problems {
    pub(super) findings: Vec<Finding>,
}

/// A problem before its value and origin are known.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) key: String,
    pub(super) message: String,
    pub(super) fix: String,
}

impl Problems {
    /// Notes that something is wrong with the value at the dotted, kebab-case `key`.
    pub fn add(&mut self, key: &str, message: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding {
            key: key.to_owned(),
            message: message.into(),
            fix: fix.into(),
        });
    }

    /// Notes that a value is missing unless it is `present`.
    pub fn require(&mut self, key: &str, present: bool) {
        if !present {
            let variable = super::variable_name(key);
            self.add(
                key,
                "is not set and this binary needs it",
                format!("set it in the file or as {variable}"),
            );
        }
    }

    /// Notes a duration outside of its bounds.
    pub fn duration_within(&mut self, key: &str, value: Duration, shortest: Duration, longest: Duration) {
        if value < shortest || value > longest {
            let [from, to] = [duration::format(shortest), duration::format(longest)];
            self.add(key, "is out of bounds", format!("choose between {from} and {to}"));
        }
    }

    /// Whether nothing was found so far.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }
}
