//! `promote`: checks, asks, and follows the run to its end.

use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::Context;
use bloodraven_types::annotation::PLANNED_FAILOVER;
use bloodraven_types::words::EventReason;
use bloodraven_types::{Group, Timestamp};
use futures::{Stream, StreamExt};

use crate::api::{NewestEvent, Server, Written};
use crate::args::Promote;
use crate::ending::Ending;
use crate::exit;
use crate::follow::{Follower, Step};
use crate::request::{Decision, compose, judge};

/// How often the request is judged anew because somebody changed the group in between.
const ATTEMPTS: u32 = 10;
/// How long to look for the Event that says why a request was refused: Events are best effort and may never come.
const EVENT_PATIENCE: Duration = Duration::from_secs(3);
/// How often to look for it.
const EVENT_INTERVAL: Duration = Duration::from_millis(100);

/// Asks for a planned failover and says what became of it by the exit code.
pub(crate) async fn run(server: &Server, options: &Promote) -> anyhow::Result<u8> {
    let request = match compose(
        &options.site,
        options.max_lag_wait.as_deref(),
        options.expect.as_deref(),
    ) {
        Ok(request) => request,
        Err(problem) => return Ok(refuse(exit::USAGE, &problem)),
    };
    for _ in 0..ATTEMPTS {
        let Some(stored) = server.stored(&options.group).await? else {
            let namespace = server.namespace();
            return Ok(refuse(
                exit::USAGE,
                &format!("there is no group {} in namespace {namespace}", options.group),
            ));
        };
        let group = bloodraven_crd::read(stored)?;
        let (value, before) = match judge(&group, &request) {
            Decision::Ask { value, before } => (value, before),
            Decision::AlreadyActive => {
                println!(
                    "{} is the active site of {} already; nothing was asked for",
                    request.target, group.key
                );
                return Ok(exit::SUCCESS);
            }
            Decision::Unusable(problem) => return Ok(refuse(exit::USAGE, &problem)),
            Decision::NotNow(problem) => return Ok(refuse(exit::NOT_STARTED, &format!("not asked for: {problem}"))),
        };
        let waiting = if options.wait {
            Some(Waiting::begin(server, &group, options).await?)
        } else {
            None
        };
        match (server.annotate(&group, PLANNED_FAILOVER, &value).await?, waiting) {
            (Written::Changed, _) => continue,
            (Written::Done, None) => {
                let name = &group.key.name;
                println!(
                    "asked {} for {value}; follow it with: kubectl bloodraven status {name}",
                    group.key
                );
                return Ok(exit::SUCCESS);
            }
            (Written::Done, Some(waiting)) => {
                let follower = Follower::new(group.uid.clone(), request.target.clone(), value, before);
                return waiting.follow(server, &group, follower, options.timeout).await;
            }
        }
    }
    Ok(refuse(
        exit::UNAVAILABLE,
        "the group kept changing; nothing was asked for",
    ))
}

/// What is prepared before the request is written, so that nothing that follows from it goes by unseen.
struct Waiting {
    versions: Versions,
    event: Option<NewestEvent>,
}

type Versions = Pin<Box<dyn Stream<Item = anyhow::Result<Option<Group>>>>>;

impl Waiting {
    async fn begin(server: &Server, group: &Group, options: &Promote) -> anyhow::Result<Self> {
        let mut versions: Versions = Box::pin(server.versions(&options.group));
        let first = tokio::time::timeout(options.timeout, versions.next()).await;
        first
            .context("the API server did not answer the watch")?
            .context("the watch ended")??;
        Ok(Self {
            versions,
            event: server.newest_event(group, &refusals()).await?,
        })
    }

    /// Prints each step of the run until it ends, is deferred past the timeout, or the time is up.
    async fn follow(
        mut self,
        server: &Server,
        group: &Group,
        mut follower: Follower,
        timeout: Duration,
    ) -> anyhow::Result<u8> {
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let Ok(version) = tokio::time::timeout(left, self.versions.next()).await else {
                let run = follower
                    .run_id()
                    .map_or_else(|| "the request".to_owned(), |id| format!("run {id}"));
                return Ok(refuse(
                    exit::UNFINISHED,
                    &format!("{run} has not ended within {timeout:?}; it goes on"),
                ));
            };
            let Some(seen) = version.context("the watch ended")?? else {
                return Ok(refuse(exit::UNAVAILABLE, "the group was deleted"));
            };
            // The watch began before the request, so the version that was judged may come once more.
            if seen.resource_version == group.resource_version {
                continue;
            }
            match follower.see(&seen) {
                Step::Quiet => {}
                Step::Progress(line) => say(start, &line),
                Step::Deferred { line, retry } => {
                    line.iter().for_each(|line| say(start, line));
                    if !within(retry, timeout.saturating_sub(start.elapsed())) {
                        let problem = "the run is deferred for longer than --timeout; it goes on by itself";
                        return Ok(refuse(exit::UNFINISHED, problem));
                    }
                }
                Step::Ended(ending) => return Ok(finish(start, &seen, &ending)),
                Step::Withdrawn => return self.withdrawn(server, &seen, start).await,
                Step::Lost(problem) => return Ok(refuse(exit::UNFINISHED, &problem)),
            }
        }
    }

    /// The annotation is gone and there is no run: an Event says why, which may come a little later.
    async fn withdrawn(&self, server: &Server, group: &Group, start: Instant) -> anyhow::Result<u8> {
        let asked = Instant::now();
        let found = loop {
            let newest = server.newest_event(group, &refusals()).await?;
            let newest = newest.filter(|event| Some(event) != self.event.as_ref());
            if newest.is_some() || asked.elapsed() > EVENT_PATIENCE {
                break newest;
            }
            tokio::time::sleep(EVENT_INTERVAL).await;
        };
        let Some(event) = found else {
            say(start, "the request was removed and no Event says why");
            return Ok(exit::NOT_STARTED);
        };
        say(start, &format!("{}: {}", event.reason, event.message));
        let skipped = event.reason == EventReason::PlannedFailoverSkipped.as_str();
        Ok(if skipped { exit::SUCCESS } else { exit::NOT_STARTED })
    }
}

/// The Events that end a request without a run.
fn refusals() -> [&'static str; 2] {
    [
        EventReason::PlannedFailoverRejected.as_str(),
        EventReason::PlannedFailoverSkipped.as_str(),
    ]
}

fn finish(start: Instant, group: &Group, ending: &Ending) -> u8 {
    let message = group.run().map(|run| run.message.as_str()).unwrap_or_default();
    let by = if ending.by_marker {
        "ended by terminal marker: "
    } else {
        ""
    };
    let said = if message.is_empty() {
        String::new()
    } else {
        format!(" — {message}")
    };
    say(start, &format!("{by}{ending}{said}"));
    for warning in &ending.warnings {
        say(start, &format!("warning: {warning}"));
    }
    ending.exit_code()
}

fn within(retry: Option<Timestamp>, left: Duration) -> bool {
    retry.is_some_and(|retry| retry.since(crate::now()) < left)
}

fn say(start: Instant, line: &str) {
    println!("[{:>7.3}s] {line}", start.elapsed().as_secs_f64());
}

fn refuse(code: u8, problem: &str) -> u8 {
    eprintln!("{problem}");
    code
}
