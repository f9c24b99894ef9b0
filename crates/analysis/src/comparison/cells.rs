//! The numbers of a run by their place, and those of two sides in pairs.
//!
//! A place is made of names only, so that it means the same in every run; the position of a row does not count.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;
use tollgate_run::{Cell, Cores, Layer, Measured, PathId, RowKind, Run, Table, Unit, format};

use super::facts;

/// Key of a number in a run: experiment, table, row and column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CellKey {
    /// The experiment.
    pub experiment: String,
    /// The id of the table.
    pub table: String,
    /// The labels of the row and of those that it is nested in, from the outermost; a second row of the same name is `name (2)`.
    pub row: String,
    /// The name of the column; a second one of the same name is `name (2)`.
    pub column: String,
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.experiment, self.row, self.column)
    }
}

/// A measured number of a run, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Number<'a> {
    /// The key of its cell.
    pub place: CellKey,
    /// Its unit.
    pub unit: Unit,
    /// The kind of its row.
    pub kind: RowKind,
    /// The layer of its row, when that is a span.
    pub layer: Option<Layer>,
    /// The processors of its two ends, when its place, its table's title or the run's command names them.
    pub cores: Option<Cores>,
    /// The number with its spread.
    pub measured: &'a Measured,
}

impl Number<'_> {
    /// The path that it was measured on, as far as its place names one, and one only: in the row, the column or the table's id.
    #[must_use]
    pub fn path(&self) -> Option<PathId> {
        let CellKey {
            row, column, table, ..
        } = &self.place;
        [row, column, table].into_iter().find_map(|name| {
            let mut named = PathId::ALL
                .iter()
                .copied()
                .filter(|path| name.contains(path.name()));
            named.next().filter(|_| named.next().is_none())
        })
    }

    /// The size of the message or write in bytes, where the column is one of sizes.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        format::parse_size(&self.place.column).map(|size| size as u64)
    }
}

/// The measured numbers of a run, in its order.
#[must_use]
pub fn numbers(run: &Run) -> Vec<Number<'_>> {
    numbers_of(run, None)
}

/// A number that both sides hold.
pub(super) struct Pair<'a> {
    pub(super) place: CellKey,
    /// The places where the same fact stands again.
    pub(super) also: Vec<CellKey>,
    pub(super) unit: Unit,
    pub(super) kind: RowKind,
    /// None when its place does not say.
    pub(super) cores: Option<Cores>,
    /// None when its place names none, or several.
    pub(super) path: Option<PathId>,
    /// The numbers of the first side, one per run; at least one run has one.
    pub(super) a: Vec<Option<&'a Measured>>,
    /// The numbers of the second side, one per run.
    pub(super) b: Vec<Option<&'a Measured>>,
}

impl<'a> Pair<'a> {
    /// Yields the numbers of all runs, those of the first side first.
    pub(super) fn all(&self) -> impl Iterator<Item = Option<&'a Measured>> + '_ {
        self.a.iter().chain(&self.b).copied()
    }
}

/// The numbers of the runs of both sides.
pub(super) struct Paired<'a> {
    /// The facts that both sides have, each once, in the order of the first run.
    pub(super) pairs: Vec<Pair<'a>>,
    /// The cells that only runs of the first side have.
    pub(super) only_a: Vec<CellKey>,
    /// The cells that only runs of the second side have.
    pub(super) only_b: Vec<CellKey>,
}

/// The numbers of a run, of the experiments named in `only` or of all.
fn numbers_of<'a>(run: &'a Run, only: Option<&[String]>) -> Vec<Number<'a>> {
    let wanted = |name: &String| only.is_none_or(|only| only.contains(name));
    let mut numbers = Vec::new();
    for experiment in run.experiments.iter().filter(|one| wanted(&one.name)) {
        for table in &experiment.tables {
            let before = numbers.len();
            add(&experiment.name, table, &mut numbers);
            for number in &mut numbers[before..] {
                number.cores = number.cores.or_else(|| requested_cores(&run.command));
            }
        }
    }
    numbers
}

/// The numbers of the runs of one side.
struct SideCells<'a> {
    /// Each place once, in the order of the runs.
    numbers: Vec<Number<'a>>,
    /// The numbers in each cell, one per run, in the unit of the first run that has the cell.
    by_key: HashMap<CellKey, (Unit, Vec<Option<&'a Measured>>)>,
}

impl<'a> SideCells<'a> {
    fn of(runs: &[&'a Run], only: Option<&[String]>) -> Self {
        let mut held = Self {
            numbers: Vec::new(),
            by_key: HashMap::new(),
        };
        for (at, run) in runs.iter().enumerate() {
            for number in numbers_of(run, only) {
                let (measured, new) = (number.measured, !held.by_key.contains_key(&number.place));
                let nothing = || (number.unit, vec![None; runs.len()]);
                let (unit, values) = held
                    .by_key
                    .entry(number.place.clone())
                    .or_insert_with(nothing);
                if *unit == number.unit {
                    values[at] = Some(measured);
                }
                if new {
                    held.numbers.push(number);
                }
            }
        }
        held
    }

    fn at(&self, number: &Number<'_>) -> Option<&Vec<Option<&'a Measured>>> {
        let (unit, values) = self.by_key.get(&number.place)?;
        (*unit == number.unit).then_some(values)
    }
}

/// The numbers that both sides hold in the same unit, and the places that only one of them has.
pub(super) fn pairs<'a>(a: &[&'a Run], b: &[&'a Run], only: Option<&[String]>) -> Paired<'a> {
    let (first, second) = (SideCells::of(a, only), SideCells::of(b, only));
    let (mut pairs, mut only_a) = (Vec::new(), Vec::new());
    for one in &first.numbers {
        match (first.at(one), second.at(one)) {
            (Some(a), Some(b)) => pairs.push(Pair {
                place: one.place.clone(),
                also: Vec::new(),
                unit: one.unit,
                kind: one.kind,
                cores: one.cores,
                path: one.path(),
                a: a.clone(),
                b: b.clone(),
            }),
            _ => only_a.push(one.place.clone()),
        }
    }
    let alone = |one: &&Number<'_>| first.at(one).is_none();
    let only_b = second.numbers.iter().filter(alone);
    Paired {
        only_b: only_b.map(|one| one.place.clone()).collect(),
        only_a,
        pairs: facts::fold(pairs),
    }
}

fn add<'a>(experiment: &str, table: &'a Table, cells: &mut Vec<Number<'a>>) {
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
                Cell::Value(measured) => cells.push(Number {
                    place: CellKey {
                        experiment: experiment.to_owned(),
                        table: table.id.clone(),
                        row: label.clone(),
                        column: name.clone(),
                    },
                    unit: column.unit,
                    kind: row.kind,
                    layer: row.layer,
                    cores: cores([&label, name, &table.title]),
                    measured,
                }),
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

/// The processors that names tell of: by their number, or by a path that has but one way to run. None when they tell of none or of both.
fn cores(names: [&str; 3]) -> Option<Cores> {
    const ONE: [&str; 5] = [
        "1 core,",
        "one core",
        "one-core",
        "stack-memory",
        "peer-smoltcp",
    ];
    const TWO: [&str; 4] = ["2 cores", "two cores", "two-core", "bare-shm"];
    let told = |words: &[&str]| {
        let mut names = names.iter();
        names.any(|name| words.iter().any(|word| name.contains(word)))
    };
    match (told(&ONE), told(&TWO)) {
        (true, false) => Some(Cores::One),
        (false, true) => Some(Cores::Two),
        (true, true) | (false, false) => None,
    }
}

/// The processors that a command line asks for, when it asks for one number of them.
fn requested_cores(command: &str) -> Option<Cores> {
    let mut words = command.split_whitespace();
    let value = words.by_ref().find_map(|word| match word {
        "--cores" => Some(None),
        _ => word.strip_prefix("--cores=").map(Some),
    })?;
    match value.or_else(|| words.next())? {
        "1" => Some(Cores::One),
        "2" => Some(Cores::Two),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_those_of_names_and_of_the_command() {
        assert_eq!(
            cores(["kernel-loopback, one-core blocking", "4 B", ""]),
            Some(Cores::One)
        );
        assert_eq!(cores(["bare-shm", "4 B", ""]), Some(Cores::Two));
        assert_eq!(cores(["kernel-loopback", "4 B", ""]), None);
        assert_eq!(
            requested_cores("tollgate rr --cores 1 --for 5s"),
            Some(Cores::One)
        );
        assert_eq!(requested_cores("tollgate rr --cores=2"), Some(Cores::Two));
        assert_eq!(requested_cores("tollgate rr --cores 1,2"), None);
        assert_eq!(requested_cores("tollgate rr"), None);
    }
}
