//! The configuration pipeline as a binary sees it: precedence, and everything that can be wrong with it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::PathBuf;
use std::time::Duration;

use bloodraven_service::CommonArgs;
use bloodraven_service::config::{
    CommonConfig, Config, ConfigErrors, Loaded, LogFormat, Origin, Problems, REDACTED, Sources, duration, load,
};
use clap::Parser;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct FencerConfig {
    #[serde(flatten)]
    common: CommonConfig,
    #[serde(with = "duration")]
    fence_timeout: Duration,
    retries: u32,
}

impl Default for FencerConfig {
    fn default() -> Self {
        Self {
            common: CommonConfig::default(),
            fence_timeout: Duration::from_secs(30),
            retries: 3,
        }
    }
}

impl Config for FencerConfig {
    fn common(&self) -> &CommonConfig {
        &self.common
    }

    fn common_mut(&mut self) -> &mut CommonConfig {
        &mut self.common
    }

    fn validate(&self, problems: &mut Problems) {
        self.common.mysql.require_admin(problems);
        if self.retries == 0 {
            problems.add("retries", "is zero", "choose at least 1");
        }
    }
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    common: CommonArgs,
}

fn sources(flags: &[&str], variables: &[(&str, &str)]) -> Sources {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let mut sources = Sources {
        variables,
        ..Sources::default()
    };
    let args = ["fencer"].into_iter().chain(flags.iter().copied());
    Cli::try_parse_from(args).unwrap().common.add_to(&mut sources);
    sources
}

fn loaded(flags: &[&str], variables: &[(&str, &str)]) -> Result<Loaded<FencerConfig>, ConfigErrors> {
    load(&sources(flags, variables))
}

const PASSWORD: (&str, &str) = ("BLOODRAVEN_MYSQL__PASSWORD", "1234");

/// Flags win over the environment, which wins over the file, which wins over the defaults; each key on its own.
#[test]
fn later_sources_win() {
    let file = "tests/fixtures/right.toml";
    let variables = [
        PASSWORD,
        ("HOSTNAME", "fencer-0"),
        ("BLOODRAVEN_CONFIG", file),
        ("BLOODRAVEN_KUBERNETES__NAMESPACE", "environment"),
        ("BLOODRAVEN_MYSQL__USER", "environment"),
    ];
    let Loaded { config, origins, .. } = loaded(&["--namespace", "flag", "--log-format", "text"], &variables).unwrap();
    assert_eq!(config.common.kubernetes.namespace.as_deref(), Some("flag"));
    assert_eq!(config.common.mysql.user, "environment");
    assert_eq!(config.common.mysql.connect_timeout, Duration::from_secs(1));
    assert_eq!(config.common.mysql.statement_timeout, Duration::from_secs(5));
    assert_eq!(config.common.bus.urls, ["nats://file-1:4222", "nats://file-2:4222"]);
    assert_eq!(config.common.log.format, LogFormat::Text);
    assert_eq!(config.common.instance, "fencer-0");
    assert_eq!(config.fence_timeout, Duration::from_secs(10));
    assert_eq!(config.retries, 3);
    assert_eq!(origins["kubernetes.namespace"], Origin::Flag("--namespace".to_owned()));
    assert_eq!(
        origins["mysql.user"],
        Origin::Variable("BLOODRAVEN_MYSQL__USER".to_owned())
    );
    assert_eq!(origins["mysql.connect-timeout"], Origin::File(PathBuf::from(file)));
    assert!(!origins.contains_key("retries"));
}

/// A text is read as what the field is: digits stay text in a password and become a number in a count, commas make a list
/// only of a list.
#[test]
fn text_is_read_by_the_type_of_the_field() {
    let variables = [
        PASSWORD,
        ("BLOODRAVEN_RETRIES", "7"),
        ("BLOODRAVEN_BUS__URLS", "nats://a:4222, nats://b:4222"),
        ("BLOODRAVEN_LOG__FILTER", "info,bloodraven_fencer=debug"),
        ("BLOODRAVEN_LOG__FIELDS__POD", "fencer-0"),
    ];
    let config = loaded(
        &["--set", "mysql.user=true", "--set", "fence-timeout=1m30s"],
        &variables,
    )
    .unwrap()
    .config;
    assert_eq!(config.common.mysql.password.expose(), "1234");
    assert_eq!(config.retries, 7);
    assert_eq!(config.common.bus.urls, ["nats://a:4222", "nats://b:4222"]);
    assert_eq!(config.common.log.filter, "info,bloodraven_fencer=debug");
    assert_eq!(config.common.log.fields["pod"], "fencer-0");
    assert_eq!(config.common.mysql.user, "true");
    assert_eq!(config.fence_timeout, Duration::from_secs(90));
}

/// Everything that is wrong is listed at once, with key, value, origin and fix, and no secret shows.
#[test]
fn every_problem_is_listed_at_once() {
    let variables = [
        ("BLOODRAVEN_RETRIES", "many"),
        ("BLOODRAVEN_BUS__URL", "nats://nats:4222"),
        ("BLOODRAVEN_MYSQL__REPLICATION_PASSWORD_FILE", "/nonexistent/password"),
    ];
    let flags = [
        "--config",
        "tests/fixtures/wrong.toml",
        "--set",
        "log=debug",
        "--log-filter",
        "fencer=loud",
    ];
    let text = loaded(&flags, &variables).unwrap_err().to_string();
    insta::assert_snapshot!(text);
    for secret in ["hunter2", "12345", "swordfish"] {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
    }
}

/// The binary's own checks and the shared ones are reported together, with the variable to set for what is missing.
#[test]
fn missing_keys_say_how_to_set_them() {
    let errors = loaded(&["--set", "retries=0"], &[]).unwrap_err();
    insta::assert_snapshot!(errors);
}

/// A file that is not there or is not TOML is one problem that names it.
#[test]
fn an_unreadable_file_is_named() {
    let missing = loaded(&["--config", "/nonexistent/fencer.toml"], &[])
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("file /nonexistent/fencer.toml") && missing.contains("cannot read it"),
        "{missing}"
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fencer.toml");
    std::fs::write(&path, "[mysql\nuser = 1").unwrap();
    let broken = loaded(&["--config", path.to_str().unwrap()], &[])
        .unwrap_err()
        .to_string();
    assert!(broken.contains("TOML parse error at line 1"), "{broken}");
}

/// The printed configuration shows each value with its origin, is TOML, and has no secret in it.
#[test]
fn the_effective_configuration_is_printed() {
    let variables = [PASSWORD, ("HOSTNAME", "fencer-0")];
    let file = "mysql.replication-password-file=tests/fixtures/password";
    let flags = ["--config", "tests/fixtures/right.toml", "--set", file];
    let loaded = loaded(&flags, &variables).unwrap();
    assert_eq!(loaded.config.common.mysql.replication_password.expose(), "swordfish");
    let text = loaded.show();
    insta::assert_snapshot!(text);
    assert!(!text.contains("swordfish") && !text.contains("1234"), "{text}");
    assert!(!format!("{:?}", loaded.config).contains("swordfish"));

    // It can serve as a file once the redacted lines are put right, and says so when they are not.
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.toml");
    std::fs::write(&copy, &text).unwrap();
    let errors = load::<FencerConfig>(&sources(&["--config", copy.to_str().unwrap()], &[])).unwrap_err();
    let keys: Vec<_> = errors.problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["mysql.password", "mysql.replication-password"]);
}

/// A secret is given once: as a value or as a file.
#[test]
fn a_secret_has_one_source() {
    let errors = loaded(&["--set", "mysql.password-file=/nonexistent"], &[PASSWORD]).unwrap_err();
    let [problem] = &errors.problems[..] else {
        panic!("{errors}")
    };
    assert_eq!(
        (problem.key.as_str(), problem.message.as_str()),
        ("mysql.password-file", "mysql.password is set as well")
    );
    assert!(!errors.to_string().contains(PASSWORD.1), "{errors}");
}

/// What Kubernetes adds to the environment for a Service named `bloodraven` does not stop anything.
#[test]
fn variables_of_a_service_are_ignored() {
    let variables = [
        PASSWORD,
        ("BLOODRAVEN_SERVICE_HOST", "10.0.0.1"),
        ("BLOODRAVEN_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
    ];
    let loaded = loaded(&[], &variables).unwrap();
    assert_eq!(
        loaded.ignored_variables,
        ["BLOODRAVEN_PORT_8080_TCP", "BLOODRAVEN_SERVICE_HOST"]
    );
}

/// One underscore too few is no silent default.
#[test]
fn a_misjoined_variable_is_a_problem() {
    let errors = loaded(&[], &[("BLOODRAVEN_MYSQL_PASSWORD", "swordfish")]).unwrap_err();
    let text = errors.to_string();
    assert!(text.contains("did you mean BLOODRAVEN_MYSQL__PASSWORD?"), "{text}");
    assert!(!text.contains("swordfish"), "{text}");
}

/// A secret is serialised as redacted wherever the configuration goes.
#[test]
fn secrets_are_redacted_in_every_form() {
    let config = loaded(&[], &[PASSWORD]).unwrap().config;
    let json = serde_json::to_value(&config).unwrap();
    assert_eq!(json["mysql"]["password"], REDACTED);
    assert_eq!(json["mysql"]["replication-password"], "");
}
