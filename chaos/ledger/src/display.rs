//! The report as a table for people.

use std::fmt;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, LineStyle, Table};

use crate::outage;
use crate::report::Report;
use crate::{DamagedWrite, ServerUuid};

/// The most rows of a table that has no natural end.
const ROWS: usize = 12;
/// The most samples of damage in the table; the JSON has more.
const SAMPLES: usize = 5;

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_servers(formatter)?;
        self.write_periods(formatter)?;
        self.write_fates(formatter)?;
        self.write_times(formatter)?;
        self.write_errors(formatter)?;
        self.write_survivors(formatter)?;
        self.write_samples(formatter, "GONE", &self.gone_samples)?;
        self.write_samples(formatter, "STOLEN", &self.stolen_samples)?;
        if self.clean {
            return write!(formatter, "verdict: clean");
        }
        write!(formatter, "verdict: NOT CLEAN: {}", self.reasons.join("; "))
    }
}

impl Report {
    fn write_servers(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table(
            &[
                "server",
                "name",
                "writes",
                "first ack",
                "last ack",
                "min id",
                "max id",
                "intact",
                "gone",
                "stolen",
            ],
            2,
        );
        for server in &self.per_server {
            table.add_row([
                server.server.to_string(),
                server.name.clone(),
                server.writes.to_string(),
                server.first_ack.time_of_day(),
                server.last_ack.time_of_day(),
                server.min_id.to_string(),
                server.max_id.to_string(),
                server.intact.to_string(),
                server.gone.to_string(),
                server.stolen.to_string(),
            ]);
        }
        writeln!(formatter, "{table}\n")
    }

    fn write_periods(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table(
            &[
                "served by",
                "writes",
                "first ack",
                "last ack",
                "min id",
                "max id",
                "gap before, ms",
            ],
            1,
        );
        for period in self.periods.iter().take(ROWS) {
            table.add_row([
                self.name(Some(&period.server)),
                period.writes.to_string(),
                period.first_ack.time_of_day(),
                period.last_ack.time_of_day(),
                period.min_id.to_string(),
                period.max_id.to_string(),
                period.gap_before_ms.map_or_else(String::new, |gap| format!("{gap:.3}")),
            ]);
        }
        writeln!(formatter, "{table}")?;
        let shown = u64::try_from(self.periods.len().min(ROWS)).unwrap_or(u64::MAX);
        if self.period_count > shown {
            writeln!(formatter, "  … and {} more", self.period_count - shown)?;
        }
        writeln!(formatter)
    }

    fn write_fates(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table(&["writer", "acknowledged", "intact", "gone", "stolen"], 1);
        let writers = self.per_writer.iter();
        for writer in writers {
            table.add_row([
                writer.writer.0.to_string(),
                writer.acknowledged.to_string(),
                writer.intact.to_string(),
                writer.gone.to_string(),
                writer.stolen.to_string(),
            ]);
        }
        let totals = [self.acknowledged, self.intact, self.gone, self.stolen].map(|total| total.to_string());
        table.add_row(std::iter::once("all".to_owned()).chain(totals));
        writeln!(formatter, "{table}\n")?;
        writeln!(
            formatter,
            "unknown outcome: {} present, {} absent",
            self.unknown.present, self.unknown.absent
        )?;
        writeln!(
            formatter,
            "refused: {} present, {} absent",
            self.refused.present, self.refused.absent
        )?;
        writeln!(formatter, "present but not recorded: {}", self.unrecorded)
    }

    fn write_times(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "overlap: {:.3} ms", self.overlap_ms)?;
        for overlap in self.overlaps.iter().take(ROWS) {
            let servers: Vec<_> = overlap.servers.iter().map(|server| self.name(Some(server))).collect();
            let (start, end) = (overlap.start.time_of_day(), overlap.end.time_of_day());
            writeln!(
                formatter,
                "  {start} to {end}: {:.3} ms, {}",
                overlap.ms,
                servers.join(" and ")
            )?;
        }
        if self.overlaps.len() > ROWS {
            writeln!(formatter, "  … and {} more", self.overlaps.len() - ROWS)?;
        }
        writeln!(formatter, "write outage: {:.3} ms", self.write_outage_ms)?;
        if let Some(longest) = outage::longest(self.gaps.iter()) {
            let end = if longest.ended { "" } else { ", not ended" };
            writeln!(
                formatter,
                "  {} to {}: {} to {}{end}",
                longest.from.time_of_day(),
                longest.to.time_of_day(),
                self.name(longest.before.as_ref()),
                self.name(longest.after.as_ref()),
            )?;
        }
        writeln!(formatter)
    }

    fn write_errors(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.errors.is_empty() {
            return Ok(());
        }
        let mut table = table(&["error", "on", "count", "first text"], 2);
        if let Some(column) = table.column_mut(3) {
            column.set_cell_alignment(CellAlignment::Left);
        }
        for error in self.errors.iter().take(ROWS) {
            let text: String = error.sample.chars().take(90).collect();
            table.add_row([
                error.code.clone(),
                error.phase.to_owned(),
                error.count.to_string(),
                text,
            ]);
        }
        writeln!(formatter, "{table}\n")
    }

    fn write_survivors(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table(&["survivor", "rows", "missing", "extra", "different"], 1);
        for survivor in &self.survivors {
            let counts = [survivor.rows, survivor.missing, survivor.extra, survivor.different];
            table.add_row(std::iter::once(survivor.name.clone()).chain(counts.map(|count| count.to_string())));
        }
        writeln!(formatter, "{table}\n")
    }

    fn write_samples(&self, formatter: &mut fmt::Formatter<'_>, kind: &str, samples: &[DamagedWrite]) -> fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        let mut table = table(&[kind, "key", "acknowledged by", "acked", "now held by"], 5);
        for write in samples.iter().take(SAMPLES) {
            table.add_row([
                format!("id {}", write.id),
                write.key.to_string(),
                self.name(Some(&write.server)),
                write.acked.time_of_day(),
                write.holder.clone().unwrap_or_default(),
            ]);
        }
        writeln!(formatter, "{table}\n")
    }

    /// A server's readable name with enough of its uuid to tell two on one host apart.
    fn name(&self, server: Option<&ServerUuid>) -> String {
        let Some(server) = server else {
            return "nobody".to_owned();
        };
        let short: String = server.as_str().chars().take(8).collect();
        match self.names.get(server) {
            Some(name) => format!("{name} ({short})"),
            None => short,
        }
    }
}

/// A table whose columns from `numbers_from` on are numbers.
fn table(header: &[&str], numbers_from: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_header(header.iter().copied());
    for column in table.column_iter_mut().skip(numbers_from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
