//! A private apt: its own sources, lists and (empty) package database in a folder of the cache, so that packages of any
//! suite can be resolved and downloaded, signatures checked, while the system's apt stays as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Part, run};
use crate::error::LabError;
use crate::files;

/// Keys that sign Debian's archive.
pub(super) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A private apt for one suite.
pub(super) struct PrivateApt {
    part: Part,
    dir: PathBuf,
}

impl PrivateApt {
    /// Sets a private apt for `suite` up in `dir` and fetches the suite's lists.
    pub(super) fn update(part: Part, dir: &Path, suite: &str) -> Result<Self, LabError> {
        let apt = Self {
            part,
            dir: dir.to_path_buf(),
        };
        for folder in ["lists/partial", "cache/archives/partial", "parts"] {
            files::create_dir(&dir.join(folder))?;
        }
        let mirror = mirror(part)?;
        let sources = ["deb", "deb-src"].map(|kind| format!("{kind} [signed-by={KEYRING}] {mirror} {suite} main\n"));
        write(&dir.join("sources.list"), &sources.concat())?;
        write(&dir.join("status"), "")?;
        write(&apt.configuration(), &configuration(dir))?;
        run(&part.to_string(), apt.command("apt-get").args(["-qq", "update"]))?;
        Ok(apt)
    }

    /// The packages that installing `packages` on an empty system would bring, themselves included.
    pub(super) fn closure(&self, packages: &[&str]) -> Result<Vec<String>, LabError> {
        let plan = run(
            &self.part.to_string(),
            self.command("apt-get").args(["-qq", "-s", "install"]).args(packages),
        )?;
        let names = plan
            .lines()
            .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }

    /// Downloads binary packages into `to` and gives their files. Files that are there already stay as they are.
    pub(super) fn download<S: AsRef<str>>(&self, packages: &[S], to: &Path) -> Result<Vec<PathBuf>, LabError> {
        files::create_dir(to)?;
        let mut download = self.command("apt-get");
        download
            .args(["-qq", "download"])
            .args(packages.iter().map(AsRef::as_ref))
            .current_dir(to);
        run(&self.part.to_string(), &mut download)?;
        let uris = {
            let mut list = self.command("apt-get");
            list.args(["-qq", "--print-uris", "download"])
                .args(packages.iter().map(AsRef::as_ref));
            // Run elsewhere: apt does not print what lies in its working folder already.
            run(&self.part.to_string(), list.current_dir(self.dir.join("parts")))?
        };
        // 'address' file-name size sum
        Ok(uris
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .map(|name| to.join(name))
            .collect())
    }

    /// Downloads the files of a source package into `to`.
    pub(super) fn download_source(&self, package: &str, to: &Path) -> Result<(), LabError> {
        files::create_dir(to)?;
        let mut download = self.command("apt-get");
        download
            .args(["-qq", "source", "--download-only", package])
            .current_dir(to);
        run(&self.part.to_string(), &mut download).map(drop)
    }

    fn configuration(&self) -> PathBuf {
        self.dir.join("apt.conf")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.configuration()).env("LC_ALL", "C");
        command
    }
}

/// Extracts the files of a package, without its documentation, under `root`.
pub(super) fn extract(part: Part, package: &Path, root: &Path, left_out: &[&str]) -> Result<(), LabError> {
    files::create_dir(root)?;
    // dpkg-deb writes a tar stream; a file in between keeps both exit statuses.
    let tar_path = root.join(".package.tar");
    let tar_file = fs::File::create(&tar_path).map_err(|source| LabError::io("create", &tar_path, source))?;
    let what = part.to_string();
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--fsys-tarfile").arg(package);
    run_to_file(&what, unpack, tar_file)?;
    let mut extract = Command::new("tar");
    extract
        .arg("--directory")
        .arg(root)
        .args(["--extract", "--no-same-owner", "--file"])
        .arg(&tar_path);
    for path in [
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
        "usr/share/lintian",
    ]
    .iter()
    .chain(left_out)
    {
        extract.arg(format!("--exclude=./{path}"));
    }
    run(&what, &mut extract)?;
    files::remove_all(&tar_path)
}

fn run_to_file(what: &str, mut command: Command, file: fs::File) -> Result<(), LabError> {
    let line = format!("{command:?}");
    let fail = |status: String, output: String| LabError::Command {
        what: what.to_owned(),
        command: line.clone(),
        status,
        output,
    };
    let child = command.stdout(file).stderr(std::process::Stdio::piped()).spawn();
    let output = child
        .and_then(std::process::Child::wait_with_output)
        .map_err(|error| fail(error.to_string(), String::new()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(fail(
        output.status.to_string(),
        files::last_lines(&String::from_utf8_lossy(&output.stderr), 10),
    ))
}

/// The Debian mirror of the system's own apt configuration.
fn mirror(part: Part) -> Result<String, LabError> {
    let mut list = Command::new("apt-get");
    list.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
        .env("LC_ALL", "C");
    let addresses = run(&part.to_string(), &mut list)?;
    choose_mirror(&addresses).ok_or_else(|| LabError::Install {
        part,
        reason: "apt's own configuration names no mirror of Debian's main archive (see `apt-get indextargets`)"
            .to_owned(),
    })
}

/// The first address that looks like Debian's main archive; security archives hold updates only.
fn choose_mirror(addresses: &str) -> Option<String> {
    let candidates: Vec<&str> = addresses
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.contains("security"))
        .collect();
    let debian = candidates
        .iter()
        .find(|address| address.trim_end_matches('/').ends_with("debian"));
    debian
        .or_else(|| candidates.iter().find(|address| address.contains("debian")))
        .map(|address| (*address).to_owned())
}

fn configuration(dir: &Path) -> String {
    let dir = dir.display();
    [
        format!("Dir::Etc::SourceList \"{dir}/sources.list\";"),
        format!("Dir::Etc::SourceParts \"{dir}/parts\";"),
        format!("Dir::Etc::Preferences \"{dir}/preferences\";"),
        format!("Dir::Etc::PreferencesParts \"{dir}/parts\";"),
        format!("Dir::State::Lists \"{dir}/lists\";"),
        format!("Dir::State::status \"{dir}/status\";"),
        format!("Dir::State::extended_states \"{dir}/extended_states\";"),
        format!("Dir::Cache \"{dir}/cache\";"),
        "APT::Install-Recommends \"false\";".to_owned(),
        // A mirror may serve a frozen copy of a moving suite, whose date of validity has passed.
        "Acquire::Check-Valid-Until \"false\";".to_owned(),
        "Acquire::Languages \"none\";".to_owned(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";".to_owned(),
        "Acquire::Retries \"3\";".to_owned(),
        // Downloads go into folders of ours, which apt's own user may not write to.
        "APT::Sandbox::User \"\";".to_owned(),
        "Debug::NoLocking \"true\";\n".to_owned(),
    ]
    .join("\n")
}

fn write(path: &Path, content: &str) -> Result<(), LabError> {
    fs::write(path, content).map_err(|source| LabError::io("write", path, source))
}

#[cfg(test)]
mod tests {
    use super::choose_mirror;

    /// The main archive is taken, whatever else the system's apt reads, and no security archive.
    #[test]
    fn main_archive_is_chosen() {
        let list =
            "https://packages.example/apt/\nhttp://mirror.example/debian-security/\nhttp://mirror.example/debian/\n";
        assert_eq!(choose_mirror(list).as_deref(), Some("http://mirror.example/debian/"));
        assert_eq!(choose_mirror("http://mirror.example/debian-security/\n"), None);
        assert_eq!(choose_mirror(""), None);
    }
}
