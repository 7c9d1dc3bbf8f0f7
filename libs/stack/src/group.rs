//! The group: made from the lab's addresses, asked by kubectl, watched to the end of its run.

use std::time::{Duration, Instant};

use bloodraven_crd::MysqlFailoverGroup;
use bloodraven_lab::{Lab, MysqlNode, SiteRole};
use bloodraven_types::annotation::TERMINAL;
use bloodraven_types::{Group, PlannedFailover, RunId};
use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::error::StackError;
use crate::options::StackOptions;

/// A request that was made: the run to wait for is any other than the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The latest run before the request.
    pub before: Option<RunId>,
}

impl Asked {
    /// The run that the request brought about, when the group shows one.
    #[must_use]
    pub fn run<'a>(&self, group: &'a Group) -> Option<&'a PlannedFailover> {
        group.run().filter(|run| Some(run.run_id) != self.before)
    }

    /// Whether that run has ended, by its record or by a terminal marker.
    #[must_use]
    pub fn has_ended(&self, group: &Group) -> bool {
        let Some(run) = self.run(group) else { return false };
        let marker = || {
            group
                .annotation(TERMINAL)
                .is_some_and(|marker| marker.contains(&run.run_id.to_string()))
        };
        run.result.is_some() || marker()
    }
}

/// The group's object on the API server.
#[derive(Clone, Debug)]
pub(crate) struct GroupObject {
    api: Api<DynamicObject>,
    name: String,
}

impl GroupObject {
    /// Makes the group that the options and the lab describe.
    pub(crate) async fn create(client: Client, lab: &Lab, options: &StackOptions) -> Result<Self, StackError> {
        let resource = ApiResource::erase::<MysqlFailoverGroup>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(client, &options.namespace, &resource);
        let object = json!({
            "apiVersion": format!("{}/{}", bloodraven_crd::API_GROUP, bloodraven_crd::API_VERSION),
            "kind": bloodraven_crd::KIND,
            "metadata": { "name": options.group, "namespace": options.namespace },
            "spec": spec(lab, options),
        });
        let doing = || format!("making group {}/{}", options.namespace, options.group);
        let object = serde_json::from_value(object)
            .map_err(|error| StackError::kube(doing(), kube::Error::SerdeError(error)))?;
        api.create(&PostParams::default(), &object)
            .await
            .map_err(|error| StackError::kube(doing(), error))?;
        Ok(Self {
            api,
            name: options.group.clone(),
        })
    }

    /// The group as it is now.
    pub(crate) async fn read(&self) -> Result<Group, StackError> {
        let object = self.api.get(&self.name).await;
        to_group(object.map_err(|error| StackError::kube(format!("reading group {}", self.name), error))?)
    }

    /// Watches until the condition holds and gives the group as it was then.
    pub(crate) async fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut(&Group) -> bool,
    ) -> Result<Group, StackError> {
        let started = Instant::now();
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = watcher(self.api.clone(), config).default_backoff().boxed();
        let mut last = "the group was not seen".to_owned();
        while let Ok(Some(event)) = tokio::time::timeout(limit.saturating_sub(started.elapsed()), events.next()).await {
            match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    let group = to_group(object)?;
                    if holds(&group) {
                        return Ok(group);
                    }
                    last = format!("{:#?}", group.status);
                }
                Ok(watcher::Event::Delete(_)) => "the group was deleted".clone_into(&mut last),
                Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
                // The watch is taken up again by itself; the limit bounds it.
                Err(error) => last = format!("the watch failed: {error}"),
            }
        }
        Err(StackError::TimedOut {
            what: what.to_owned(),
            waited: started.elapsed(),
            last,
        })
    }
}

fn to_group(object: DynamicObject) -> Result<Group, StackError> {
    let value = serde_json::to_value(object);
    let value = value.map_err(|error| StackError::kube("reading the group", kube::Error::SerdeError(error)))?;
    Ok(bloodraven_crd::read(value)?)
}

fn spec(lab: &Lab, options: &StackOptions) -> Value {
    let sites: Vec<Value> = lab
        .sites()
        .iter()
        .enumerate()
        .map(|(index, node)| site(index, node, options))
        .collect();
    let mut spec = options.spec.clone();
    spec.entry("sites").or_insert(Value::Array(sites));
    Value::Object(spec)
}

fn site(index: usize, node: &MysqlNode, options: &StackOptions) -> Value {
    let role = match node.role {
        SiteRole::PrimaryCandidate => "PrimaryCandidate",
        SiteRole::DisasterRecovery => "DisasterRecovery",
    };
    let own = (node.address(), node.admin_address());
    let (client, administrative) = options.addresses.get(&node.site).copied().unwrap_or(own);
    json!({
        "name": node.site,
        "role": role,
        "host": client.ip().to_string(),
        "port": client.port(),
        "adminPort": administrative.port(),
        "lbIP": format!("192.0.2.{}", (index + 1) * 10),
    })
}
