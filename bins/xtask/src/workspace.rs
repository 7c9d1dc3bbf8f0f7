//! The checkout: where it is, and cargo run in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::layers::metadata::Metadata;

/// The checkout that this run works on.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The workspace around the current folder, so that the tool works on the checkout it was called in.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let here = std::env::current_dir().context("reading the current folder")?;
        let root = here.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
        let root = root.with_context(|| format!("{} is in no checkout of Bloodraven", here.display()))?;
        Ok(Self { root: root.to_owned() })
    }

    /// A path in the checkout.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// A cargo command in the checkout.
    pub(crate) fn cargo<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments).current_dir(&self.root);
        // Cargo runs this tool with the package's own variables set; what it starts is no part of that package.
        for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME"] {
            command.env_remove(name);
        }
        command
    }

    /// Where cargo puts the programs that [`Workspace::build_programs`] builds.
    pub(crate) fn programs(&self) -> PathBuf {
        // This program was put there too, whatever the target folder is called.
        let beside = std::env::current_exe()
            .ok()
            .and_then(|path| path.parent().map(Path::to_owned));
        beside.unwrap_or_else(|| self.path("target/debug"))
    }

    /// Builds every program of the workspace and says in which folder they are.
    pub(crate) fn build_programs(&self, release: bool) -> anyhow::Result<PathBuf> {
        let profile = if release { &["--release"][..] } else { &[] };
        let status = self
            .cargo(["build", "--workspace", "--bins"])
            .args(profile)
            .status()
            .context("running cargo build")?;
        if !status.success() {
            bail!("the programs do not build: cargo build ended with {status}");
        }
        let own = self.programs();
        Ok(if release { own.with_file_name("release") } else { own })
    }

    /// The checkout itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What cargo knows of the workspace.
    pub(crate) fn metadata(&self) -> anyhow::Result<Metadata> {
        let output = self
            .cargo(["metadata", "--format-version", "1", "--locked"])
            .stderr(Stdio::inherit())
            .output()
            .context("running cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed with {}", output.status);
        }
        serde_json::from_slice(&output.stdout).context("reading the output of cargo metadata")
    }
}
