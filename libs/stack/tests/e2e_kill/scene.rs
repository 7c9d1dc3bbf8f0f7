//! Where a run takes place, what has to hold before it, and what has to hold after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bloodraven_bus::read_run;
use bloodraven_failover::claim::{self, Claim};
use bloodraven_messages::latest::{Message, Payload};
use bloodraven_stack::lab::ProcessName;
use bloodraven_stack::{Program, Stack};
use bloodraven_types::words::ConvergenceState;
use bloodraven_types::{Group, Outcome, Phase, PlannedFailover, RunId, SiteState};
use mysql_async::prelude::Queryable;

use crate::gate::Gate;

/// How long the group may take until the next run can begin.
const SETTLE_BUDGET: Duration = Duration::from_secs(40);
/// How long the run's annotations may take to go after its end.
const TIDY_BUDGET: Duration = Duration::from_secs(10);
/// How long the binaries may take to find the bus's last server.
const RECONNECT_BUDGET: Duration = Duration::from_secs(20);
/// How long the stream may take to have what was said.
const STORY_BUDGET: Duration = Duration::from_secs(30);
/// The servers of the bus that go when it loses its quorum.
const MAJORITY: [u8; 2] = [2, 3];
/// What the annotations of a planned failover begin with.
const OF_A_RUN: &str = "bloodraven.shipstream.io/planned-failover";

/// Why a test failed.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A failure with that text.
pub(crate) fn failure(text: impl Into<String>) -> Failure {
    text.into().into()
}

/// A run's surroundings.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// The stack.
    pub(crate) stack: &'a Stack,
    /// The relays before the candidates' administrative ports.
    pub(crate) gates: &'a BTreeMap<String, Gate>,
    /// The site that takes writes.
    pub(crate) source: String,
    /// The site to promote.
    pub(crate) target: String,
}

impl<'a> Scene<'a> {
    /// Waits until every site is as it should be, and sets the scene for the next run.
    pub(crate) async fn set(stack: &'a Stack, gates: &'a BTreeMap<String, Gate>) -> Result<Self, Failure> {
        let source = stack.active_site().await?;
        let what = format!("{source} being active and everybody replicating from it");
        stack
            .wait_until(&what, SETTLE_BUDGET, |group| is_settled(group, &source))
            .await?;
        let target = gates.keys().find(|site| **site != source);
        let target = target.ok_or("there is no other candidate")?.clone();
        Ok(Self {
            stack,
            gates,
            source,
            target,
        })
    }

    /// The relay before a candidate.
    pub(crate) fn gate(&self, site: &str) -> Result<&'a Gate, Failure> {
        self.gates
            .get(site)
            .ok_or_else(|| failure(format!("{site} has no gate")))
    }

    /// The site that has to take writes after a run with that outcome.
    fn winner(&self, outcome: Outcome) -> &str {
        if outcome == Outcome::Succeeded {
            &self.target
        } else {
            &self.source
        }
    }

    /// The run has ended as asked, owns nothing any more, and one site takes writes: the named one.
    pub(crate) async fn check_end(&self, run: &PlannedFailover, outcome: Outcome) -> Result<(), Failure> {
        let result = run
            .result
            .as_ref()
            .ok_or("the run has ended by a marker and no record")?;
        let phase = if outcome == Outcome::Succeeded {
            Phase::Succeeded
        } else {
            Phase::Failed
        };
        if (run.phase, result.outcome) != (phase, outcome) || !result.warnings.is_empty() {
            return Err(failure(format!("{outcome:?} without warnings was expected: {run:#?}")));
        }
        let tidy = |group: &Group| {
            let of_a_run = |key: &String| key.starts_with(OF_A_RUN);
            !group.annotations.keys().any(of_a_run) && claim::holder(group) == Claim::Free
        };
        let what = "a free claim and no annotation of the run";
        let group = self.stack.wait_until(what, TIDY_BUDGET, tidy).await?;
        if group.run().map(|run| run.run_id) != Some(run.run_id) {
            return Err(failure(format!("another run began: {:?}", group.run())));
        }
        self.check_writable(self.winner(outcome)).await
    }

    async fn check_writable(&self, named: &str) -> Result<(), Failure> {
        let mut writable = Vec::new();
        for node in self.stack.lab().sites() {
            let mut root = self.stack.lab().mysql(&node.site).await?;
            let fenced: Option<bool> = root
                .query_first("SELECT @@GLOBAL.super_read_only OR @@GLOBAL.read_only OR @@GLOBAL.offline_mode")
                .await?;
            root.disconnect().await?;
            if fenced == Some(false) {
                writable.push(node.site.as_str());
            }
        }
        if writable == [named] {
            return Ok(());
        }
        Err(failure(format!(
            "{named} was to be the one writable site, {writable:?} are"
        )))
    }
}

/// Kills all servers of the bus but one, and waits until every binary is connected to that.
pub(crate) async fn lose_quorum(stack: &Stack) -> Result<(), Failure> {
    for number in MAJORITY {
        stack.lab().kill(&ProcessName::Nats(number)).await?;
    }
    let started = Instant::now();
    for program in Program::ALL {
        while !stack.admin(program, "/readyz").await?.contains("\"ready\":true") {
            if started.elapsed() > RECONNECT_BUDGET {
                return Err(failure(format!("{program} did not find the last server of the bus")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Starts them again.
pub(crate) async fn regain_quorum(stack: &Stack) -> Result<(), Failure> {
    for number in MAJORITY {
        stack.lab().start(&ProcessName::Nats(number)).await?;
    }
    Ok(())
}

fn is_settled(group: &Group, source: &str) -> bool {
    let active = group
        .status
        .active_site
        .as_ref()
        .is_some_and(|site| site.as_str() == source);
    let follows = |site: &bloodraven_types::group::SiteStatus| {
        site.state == SiteState::ReadOnly
            && site.replicating
            && site.source_convergence_state == Some(ConvergenceState::Converged)
    };
    let sites = &group.status.sites;
    active && sites.len() == group.spec.sites.len() && sites.iter().all(|site| site.name == source || follows(site))
}

/// The bus knows of the runs that were asked for and of no other, and no record of a run went back. What was said while
/// the stream took nothing comes later and in any order, or is lost with its sender: those runs are `loose`.
pub(crate) async fn check_story(stack: &Stack, runs: &BTreeSet<RunId>, loose: &[RunId]) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let told = match read_run(stack.bus(), stack.key(), None).await {
            Ok(messages) => check_records(&messages, runs, loose),
            Err(error) => Err(error.into()),
        };
        if told.is_ok() || started.elapsed() > STORY_BUDGET {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn check_records(messages: &[Message], runs: &BTreeSet<RunId>, loose: &[RunId]) -> Result<(), Failure> {
    let mut latest = BTreeMap::new();
    for message in messages {
        let Payload::Record(record) = &message.payload else {
            continue;
        };
        let (run_id, revision, phase) = (
            message.about.run_id,
            message.about.revision,
            record.planned_failover.phase,
        );
        let before = latest.insert(run_id, (revision, phase));
        // An annotation moves the object and not the record, which is then announced again under its revision.
        let goes_on = before.is_none_or(|before: (_, Phase)| before.0 < revision || before == (revision, phase));
        if !goes_on && !loose.contains(&run_id) {
            return Err(failure(format!(
                "run {run_id}: {phase} at revision {revision} after {before:?}"
            )));
        }
    }
    let known: BTreeSet<RunId> = latest.into_keys().collect();
    let missing = runs.difference(&known).filter(|run_id| !loose.contains(run_id));
    if known.is_subset(runs) && missing.count() == 0 {
        return Ok(());
    }
    Err(failure(format!("{runs:?} were asked for, the bus knows of {known:?}")))
}
