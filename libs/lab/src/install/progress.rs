//! How an installation tells what it does.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::Part;

/// Receives the steps of an installation.
pub trait Progress {
    /// A step of `part` begins.
    fn step(&self, part: Part, message: &str);
    /// `part` is finished.
    fn done(&self, part: Part, message: &str);
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentProgress;

/// A spinner on a terminal, else one plain line for each step, both on standard error.
#[derive(Debug)]
pub struct ConsoleProgress {
    spinner: Option<ProgressBar>,
}

impl Progress for SilentProgress {
    fn step(&self, _part: Part, _message: &str) {}

    fn done(&self, _part: Part, _message: &str) {}
}

impl Default for ConsoleProgress {
    fn default() -> Self {
        Self::new()
    }
}

impl ConsoleProgress {
    /// Looks whether standard error is a terminal.
    #[must_use]
    pub fn new() -> Self {
        let spinner = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed:>4} {prefix:<7} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { spinner }
    }
}

#[expect(clippy::print_stderr, reason = "this is the console's own progress report")]
impl Progress for ConsoleProgress {
    fn step(&self, part: Part, message: &str) {
        if let Some(bar) = &self.spinner {
            bar.set_prefix(part.to_string());
            bar.set_message(message.to_owned());
        } else {
            eprintln!("{part:<7} {message}");
        }
    }

    fn done(&self, part: Part, message: &str) {
        if let Some(bar) = &self.spinner {
            bar.println(format!("{:<7} {message}", part.to_string()));
            bar.set_message("");
        } else {
            eprintln!("{:<7} {message}", part.to_string());
        }
    }
}
