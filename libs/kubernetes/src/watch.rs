//! Hints that a group changed. A watch may lag, repeat and skip; whoever decides reads the group again.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_crd::{MysqlFailoverGroup, read};
use bloodraven_types::{Group, GroupKey, ObjectUid};
use futures::{Stream, StreamExt, stream};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};

/// How long one watch lasts on the server, in seconds. A connection that died without a sign is noticed a little later.
const WATCH_SECONDS: u32 = 30;
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// What was seen of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// It exists and was made or changed, or was listed again.
    Applied(Box<Group>),
    /// It is gone, or was replaced by another object of the same name.
    Deleted {
        /// Its name.
        key: GroupKey,
        /// The object that is gone.
        uid: ObjectUid,
    },
    /// It exists and cannot be read.
    Unreadable {
        /// Its name.
        key: GroupKey,
        /// The field and what is wrong with it.
        problem: String,
    },
}

/// Watches the groups of a namespace, or of all. The stream never ends: it lists again after every failure, 410 Gone
/// included, and then tells of groups that vanished in between too.
pub fn watch_groups(client: Client, namespace: Option<&str>) -> impl Stream<Item = GroupEvent> + Send + use<> {
    let resource = ApiResource::erase::<MysqlFailoverGroup>(&());
    // Objects are read one by one, so that one which cannot be read does not hide the others.
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    watcher(api, config)
        .backoff(Pause)
        .scan(Known::default(), |known, event| {
            let events = match event {
                Ok(event) => known.events(event),
                Err(error) => {
                    tracing::warn!(error = %error, "watching groups failed; listing them again");
                    Vec::new()
                }
            };
            std::future::ready(Some(stream::iter(events)))
        })
        .flatten()
}

/// Always the same pause: listing is cheap, and a request must not wait longer than the outage that delayed it.
struct Pause;

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(PAUSE)
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {}
}

/// Which objects exist as far as the watch has told.
#[derive(Default)]
struct Known {
    current: BTreeMap<GroupKey, ObjectUid>,
    /// What a listing in progress has shown; an object that it does not show is gone.
    listed: Option<BTreeMap<GroupKey, ObjectUid>>,
}

impl Known {
    fn events(&mut self, event: watcher::Event<DynamicObject>) -> Vec<GroupEvent> {
        match event {
            watcher::Event::Init => {
                self.listed = Some(BTreeMap::new());
                Vec::new()
            }
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => self.seen(object),
            watcher::Event::InitDone => self.listing_done(),
            watcher::Event::Delete(object) => {
                let (key, uid) = identity(&object);
                self.current.remove(&key);
                vec![GroupEvent::Deleted { key, uid }]
            }
        }
    }

    fn seen(&mut self, object: DynamicObject) -> Vec<GroupEvent> {
        let (key, uid) = identity(&object);
        let mut events = Vec::new();
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone(), uid.clone());
        }
        if let Some(former) = self.current.insert(key.clone(), uid.clone())
            && former != uid
        {
            events.push(GroupEvent::Deleted {
                key: key.clone(),
                uid: former,
            });
        }
        let read = serde_json::to_value(object)
            .map_err(|error| error.to_string())
            .and_then(|value| read(value).map_err(|error| error.to_string()));
        events.push(match read {
            Ok(group) => GroupEvent::Applied(Box::new(group)),
            Err(problem) => GroupEvent::Unreadable { key, problem },
        });
        events
    }

    fn listing_done(&mut self) -> Vec<GroupEvent> {
        let Some(listed) = self.listed.take() else {
            return Vec::new();
        };
        let before = std::mem::replace(&mut self.current, listed);
        before
            .into_iter()
            .filter(|(key, _)| !self.current.contains_key(key))
            .map(|(key, uid)| GroupEvent::Deleted { key, uid })
            .collect()
    }
}

fn identity(object: &DynamicObject) -> (GroupKey, ObjectUid) {
    let metadata = &object.metadata;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    (
        GroupKey::new(text(&metadata.namespace), text(&metadata.name)),
        ObjectUid::new(text(&metadata.uid)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, uid: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "shipstream.io/v1alpha1",
            "kind": "MysqlFailoverGroup",
            "metadata": { "namespace": "default", "name": name, "uid": uid, "resourceVersion": "1" },
            "spec": { "sites": [] },
        }))
        .unwrap()
    }

    fn deleted(name: &str, uid: &str) -> GroupEvent {
        GroupEvent::Deleted {
            key: GroupKey::new("default", name),
            uid: ObjectUid::new(uid),
        }
    }

    fn list(known: &mut Known, objects: &[(&str, &str)]) -> Vec<GroupEvent> {
        let mut events = known.events(watcher::Event::Init);
        for (name, uid) in objects {
            events.extend(known.events(watcher::Event::InitApply(object(name, uid))));
        }
        events.extend(known.events(watcher::Event::InitDone));
        events
    }

    /// After a gap in the watch, a group that vanished or was made again in it is told as deleted, and one still there is
    /// told as applied. report: B56; spec: PF-CLM-08
    #[test]
    fn a_new_listing_tells_what_vanished() {
        let mut known = Known::default();
        assert_eq!(list(&mut known, &[("a", "1"), ("b", "2"), ("c", "3")]).len(), 3);
        let events = list(&mut known, &[("a", "1"), ("b", "9")]);
        assert!(matches!(&events[0], GroupEvent::Applied(group) if group.key.name == "a"));
        assert_eq!(events[1], deleted("b", "2"));
        assert!(matches!(&events[2], GroupEvent::Applied(group) if group.uid.as_str() == "9"));
        assert_eq!(events[3..], [deleted("c", "3")]);
    }

    /// A listing that broke off does not make groups vanish. report: B56
    #[test]
    fn a_broken_listing_deletes_nothing() {
        let mut known = Known::default();
        list(&mut known, &[("a", "1"), ("b", "2")]);
        known.events(watcher::Event::Init);
        known.events(watcher::Event::InitApply(object("a", "1")));
        let events = list(&mut known, &[("a", "1"), ("b", "2")]);
        assert!(
            events.iter().all(|event| matches!(event, GroupEvent::Applied(_))),
            "{events:?}"
        );
    }

    /// A group that cannot be read is told as such and hides no other.
    #[test]
    fn an_unreadable_group_hides_no_other() {
        let mut known = Known::default();
        let mut broken = object("a", "1");
        broken.data["spec"] = json!({ "sites": 7 });
        known.events(watcher::Event::Init);
        let events = known.events(watcher::Event::InitApply(broken));
        let [GroupEvent::Unreadable { key, problem }] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert_eq!(key.name, "a");
        assert!(problem.starts_with("spec.sites"), "{problem}");
        assert_eq!(known.events(watcher::Event::InitApply(object("b", "2"))).len(), 1);
    }
}
