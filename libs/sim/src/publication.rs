//! Labels and DNS of a world.

use std::collections::BTreeMap;

use bloodraven_ports::{PodRole, Publication, PublicationError};
use bloodraven_types::{Group, SiteName};

use crate::journal::Event;
use crate::world::World;

/// What clients are told.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The role label of each site's pods.
    pub roles: BTreeMap<SiteName, PodRole>,
    /// The site that the DNS record names.
    pub dns: Option<SiteName>,
    /// Whether labels cannot be set.
    pub labels_fail: bool,
    /// Whether the DNS record cannot be changed.
    pub dns_fails: bool,
}

/// The publication port of a world.
#[derive(Clone)]
pub struct SimPublication(World);

impl SimPublication {
    pub(crate) const fn new(world: World) -> Self {
        Self(world)
    }
}

impl Publication for SimPublication {
    async fn set_roles(&self, group: &Group, roles: &BTreeMap<SiteName, PodRole>) -> Result<u32, PublicationError> {
        let mut state = self.0.state();
        if state.published.labels_fail {
            return Err(failed("labels", group));
        }
        let changed = roles
            .iter()
            .filter(|(site, role)| state.published.roles.get(site) != Some(role))
            .count();
        state.published.roles.extend(roles.clone());
        if changed > 0 {
            let now = state.now();
            state.journal.push(now, Event::Labelled(roles.clone()));
        }
        Ok(u32::try_from(changed).unwrap_or(u32::MAX))
    }

    async fn set_dns(&self, group: &Group, site: &SiteName) -> Result<bool, PublicationError> {
        let mut state = self.0.state();
        if state.published.dns_fails {
            return Err(failed("the DNS record", group));
        }
        if state.published.dns.as_ref() == Some(site) {
            return Ok(false);
        }
        state.published.dns = Some(site.clone());
        let now = state.now();
        state.journal.push(now, Event::Pointed(site.clone()));
        Ok(true)
    }
}

fn failed(what: &str, group: &Group) -> PublicationError {
    PublicationError {
        what: what.to_owned(),
        group: group.key.to_string(),
        detail: "as the test wants it".to_owned(),
    }
}
