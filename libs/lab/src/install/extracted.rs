//! Parts that are Debian packages extracted into a folder and run with the dynamic loader and libraries found there:
//! the system's own C library plays no role, so packages of any suite run on any distribution.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::{self, PrivateApt};
use super::progress::Progress;
use super::{Part, library_layout, run};
use crate::error::LabError;
use crate::files;

/// What to extract for a part.
pub(super) struct ExtractedPart {
    part: Part,
    suite: &'static str,
    packages: &'static [&'static str],
    /// Packages of the closure that only helper scripts or service management need, by prefix.
    left_out_packages: &'static [&'static str],
    left_out_files: &'static [&'static str],
    /// Files whose sums say that the part is intact; the first is asked for its version.
    programs: &'static [&'static str],
}

/// MySQL is packaged in sid only.
pub(super) const MYSQL: ExtractedPart = ExtractedPart {
    part: Part::Mysql,
    suite: "sid",
    packages: &["mysql-server-core", "mysql-client-core"],
    left_out_packages: &["perl", "libperl", "libgdbm", "libdb5", "gcc-"],
    left_out_files: &[
        "usr/lib/*/gconv",
        "usr/bin/ibd2sdi",
        "usr/bin/innochecksum",
        "usr/bin/myisam*",
        "usr/bin/mysql_migrate_keyring",
        "usr/bin/mysqlcheck",
        "usr/bin/mysqlimport",
        "usr/bin/mysqlslap",
    ],
    programs: &["usr/sbin/mysqld", "usr/bin/mysql"],
};

/// Valkey of the same suite, so that both parts ask the same lists.
pub(super) const VALKEY: ExtractedPart = ExtractedPart {
    part: Part::Valkey,
    suite: "sid",
    packages: &["valkey-server", "valkey-tools"],
    left_out_packages: &[
        "gcc-",
        "systemd",
        "libsystemd-shared",
        "libmount",
        "libblkid",
        "libselinux",
        "libpcre2",
    ],
    left_out_files: &["usr/lib/*/gconv", "usr/lib/systemd", "etc"],
    programs: &["usr/bin/valkey-server", "usr/bin/valkey-cli"],
};

/// An extracted part that is ready to run.
pub(crate) struct ExtractedTree {
    part: Part,
    root: PathBuf,
}

impl ExtractedPart {
    /// Downloads and extracts the packages, tries the programs, and gives the files to be summed.
    pub(super) fn install(&self, progress: &dyn Progress) -> Result<Vec<PathBuf>, LabError> {
        let part = self.part;
        let dir = part.dir();
        progress.step(part, &format!("reading the package lists of {}", self.suite));
        let apt = PrivateApt::update(part, &dir.join("apt"), self.suite)?;
        let mut packages = apt.closure(self.packages)?;
        packages.retain(|name| !self.left_out_packages.iter().any(|prefix| name.starts_with(prefix)));
        progress.step(part, &format!("downloading {} packages", packages.len()));
        let downloads = dir.join("downloads");
        let archives = apt.download(&packages, &downloads)?;
        // A new version replaces the old one whole, and a half-extracted tree is begun anew.
        let tree = ExtractedTree {
            part,
            root: dir.join("root"),
        };
        files::remove_all(&tree.root)?;
        progress.step(part, &format!("extracting {} packages", archives.len()));
        for archive in &archives {
            apt::extract(part, archive, &tree.root, self.left_out_files)?;
        }
        remove_other_files(&downloads, &archives)?;
        files::remove_all(&dir.join("apt"))?;
        for program in self.programs {
            progress.step(part, &format!("trying {program}"));
            let version = run(&part.to_string(), tree.std_command(program)?.arg("--version"))?;
            progress.step(part, version.trim());
        }
        let programs = self.programs.iter().map(|program| tree.root.join(program));
        Ok(programs.chain(archives).collect())
    }
}

impl ExtractedTree {
    /// The tree of an installed part.
    pub(crate) fn of(part: Part) -> Result<Self, LabError> {
        part.check()?;
        Ok(Self {
            part,
            root: part.dir().join("root"),
        })
    }

    /// A folder or file of the tree.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Program and leading arguments that run a program of the tree.
    pub(crate) fn command(&self, program: &str) -> Result<Vec<String>, LabError> {
        let (folder, loader) = library_layout();
        let libraries = self.path("usr/lib").join(folder);
        let program = self.path(program);
        for path in [&libraries.join(loader), &program] {
            if !path.exists() {
                return Err(LabError::NotInstalled {
                    part: self.part,
                    missing: path.clone(),
                });
            }
        }
        let text = |path: &Path| path.display().to_string();
        // The program finds its own files by its name, which has to be absolute.
        Ok(vec![
            text(&libraries.join(loader)),
            "--argv0".to_owned(),
            text(&program),
            "--library-path".to_owned(),
            text(&libraries),
            text(&program),
        ])
    }

    /// Like [`ExtractedTree::command`], ready to be run here.
    pub(crate) fn std_command(&self, program: &str) -> Result<Command, LabError> {
        let mut words = self.command(program)?.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        Ok(command)
    }
}

/// Removes downloads of versions that are not used any more.
fn remove_other_files(folder: &Path, kept: &[PathBuf]) -> Result<(), LabError> {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !kept.contains(&entry.path()) {
            files::remove_all(&entry.path())?;
        }
    }
    Ok(())
}
