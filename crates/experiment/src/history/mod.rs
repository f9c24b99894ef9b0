//! Then and now: the rows of the five papers beside those of a run.
//!
//! A published number has a counterpart where an experiment shows both in one row; it is taken in the unit that compares two
//! machines decades apart: a share, instructions, cycles, else a time. What has none says why. Nothing is measured here.

mod counterparts;

use crate::published::{self, Paper};
use crate::run::{
    Cell, Column, Experiment, Measured, Row, RowKind, Run, Table, TrustKind, TrustLine, Unit,
};
use crate::shapes::plain_row;
use crate::words;

use counterparts::{Counterpart, counterpart};

/// A published number and its counterpart in the run.
struct Pair {
    label: String,
    unit: Unit,
    then: Cell,
    published: f64,
    now: Measured,
}

/// The rows of the five papers beside those of a run.
#[must_use]
pub fn history(run: &Run) -> Experiment {
    let mut tables = Vec::new();
    let (mut told, mut silent) = (0, 0);
    let mut most: Option<(f64, String)> = None;
    for paper in published::all() {
        let mut without = Vec::new();
        for table in &paper.tables {
            let (pairs, reason, changed) = match counterpart(&table.id) {
                Counterpart::Shown { by, changed } => {
                    let pairs = pairs(run, by);
                    (
                        pairs,
                        format!(
                            "the run holds no {by} with it; `tollgate experiment run {by}` measures it"
                        ),
                        changed,
                    )
                }
                Counterpart::None { why } => (Vec::new(), why.to_owned(), ""),
            };
            if pairs.is_empty() {
                silent += table.rows.len();
                without.push((table, reason));
                continue;
            }
            told += pairs.len();
            for pair in pairs.iter().filter(|pair| pair.unit == Unit::Percent) {
                let by = pair.now.value - pair.published;
                if most.as_ref().is_none_or(|(most, _)| by.abs() > most.abs()) {
                    let text = format!(
                        "{} ({} {}) takes {} % and took {} %",
                        pair.label,
                        paper.citation(),
                        table.place,
                        words::significant(pair.now.value),
                        words::significant(pair.published)
                    );
                    most = Some((by, text));
                }
            }
            tables.extend(side_by_side(paper, table, changed, &pairs));
        }
        if !without.is_empty() {
            tables.push(absent(paper, &without));
        }
    }
    let finding = most.map_or_else(
        || "The run holds no row that any of the papers has.".to_owned(),
        |(_, text)| {
            format!(
                "{} numbers of the papers have a counterpart in this run; what changed most: {text}.",
                words::whole(told as u64)
            )
        },
    );
    Experiment {
        name: "history".to_owned(),
        title: "Then and now: the five papers beside this run".to_owned(),
        paper: None,
        finding,
        command: "tollgate history --from RUN".to_owned(),
        tables,
        figures: Vec::new(),
        trust: vec![TrustLine {
            kind: TrustKind::Note,
            value: None,
            unit: Unit::None,
            holds: true,
            text: format!(
                "{} rows of the papers have none, each with the reason; times are compared only where a paper gives no share, and then \
                 say how much quicker machines became",
                words::whole(silent as u64)
            ),
        }],
    }
}

/// The published numbers that an experiment of the run shows, each with the measured ones of its row.
fn pairs(run: &Run, experiment: &str) -> Vec<Pair> {
    let Some(experiment) = run.experiments.iter().find(|one| one.name == experiment) else {
        return Vec::new();
    };
    let mut pairs = Vec::new();
    for table in &experiment.tables {
        // A ledger by size repeats the one that is compared.
        if table.id == "by-size" {
            continue;
        }
        for row in &table.rows {
            of_row(experiment, table, row, &mut pairs);
        }
    }
    pairs
}

/// How well a unit compares; the best one of a row is taken.
fn rank(unit: Unit) -> u8 {
    match unit {
        Unit::Percent => 0,
        Unit::Instructions | Unit::Cycles | Unit::Ratio | Unit::None | Unit::Count => 1,
        Unit::Nanoseconds
        | Unit::NanosecondsPerByte
        | Unit::BytesPerSecond
        | Unit::PerSecond
        | Unit::Bytes => 2,
    }
}

fn of_row(experiment: &Experiment, table: &Table, row: &Row, pairs: &mut Vec<Pair>) {
    let published = || {
        table
            .columns
            .iter()
            .zip(&row.cells)
            .filter(|(_, cell)| matches!(cell, Cell::Published { .. }))
    };
    let Some(best) = published().map(|(column, _)| rank(column.unit)).min() else {
        return;
    };
    for (column, then) in published().filter(|(column, _)| rank(column.unit) == best) {
        let Some(value) = then.number() else { continue };
        let measured = || {
            let cells = row.cells.iter().enumerate();
            cells.filter(|(at, _)| table.columns[*at].unit == column.unit)
        };
        let beside: Vec<(String, Measured)> = measured()
            .filter_map(|(at, cell)| {
                // A share stands to the right of the path that it is of.
                let name = match table.columns[at].name.as_str() {
                    "share" if at > 0 => &table.columns[at - 1].name,
                    name => name,
                };
                Some((format!("{}, {name}", row.label), cell.measured()?.clone()))
            })
            .collect();
        let beside = if beside.is_empty() {
            elsewhere(experiment, row, column)
        } else {
            beside
        };
        pairs.extend(beside.into_iter().map(|(label, now)| Pair {
            label,
            unit: column.unit,
            then: then.clone(),
            published: value,
            now,
        }));
    }
}

/// The row that a row of published numbers only is held against: that of blocking kernel sockets, in the same column.
fn elsewhere(experiment: &Experiment, row: &Row, column: &Column) -> Vec<(String, Measured)> {
    let only_published = row.cells.iter().all(|cell| !matches!(cell, Cell::Value(_)));
    let found = experiment.tables.iter().find_map(|table| {
        let at = table.columns.iter().position(|one| one == column)?;
        let row = table
            .rows
            .iter()
            .find(|row| row.label == "kernel-loopback, 2 cores, blocking")?;
        Some((row.label.clone(), row.cells.get(at)?.measured()?.clone()))
    });
    found
        .filter(|_| only_published)
        .map(|(label, now)| vec![(format!("{}, {}: {label}", row.label, column.name), now)])
        .unwrap_or_default()
}

/// One table for each unit.
fn side_by_side(
    paper: &Paper,
    table: &published::Table,
    changed: &str,
    pairs: &[Pair],
) -> Vec<Table> {
    let mut units: Vec<Unit> = Vec::new();
    for pair in pairs {
        if !units.contains(&pair.unit) {
            units.push(pair.unit);
        }
    }
    let id = table.id.replace('/', "-");
    let of_unit = |(at, unit): (usize, &Unit)| Table {
        id: if at == 0 {
            id.clone()
        } else {
            format!("{id}-{at}")
        },
        title: format!(
            "{}, {}: {}. {changed}",
            paper.citation(),
            table.place,
            table.title
        ),
        columns: vec![
            Column {
                name: paper.year.to_string(),
                unit: *unit,
            },
            Column {
                name: "now".to_owned(),
                unit: *unit,
            },
            Column {
                name: "now / then".to_owned(),
                unit: Unit::Ratio,
            },
        ],
        rows: pairs
            .iter()
            .filter(|pair| pair.unit == *unit)
            .map(|pair| {
                let ratio = if pair.published > 0.0 {
                    Cell::exact(pair.now.value / pair.published)
                } else {
                    Cell::text("")
                };
                plain_row(
                    &pair.label,
                    vec![pair.then.clone(), Cell::Value(pair.now.clone()), ratio],
                )
            })
            .collect(),
    };
    units.iter().enumerate().map(of_unit).collect()
}

/// The tables of a paper that have no counterpart, with their rows and the reason.
fn absent(paper: &Paper, without: &[(&published::Table, String)]) -> Table {
    let mut rows = Vec::new();
    for (table, reason) in without {
        let heading = format!("{}: {}", table.place, table.title);
        rows.push(Row {
            label: heading,
            depth: 0,
            kind: RowKind::Plain,
            layer: None,
            note: None,
            cells: vec![Cell::text("")],
        });
        rows.extend(table.rows.iter().map(|row| Row {
            label: row.label().to_owned(),
            depth: 1,
            kind: RowKind::Plain,
            layer: None,
            note: None,
            cells: vec![Cell::NotAvailable {
                reason: reason.clone(),
            }],
        }));
    }
    Table {
        id: format!("{}-without", paper.id),
        title: format!(
            "{}: what has no counterpart in this run, and why",
            paper.citation()
        ),
        columns: vec![Column {
            name: "now".to_owned(),
            unit: Unit::None,
        }],
        rows,
    }
}

#[cfg(test)]
mod tests;
