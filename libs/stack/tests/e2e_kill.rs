//! Killing any one binary at any phase, and starting it again, ends the run as if it had not been killed.
//!
//! ```text
//! for each binary and moment: settled ─► kubectl annotate ─► held at the moment ─► SIGKILL ─► let go ─► started again
//!   ─► ended as asked, one run, one writable site, claim free ─► … ─► the ledger's verdict on all of it
//! ```
//!
//! With `BLOODRAVEN_KILL_FULL` set, every cell is played a second time with three seconds between death and start.

#[path = "e2e_kill/cell.rs"]
mod cell;
#[path = "e2e_kill/gate.rs"]
mod gate;
#[path = "e2e_kill/moment.rs"]
mod moment;
#[path = "e2e_kill/scene.rs"]
mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use bloodraven_stack::{Program, Stack, StackOptions};
use serde_json::json;

use crate::cell::{Cell, Played};
use crate::gate::Gate;
use crate::moment::Moment;
use crate::scene::{Failure, Scene, check_story};

/// The moments at which every binary is killed: one for each phase.
const EVERY_PHASE: [Moment; 7] = [
    Moment::Admitting,
    Moment::Fencing,
    Moment::Draining,
    Moment::WaitingForLag,
    Moment::Promoting,
    Moment::Publishing,
    Moment::RollingBack,
];
/// Moments that concern one binary only.
const EXACT: [(Program, Moment); 10] = [
    (Program::Admission, Moment::Asking),
    (Program::StatusWriter, Moment::Asking),
    (Program::Fencer, Moment::Fenced),
    (Program::Promoter, Moment::Opened),
    (Program::Publisher, Moment::Recorded),
    (Program::StatusWriter, Moment::Recorded),
    (Program::StatusWriter, Moment::Ended),
    (Program::Fencer, Moment::Unfenced),
    (Program::Promoter, Moment::Restoring),
    (Program::StatusWriter, Moment::Restoring),
];
/// Moments that are played with a pause as well.
const LATE: [(Program, Moment); 4] = [
    (Program::StatusWriter, Moment::Fencing),
    (Program::Fencer, Moment::Fenced),
    (Program::Promoter, Moment::Opened),
    (Program::TopologyManager, Moment::Admitting),
];
/// Moments that are played without a quorum of the bus as well: there the restarted process hears the repetitions of
/// what its predecessor has acted on.
const WITHOUT_QUORUM: [(Program, Moment); 3] = [
    (Program::Fencer, Moment::Fenced),
    (Program::Promoter, Moment::Opened),
    (Program::StatusWriter, Moment::WaitingForLag),
];
/// How often a cell is played whose kill falls behind the moment, which nothing holds.
const TRIES: u32 = 10;
/// How long a binary is away when it does not come back at once.
const PAUSE: Duration = Duration::from_secs(3);
/// The sites that the role moves between.
const CANDIDATES: [&str; 2] = ["iad", "pdx"];
/// Plays every cell with a pause too.
const FULL: &str = "BLOODRAVEN_KILL_FULL";
/// Plays only cells whose name has this in it.
const ONLY: &str = "BLOODRAVEN_KILL_ONLY";

/// Every binary is killed in every phase, and at the moments that matter to it: between a statement and the fact that
/// tells of it. Each run ends as asked, is one run, leaves one writable site and nothing behind; over all of them no
/// acknowledged write is lost or taken twice, and no two servers acknowledge at once. A restarted fencer takes the fence
/// that it finds for the run's own, and a restarted promoter finds its target open.
/// spec: PF-DUR-12, PF-FEN-01, PF-FEN-04, PF-PRO-06, PF-CLM-06, PF-RBK-01
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_binary_changes_no_outcome() -> Result<(), Failure> {
    let (options, gates) = gated_stack().await?;
    let stack = Stack::up(options).await?;
    let mut ledger_options = stack.ledger_options();
    (ledger_options.writers, ledger_options.tick) = (2, Duration::from_millis(10));
    let ledger = stack.start_ledger_with(&ledger_options).await?;
    let mut played: Vec<Played> = Vec::new();
    for cell in cells() {
        let mut tries = 0;
        while !played.last().is_some_and(|last| tries > 0 && last.hit()) {
            tries += 1;
            if tries > TRIES {
                return Err(format!("{cell}: the record had moved on {TRIES} times").into());
            }
            let scene = Scene::set(&stack, &gates).await?;
            let done = cell.play(&scene, &ledger.running).await;
            let done = done.map_err(|error| {
                cell::print_logs(&stack);
                format!("{cell}: {error}")
            })?;
            println!("{:>3} {done}", played.len() + 1);
            played.push(done);
        }
    }
    let runs: BTreeSet<_> = played.iter().map(|cell| cell.run_id).collect();
    let loose: Vec<_> = played
        .iter()
        .filter(|cell| cell.is_without_quorum())
        .map(|cell| cell.run_id)
        .collect();
    check_story(&stack, &runs, &loose).await?;
    let report = stack.judge(ledger).await?;
    cell::print_table(&played, &report);
    assert!(report.is_clean(), "{:?}", report.reasons);
    stack.down().await?;
    Ok(())
}

/// What is played, in order: undisturbed runs to compare with, the matrix, the moments of single binaries.
fn cells() -> Vec<Cell> {
    let at_once = Duration::ZERO;
    let undisturbed = [Moment::Publishing, Moment::Publishing, Moment::RollingBack];
    let undisturbed = undisturbed.map(|moment| Cell::new(None, moment, at_once));
    let matrix = EVERY_PHASE
        .into_iter()
        .flat_map(|moment| Program::ALL.map(|program| Cell::new(Some(program), moment, at_once)));
    let exact = EXACT.map(|(program, moment)| Cell::new(Some(program), moment, at_once));
    let disturbed: Vec<Cell> = matrix.chain(exact).collect();
    let late: Vec<Cell> = if std::env::var_os(FULL).is_some() {
        disturbed.iter().map(|cell| cell.away(PAUSE)).collect()
    } else {
        LATE.map(|(program, moment)| Cell::new(Some(program), moment, PAUSE))
            .to_vec()
    };
    let without_quorum =
        WITHOUT_QUORUM.map(|(program, moment)| Cell::new(Some(program), moment, at_once).without_quorum());
    let only = std::env::var(ONLY).unwrap_or_default();
    let all = undisturbed
        .into_iter()
        .chain(disturbed)
        .chain(late)
        .chain(without_quorum);
    all.filter(|cell| cell.to_string().contains(&only)).collect()
}

/// A stack whose candidates are reached by the controllers through gates. A group's addresses are fixed before its
/// servers are up, so the servers get their ports here.
async fn gated_stack() -> Result<(StackOptions, BTreeMap<String, Gate>), Failure> {
    let mut options = StackOptions::for_test("kill")
        .with_spec("pollInterval", json!("500ms"))
        .with_spec("plannedFailover", json!({ "drainTimeout": "20s" }));
    let mut gates = BTreeMap::new();
    for site in CANDIDATES {
        let [client, administrative] = free_ports()?;
        options.lab.ports.insert(format!("mysql-{site}"), client.port());
        options
            .lab
            .ports
            .insert(format!("mysql-{site}-admin"), administrative.port());
        let gate = Gate::open(administrative).await?;
        options.addresses.insert(site.to_owned(), (client, gate.address()));
        gates.insert(site.to_owned(), gate);
    }
    Ok((options, gates))
}

/// Two addresses that nobody listens on.
fn free_ports() -> Result<[SocketAddr; 2], Failure> {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let listeners = [TcpListener::bind(any)?, TcpListener::bind(any)?];
    let [client, administrative] = listeners.map(|listener| listener.local_addr());
    Ok([client?, administrative?])
}
