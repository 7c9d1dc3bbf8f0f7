//! The durable consumer: where a binary's missed messages come from.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, PriorityPolicy, ReplayPolicy, pull};
use async_nats::jetstream::stream::ConsumerUpdateErrorKind;
use bloodraven_types::Timestamp;
use bytes::Bytes;
use serde_json::Value;
use tracing::info;

use super::{Exclusive, InboxOptions};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::stream::{STREAM, ensure_stream};

/// How long a message may be without a sign of life before it is delivered again. Handlers' signs come every
/// [`PROGRESS`], so this bounds how long a dead process holds up a message, and not how long a step may take.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(5);
/// Under a third of [`ACK_WAIT`], so that two signs may be lost (report B50).
pub(crate) const PROGRESS: Duration = Duration::from_millis(1500);
/// How many messages may be without an outcome at once; the inbox has room for all of them.
const MOST_PENDING: i64 = 256;
/// How long a replica keeps the turn without asking for messages; it asks every second. This is how long a killed
/// replica holds the others up, and how long the stream may be without a leader (4 to 8 s, measured) before a replica
/// with the turn stops acting on what it hears.
pub(crate) const TURN: Duration = Duration::from_secs(6);
/// The one priority group; it has to have a name.
pub(crate) const PRIORITY_GROUP: &str = "active";

/// The configuration of a binary's consumer; from where it delivers is decided when it is made. `BackOff` stays unset: it would override the ack wait (report B50).
pub fn durable_config(options: &InboxOptions) -> pull::Config {
    let pinned = options.exclusive == Exclusive::Pinned;
    pull::Config {
        durable_name: Some(options.durable.clone()),
        description: Some(format!("What {} has to handle", options.durable)),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_deliver: -1,
        filter_subjects: options.filters.iter().map(|filter| filter.subject()).collect(),
        replay_policy: ReplayPolicy::Instant,
        max_ack_pending: MOST_PENDING,
        priority_policy: if pinned {
            PriorityPolicy::PinnedClient
        } else {
            PriorityPolicy::None
        },
        priority_groups: if pinned {
            vec![PRIORITY_GROUP.to_owned()]
        } else {
            Vec::new()
        },
        priority_timeout: if pinned { TURN } else { Duration::ZERO },
        ..pull::Config::default()
    }
}

/// Makes stream and consumer when they are not there. `had_one` says that this process has seen the consumer before:
/// what it would have been given meanwhile is then taken from the stream, of each subject the last.
pub(crate) async fn ensure_consumer(connection: Connection, options: InboxOptions, had_one: bool) -> Result<()> {
    let durable = &options.durable;
    let failed = |action, source| Error::Consumer {
        durable: durable.clone(),
        action,
        source,
    };
    ensure_stream(&connection).await?;
    let stream = connection.jetstream.get_stream(STREAM).await;
    let stream = stream.map_err(|error| failed("find its stream", error.into()))?;
    let wanted = durable_config(&options);
    // The state is in the record: what was said before there was a consumer is no binary's business. The server's own
    // "new" begins only when the consumer has a leader, and leaves out what is said until then.
    let next = stream.cached_info().state.last_sequence + 1;
    let from_now_on = DeliverPolicy::ByStartSequence { start_sequence: next };
    let found: Option<Consumer<pull::Config>> = stream.get_consumer(durable).await.ok();
    if let Some(found) = &found {
        let deliver_policy = found.cached_info().config.deliver_policy;
        let updated = stream
            .update_consumer(pull::Config {
                deliver_policy,
                ..wanted.clone()
            })
            .await;
        let Err(error) = updated else { return Ok(()) };
        if !matches!(error.kind(), ConsumerUpdateErrorKind::JetStream(_)) {
            return Err(failed("bring it up to date", error.into()));
        }
        // Not every setting can be changed, the priority policy for one; what is unhandled is re-derived.
        info!(consumer = %durable, %error, "making the consumer anew");
        let deleted = stream.delete_consumer(durable).await;
        deleted.map_err(|error| failed("replace it", error.into()))?;
    }
    let deliver_policy = if had_one || found.is_some() {
        DeliverPolicy::LastPerSubject
    } else {
        from_now_on
    };
    let made = stream
        .create_consumer(pull::Config {
            deliver_policy,
            ..wanted
        })
        .await;
    if let Err(error) = made {
        // Another replica may have made it at the same time, to begin elsewhere.
        let theirs = stream.get_consumer::<pull::Config>(durable).await;
        return theirs.map(drop).map_err(|_| failed("make it", error.into()));
    }
    info!(consumer = %durable, "made the consumer");
    Ok(())
}

/// What the server says about the consumer that a replica has just been pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    /// How many delivered messages have no outcome yet, whoever holds them.
    pub(crate) unsettled: usize,
    /// How long the consumer has had its leader. A leader does not know whom its predecessor had pinned.
    pub(crate) leader_for: Duration,
}

/// Asks the server about the consumer.
pub(crate) async fn census(connection: Connection, durable: String) -> Result<Census> {
    let failed = |source| Error::Consumer {
        durable: durable.clone(),
        action: "read it",
        source,
    };
    // By hand, as the client leaves out the server's clock.
    let subject = format!("$JS.API.CONSUMER.INFO.{STREAM}.{durable}");
    let answer = connection.client.request(subject, Bytes::new()).await;
    let answer = answer.map_err(|error| failed(error.into()))?;
    let answer: Value = serde_json::from_slice(&answer.payload).map_err(|error| failed(error.into()))?;
    read_census(&answer).ok_or_else(|| failed(format!("the answer is {answer}").into()))
}

fn read_census(answer: &Value) -> Option<Census> {
    let time = |pointer| answer.pointer(pointer)?.as_str()?.parse::<Timestamp>().ok();
    let unsettled = usize::try_from(answer.get("num_ack_pending")?.as_u64()?).ok()?;
    // A server alone has no leaders; it has kept whom it pinned for as long as the consumer is there.
    let leader_since = time("/cluster/leader_since").or_else(|| time("/created"))?;
    Some(Census {
        unsettled,
        leader_for: time("/ts")?.since(leader_since),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The leader's age is told by the server's own clock; an answer without it is no answer.
    #[test]
    fn a_census_is_read() {
        let mut answer = json!({
            "num_ack_pending": 3,
            "created": "2026-04-20T14:00:00.5Z",
            "ts": "2026-04-20T14:00:07.75Z",
            "cluster": { "leader_since": "2026-04-20T14:00:05.25Z" },
        });
        let census = |unsettled, millis| {
            Some(Census {
                unsettled,
                leader_for: Duration::from_millis(millis),
            })
        };
        assert_eq!(read_census(&answer), census(3, 2500));
        answer["cluster"] = json!(null);
        assert_eq!(read_census(&answer), census(3, 7250));
        assert_eq!(read_census(&json!({ "error": { "code": 404 } })), None);
    }
}
