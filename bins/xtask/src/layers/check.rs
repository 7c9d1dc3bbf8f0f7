//! Compares the graph with the table. Every problem is found, not only the first.

use super::metadata::{Graph, Package};
use super::table::{CLIENTS, CRATES, FURTHER_ARROWS, IMPURE, INDEPENDENT, Layer, PURE};

/// Every arrow that the table does not allow, one sentence each.
pub(crate) fn forbidden_arrows(graph: &Graph<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for member in graph.members() {
        let Some(layer) = layer_of(member) else {
            problems.push(format!(
                "{} is in no layer; add it to the table in xtask's layers",
                member.name
            ));
            continue;
        };
        for (dependency, arrow) in graph.dependencies(member) {
            if graph.is_member(dependency) {
                problems.extend(check_own(member, layer, dependency, arrow.is_shipped()));
            } else if arrow.is_shipped() {
                problems.extend(check_client(member, layer, dependency));
            }
        }
        if PURE.contains(&layer)
            && let Some(path) = graph.path_to(member, |name| IMPURE.contains(&name))
        {
            problems.push(format!(
                "{} is pure and must not reach {}",
                member.name,
                path.join(" ─► ")
            ));
        }
    }
    problems
}

/// What a manifest lacks: the workspace's lints, or a dependency whose version is the workspace's.
pub(crate) fn manifest_problems(package: &str, text: &str) -> Vec<String> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("{package}: its manifest cannot be read: {error}")],
    };
    let mut problems = Vec::new();
    let inherits = |value: Option<&toml::Value>| value.and_then(|value| value.get("workspace")) == Some(&true.into());
    if !inherits(manifest.get("lints")) {
        problems.push(format!("{package} lacks `[lints] workspace = true`"));
    }
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else {
            continue;
        };
        for (name, value) in table {
            if !inherits(Some(value)) {
                problems.push(format!(
                    "{package} gives {name} in [{section}] a version of its own; use `{name}.workspace = true`"
                ));
            }
        }
    }
    problems
}

fn layer_of(package: &Package) -> Option<Layer> {
    let named = CRATES
        .iter()
        .find(|(name, _)| *name == package.name)
        .map(|(_, layer)| *layer);
    let in_bins = package
        .manifest_path
        .iter()
        .rev()
        .nth(2)
        .is_some_and(|folder| folder == "bins");
    named.or(in_bins.then_some(Layer::Binary))
}

fn check_own(member: &Package, layer: Layer, dependency: &Package, shipped: bool) -> Option<String> {
    let arrow = format!("{} ─► {}", member.name, dependency.name);
    let Some(other) = layer_of(dependency) else {
        return Some(format!("{arrow}: {} is in no layer", dependency.name));
    };
    if other == Layer::Binary {
        return Some(format!("{arrow}: nothing may depend on a binary"));
    }
    // Tests may use what they like: they are not shipped and cannot be depended on.
    if !shipped || FURTHER_ARROWS.contains(&(member.name.as_str(), dependency.name.as_str())) {
        return None;
    }
    if INDEPENDENT.contains(&member.name.as_str()) {
        return Some(format!(
            "{arrow}: {} stands alone and may use nothing of ours",
            member.name
        ));
    }
    (!layer.may_use(other)).then(|| {
        format!(
            "{arrow}: layer {} may use {}, and {} is not among them",
            layer.name(),
            layer.allowed(),
            other.name()
        )
    })
}

fn check_client(member: &Package, layer: Layer, dependency: &Package) -> Option<String> {
    let (client, owners) = CLIENTS.iter().find(|(client, _)| *client == dependency.name)?;
    let allowed = layer == Layer::Development || owners.contains(&member.name.as_str());
    (!allowed).then(|| {
        format!(
            "{} ─► {client}: only {} may hold this client",
            member.name,
            owners.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::metadata::Metadata;

    /// A workspace of two libraries, an adapter, a binary and a client, with the arrows given as `from to kind`.
    fn workspace(arrows: &[(&str, &str, Option<&str>)]) -> Metadata {
        let members = [
            ("bloodraven-types", "libs/types"),
            ("bloodraven-failover", "libs/failover"),
            ("bloodraven-mysql", "libs/mysql"),
            ("bloodraven-bus", "libs/bus"),
            ("bloodraven-messages", "libs/messages"),
            ("bloodraven-lab", "libs/lab"),
            ("bloodraven-fencer", "bins/fencer"),
        ];
        let others = ["tokio", "mio-like", "mysql_async"];
        let package = |name: &str, folder: &str| serde_json::json!({ "id": name, "name": name, "manifest_path": format!("/w/{folder}/Cargo.toml") });
        let packages: Vec<_> = members
            .iter()
            .map(|(name, folder)| package(name, folder))
            .chain(others.iter().map(|name| package(name, "registry/x")))
            .collect();
        let nodes: Vec<_> = members
            .iter()
            .map(|(name, _)| *name)
            .chain(others)
            .map(|name| {
                let deps: Vec<_> = arrows
                    .iter()
                    .filter(|(from, _, _)| *from == name)
                    .map(|(_, to, kind)| serde_json::json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] }))
                    .collect();
                serde_json::json!({ "id": name, "deps": deps })
            })
            .collect();
        serde_json::from_value(serde_json::json!({
            "packages": packages,
            "workspace_members": members.map(|(name, _)| name),
            "resolve": { "nodes": nodes },
        }))
        .unwrap()
    }

    fn problems(arrows: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        let metadata = workspace(arrows);
        forbidden_arrows(&Graph::new(&metadata))
    }

    /// The arrows of the architecture pass, those that a test alone needs included.
    #[test]
    fn allowed_arrows_pass() {
        let allowed = [
            ("bloodraven-failover", "bloodraven-types", None),
            ("bloodraven-mysql", "bloodraven-types", None),
            ("bloodraven-mysql", "mysql_async", None),
            ("bloodraven-mysql", "bloodraven-lab", Some("dev")),
            ("bloodraven-bus", "bloodraven-messages", None),
            ("bloodraven-fencer", "bloodraven-mysql", None),
            ("bloodraven-types", "tokio", Some("dev")),
            ("mysql_async", "tokio", None),
        ];
        assert_eq!(problems(&allowed), Vec::<String>::new());
    }

    /// Each forbidden arrow is refused, and the sentence names both ends.
    #[test]
    fn forbidden_arrows_are_named() {
        let cases = [
            (
                "bloodraven-types",
                "bloodraven-failover",
                None,
                "may use nothing of ours",
            ),
            ("bloodraven-mysql", "bloodraven-bus", None, "layer adapter may use"),
            ("bloodraven-mysql", "bloodraven-messages", None, "layer adapter may use"),
            (
                "bloodraven-failover",
                "bloodraven-fencer",
                None,
                "nothing may depend on a binary",
            ),
            (
                "bloodraven-bus",
                "bloodraven-fencer",
                Some("dev"),
                "nothing may depend on a binary",
            ),
            ("bloodraven-fencer", "bloodraven-lab", None, "layer binary may use"),
            ("bloodraven-lab", "bloodraven-types", None, "stands alone"),
            (
                "bloodraven-fencer",
                "mysql_async",
                None,
                "only bloodraven-mysql may hold this client",
            ),
        ];
        for (from, to, kind, reason) in cases {
            let found = problems(&[(from, to, kind)]);
            assert_eq!(found.len(), 1, "{from} ─► {to}: {found:?}");
            assert!(
                found[0].starts_with(&format!("{from} ─► {to}: ")) && found[0].contains(reason),
                "{found:?}"
            );
        }
    }

    /// A pure crate that reaches a runtime through somebody else's crate is refused with the whole way.
    #[test]
    fn impurity_is_found_however_deep() {
        let found = problems(&[("bloodraven-failover", "mio-like", None), ("mio-like", "tokio", None)]);
        assert_eq!(
            found,
            ["bloodraven-failover is pure and must not reach bloodraven-failover ─► mio-like ─► tokio"]
        );
    }

    /// A manifest without the workspace's lints, or with a version of its own, is refused.
    #[test]
    fn manifests_inherit_from_the_workspace() {
        let good = "[lints]\nworkspace = true\n[dependencies]\nserde.workspace = true\ntokio = { workspace = true, features = [\"test-util\"] }\n";
        assert_eq!(manifest_problems("x", good), Vec::<String>::new());
        let bad = "[dependencies]\nserde = \"1\"\n";
        let found = manifest_problems("x", bad).join("\n");
        assert!(found.contains("x lacks `[lints] workspace = true`"), "{found}");
        assert!(
            found.contains("x gives serde in [dependencies] a version of its own"),
            "{found}"
        );
        assert!(manifest_problems("x", "not toml").join("").contains("cannot be read"));
    }
}
