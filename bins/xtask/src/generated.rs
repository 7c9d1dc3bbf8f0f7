//! `cargo xtask schema` and `cargo xtask crd`: files that are generated from the code, written or compared.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use bloodraven_messages::latest;

use crate::workspace::Workspace;

/// Whether to write or to compare.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Compares the committed files with the code and fails when they differ.
    #[arg(long)]
    check: bool,
}

/// Files by their path in the checkout.
type Files = BTreeMap<PathBuf, String>;

/// The schemas of the messages and the description of the channels.
pub(crate) fn schema(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let mut files = Files::new();
    for (name, schema) in latest::schemas() {
        let text = serde_json::to_string_pretty(&schema).with_context(|| format!("writing schema {name}"))?;
        files.insert(PathBuf::from("schemas").join(name), text + "\n");
    }
    files.insert("schemas/asyncapi.yaml".into(), latest::asyncapi());
    write_or_compare(workspace, &files, options, "cargo xtask schema")
}

/// The custom resource definition.
pub(crate) fn crd(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    let files = Files::from([(bloodraven_crd::CRD_FILE.into(), bloodraven_crd::crd_yaml()?)]);
    write_or_compare(workspace, &files, options, "cargo xtask crd")
}

fn write_or_compare(workspace: &Workspace, files: &Files, options: &Options, command: &str) -> anyhow::Result<()> {
    let mut drift = Vec::new();
    for (path, wanted) in files {
        let target = workspace.path(path);
        let found = match std::fs::read_to_string(&target) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let Some(difference) = first_difference(found.as_deref(), wanted) else {
            continue;
        };
        if options.check {
            drift.push(format!("{}: {difference}", path.display()));
            continue;
        }
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        std::fs::write(&target, wanted).with_context(|| format!("writing {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    if drift.is_empty() {
        println!("{} generated files are as the code has them", files.len());
        return Ok(());
    }
    for line in &drift {
        eprintln!("{line}");
    }
    bail!(
        "{} generated files are not as the code has them; run `{command}` and commit the result",
        drift.len()
    )
}

/// Where the committed text first differs from the wanted one; nothing when they are equal.
fn first_difference(found: Option<&str>, wanted: &str) -> Option<String> {
    let Some(found) = found else {
        return Some("is missing".to_owned());
    };
    if found == wanted {
        return None;
    }
    let (mut committed, mut generated) = (found.lines(), wanted.lines());
    let mut number = 0_usize;
    loop {
        number += 1;
        match (committed.next(), generated.next()) {
            (Some(old), Some(new)) if old == new => {}
            (None, None) => return Some("differs in its last line break".to_owned()),
            (old, new) => {
                let shown =
                    |line: Option<&str>| line.map_or("the end of the file".to_owned(), |line| format!("{line:?}"));
                return Some(format!("line {number} is {}, the code has {}", shown(old), shown(new)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    /// Drift names the first line that differs, both ways, and a missing file as such.
    #[test]
    fn drift_names_the_line() {
        assert_eq!(first_difference(Some("a\nb\n"), "a\nb\n"), None);
        assert_eq!(first_difference(None, "a\n").unwrap(), "is missing");
        let changed = first_difference(Some("a\nb\nc\n"), "a\nx\nc\n").unwrap();
        assert_eq!(changed, r#"line 2 is "b", the code has "x""#);
        let shorter = first_difference(Some("a\n"), "a\nb\n").unwrap();
        assert_eq!(shorter, r#"line 2 is the end of the file, the code has "b""#);
        assert_eq!(
            first_difference(Some("a"), "a\n").unwrap(),
            "differs in its last line break"
        );
    }
}
