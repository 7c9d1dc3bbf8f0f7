//! Reads the three sources that can set a key (file, environment, flags) into one list of [`Setting`]s, weakest first.

use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::{Dict, Tag, Value};

use super::VARIABLE_PREFIX;
use super::problems::{ConfigErrors, Origin};

/// Names the configuration file when no flag does.
const FILE_VARIABLE: &str = "BLOODRAVEN_CONFIG";

/// One key that somebody set.
#[derive(Clone, Debug)]
pub struct Setting {
    pub(super) key: String,
    pub(super) origin: Origin,
    /// The readings of what was written, likeliest first: text from the environment or a flag may be meant as text, as a
    /// number or as a list, and only the field's type can tell.
    pub(super) readings: Vec<Value>,
}

impl Setting {
    /// A key set by the flag `flag`, as text.
    pub fn from_flag(flag: &str, key: &str, text: &str) -> Self {
        Self {
            key: key.to_owned(),
            origin: Origin::Flag(flag.to_owned()),
            readings: readings(text),
        }
    }

    /// A list set by repeating the flag `flag`.
    pub fn list_from_flag(flag: &str, key: &str, items: &[String]) -> Self {
        let items = items.iter().map(|item| Value::from(item.as_str())).collect();
        let readings = vec![Value::Array(Tag::Default, items)];
        Self {
            key: key.to_owned(),
            origin: Origin::Flag(flag.to_owned()),
            readings,
        }
    }
}

/// Everything that can set a key. Values, not the process, so that tests need no environment of their own.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file named by `--config`.
    pub file: Option<PathBuf>,
    /// The environment variables of the process.
    pub variables: Vec<(String, String)>,
    /// What flags set.
    pub flags: Vec<Setting>,
}

impl Sources {
    /// The variables of this process, no file and no flags. Variables that are not Unicode are not ours and are left out.
    pub fn from_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            variables,
            ..Self::default()
        }
    }

    /// The value of an environment variable.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    /// All settings, weakest first, or why the file cannot be read.
    pub(super) fn settings(&self, known: &Dict) -> Result<Vec<Setting>, ConfigErrors> {
        let named = self
            .variable(FILE_VARIABLE)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        let mut settings = match self.file.clone().or(named) {
            Some(path) => from_file(&path, known)?,
            None => Vec::new(),
        };
        let mut variables: Vec<_> = self
            .variables
            .iter()
            .filter(|(name, _)| name != FILE_VARIABLE)
            .collect();
        variables.sort();
        settings.extend(variables.into_iter().filter_map(|(name, value)| {
            let rest = name.strip_prefix(VARIABLE_PREFIX)?;
            let key = rest.to_lowercase().replace("__", ".").replace('_', "-");
            Some(Setting {
                key,
                origin: Origin::Variable(name.clone()),
                readings: readings(value),
            })
        }));
        settings.extend(self.flags.iter().cloned());
        Ok(settings)
    }
}

/// Reads the file into one setting for each value, going down only where `known` has a section too.
fn from_file(path: &Path, known: &Dict) -> Result<Vec<Setting>, ConfigErrors> {
    let origin = Origin::File(path.to_owned());
    let problem = |message: String, fix: &str| ConfigErrors::of_source(origin.clone(), message, fix);
    let text = std::fs::read_to_string(path).map_err(|error| {
        problem(
            format!("cannot read it: {error}"),
            "correct the path given by --config or BLOODRAVEN_CONFIG",
        )
    })?;
    let dict: Dict = Toml::from_str(&text).map_err(|error| {
        problem(
            error.to_string().trim_end().replace('\n', "\n    "),
            "correct the TOML syntax there",
        )
    })?;
    let mut settings = Vec::new();
    flatten("", &dict, known, &origin, &mut settings);
    Ok(settings)
}

fn flatten(prefix: &str, dict: &Dict, known: &Dict, origin: &Origin, settings: &mut Vec<Setting>) {
    for (name, value) in dict {
        let key = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        match (value, known.get(name)) {
            (Value::Dict(_, inner), Some(Value::Dict(_, known))) if !known.is_empty() => {
                flatten(&key, inner, known, origin, settings);
            }
            _ => settings.push(Setting {
                key,
                origin: origin.clone(),
                readings: vec![value.clone()],
            }),
        }
    }
}

/// The ways to read a text: as it stands, as a value of TOML's kind, as a list with commas.
fn readings(text: &str) -> Vec<Value> {
    let mut readings = vec![Value::from(text)];
    // Parsing into a figment value cannot fail: what is nothing else is text.
    if let Ok(parsed) = text.parse::<Value>()
        && parsed.as_str().is_none()
    {
        readings.push(parsed);
    }
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(Value::from)
        .collect();
    readings.push(Value::Array(Tag::Default, items));
    readings
}
