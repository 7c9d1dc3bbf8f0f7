//! Role labels on pods and the DNS record.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bloodraven_crd::{API_GROUP, API_VERSION, KIND};
use bloodraven_ports::{PodRole, Publication, PublicationError};
use bloodraven_types::{Group, SiteName, SiteSpec};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::CONTROLLER;
use crate::failure::Failure;

/// The label that Services select by.
const ROLE: &str = "shipstream.io/role";
/// The label of a pod's site.
const SITE: &str = "shipstream.io/site";
/// The label of what a pod runs; the cache's pods carry the same group and site.
const NAME: &str = "app.kubernetes.io/name";
/// The label of a pod's group.
const INSTANCE: &str = "app.kubernetes.io/instance";
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Publishes through the API server. Clones share connections.
#[derive(Clone)]
pub struct KubernetesPublication {
    client: Client,
}

impl KubernetesPublication {
    /// A publication on this client.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Sets the role on the pods of one site; the number of changed pods, and what failed.
    async fn set_role(&self, group: &Group, site: &SiteSpec, role: PodRole) -> (u32, Vec<String>) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &group.key.namespace);
        let selected = ListParams::default().labels(&selector(group, site));
        let pods = match bounded(api.list(&selected)).await {
            Ok(pods) => pods.items,
            Err(failure) => return (0, vec![format!("pods of {}: {failure}", site.name)]),
        };
        let differing: Vec<&Pod> = pods.iter().filter(|pod| differs(pod, role)).collect();
        let changes = differing.iter().map(|pod| self.label(&api, pod, role));
        let mut changed = 0;
        let mut problems = Vec::new();
        for result in join_all(changes).await {
            match result {
                Ok(true) => changed += 1,
                Ok(false) => {}
                Err(problem) => problems.push(problem),
            }
        }
        (changed, problems)
    }

    /// Changes one label of one pod. A pod that is gone needs no label.
    async fn label(&self, api: &Api<Pod>, pod: &Pod, role: PodRole) -> Result<bool, String> {
        let name = pod.name_any();
        // The uid: a pod that took over the name in between has not been looked at.
        let patch = json!({ "metadata": { "uid": pod.uid(), "labels": { ROLE: label(role) } } });
        let params = PatchParams {
            field_manager: Some(CONTROLLER.to_owned()),
            ..PatchParams::default()
        };
        match bounded(api.patch(&name, &params, &Patch::Merge(&patch))).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_absent(&name) => Ok(false),
            Err(failure) => Err(format!("pod {name}: {failure}")),
        }
    }
}

impl Publication for KubernetesPublication {
    async fn set_roles(&self, group: &Group, roles: &BTreeMap<SiteName, PodRole>) -> Result<u32, PublicationError> {
        let mut problems = Vec::new();
        let mut known = Vec::new();
        for (name, role) in roles {
            match group.site(name) {
                Some(site) => known.push((site, *role)),
                None => problems.push(format!("{name} is no site of the group")),
            }
        }
        let sites = known.iter().map(|(site, role)| self.set_role(group, site, *role));
        let mut changed = 0;
        // Each site is labelled whatever happens at the others: taking a role off must not wait for giving it.
        for (count, failed) in join_all(sites).await {
            changed += count;
            problems.extend(failed);
        }
        if problems.is_empty() {
            Ok(changed)
        } else {
            Err(error(group, "the role labels", problems.join("; ")))
        }
    }

    async fn set_dns(&self, group: &Group, site: &SiteName) -> Result<bool, PublicationError> {
        let failed = |detail: String| error(group, "the DNS record", detail);
        let Some(endpoint) = endpoint(group, site).map_err(failed)? else {
            return Ok(false);
        };
        let kind = GroupVersionKind::gvk("externaldns.k8s.io", "v1alpha1", "DNSEndpoint");
        let resource = ApiResource::from_gvk_with_plural(&kind, "dnsendpoints");
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &group.key.namespace, &resource);
        let name = format!("{CONTROLLER}-{}", group.key.name);
        let live = match bounded(api.get(&name)).await {
            Ok(live) => Some(live),
            Err(failure) if failure.is_absent(&name) => None,
            Err(failure) => return Err(failed(failure.to_string())),
        };
        if live.is_some_and(|live| is_published(&live, group, &endpoint)) {
            return Ok(false);
        }
        let object = json!({
            "apiVersion": "externaldns.k8s.io/v1alpha1",
            "kind": "DNSEndpoint",
            "metadata": {
                "name": name,
                "namespace": group.key.namespace,
                "ownerReferences": [{
                    "apiVersion": format!("{API_GROUP}/{API_VERSION}"),
                    "kind": KIND,
                    "name": group.key.name,
                    "uid": group.uid,
                }],
            },
            "spec": { "endpoints": [endpoint] },
        });
        let params = PatchParams::apply(CONTROLLER).force();
        match bounded(api.patch(&name, &params, &Patch::Apply(&object))).await {
            Ok(_) => Ok(true),
            Err(failure) => Err(failed(failure.to_string())),
        }
    }
}

async fn bounded<T>(answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::timed_out(REQUEST_TIMEOUT)),
    }
}

fn error(group: &Group, what: &str, detail: String) -> PublicationError {
    PublicationError {
        what: what.to_owned(),
        group: group.key.to_string(),
        detail,
    }
}

const fn label(role: PodRole) -> &'static str {
    match role {
        PodRole::Primary => "primary",
        PodRole::Replica => "replica",
        PodRole::Fenced => "fenced",
    }
}

fn differs(pod: &Pod, role: PodRole) -> bool {
    pod.labels().get(ROLE).map(String::as_str) != Some(label(role))
}

/// The label selector of a site's MySQL pods.
fn selector(group: &Group, site: &SiteSpec) -> String {
    let usual = || {
        BTreeMap::from([
            (NAME.to_owned(), "mysql".to_owned()),
            (INSTANCE.to_owned(), group.key.name.clone()),
            (SITE.to_owned(), site.name.to_string()),
        ])
    };
    let labels = if site.pod_selector.is_empty() {
        usual()
    } else {
        site.pod_selector.clone()
    };
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

/// The endpoint to publish; none when the group has no DNS record.
fn endpoint(group: &Group, name: &SiteName) -> Result<Option<Value>, String> {
    let Some(dns) = &group.spec.dns else {
        return Ok(None);
    };
    let site = group
        .site(name)
        .ok_or_else(|| format!("{name} is no site of the group"))?;
    let text = site.lb_ip.as_deref().ok_or_else(|| format!("{name} has no lbIP"))?;
    let address: IpAddr = text
        .parse()
        .map_err(|_| format!("{name} has the lbIP {text:?}, which is no IP address"))?;
    let record = if address.is_ipv4() { "A" } else { "AAAA" };
    Ok(Some(json!({
        "dnsName": dns.hostname,
        "recordType": record,
        "targets": [address],
        "recordTTL": dns.ttl,
    })))
}

/// Whether the live object says what it should, whatever else it says.
fn is_published(live: &DynamicObject, group: &Group, endpoint: &Value) -> bool {
    let owned = live
        .owner_references()
        .iter()
        .any(|owner| owner.uid == group.uid.as_str());
    let Some([published]) = live
        .data
        .pointer("/spec/endpoints")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    else {
        return false;
    };
    let same = |(field, wanted): (&String, &Value)| published.get(field) == Some(wanted);
    owned && endpoint.as_object().is_some_and(|fields| fields.iter().all(same))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloodraven_crd::read;

    fn group(sites: Value) -> Group {
        read(json!({
            "apiVersion": "shipstream.io/v1alpha1",
            "kind": "MysqlFailoverGroup",
            "metadata": { "namespace": "default", "name": "orders", "uid": "u-1", "resourceVersion": "7" },
            "spec": { "sites": sites, "dns": { "hostname": "orders.example.com", "ttl": 30 } },
        }))
        .unwrap()
    }

    fn sites() -> Value {
        json!([
            { "name": "iad", "role": "PrimaryCandidate", "host": "a", "lbIP": "192.0.2.1" },
            { "name": "pdx", "role": "PrimaryCandidate", "host": "b", "lbIP": "2001:DB8::2",
              "podSelector": { "app": "db", "zone": "west" } },
            { "name": "ord", "role": "DisasterRecovery", "host": "c" },
        ])
    }

    /// The record has the type of its address, which is written in its usual form; a site without address has none.
    #[test]
    fn the_record_follows_the_address() {
        let group = group(sites());
        let of = |site: &str| endpoint(&group, &site.into());
        let wanted =
            json!({ "dnsName": "orders.example.com", "recordType": "A", "targets": ["192.0.2.1"], "recordTTL": 30 });
        assert_eq!(of("iad"), Ok(Some(wanted)));
        let six = of("pdx").unwrap().unwrap();
        assert_eq!(
            (&six["recordType"], &six["targets"]),
            (&json!("AAAA"), &json!(["2001:db8::2"]))
        );
        assert!(of("ord").unwrap_err().contains("no lbIP"));
        assert!(of("sjc").unwrap_err().contains("no site"));
    }

    /// Pods are found by the site's own selector, else by program, group and site.
    #[test]
    fn pods_are_selected_by_site() {
        let group = group(sites());
        let of = |index: usize| selector(&group, &group.spec.sites[index]);
        assert_eq!(
            of(0),
            "app.kubernetes.io/instance=orders,app.kubernetes.io/name=mysql,shipstream.io/site=iad"
        );
        assert_eq!(of(1), "app=db,zone=west");
    }
}
