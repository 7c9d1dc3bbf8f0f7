//! The rules of the spec, told all at once: which field, which value, what is wrong with it and what to write.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use bloodraven_types::{Group, GroupSpec, SiteRole, SiteSpec};

use crate::rules::DURATIONS;

/// How many sites a group may have.
const SITES: RangeInclusive<usize> = 2..=16;
/// How many probes a threshold may be.
const THRESHOLD: RangeInclusive<u32> = 1..=100;
/// The time to live of a DNS record, in seconds.
const TTL: RangeInclusive<u32> = 1..=86_400;
/// The longest name of a site, which is the value of a label.
const NAME_LENGTH: usize = 63;
/// The longest host name.
const HOST_LENGTH: usize = 253;

/// One thing that is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, as `spec.sites[0].port`.
    pub field: String,
    /// Its value.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, which {}; {}",
            self.field, self.value, self.problem, self.fix
        )
    }
}

/// Every problem of a spec, in the order of its fields; none when it can be acted on (PF-SET-01).
pub fn validate(spec: &GroupSpec) -> Vec<Problem> {
    let mut problems = Problems::default();
    sites(spec, &mut problems);
    for rule in DURATIONS {
        if let Some(value) = (rule.value)(spec)
            && !(rule.least..=rule.most).contains(&value.get())
        {
            problems.add(
                format!("spec.{}", rule.path),
                value.to_string(),
                "is out of bounds",
                format!("write a duration from {} to {}", rule.shortest, rule.longest),
            );
        }
    }
    let thresholds = [
        ("spec.failureThreshold", spec.failure_threshold),
        ("spec.recoveryThreshold", spec.recovery_threshold),
    ];
    for (field, value) in thresholds {
        problems.number(field, value, &THRESHOLD);
    }
    dns(spec, &mut problems);
    problems.0
}

/// The problems of a group's spec, and the sites that its status knows and its spec no longer has.
pub fn validate_group(group: &Group) -> Vec<Problem> {
    let mut problems = Problems(validate(&group.spec));
    let known = |name: &str| group.spec.sites.iter().any(|site| site.name.as_str() == name);
    for site in group.status.sites.iter().filter(|site| !known(&site.name)) {
        problems.add(
            "spec.sites".to_owned(),
            names(&group.spec.sites),
            format!("no longer has the site {:?}", site.name),
            "put the site back, or make a new group; a site can never be removed or renamed",
        );
    }
    problems.0
}

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, field: String, value: String, problem: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Problem {
            field,
            value,
            problem: problem.into(),
            fix: fix.into(),
        });
    }

    fn number(&mut self, field: &str, value: u32, allowed: &RangeInclusive<u32>) {
        if !allowed.contains(&value) {
            let fix = format!("write a number from {} to {}", allowed.start(), allowed.end());
            self.add(field.to_owned(), value.to_string(), "is out of bounds", fix);
        }
    }
}

fn names(sites: &[SiteSpec]) -> String {
    let names: Vec<&str> = sites.iter().map(|site| site.name.as_str()).collect();
    format!("[{}]", names.join(", "))
}

fn sites(spec: &GroupSpec, problems: &mut Problems) {
    let field = || "spec.sites".to_owned();
    if !SITES.contains(&spec.sites.len()) {
        let (least, most) = (SITES.start(), SITES.end());
        problems.add(
            field(),
            names(&spec.sites),
            format!("has {} sites", spec.sites.len()),
            format!("list {least} to {most} sites"),
        );
    }
    let candidates = spec
        .sites
        .iter()
        .filter(|site| site.role == SiteRole::PrimaryCandidate)
        .count();
    if candidates < 2 {
        problems.add(
            field(),
            names(&spec.sites),
            format!("has {candidates} sites with the role PrimaryCandidate"),
            "give at least two sites that role, so that there is one to move to",
        );
    }
    let (mut seen, mut endpoints) = (BTreeSet::new(), BTreeSet::new());
    for (index, item) in spec.sites.iter().enumerate() {
        let path = format!("spec.sites[{index}]");
        if !seen.insert(&item.name) {
            problems.add(
                format!("{path}.name"),
                quoted(item.name.as_str()),
                "is the name of another site too",
                "give each site a name of its own",
            );
        }
        let own_ports = [Some(item.port), item.admin_port];
        for port in own_ports.into_iter().flatten() {
            if !endpoints.insert((item.host.to_ascii_lowercase(), port)) {
                problems.add(
                    path.clone(),
                    format!("{}:{port}", item.host),
                    "is the address of another site or port too",
                    "give each site a server of its own, and adminPort another number than port",
                );
            }
        }
        site(spec, item, &path, problems);
    }
}

fn site(spec: &GroupSpec, site: &SiteSpec, path: &str, problems: &mut Problems) {
    if !is_label(site.name.as_str()) {
        problems.add(
            format!("{path}.name"),
            quoted(site.name.as_str()),
            "is no DNS label",
            format!("use 1 to {NAME_LENGTH} lower-case letters, digits and inner hyphens"),
        );
    }
    if !is_host(&site.host) {
        problems.add(
            format!("{path}.host"),
            quoted(&site.host),
            "is neither a host name nor an IP address",
            "write the bare name or address; the port has a field of its own",
        );
    }
    for (field, port) in [("port", Some(site.port)), ("adminPort", site.admin_port)] {
        if port == Some(0) {
            problems.add(
                format!("{path}.{field}"),
                "0".to_owned(),
                "is no port",
                "write a number from 1 to 65535",
            );
        }
    }
    let needs_address = spec.dns.is_some() && site.role == SiteRole::PrimaryCandidate;
    match &site.lb_ip {
        None if needs_address => problems.add(
            format!("{path}.lbIP"),
            "missing".to_owned(),
            format!("leaves spec.dns nothing to point at while {} is primary", site.name),
            "write the IP address that clients of this site connect to",
        ),
        Some(text) if text.parse::<IpAddr>().is_err() => problems.add(
            format!("{path}.lbIP"),
            quoted(text),
            "is no IP address",
            "write an IPv4 or IPv6 address",
        ),
        None | Some(_) => {}
    }
}

fn dns(spec: &GroupSpec, problems: &mut Problems) {
    let Some(dns) = &spec.dns else {
        return;
    };
    if !is_host(&dns.hostname) || dns.hostname.parse::<IpAddr>().is_ok() {
        problems.add(
            "spec.dns.hostname".to_owned(),
            quoted(&dns.hostname),
            "is no host name",
            "write a name like mysql.example.com",
        );
    }
    problems.number("spec.dns.ttl", dns.ttl, &TTL);
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn is_label(text: &str) -> bool {
    (1..=NAME_LENGTH).contains(&text.len())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_host(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    text.parse::<IpAddr>().is_ok()
        || (text.len() <= HOST_LENGTH && name.split('.').all(|label| is_label(&label.to_ascii_lowercase())))
}
