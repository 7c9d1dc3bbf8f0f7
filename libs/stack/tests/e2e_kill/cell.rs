//! One cell: a binary, a moment, and how long the binary is away.

use std::fmt;
use std::time::{Duration, Instant};

use bloodraven_stack::ledger_report::{Moment as Instance, Report, Running};
use bloodraven_stack::{Program, Stack};
use bloodraven_types::{Outcome, Phase, RunId};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::moment::Moment;
use crate::scene::{Failure, Scene, failure, lose_quorum, regain_quorum};

/// How long a run may take.
const END_BUDGET: Duration = Duration::from_secs(60);
/// How long the application may take to be heard again after the run.
const WRITES_BUDGET: Duration = Duration::from_secs(20);
/// Log lines that are shown when a cell fails.
const SHOWN_LINES: usize = 150;

/// A binary, a moment, and how long the binary is away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    program: Option<Program>,
    moment: Moment,
    pause: Duration,
    /// Whether two of the three servers of the bus are gone during the run: then the stream takes nothing, and everything
    /// that is said is repeated.
    without_quorum: bool,
}

/// What became of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    cell: Cell,
    /// The run.
    pub(crate) run_id: RunId,
    outcome: Outcome,
    /// The record's phase when the binary was dead.
    phase: Option<Phase>,
    /// From the death to the end of the run.
    to_end: Duration,
    /// How long the binary took to be ready once it was started.
    start: Duration,
    from: Instance,
    to: Instance,
}

impl Cell {
    /// The binary is away for that long, or, without a binary, the run is left alone.
    pub(crate) const fn new(program: Option<Program>, moment: Moment, pause: Duration) -> Self {
        Self {
            program,
            moment,
            pause,
            without_quorum: false,
        }
    }

    /// The same while the stream takes nothing.
    pub(crate) const fn without_quorum(self) -> Self {
        Self {
            without_quorum: true,
            ..self
        }
    }

    /// The same with another pause.
    pub(crate) const fn away(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Plays the cell and checks how it ended.
    pub(crate) async fn play(self, scene: &Scene<'_>, ledger: &Running) -> Result<Played, Failure> {
        let stack = scene.stack;
        if self.without_quorum {
            lose_quorum(stack).await?;
        }
        let from = ledger.now();
        let (asked, hold) = self.moment.reach(scene).await?;
        let dead = Instant::now();
        let mut phase = None;
        if let Some(program) = self.program {
            kill_at_once(stack, program).await?;
            phase = stack.record().await?.run().map(|run| run.phase);
            self.check_phase(phase)?;
        }
        hold.release(stack).await?;
        if self.moment == Moment::Asking {
            self.moment.ask(scene).await?;
        }
        let (start, end) = tokio::join!(self.start(stack), stack.wait_for_end(&asked, END_BUDGET));
        let (start, group, to_end) = (start?, end?, dead.elapsed());
        let run = asked.run(&group).ok_or("there is no run")?;
        scene.check_end(run, self.moment.outcome()).await?;
        let outcome = run.result.as_ref().map(|result| result.outcome).ok_or("no result")?;
        await_writes(ledger).await?;
        if self.without_quorum {
            regain_quorum(stack).await?;
        }
        Ok(Played {
            cell: self,
            run_id: run.run_id,
            outcome,
            phase,
            to_end,
            start,
            from,
            to: ledger.now(),
        })
    }

    /// The kill has to fall into the phase. Nothing holds `Publishing`, so there the record may have moved on.
    fn check_phase(self, phase: Option<Phase>) -> Result<(), Failure> {
        let wanted = self.moment.phase();
        let moved_on = wanted == Some(Phase::Publishing) && phase == Some(Phase::Succeeded);
        if wanted.is_none() || phase == wanted || moved_on {
            return Ok(());
        }
        Err(failure(format!("the record was in {phase:?} when the binary was dead")))
    }

    /// Starts the binary again; says how long that took.
    async fn start(self, stack: &Stack) -> Result<Duration, Failure> {
        let Some(program) = self.program else {
            return Ok(Duration::ZERO);
        };
        tokio::time::sleep(self.pause).await;
        let started = Instant::now();
        stack.start(program).await?;
        Ok(started.elapsed())
    }
}

impl Played {
    /// Whether the kill fell into its moment. Only the binary that writes the record must be caught in `Publishing`:
    /// for the others the moments around it are the same.
    pub(crate) fn hit(&self) -> bool {
        let caught = self.phase == self.cell.moment.phase();
        caught || self.cell.moment != Moment::Publishing || self.cell.program != Some(Program::StatusWriter)
    }

    /// Whether the stream took nothing during the run.
    pub(crate) const fn is_without_quorum(&self) -> bool {
        self.cell.without_quorum
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.program.map_or("nobody", Program::name);
        let program = program.trim_start_matches("bloodraven-");
        write!(formatter, "{program:<18} {:<14}", self.moment.to_string())?;
        if self.pause.is_zero() {
            write!(formatter, "at once")?;
        } else {
            write!(formatter, "{:>5.1?}  ", self.pause)?;
        }
        write!(formatter, " {:<9}", if self.without_quorum { "no quorum" } else { "" })
    }
}

impl fmt::Display for Played {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.phase.map_or_else(|| "-".to_owned(), |phase| phase.to_string());
        write!(
            formatter,
            "{} {phase:<14} {:<10} start {:>5} ms, end after {:>5} ms",
            self.cell,
            self.outcome.to_string(),
            self.start.as_millis(),
            self.to_end.as_millis(),
        )
    }
}

/// The signal first: everything else may take its time.
async fn kill_at_once(stack: &Stack, program: Program) -> Result<(), Failure> {
    for pid in stack.pids(program) {
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?;
    }
    Ok(stack.kill(program).await?)
}

/// Waits until the application is told of a write again.
async fn await_writes(ledger: &Running) -> Result<(), Failure> {
    let (before, started) = (ledger.acknowledged(), Instant::now());
    while ledger.acknowledged() == before {
        if started.elapsed() > WRITES_BUDGET {
            return Err(failure(format!(
                "no write was acknowledged for {WRITES_BUDGET:?} after the run"
            )));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// What each kill cost.
pub(crate) fn print_table(played: &[Played], report: &Report) {
    println!(
        "\n    binary             moment        back    bus       phase          outcome      start ms  end ms  outage ms"
    );
    for cell in played {
        let outage = report
            .outage_between(cell.from, cell.to)
            .map_or(0.0, |outage| outage.ms);
        let phase = cell.phase.map_or_else(|| "-".to_owned(), |phase| phase.to_string());
        println!(
            "    {} {phase:<14} {:<12} {:>8} {:>7} {outage:>10.0}",
            cell.cell,
            cell.outcome.to_string(),
            cell.start.as_millis(),
            cell.to_end.as_millis(),
        );
    }
    println!("\n{report}");
}

/// The latest lines of every binary, in the order of time.
pub(crate) fn print_logs(stack: &Stack) {
    let mut lines: Vec<_> = Program::ALL.iter().flat_map(|program| stack.logs(*program)).collect();
    lines.sort_by(|one, other| one.time.cmp(&other.time));
    let first = lines.len().saturating_sub(SHOWN_LINES);
    for line in lines.iter().skip(first) {
        println!("{line}");
    }
}
