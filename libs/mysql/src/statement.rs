//! Statements: their text, how they may be shown, and whether they change anything.

use std::fmt;

use secrecy::ExposeSecret as _;

use crate::host::Host;
use crate::options::{MysqlOptions, ReplicationTls};

/// The lock that gives authority over a server's role.
pub(crate) const AUTHORITY_LOCK: &str = "bloodraven.authority";

/// Before a session's token: the lock that lives as long as the session.
pub(crate) const SESSION_LOCK_PREFIX: &str = "bloodraven.session.";

/// `ER_PARSE_ERROR`: its message quotes the statement.
const PARSE_ERROR: u16 = 1064;

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It looks, or waits: nobody minds whether it was carried out.
    Reads,
    /// It changes a role, replication or somebody's session: its fate must be known.
    Changes,
}

/// One round trip: one or more statements, separated by semicolons.
#[derive(Clone)]
pub(crate) struct Statement {
    text: String,
    shown: String,
    effect: Effect,
    has_secret: bool,
}

impl Statement {
    /// A statement that looks or waits.
    pub(crate) fn reading(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            shown: text.clone(),
            text,
            effect: Effect::Reads,
            has_secret: false,
        }
    }

    /// A statement that changes something.
    pub(crate) fn changing(text: impl Into<String>) -> Self {
        Self {
            effect: Effect::Changes,
            ..Self::reading(text)
        }
    }

    /// The same statement under a name that is better to read.
    pub(crate) fn shown_as(self, shown: impl Into<String>) -> Self {
        Self {
            shown: shown.into(),
            ..self
        }
    }

    /// `CHANGE REPLICATION SOURCE TO`: metadata that is not named stays as it was.
    pub(crate) fn change_source(host: &Host, port: u16, options: &MysqlOptions) -> Self {
        let with_password = |password: &str| {
            format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST={}, SOURCE_PORT={port}, SOURCE_USER={}, SOURCE_PASSWORD={password}, \
                 SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400, \
                 SOURCE_HEARTBEAT_PERIOD=1, {}",
                quoted(host.as_str()),
                quoted(&options.replication_user),
                replication_tls(&options.replication_tls),
            )
        };
        Self {
            text: with_password(&quoted(options.replication_password.expose_secret())),
            shown: with_password("<redacted>"),
            effect: Effect::Changes,
            has_secret: true,
        }
    }

    /// What is sent.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What people may see.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether its fate must be known.
    pub(crate) fn changes(&self) -> bool {
        self.effect == Effect::Changes
    }

    /// The server's message as people may see it: that of a syntax error quotes the statement.
    pub(crate) fn detail(&self, code: u16, message: &str) -> String {
        if self.has_secret && code == PARSE_ERROR {
            "syntax error (the message is withheld since it quotes the statement)".to_owned()
        } else {
            message.to_owned()
        }
    }
}

/// Shows the statement without its secrets.
impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Statement")
            .field(&self.shown)
            .field(&self.effect)
            .finish()
    }
}

/// A string literal. The session's `sql_mode` is empty, so a backslash escapes.
pub(crate) fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('\'');
    for character in text.chars() {
        match character {
            '\'' => literal.push_str("\\'"),
            '\\' => literal.push_str("\\\\"),
            '\0' => literal.push_str("\\0"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\u{1a}' => literal.push_str("\\Z"),
            other => literal.push(other),
        }
    }
    literal.push('\'');
    literal
}

/// All of it is said each time: what is left out would stay as it was under the last source.
fn replication_tls(choice: &ReplicationTls) -> String {
    match choice {
        ReplicationTls::Disabled => "SOURCE_SSL=0, SOURCE_SSL_VERIFY_SERVER_CERT=0, SOURCE_SSL_CA=''".to_owned(),
        ReplicationTls::Encrypted => "SOURCE_SSL=1, SOURCE_SSL_VERIFY_SERVER_CERT=0, SOURCE_SSL_CA=''".to_owned(),
        ReplicationTls::Verified { certificate_authority } => {
            format!(
                "SOURCE_SSL=1, SOURCE_SSL_VERIFY_SERVER_CERT=1, SOURCE_SSL_CA={}",
                quoted(certificate_authority)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(password: &str) -> MysqlOptions {
        MysqlOptions::new("bloodraven", "own".into(), "repl'user", password.to_owned().into())
    }

    /// The source is set with auto-positioning over plain `caching_sha2_password`; `report: B71, B72`.
    #[test]
    fn change_source_says_everything() {
        let host = Host::parse("[fd00::12]").unwrap();
        let statement = Statement::change_source(&host, 3306, &options("p'w\\d"));
        assert_eq!(
            statement.text(),
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='fd00::12', SOURCE_PORT=3306, SOURCE_USER='repl\\'user', \
             SOURCE_PASSWORD='p\\'w\\\\d', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1, \
             SOURCE_RETRY_COUNT=86400, SOURCE_HEARTBEAT_PERIOD=1, SOURCE_SSL=1, SOURCE_SSL_VERIFY_SERVER_CERT=0, \
             SOURCE_SSL_CA=''"
        );
        assert!(statement.changes());
    }

    /// No way of showing the statement shows the replication password.
    #[test]
    fn change_source_shows_no_password() {
        let host = Host::parse("db.example.").unwrap();
        let statement = Statement::change_source(&host, 3306, &options("s3cret"));
        assert!(statement.text().contains("s3cret"));
        assert!(!statement.shown().contains("s3cret"), "{}", statement.shown());
        assert!(!format!("{statement:?}").contains("s3cret"), "{statement:?}");
        let detail = statement.detail(1064, "near 's3cret' at line 1");
        assert!(!detail.contains("s3cret"), "{detail}");
        assert_eq!(statement.detail(3021, "running"), "running");
    }

    /// The choice of encryption is said in full, so that nothing of the last source's stays.
    #[test]
    fn replication_tls_is_said_in_full() {
        assert!(replication_tls(&ReplicationTls::Disabled).contains("SOURCE_SSL=0"));
        let verified = replication_tls(&ReplicationTls::Verified {
            certificate_authority: "/ca's.pem".to_owned(),
        });
        assert_eq!(
            verified,
            "SOURCE_SSL=1, SOURCE_SSL_VERIFY_SERVER_CERT=1, SOURCE_SSL_CA='/ca\\'s.pem'"
        );
    }
}
