//! How the adapter connects, and which accounts are not applications.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// Settings of the adapter. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct MysqlOptions {
    /// The controllers' account.
    pub user: String,
    /// Its password.
    pub password: SecretString,
    /// The account that replicas use to read from their source.
    pub replication_user: String,
    /// Its password; the server takes 32 characters at most.
    pub replication_password: SecretString,
    /// How long connecting and authenticating may take, name resolution included.
    pub connect_timeout: Duration,
    /// How long a statement may take before it is killed.
    pub statement_timeout: Duration,
    /// Users besides [`MysqlOptions::user`] and [`MysqlOptions::replication_user`] whose sessions are not an application's:
    /// the sidecars', monitoring and backup.
    pub controllers: Vec<String>,
    /// The connection attribute `program_name`.
    pub program_name: String,
    /// Encryption of our own connections.
    pub tls: ClientTls,
    /// Encryption between replicas and their source.
    pub replication_tls: ReplicationTls,
}

/// Encryption of a controller's connection. In the clear a password still travels encrypted, by the server's RSA key.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ClientTls {
    /// In the clear.
    #[default]
    Disabled,
    /// Encrypted; the server's certificate is not looked at.
    Encrypted,
    /// Encrypted, with a certificate of the authority that names the host.
    Verified {
        /// The authority's certificates, a PEM file.
        certificate_authority: PathBuf,
    },
}

/// Encryption of a replica's connection to its source.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ReplicationTls {
    /// In the clear; the password is encrypted by the source's RSA key.
    Disabled,
    /// Encrypted; the source's certificate is not looked at.
    #[default]
    Encrypted,
    /// Encrypted, with a certificate of the authority that names the host.
    Verified {
        /// The authority's certificates, a file on the replica's host.
        certificate_authority: String,
    },
}

impl MysqlOptions {
    /// Options for the two accounts, all else as by default: 2 s to connect, 5 s for a statement, no other controllers.
    pub fn new(
        user: impl Into<String>,
        password: SecretString,
        replication_user: impl Into<String>,
        replication_password: SecretString,
    ) -> Self {
        Self {
            user: user.into(),
            password,
            replication_user: replication_user.into(),
            replication_password,
            connect_timeout: Duration::from_secs(2),
            statement_timeout: Duration::from_secs(5),
            controllers: Vec::new(),
            program_name: "bloodraven".to_owned(),
            tls: ClientTls::default(),
            replication_tls: ReplicationTls::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printing the options for people shows neither password.
    #[test]
    fn debug_shows_no_secret() {
        let options = MysqlOptions::new("bloodraven", "s3cret-one".into(), "replication", "s3cret-two".into());
        let shown = format!("{options:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("bloodraven"), "{shown}");
    }
}
