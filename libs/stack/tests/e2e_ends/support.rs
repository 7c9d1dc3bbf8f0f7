//! What the tests share: live looks at the servers, the group's Events and metrics, a target that is held back.

use std::error::Error;
use std::time::{Duration, Instant};

use bloodraven_stack::lab::{MysqlAccount, ProcessName, ProcessState};
use bloodraven_stack::ledger_report::Report;
use bloodraven_stack::{Asked, Program, RunningLedger, Stack};
use bloodraven_types::annotation::PLANNED_FAILOVER;
use bloodraven_types::{Group, Outcome, Phase, PlannedFailover, Reason, SiteState, Timestamp};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use serde_json::Value;
use tokio::task::JoinHandle;

/// What a test returns.
pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long a run may take that nothing holds up.
pub(crate) const RUN: Duration = Duration::from_secs(30);
/// How long something may take to show that follows by itself.
pub(crate) const SOON: Duration = Duration::from_secs(15);
/// Pause between two looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// A Kubernetes Event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Its reason.
    pub(crate) reason: String,
    /// Its message.
    pub(crate) message: String,
    /// `Normal` or `Warning`.
    pub(crate) kind: String,
}

/// Whether one site was writable, look by look.
pub(crate) struct Watch {
    looks: JoinHandle<()>,
    seen: std::sync::Arc<std::sync::Mutex<Vec<(Instant, bool)>>>,
}

/// What `SHOW REPLICA STATUS` says of whom a server follows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Follows {
    /// The source's port; all servers of a lab are on one address.
    pub(crate) port: u16,
    /// The server that it reads from.
    pub(crate) source_uuid: String,
    /// Whether both threads run.
    pub(crate) running: bool,
}

impl Watch {
    /// Looks at a site with the controllers' account, whose sessions a drain leaves alone.
    pub(crate) fn start(stack: &Stack, site: &str) -> TestResult<Self> {
        let opts = stack.lab().mysql_opts(site, MysqlAccount::Bloodraven)?;
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = std::sync::Arc::clone(&seen);
        let looks = tokio::spawn(async move {
            let mut session = None;
            loop {
                if session.is_none() {
                    session = Conn::new(opts.clone()).await.ok();
                }
                let answer = match session.as_mut() {
                    Some(session) => is_writable(session).await.ok(),
                    None => None,
                };
                match answer {
                    Some(writable) => {
                        let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        told.push((Instant::now(), writable));
                    }
                    None => session = None,
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Ok(Self { looks, seen })
    }

    /// Waits until the latest look found the site writable.
    pub(crate) async fn sees_it_writable(&self) -> TestResult {
        eventually("a look that finds the site writable", SOON, async || {
            let seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            Ok(seen.last().filter(|(_, writable)| *writable).map(drop))
        })
        .await
    }

    /// Ends the looks and gives them.
    pub(crate) fn stop(self) -> Vec<(Instant, bool)> {
        self.looks.abort();
        let seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        seen.clone()
    }
}

/// Waits for something to come about.
pub(crate) async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> TestResult<Option<T>>,
) -> TestResult<T> {
    let started = Instant::now();
    loop {
        let last = match look().await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => "not there".to_owned(),
            Err(error) => error.to_string(),
        };
        if started.elapsed() > limit {
            return Err(format!("{what} did not come about within {limit:?}: {last}").into());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Runs statements as `root` and ends the session, so that no drain has to wait for it.
pub(crate) async fn as_root(stack: &Stack, site: &str, statements: &[&str]) -> TestResult {
    let mut root = stack.lab().mysql(site).await?;
    for statement in statements {
        root.query_drop(*statement).await?;
    }
    root.disconnect().await?;
    Ok(())
}

async fn is_writable(session: &mut Conn) -> Result<bool, mysql_async::Error> {
    let answer: Option<u8> = session
        .query_first("SELECT @@GLOBAL.read_only = 0 AND @@GLOBAL.super_read_only = 0 AND @@GLOBAL.offline_mode = 0")
        .await?;
    Ok(answer == Some(1))
}

/// The sites that take writes now, as their servers say it. A server that is not running takes none.
pub(crate) async fn writable_sites(stack: &Stack) -> TestResult<Vec<String>> {
    let mut writable = Vec::new();
    for node in stack.lab().sites() {
        if stack.lab().process_state(&mysqld(&node.site))? == ProcessState::Stopped {
            continue;
        }
        let mut root = stack.lab().mysql(&node.site).await?;
        if is_writable(&mut root).await? {
            writable.push(node.site.clone());
        }
        root.disconnect().await?;
    }
    Ok(writable)
}

/// Whom a site follows; nobody without a channel.
pub(crate) async fn follows(stack: &Stack, site: &str) -> TestResult<Option<Follows>> {
    let mut root = stack.lab().mysql(site).await?;
    let row: Option<Row> = root.query_first("SHOW REPLICA STATUS").await?;
    root.disconnect().await?;
    let Some(row) = row else { return Ok(None) };
    let text = |column: &str| row.get::<String, _>(column).unwrap_or_default();
    Ok(Some(Follows {
        port: row.get("Source_Port").ok_or("no Source_Port")?,
        source_uuid: text("Source_UUID"),
        running: text("Replica_IO_Running") == "Yes" && text("Replica_SQL_Running") == "Yes",
    }))
}

/// The set that a site has executed.
pub(crate) async fn executed(stack: &Stack, site: &str) -> TestResult<String> {
    let mut root = stack.lab().mysql(site).await?;
    let set: Option<String> = root.query_first("SELECT @@GLOBAL.gtid_executed").await?;
    root.disconnect().await?;
    Ok(set.unwrap_or_default())
}

/// Asks for a failover and brings the run to `WaitingForLag`, where the target stays: it applies everything an hour late.
/// A request with such a target would wait in admission, so the delay comes when the claim is granted, while the fencer is
/// frozen; it does not go on before the target is behind.
pub(crate) async fn ask_held_back(stack: &Stack, value: &str) -> TestResult<Asked> {
    stack.pause(Program::Fencer)?;
    let asked = stack.annotate(value).await?;
    let group = in_phase(stack, &asked, Phase::Fencing).await?;
    let run = asked.run(&group).ok_or("no run")?;
    let (source, target) = (run.source_site.clone().ok_or("no source")?, run.target_site.clone());
    set_delay(stack, target.as_str(), 3600).await?;
    eventually("the target being behind", SOON, async || {
        let (source, target) = (
            executed(stack, source.as_str()).await?,
            executed(stack, target.as_str()).await?,
        );
        Ok((source != target).then_some(()))
    })
    .await?;
    stack.resume(Program::Fencer)?;
    in_phase(stack, &asked, Phase::WaitingForLag).await?;
    Ok(asked)
}

/// Lets a replica apply at once again, and waits until it holds what `primary` holds now.
pub(crate) async fn let_go(stack: &Stack, site: &str, primary: &str) -> TestResult {
    set_delay(stack, site, 0).await?;
    catch_up(stack, site, primary).await
}

/// Waits until a replica holds what `primary` holds now.
pub(crate) async fn catch_up(stack: &Stack, site: &str, primary: &str) -> TestResult {
    let set = executed(stack, primary).await?;
    let mut root = stack.lab().mysql(site).await?;
    let timed_out: Option<u8> = root
        .exec_first("SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 30)", (set,))
        .await?;
    root.disconnect().await?;
    if timed_out == Some(0) {
        return Ok(());
    }
    Err(format!("{site} does not catch up with {primary}").into())
}

async fn set_delay(stack: &Stack, site: &str, seconds: u32) -> TestResult {
    let change = format!("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {seconds}");
    // Convergence starts a stopped replica again, and may do so between two of these statements.
    eventually("the delay", SOON, async || {
        as_root(
            stack,
            site,
            &["STOP REPLICA SQL_THREAD", &change, "START REPLICA SQL_THREAD"],
        )
        .await?;
        Ok(Some(()))
    })
    .await
}

/// Waits until the run that was asked for is in a phase.
pub(crate) async fn in_phase(stack: &Stack, asked: &Asked, phase: Phase) -> TestResult<Group> {
    let there = |group: &Group| asked.run(group).is_some_and(|run| run.phase == phase);
    Ok(stack.wait_until(phase.as_str(), RUN, there).await?)
}

/// The end of the run that was asked for.
pub(crate) async fn end_of(stack: &Stack, asked: &Asked, limit: Duration) -> TestResult<PlannedFailover> {
    let group = stack.wait_for_end(asked, limit).await?;
    Ok(asked.run(&group).ok_or("the group shows no run")?.clone())
}

/// Asks for a failover and waits for its end.
pub(crate) async fn ask(stack: &Stack, value: &str) -> TestResult<PlannedFailover> {
    let asked = stack.annotate(value).await?;
    end_of(stack, &asked, RUN).await
}

/// How a run ended.
pub(crate) fn end(run: &PlannedFailover) -> Option<(Outcome, Option<Reason>)> {
    run.result.as_ref().map(|result| (result.outcome, result.reason))
}

/// Waits until the request's annotation is gone.
pub(crate) async fn request_is_removed(stack: &Stack) -> TestResult<Group> {
    let gone = |group: &Group| group.annotation(PLANNED_FAILOVER).is_none();
    Ok(stack.wait_until("the removal of the annotation", SOON, gone).await?)
}

/// Waits until the group says that a site is active.
pub(crate) async fn is_active(stack: &Stack, site: &str) -> TestResult<Group> {
    let active = |group: &Group| {
        group
            .status
            .active_site
            .as_ref()
            .is_some_and(|active| active.as_str() == site)
    };
    Ok(stack.wait_until(&format!("{site} being active"), SOON, active).await?)
}

/// Waits until the group says of a site that it is in a state.
pub(crate) async fn is_in_state(stack: &Stack, site: &str, state: SiteState) -> TestResult<Group> {
    let holds = |group: &Group| {
        group
            .status
            .sites
            .iter()
            .any(|known| known.name == site && known.state == state)
    };
    Ok(stack.wait_until(&format!("{site} being {state}"), SOON, holds).await?)
}

/// The Events with a reason.
pub(crate) async fn events(stack: &Stack, reason: &str) -> TestResult<Vec<Event>> {
    let output = stack.kubectl(["get", "events", "--output", "json"]).await?;
    let list: Value = serde_json::from_slice(&output.stdout)?;
    let text = |event: &Value, field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    Ok(items
        .map(|event| Event {
            reason: text(event, "reason"),
            message: text(event, "message"),
            kind: text(event, "type"),
        })
        .filter(|event| event.reason == reason)
        .collect())
}

/// Waits for an Event with a reason whose message has a part.
pub(crate) async fn event(stack: &Stack, reason: &str, part: &str) -> TestResult<Event> {
    eventually(&format!("the Event {reason} with {part:?}"), SOON, async || {
        Ok(events(stack, reason)
            .await?
            .into_iter()
            .find(|event| event.message.contains(part)))
    })
    .await
}

/// How many planned failovers the status writer has counted for a site and a result.
pub(crate) async fn counted(stack: &Stack, site: &str, result: &str) -> TestResult<u64> {
    let metrics = stack.admin(Program::StatusWriter, "/metrics").await?;
    let labels = [format!("target_site=\"{site}\""), format!("result=\"{result}\"")];
    let line = metrics.lines().find(|line| {
        line.starts_with("bloodraven_planned_failovers_total{") && labels.iter().all(|label| line.contains(label))
    });
    let count = line.and_then(|line| line.rsplit(' ').next()).unwrap_or("0");
    Ok(count.parse()?)
}

/// Changes fields of the group's spec.
pub(crate) async fn patch_spec(stack: &Stack, spec: &Value) -> TestResult {
    let patch = serde_json::json!({ "spec": spec }).to_string();
    let name = stack.key().name.clone();
    stack
        .kubectl([
            "patch",
            "mysqlfailovergroup",
            &name,
            "--type",
            "merge",
            "--patch",
            &patch,
        ])
        .await?;
    Ok(())
}

/// The name of a site's MySQL process.
pub(crate) fn mysqld(site: &str) -> ProcessName {
    ProcessName::mysql(site)
}

/// Waits until a write of the ledger is acknowledged that was not before.
pub(crate) async fn goes_on(ledger: &RunningLedger) -> TestResult {
    let before = ledger.running.acknowledged();
    let more = async || Ok((ledger.running.acknowledged() > before).then_some(()));
    eventually("a write of the ledger", SOON, more).await
}

/// Judges the ledger: nothing gone, nothing stolen, never two writers.
pub(crate) async fn judge(stack: &Stack, ledger: RunningLedger) -> TestResult<Report> {
    let report = stack.judge(ledger).await?;
    println!("{report}");
    assert_eq!((report.gone, report.stolen), (0, 0), "{:?}", report.reasons);
    assert!(report.overlaps.is_empty(), "{:?}", report.overlaps);
    assert!(report.is_clean(), "{:?}", report.reasons);
    Ok(report)
}

/// This moment.
#[expect(
    clippy::disallowed_methods,
    reason = "what the tests note is on the clock of the servers and binaries, which is this machine's"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::new(jiff::Timestamp::now())
}
