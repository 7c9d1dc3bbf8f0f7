//! The feed of committed records: of each group the latest one only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bloodraven_messages::latest::Message;
use bloodraven_types::GroupKey;
use tokio::sync::Notify;

/// How many groups can wait to be read at once; a group beyond that is left out until its next record.
const MOST_GROUPS: usize = 10_000;

/// Committed records as they are announced. A record that was not read yet is replaced by a later one of its group.
/// It is for warming up and for noticing that a run has moved on: an announcement can be lost, and none is kept.
#[derive(Clone, Debug, Default)]
pub struct RecordFeed {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Mutex<BTreeMap<GroupKey, Message>>,
    arrived: Notify,
}

impl RecordFeed {
    /// The next record. Cancel safe. One reader only.
    pub async fn next(&self) -> Message {
        loop {
            // `notify_one` keeps a permit when nobody waits, so that an arrival between the two lines is not missed.
            if let Some((_, message)) = self.lock().pop_first() {
                return message;
            }
            self.shared.arrived.notified().await;
        }
    }

    pub(crate) fn put(&self, message: Message) {
        let mut latest = self.lock();
        if latest.len() < MOST_GROUPS || latest.contains_key(&message.about.group) {
            latest.insert(message.about.group.clone(), message);
        }
        drop(latest);
        self.shared.arrived.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<GroupKey, Message>> {
        // The map is whole after every statement, so a reader that panicked leaves nothing half done.
        self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
