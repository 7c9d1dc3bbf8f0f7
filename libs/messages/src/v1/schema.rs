//! The JSON Schemas of the messages: one a kind, for the whole message with its envelope.

use std::collections::BTreeMap;

use bloodraven_types::{Command, Fact};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::codec::{Envelope, TYPE_PREFIX, schema_uri};
use super::message::GroupRecord;
use super::names::{Kind, RECORDS};
use super::subject::VERSION;

/// The schemas by file name, relative to `schemas/`. What is committed there must equal this.
pub fn schemas() -> BTreeMap<String, Value> {
    Kind::ALL
        .iter()
        .map(|kind| (schema_file(*kind), schema(*kind)))
        .collect()
}

/// The file of a kind's schema, relative to `schemas/`.
pub(crate) fn schema_file(kind: Kind) -> String {
    format!("{VERSION}/{kind}.json")
}

fn schema(kind: Kind) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = Envelope::json_schema(&mut generator).to_value();
    let variants = match kind {
        Kind::Fact => tagged_variants::<Fact>(kind, &mut generator),
        Kind::Command => tagged_variants::<Command>(kind, &mut generator),
        Kind::Record => vec![record_variant(&mut generator)],
    };
    if let Some(object) = schema.as_object_mut() {
        object.insert(
            "$schema".to_owned(),
            json!("https://json-schema.org/draft/2020-12/schema"),
        );
        object.insert("$id".to_owned(), json!(schema_uri(kind)));
        object.insert("title".to_owned(), json!(format!("{kind} {VERSION}")));
        object.insert("description".to_owned(), json!(description(kind)));
        object.insert("oneOf".to_owned(), Value::Array(variants));
        object.insert("$defs".to_owned(), Value::Object(generator.take_definitions(true)));
    }
    schema
}

const fn description(kind: Kind) -> &'static str {
    match kind {
        Kind::Fact => "What a binary has seen or done. A hint until the record takes it in.",
        Kind::Command => "What a record asks a binary to do. Refused when the record has moved on.",
        Kind::Record => "A record that was committed to the group's status.",
    }
}

/// The domain's enum carries its name beside its data; the message carries it in the type.
fn tagged_variants<T: JsonSchema>(kind: Kind, generator: &mut SchemaGenerator) -> Vec<Value> {
    let tagged = T::json_schema(generator).to_value();
    let variants = tagged
        .get("oneOf")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    variants
        .into_iter()
        .map(|variant| {
            let at = |pointer| variant.pointer(pointer).cloned().unwrap_or_default();
            let name = at("/properties/name/const");
            let of_type = format!("{TYPE_PREFIX}.{VERSION}.{kind}.{}", name.as_str().unwrap_or_default());
            json!({
                "description": at("/description"),
                "properties": { "type": { "const": of_type }, "data": at("/properties/data") },
                "required": ["data"],
            })
        })
        .collect()
}

fn record_variant(generator: &mut SchemaGenerator) -> Value {
    let types: Vec<_> = RECORDS
        .iter()
        .map(|name| format!("{TYPE_PREFIX}.{VERSION}.{}.{name}", Kind::Record))
        .collect();
    let data = generator.subschema_for::<GroupRecord>().to_value();
    json!({
        "description": "The last part of the type is the phase.",
        "properties": { "type": { "enum": types }, "data": data },
        "required": ["data"],
    })
}
