//! `MysqlFailoverGroup` as the API server knows it: its types, its definition and the rules of its spec.
//!
//! ```text
//! JSON of the object ─► MysqlFailoverGroup ─► bloodraven_types::Group ─► validate: every problem at once
//! MysqlFailoverGroup ─► definition: structural schema, bounds, CEL rules ─► k8s/crds/*.yaml
//! ```
//!
//! API servers before 1.25 drop CEL rules and every server keeps objects that were stored before a rule existed, so
//! whoever acts on a spec validates it again ([`validate`]).

mod definition;
mod read;
mod resource;
mod rules;
mod status;
mod validate;

pub use definition::{CRD_FILE, DefinitionError, crd_yaml, definition, without_rules};
pub use read::{ReadError, read, status_value};
pub use resource::{MysqlFailoverGroup, MysqlFailoverGroupSpec};
pub use status::StatusBlock;
pub use validate::{Problem, validate, validate_group};

/// The API group of `MysqlFailoverGroup`.
pub const API_GROUP: &str = "shipstream.io";
/// The version of `MysqlFailoverGroup`.
pub const API_VERSION: &str = "v1alpha1";
/// The kind.
pub const KIND: &str = "MysqlFailoverGroup";
/// The plural name in URLs and RBAC rules.
pub const PLURAL: &str = "mysqlfailovergroups";
