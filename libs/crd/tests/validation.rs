//! Everything that is wrong with a spec is told at once, with field, value and fix.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use bloodraven_crd::{MysqlFailoverGroup, Problem, read, validate, validate_group};
use bloodraven_types::{Group, GroupSpec};
use proptest::prelude::*;
use serde_json::{Value, json};

fn group(spec: Value, status: Value) -> Group {
    let object = json!({
        "apiVersion": "shipstream.io/v1alpha1",
        "kind": "MysqlFailoverGroup",
        "metadata": { "namespace": "default", "name": "orders", "uid": "u-1", "resourceVersion": "7" },
        "spec": spec,
        "status": status,
    });
    let object: MysqlFailoverGroup = serde_json::from_value(object).unwrap();
    object.try_into().unwrap()
}

fn spec(spec: Value) -> GroupSpec {
    group(spec, json!({})).spec
}

fn sound() -> Value {
    json!({
        "sites": [
            { "name": "iad", "role": "PrimaryCandidate", "host": "10.0.0.1", "adminPort": 33062, "lbIP": "192.0.2.1" },
            { "name": "pdx", "role": "PrimaryCandidate", "host": "10.0.0.2", "lbIP": "2001:db8::2" },
            { "name": "ord", "role": "DisasterRecovery", "host": "mysql-orders-ord.default.svc" },
        ],
        "dns": { "hostname": "orders.example.com" },
        "dragonfly": { "enabled": true },
        "failoverCooldown": "0s",
    })
}

fn fields(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.field.as_str()).collect()
}

/// A sound spec has no problem, with the cooldown switched off and every bound at its end. spec: PF-SET-01
#[test]
fn a_sound_spec_has_no_problems() {
    assert_eq!(validate(&spec(sound())), []);
    let mut ends = sound();
    ends["plannedFailover"] = json!({ "maxLagWait": "1h", "drainTimeout": "10m" });
    ends["dragonfly"]["plannedFailover"] = json!({ "maxSyncWait": "1s" });
    assert_eq!(validate(&spec(ends)), []);
}

/// The example that people start from has no problem.
#[test]
fn the_shipped_example_is_sound() {
    let mut object: Value = serde_saphyr::from_str(include_str!("../../../k8s/examples/orders.yaml")).unwrap();
    object["metadata"]["uid"] = json!("u-1");
    object["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(validate_group(&read(object).unwrap()), []);
}

/// Zero and out-of-range timers are refused, not replaced by their defaults, and all of them are told. spec: PF-SET-01
#[test]
fn all_timers_out_of_bounds_are_told() {
    let mut spec_value = sound();
    spec_value["plannedFailover"] = json!({ "maxLagWait": "0s", "drainTimeout": "10m1s" });
    spec_value["dragonfly"]["plannedFailover"] = json!({ "maxSyncWait": "999ms" });
    spec_value["failoverCooldown"] = json!("25h");
    spec_value["pollInterval"] = json!("1ms");
    let problems = validate(&spec(spec_value));
    assert_eq!(
        fields(&problems),
        [
            "spec.failoverCooldown",
            "spec.pollInterval",
            "spec.plannedFailover.maxLagWait",
            "spec.plannedFailover.drainTimeout",
            "spec.dragonfly.plannedFailover.maxSyncWait",
        ]
    );
    assert_eq!(
        problems[2].to_string(),
        "spec.plannedFailover.maxLagWait is 0s, which is out of bounds; write a duration from 1s to 1h"
    );
}

/// Every kind of mistake in the sites is told with the site's own path.
#[test]
fn all_mistakes_in_the_sites_are_told() {
    let problems = validate(&spec(json!({
        "sites": [
            { "name": "iad", "role": "PrimaryCandidate", "host": "db", "port": 0 },
            { "name": "iad", "role": "ReadOnly", "host": "db:3306" },
            { "name": "Pdx_1", "role": "DisasterRecovery", "host": "DB", "port": 0, "adminPort": 0, "lbIP": "here" },
        ],
        "dns": { "hostname": "192.0.2.9", "ttl": 0 },
        "failureThreshold": 0,
        "recoveryThreshold": 101,
    })));
    assert_eq!(
        fields(&problems),
        [
            "spec.sites",
            "spec.sites[0].port",
            "spec.sites[0].lbIP",
            "spec.sites[1].name",
            "spec.sites[1].host",
            "spec.sites[2]",
            "spec.sites[2]",
            "spec.sites[2].name",
            "spec.sites[2].port",
            "spec.sites[2].adminPort",
            "spec.sites[2].lbIP",
            "spec.failureThreshold",
            "spec.recoveryThreshold",
            "spec.dns.hostname",
            "spec.dns.ttl",
        ]
    );
}

/// Fewer than two or more than sixteen sites are refused.
#[test]
fn the_number_of_sites_is_bounded() {
    let sites = |count: usize| -> Value {
        (0..count)
            .map(|n| json!({ "name": format!("s{n}"), "role": "PrimaryCandidate", "host": format!("h{n}") }))
            .collect()
    };
    for (count, wanted) in [(0, 2), (1, 2), (2, 0), (16, 0), (17, 1)] {
        let problems = validate(&spec(json!({ "sites": sites(count) })));
        assert_eq!(problems.len(), wanted, "{count} sites: {problems:?}");
    }
}

/// A site that the status knows and the spec has lost is told, for servers that know no transition rules.
#[test]
fn a_removed_site_is_told() {
    let status = json!({ "sites": [{ "name": "iad", "state": "writable" }, { "name": "sjc", "state": "read-only" }] });
    let problems = validate_group(&group(sound(), status));
    assert_eq!(fields(&problems), ["spec.sites"]);
    assert!(problems[0].to_string().contains("\"sjc\""), "{}", problems[0]);
}

proptest! {
    /// The Rust bounds of a timer hold for every value. spec: PF-SET-01
    #[test]
    fn timers_are_bounded_on_both_sides(seconds in 0_u64..8000) {
        let mut value = sound();
        value["plannedFailover"] = json!({ "maxLagWait": format!("{seconds}s") });
        let problems = validate(&spec(value));
        prop_assert_eq!(problems.is_empty(), (1..=3600).contains(&seconds));
    }
}
