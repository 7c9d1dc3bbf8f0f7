//! The CustomResourceDefinition: what kube derives, made structural for every server and given its rules.

use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::resource::MysqlFailoverGroup;
use crate::rules::{DURATIONS, NODES};

/// Where the generated definition is committed, from the root of the repository.
pub const CRD_FILE: &str = "k8s/crds/mysqlfailovergroups.shipstream.io.yaml";

/// The key of CEL rules in a schema.
const RULES: &str = "x-kubernetes-validations";
/// The key that keeps unknown fields in a schema.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// The longest text of a duration; bounds what a CEL rule may cost.
const DURATION_LENGTH: u64 = 32;

/// Why the definition could not be made. Only a change of the types can bring it about.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The derived definition has no JSON form.
    #[error("the definition cannot be serialised")]
    Json(#[from] serde_json::Error),
    /// The definition has no YAML form.
    #[error("the definition cannot be written as YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
    /// A rule names a field that the schema does not have.
    #[error("the schema has no {0}, for which there is a rule")]
    NoSuchField(String),
}

/// The definition as JSON.
///
/// # Errors
/// When a rule names a field that the types do not have.
pub fn definition() -> Result<Value, DefinitionError> {
    let mut definition = serde_json::to_value(MysqlFailoverGroup::crd())?;
    let schema = definition
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .ok_or_else(|| DefinitionError::NoSuchField("openAPIV3Schema".to_owned()))?;
    plain(schema);
    for duration in DURATIONS {
        let node = spec_node(schema, duration.path)?;
        node.insert("maxLength".to_owned(), json!(DURATION_LENGTH));
        add_rule(node, &duration.rule(), &duration.message());
    }
    for rule in NODES {
        add_rule(spec_node(schema, rule.path)?, rule.rule, rule.message);
    }
    sites(spec_node(schema, "sites")?)?;
    let status = schema
        .pointer_mut("/properties/status")
        .ok_or_else(|| DefinitionError::NoSuchField("status".to_owned()))?;
    // The status is what was written, not more.
    walk(status, &mut |fields| {
        fields.remove("default");
    });
    open(node(schema, "status.plannedFailover")?);
    Ok(definition)
}

/// The definition as the YAML that is committed at [`CRD_FILE`].
///
/// # Errors
/// See [`definition`].
pub fn crd_yaml() -> Result<String, DefinitionError> {
    let yaml = serde_saphyr::to_string(&definition()?)?;
    Ok(format!(
        "# Generated from libs/crd by `cargo xtask crd`; do not edit.\n{}\n",
        yaml.trim_end()
    ))
}

/// The same definition without CEL rules, for API servers before 1.25: those drop the rules when an object is created
/// and fail on server-side apply of a definition that has them.
pub fn without_rules(mut definition: Value) -> Value {
    walk(&mut definition, &mut |fields| {
        fields.remove(RULES);
    });
    definition
}

/// Absent is absent here: no field of ours tells `null` from left out, and a schema without `nullable` lets rules use
/// `has`. Bounds are whole numbers, and formats are those that Kubernetes knows.
fn plain(schema: &mut Value) {
    walk(schema, &mut |fields| {
        fields.remove("nullable");
        for key in ["minimum", "maximum"] {
            if let Some(bound) = fields.get(key).and_then(Value::as_f64) {
                fields.insert(key.to_owned(), json!(bound as i64));
            }
        }
        let format = match fields.get("format").and_then(Value::as_str) {
            Some("uint8" | "uint16") => "int32",
            Some("uint32" | "uint64") => "int64",
            Some(_) | None => return,
        };
        fields.insert("format".to_owned(), json!(format));
    });
}

/// Sites are a map by name for the server, which makes names unique on every version.
fn sites(list: &mut Map<String, Value>) -> Result<(), DefinitionError> {
    list.insert("x-kubernetes-list-type".to_owned(), json!("map"));
    list.insert("x-kubernetes-list-map-keys".to_owned(), json!(["name"]));
    let address = list
        .get_mut("items")
        .and_then(|items| items.pointer_mut("/properties/lbIP"))
        .and_then(Value::as_object_mut)
        .ok_or_else(|| DefinitionError::NoSuchField("spec.sites[].lbIP".to_owned()))?;
    address.insert("maxLength".to_owned(), json!(45));
    address.insert("anyOf".to_owned(), json!([{ "format": "ipv4" }, { "format": "ipv6" }]));
    Ok(())
}

/// Describes the run record without binding it: a block that something older wrote must not make every later write of
/// its object invalid (PF-DUR-10), and a field that something newer wrote must survive.
fn open(record: &mut Map<String, Value>) {
    record.insert(PRESERVE.to_owned(), json!(true));
    record.remove("required");
    let Some(properties) = record.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for field in properties.values_mut().filter_map(Value::as_object_mut) {
        loosen(field);
    }
}

/// The same for everything below the record.
fn loosen(schema: &mut Map<String, Value>) {
    if schema.contains_key("properties") {
        open(schema);
        return;
    }
    schema.retain(|key, _| matches!(key.as_str(), "description" | "type" | "items"));
    if let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut) {
        loosen(items);
    }
}

fn spec_node<'a>(schema: &'a mut Value, path: &str) -> Result<&'a mut Map<String, Value>, DefinitionError> {
    if path.is_empty() {
        node(schema, "spec")
    } else {
        node(schema, &format!("spec.{path}"))
    }
}

fn node<'a>(schema: &'a mut Value, path: &str) -> Result<&'a mut Map<String, Value>, DefinitionError> {
    let pointer: String = path.split('.').map(|field| format!("/properties/{field}")).collect();
    schema
        .pointer_mut(&pointer)
        .and_then(Value::as_object_mut)
        .ok_or_else(|| DefinitionError::NoSuchField(path.to_owned()))
}

fn add_rule(node: &mut Map<String, Value>, rule: &str, message: &str) {
    let rules = node.entry(RULES).or_insert_with(|| json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({ "rule": rule, "message": message }));
    }
}

fn walk(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    if let Some(list) = value.as_array_mut() {
        list.iter_mut().for_each(|item| walk(item, change));
    } else if let Some(fields) = value.as_object_mut() {
        change(fields);
        fields.values_mut().for_each(|item| walk(item, change));
    }
}
