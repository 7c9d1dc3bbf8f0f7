//! The programs' log lines.

use std::fmt;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::{Map, Value};

use crate::program::Program;

/// One line of a program's log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// The program.
    pub program: Program,
    /// The time as it was logged, RFC 3339.
    pub time: String,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`; `ERROR` too for a line that is none of the program's own, as a panic
    /// writes it.
    pub level: String,
    /// What it says.
    pub message: String,
    /// Everything else on the line.
    pub fields: Map<String, Value>,
}

impl LogLine {
    /// Whether the line is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.level == "ERROR"
    }

    fn parse(program: Program, text: &str) -> Self {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else {
            let (time, message) = (String::new(), text.to_owned());
            return Self {
                program,
                time,
                level: "ERROR".to_owned(),
                message,
                fields: Map::new(),
            };
        };
        let mut take = |key: &str| match fields.remove(key) {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        Self {
            program,
            time: take("time"),
            level: take("level"),
            message: take("msg"),
            fields,
        }
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            program,
            time,
            level,
            message,
            fields,
        } = self;
        write!(formatter, "{time} {level} {program}: {message}")?;
        fields
            .iter()
            .try_for_each(|(key, value)| write!(formatter, " {key}={value}"))
    }
}

/// The whole lines of a log from a byte on; none when it cannot be read.
pub(crate) fn read(program: Program, path: &Path, from: u64) -> Vec<LogLine> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.read_to_end(&mut bytes)
    });
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    // A line without its end is still being written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| LogLine::parse(program, line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of the program's own is read with its fields; anything else is an error line.
    #[test]
    fn lines_are_read() {
        let text = r#"{"time":"2026-04-20T14:32:00.123Z","level":"INFO","msg":"starting","logger":"x","pid":7}"#;
        let line = LogLine::parse(Program::Fencer, text);
        assert_eq!((line.level.as_str(), line.message.as_str()), ("INFO", "starting"));
        assert_eq!(line.fields.get("pid"), Some(&Value::from(7)));
        let panic = LogLine::parse(Program::Fencer, "thread 'main' panicked at src/main.rs:1:1:");
        assert!(panic.is_error());
    }
}
