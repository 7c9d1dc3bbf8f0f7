//! What a ledger is told: where to write, as whom, how often.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

use crate::LedgerError;

/// The options of one run.
#[derive(Debug, Clone)]
pub struct Options {
    /// `host:port` of each way in. The first is normally a Service; the others are tried in turn at each reconnect until
    /// one accepts a write.
    pub endpoints: Vec<String>,
    /// The MySQL user of the writers.
    pub user: String,
    /// Its password.
    pub password: SecretString,
    /// The database of the ledger's table.
    pub database: String,
    /// The ledger's table, made by [`crate::prepare`].
    pub table: String,
    /// How many writers, each with one connection.
    pub writers: usize,
    /// The time from one write of a writer to its next.
    pub tick: Duration,
    /// How long a connection may take until it is ready to write.
    pub connect_timeout: Duration,
    /// How long a write may take; past it the connection is dropped and the write is of unknown outcome.
    pub statement_timeout: Duration,
}

/// A server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// A table's full name, made of letters, digits, `_`, `-` and `$` only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    database: String,
    table: String,
}

impl Options {
    /// The usual run: 4 writers, a write each 10 ms, into `app.ledger`, one second for a connection and for a statement.
    #[must_use]
    pub fn new(endpoints: Vec<String>, user: impl Into<String>, password: SecretString) -> Self {
        Self {
            endpoints,
            user: user.into(),
            password,
            database: "app".to_owned(),
            table: "ledger".to_owned(),
            writers: 4,
            tick: Duration::from_millis(10),
            connect_timeout: Duration::from_secs(1),
            statement_timeout: Duration::from_secs(1),
        }
    }

    /// The table's full name.
    ///
    /// # Errors
    /// [`LedgerError::Option`] when the database's or the table's name is not plain.
    pub fn table_name(&self) -> Result<TableName, LedgerError> {
        TableName::new(&self.database, &self.table)
    }

    /// The endpoints, parsed.
    ///
    /// # Errors
    /// [`LedgerError::Option`] when there is none or one is not `host:port`.
    pub fn parsed_endpoints(&self) -> Result<Vec<Endpoint>, LedgerError> {
        if self.endpoints.is_empty() {
            return Err(LedgerError::Option {
                option: "endpoints",
                value: String::new(),
                expected: "at least one host:port is needed",
            });
        }
        self.endpoints.iter().map(|endpoint| endpoint.parse()).collect()
    }

    /// Refuses options that describe no run.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        if self.writers == 0 || self.writers > 1_000 {
            return Err(LedgerError::Option {
                option: "writers",
                value: self.writers.to_string(),
                expected: "1 to 1000 are meant",
            });
        }
        let durations = [
            ("tick", self.tick),
            ("connect_timeout", self.connect_timeout),
            ("statement_timeout", self.statement_timeout),
        ];
        for (option, duration) in durations {
            if duration.is_zero() {
                return Err(LedgerError::Option {
                    option,
                    value: "0".to_owned(),
                    expected: "it has to be longer",
                });
            }
        }
        // Overlap is told from hand-over by sessions that are tried on each tick: a tick as long as a move would blind it.
        if self.tick > Duration::from_secs(1) {
            return Err(LedgerError::Option {
                option: "tick",
                value: format!("{:?}", self.tick),
                expected: "a tick of at most 1 s is needed to tell an overlap from a hand-over",
            });
        }
        Ok(())
    }
}

impl FromStr for Endpoint {
    type Err = LedgerError;

    fn from_str(text: &str) -> Result<Self, LedgerError> {
        let refused = || LedgerError::Option {
            option: "endpoint",
            value: text.to_owned(),
            expected: "host:port is meant",
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let host = host
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(host);
        let port: u16 = port.parse().map_err(|_| refused())?;
        if host.is_empty() || port == 0 {
            return Err(refused());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

impl TableName {
    /// A table's full name.
    ///
    /// # Errors
    /// [`LedgerError::Option`] when a part is empty, longer than 64 characters or not plain.
    pub fn new(database: &str, table: &str) -> Result<Self, LedgerError> {
        for (option, name) in [("database", database), ("table", table)] {
            let plain = name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "_-$".contains(letter));
            if name.is_empty() || name.len() > 64 || !plain {
                return Err(LedgerError::Option {
                    option,
                    value: name.to_owned(),
                    expected: "1 to 64 letters, digits, _, - or $ are meant",
                });
            }
        }
        Ok(Self {
            database: database.to_owned(),
            table: table.to_owned(),
        })
    }

    /// The database, quoted.
    #[must_use]
    pub fn quoted_database(&self) -> String {
        format!("`{}`", self.database)
    }

    /// The full name, quoted.
    #[must_use]
    pub fn quoted(&self) -> String {
        format!("`{}`.`{}`", self.database, self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Endpoints of every usual form are read, and written back the same.
    #[test]
    fn endpoints_are_read() {
        for text in ["127.0.0.1:3306", "mysql-orders.default.svc:3306", "[::1]:3307"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["", "host", "host:", ":3306", "host:0", "host:70000"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?} was taken for an endpoint");
        }
    }

    /// A table name that would need escaping is refused, so none can carry SQL.
    #[test]
    fn table_names_are_plain() {
        assert_eq!(TableName::new("app", "ledger").unwrap().quoted(), "`app`.`ledger`");
        for name in ["", "a`b", "a.b", "a b", "ü"] {
            assert!(TableName::new("app", name).is_err(), "{name:?} was taken for a table");
        }
    }

    /// Options that describe no run are refused before anything is started, and a password never shows.
    #[test]
    fn options_are_checked() {
        let good = Options::new(vec!["127.0.0.1:3306".to_owned()], "app", SecretString::from("hush"));
        assert!(good.check().is_ok());
        assert!(!format!("{good:?}").contains("hush"));
        assert!(
            Options {
                writers: 0,
                ..good.clone()
            }
            .check()
            .is_err()
        );
        assert!(
            Options {
                tick: Duration::ZERO,
                ..good.clone()
            }
            .check()
            .is_err()
        );
        assert!(
            Options {
                tick: Duration::from_secs(2),
                ..good.clone()
            }
            .check()
            .is_err()
        );
        assert!(
            Options {
                endpoints: Vec::new(),
                ..good
            }
            .parsed_endpoints()
            .is_err()
        );
    }
}
