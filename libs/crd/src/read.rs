//! From the object as the API server sends it to the group as the machines see it.

use bloodraven_types::{Group, GroupKey, GroupStatus, ObjectUid, ResourceVersion};
use serde_json::Value;

use crate::resource::MysqlFailoverGroup;
use crate::status::StatusBlock;

/// Why an object is no readable group.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A field has another form than its type.
    #[error("{path}: {problem}")]
    Field {
        /// The field, as `spec.sites[0].port`.
        path: String,
        /// What is wrong with it.
        #[source]
        problem: serde_json::Error,
    },
    /// The API server left out metadata that every stored object has.
    #[error("metadata.{0} is missing; this is no object of an API server")]
    Metadata(&'static str),
}

/// Reads one object.
///
/// # Errors
/// With the path of the first field that cannot be read.
pub fn read(object: Value) -> Result<Group, ReadError> {
    let object: MysqlFailoverGroup = serde_path_to_error::deserialize(object).map_err(|error| ReadError::Field {
        path: error.path().to_string(),
        problem: error.into_inner(),
    })?;
    Group::try_from(object)
}

/// The status as it is written to the API server.
///
/// # Errors
/// When a value has no JSON form, which the types of the status do not allow.
pub fn status_value(status: &GroupStatus) -> Result<Value, serde_json::Error> {
    serde_json::to_value(StatusBlock(status.clone()))
}

impl TryFrom<MysqlFailoverGroup> for Group {
    type Error = ReadError;

    fn try_from(object: MysqlFailoverGroup) -> Result<Self, ReadError> {
        let metadata = object.metadata;
        let namespace = metadata.namespace.ok_or(ReadError::Metadata("namespace"))?;
        let name = metadata.name.ok_or(ReadError::Metadata("name"))?;
        let uid = metadata.uid.ok_or(ReadError::Metadata("uid"))?;
        let version = metadata
            .resource_version
            .ok_or(ReadError::Metadata("resourceVersion"))?;
        Ok(Self {
            key: GroupKey::new(namespace, name),
            uid: ObjectUid::new(uid),
            resource_version: ResourceVersion::new(version),
            generation: metadata.generation.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            spec: object.spec.into(),
            status: object.status.unwrap_or_default().0,
        })
    }
}
