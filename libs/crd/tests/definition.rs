//! The committed definition is the generated one, and says what the interface promises.
#![expect(clippy::panic, reason = "a helper of a test fails by panicking")]

use std::path::Path;

use bloodraven_crd::{CRD_FILE, crd_yaml, definition, without_rules};
use serde_json::{Value, json};

fn committed() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(CRD_FILE)
}

fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value
        .pointer(pointer)
        .unwrap_or_else(|| panic!("the definition has no {pointer}"))
}

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// The file that people apply is the one the types generate; with `UPDATE_GOLDEN` set it is written first.
#[test]
fn the_committed_definition_is_the_generated_one() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(committed(), crd_yaml().unwrap()).unwrap();
    }
    let committed = std::fs::read_to_string(committed()).unwrap_or_default();
    assert_eq!(
        crd_yaml().unwrap(),
        committed,
        "run `cargo xtask crd` and commit {CRD_FILE}"
    );
}

/// Names, scope, columns and the status subresource are those of the interface.
#[test]
fn names_and_columns_are_those_of_the_interface() {
    let definition = definition().unwrap();
    assert_eq!(at(&definition, "/metadata/name"), "mysqlfailovergroups.shipstream.io");
    assert_eq!(at(&definition, "/spec/scope"), "Namespaced");
    assert_eq!(at(&definition, "/spec/names/shortNames"), &json!(["mfg"]));
    assert_eq!(at(&definition, "/spec/versions/0/name"), "v1alpha1");
    assert_eq!(at(&definition, "/spec/versions/0/subresources/status"), &json!({}));
    let columns: Vec<(&str, &str)> = at(&definition, "/spec/versions/0/additionalPrinterColumns")
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["name"].as_str().unwrap(), column["jsonPath"].as_str().unwrap()))
        .collect();
    assert_eq!(
        columns,
        [
            ("Active", ".status.activeSite"),
            ("Phase", ".status.plannedFailover.phase"),
            ("Outcome", ".status.plannedFailover.result.outcome"),
            ("Age", ".metadata.creationTimestamp"),
        ]
    );
}

/// Defaults, bounds and rules of the planned-failover settings stand in the schema. spec: PF-SET-01
#[test]
fn the_settings_are_bounded_in_the_schema() {
    let definition = definition().unwrap();
    let spec = format!("{SCHEMA}/properties/spec/properties");
    let cases = [
        ("plannedFailover/properties/maxLagWait", "5m0s", "1s", "1h"),
        ("plannedFailover/properties/drainTimeout", "30s", "1s", "10m"),
        (
            "dragonfly/properties/plannedFailover/properties/maxSyncWait",
            "30s",
            "1s",
            "10m",
        ),
        ("failoverCooldown", "5m0s", "0s", "24h"),
        ("pollInterval", "1s", "100ms", "1m"),
    ];
    for (field, default, shortest, longest) in cases {
        let field = at(&definition, &format!("{spec}/{field}"));
        assert_eq!(field["default"], default);
        assert!(field["pattern"].is_string(), "{field}");
        let rule = field["x-kubernetes-validations"][0]["rule"].as_str().unwrap();
        assert_eq!(
            rule,
            format!("duration(self) >= duration('{shortest}') && duration(self) <= duration('{longest}')")
        );
    }
    let on_cooldown = at(&definition, &format!("{spec}/plannedFailover/properties/onCooldown"));
    assert_eq!(on_cooldown["enum"], json!(["Reject", "Defer"]));
    assert_eq!(on_cooldown["default"], "Reject");
    let on_sync_timeout = at(
        &definition,
        &format!("{spec}/dragonfly/properties/plannedFailover/properties/onSyncTimeout"),
    );
    assert_eq!(on_sync_timeout["enum"], json!(["Proceed", "Fail"]));
    assert_eq!(on_sync_timeout["default"], "Proceed");
    let sites = at(&definition, &format!("{spec}/sites"));
    assert_eq!((&sites["minItems"], &sites["maxItems"]), (&json!(2), &json!(16)));
    assert_eq!(sites["x-kubernetes-list-map-keys"], json!(["name"]));
}

/// The schema is structural: no references, no nullable fields, and none of the rules is left for old servers.
#[test]
fn the_schema_suits_every_server() {
    let definition = definition().unwrap();
    let text = definition.to_string();
    assert!(!text.contains("$ref"), "{text}");
    assert!(!text.contains("\"nullable\""), "{text}");
    assert!(text.contains("x-kubernetes-validations"), "{text}");
    assert!(
        !without_rules(definition)
            .to_string()
            .contains("x-kubernetes-validations")
    );
}

/// The run record is described but not bound, so that an older block stays readable and replaceable. spec: PF-DUR-10
#[test]
fn the_run_record_is_not_bound() {
    let definition = definition().unwrap();
    let record = at(
        &definition,
        &format!("{SCHEMA}/properties/status/properties/plannedFailover"),
    );
    assert_eq!(record["x-kubernetes-preserve-unknown-fields"], true);
    let text = record.to_string();
    for bound in ["\"required\"", "\"enum\"", "\"pattern\"", "\"format\""] {
        assert!(!text.contains(bound), "{bound} in {text}");
    }
    assert_eq!(record["properties"]["phase"]["type"], "string");
    assert_eq!(record["properties"]["fence"]["properties"]["gtidSet"]["type"], "string");
}
