//! Settling a write whose outcome is not known: it is proven to have committed, or proven that it never will (PF-DUR-02).

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_failover::Write;
use bloodraven_ports::{Clock, GroupStore, StoreError};
use bloodraven_types::{Group, Timestamp, annotation};

/// How long settlement tries before the write stays unknown and its message is taken up again later.
pub const BUDGET: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// What became of an ambiguous write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It committed; this is the object with it.
    Committed(Box<Group>),
    /// It did not and never will; this is the object without it.
    Never(Box<Group>),
    /// Nobody knows yet.
    Unknown,
}

/// Re-reads until the write is seen, or moves the object's version so that the write can never commit.
///
/// `before` is the object that the write was conditioned on.
pub async fn settle<S: GroupStore, C: Clock>(store: &S, clock: &C, before: &Group, write: &Write) -> Settled {
    let end = clock.monotonic() + BUDGET;
    while clock.monotonic() < end {
        match store.get(&before.key).await {
            Ok(found) if found.uid != before.uid => return Settled::Never(Box::new(found)),
            Ok(found) if is_in(&found, write) => return Settled::Committed(Box::new(found)),
            Ok(found) if found.resource_version != before.resource_version => {
                // Somebody else's write moved the version that ours was conditioned on: ours can no longer commit.
                return Settled::Never(Box::new(found));
            }
            Ok(found) => match store.write_annotations(&found, &fence_token(&found, clock.now())).await {
                Ok(fenced) if fenced.resource_version != found.resource_version => {
                    return Settled::Never(Box::new(fenced));
                }
                Ok(_) => {}
                Err(StoreError::Conflict { .. }) => continue,
                Err(error) => tracing::debug!(group = %before.key, %error, "the status fence was not written"),
            },
            Err(StoreError::NotFound { .. }) => return Settled::Unknown,
            Err(error) => tracing::debug!(group = %before.key, %error, "the object cannot be read"),
        }
        clock.sleep(PAUSE).await;
    }
    Settled::Unknown
}

/// Whether the object shows the write. A status write is recognised by the run's id and revision, which no other writer makes.
fn is_in(found: &Group, write: &Write) -> bool {
    match write {
        Write::Status(status) => match (&status.planned_failover, found.run()) {
            (Some(written), Some(run)) => written.run_id == run.run_id && written.revision == run.revision,
            (Some(_) | None, Some(_) | None) => false,
        },
        Write::Annotations(changes) => changes
            .iter()
            .all(|(key, value)| found.annotation(key) == value.as_deref()),
    }
}

/// The token always moves past the stored one, by one nanosecond when the clock has not moved.
fn fence_token(group: &Group, now: Timestamp) -> BTreeMap<String, Option<String>> {
    let stored = group
        .annotation(annotation::STATUS_FENCE)
        .and_then(|value| value.parse::<i128>().ok())
        .unwrap_or(0);
    let token = now.inner().as_nanosecond().max(stored.saturating_add(1));
    [(annotation::STATUS_FENCE.to_owned(), Some(token.to_string()))]
        .into_iter()
        .collect()
}
