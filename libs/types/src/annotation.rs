//! Annotations: their keys, and the one grammar of one-shot actions `<subject>(:<key>=<value>)*` (PF-REQ-02).

use std::fmt;
use std::time::Duration;

use crate::ids::{RunId, SiteName};
use crate::time::{ParseTimestampError, Span, Timestamp};

/// Asks for a planned failover: `<site>[:maxLagWait=<duration>][:expect=<site>]` (PF-REQ-01).
pub const PLANNED_FAILOVER: &str = "bloodraven.shipstream.io/planned-failover";
/// Acknowledges an automation hold: `<runID>` (PF-HLD-04).
pub const ACKNOWLEDGE_HOLD: &str = "bloodraven.shipstream.io/acknowledge-planned-failover-hold";
/// Since when status writes fail: `<runID>:since=<time>` (PF-DUR-03).
pub const STALL_SINCE: &str = "bloodraven.shipstream.io/planned-failover-stall-since";
/// Since when no topology manager answers: `<runID>:since=<time>` (PF-DUR-09).
pub const MANAGER_ABSENT_SINCE: &str = "bloodraven.shipstream.io/planned-failover-manager-absent-since";
/// The claim is released, the promotion confirmed and recorded: `<runID>:since=<time>` (PF-CLM-06).
pub const CONFIRMED: &str = "bloodraven.shipstream.io/planned-failover-confirmed";
/// The terminal marker, JSON (PF-DUR-04).
pub const TERMINAL: &str = "bloodraven.shipstream.io/planned-failover-terminal";
/// The token that settles an ambiguous status write (PF-DUR-02).
pub const STATUS_FENCE: &str = "bloodraven.shipstream.io/planned-failover-status-fence";
/// The out-of-band failover record: RFC 3339 time of the last failover.
pub const LAST_FAILOVER: &str = "bloodraven.shipstream.io/last-failover";
/// The out-of-band failover record: its target.
pub const LAST_FAILOVER_TARGET: &str = "bloodraven.shipstream.io/last-failover-target";
/// The out-of-band failover record: the fenced set its target held.
pub const LAST_FAILOVER_WATERMARK: &str = "bloodraven.shipstream.io/last-failover-watermark";

/// The bounds of `maxLagWait` (PF-REQ-03, PF-SET-01).
pub const MAX_LAG_WAIT_BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));

/// One read value of the planned-failover annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFailoverRequest {
    /// The site to promote.
    pub target: SiteName,
    /// Overrides `spec.plannedFailover.maxLagWait`.
    pub max_lag_wait: Option<Span>,
    /// Refuse unless this site is active (X-CAS-01).
    pub expect: Option<SiteName>,
}

/// Why a value is no request. The text is for the Event, so it names what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nothing before the first colon.
    #[error("{value:?} names no site; write <site> or <site>:maxLagWait=30s")]
    NoSite {
        /// The whole value.
        value: String,
    },
    /// White space or another character outside the grammar.
    #[error("{value:?} has {character:?}, which is outside A-Za-z0-9._/+-")]
    Character {
        /// The whole value.
        value: String,
        /// The first such character.
        character: char,
    },
    /// A pair without `=`, key or value.
    #[error("{value:?} has the pair {pair:?}, which is not <key>=<value>")]
    Pair {
        /// The whole value.
        value: String,
        /// The pair.
        pair: String,
    },
    /// A key twice.
    #[error("{value:?} has the key {key:?} twice")]
    RepeatedKey {
        /// The whole value.
        value: String,
        /// The key.
        key: String,
    },
    /// A key that is not known.
    #[error("{value:?} has the unknown key {key:?}; known are maxLagWait and expect")]
    UnknownKey {
        /// The whole value.
        value: String,
        /// The key.
        key: String,
    },
    /// A duration that cannot be read or is out of bounds.
    #[error("{value:?} has maxLagWait={given}, which is no duration from 1s to 1h")]
    MaxLagWait {
        /// The whole value.
        value: String,
        /// What was given.
        given: String,
    },
}

impl RequestError {
    /// The site that the value asks for as far as it can be told, for the metric's label (PF-REQ-03).
    pub fn requested_site(value: &str) -> SiteName {
        let subject = value.split(':').next().unwrap_or_default();
        let valid = !subject.is_empty() && subject.len() <= 63 && subject.chars().all(allowed);
        SiteName::new(if valid { subject } else { "invalid" })
    }
}

impl PlannedFailoverRequest {
    /// Reads the annotation's value.
    ///
    /// # Errors
    /// When it does not follow the grammar, or an override is unknown, repeated or out of bounds (PF-REQ-04).
    pub fn parse(value: &str) -> Result<Self, RequestError> {
        let whole = || value.to_owned();
        let outside = |c: &char| !allowed(*c) && *c != ':' && *c != '=';
        if let Some(character) = value.chars().find(outside) {
            return Err(RequestError::Character {
                value: whole(),
                character,
            });
        }
        let mut parts = value.split(':');
        let subject = parts.next().unwrap_or_default();
        if subject.is_empty() {
            return Err(RequestError::NoSite { value: whole() });
        }
        if subject.contains('=') {
            return Err(RequestError::Character {
                value: whole(),
                character: '=',
            });
        }
        let mut request = Self {
            target: SiteName::new(subject),
            max_lag_wait: None,
            expect: None,
        };
        for pair in parts {
            let bad_pair = || RequestError::Pair {
                value: whole(),
                pair: pair.to_owned(),
            };
            let (key, argument) = pair.split_once('=').ok_or_else(bad_pair)?;
            if key.is_empty() || argument.is_empty() || argument.contains('=') {
                return Err(bad_pair());
            }
            request.set(value, key, argument)?;
        }
        Ok(request)
    }

    fn set(&mut self, value: &str, key: &str, argument: &str) -> Result<(), RequestError> {
        let repeated = || RequestError::RepeatedKey {
            value: value.to_owned(),
            key: key.to_owned(),
        };
        match key {
            "maxLagWait" if self.max_lag_wait.is_some() => Err(repeated()),
            "expect" if self.expect.is_some() => Err(repeated()),
            "maxLagWait" => {
                let out = || RequestError::MaxLagWait {
                    value: value.to_owned(),
                    given: argument.to_owned(),
                };
                let span: Span = argument.parse().map_err(|_| out())?;
                if span.get() < MAX_LAG_WAIT_BOUNDS.0 || span.get() > MAX_LAG_WAIT_BOUNDS.1 {
                    return Err(out());
                }
                self.max_lag_wait = Some(span);
                Ok(())
            }
            "expect" => {
                self.expect = Some(SiteName::new(argument));
                Ok(())
            }
            _ => Err(RequestError::UnknownKey {
                value: value.to_owned(),
                key: key.to_owned(),
            }),
        }
    }
}

impl fmt::Display for PlannedFailoverRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.target)?;
        if let Some(span) = self.max_lag_wait {
            write!(f, ":maxLagWait={span}")?;
        }
        if let Some(site) = &self.expect {
            write!(f, ":expect={site}")?;
        }
        Ok(())
    }
}

/// The value `<runID>:since=<YYYYMMDDThhmmssZ>` of the per-run annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSince {
    /// The run.
    pub run_id: RunId,
    /// Since when.
    pub since: Timestamp,
}

/// Why a value is no run with a time.
#[derive(Debug, thiserror::Error)]
pub enum RunSinceError {
    /// The parts are not there.
    #[error("{0:?} is not <runID>:since=<YYYYMMDDThhmmssZ>")]
    Form(String),
    /// The id is none.
    #[error("{value:?} names no run")]
    RunId {
        /// The whole value.
        value: String,
        /// What the id's parser says.
        #[source]
        source: uuid::Error,
    },
    /// The time is none.
    #[error(transparent)]
    Time(#[from] ParseTimestampError),
}

impl RunSince {
    /// Reads the value.
    ///
    /// # Errors
    /// When it has another form.
    pub fn parse(value: &str) -> Result<Self, RunSinceError> {
        let (run_id, since) = value
            .split_once(":since=")
            .ok_or_else(|| RunSinceError::Form(value.to_owned()))?;
        let run_id = run_id.parse().map_err(|source| RunSinceError::RunId {
            value: value.to_owned(),
            source,
        })?;
        Ok(Self {
            run_id,
            since: Timestamp::from_compact_str(since)?,
        })
    }
}

impl fmt::Display for RunSince {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:since={}", self.run_id, self.since.to_compact_string())
    }
}

const fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '+' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The grammar reads a bare site and its overrides. spec: PF-REQ-01, PF-REQ-02, PF-REQ-03, X-CAS-01
    #[test]
    fn requests_are_read() {
        let bare = PlannedFailoverRequest::parse("pdx").unwrap();
        assert_eq!(
            bare,
            PlannedFailoverRequest {
                target: "pdx".into(),
                max_lag_wait: None,
                expect: None
            }
        );
        let full = PlannedFailoverRequest::parse("pdx:maxLagWait=30s:expect=iad").unwrap();
        assert_eq!(full.max_lag_wait, Some(Span::seconds(30)));
        assert_eq!(full.expect, Some("iad".into()));
    }

    /// Each malformed value is refused, and the refusal quotes it. spec: PF-REQ-02, PF-REQ-03, PF-REQ-04
    #[test]
    fn malformed_requests_are_refused() {
        let cases = [
            "",
            ":maxLagWait=5s",
            "pdx:",
            "pdx:maxLagWait",
            "pdx:maxLagWait=",
            "pdx:=5s",
            "pdx:maxLagWait=5s:maxLagWait=6s",
            "pdx:colour=red",
            "pdx:maxLagWait=0s",
            "pdx:maxLagWait=999ms",
            "pdx:maxLagWait=61m",
            "pdx:maxLagWait=soon",
            "pdx :maxLagWait=5s",
            "pdx:maxLagWait= 5s",
            "pdx:maxLagWait=5s ",
            "p,dx",
            "pdx=iad",
            "pdx:maxLagWait=5s=6s",
            "pdx\n",
        ];
        for value in cases {
            let error = PlannedFailoverRequest::parse(value).unwrap_err();
            assert!(error.to_string().contains(&format!("{value:?}")), "{value:?}: {error}");
        }
    }

    /// The bounds themselves are allowed. spec: PF-REQ-03
    #[test]
    fn the_bounds_are_allowed() {
        for value in [
            "pdx:maxLagWait=1s",
            "pdx:maxLagWait=1h",
            "pdx:maxLagWait=3600s",
            "pdx:maxLagWait=60m",
        ] {
            assert!(PlannedFailoverRequest::parse(value).is_ok(), "{value}");
        }
    }

    /// The per-run annotations read back what was written. spec: PF-CLM-06, PF-DUR-03
    #[test]
    fn run_since_reads_back() {
        let text = "6f1c2a4e-4b7d-4a1f-9a0e-2d5b8c3f7e10:since=20260420T143209Z";
        assert_eq!(RunSince::parse(text).unwrap().to_string(), text);
        assert!(RunSince::parse("6f1c2a4e:since=20260420T143209Z").is_err());
        assert!(RunSince::parse("6f1c2a4e-4b7d-4a1f-9a0e-2d5b8c3f7e10").is_err());
    }

    proptest! {
        /// No value makes the parser fail otherwise than by an error, and what it accepts reads back as itself.
        #[test]
        fn any_value_is_read_or_refused(value in ".{0,60}") {
            if let Ok(request) = PlannedFailoverRequest::parse(&value) {
                prop_assert_eq!(PlannedFailoverRequest::parse(&request.to_string()).unwrap(), request);
            }
        }
    }
}
