//! The numbers of a run by their place, and those of two runs in pairs.
//!
//! A place is made of names only, so that it means the same in every run; the position of a row does not count.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;

use crate::run::{Cell, Measured, Run, Table, Unit};

/// Where a number stands in a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The experiment.
    pub experiment: String,
    /// The id of the table.
    pub table: String,
    /// The labels of the row and of those that it is nested in, from the outermost; a second row of the same name is `name (2)`.
    pub row: String,
    /// The name of the column; a second one of the same name is `name (2)`.
    pub column: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.experiment, self.row, self.column)
    }
}

/// The measured numbers of a run, in its order.
pub(super) struct Cells<'a> {
    cells: Vec<(Place, Unit, &'a Measured)>,
}

/// A number that two runs hold.
pub(super) struct Pair<'a> {
    pub(super) place: Place,
    pub(super) unit: Unit,
    pub(super) a: &'a Measured,
    pub(super) b: &'a Measured,
}

impl<'a> Cells<'a> {
    /// Those of the experiments named in `only`, or of all.
    pub(super) fn of(run: &'a Run, only: Option<&[String]>) -> Self {
        let wanted = |name: &String| only.is_none_or(|only| only.contains(name));
        let mut cells = Vec::new();
        for experiment in run.experiments.iter().filter(|one| wanted(&one.name)) {
            for table in &experiment.tables {
                add(&experiment.name, table, &mut cells);
            }
        }
        Self { cells }
    }

    /// The numbers that both hold in the same unit, and the places that only one of them has, both in the order of the runs.
    pub(super) fn pairs(&self, other: &Self) -> (Vec<Pair<'a>>, Vec<Place>, Vec<Place>) {
        let mut theirs: BTreeMap<&Place, (Unit, &'a Measured)> = other
            .cells
            .iter()
            .map(|(place, unit, measured)| (place, (*unit, *measured)))
            .collect();
        let (mut pairs, mut only_here) = (Vec::new(), Vec::new());
        for (place, unit, measured) in &self.cells {
            match theirs.get(place) {
                Some((their_unit, their)) if their_unit == unit => {
                    pairs.push(Pair {
                        place: place.clone(),
                        unit: *unit,
                        a: measured,
                        b: their,
                    });
                    theirs.remove(place);
                }
                _ => only_here.push(place.clone()),
            }
        }
        let only_there = other
            .cells
            .iter()
            .filter(|(place, ..)| theirs.contains_key(place))
            .map(|(place, ..)| place.clone())
            .collect();
        (pairs, only_here, only_there)
    }
}

fn add<'a>(experiment: &str, table: &'a Table, cells: &mut Vec<(Place, Unit, &'a Measured)>) {
    let columns = numbered(table.columns.iter().map(|column| column.name.clone()));
    let mut path: Vec<(u8, &str)> = Vec::new();
    let rows = numbered(table.rows.iter().map(|row| {
        path.retain(|(depth, _)| *depth < row.depth);
        path.push((row.depth, &row.label));
        let labels: Vec<&str> = path.iter().map(|(_, label)| *label).collect();
        labels.join(" / ")
    }));
    for (row, label) in table.rows.iter().zip(rows) {
        for ((cell, column), name) in row.cells.iter().zip(&table.columns).zip(&columns) {
            match cell {
                Cell::Value(measured) => cells.push((
                    Place {
                        experiment: experiment.to_owned(),
                        table: table.id.clone(),
                        row: label.clone(),
                        column: name.clone(),
                    },
                    column.unit,
                    measured,
                )),
                Cell::Published { .. } | Cell::NotAvailable { .. } | Cell::Text { .. } => {}
            }
        }
    }
}

/// The names, a repeated one with its number.
fn numbered(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    names
        .map(|name| {
            let times = seen.entry(name.clone()).or_insert(0);
            *times += 1;
            match *times {
                1 => name,
                n => format!("{name} ({n})"),
            }
        })
        .collect()
}
