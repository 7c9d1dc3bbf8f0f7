//! The stream that keeps what was said, for those that missed it and for people.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, RetentionPolicy, StorageType};
use async_nats::jetstream::{ErrorCode, context::CreateStreamErrorKind};
use bloodraven_messages::latest::STREAM_SUBJECTS;
use tracing::{info, warn};

use crate::connection::Connection;
use crate::error::{Error, Result};

/// The name of the stream.
pub const STREAM: &str = "BLOODRAVEN_RUNS";

/// How long a run can be read back. Nothing needs the stream that long; people do.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
/// A message is repeated under one id for a minute at most; the window is twice that and more.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(180);
/// A run takes some 50 messages of a few KB. This is room for some thousand runs, bounds a group that
/// goes wild, and fits the smallest volume that anybody gives a server.
const MAX_BYTES: i64 = 256 * 1024 * 1024;
/// How many copies are kept when the cluster has as many servers.
const REPLICAS: usize = 3;

/// How often the server writes the stream to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncInterval {
    /// It cannot be asked for with the rights of a binary: only the server's own configuration, or its monitoring port
    /// (`/varz`, `jetstream.config.sync_interval`), says it. `sync_interval: always` is what belongs there: by default
    /// an acknowledged message may not survive a power loss (report B48). No run depends on it.
    Unknown,
}

/// What was found or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// Whether the stream was not there.
    pub created: bool,
    /// How many copies are kept.
    pub replicas: usize,
    /// How often the server writes it to disk.
    pub sync_interval: SyncInterval,
}

/// Makes the stream, or brings an existing one to what it should be. Can be repeated, and by many at once.
///
/// # Errors
/// When JetStream does not answer, or refuses.
pub async fn ensure_stream(connection: &Connection) -> Result<StreamReport> {
    let report = match connection.jetstream.get_stream(STREAM).await {
        Ok(stream) => adjust(connection, stream.cached_info()).await?,
        Err(_) => create(connection).await?,
    };
    if report.created {
        info!(stream = STREAM, replicas = report.replicas, "made the stream");
    }
    Ok(report)
}

fn wanted(replicas: usize) -> Config {
    Config {
        name: STREAM.to_owned(),
        description: Some("What the binaries of Bloodraven say about planned failovers".to_owned()),
        subjects: vec![STREAM_SUBJECTS.to_owned()],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::Old,
        num_replicas: replicas,
        max_age: MAX_AGE,
        max_bytes: MAX_BYTES,
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        max_message_size: -1,
        duplicate_window: DUPLICATE_WINDOW,
        allow_direct: true,
        ..Config::default()
    }
}

async fn create(connection: &Connection) -> Result<StreamReport> {
    let failed = |source| Error::Stream {
        stream: STREAM,
        action: "make it",
        source,
    };
    // How many servers the cluster has is not told to a client; asking for the copies is the way to find out.
    let replicas = match connection.jetstream.create_stream(wanted(REPLICAS)).await {
        Ok(stream) => stream.cached_info().config.num_replicas,
        Err(error) if lacks_servers(&error.kind()) => {
            let created = connection.jetstream.create_stream(wanted(1)).await;
            created
                .map_err(|error| failed(Box::new(error)))?
                .cached_info()
                .config
                .num_replicas
        }
        Err(error) => return Err(failed(Box::new(error))),
    };
    Ok(StreamReport {
        created: true,
        replicas,
        sync_interval: SyncInterval::Unknown,
    })
}

fn lacks_servers(kind: &CreateStreamErrorKind) -> bool {
    let CreateStreamErrorKind::JetStream(error) = kind else {
        return false;
    };
    [
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED,
        ErrorCode::CLUSTER_NO_PEERS,
        ErrorCode::INSUFFICIENT_RESOURCES,
    ]
    .contains(&error.error_code())
}

/// Changes only what differs, and nothing that an operator may have set on purpose, like more copies.
async fn adjust(connection: &Connection, info: &Info) -> Result<StreamReport> {
    let found = &info.config;
    let mut config = found.clone();
    let wanted = wanted(found.num_replicas);
    config.subjects = wanted.subjects;
    config.duplicate_window = found.duplicate_window.max(wanted.duplicate_window);
    config.allow_direct = true;
    if config != *found {
        let updated = connection.jetstream.update_stream(&config).await;
        updated.map_err(|error| Error::Stream {
            stream: STREAM,
            action: "bring it up to date",
            source: Box::new(error),
        })?;
    }
    let mut replicas = found.num_replicas;
    if replicas < REPLICAS {
        // A cluster that has grown since takes the further copies; any other refuses, and that is well.
        config.num_replicas = REPLICAS;
        match connection.jetstream.update_stream(&config).await {
            Ok(_) => replicas = REPLICAS,
            Err(error) if matches!(error.kind(), CreateStreamErrorKind::JetStream(_)) => {}
            Err(error) => warn!(%error, stream = STREAM, "could not ask for more copies"),
        }
    }
    Ok(StreamReport {
        created: false,
        replicas,
        sync_interval: SyncInterval::Unknown,
    })
}
