//! The levels of tests, and what a level's run came to.

use std::path::{Path, PathBuf};
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
pub(crate) const SERVER_TARGETS: [&str; 10] = [
    "real", "lab", "server", "kube", "mysql", "nats", "valkey", "delivery", "outages", "replicas",
];

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

/// Why a test is marked `#[ignore]`, from its source somewhere under `folder`.
pub(crate) fn ignore_reason(folder: &Path, test: &str) -> Option<String> {
    let function = format!("fn {}(", test.rsplit("::").next()?);
    let entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.iter().find_map(|path| {
        if path.is_dir() {
            return ignore_reason(path, test);
        }
        let text = std::fs::read_to_string(path)
            .ok()
            .filter(|_| path.extension().is_some_and(|end| end == "rs"))?;
        let (before, _) = text.split_once(&function)?;
        let (_, after) = before.rsplit_once("#[ignore = \"")?;
        // The attribute belongs to this function only when no other one stands between.
        let (reason, between) = after.split_once("\"]")?;
        (!between.contains('}')).then(|| reason.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every test target that starts servers is known as one, so that it never runs among the unit tests.
    #[test]
    fn server_tests_are_named_so() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut unknown = Vec::new();
        for member in ["libs", "bins", "chaos"]
            .map(|folder| root.join(folder))
            .iter()
            .flat_map(folders)
        {
            let tests = member.join("tests");
            for path in std::fs::read_dir(&tests)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
            {
                let Some(name) = path
                    .file_stem()
                    .and_then(|name| name.to_str())
                    .filter(|_| is_target(&path))
                else {
                    continue;
                };
                if starts_servers(&path) && !needs_servers(name) {
                    unknown.push(path);
                }
            }
        }
        assert!(
            unknown.is_empty(),
            "add these to SERVER_TARGETS and .config/nextest.toml: {unknown:?}"
        );
    }

    fn folders(folder: &PathBuf) -> Vec<PathBuf> {
        std::fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    }

    fn is_target(path: &Path) -> bool {
        path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").is_file()
    }

    /// Whether the target, or a module beside it that it names, speaks of the lab or the stack.
    fn starts_servers(path: &Path) -> bool {
        let speaks = |text: &str| text.contains("bloodraven_lab") || text.contains("bloodraven_stack");
        if path.is_dir() {
            return folders(&path.to_path_buf()).iter().any(|inner| starts_servers(inner));
        }
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let modules = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';'));
        let shared = modules.filter_map(|name| std::fs::read_to_string(path.with_file_name(name).join("mod.rs")).ok());
        speaks(&text) || shared.into_iter().any(|text| speaks(&text))
    }

    /// The reason of an ignored test is read from its source.
    #[test]
    fn ignored_tests_have_their_reason() {
        let folder = tempfile::tempdir().unwrap();
        let text = "#[test]\n#[ignore = \"needs a day\"]\nfn slow() {}\n#[test]\nfn fast() {}\n";
        std::fs::create_dir(folder.path().join("tests")).unwrap();
        std::fs::write(folder.path().join("tests/a.rs"), text).unwrap();
        assert_eq!(
            ignore_reason(folder.path(), "inner::slow").as_deref(),
            Some("needs a day")
        );
        assert_eq!(ignore_reason(folder.path(), "fast"), None);
    }
}
