//! The bounds of the spec, in one table that the schema's CEL rules and the Rust validation are both made from.

use std::time::Duration;

use bloodraven_types::{GroupSpec, Span};

/// One duration of the spec and its bounds (PF-SET-01).
pub(crate) struct DurationRule {
    /// The path below `spec`, dots between fields.
    pub(crate) path: &'static str,
    /// The shortest, as text.
    pub(crate) shortest: &'static str,
    /// The longest, as text.
    pub(crate) longest: &'static str,
    /// The shortest.
    pub(crate) least: Duration,
    /// The longest.
    pub(crate) most: Duration,
    /// Reads the value; absent when its block is absent.
    pub(crate) value: fn(&GroupSpec) -> Option<Span>,
}

const SECOND: Duration = Duration::from_secs(1);
const TEN_MINUTES: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

/// Every duration of the spec.
pub(crate) const DURATIONS: &[DurationRule] = &[
    DurationRule {
        path: "failoverCooldown",
        shortest: "0s",
        longest: "24h",
        least: Duration::ZERO,
        most: Duration::from_secs(24 * 3600),
        value: |spec| Some(spec.failover_cooldown),
    },
    DurationRule {
        path: "pollInterval",
        shortest: "100ms",
        longest: "1m",
        least: Duration::from_millis(100),
        most: Duration::from_secs(60),
        value: |spec| Some(spec.poll_interval),
    },
    DurationRule {
        path: "plannedFailover.maxLagWait",
        shortest: "1s",
        longest: "1h",
        least: SECOND,
        most: HOUR,
        value: |spec| Some(spec.planned_failover.max_lag_wait),
    },
    DurationRule {
        path: "plannedFailover.drainTimeout",
        shortest: "1s",
        longest: "10m",
        least: SECOND,
        most: TEN_MINUTES,
        value: |spec| Some(spec.planned_failover.drain_timeout),
    },
    DurationRule {
        path: "dragonfly.plannedFailover.maxSyncWait",
        shortest: "1s",
        longest: "10m",
        least: SECOND,
        most: TEN_MINUTES,
        value: |spec| {
            spec.dragonfly
                .as_ref()
                .map(|cache| cache.planned_failover.max_sync_wait)
        },
    },
];

impl DurationRule {
    /// The CEL rule.
    pub(crate) fn rule(&self) -> String {
        format!(
            "duration(self) >= duration('{}') && duration(self) <= duration('{}')",
            self.shortest, self.longest
        )
    }

    /// The message of the CEL rule.
    pub(crate) fn message(&self) -> String {
        format!("must be a duration from {} to {}", self.shortest, self.longest)
    }
}

/// A CEL rule on a node of the spec.
pub(crate) struct NodeRule {
    /// The path below `spec`; empty for the spec itself.
    pub(crate) path: &'static str,
    /// The rule.
    pub(crate) rule: &'static str,
    /// What the API server says when it does not hold.
    pub(crate) message: &'static str,
}

/// The rules that are not about one duration.
pub(crate) const NODES: &[NodeRule] = &[
    NodeRule {
        path: "sites",
        rule: "self.filter(site, site.role == 'PrimaryCandidate').size() >= 2",
        message: "at least two sites must have the role PrimaryCandidate",
    },
    NodeRule {
        path: "sites",
        rule: "oldSelf.all(old, self.exists(site, site.name == old.name))",
        message: "a site can never be removed or renamed; make a new group instead",
    },
    NodeRule {
        path: "",
        rule: "!has(self.dns) || self.sites.all(site, site.role != 'PrimaryCandidate' || has(site.lbIP))",
        message: "every PrimaryCandidate needs lbIP when dns is set",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds that the API server is told are those that the Rust validation holds. spec: PF-SET-01
    #[test]
    fn the_two_forms_of_each_bound_agree() {
        for rule in DURATIONS {
            let bounds = [rule.shortest, rule.longest].map(|text| text.parse::<Span>().unwrap().get());
            assert_eq!(bounds, [rule.least, rule.most], "{}", rule.path);
        }
    }
}
