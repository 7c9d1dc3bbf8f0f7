//! Brings the real servers onto this machine by package managers alone, into the cache folder, without root and without
//! touching the system. Every part can be repeated and resumed: downloads are kept, a finished part is recognised by
//! its `SHA256SUMS`, and a lock keeps two installations of one part from colliding.

mod apt;
mod command;
mod extracted;
mod kube;
mod nats;
mod progress;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub(crate) use command::run;
pub(crate) use extracted::ExtractedTree;
pub use progress::{ConsoleProgress, Progress, SilentProgress};

use crate::error::LabError;
use crate::files::{self, cache_dir};

/// Debian packages that a bare Debian 12 needs for building the workspace and for [`install`].
pub const SYSTEM_PACKAGES: &[&str] = &[
    "build-essential",
    "ca-certificates",
    "curl",
    "debian-archive-keyring",
    "git",
    "openssl",
    "python3",
    "python3-pip",
    "util-linux",
];

/// Environment variable that names a folder with `etcd` and `kube-apiserver` to be used instead of built ones.
pub const KUBE_ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// Programs the lab runs, and the Debian package that brings each.
const TOOLS: &[(&str, &str)] = &[
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("openssl", "openssl"),
    ("python3", "python3"),
    ("setsid", "util-linux"),
    ("sha256sum", "coreutils"),
    ("tar", "tar"),
];
/// Lists the checked files of a finished part; relative to the part's folder.
const SUMS_FILE: &str = "SHA256SUMS";

/// One thing that can be installed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// MySQL server, client and tools.
    Mysql,
    /// NATS server.
    Nats,
    /// Kubernetes API server, etcd and kubectl. The API server is built from source: about four minutes.
    Kube,
    /// Valkey server and client.
    Valkey,
}

impl Part {
    /// All parts, the quick ones first.
    pub const ALL: [Self; 4] = [Self::Nats, Self::Mysql, Self::Valkey, Self::Kube];

    /// The part's folder in the cache.
    #[must_use]
    pub fn dir(self) -> PathBuf {
        cache_dir().join(self.to_string())
    }

    /// Whether the part can be used. Looks only whether its files are there, so it is cheap.
    #[must_use]
    pub fn is_installed(self) -> bool {
        self.check().is_ok()
    }

    /// Like [`Part::is_installed`], with the reason.
    ///
    /// # Errors
    /// `NotInstalled` naming the first file that is missing.
    pub fn check(self) -> Result<(), LabError> {
        let missing = match self {
            Self::Kube if assets_override().is_some() => kube::binaries().into_iter().find(|path| !path.is_file()),
            Self::Kube | Self::Mysql | Self::Nats | Self::Valkey => {
                let sums = self.dir().join(SUMS_FILE);
                (!sums.is_file()).then_some(sums)
            }
        };
        missing.map_or(Ok(()), |missing| Err(LabError::NotInstalled { part: self, missing }))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Mysql => "mysql",
            Self::Nats => "nats",
            Self::Kube => "kube",
            Self::Valkey => "valkey",
        })
    }
}

impl FromStr for Part {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        Self::ALL
            .into_iter()
            .find(|part| part.to_string() == text)
            .ok_or_else(|| LabError::Unknown {
                kind: "part",
                name: text.to_owned(),
                known: Self::ALL.map(|part| part.to_string()).to_vec(),
            })
    }
}

/// Installs the given parts that are not installed yet, one after the other, and checks the sums of those that are.
/// Blocks; the API server's build takes minutes.
///
/// # Errors
/// `MissingTools` before anything is begun, else the first part's failure. Calling it again goes on where it stopped.
pub fn install(parts: &[Part], progress: &dyn Progress) -> Result<(), LabError> {
    check_tools(parts)?;
    for &part in parts {
        let _lock = lock(part, progress)?;
        if part == Part::Kube && assets_override().is_some() {
            part.check()?;
            progress.done(part, &format!("taken from {KUBE_ASSETS_VARIABLE}"));
            continue;
        }
        progress.step(part, "looking at what is there");
        if is_intact(part) {
            progress.done(part, "installed already");
            continue;
        }
        files::remove_all(&part.dir().join(SUMS_FILE))?;
        let files = match part {
            Part::Mysql => extracted::MYSQL.install(progress)?,
            Part::Valkey => extracted::VALKEY.install(progress)?,
            Part::Nats => nats::install(progress)?,
            Part::Kube => kube::install(progress)?,
        };
        write_sums(part, &files)?;
        if part == Part::Mysql {
            progress.step(part, "initialising the data folder that every server starts with");
            crate::servers::mysql::template()?;
        }
        progress.done(part, "installed");
    }
    Ok(())
}

/// The `mysql` command-line client as program and leading arguments.
///
/// # Errors
/// `NotInstalled`.
pub fn mysql_client() -> Result<Vec<String>, LabError> {
    Part::Mysql.check()?;
    ExtractedTree::of(Part::Mysql)?.command("usr/bin/mysql")
}

/// The `valkey-cli` command-line client as program and leading arguments.
///
/// # Errors
/// `NotInstalled`.
pub fn valkey_client() -> Result<Vec<String>, LabError> {
    Part::Valkey.check()?;
    ExtractedTree::of(Part::Valkey)?.command("usr/bin/valkey-cli")
}

/// `kubectl`: the one in [`KUBE_ASSETS_VARIABLE`]'s folder, else the installed one, else the system's.
///
/// # Errors
/// `NotInstalled` when there is none of them.
pub fn kubectl() -> Result<PathBuf, LabError> {
    let own = kube::bin_dir().join("kubectl");
    if own.is_file() {
        return Ok(own);
    }
    command::find_program("kubectl").ok_or(LabError::NotInstalled {
        part: Part::Kube,
        missing: own,
    })
}

/// The NATS server program.
pub(crate) fn nats_server() -> Result<PathBuf, LabError> {
    Part::Nats.check()?;
    Ok(nats::binary())
}

/// The etcd and kube-apiserver programs.
pub(crate) fn kube_binaries() -> Result<[PathBuf; 2], LabError> {
    Part::Kube.check()?;
    Ok(kube::binaries())
}

/// The Debian architecture name and the folder of its libraries under `usr/lib`, with the dynamic loader's file name.
pub(crate) fn library_layout() -> (&'static str, &'static str) {
    if cfg!(target_arch = "aarch64") {
        ("aarch64-linux-gnu", "ld-linux-aarch64.so.1")
    } else {
        ("x86_64-linux-gnu", "ld-linux-x86-64.so.2")
    }
}

fn assets_override() -> Option<PathBuf> {
    std::env::var_os(KUBE_ASSETS_VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// Refuses to begin when programs are missing, and says all of them at once.
fn check_tools(parts: &[Part]) -> Result<(), LabError> {
    let has_program = |program: &str| command::find_program(program).is_some();
    let needs_pip = parts.contains(&Part::Nats) && has_program("python3") && !nats::has_pip();
    let missing = missing_tools(has_program, needs_pip, Path::new(apt::KEYRING).is_file());
    missing.map_or(Ok(()), Err)
}

/// What is missing and the one command that brings it all; nothing when nothing is.
fn missing_tools(has_program: impl Fn(&str) -> bool, needs_pip: bool, has_keyring: bool) -> Option<LabError> {
    let programs = TOOLS.iter().copied().filter(|(program, _)| !has_program(program));
    let pip = needs_pip.then_some(("pip (python3 -m pip)", "python3-pip"));
    let keyring = (!has_keyring).then_some((apt::KEYRING, "debian-archive-keyring"));
    let missing: Vec<(&str, &str)> = programs.chain(pip).chain(keyring).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    (!missing.is_empty()).then(|| LabError::MissingTools {
        programs: missing.into_iter().map(|(program, _)| program.to_owned()).collect(),
        cure: format!("apt-get install --yes --no-install-recommends {}", packages.join(" ")),
    })
}

/// Waits for the part's lock; it is given back when the file is closed.
fn lock(part: Part, progress: &dyn Progress) -> Result<fs::File, LabError> {
    files::create_dir(&part.dir())?;
    let path = part.dir().join("lock");
    let file = fs::File::create(&path).map_err(|source| LabError::io("create", &path, source))?;
    if file.try_lock().is_err() {
        progress.step(part, "waiting for another installation to end");
        file.lock().map_err(|source| LabError::io("lock", &path, source))?;
    }
    Ok(file)
}

fn is_intact(part: Part) -> bool {
    let mut check = std::process::Command::new("sha256sum");
    check.args(["--check", "--status", SUMS_FILE]).current_dir(part.dir());
    part.dir().join(SUMS_FILE).is_file() && run(&part.to_string(), &mut check).is_ok()
}

fn write_sums(part: Part, files: &[PathBuf]) -> Result<(), LabError> {
    let mut sums = std::process::Command::new("sha256sum");
    sums.current_dir(part.dir());
    for file in files {
        sums.arg(file.strip_prefix(part.dir()).unwrap_or(file));
    }
    let output = run(&part.to_string(), &mut sums)?;
    files::write_private(&part.dir().join(SUMS_FILE), output.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Part, SYSTEM_PACKAGES, TOOLS, missing_tools};

    /// Every part reads back from its name.
    #[test]
    fn parts_round_trip() {
        for part in Part::ALL {
            assert_eq!(part.to_string().parse::<Part>().unwrap(), part);
        }
        assert!("docker".parse::<Part>().is_err());
    }

    /// All missing programs are told at once, with one command that brings each package once.
    #[test]
    fn missing_programs_are_told_together() {
        assert!(missing_tools(|_| true, false, true).is_none());
        let error = missing_tools(|program| !matches!(program, "openssl" | "dpkg-deb"), true, false).unwrap();
        let text = error.to_string();
        for word in ["openssl", "dpkg-deb", "python3 -m pip", "apt-get install"] {
            assert!(text.contains(word), "{text}");
        }
        let cure = "debian-archive-keyring dpkg openssl python3-pip";
        assert!(text.ends_with(cure), "{text}");
    }

    /// What a bare Debian lacks of the programs is in the list that CI and the README install.
    #[test]
    fn system_packages_bring_the_programs() {
        let always_there = ["apt", "dpkg", "coreutils", "tar"];
        for (program, package) in TOOLS {
            assert!(
                always_there.contains(package) || SYSTEM_PACKAGES.contains(package),
                "{program}"
            );
        }
    }
}
