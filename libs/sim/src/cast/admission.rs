//! The admission's process: it tells what an annotation asks for, and tells it again while it stands.

use std::time::Duration;

use bloodraven_ports::Bus;
use bloodraven_types::fact::{Cancelled, Requested};
use bloodraven_types::{Fact, Group, Phase, Revision, RunId, RunRef, annotation};
use futures::{FutureExt, select_biased};
use uuid::Uuid;

use super::Role;
use crate::bus::{Body, Inbox};

const REMINDER: Duration = Duration::from_secs(2);

/// A request as it was told: its id stays while the same value stands on the same object.
struct Told {
    value: String,
    about: RunRef,
}

/// Watches for annotations for ever.
pub(super) async fn admit(mut role: Role, inbox: Inbox) {
    let mut told: Option<Told> = None;
    let mut known = role.world.group();
    loop {
        tell(&mut role, &mut told, &known).await;
        let changed = select_biased! {
            message = inbox.next().fuse() => Some(message.body),
            () = role.world.time.sleep(REMINDER).fuse() => None,
        };
        if let Some(Body::Changed(group)) = changed {
            known = *group;
        }
    }
}

async fn tell(role: &mut Role, told: &mut Option<Told>, group: &Group) {
    let Some(value) = group.annotation(annotation::PLANNED_FAILOVER) else {
        *told = None;
        let deferred = group.run().is_some_and(|run| run.phase == Phase::Deferred);
        if let (true, Some(about)) = (deferred, RunRef::of(group)) {
            let _ = role.world.bus().tell(&about, Fact::Cancelled(Cancelled {})).await;
        }
        return;
    };
    let same = told
        .as_ref()
        .is_some_and(|told| told.value == value && told.about.uid == group.uid);
    if !same {
        let (high, low) = (role.random.next(), role.random.next());
        let about = RunRef {
            group: group.key.clone(),
            uid: group.uid.clone(),
            run_id: RunId::new(Uuid::from_u64_pair(high, low)),
            revision: Revision::default(),
            epoch: group.epoch(),
        };
        *told = Some(Told {
            value: value.to_owned(),
            about,
        });
    }
    if let Some(told) = told {
        let fact = Fact::Requested(Requested {
            value: told.value.clone(),
        });
        let _ = role.world.bus().tell(&told.about, fact).await;
    }
}
