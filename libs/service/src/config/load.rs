//! The pipeline from sources to a checked configuration.

use std::collections::{BTreeMap, BTreeSet};

use figment::value::{Dict, Map, Tag, Value};
use figment::{Error, Figment, Metadata, Profile, Provider};

use super::problems::{ConfigErrors, Finding, Origin, Problem, Problems};
use super::secret::REDACTED;
use super::show;
use super::sources::{Setting, Sources};
use super::{Config, VARIABLE_PREFIX, variable_name};

/// A configuration that was loaded and found right.
#[derive(Clone, Debug)]
pub struct Loaded<C> {
    /// The values.
    pub config: C,
    /// Who set each key that is not at its default.
    pub origins: BTreeMap<String, Origin>,
    /// Environment variables with our prefix that set nothing: a Service named `bloodraven` makes Kubernetes add some.
    pub ignored_variables: Vec<String>,
}

impl<C: Config> Loaded<C> {
    /// The effective configuration as TOML, with the origin of each value beside it and secrets redacted.
    pub fn show(&self) -> String {
        show::effective(&self.config, &self.origins)
    }
}

/// Reads, derives and validates the configuration.
///
/// # Errors
///
/// [`ConfigErrors`] with every problem of every source and every key.
pub fn load<C: Config>(sources: &Sources) -> Result<Loaded<C>, ConfigErrors> {
    let mut loader = Loader::<C>::new()?;
    let settings = sources.settings(&loader.known)?;
    for setting in settings {
        loader.apply(setting);
    }
    loader.finish(sources)
}

/// The state of one loading: what is merged so far and what was wrong so far.
struct Loader<C> {
    known: Dict,
    defaults: Figment,
    merged: Figment,
    origins: BTreeMap<String, Origin>,
    ignored_variables: Vec<String>,
    refused: BTreeSet<String>,
    problems: Vec<Problem>,
    _config: std::marker::PhantomData<C>,
}

impl<C: Config> Loader<C> {
    fn new() -> Result<Self, ConfigErrors> {
        let (known, reason) = match Value::serialize(C::default()) {
            Ok(value) => (value.into_dict(), "they are not a struct".to_owned()),
            Err(error) => (None, error.to_string()),
        };
        let Some(known) = known else {
            let message = format!("the defaults of this binary cannot be read: {reason}");
            return Err(ConfigErrors::of_source(
                Origin::Default,
                message,
                "report this as a defect",
            ));
        };
        let defaults = Figment::from(Layer {
            origin: Origin::Default,
            dict: known.clone(),
        });
        Ok(Self {
            known,
            merged: defaults.clone(),
            defaults,
            origins: BTreeMap::new(),
            ignored_variables: Vec::new(),
            refused: BTreeSet::new(),
            problems: Vec::new(),
            _config: std::marker::PhantomData,
        })
    }

    /// Merges one setting, or notes why it cannot be.
    fn apply(&mut self, setting: Setting) {
        match locate(&self.known, &setting.key) {
            Place::Value => self.apply_known(setting),
            Place::Section => {
                let fix = format!("set the keys below it, such as {}", self.first_key_below(&setting.key));
                self.refuse(&setting, "is a section, not a value".to_owned(), fix);
            }
            Place::Unknown => self.apply_unknown(setting),
        }
    }

    fn apply_unknown(&mut self, setting: Setting) {
        let keys = show::keys(&self.known);
        let meant = match &setting.origin {
            Origin::Variable(name) => {
                let misjoined = keys.iter().find(|key| joined(key) == joined(&setting.key));
                // Kubernetes puts variables of its own there for a Service named bloodraven, and none has two underscores.
                if misjoined.is_none() && !name.trim_start_matches(VARIABLE_PREFIX).contains("__") {
                    self.ignored_variables.push(name.clone());
                    return;
                }
                misjoined
                    .cloned()
                    .or_else(|| nearest(&setting.key, &keys))
                    .map(|key| variable_name(&key))
            }
            Origin::Default | Origin::File(_) | Origin::Flag(_) => nearest(&setting.key, &keys),
        };
        let fix = match meant {
            Some(name) => format!("did you mean {name}?"),
            None => "remove it; --print-config lists all keys".to_owned(),
        };
        self.refuse(&setting, "is not a known key".to_owned(), fix);
    }

    fn apply_known(&mut self, setting: Setting) {
        let Setting { key, origin, readings } = &setting;
        let mut first_error = None;
        for reading in readings {
            let layer = Layer {
                origin: origin.clone(),
                dict: nested(key, reading.clone()),
            };
            match self.defaults.clone().merge(layer.clone()).extract::<C>() {
                Ok(_) => {
                    self.merged = std::mem::take(&mut self.merged).merge(layer);
                    self.origins.insert(key.clone(), origin.clone());
                    return;
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if self.is_secret(key) {
            // The text of a type error would quote the value.
            let message = format!("must be a text, and not the {REDACTED} of a printed configuration");
            return self.refuse(
                &setting,
                message,
                "put the secret itself there, or name its file".to_owned(),
            );
        }
        let message = match first_error {
            Some(error) => error.kind.to_string().replace("``", "`"),
            None => "has no value".to_owned(),
        };
        let fix = match self.known_value(key).map(show::toml) {
            Some(default) if default != "\"\"" => format!("give a value like the default, {default}"),
            Some(_) | None => "correct the value, or remove it for the default".to_owned(),
        };
        self.refuse(&setting, message, fix);
    }

    fn refuse(&mut self, setting: &Setting, message: String, fix: String) {
        let Setting { key, origin, readings } = setting.clone();
        // What an unknown key was meant to be, nobody knows: its value may be a secret.
        let known = !matches!(locate(&self.known, &key), Place::Unknown);
        let value = readings.first().filter(|_| known).map(|value| self.shown(&key, value));
        self.refused.insert(key.clone());
        self.problems.push(Problem {
            key,
            value,
            origin,
            message,
            fix,
        });
    }

    /// Extracts what is merged, derives and validates it.
    fn finish(mut self, sources: &Sources) -> Result<Loaded<C>, ConfigErrors> {
        let mut config = match self.merged.extract::<C>() {
            Ok(config) => config,
            Err(error) => {
                let key = error.path.join(".");
                self.note(Finding {
                    key,
                    message: error.kind.to_string(),
                    fix: "correct the value".to_owned(),
                });
                return Err(self.into_errors());
            }
        };
        let mut found = Problems::default();
        config.common_mut().derive(&mut found);
        for (key, path) in config.common().secret_files() {
            self.origins
                .entry(key.to_owned())
                .or_insert_with(|| Origin::File(path.to_owned()));
        }
        if config.common().instance.is_empty() {
            config.common_mut().instance = host_name(sources);
        }
        config.derive(&mut found);
        config.common().validate(&mut found);
        config.validate(&mut found);
        for finding in found.findings {
            self.note(finding);
        }
        if self.problems.is_empty() {
            return Ok(Loaded {
                config,
                origins: self.origins,
                ignored_variables: self.ignored_variables,
            });
        }
        Err(self.into_errors())
    }

    /// Adds a finding with its value and origin, unless its key was refused already: then its default was judged, which
    /// nobody asked for.
    fn note(&mut self, finding: Finding) {
        let Finding { key, message, fix } = finding;
        if self.refused.contains(&key) {
            return;
        }
        let origin = self.origins.get(&key).cloned().unwrap_or(Origin::Default);
        let value = self.merged.find_value(&key).ok().map(|value| self.shown(&key, &value));
        self.problems.push(Problem {
            key,
            value,
            origin,
            message,
            fix,
        });
    }

    fn into_errors(mut self) -> ConfigErrors {
        self.problems.sort_by(|a, b| a.key.cmp(&b.key));
        ConfigErrors {
            problems: self.problems,
        }
    }

    /// A value as text, without what is secret in it.
    fn shown(&self, key: &str, value: &Value) -> String {
        if self.is_secret(key) {
            return format!("\"{}\"", if value.as_str() == Some("") { "" } else { REDACTED });
        }
        show::without_credentials(&show::toml(value))
    }

    fn known_value(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(None, |at: Option<&Value>, name| {
            let dict = match at {
                None => &self.known,
                Some(value) => value.as_dict()?,
            };
            dict.get(name).map(Some)
        })?
    }

    /// Whether the field at `key` is a [`super::Secret`]: a probe put there does not come out again.
    fn is_secret(&self, key: &str) -> bool {
        let probe = Layer {
            origin: Origin::Default,
            dict: nested(key, Value::from("probe")),
        };
        let Ok(config) = self.defaults.clone().merge(probe).extract::<C>() else {
            return false;
        };
        let Ok(value) = Value::serialize(config) else {
            return false;
        };
        value.find_ref(key).and_then(Value::as_str) == Some(REDACTED)
    }

    fn first_key_below(&self, section: &str) -> String {
        let prefix = format!("{section}.");
        show::keys(&self.known)
            .into_iter()
            .find(|key| key.starts_with(&prefix))
            .unwrap_or(prefix)
    }
}

/// Where a key leads among the known ones.
enum Place {
    Value,
    Section,
    Unknown,
}

fn locate(known: &Dict, key: &str) -> Place {
    let mut dict = known;
    let mut names = key.split('.');
    while let Some(name) = names.next() {
        match dict.get(name) {
            None => return Place::Unknown,
            Some(Value::Dict(_, inner)) if !inner.is_empty() => dict = inner,
            // A map without entries takes any name, an absent optional section is judged by its own type.
            Some(Value::Dict(..) | Value::Empty(..)) => return Place::Value,
            Some(_) if names.next().is_none() => return Place::Value,
            Some(_) => return Place::Unknown,
        }
    }
    Place::Section
}

/// A key without the difference between a section and a longer word, which one underscore too few blurs.
fn joined(key: &str) -> String {
    key.replace('.', "-")
}

/// The known key that was probably meant: the same name elsewhere, or few typing errors away.
fn nearest(key: &str, known: &[String]) -> Option<String> {
    let wanted = key.to_lowercase().replace('_', "-");
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let spelling = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(4))
        .min();
    let elsewhere = || known.iter().find(|candidate| last(candidate) == last(&wanted));
    let section = || {
        let mut sections: BTreeSet<&str> = known
            .iter()
            .filter_map(|key| key.split_once('.'))
            .map(|(section, _)| section)
            .collect();
        sections.retain(|section| strsim::damerau_levenshtein(&wanted, section) <= 2);
        sections.into_iter().next().map(str::to_owned)
    };
    spelling
        .map(|(_, key)| key)
        .or_else(elsewhere)
        .cloned()
        .or_else(section)
}

fn nested(key: &str, value: Value) -> Dict {
    let value = key.rsplit('.').fold(value, |inner, name| {
        Value::Dict(Tag::Default, Dict::from([(name.to_owned(), inner)]))
    });
    value.into_dict().unwrap_or_default()
}

/// The name of this host: a pod's name in a cluster.
fn host_name(sources: &Sources) -> String {
    let variable = sources.variable("HOSTNAME").map(str::to_owned);
    let kernel = || {
        std::fs::read_to_string("/proc/sys/kernel/hostname")
            .ok()
            .map(|name| name.trim().to_owned())
    };
    variable
        .or_else(kernel)
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("pid-{}", std::process::id()))
}

/// Values with their origin, for figment.
#[derive(Clone)]
struct Layer {
    origin: Origin,
    dict: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.to_string())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}
