//! A real Kubernetes API server. No distribution carries one ready to run, so it is built from Debian bookworm's source
//! package with bookworm's Go; etcd and kubectl come from packages of the same suite. The 2.3 GB that the build needs
//! are given back at its end.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::{self, PrivateApt};
use super::progress::Progress;
use super::{Part, assets_override, run};
use crate::error::LabError;
use crate::files;

const SUITE: &str = "bookworm";
const PACKAGES: &[&str] = &[
    "golang-1.19-go",
    "golang-1.19-src",
    "etcd-server",
    "kubernetes-client",
    "golang-github-modern-go-reflect2-dev",
];
const SOURCE_PACKAGE: &str = "kubernetes";
/// Import path of the source tree.
const MODULE: &str = "k8s.io/kubernetes";
/// Go marks the packages of the API types with this comment.
const OPENAPI_MARK: &str = "+k8s:openapi-gen=";

/// One build, with the places it works in.
struct Build<'a> {
    progress: &'a dyn Progress,
    scratch: PathBuf,
    downloads: PathBuf,
}

/// Folder of the built and extracted programs.
pub(super) fn bin_dir() -> PathBuf {
    assets_override().unwrap_or_else(|| Part::Kube.dir().join("bin"))
}

/// The etcd and kube-apiserver programs, wherever they come from.
pub(super) fn binaries() -> [PathBuf; 2] {
    ["etcd", "kube-apiserver"].map(|program| bin_dir().join(program))
}

/// Downloads, builds, and gives the files to be summed.
pub(super) fn install(progress: &dyn Progress) -> Result<Vec<PathBuf>, LabError> {
    let dir = Part::Kube.dir();
    let build = Build {
        progress,
        scratch: dir.join("build"),
        downloads: dir.join("downloads"),
    };
    let archives = build.download()?;
    build.step("extracting packages");
    let root = build.scratch.join("root");
    for archive in &archives {
        apt::extract(Part::Kube, archive, &root, &[])?;
    }
    let bin = bin_dir();
    files::create_dir(&bin)?;
    for program in ["etcd", "kubectl"] {
        copy(&root.join("usr/bin").join(program), &bin.join(program))?;
    }
    let version = build.unpack_source()?;
    build.patch_source()?;
    build.generate_openapi()?;
    build.step("building kube-apiserver (about four minutes of CPU)");
    let built = build.scratch.join("kube-apiserver");
    build.go_build(&format!("{MODULE}/cmd/kube-apiserver"), &built, &linker_flags(&version))?;
    let said = run("kube", Command::new(&built).arg("--version"))?;
    build.step(said.trim());
    copy(&built, &bin.join("kube-apiserver"))?;
    build.step("removing the build folder");
    make_removable(&build.scratch)?;
    files::remove_all(&build.scratch)?;
    Ok(["etcd", "kube-apiserver", "kubectl"]
        .map(|program| bin.join(program))
        .into_iter()
        .chain(archives)
        .collect())
}

impl Build<'_> {
    fn step(&self, message: &str) {
        self.progress.step(Part::Kube, message);
    }

    fn source(&self) -> PathBuf {
        self.scratch.join("go/src").join(MODULE)
    }

    fn download(&self) -> Result<Vec<PathBuf>, LabError> {
        self.step(&format!("reading the package lists of {SUITE}"));
        let apt = PrivateApt::update(Part::Kube, &self.scratch.join("apt"), SUITE)?;
        self.step("downloading Go, etcd, kubectl and the source of kube-apiserver (130 MB)");
        let archives = apt.download(PACKAGES, &self.downloads)?;
        apt.download_source(SOURCE_PACKAGE, &self.downloads)?;
        Ok(archives)
    }

    /// Unpacks the source anew, so that an interrupted build leaves nothing half-patched, and gives its version.
    fn unpack_source(&self) -> Result<String, LabError> {
        self.step("unpacking the source");
        let entries = fs::read_dir(&self.downloads).map_err(|source| LabError::io("read", &self.downloads, source))?;
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let archive = names
            .filter(|name| name.starts_with("kubernetes_") && name.contains(".orig.tar."))
            .max()
            .ok_or_else(|| fail("the source package has no .orig.tar archive"))?;
        let source = self.source();
        files::remove_all(&source)?;
        files::create_dir(&source)?;
        let mut tar = Command::new("tar");
        tar.arg("--directory")
            .arg(&source)
            .args(["--extract", "--strip-components=1", "--file"]);
        run("kube", tar.arg(self.downloads.join(&archive)))?;
        upstream_version(&archive).ok_or_else(|| fail(&format!("no version in the archive name {archive}")))
    }

    /// The two changes without which this source does not work when compiled by Go 1.18 or newer: a newer `reflect2`,
    /// and validation that took an empty string for null.
    fn patch_source(&self) -> Result<(), LabError> {
        let packaged = self
            .scratch
            .join("root/usr/share/gocode/src/github.com/modern-go/reflect2");
        let vendored = self.source().join("vendor/github.com/modern-go/reflect2");
        files::remove_all(&vendored)?;
        run(
            "kube",
            Command::new("cp").arg("--recursive").arg(&packaged).arg(&vendored),
        )?;
        let old = "if data == nil || reflect.DeepEqual(reflect.Zero(reflect.TypeOf(data)), reflect.ValueOf(data)) {";
        for file in [
            "vendor/github.com/go-openapi/validate/type.go",
            "vendor/k8s.io/kube-openapi/pkg/validation/validate/type.go",
        ] {
            let path = self.source().join(file);
            let text = files::read_text(&path)?;
            if !text.contains(old) {
                return Err(fail(&format!("{file} is not the source this was written for")));
            }
            fs::write(&path, text.replace(old, "if data == nil {"))
                .map_err(|source| LabError::io("write", &path, source))?;
        }
        Ok(())
    }

    /// Generates the API description that the source package does not carry.
    fn generate_openapi(&self) -> Result<(), LabError> {
        self.step("generating the API description");
        let source = self.source();
        let generator = self.scratch.join("openapi-gen");
        self.go_build(
            &format!("{MODULE}/vendor/k8s.io/kube-openapi/cmd/openapi-gen"),
            &generator,
            "",
        )?;
        let mut packages = BTreeSet::new();
        for top in ["pkg", "vendor/k8s.io"] {
            marked_packages(&source, Path::new(top), &mut packages)?;
        }
        let inputs: Vec<String> = packages
            .into_iter()
            .map(|folder| format!("{MODULE}/{folder}"))
            .collect();
        let mut generate = self.go_environment(Command::new(&generator));
        generate
            .current_dir(&source)
            .args(["--v", "0", "--logtostderr", "--input-dirs", &inputs.join(",")]);
        generate.args(["--output-package", &format!("{MODULE}/pkg/generated/openapi")]);
        generate.args(["--output-file-base", "zz_generated.openapi"]);
        generate.args([
            "--go-header-file",
            "vendor/k8s.io/code-generator/hack/boilerplate.go.txt",
        ]);
        generate.arg("--report-filename").arg(self.scratch.join("violations"));
        run("kube", &mut generate).map(drop)
    }

    fn go_build(&self, package: &str, output: &Path, linker_flags: &str) -> Result<(), LabError> {
        let mut go = self.go_environment(Command::new(self.scratch.join("root/usr/lib/go-1.19/bin/go")));
        go.current_dir(self.source())
            .args(["build", "-trimpath", "-ldflags", linker_flags, "-o"]);
        run("kube", go.arg(output).arg(package)).map(drop)
    }

    fn go_environment(&self, mut command: Command) -> Command {
        command
            .env("GOROOT", self.scratch.join("root/usr/lib/go-1.19"))
            .env("GOPATH", self.scratch.join("go"))
            .env("GOCACHE", self.scratch.join("go-cache"))
            .env("HOME", &self.scratch)
            .env("GO111MODULE", "off")
            .env("GOPROXY", "off")
            .env("GOFLAGS", "")
            .env("CGO_ENABLED", "0");
        command
    }
}

/// Collects the folders under `folder` (relative to `source`) that hold a Go file with the mark, links followed.
fn marked_packages(source: &Path, folder: &Path, found: &mut BTreeSet<String>) -> Result<(), LabError> {
    let skipped = ["testdata", "code-generator", "sample-apiserver"];
    let path = source.join(folder);
    for entry in fs::read_dir(&path)
        .map_err(|error| LabError::io("read", &path, error))?
        .flatten()
    {
        let name = entry.file_name();
        let relative = folder.join(&name);
        if entry.path().is_dir() {
            if !skipped.iter().any(|skip| name == *skip) {
                marked_packages(source, &relative, found)?;
            }
        } else if relative.extension().is_some_and(|end| end == "go") {
            let text = fs::read(entry.path()).map_err(|error| LabError::io("read", &entry.path(), error))?;
            let text = String::from_utf8_lossy(&text);
            let mut comments = text.lines().filter_map(|line| line.strip_prefix("//"));
            if comments.any(|comment| comment.trim_start_matches(' ').starts_with(OPENAPI_MARK)) {
                found.insert(folder.display().to_string());
            }
        }
    }
    Ok(())
}

/// `kubernetes_1.20.5+really1.20.2.orig.tar.gz` is version 1.20.2.
fn upstream_version(archive: &str) -> Option<String> {
    let (_, rest) = archive.split_once('_')?;
    let (version, _) = rest.split_once(".orig.tar.")?;
    let version = version.rsplit_once("really").map_or(version, |(_, really)| really);
    let number = version.split(['+', '~', '-']).next()?;
    (number.split('.').count() == 3).then(|| number.to_owned())
}

/// Strips the program and lets it know its version, which clients ask for.
fn linker_flags(version: &str) -> String {
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let mut flags = "-s -w".to_owned();
    for package in ["component-base", "client-go/pkg"] {
        let place = format!("{MODULE}/vendor/k8s.io/{package}/version");
        flags.push_str(&format!(
            " -X {place}.gitVersion=v{version} -X {place}.gitMajor={major} -X {place}.gitMinor={minor}"
        ));
    }
    flags
}

fn copy(from: &Path, to: &Path) -> Result<(), LabError> {
    // A program that runs cannot be written to, but it can be replaced.
    let temporary = to.with_extension("new");
    fs::copy(from, &temporary).map_err(|source| LabError::io("copy", from, source))?;
    fs::rename(&temporary, to).map_err(|source| LabError::io("rename", &temporary, source))
}

/// Go and some packages leave folders without write permission, which only root could remove.
fn make_removable(folder: &Path) -> Result<(), LabError> {
    run("kube", Command::new("chmod").args(["--recursive", "u+w"]).arg(folder)).map(drop)
}

fn fail(reason: &str) -> LabError {
    LabError::Install {
        part: Part::Kube,
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{linker_flags, upstream_version};

    /// The real version is read from Debian's archive names and handed to the linker.
    #[test]
    fn version_of_the_archive() {
        assert_eq!(
            upstream_version("kubernetes_1.20.5+really1.20.2.orig.tar.gz").as_deref(),
            Some("1.20.2")
        );
        assert_eq!(
            upstream_version("kubernetes_1.36.4+ds.orig.tar.xz").as_deref(),
            Some("1.36.4")
        );
        assert_eq!(upstream_version("kubernetes.tar"), None);
        assert!(linker_flags("1.20.2").contains("client-go/pkg/version.gitMinor=20"));
    }
}
