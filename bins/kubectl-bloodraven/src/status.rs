//! `status`: one group in detail, or a list of them.

use anyhow::Context;
use serde_json::{Value, json};

use crate::api::{Server, seen};
use crate::args::{Output, Status};
use crate::exit;
use crate::render::{Columns, detail, list};

/// Prints what was asked for.
pub(crate) async fn run(server: &Server, options: &Status) -> anyhow::Result<u8> {
    let columns = Columns {
        wide: options.output == Output::Wide,
        namespace: options.all_namespaces,
    };
    let Some(name) = &options.group else {
        let stored = server.all_stored(options.all_namespaces).await?;
        match options.output {
            Output::Json | Output::Yaml => {
                let items = json!({ "apiVersion": "v1", "kind": "List", "items": stored });
                print!("{}", raw(&items, options.output)?);
            }
            Output::Table | Output::Wide if stored.is_empty() => eprintln!("no groups found"),
            Output::Table | Output::Wide => {
                let groups = stored.into_iter().map(seen).collect::<anyhow::Result<Vec<_>>>()?;
                print!("{}", list(&groups, columns, crate::now()));
            }
        }
        return Ok(exit::SUCCESS);
    };
    let Some(stored) = server.stored(name).await? else {
        eprintln!("there is no group {name} in namespace {}", server.namespace());
        return Ok(exit::NOT_STARTED);
    };
    match options.output {
        Output::Json | Output::Yaml => print!("{}", raw(&stored, options.output)?),
        Output::Table | Output::Wide => print!("{}", detail(&seen(stored)?, columns, crate::now())),
    }
    Ok(exit::SUCCESS)
}

fn raw(value: &Value, output: Output) -> anyhow::Result<String> {
    if output == Output::Yaml {
        return serde_saphyr::to_string(value).context("writing YAML");
    }
    Ok(format!(
        "{}\n",
        serde_json::to_string_pretty(value).context("writing JSON")?
    ))
}
