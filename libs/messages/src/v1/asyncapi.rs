//! The AsyncAPI document: one channel for each fact, command and record, made from the code's own lists.

use std::fmt::{self, Write as _};

use super::codec::TYPE_PREFIX;
use super::names::Kind;
use super::schema::schema_file;
use super::subject::{STREAM_SUBJECTS, VERSION};

/// The text of `schemas/asyncapi.yaml`. What is committed there must equal this.
pub fn asyncapi() -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_document(&mut text);
    text
}

fn write_document(out: &mut String) -> fmt::Result {
    writeln!(out, "# Made by `cargo xtask schema`; do not edit.")?;
    writeln!(out, "asyncapi: 3.0.0")?;
    writeln!(out, "info:")?;
    writeln!(out, "  title: Bloodraven")?;
    writeln!(out, "  version: {VERSION}")?;
    writeln!(out, "  description: >-")?;
    writeln!(
        out,
        "    What the binaries say to one another about planned failovers, on NATS. The stream BLOODRAVEN_RUNS"
    )?;
    writeln!(
        out,
        "    captures {STREAM_SUBJECTS}. Namespace and group are percent-encoded: letters, digits, - and _ stand"
    )?;
    writeln!(
        out,
        "    for themselves. Every message has the header Nats-Msg-Id, equal to its id."
    )?;
    writeln!(out, "defaultContentType: application/json")?;
    writeln!(out, "channels:")?;
    for (kind, name) in every() {
        writeln!(out, "  {kind}.{name}:")?;
        writeln!(
            out,
            "    address: bloodraven.{VERSION}.{{namespace}}.{{group}}.{kind}.{name}"
        )?;
        writeln!(out, "    parameters:")?;
        writeln!(out, "      namespace:")?;
        writeln!(out, "        description: The group's namespace, percent-encoded.")?;
        writeln!(out, "      group:")?;
        writeln!(out, "        description: The group's name, percent-encoded.")?;
        writeln!(out, "    messages:")?;
        writeln!(out, "      {name}:")?;
        writeln!(out, "        $ref: '#/components/messages/{kind}.{name}'")?;
    }
    writeln!(out, "operations:")?;
    for (kind, name) in every() {
        writeln!(out, "  {}.{name}:", verb(kind))?;
        writeln!(out, "    action: send")?;
        writeln!(out, "    channel:")?;
        writeln!(out, "      $ref: '#/channels/{kind}.{name}'")?;
    }
    writeln!(out, "components:")?;
    writeln!(out, "  messages:")?;
    for (kind, name) in every() {
        writeln!(out, "    {kind}.{name}:")?;
        writeln!(out, "      name: {TYPE_PREFIX}.{VERSION}.{kind}.{name}")?;
        writeln!(out, "      contentType: application/json")?;
        writeln!(out, "      payload:")?;
        writeln!(out, "        $ref: './{}'", schema_file(kind))?;
    }
    Ok(())
}

fn every() -> impl Iterator<Item = (Kind, &'static str)> {
    Kind::ALL
        .into_iter()
        .flat_map(|kind| kind.names().iter().map(move |name| (kind, *name)))
}

const fn verb(kind: Kind) -> &'static str {
    match kind {
        Kind::Fact => "tell",
        Kind::Command => "order",
        Kind::Record => "announce",
    }
}
