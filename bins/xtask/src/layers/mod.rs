//! `cargo xtask layers`: refuses every dependency arrow that the architecture does not draw.

mod check;
pub(crate) mod metadata;
mod table;

use anyhow::{Context, bail};

use crate::workspace::Workspace;
use metadata::Graph;

/// Checks every arrow and every manifest of the workspace.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let metadata = workspace.metadata()?;
    let graph = Graph::new(&metadata);
    let mut problems = check::forbidden_arrows(&graph);
    for member in graph.members() {
        let path = &member.manifest_path;
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        problems.extend(check::manifest_problems(&member.name, &text));
    }
    if problems.is_empty() {
        println!(
            "{} crates, every arrow is one of the architecture's",
            graph.members().len()
        );
        return Ok(());
    }
    for problem in &problems {
        eprintln!("{problem}");
    }
    bail!(
        "{} arrows or manifests are not as the architecture wants them",
        problems.len()
    )
}
