//! Reading a run back from the stream, for people.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull::OrderedConfig};
use bloodraven_messages::latest::{Message, decode, group_subjects};
use bloodraven_types::{GroupKey, RunId};
use futures::StreamExt as _;
use tracing::debug;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::stream::STREAM;

/// How long the next stored message may take; a stream that stalls must not hang a command line.
const NEXT_MESSAGE: Duration = Duration::from_secs(5);

/// Everything that the stream still has about a run, in the order of the stream; about every run of the group when no
/// run is named. Messages of other versions are left out.
///
/// # Errors
/// When the stream cannot be read to its end.
pub async fn read_run(connection: &Connection, group: &GroupKey, run_id: Option<RunId>) -> Result<Vec<Message>> {
    let failed = |action| {
        move |source| Error::Stream {
            stream: STREAM,
            action,
            source,
        }
    };
    let stream = connection.jetstream.get_stream(STREAM).await;
    let stream = stream.map_err(|error| failed("find it")(error.into()))?;
    let config = OrderedConfig {
        filter_subject: group_subjects(group),
        deliver_policy: DeliverPolicy::All,
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await;
    let consumer = consumer.map_err(|error| failed("read it")(error.into()))?;
    let mut pending = consumer.cached_info().num_pending;
    let messages = consumer.messages().await;
    let mut messages = messages.map_err(|error| failed("read it")(error.into()))?;
    let mut run = Vec::new();
    while pending > 0 {
        let next = tokio::time::timeout(NEXT_MESSAGE, messages.next()).await;
        let stalled = || "the next message did not come".into();
        let stored = next
            .ok()
            .flatten()
            .ok_or_else(|| failed("read it to the end")(stalled()))?;
        let stored = stored.map_err(|error| failed("read it to the end")(error.into()))?;
        pending = stored.info().map_err(failed("read it to the end"))?.pending;
        match decode(Some(&stored.subject), &stored.payload) {
            Ok(message) if run_id.is_none_or(|id| id == message.about.run_id) => run.push(message),
            Ok(_) => {}
            Err(error) => debug!(%error, subject = %stored.subject, "left out a message"),
        }
    }
    Ok(run)
}
