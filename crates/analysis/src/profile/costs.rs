//! Costs of a message by its size, category by category, as a run holds them.
//!
//! Owns how the tables of `kay-breakdown`, `kay-detail`, `wolman-transmit` and `wolman-receive` are read back. It weights nothing.

use tollgate_gate::span::Position;
use tollgate_gate::{Direction, STACK};
use tollgate_run::{Cell, Experiment, PathId, Row, Run, Table, format};
use tollgate_sampling::Categories;
use tollgate_stats::student_t;
use tollgate_trace::rows::Protocol;

use super::NoProfile;

/// A category of spans that is below zero by more than this share of the message was not measured: as far as a ledger may be off and
/// still closes.
const DISTURBED: f64 = 0.05;

/// A mean with the variance of it, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimated {
    pub(super) value: f64,
    /// The square of the standard error; zero where the run gives no interval.
    pub(super) variance: f64,
    /// Degrees of freedom of the variance; none where the run gives no interval.
    pub(super) degrees: Option<u64>,
}

impl Estimated {
    pub(super) const ZERO: Self = Self {
        value: 0.0,
        variance: 0.0,
        degrees: None,
    };

    /// The number of a cell, its standard error from the interval over the rounds.
    pub(super) fn of(cell: &Cell) -> Option<Self> {
        let measured = cell.measured()?;
        let known = measured.ci.zip(measured.n.filter(|n| *n > 1));
        let (variance, degrees) = match known {
            Some((ci, n)) => {
                let error = (ci.high - ci.low) / 2.0 / student_t(n - 1);
                (error * error, Some(n - 1))
            }
            None => (0.0, None),
        };
        Some(Self {
            value: measured.value,
            variance,
            degrees,
        })
    }
}

/// A part of what a message costs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Component {
    pub(super) name: String,
    /// The category that it is, or lies in.
    pub(super) category: String,
    /// By size.
    pub(super) cells: Vec<Estimated>,
}

/// Costs of the messages of one protocol: parts that sum to the whole.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Costs {
    /// Bytes, ascending; at least two.
    pub(super) sizes: Vec<f64>,
    pub(super) parts: Vec<Component>,
    /// The whole, as it was measured, by size.
    pub(super) totals: Vec<Estimated>,
}

/// Costs on one path, read from a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    pub(super) path: PathId,
    /// Each protocol by category.
    pub(super) categories: Vec<(Protocol, Costs)>,
    /// Each protocol by the parts of the categories; without any when the run does not hold them.
    pub(super) parts: Vec<(Protocol, Costs)>,
}

impl Measured {
    /// Tells whether the run gives intervals.
    pub(super) fn has_errors(&self) -> bool {
        let totals = self.categories.iter().flat_map(|(_, costs)| &costs.totals);
        totals.into_iter().any(|total| total.degrees.is_some())
    }

    pub(super) fn of(&self, protocol: Protocol) -> Option<&Costs> {
        let mut all = self.categories.iter();
        all.find(|(one, _)| *one == protocol)
            .map(|(_, costs)| costs)
    }
}

/// Tells whether the category touches data, as the file of Kay and Pasquale's categories has it.
pub(super) fn touches_data(category: &str) -> bool {
    let all = Categories::kay().categories;
    all.iter()
        .any(|one| one.name == category && one.touches_data)
}

/// Reads the costs of the requested path, or else of the first path that the run has.
pub(super) fn read(run: &Run, path: Option<PathId>) -> Result<Measured, NoProfile> {
    match path {
        Some(PathId::StackMemory) => stack(run),
        Some(_) | None => kernel(run, path),
    }
}

fn experiment<'a>(run: &'a Run, name: &str) -> Option<&'a Experiment> {
    run.experiments.iter().find(|one| one.name == name)
}

/// The path of an experiment that shows one alone, and so does not name it in its tables.
fn only_path(experiment: &Experiment) -> Option<PathId> {
    let mut words = experiment.command.split_whitespace();
    match words.find(|word| *word == "--path") {
        Some(_) => words.next()?.parse().ok(),
        None => Some(PathId::KernelLoopback),
    }
}

/// The protocol and the path of a table whose name begins with `what`.
fn subject(table: &Table, what: &str, experiment: &Experiment) -> Option<(Protocol, PathId)> {
    let rest = table.id.strip_prefix(what)?;
    let (protocol, path) = match rest.split_once('-') {
        Some((protocol, path)) => (protocol, path.parse().ok()?),
        None => (rest, only_path(experiment)?),
    };
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    Some((protocol, path))
}

fn kernel(run: &Run, asked: Option<PathId>) -> Result<Measured, NoProfile> {
    let breakdown = experiment(run, "kay-breakdown").ok_or(NoProfile::NoBreakdown)?;
    let held: Vec<(Protocol, PathId, &Table)> = breakdown
        .tables
        .iter()
        .filter_map(|table| {
            let (protocol, path) = subject(table, "time-", breakdown)?;
            Some((protocol, path, table))
        })
        .collect();
    let Some(&(_, first, _)) = held.first() else {
        return Err(NoProfile::NotSampled {
            finding: breakdown.finding.clone(),
        });
    };
    let path = asked.unwrap_or(first);
    let here = || held.iter().filter(|(_, one, _)| *one == path);
    if here().next().is_none() {
        let mut paths: Vec<String> = held.iter().map(|(_, path, _)| path.to_string()).collect();
        paths.dedup();
        return Err(NoProfile::NoSuchPath {
            path,
            held: format::list(&paths),
        });
    }
    let categories = here()
        .map(|&(protocol, _, table)| Ok((protocol, by_category(table)?)))
        .collect::<Result<Vec<_>, NoProfile>>()?;
    let parts = experiment(run, "kay-detail").map_or_else(Vec::new, |detail| {
        let tables = detail.tables.iter();
        tables
            .filter_map(|table| {
                let (protocol, one) = subject(table, "parts-", detail)?;
                (one == path).then_some(())?;
                Some((protocol, by_part(table)?))
            })
            .collect()
    });
    Ok(Measured {
        path,
        categories,
        parts,
    })
}

/// `kay-breakdown`: rows are sizes, columns categories up to the total.
fn by_category(table: &Table) -> Result<Costs, NoProfile> {
    let total = table.columns.iter().position(|one| one.name == "Total");
    let total = total.ok_or_else(|| NoProfile::Unreadable {
        table: table.id.clone(),
    })?;
    let mut rows: Vec<(f64, Vec<Estimated>)> = table
        .rows
        .iter()
        .filter_map(|row| {
            let cells = row.cells.iter().take(total + 1).map(Estimated::of);
            Some((
                format::parse_size(&row.label)?,
                cells.collect::<Option<Vec<_>>>()?,
            ))
        })
        .filter(|(_, cells)| cells.len() == total + 1)
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let column = |at: usize| rows.iter().map(|(_, cells)| cells[at]).collect::<Vec<_>>();
    let parts = table.columns[..total].iter().enumerate();
    let costs = Costs {
        sizes: rows.iter().map(|(size, _)| *size).collect(),
        parts: parts
            .map(|(at, one)| Component {
                name: one.name.clone(),
                category: one.name.clone(),
                cells: column(at),
            })
            .collect(),
        totals: column(total),
    };
    costs.checked(&table.id)
}

/// `kay-detail`: columns are sizes, rows categories with their parts below them, and the total.
fn by_part(table: &Table) -> Option<Costs> {
    let whole: Vec<usize> = (0..table.columns.len())
        .filter(|&at| {
            table
                .rows
                .iter()
                .all(|row| row.cells[at].measured().is_some())
        })
        .collect();
    let cells = |row: &Row| -> Option<Vec<Estimated>> {
        whole
            .iter()
            .map(|&at| Estimated::of(&row.cells[at]))
            .collect()
    };
    let (last, rows) = table.rows.split_last()?;
    let mut parts: Vec<Component> = Vec::new();
    let mut at = 0;
    while let Some(row) = rows.get(at) {
        let below = rows[at + 1..]
            .iter()
            .take_while(|row| row.depth > 0)
            .count();
        let mut rest = cells(row)?;
        for part in &rows[at + 1..=at + below] {
            let cells = cells(part)?;
            for (rest, cell) in rest.iter_mut().zip(&cells) {
                rest.value -= cell.value;
            }
            parts.push(Component {
                name: part.label.clone(),
                category: row.label.clone(),
                cells,
            });
        }
        // Rules may give a category without naming a part; what is left below a thousandth is rounding.
        let left = |(rest, whole): (&Estimated, &Estimated)| rest.value > 1e-3 * whole.value;
        let has_rest = rest.iter().zip(&cells(row)?).any(left);
        if has_rest {
            let name = if below == 0 {
                row.label.as_str()
            } else {
                "the rest"
            };
            parts.push(Component {
                name: name.to_owned(),
                category: row.label.clone(),
                cells: rest,
            });
        }
        at += below + 1;
    }
    let costs = Costs {
        sizes: whole
            .iter()
            .map(|&at| format::parse_size(&table.columns[at].name))
            .collect::<Option<_>>()?,
        parts,
        totals: cells(last)?,
    };
    costs.checked(&table.id).ok()
}

/// The spans of `stack-memory`, each given to the foremost of its categories.
fn stack(run: &Run) -> Result<Measured, NoProfile> {
    let path = PathId::StackMemory;
    let id = format!("spans-{path}");
    let mut sizes: Vec<f64> = Vec::new();
    let mut parts: Vec<Component> = Vec::new();
    for (name, direction) in [
        ("wolman-transmit", Direction::Tx),
        ("wolman-receive", Direction::Rx),
    ] {
        let table = experiment(run, name)
            .and_then(|one| one.tables.iter().find(|table| table.id == id))
            .ok_or(NoProfile::NoSpans)?;
        let here: Option<Vec<f64>> = table
            .columns
            .iter()
            .map(|one| format::parse_size(&one.name))
            .collect();
        let here = here.filter(|here| sizes.is_empty() || *here == sizes);
        sizes = here.ok_or_else(|| NoProfile::Unreadable { table: id.clone() })?;
        for span in STACK
            .spans()
            .iter()
            .filter(|one| one.direction == direction)
        {
            let row = table.rows.iter().find(|row| row.label == span.name);
            let category = span.kay_pasquale.first();
            let (Some(row), Some(category)) = (row, category) else {
                continue;
            };
            let cell = |cell: &Cell| match Estimated::of(cell) {
                Some(known) => Some(known),
                // Its time, if any, is in the span around it.
                None if span.position == Position::Inside => Some(Estimated::ZERO),
                None => None,
            };
            let cells: Option<Vec<Estimated>> = row.cells.iter().map(cell).collect();
            parts.push(Component {
                name: format!("{}, {}", span.name, direction.name()),
                category: category.name().to_owned(),
                cells: cells.ok_or_else(|| NoProfile::Unreadable { table: id.clone() })?,
            });
        }
    }
    let sum = |parts: &[&Component], at: usize| Estimated {
        value: parts.iter().map(|part| part.cells[at].value).sum(),
        ..Estimated::ZERO
    };
    let all: Vec<&Component> = parts.iter().collect();
    let totals: Vec<Estimated> = (0..sizes.len()).map(|at| sum(&all, at)).collect();
    let names = tollgate_gate::span::Category::ALL.map(|one| one.name());
    let categories = names.iter().filter_map(|name| {
        let of: Vec<&Component> = parts.iter().filter(|part| part.category == *name).collect();
        (!of.is_empty()).then(|| Component {
            name: (*name).to_owned(),
            category: (*name).to_owned(),
            cells: (0..sizes.len()).map(|at| sum(&of, at)).collect(),
        })
    });
    let categories: Vec<Component> = categories.collect();
    for category in &categories {
        let below = |at: &usize| category.cells[*at].value < -DISTURBED * totals[*at].value.abs();
        if let Some(at) = (0..sizes.len()).find(below) {
            return Err(NoProfile::Disturbed {
                category: category.name.clone(),
                size: format::size(sizes[at] as usize),
            });
        }
    }
    let costs = |parts: Vec<Component>| {
        Costs {
            sizes: sizes.clone(),
            parts,
            totals: totals.clone(),
        }
        .checked(&id)
    };
    Ok(Measured {
        path,
        categories: vec![(Protocol::Tcp, costs(categories)?)],
        parts: vec![(Protocol::Tcp, costs(parts)?)],
    })
}

impl Costs {
    /// Costs of two sizes at least, each once.
    fn checked(self, table: &str) -> Result<Self, NoProfile> {
        if self.sizes.len() < 2 {
            return Err(NoProfile::TooFewSizes {
                table: table.to_owned(),
            });
        }
        if self.sizes.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(NoProfile::Unreadable {
                table: table.to_owned(),
            });
        }
        Ok(self)
    }

    /// The largest size that was measured, in bytes.
    pub(super) fn largest(&self) -> f64 {
        self.sizes.last().copied().unwrap_or(0.0)
    }
}
