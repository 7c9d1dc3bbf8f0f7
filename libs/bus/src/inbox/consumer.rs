//! The durable consumer: where a binary's missed messages come from.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, PriorityPolicy, ReplayPolicy, pull};
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
/// How long a replica keeps the turn without asking for messages. It asks every second.
pub(crate) const TURN: Duration = Duration::from_secs(4);
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
        // Not every setting can be changed, the priority policy for one; what is unhandled is re-derived.
        info!(consumer = %durable, %error, "making the consumer anew");
        let deleted = stream.delete_consumer(durable).await;
        deleted.map_err(|error| failed("replace it", error.into()))?;
    }
    let deliver_policy = if had_one {
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
    made.map_err(|error| failed("make it", error.into()))?;
    info!(consumer = %durable, "made the consumer");
    Ok(())
}

/// How many delivered messages of the consumer have no outcome yet, whoever holds them.
pub(crate) async fn unsettled(connection: Connection, durable: String) -> Result<usize> {
    let failed = |source| Error::Consumer {
        durable: durable.clone(),
        action: "read it",
        source,
    };
    let stream = connection.jetstream.get_stream_no_info(STREAM).await;
    let stream = stream.map_err(|error| failed(error.into()))?;
    let info = stream.consumer_info(&durable).await;
    Ok(info.map_err(|error| failed(error.into()))?.num_ack_pending)
}
