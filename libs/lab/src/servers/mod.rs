//! The servers of a lab, one file each: configuration, command line, readiness and first setting-up.

pub(crate) mod kube;
pub(crate) mod mysql;
pub(crate) mod mysql_setup;
pub(crate) mod nats;
pub(crate) mod valkey;
