//! The Kubernetes adapter: groups, Events, pod labels and DNS records on a real API server.
//!
//! ```text
//! connect ─► KubernetesStore        implements GroupStore: uncached reads, conditioned writes, Events
//!         ─► KubernetesPublication  implements Publication: role labels of pods, DNSEndpoint
//!         ─► watch_groups           hints that a group changed; whoever decides reads it again
//! ```
//!
//! No request is repeated by this crate or by its client, except where its effect is best effort (Events). Whether a
//! write is tried again is decided by whoever knows what it means.

mod connect;
mod events;
mod failure;
mod publication;
mod requests;
mod store;
mod watch;

pub use connect::{ConnectError, ConnectOptions, connect};
/// The client that the adapters of this crate are made on.
pub use kube::Client;
pub use publication::KubernetesPublication;
pub use store::{KubernetesStore, StoreOptions};
pub use watch::{GroupEvent, watch_groups};

/// Who writes: the field manager of every write and the reporting controller of every Event.
const CONTROLLER: &str = "bloodraven";
