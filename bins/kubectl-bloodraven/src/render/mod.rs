//! What is printed, as pure functions of the group and the time.

pub(crate) mod columns;
mod detail;
mod list;
mod story;
mod timeline;
pub(crate) mod words;

use bloodraven_types::{Group, Timestamp};

pub(crate) use detail::detail;
pub(crate) use list::list;
pub(crate) use story::{runs, story};

use crate::hold::held_run;

/// A group as one answer of the API server shows it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The group.
    pub(crate) group: Group,
    /// When the object was made.
    pub(crate) created: Option<Timestamp>,
}

/// Which columns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The further ones too.
    pub(crate) wide: bool,
    /// The namespace first.
    pub(crate) namespace: bool,
}

/// The mark of a group whose automation is held.
fn held(group: &Group) -> &'static str {
    let condition = || {
        group
            .status
            .conditions
            .iter()
            .any(|found| found.kind == "AutomaticFailoverHeld" && found.status == "True")
    };
    if held_run(group).is_some() || condition() {
        "+held"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;
