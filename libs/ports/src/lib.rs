//! The doors of the domain: what the procedures ask of a database server, of the group's record, of the bus, of
//! publication and of the clock, in the words of the domain.
//!
//! ```text
//! procedures ─► Database, GroupStore, Bus, Publication, Clock ◄─ adapters (real servers) and simulations
//! ```
//!
//! A port never decides. Each says what happened, and in particular what is *not* known to have happened.

mod bus;
mod clock;
mod database;
mod publication;
mod store;

pub use bloodraven_types::observation::{Channel, ServerObservation};
pub use bus::{Bus, BusError};
pub use clock::Clock;
pub use database::{
    ApplicationSession, AuthorityTaken, BlockingSession, Database, DatabaseError, DatabaseSession, ReplicationSource,
    ServerAddress,
};
pub use publication::{PodRole, Publication, PublicationError};
pub use store::{AnnotationChanges, GroupStore, SitesUpdate, StoreError};
