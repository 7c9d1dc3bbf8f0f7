//! A secret in configuration: read as text, never written as anything but [`REDACTED`].

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What stands for a secret that is set wherever configuration is printed.
pub const REDACTED: &str = "[redacted]";

/// A password or token. Unset is the empty text, so that a section has the same keys whether or not it is given.
#[derive(Clone, Debug, Default)]
pub struct Secret(SecretString);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// Whether there is anything in it.
    pub fn is_set(&self) -> bool {
        !self.0.expose_secret().is_empty()
    }

    /// The text itself, for handing to a client. Must not be logged or stored.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<Secret> for SecretString {
    fn from(secret: Secret) -> Self {
        secret.0
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.is_set() { REDACTED } else { "" })
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == REDACTED {
            return Err(serde::de::Error::custom(
                "a printed configuration has no secrets in it, put the real one here",
            ));
        }
        Ok(Self::new(text))
    }
}
