//! What a demonstration came to, as it is written to a file, and what it is worth.

use anyhow::bail;
use bloodraven_stack::ledger_report::Report;
use serde::Serialize;

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    /// The runs in order.
    pub(crate) runs: Vec<RunOutcome>,
    /// The verdict on the writes.
    pub(crate) ledger: LedgerOutcome,
    /// Why the ledger is not clean.
    #[serde(skip)]
    pub(crate) reasons: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunOutcome {
    /// Its id.
    pub(crate) run_id: String,
    /// Where the role came from.
    pub(crate) source: String,
    /// Where it went.
    pub(crate) target: String,
    /// What the group was left in.
    pub(crate) outcome: String,
    /// Why; absent for `Succeeded`.
    pub(crate) reason: Option<String>,
    /// When each phase began.
    pub(crate) phases: Vec<PhaseOutcome>,
    /// The longest time without an acknowledgement around the run, in milliseconds.
    pub(crate) write_outage_ms: f64,
}

/// When a phase began.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PhaseOutcome {
    /// The phase.
    pub(crate) phase: String,
    /// RFC 3339 with milliseconds.
    pub(crate) at: String,
}

/// The verdict on the writes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LedgerOutcome {
    /// How many writes were acknowledged.
    pub(crate) acknowledged: u64,
    /// How many of those are as they were promised.
    pub(crate) intact: u64,
    /// How many are missing.
    pub(crate) gone: u64,
    /// How many ids hold another write.
    pub(crate) stolen: u64,
    /// How long two servers acknowledged at once, in milliseconds.
    pub(crate) overlap_ms: f64,
}

impl From<&Report> for LedgerOutcome {
    fn from(report: &Report) -> Self {
        Self {
            acknowledged: report.acknowledged,
            intact: report.intact,
            gone: report.gone,
            stolen: report.stolen,
            overlap_ms: report.overlap_ms,
        }
    }
}

impl Outcome {
    /// An error unless every run succeeded and every acknowledged write is where it was promised.
    pub(crate) fn verdict(&self) -> anyhow::Result<()> {
        let failed: Vec<&str> = self
            .runs
            .iter()
            .filter(|run| run.outcome != "Succeeded")
            .map(|run| run.run_id.as_str())
            .collect();
        if !failed.is_empty() {
            bail!(
                "{} of {} runs did not succeed: {}",
                failed.len(),
                self.runs.len(),
                failed.join(", ")
            );
        }
        if !self.reasons.is_empty() {
            bail!("the ledger is not clean: {}", self.reasons.join("; "));
        }
        Ok(())
    }

    /// Median, 90th percentile and longest write outage, in milliseconds.
    pub(crate) fn outages(&self) -> Option<(f64, f64, f64)> {
        let mut outages: Vec<f64> = self.runs.iter().map(|run| run.write_outage_ms).collect();
        outages.sort_by(f64::total_cmp);
        Some((percentile(&outages, 50)?, percentile(&outages, 90)?, *outages.last()?))
    }
}

/// The smallest value that so many percent of the values do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(outcome: &str, write_outage_ms: f64) -> RunOutcome {
        RunOutcome {
            run_id: "6f1c2a4e-4b7d-4a1f-9a0e-2d5b8c3f7e10".to_owned(),
            source: "iad".to_owned(),
            target: "pdx".to_owned(),
            outcome: outcome.to_owned(),
            reason: None,
            phases: vec![PhaseOutcome {
                phase: "Admitting".to_owned(),
                at: "2026-04-20T14:32:00.123Z".to_owned(),
            }],
            write_outage_ms,
        }
    }

    fn outcome(runs: Vec<RunOutcome>, reasons: Vec<String>) -> Outcome {
        let ledger = LedgerOutcome {
            acknowledged: 2000,
            intact: 2000,
            gone: 0,
            stolen: 0,
            overlap_ms: 0.0,
        };
        Outcome { runs, ledger, reasons }
    }

    /// The file has exactly the keys that its readers expect. spec: X-PERF-01
    #[test]
    fn the_file_has_its_keys() {
        let written = serde_json::to_value(outcome(vec![run("Succeeded", 12.5)], Vec::new())).unwrap();
        let expected = serde_json::json!({
            "runs": [{
                "run_id": "6f1c2a4e-4b7d-4a1f-9a0e-2d5b8c3f7e10", "source": "iad", "target": "pdx",
                "outcome": "Succeeded", "reason": null,
                "phases": [{ "phase": "Admitting", "at": "2026-04-20T14:32:00.123Z" }],
                "write_outage_ms": 12.5,
            }],
            "ledger": { "acknowledged": 2000, "intact": 2000, "gone": 0, "stolen": 0, "overlap_ms": 0.0 },
        });
        assert_eq!(written, expected);
    }

    /// Only runs that all succeeded with a clean ledger are a success.
    #[test]
    fn the_verdict_needs_both() {
        assert!(outcome(vec![run("Succeeded", 1.0)], Vec::new()).verdict().is_ok());
        assert!(outcome(vec![run("RolledBack", 1.0)], Vec::new()).verdict().is_err());
        assert!(
            outcome(vec![run("Succeeded", 1.0)], vec!["1 GONE".to_owned()])
                .verdict()
                .is_err()
        );
    }

    /// Percentiles are values that were measured, whatever their number.
    #[test]
    fn percentiles_are_measured_values() {
        let twenty = (1..=20)
            .rev()
            .map(|number| run("Succeeded", f64::from(number)))
            .collect();
        assert_eq!(outcome(twenty, Vec::new()).outages(), Some((10.0, 18.0, 20.0)));
        assert_eq!(
            outcome(vec![run("Succeeded", 7.0)], Vec::new()).outages(),
            Some((7.0, 7.0, 7.0))
        );
        assert_eq!(outcome(Vec::new(), Vec::new()).outages(), None);
    }
}
