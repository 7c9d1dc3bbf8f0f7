//! Columns as kubectl prints them: left-aligned, three blanks apart, nothing after the last.

/// Blanks between two columns.
const GAP: usize = 3;

/// Prints rows so that each column is as wide as its widest cell.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..count)
        .map(|column| width(column).unwrap_or_default() + GAP)
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line: String = cells.collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A table with its heading.
pub(crate) fn table(heading: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let heading = heading.iter().map(|&name| name.to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
    columns(&all)
}

/// `Name: value` lines with the values under one another.
pub(crate) fn fields(indent: usize, rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let rows: Vec<(String, String)> = rows
        .into_iter()
        .map(|(name, value)| (format!("{name}:"), value))
        .collect();
    let width = rows
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or_default()
        + 2;
    let mut text = String::new();
    for (name, value) in rows {
        let line = format!("{:indent$}{name:<width$}{value}", "");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
