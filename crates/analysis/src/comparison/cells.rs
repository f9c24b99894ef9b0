//! The numbers of a run by their place, and those of two runs in pairs.
//!
//! A place is made of names only, so that it means the same in every run; the position of a row does not count.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;
use tollgate_run::{Cell, Cores, Layer, Measured, PathId, RowKind, Run, Table, Unit, format};

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

/// A measured number of a run, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Number<'a> {
    /// Where it stands.
    pub place: Place,
    /// Its unit.
    pub unit: Unit,
    /// What its row stands for.
    pub kind: RowKind,
    /// The layer of its row, when that is a span.
    pub layer: Option<Layer>,
    /// The processors of its two ends, when its place or its table's title names them.
    pub cores: Option<Cores>,
    /// The number with its spread.
    pub measured: &'a Measured,
}

impl Number<'_> {
    /// The path that it was measured on, as far as its place names one, and one only: in the row, the column or the table's id.
    #[must_use]
    pub fn path(&self) -> Option<PathId> {
        let Place {
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
    Cells::of(run, None).cells
}

/// The measured numbers of a run, in its order.
pub(super) struct Cells<'a> {
    cells: Vec<Number<'a>>,
}

/// A number that two runs hold.
pub(super) struct Pair<'a> {
    pub(super) place: Place,
    pub(super) unit: Unit,
    pub(super) kind: RowKind,
    /// None when its place does not say.
    pub(super) cores: Option<Cores>,
    pub(super) a: &'a Measured,
    pub(super) b: &'a Measured,
    /// It is a rate, and the same number stands in its experiment and column as a time, with an interval in both runs.
    pub(super) stands_as_time: bool,
}

/// How far the product of a rate and a time may be off, as a share, for them to be one number: what is lost by computing.
const ONE_NUMBER: f64 = 1e-9;
/// The same where a row has one name in two tables: of an even number of slices the median rate is not that of the median time.
const ONE_ROW: f64 = 0.1;

impl Pair<'_> {
    const fn is_rate(&self) -> bool {
        matches!(self.unit, Unit::BytesPerSecond | Unit::PerSecond)
    }

    const fn is_time(&self) -> bool {
        matches!(self.unit, Unit::Nanoseconds | Unit::NanosecondsPerByte)
    }

    /// Whether this rate is that time turned round: of one thing, or of as many bytes as the column says.
    fn is_turned_round(&self, time: &Self) -> bool {
        let second = 1e9;
        let bytes = format::parse_size(&self.place.column);
        let off = if self.place.row == time.place.row {
            ONE_ROW
        } else {
            ONE_NUMBER
        };
        [(self.a, time.a), (self.b, time.b)]
            .iter()
            .all(|(rate, time)| {
                let product = rate.value * time.value;
                let is = |wanted: f64| (product / wanted - 1.0).abs() < off;
                is(second) || bytes.is_some_and(|bytes| is(second * bytes))
            })
    }
}

/// Says of every rate whether it stands as a time, too.
fn find_rates_that_are_times(pairs: &mut [Pair<'_>]) {
    let mut times: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    let known = |pair: &Pair<'_>| pair.is_time() && pair.a.ci.and(pair.b.ci).is_some();
    for (at, pair) in pairs.iter().enumerate().filter(|(_, pair)| known(pair)) {
        let place = (pair.place.experiment.as_str(), pair.place.column.as_str());
        times.entry(place).or_default().push(at);
    }
    let stands = |rate: &Pair<'_>| {
        let place = (rate.place.experiment.as_str(), rate.place.column.as_str());
        let mut beside = times.get(&place).into_iter().flatten();
        rate.is_rate() && beside.any(|&time| rate.is_turned_round(&pairs[time]))
    };
    let found: Vec<bool> = pairs.iter().map(stands).collect();
    for (pair, stands) in pairs.iter_mut().zip(found) {
        pair.stands_as_time = stands;
    }
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
            .map(|one| (&one.place, (one.unit, one.measured)))
            .collect();
        let (mut pairs, mut only_here) = (Vec::new(), Vec::new());
        for one in &self.cells {
            match theirs.get(&one.place) {
                Some((their_unit, their)) if *their_unit == one.unit => {
                    pairs.push(Pair {
                        place: one.place.clone(),
                        unit: one.unit,
                        kind: one.kind,
                        cores: one.cores,
                        a: one.measured,
                        b: their,
                        stands_as_time: false,
                    });
                    theirs.remove(&one.place);
                }
                _ => only_here.push(one.place.clone()),
            }
        }
        find_rates_that_are_times(&mut pairs);
        let only_there = other
            .cells
            .iter()
            .filter(|one| theirs.contains_key(&one.place))
            .map(|one| one.place.clone())
            .collect();
        (pairs, only_here, only_there)
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
                    place: Place {
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
    const ONE: [&str; 4] = ["1 core,", "one core", "stack-memory", "peer-smoltcp"];
    const TWO: [&str; 3] = ["2 cores", "two cores", "bare-shm"];
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
