//! One request, one answer, one deadline.

use std::time::Duration;

use bloodraven_crd::MysqlFailoverGroup;
use bloodraven_types::GroupKey;
use kube::api::{GetParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Client, Resource};
use serde_json::Value;

use crate::CONTROLLER;
use crate::failure::Failure;

/// The content type of a JSON patch; kube's own type for it is behind a feature that brings a patch library.
const JSON_PATCH: &str = "application/json-patch+json";
const STATUS: &str = "status";

/// The requests for groups.
#[derive(Clone)]
pub(crate) struct GroupRequests {
    pub(crate) client: Client,
    pub(crate) read_timeout: Duration,
    pub(crate) write_timeout: Duration,
}

impl GroupRequests {
    /// GET, from the API server's quorum read.
    pub(crate) async fn get(&self, key: &GroupKey) -> Result<Value, Failure> {
        // No resourceVersion parameter: the server must answer from storage, not from its watch cache.
        let request = resource(key).get(&key.name, &GetParams::default());
        let request = request.map_err(kube::Error::BuildRequest)?;
        match tokio::time::timeout(self.read_timeout, self.client.request(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::timed_out(self.read_timeout)),
        }
    }

    /// PUT of the status.
    pub(crate) async fn put_status(&self, key: &GroupKey, body: &Value) -> Result<Value, Failure> {
        let params = PostParams {
            field_manager: Some(CONTROLLER.to_owned()),
            ..PostParams::default()
        };
        let body = body.to_string().into_bytes();
        let request = resource(key).replace_subresource(STATUS, &key.name, &params, body);
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        self.bound(request.uri_mut());
        self.write(self.client.request(request)).await
    }

    /// Merge patch of the object beside its status.
    pub(crate) async fn merge(&self, key: &GroupKey, body: &Value) -> Result<Value, Failure> {
        let request = resource(key).patch(&key.name, &patch_params(), &Patch::Merge(body));
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        self.bound(request.uri_mut());
        self.write(self.client.request(request)).await
    }

    /// Merge patch of the status. The server ignores a uid in it.
    pub(crate) async fn merge_status(&self, key: &GroupKey, body: &Value) -> Result<Value, Failure> {
        let request = resource(key).patch_subresource(STATUS, &key.name, &patch_params(), &Patch::Merge(body));
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        self.bound(request.uri_mut());
        self.write(self.client.request(request)).await
    }

    /// JSON patch of the status: the only patch of a status for which the server checks a condition on the uid.
    pub(crate) async fn patch_status(&self, key: &GroupKey, operations: &Value) -> Result<Value, Failure> {
        let request = resource(key).patch_subresource(STATUS, &key.name, &patch_params(), &Patch::Merge(operations));
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        if let Ok(content_type) = JSON_PATCH.parse() {
            request.headers_mut().insert("content-type", content_type);
        }
        self.bound(request.uri_mut());
        self.write(self.client.request(request)).await
    }

    /// Asks the server to give up when we do, so that a late commit is unlikely.
    fn bound<U: std::fmt::Display + std::str::FromStr>(&self, uri: &mut U) {
        let text = uri.to_string();
        let separator = if text.contains('?') { '&' } else { '?' };
        if let Ok(bounded) = format!("{text}{separator}timeout={}ms", self.write_timeout.as_millis()).parse() {
            *uri = bounded;
        }
    }

    async fn write(&self, answer: impl Future<Output = Result<Value, kube::Error>>) -> Result<Value, Failure> {
        match tokio::time::timeout(self.write_timeout, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::timed_out(self.write_timeout)),
        }
    }
}

fn resource(key: &GroupKey) -> Request {
    Request::new(MysqlFailoverGroup::url_path(&(), Some(&key.namespace)))
}

fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(CONTROLLER.to_owned()),
        ..PatchParams::default()
    }
}
