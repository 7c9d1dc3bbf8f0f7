//! Configuration of a binary.
//!
//! ```text
//! defaults ─► file (TOML) ─► environment (BLOODRAVEN_…) ─► flags ─► derive ─► validate ─► the binary's struct
//!                                                                  every problem of every step, at once ─► exit 64
//! ```
//!
//! - Keys are kebab-case and dotted: `mysql.connect-timeout`. The file says `[mysql]` and `connect-timeout = "3s"`, the
//!   environment `BLOODRAVEN_MYSQL__CONNECT_TIMEOUT=3s`, the command line `--set mysql.connect-timeout=3s`.
//! - A binary's struct derives `Serialize` and `Deserialize` with `#[serde(default, rename_all = "kebab-case")]`, flattens
//!   [`CommonConfig`] and implements [`Config`]. Its defaults are the list of the known keys: whatever is not in them is an
//!   unknown key (an empty map among them accepts any key below it).
//! - Durations say their unit ([`duration`]), secrets are [`Secret`].

mod common;
pub mod duration;
mod load;
mod problems;
mod secret;
mod show;
mod sources;

pub use common::{
    AdminConfig, BusConfig, CommonConfig, KubernetesConfig, LogConfig, LogFormat, MysqlConfig, MysqlTlsConfig,
    MysqlTlsMode,
};
pub use load::{Loaded, load};
pub use problems::{ConfigErrors, Origin, Problem, Problems};
pub use secret::{REDACTED, Secret};
pub use sources::{Setting, Sources};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The configuration struct of a binary.
pub trait Config: Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The shared sections.
    fn common(&self) -> &CommonConfig;

    /// The shared sections, for the loader.
    fn common_mut(&mut self) -> &mut CommonConfig;

    /// Fills in values that follow from others. Called after the shared sections have done so.
    fn derive(&mut self, problems: &mut Problems) {
        let _ = problems;
    }

    /// Adds everything that is wrong with the binary's own keys, and asks for the shared ones it needs.
    fn validate(&self, problems: &mut Problems) {
        let _ = problems;
    }
}

/// For a binary without keys of its own.
impl Config for CommonConfig {
    fn common(&self) -> &CommonConfig {
        self
    }

    fn common_mut(&mut self) -> &mut CommonConfig {
        self
    }
}

/// What every environment variable of Bloodraven begins with.
const VARIABLE_PREFIX: &str = "BLOODRAVEN_";

/// The environment variable that sets `key`.
fn variable_name(key: &str) -> String {
    format!(
        "{VARIABLE_PREFIX}{}",
        key.replace('.', "__").replace('-', "_").to_uppercase()
    )
}
