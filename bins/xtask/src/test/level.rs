//! The levels of tests, and what a level's run came to.

use std::time::Duration;

use crate::workspace::Workspace;

/// One level, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// Unit and property tests.
    Unit,
    /// The examples in the documentation.
    Doc,
    /// Tests on real servers.
    Lab,
}

/// What a level came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// How many tests passed.
    pub(crate) passed: u64,
    /// How many did not.
    pub(crate) failed: u64,
    /// Tests that were not run, with the reason.
    pub(crate) skipped: Vec<(String, String)>,
    /// How long it took.
    pub(crate) elapsed: Duration,
}

impl Level {
    /// Every level in the order in which they run.
    pub(crate) const ALL: [Self; 3] = [Self::Unit, Self::Doc, Self::Lab];

    /// The level's name for people.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Unit => "unit and property tests",
            Self::Doc => "documentation examples",
            Self::Lab => "tests on real servers",
        }
    }
}

impl Count {
    /// Both together.
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped.iter().cloned());
        self.elapsed += other.elapsed;
        self
    }
}

/// The names of test targets that need real servers; those that begin with `e2e` do too.
pub(crate) const SERVER_TARGETS: [&str; 7] = ["real", "lab", "server", "kube", "mysql", "nats", "valkey"];

/// Whether a test target of this name needs real servers.
pub(crate) fn needs_servers(target: &str) -> bool {
    SERVER_TARGETS.contains(&target) || target.starts_with("e2e")
}

/// The names of the workspace's test targets for which `wanted` holds.
pub(crate) fn test_targets(workspace: &Workspace, wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<String>> {
    let metadata = workspace.metadata()?;
    let mut names: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| metadata.workspace_members.contains(&package.id))
        .flat_map(|package| &package.targets)
        .filter(|target| target.kind.iter().any(|kind| kind == "test") && wanted(&target.name))
        .map(|target| target.name.clone())
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}
