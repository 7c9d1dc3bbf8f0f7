//! Small file helpers: the cache folder, atomic and private writes, the end of a log file.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// The folder that holds everything the lab downloads or builds: `$XDG_CACHE_HOME/bloodraven`, else
/// `$HOME/.cache/bloodraven`, else `/var/tmp/bloodraven`.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(|| PathBuf::from("/var/tmp")).join("bloodraven")
}

/// Creates a folder and its parents.
pub(crate) fn create_dir(path: &Path) -> Result<(), LabError> {
    fs::create_dir_all(path).map_err(|source| LabError::io("create", path, source))
}

/// Creates a folder that only its owner can enter; its parents must exist, it must not.
pub(crate) fn create_private_dir(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Removes a file or a whole folder; that it does not exist is no error.
pub(crate) fn remove_all(path: &Path) -> Result<(), LabError> {
    let result = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match result {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(LabError::io("remove", path, source)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a file that only its owner can read, whole or not at all.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), LabError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| LabError::io("write", path, source))
}

/// Reads a text file.
pub(crate) fn read_text(path: &Path) -> Result<String, LabError> {
    fs::read_to_string(path).map_err(|source| LabError::io("read", path, source))
}

/// The last `lines` lines of a log file, or a remark when it cannot be read.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    const WINDOW_BYTES: u64 = 16 * 1024;
    let read = || -> std::io::Result<String> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(WINDOW_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(last_lines(&String::from_utf8_lossy(&bytes), lines))
    };
    read().unwrap_or_else(|error| format!("(cannot read the log: {error})"))
}

/// The last `count` lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let start = lines.len().saturating_sub(count);
    lines.get(start..).unwrap_or_default().join("\n")
}

/// `bytes` random bytes from the kernel as lower-case hexadecimal digits.
pub(crate) fn random_hex(bytes: usize) -> Result<String, LabError> {
    let path = Path::new("/dev/urandom");
    let mut buffer = vec![0_u8; bytes];
    fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut buffer))
        .map_err(|source| LabError::io("read", path, source))?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::last_lines;

    /// The end of a text is cut at whole lines and short texts are kept whole.
    #[test]
    fn last_lines_keeps_the_end() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a", 5), "a");
        assert_eq!(last_lines("", 5), "");
    }
}
