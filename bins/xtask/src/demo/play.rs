//! The demonstration itself: one failover after the other while an application writes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bloodraven_stack::ledger_report::{Moment, Report};
use bloodraven_stack::{Asked, PhaseTime, RunningLedger, Stack, StackOptions, Timeline};
use bloodraven_types::Group;
use bloodraven_types::annotation::PLANNED_FAILOVER;

use super::outcome::{LedgerOutcome, Outcome, PhaseOutcome, RunOutcome};
use super::{Options, story};
use crate::workspace::Workspace;

/// How many writes are acknowledged before the first run and between two runs, so that each run meets steady traffic.
const WRITES_BETWEEN: u64 = 400;
/// How many writes the ledger has at least in the end.
const WRITES_IN_ALL: u64 = 2_500;
/// How long a run may take; without trouble it takes a second or two.
const RUN_BUDGET: Duration = Duration::from_secs(120);
/// How long the writers may take for their next writes.
const WRITE_BUDGET: Duration = Duration::from_secs(60);
/// Pause between two looks at the writers' count.
const INTERVAL: Duration = Duration::from_millis(20);

/// What is known of a run before the ledger has been read.
struct Played {
    group: Group,
    timeline: Timeline,
    /// The ledger's time before the request and after the traffic was steady again.
    window: (Moment, Moment),
}

/// Plays all runs and judges.
pub(crate) async fn play(workspace: &Workspace, programs: PathBuf, options: &Options) -> anyhow::Result<Outcome> {
    story::heading("starting MySQL at three sites, NATS, an API server and the programs");
    let begin = Instant::now();
    let stack_options = StackOptions {
        program_dir: Some(programs),
        checkout: Some(workspace.root().to_owned()),
        ..StackOptions::new(&format!("demo-{}", std::process::id()))
    };
    let stack = Box::pin(Stack::up(stack_options)).await?;
    println!(
        "all of it is up after {:.1?}; its files are in {}",
        begin.elapsed(),
        stack.dir().display()
    );
    let ledger = stack.start_ledger().await?;
    writes(&ledger, WRITES_BETWEEN).await?;
    println!(
        "four writers insert through the primary's Service at {}",
        stack.service()
    );

    let mut played = Vec::new();
    for number in 0..options.switchovers {
        played.push(switch_over(&stack, &ledger, number).await?);
    }
    let missing = WRITES_IN_ALL.saturating_sub(ledger.running.acknowledged());
    writes(&ledger, missing).await?;

    let report = stack.judge(ledger).await?;
    let runs = played
        .iter()
        .map(|played| outcome(played, &report))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for (run, played) in runs.iter().zip(&played) {
        story::heading(&format!("{} ─► {}", run.source, run.target));
        story::run(run, &played.timeline);
    }
    let outcome = Outcome {
        runs,
        ledger: LedgerOutcome::from(&report),
        reasons: report.reasons.clone(),
    };
    story::verdict(&outcome, &report);
    if options.keep {
        keep(&stack)?;
        super::interruption().await?;
    }
    stack.check_running()?;
    stack.down().await?;
    Ok(outcome)
}

/// Moves the role to the other candidate: by an annotation, and every second time by the plugin.
async fn switch_over(stack: &Stack, ledger: &RunningLedger, number: u32) -> anyhow::Result<Played> {
    let source = stack.active_site().await?;
    let target = if source == "iad" { "pdx" } else { "iad" };
    story::heading(&format!("run {}: {source} ─► {target}", number + 1));
    let before = ledger.running.now();
    let asked = if number.is_multiple_of(2) {
        println!(
            "$ kubectl annotate mysqlfailovergroup {} {}={target}",
            stack.key().name,
            PLANNED_FAILOVER
        );
        stack.annotate(target).await?
    } else {
        promote(stack, target).await?
    };
    let group = stack.wait_for_end(&asked, RUN_BUDGET).await?;
    let run = asked.run(&group).context("the group shows no run")?;
    println!("{}: {}", run.phase, run.message);
    writes(ledger, WRITES_BETWEEN).await?;
    let after = ledger.running.now();
    let timeline = stack.timeline(run.run_id).await?;
    Ok(Played {
        group,
        timeline,
        window: (before, after),
    })
}

/// Asks by the plugin, whose output goes to the terminal.
async fn promote(stack: &Stack, target: &str) -> anyhow::Result<Asked> {
    let asked = stack.about_to_ask().await?;
    println!("$ kubectl bloodraven promote {} {target} --wait", stack.key().name);
    let mut command = stack.kubectl_command()?;
    command.args(["bloodraven", "promote", &stack.key().name, target, "--wait"]);
    let status = command.status().await.context("running kubectl bloodraven")?;
    if !status.success() {
        bail!("kubectl bloodraven promote ended with {status}");
    }
    Ok(asked)
}

/// Waits until so many further writes are acknowledged.
async fn writes(ledger: &RunningLedger, count: u64) -> anyhow::Result<()> {
    let wanted = ledger.running.acknowledged() + count;
    let started = Instant::now();
    while ledger.running.acknowledged() < wanted {
        if started.elapsed() > WRITE_BUDGET {
            bail!(
                "no {count} writes were acknowledged within {WRITE_BUDGET:?}: {:?}",
                ledger.running.counts()
            );
        }
        tokio::time::sleep(INTERVAL).await;
    }
    Ok(())
}

fn outcome(played: &Played, report: &Report) -> anyhow::Result<RunOutcome> {
    let run = played.group.run().context("the group shows no run")?;
    let (outcome, reason) = match &run.result {
        Some(result) => (
            result.outcome.to_string(),
            result.reason.map(|reason| reason.to_string()),
        ),
        None => ("EndedByMarker".to_owned(), None),
    };
    let outage = report.outage_between(played.window.0, played.window.1);
    let phase = |time: &PhaseTime| PhaseOutcome {
        phase: time.phase.to_string(),
        at: time.at.to_precise_string(),
    };
    Ok(RunOutcome {
        run_id: run.run_id.to_string(),
        source: run.source_site.as_ref().map(ToString::to_string).unwrap_or_default(),
        target: run.target_site.to_string(),
        outcome,
        reason,
        phases: played.timeline.phases.iter().map(phase).collect(),
        write_outage_ms: outage.context("the ledger has nothing about the time of the run")?.ms,
    })
}

fn keep(stack: &Stack) -> anyhow::Result<()> {
    story::heading("everything stays up until Ctrl-C");
    println!("export KUBECONFIG={}", stack.lab().kubeconfig("admin")?.display());
    println!("primary's Service: {}", stack.service());
    for node in stack.lab().sites() {
        println!("{}: {}", node.site, node.address());
    }
    for url in stack.lab().nats_urls() {
        println!("bus: {url}");
    }
    Ok(())
}
