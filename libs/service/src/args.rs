//! The command line that every binary has. All keys can be set by it: the frequent ones by a flag of their own, the others by `--set`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Command, FromArgMatches};

use crate::config::{LogFormat, Setting, Sources};

/// Flags shared by all binaries; flatten them into a parser of your own, or let [`crate::Service`] do it all.
#[derive(Args, Clone, Debug, Default)]
pub struct CommonArgs {
    /// Configuration file (TOML); also BLOODRAVEN_CONFIG
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,

    /// Format of the log lines
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,

    /// What is logged, such as info,bloodraven_fencer=debug
    #[arg(long, value_name = "DIRECTIVES")]
    pub log_filter: Option<String>,

    /// Address of the probe and metrics endpoints
    #[arg(long, value_name = "ADDRESS")]
    pub admin_address: Option<SocketAddr>,

    /// Kubeconfig file; default: the pod's service account
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// The only namespace to look after; default: all
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// A server of the message bus; repeat it for each
    #[arg(long = "bus-url", value_name = "URL")]
    pub bus_urls: Vec<String>,

    /// Set any key of the configuration, such as mysql.connect-timeout=3s; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub settings: Vec<(String, String)>,

    /// Print the effective configuration with the origin of each value, secrets redacted, and exit
    #[arg(long)]
    pub print_config: bool,
}

impl CommonArgs {
    /// Adds the file and the flags to what the environment says.
    pub fn add_to(&self, sources: &mut Sources) {
        sources.file.clone_from(&self.config);
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let format = self.log_format.map(|format| match format {
            LogFormat::Json => "json".to_owned(),
            LogFormat::Text => "text".to_owned(),
        });
        for (flag, key, text) in [
            ("--log-format", "log.format", format),
            ("--log-filter", "log.filter", self.log_filter.clone()),
            (
                "--admin-address",
                "admin.address",
                self.admin_address.map(|address| address.to_string()),
            ),
            (
                "--kubeconfig",
                "kubernetes.kubeconfig",
                self.kubeconfig.as_ref().map(path),
            ),
            ("--namespace", "kubernetes.namespace", self.namespace.clone()),
        ] {
            sources
                .flags
                .extend(text.map(|text| Setting::from_flag(flag, key, &text)));
        }
        if !self.bus_urls.is_empty() {
            sources
                .flags
                .push(Setting::list_from_flag("--bus-url", "bus.urls", &self.bus_urls));
        }
        sources.flags.extend(
            self.settings
                .iter()
                .map(|(key, text)| Setting::from_flag("--set", key, text)),
        );
    }
}

/// Parses a command line that has only the shared flags.
///
/// # Errors
///
/// What clap has to say, which includes the texts of `--help` and `--version`.
pub(crate) fn parse(
    name: &'static str,
    version: &'static str,
    purpose: &'static str,
    args: Vec<OsString>,
) -> Result<CommonArgs, clap::Error> {
    let command = Command::new(name).version(version).about(purpose).after_help(
        "Every key of the configuration can be set in the file, as an environment variable \
         (mysql.connect-timeout is BLOODRAVEN_MYSQL__CONNECT_TIMEOUT) or by --set. The later of these wins.",
    );
    CommonArgs::from_arg_matches(&CommonArgs::augment_args(command).try_get_matches_from(args)?)
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        Some(_) | None => Err("KEY=VALUE is expected".to_owned()),
    }
}
