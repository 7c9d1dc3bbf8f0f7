//! Runs one command of an installation or start step and turns a failure into an error that shows its last words.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::LabError;
use crate::files;

/// Lines of a failed command's output that its error shows.
const OUTPUT_LINES: usize = 15;

/// Runs a command to its end and gives its standard output.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<String, LabError> {
    let error = |command: &Command, status: String, output: String| LabError::Command {
        what: what.to_owned(),
        command: describe(command),
        status,
        output,
    };
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|failure| error(command, failure.to_string(), String::new()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let shown = if stderr.trim().is_empty() {
        text.as_str()
    } else {
        &stderr
    };
    Err(error(
        command,
        output.status.to_string(),
        files::last_lines(shown, OUTPUT_LINES),
    ))
}

/// Finds a program in `PATH`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| {
            candidate
                .metadata()
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        })
}

/// The command line, long arguments shortened.
fn describe(command: &Command) -> String {
    const LONGEST: usize = 120;
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        line.push(' ');
        line.extend(argument.chars().take(LONGEST));
        if argument.chars().count() > LONGEST {
            line.push('…');
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{find_program, run};
    use crate::error::LabError;

    /// A failed command's error names the part, the command line, its status and its last words.
    #[test]
    fn failure_shows_command_and_last_words() {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "echo lost >&2; exit 3"]);
        let error = run("mysql", &mut command).unwrap_err();
        assert!(matches!(error, LabError::Command { .. }));
        let text = error.to_string();
        assert!(
            ["mysql", "sh -c", "exit status: 3", "lost"]
                .iter()
                .all(|word| text.contains(word)),
            "{text}"
        );
    }

    /// Programs are found by their executable file only.
    #[test]
    fn programs_are_looked_up_in_path() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-anywhere").is_none());
    }
}
