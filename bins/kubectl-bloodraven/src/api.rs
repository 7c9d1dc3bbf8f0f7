//! The API server: groups as they are stored, conditioned changes of annotations, one group's versions as they come.

use anyhow::{Context, anyhow};
use bloodraven_crd::MysqlFailoverGroup;
use bloodraven_types::{Group, Timestamp};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Event as KubeEvent;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::args::Cluster;
use crate::render::Seen;

/// A client and the namespace it was told.
#[derive(Clone)]
pub(crate) struct Server {
    client: Client,
    namespace: String,
}

/// What became of a conditioned change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was made.
    Done,
    /// Somebody changed the object first, and nothing was written.
    Changed,
}

/// An Event, with the version of its object: a repeated Event has a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewestEvent {
    version: String,
    /// Its reason.
    pub(crate) reason: String,
    /// What it says.
    pub(crate) message: String,
}

impl Server {
    /// Connects as the kubeconfig says.
    pub(crate) async fn connect(cluster: &Cluster) -> anyhow::Result<Self> {
        let config = configuration(cluster).await?;
        let namespace = cluster
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).context("making a client")?;
        Ok(Self { client, namespace })
    }

    /// The namespace that is meant.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// One group as it is stored; nothing when there is none.
    pub(crate) async fn stored(&self, name: &str) -> anyhow::Result<Option<Value>> {
        let object = self
            .groups()
            .get_opt(name)
            .await
            .with_context(|| format!("reading group {name}"))?;
        object
            .map(|object| serde_json::to_value(object).context("reading the answer"))
            .transpose()
    }

    /// All groups of the namespace, or of all of them.
    pub(crate) async fn all_stored(&self, all_namespaces: bool) -> anyhow::Result<Vec<Value>> {
        let api = if all_namespaces {
            Api::all_with(self.client.clone(), &resource())
        } else {
            self.groups()
        };
        let found = api.list(&ListParams::default()).await.context("listing groups")?;
        let types = found.types;
        let value = |mut object: DynamicObject| {
            // The server leaves the type out of the items of a list.
            object.types = object.types.or_else(|| singular(&types));
            serde_json::to_value(object).context("reading the answer")
        };
        found.items.into_iter().map(value).collect()
    }

    /// One group; an error when there is none.
    pub(crate) async fn group(&self, name: &str) -> anyhow::Result<Group> {
        let stored = self.stored(name).await?;
        let stored = stored.with_context(|| format!("there is no group {name} in namespace {}", self.namespace))?;
        Ok(bloodraven_crd::read(stored)?)
    }

    /// Sets an annotation, provided that the object is still the version that was read.
    pub(crate) async fn annotate(&self, group: &Group, key: &str, value: &str) -> anyhow::Result<Written> {
        let patch = json!({ "metadata": {
            "uid": group.uid,
            "resourceVersion": group.resource_version,
            "annotations": { key: value },
        }});
        let params = PatchParams {
            field_manager: Some("kubectl-bloodraven".to_owned()),
            ..PatchParams::default()
        };
        match self
            .groups()
            .patch(&group.key.name, &params, &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(Written::Done),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(Written::Changed),
            Err(error) => Err(anyhow!(error).context(format!("writing annotation {key} of {}", group.key))),
        }
    }

    /// Each version of one group from now on; nothing once it is deleted. A lost connection is made again.
    pub(crate) fn versions(&self, name: &str) -> impl Stream<Item = anyhow::Result<Option<Group>>> + use<> {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let events = watcher(self.groups(), config).default_backoff();
        events.filter_map(|event| async {
            let object = match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => object,
                Ok(watcher::Event::Delete(_)) => return Some(Ok(None)),
                Ok(watcher::Event::Init | watcher::Event::InitDone) => return None,
                // The backoff tries again; only a refusal will not get better by itself.
                Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 403 => {
                    return Some(Err(anyhow!("the API server refused the watch: {}", status.message)));
                }
                Err(_) => return None,
            };
            let value = serde_json::to_value(object).context("reading the answer");
            Some(
                value
                    .and_then(|value| bloodraven_crd::read(value).context("reading the group"))
                    .map(Some),
            )
        })
    }

    /// The newest Event about the group with one of the reasons.
    pub(crate) async fn newest_event(&self, group: &Group, reasons: &[&str]) -> anyhow::Result<Option<NewestEvent>> {
        let api: Api<KubeEvent> = Api::namespaced(self.client.clone(), &self.namespace);
        let selector = format!("involvedObject.uid={}", group.uid);
        let events = api
            .list(&ListParams::default().fields(&selector))
            .await
            .context("listing Events")?;
        let time = |event: &KubeEvent| {
            let series = event
                .series
                .as_ref()
                .and_then(|series| series.last_observed_time.as_ref());
            let precise = series.or(event.event_time.as_ref()).map(|time| time.0);
            precise.or(event.last_timestamp.as_ref().map(|time| time.0))
        };
        let wanted = |event: &KubeEvent| event.reason.as_deref().is_some_and(|reason| reasons.contains(&reason));
        Ok(events
            .items
            .into_iter()
            .filter(wanted)
            .max_by_key(time)
            .map(|event| NewestEvent {
                version: event.metadata.resource_version.unwrap_or_default(),
                reason: event.reason.unwrap_or_default(),
                message: event.message.unwrap_or_default(),
            }))
    }

    fn groups(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource())
    }
}

/// The namespace that is meant, for verbs that need no API server.
pub(crate) async fn namespace(cluster: &Cluster) -> String {
    if let Some(namespace) = &cluster.namespace {
        return namespace.clone();
    }
    let configured = configuration(cluster).await.map(|config| config.default_namespace);
    configured.unwrap_or_else(|_| "default".to_owned())
}

async fn configuration(cluster: &Cluster) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context: cluster.context.clone(),
        ..KubeConfigOptions::default()
    };
    Ok(match &cluster.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &options).await?
        }
        None if cluster.context.is_some() => Config::from_kubeconfig(&options).await?,
        None => Config::infer().await?,
    })
}

/// A stored object as the renderer wants it.
pub(crate) fn seen(stored: Value) -> anyhow::Result<Seen> {
    let created = stored.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
    let created = created.and_then(|text| text.parse::<Timestamp>().ok());
    let name = stored
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let group = bloodraven_crd::read(stored).with_context(|| format!("reading group {name}"))?;
    Ok(Seen { group, created })
}

fn resource() -> ApiResource {
    ApiResource::erase::<MysqlFailoverGroup>(&())
}

fn singular(list: &kube::api::TypeMeta) -> Option<kube::api::TypeMeta> {
    let kind = list.kind.strip_suffix("List")?.to_owned();
    Some(kube::api::TypeMeta {
        api_version: list.api_version.clone(),
        kind,
    })
}
