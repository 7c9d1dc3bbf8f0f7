//! Applies the repository's Kubernetes manifests to the lab's API server by server-side apply, custom resource
//! definitions first, and lists the ServiceAccounts among them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, oneshot};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::error::LabError;
use crate::files;

/// Field manager of everything the lab applies.
const FIELD_MANAGER: &str = "bloodraven-lab";
/// How long a custom resource definition may take until it is served.
const ESTABLISHED_BUDGET: Duration = Duration::from_secs(20);
/// Minor version of the first API server that evaluates validation rules; older ones cannot apply them.
const FIRST_MINOR_WITH_RULES: u32 = 25;
/// Kinds that others refer to, in the order they are applied; kinds that are not named come last.
const ORDER: &[&str] = &[
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "Role",
];

/// A ServiceAccount by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccountName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One object of a manifest file.
struct Manifest {
    path: PathBuf,
    object: DynamicObject,
}

/// Applies all objects of the folders and gives the ServiceAccounts among them.
pub(crate) async fn apply(client: &Client, folders: &[PathBuf], namespace: &str) -> Result<Vec<AccountName>, LabError> {
    let mut manifests = Vec::new();
    for folder in folders {
        manifests.extend(read_folder(folder)?);
    }
    manifests.sort_by_key(|manifest| rank(&kind(&manifest.object)));
    let mut accounts = Vec::new();
    let mut definitions = Vec::new();
    let rules = manifests.is_empty() || evaluates_rules(client).await?;
    let mut manifests = manifests.into_iter().peekable();
    while let Some(manifest) = manifests.next() {
        let kind = kind(&manifest.object);
        let Manifest { path, mut object } = manifest;
        if kind == "CustomResourceDefinition" {
            definitions.push(object.name_any());
            if !rules {
                strip_rules(&mut object.data);
            }
        }
        let object = apply_one(client, &path, object, namespace).await?;
        if kind == "ServiceAccount" {
            let namespace = object.namespace().unwrap_or_else(|| namespace.to_owned());
            accounts.push(AccountName {
                namespace,
                name: object.name_any(),
            });
        }
        let next_is_definition = manifests
            .peek()
            .is_some_and(|next| self::kind(&next.object) == "CustomResourceDefinition");
        if kind == "CustomResourceDefinition" && !next_is_definition {
            await_definitions(client, &definitions).await?;
        }
    }
    accounts.sort();
    Ok(accounts)
}

/// Applies one object and gives it as the server holds it.
async fn apply_one(
    client: &Client,
    path: &Path,
    object: DynamicObject,
    namespace: &str,
) -> Result<DynamicObject, LabError> {
    let name = object.name_any();
    let kind = kind(&object);
    let doing = || format!("applying {kind} {name} of {}", path.display());
    let types = object.types.clone().unwrap_or_default();
    let kind = GroupVersionKind::try_from(&types).map_err(|error| LabError::kube(doing(), error))?;
    let (resource, capabilities) = oneshot::pinned_kind(client, &kind)
        .await
        .map_err(|error| LabError::kube(doing(), error))?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| namespace.to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    };
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(&name, &params, &Patch::Apply(&object))
        .await
        .map_err(|error| LabError::kube(doing(), error))
}

/// Waits until every definition is served.
async fn await_definitions(client: &Client, names: &[String]) -> Result<(), LabError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in names {
        let established = await_condition(api.clone(), name, conditions::is_crd_established());
        let doing = || format!("waiting until {name} is established");
        tokio::time::timeout(ESTABLISHED_BUDGET, established)
            .await
            .map_err(|error| LabError::kube(doing(), error))?
            .map_err(|error| LabError::kube(doing(), error))?;
    }
    Ok(())
}

async fn evaluates_rules(client: &Client) -> Result<bool, LabError> {
    let version = client
        .apiserver_version()
        .await
        .map_err(|error| LabError::kube("asking for the version", error))?;
    // A provider may write "25+".
    let minor: u32 = version.minor.trim_end_matches('+').parse().unwrap_or(u32::MAX);
    Ok(minor >= FIRST_MINOR_WITH_RULES)
}

/// The objects of all YAML files of a folder, in the order of file names; none when there is no such folder.
fn read_folder(folder: &Path) -> Result<Vec<Manifest>, LabError> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_yaml(path))
        .collect();
    paths.sort();
    let mut manifests = Vec::new();
    for path in paths {
        for object in parse(&path, &files::read_text(&path)?)? {
            manifests.push(Manifest {
                path: path.clone(),
                object,
            });
        }
    }
    Ok(manifests)
}

fn is_yaml(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let kustomization = path.file_stem().is_some_and(|stem| stem == "kustomization");
    !hidden && !kustomization && path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

/// The objects of a YAML text: several documents, empty ones left out, lists opened.
fn parse(path: &Path, text: &str) -> Result<Vec<DynamicObject>, LabError> {
    let wrong = |reason: String| LabError::Manifest {
        path: path.to_path_buf(),
        reason,
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| wrong(error.to_string()))?;
    let mut objects = Vec::new();
    for mut document in documents.into_iter().filter(|document| !document.is_null()) {
        let items = match document.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) | None => {
                vec![document]
            }
        };
        for item in items {
            objects.push(serde_json::from_value(item).map_err(|error| wrong(error.to_string()))?);
        }
    }
    Ok(objects)
}

fn kind(object: &DynamicObject) -> String {
    object
        .types
        .as_ref()
        .map(|types| types.kind.clone())
        .unwrap_or_default()
}

fn rank(kind: &str) -> usize {
    ORDER.iter().position(|known| *known == kind).unwrap_or(ORDER.len())
}

/// Takes the validation rules out of a definition; the server would answer 500 to them.
fn strip_rules(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(strip_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_rules),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use kube::ResourceExt;
    use serde_json::json;

    use super::{kind, parse, rank, strip_rules};

    /// Several documents, empty ones and lists all become single objects.
    #[test]
    fn documents_and_lists_are_opened() {
        let text = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: v1, kind: Namespace, metadata: {name: b}}\n";
        let objects = parse(Path::new("x.yaml"), text).unwrap();
        let names: Vec<_> = objects.iter().map(|object| (kind(object), object.name_any())).collect();
        assert_eq!(
            names,
            [
                ("ServiceAccount".to_owned(), "a".to_owned()),
                ("Namespace".to_owned(), "b".to_owned())
            ]
        );
        assert!(rank("Namespace") < rank("ServiceAccount") && rank("ServiceAccount") < rank("RoleBinding"));
    }

    /// A file that is no manifest is refused with its path.
    #[test]
    fn damaged_files_are_named() {
        let error = parse(Path::new("folder/x.yaml"), "a: [")
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(error.contains("folder/x.yaml"), "{error}");
    }

    /// Validation rules are taken out at every depth and nothing else is.
    #[test]
    fn rules_are_stripped() {
        let mut schema = json!({"properties": {"a": {"x-kubernetes-validations": [{"rule": "x"}], "type": "string"}}});
        strip_rules(&mut schema);
        assert_eq!(schema, json!({"properties": {"a": {"type": "string"}}}));
    }
}
