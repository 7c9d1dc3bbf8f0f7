//! Host names and addresses as people write them, and as the resolver, the server and certificates want them (report B72).

use std::fmt;
use std::net::Ipv6Addr;

/// The longest host that `SOURCE_HOST` takes.
const MAX_LENGTH: usize = 255;

/// A host name or an IP address, without a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host(String);

/// The text is no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no host: {why}")]
pub struct InvalidHost {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Host {
    /// Reads a name, with or without a trailing dot, an IPv4 address, or an IPv6 address with or without brackets.
    ///
    /// # Errors
    ///
    /// When the text is empty, too long, or has something in it that belongs to a URL or to a host and port.
    pub fn parse(text: &str) -> Result<Self, InvalidHost> {
        let invalid = |why| InvalidHost {
            text: text.to_owned(),
            why,
        };
        let bare = match text.strip_prefix('[') {
            Some(rest) => {
                let inner = rest
                    .strip_suffix(']')
                    .ok_or_else(|| invalid("the bracket is not closed at its end"))?;
                if !is_ipv6(inner) {
                    return Err(invalid("only an IPv6 address stands in brackets"));
                }
                inner
            }
            None => text,
        };
        if bare.is_empty() || bare == "." {
            return Err(invalid("it is empty"));
        }
        if bare.len() > MAX_LENGTH {
            return Err(invalid("it has more than 255 bytes"));
        }
        if bare.contains(':') && !is_ipv6(bare) {
            return Err(invalid("it is no IPv6 address, and the port stands elsewhere"));
        }
        if !is_ipv6(bare)
            && !bare
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        {
            return Err(invalid(
                "a name consists of ASCII letters, digits, hyphens, underscores and dots",
            ));
        }
        Ok(Self(bare.to_owned()))
    }

    /// For the resolver and for `SOURCE_HOST`: no brackets; a trailing dot stays, since it keeps search domains out.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// For comparing with a certificate: no trailing dot, lower case.
    pub fn certificate_name(&self) -> String {
        self.0.strip_suffix('.').unwrap_or(&self.0).to_ascii_lowercase()
    }
}

/// For people, before a port: an IPv6 address has brackets.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') {
            write!(f, "[{}]", self.0)
        } else {
            f.write_str(&self.0)
        }
    }
}

/// Whether it is an IPv6 address, possibly with a zone such as `%eth0`.
fn is_ipv6(text: &str) -> bool {
    let (address, zone_is_fine) = match text.split_once('%') {
        Some((address, zone)) => {
            let fine = !zone.is_empty()
                && zone
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            (address, fine)
        }
        None => (text, true),
    };
    zone_is_fine && address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts are taken as people write them, brackets and trailing dots included; `report: B72`.
    #[test]
    fn hosts_in_every_spelling() {
        for (text, resolver, shown, certificate) in [
            ("fd00::12", "fd00::12", "[fd00::12]", "fd00::12"),
            ("[fd00::12]", "fd00::12", "[fd00::12]", "fd00::12"),
            ("fe80::1%eth0", "fe80::1%eth0", "[fe80::1%eth0]", "fe80::1%eth0"),
            (
                "::ffff:10.0.0.7",
                "::ffff:10.0.0.7",
                "[::ffff:10.0.0.7]",
                "::ffff:10.0.0.7",
            ),
            ("10.0.0.7", "10.0.0.7", "10.0.0.7", "10.0.0.7"),
            (
                "db.iad.example.",
                "db.iad.example.",
                "db.iad.example.",
                "db.iad.example",
            ),
            ("DB-1.Example", "DB-1.Example", "DB-1.Example", "db-1.example"),
            ("mysql_orders", "mysql_orders", "mysql_orders", "mysql_orders"),
        ] {
            let host = Host::parse(text).unwrap();
            assert_eq!(host.as_str(), resolver);
            assert_eq!(host.to_string(), shown);
            assert_eq!(host.certificate_name(), certificate);
        }
    }

    /// What is no host is refused before it reaches a resolver or a statement; `report: B72`.
    #[test]
    fn what_is_no_host_is_refused() {
        let long = "a".repeat(256);
        for text in [
            "",
            ".",
            "[",
            "[]",
            "[db]",
            "[fd00::12",
            "[fd00::12]:3306",
            "db:3306",
            "//db",
            "mysql://db",
            "db/x",
            "d b",
            "db'",
            "db\\",
            "fe80::1%",
            "fe80::1%e'",
            "db\n",
            "dé",
            &long,
        ] {
            let refused = Host::parse(text).unwrap_err();
            assert_eq!(refused.text, text);
        }
    }
}
