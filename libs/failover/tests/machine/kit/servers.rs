//! What the servers of a healthy group answer, for the judgements on live evidence.

use bloodraven_failover::judge::Answers;
use bloodraven_types::observation::{Channel, ServerObservation};

use super::groups::{AMS, FRA, IAD, PDX, server, site};

/// A read-only replica of `iad` with both threads running, everything applied.
pub(crate) fn replica(name: &str) -> ServerObservation {
    ServerObservation {
        server_uuid: server(name),
        read_only: true,
        super_read_only: true,
        offline_mode: false,
        gtid_executed: super::facts::fenced_set(),
        channels: vec![channel()],
    }
}

/// The replication channel of a healthy replica of `iad`.
pub(crate) fn channel() -> Channel {
    Channel {
        source_host: "iad.example".to_owned(),
        source_port: 3306,
        source_uuid: Some(server(IAD)),
        io_running: true,
        sql_running: true,
        ..Channel::default()
    }
}

/// A primary.
pub(crate) fn primary(name: &str) -> ServerObservation {
    ServerObservation {
        read_only: false,
        super_read_only: false,
        channels: Vec::new(),
        ..replica(name)
    }
}

/// A read-only server without a channel: a fenced source, or a target after `RESET REPLICA ALL`.
pub(crate) fn detached(name: &str) -> ServerObservation {
    ServerObservation {
        channels: Vec::new(),
        ..replica(name)
    }
}

/// `iad` leads, everybody follows it.
pub(crate) fn healthy() -> Answers {
    let mut answers = followers();
    answers.insert(site(IAD), Ok(primary(IAD)));
    answers
}

/// The same with `iad` fenced, and `pdx`, which is pinned and read by itself, left out.
pub(crate) fn fenced() -> Answers {
    let mut answers = followers();
    answers.insert(site(IAD), Ok(detached(IAD)));
    answers.remove(&site(PDX));
    answers
}

fn followers() -> Answers {
    [PDX, FRA, AMS]
        .into_iter()
        .map(|name| (site(name), Ok(replica(name))))
        .collect()
}

/// The answer of a site.
pub(crate) fn answer<'a>(answers: &'a mut Answers, name: &str) -> &'a mut ServerObservation {
    answers.get_mut(&site(name)).unwrap().as_mut().unwrap()
}

/// A site does not answer.
pub(crate) fn silence(answers: &mut Answers, name: &str) {
    answers.insert(site(name), Err("connection refused".to_owned()));
}
