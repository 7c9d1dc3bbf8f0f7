//! Where things are: the checkout, the programs; and small files.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::StackError;
use crate::program::Program;

/// Names the folder of the programs; `cargo xtask test` sets it.
const PROGRAMS_VARIABLE: &str = "BLOODRAVEN_PROGRAMS";
/// Lines of a log that an error shows.
const TAIL_LINES: usize = 20;

/// The checkout around the package whose test runs, else around the current folder.
pub(crate) fn checkout() -> Result<PathBuf, StackError> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let from = package.or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    let root = from.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    root.map(Path::to_owned).ok_or(StackError::NoCheckout { from })
}

/// The folder of the programs: the one that the environment names, the running program's own when they are there, else
/// the checkout's target folder.
pub(crate) fn program_dir(checkout: &Path) -> PathBuf {
    if let Some(named) = std::env::var_os(PROGRAMS_VARIABLE) {
        return named.into();
    }
    let own = std::env::current_exe()
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned));
    let own = own.filter(|folder| folder.join(Program::StatusWriter.name()).is_file());
    own.unwrap_or_else(|| {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| checkout.join("target"), PathBuf::from);
        target.join("debug")
    })
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), StackError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| StackError::io("write", path, source))
}

/// The last lines of a text file.
pub(crate) fn tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(TAIL_LINES)..)
        .unwrap_or_default()
        .join("\n")
}
