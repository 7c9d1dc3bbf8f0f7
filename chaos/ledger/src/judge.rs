//! The judgement: promises against the surviving history, without a socket or a clock.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::history::{Acknowledged, History, UnconfirmedKind};
use crate::report::{DamagedWrite, ErrorCount, Period, Presence, Report, ServerReport, SurvivorReport, WriterReport};
use crate::table::{SurvivingRow, SurvivingTable};
use crate::{LedgerError, Moment, ServerUuid, WriterNumber, outage, overlap};

/// The most samples of each kind of damage.
const SAMPLES: usize = 20;
/// The most periods in a report; an overlap makes thousands.
const PERIODS: usize = 100;
/// The most outages in a report.
const OUTAGES: usize = 1_000;

/// What became of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Intact,
    Gone,
    Stolen,
}

/// The first survivor's rows, by id and by key.
struct Surviving<'a> {
    by_id: HashMap<u64, &'a str>,
    keys: HashSet<&'a str>,
}

impl<'a> Surviving<'a> {
    fn new(rows: &'a [SurvivingRow]) -> Self {
        Self {
            by_id: rows.iter().map(|row| (row.id, row.key.as_str())).collect(),
            keys: rows.iter().map(|row| row.key.as_str()).collect(),
        }
    }

    /// A promise is kept when the id it named holds its key, and nowhere else.
    fn fate(&self, write: &Acknowledged) -> Fate {
        match self.by_id.get(&write.id) {
            Some(key) if *key == write.key.as_str() => Fate::Intact,
            Some(_) => Fate::Stolen,
            None => Fate::Gone,
        }
    }

    fn presence<'k>(&self, keys: impl Iterator<Item = &'k str>) -> Presence {
        let mut presence = Presence::default();
        for key in keys {
            if self.keys.contains(key) {
                presence.present += 1;
            } else {
                presence.absent += 1;
            }
        }
        presence
    }
}

/// Judges a history by the first survivor, and compares each other survivor with it.
///
/// # Errors
/// [`LedgerError::NothingToJudge`] without a survivor.
pub fn judge(mut history: History, survivors: &[SurvivingTable]) -> Result<Report, LedgerError> {
    let first = survivors.first().ok_or(LedgerError::NothingToJudge {
        missing: "no survivor was named",
    })?;
    let surviving = Surviving::new(&first.rows);
    history.acknowledged.sort_by_key(|write| (write.acked, write.sent));
    let fates: Vec<Fate> = history.acknowledged.iter().map(|write| surviving.fate(write)).collect();
    let judged = || history.acknowledged.iter().zip(fates.iter().copied());

    let overlaps = overlap::find(&history.acknowledged);
    let gaps = outage::gaps(&history.activities, &history.acknowledged);
    let (periods, period_count) = periods(&history.acknowledged);
    let (per_server, per_writer) = tally(&history, judged());
    let unconfirmed = |kind| {
        let writes = history.unconfirmed.iter().filter(move |write| write.kind == kind);
        surviving.presence(writes.map(|write| write.key.as_str()))
    };
    let mut report = Report {
        clean: false,
        reasons: Vec::new(),
        acknowledged: count(fates.len()),
        intact: sum(&fates, Fate::Intact),
        gone: sum(&fates, Fate::Gone),
        stolen: sum(&fates, Fate::Stolen),
        unknown: unconfirmed(UnconfirmedKind::Unknown),
        refused: unconfirmed(UnconfirmedKind::Refused),
        unrecorded: unrecorded(&history, &first.rows),
        // Folded, not summed: the sum of no floats is -0.0, and it would be printed so.
        overlap_ms: overlaps.iter().fold(0.0, |sum, overlap| sum + overlap.ms),
        overlaps,
        write_outage_ms: outage::longest(gaps.iter()).map_or(0.0, |outage| outage.ms),
        outages: noteworthy(&history, &gaps),
        per_server,
        per_writer,
        periods,
        period_count,
        errors: errors(&history),
        gone_samples: samples(&surviving, judged(), Fate::Gone),
        stolen_samples: samples(&surviving, judged(), Fate::Stolen),
        survivors: survivors.iter().map(|survivor| compare(&surviving, survivor)).collect(),
        gaps,
        names: history.servers,
    };
    report.reasons = reasons(&report);
    report.clean = report.reasons.is_empty();
    Ok(report)
}

/// Why a report is not clean.
fn reasons(report: &Report) -> Vec<String> {
    let mut reasons = Vec::new();
    if report.acknowledged == 0 {
        reasons.push("no write was acknowledged, so nothing was shown".to_owned());
    }
    if report.gone > 0 {
        reasons.push(format!("{} acknowledged writes are gone", report.gone));
    }
    if report.stolen > 0 {
        reasons.push(format!(
            "the ids of {} acknowledged writes were given to others",
            report.stolen
        ));
    }
    if !report.overlaps.is_empty() {
        reasons.push(format!(
            "two servers took writes at once for at least {:.3} ms",
            report.overlap_ms
        ));
    }
    for survivor in report.survivors.iter().filter(|survivor| !survivor.agrees()) {
        reasons.push(format!(
            "survivor {} holds another history than the first survivor",
            survivor.name
        ));
    }
    reasons
}

fn tally<'a>(
    history: &History,
    judged: impl Iterator<Item = (&'a Acknowledged, Fate)>,
) -> (Vec<ServerReport>, Vec<WriterReport>) {
    let mut servers: BTreeMap<&ServerUuid, ServerReport> = BTreeMap::new();
    let mut writers: BTreeMap<WriterNumber, WriterReport> = BTreeMap::new();
    for (write, fate) in judged {
        let server = servers.entry(&write.server).or_insert_with(|| ServerReport {
            server: write.server.clone(),
            name: history.servers.get(&write.server).cloned().unwrap_or_default(),
            writes: 0,
            first_ack: write.acked,
            last_ack: write.acked,
            min_id: write.id,
            max_id: write.id,
            intact: 0,
            gone: 0,
            stolen: 0,
        });
        let writer = writers.entry(write.writer).or_insert(WriterReport {
            writer: write.writer,
            acknowledged: 0,
            intact: 0,
            gone: 0,
            stolen: 0,
        });
        server.writes += 1;
        server.last_ack = server.last_ack.max(write.acked);
        server.min_id = server.min_id.min(write.id);
        server.max_id = server.max_id.max(write.id);
        writer.acknowledged += 1;
        let (of_server, of_writer) = match fate {
            Fate::Intact => (&mut server.intact, &mut writer.intact),
            Fate::Gone => (&mut server.gone, &mut writer.gone),
            Fate::Stolen => (&mut server.stolen, &mut writer.stolen),
        };
        *of_server += 1;
        *of_writer += 1;
    }
    let mut servers: Vec<_> = servers.into_values().collect();
    servers.sort_by_key(|server| server.first_ack);
    (servers, writers.into_values().collect())
}

fn periods(acknowledged: &[Acknowledged]) -> (Vec<Period>, u64) {
    let mut periods = Vec::new();
    let mut total = 0;
    let mut last_ack: Option<Moment> = None;
    for stretch in acknowledged.chunk_by(|one, next| one.server == next.server) {
        let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else {
            continue;
        };
        total += 1;
        if periods.len() < PERIODS {
            periods.push(Period {
                server: first.server.clone(),
                writes: count(stretch.len()),
                first_ack: first.acked,
                last_ack: last.acked,
                min_id: stretch.iter().map(|write| write.id).min().unwrap_or(first.id),
                max_id: stretch.iter().map(|write| write.id).max().unwrap_or(last.id),
                gap_before_ms: last_ack.map(|before| before.milliseconds_to(first.acked)),
            });
        }
        last_ack = Some(last.acked);
    }
    (periods, total)
}

/// The gaps longer than two ticks: a shorter one is within what the writers' own pace makes.
fn noteworthy(history: &History, gaps: &[outage::Outage]) -> Vec<outage::Outage> {
    let tick = history
        .activities
        .iter()
        .map(|activity| activity.tick)
        .max()
        .unwrap_or_default();
    let shortest = tick.as_secs_f64() * 2_000.0;
    let mut outages: Vec<_> = gaps.iter().filter(|gap| gap.ms > shortest).cloned().collect();
    outages.sort_by(|one, other| other.ms.total_cmp(&one.ms));
    outages.truncate(OUTAGES);
    outages.sort_by_key(|outage| outage.from);
    outages
}

fn errors(history: &History) -> Vec<ErrorCount> {
    let on_write = history
        .unconfirmed
        .iter()
        .map(|write| ("write", &write.code, &write.message));
    let on_connect = history
        .connect_failures
        .iter()
        .map(|failure| ("connect", &failure.code, &failure.message));
    let mut counts: BTreeMap<(&'static str, &str), ErrorCount> = BTreeMap::new();
    for (phase, code, message) in on_write.chain(on_connect) {
        let entry = counts.entry((phase, code)).or_insert_with(|| ErrorCount {
            code: code.clone(),
            phase,
            count: 0,
            sample: message.clone(),
        });
        entry.count += 1;
    }
    let mut errors: Vec<_> = counts.into_values().collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    errors
}

fn samples<'a>(
    surviving: &Surviving<'_>,
    judged: impl Iterator<Item = (&'a Acknowledged, Fate)>,
    wanted: Fate,
) -> Vec<DamagedWrite> {
    judged
        .filter(|(_, fate)| *fate == wanted)
        .take(SAMPLES)
        .map(|(write, _)| DamagedWrite {
            writer: write.writer,
            key: write.key.clone(),
            id: write.id,
            server: write.server.clone(),
            sent: write.sent,
            acked: write.acked,
            holder: surviving.by_id.get(&write.id).map(|key| (*key).to_owned()),
        })
        .collect()
}

fn unrecorded(history: &History, rows: &[SurvivingRow]) -> u64 {
    let known: HashSet<&str> = history
        .acknowledged
        .iter()
        .map(|write| write.key.as_str())
        .chain(history.unconfirmed.iter().map(|write| write.key.as_str()))
        .collect();
    let runs: HashSet<&str> = history
        .activities
        .iter()
        .map(|activity| activity.run_id.as_str())
        .collect();
    let of_these_runs = |key: &str| key.split('-').next().is_some_and(|run| runs.contains(run));
    count(
        rows.iter()
            .filter(|row| of_these_runs(&row.key) && !known.contains(row.key.as_str()))
            .count(),
    )
}

fn compare(first: &Surviving<'_>, survivor: &SurvivingTable) -> SurvivorReport {
    let (mut extra, mut different) = (0, 0);
    for row in &survivor.rows {
        match first.by_id.get(&row.id) {
            None => extra += 1,
            Some(key) if *key != row.key => different += 1,
            Some(_) => {}
        }
    }
    let rows = count(survivor.rows.len());
    let missing = (count(first.by_id.len()) + extra).saturating_sub(rows);
    SurvivorReport {
        name: survivor.name.clone(),
        rows,
        missing,
        extra,
        different,
    }
}

fn sum(fates: &[Fate], wanted: Fate) -> u64 {
    count(fates.iter().filter(|fate| **fate == wanted).count())
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
