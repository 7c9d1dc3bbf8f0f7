//! The configurations of binaries that need nothing beyond what all share.

use bloodraven_service::config::{CommonConfig, Config, Problems};
use serde::{Deserialize, Serialize};

/// A binary that opens no database session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct BusOnlyConfig {
    #[serde(flatten)]
    common: CommonConfig,
}

/// A binary that opens database sessions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct DatabaseConfig {
    #[serde(flatten)]
    common: CommonConfig,
}

impl Config for BusOnlyConfig {
    fn common(&self) -> &CommonConfig {
        &self.common
    }

    fn common_mut(&mut self) -> &mut CommonConfig {
        &mut self.common
    }

    fn validate(&self, _: &mut Problems) {}
}

impl Config for DatabaseConfig {
    fn common(&self) -> &CommonConfig {
        &self.common
    }

    fn common_mut(&mut self) -> &mut CommonConfig {
        &mut self.common
    }

    fn validate(&self, problems: &mut Problems) {
        self.common.mysql.require_admin(problems);
        self.common.mysql.require_replication(problems);
    }
}
