//! The part of `cargo metadata` that the arrows need.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// What cargo knows of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// Every package, ours and others'.
    pub(crate) packages: Vec<Package>,
    /// Ids of our packages.
    pub(crate) workspace_members: Vec<String>,
    /// Who depends on whom, with features resolved.
    pub(crate) resolve: Resolve,
}

/// One package.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    /// Cargo's id.
    pub(crate) id: String,
    /// The package's name.
    pub(crate) name: String,
    /// Where its manifest is.
    pub(crate) manifest_path: PathBuf,
    /// Its libraries, programs and tests.
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

/// Something that a package builds.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    /// `lib`, `bin`, `test`, …
    pub(crate) kind: Vec<String>,
    /// Its name.
    pub(crate) name: String,
}

/// The resolved graph.
#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    /// One node a package.
    pub(crate) nodes: Vec<Node>,
}

/// One package's arrows.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    /// Cargo's id.
    pub(crate) id: String,
    /// The arrows.
    pub(crate) deps: Vec<Dependency>,
}

/// One arrow.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The id of what is depended on.
    pub(crate) pkg: String,
    /// In which ways.
    pub(crate) dep_kinds: Vec<DependencyKind>,
}

/// One way of depending.
#[derive(Debug, Deserialize)]
pub(crate) struct DependencyKind {
    /// Absent for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

/// The graph with names.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    packages: BTreeMap<&'a str, &'a Package>,
    nodes: BTreeMap<&'a str, &'a Node>,
    members: Vec<&'a Package>,
}

impl Dependency {
    /// Whether what is shipped contains it: dependencies of tests alone do not count.
    pub(crate) fn is_shipped(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"))
    }
}

impl<'a> Graph<'a> {
    /// Indexes the metadata.
    pub(crate) fn new(metadata: &'a Metadata) -> Self {
        let packages: BTreeMap<_, _> = metadata
            .packages
            .iter()
            .map(|package| (package.id.as_str(), package))
            .collect();
        let nodes = metadata
            .resolve
            .nodes
            .iter()
            .map(|node| (node.id.as_str(), node))
            .collect();
        let members = metadata
            .workspace_members
            .iter()
            .filter_map(|id| packages.get(id.as_str()).copied())
            .collect();
        Self {
            packages,
            nodes,
            members,
        }
    }

    /// Our packages.
    pub(crate) fn members(&self) -> &[&'a Package] {
        &self.members
    }

    /// Whether the package is ours.
    pub(crate) fn is_member(&self, package: &Package) -> bool {
        self.members.iter().any(|member| member.id == package.id)
    }

    /// What the package depends on directly.
    pub(crate) fn dependencies(&self, package: &Package) -> impl Iterator<Item = (&'a Package, &'a Dependency)> {
        let deps = self
            .nodes
            .get(package.id.as_str())
            .map_or(&[][..], |node| node.deps.as_slice());
        deps.iter()
            .filter_map(|dep| Some((*self.packages.get(dep.pkg.as_str())?, dep)))
    }

    /// The shortest way by shipped dependencies from `start` to a package that `is_goal` accepts, both ends included.
    pub(crate) fn path_to(&self, start: &'a Package, is_goal: impl Fn(&str) -> bool) -> Option<Vec<&'a str>> {
        let mut came_from: BTreeMap<&str, Option<&'a Package>> = BTreeMap::from([(start.id.as_str(), None)]);
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(package) = queue.pop_front() {
            if package.id != start.id && is_goal(&package.name) {
                let mut path = vec![package.name.as_str()];
                let mut at = package;
                while let Some(Some(before)) = came_from.get(at.id.as_str()) {
                    path.push(before.name.as_str());
                    at = before;
                }
                path.reverse();
                return Some(path);
            }
            for (next, dependency) in self.dependencies(package) {
                if dependency.is_shipped() && !came_from.contains_key(next.id.as_str()) {
                    came_from.insert(next.id.as_str(), Some(package));
                    queue.push_back(next);
                }
            }
        }
        None
    }
}
