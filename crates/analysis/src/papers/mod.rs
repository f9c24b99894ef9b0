//! Then and now: the rows of the five papers beside those of a run.
//!
//! A published number has a counterpart where an experiment shows both in one row (`counterparts`), or where its counterpart
//! stands elsewhere in the run (`row`). Columns are paired by name and have the same definition; what has no counterpart says why.
//! A share that is none is left out. Nothing is measured here.

mod counterparts;
mod published;

use tollgate_papers::{self as papers, Paper};
use tollgate_run::{
    Cell, Column, Experiment, Interval, Measured, Row, RowKind, Run, Table, Unit, format, present,
    present::plain_row,
};

use counterparts::{Counterpart, Pairing, Today, counterpart};

/// The experiments whose parts of a run have counterparts, for those who measure only these.
#[must_use]
pub fn experiments() -> Vec<&'static str> {
    let shown = counterparts::TABLES
        .iter()
        .flat_map(|(_, one)| one.experiments());
    let mut names: Vec<&'static str> = shown
        .chain(published::EXPERIMENTS.iter().copied())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Amount of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A page: each published number once, beside the first path that has its counterpart.
    Page,
    /// All paths, and every published row without a counterpart, with the reason.
    Whole,
}

/// The most rows of a published table that a page shows.
const ON_A_PAGE: usize = 8;
/// Source of numbers that are in no table.
const IN_TEXT: &str = "text to the figures";

/// A published table, or a paper's text, with what of it has a counterpart.
struct PublishedTable {
    id: String,
    place: String,
    title: String,
    /// The change since, for the part that no number shows.
    context: &'static str,
    pairs: Vec<Pair>,
}

impl PublishedTable {
    /// A table for each unit.
    fn tables(&self, paper: &Paper) -> Vec<Table> {
        let heading = match self.title.as_str() {
            "" => format!("{}, {}", paper.citation(), self.place),
            title => format!("{}, {}: {title}", paper.citation(), self.place),
        };
        let title = [
            Some(heading),
            changed(&self.pairs),
            Some(self.context.to_owned()),
        ]
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(". ");
        side_by_side(&self.id, &title, paper.year, &self.pairs)
    }
}

/// A paper in one table, whose units stand with the numbers.
fn page(paper: &Paper, parts: &[PublishedTable]) -> Option<Table> {
    let mut rows = Vec::new();
    for part in parts {
        // What stands before the first comma tells the place; more would make the column too wide for a page.
        let place = part.place.split(',').next().unwrap_or(&part.place);
        rows.push(plain_row(place, Vec::new()));
        rows.extend(on_page(&part.pairs).into_iter().map(|pair| {
            let now = match pair.is_known() {
                true => in_words(pair.unit, pair.measured.value),
                false => "it may be zero".to_owned(),
            };
            let cells = vec![
                Cell::text(in_words(pair.unit, pair.published)),
                Cell::text(now),
                pair.quotient(),
            ];
            Row {
                depth: 1,
                ..plain_row(&pair.label, cells)
            }
        }));
    }
    let column = |name: String, unit| Column { name, unit };
    (!rows.is_empty()).then(|| Table {
        id: paper.id.clone(),
        title: paper.citation(),
        columns: vec![
            column(paper.year.to_string(), Unit::None),
            column("now".to_owned(), Unit::None),
            column("now / then".to_owned(), Unit::Ratio),
        ],
        rows,
    })
}

/// The pairs of a published table that a page shows.
fn on_page(pairs: &[Pair]) -> Vec<Pair> {
    let places = present::some(pairs.len(), ON_A_PAGE);
    places.into_iter().map(|at| pairs[at].clone()).collect()
}

/// A number with its unit.
fn in_words(unit: Unit, value: f64) -> String {
    let number = format::significant(value);
    match unit {
        Unit::None | Unit::Count => number,
        Unit::Nanoseconds => format::duration(value),
        Unit::NanosecondsPerByte => format!("{number} ns/B"),
        Unit::Instructions => format!("{number} instructions"),
        Unit::Bytes => format!("{number} B"),
        Unit::BytesPerSecond => format!("{} GB/s", format::significant(value / 1e9)),
        Unit::PerSecond => format!("{number} /s"),
        Unit::Percent => format!("{number} %"),
        Unit::Ratio => format!("{number} times"),
        Unit::Cycles => format!("{number} cycles"),
    }
}

/// Rows without a counterpart under one heading, with the reason.
struct WithoutCounterpart {
    heading: String,
    rows: Vec<(String, String)>,
}

/// A published number and its counterpart in the run.
#[derive(Debug, Clone)]
struct Pair {
    label: String,
    unit: Unit,
    published_cell: Cell,
    published: f64,
    /// Shown without its percentiles, which the experiment has.
    measured: Measured,
    /// Tells whether another path has a counterpart of the same number.
    again: bool,
}

impl Pair {
    /// Tells whether the interval of what was measured, where it has one, leaves out zero.
    fn is_known(&self) -> bool {
        self.measured
            .ci
            .is_none_or(|ci| ci.low > 0.0 || ci.high <= ci.low)
    }

    /// Tells whether the interval of a share that was measured, where it has one, tells it: one that is wider than the whole does not.
    fn is_told(&self) -> bool {
        const WHOLE: f64 = 100.0;
        let within = |ci: Interval| ci.high - ci.low <= WHOLE;
        self.measured.ci.is_none_or(within)
    }

    /// The quotient of the measured and the published number.
    fn quotient(&self) -> Cell {
        if !self.is_known() {
            Cell::NotAvailable {
                reason: "what is measured may be zero".to_owned(),
            }
        } else if self.published > 0.0 {
            Cell::exact(self.measured.value / self.published)
        } else {
            Cell::text("")
        }
    }
}

/// The command that sets a run of this file, or two of these files, beside the papers.
#[must_use]
pub fn command(files: &str) -> String {
    format!("tollgate papers --from {}", format::quoted(files))
}

/// The rows of the five papers beside those of a run, whose file the caller names in the command.
#[must_use]
pub fn beside(run: &Run, extent: Extent) -> Experiment {
    let mut tables = Vec::new();
    let (mut paired, mut shown, mut silent) = (0, 0, 0);
    let (mut changes, mut notes) = (Vec::new(), Vec::new());
    for paper in papers::all() {
        let mut without: Vec<WithoutCounterpart> = Vec::new();
        let (in_text, missing) = published_of(run, &paper.id);
        without.push(missing);
        let mut parts = vec![PublishedTable {
            id: paper.id.clone(),
            place: IN_TEXT.to_owned(),
            title: String::new(),
            context: "",
            pairs: in_text,
        }];
        for table in &paper.tables {
            let (mut pairs, mut missing) = published_of(run, &table.id);
            let found_here = pairs.len();
            let compared = counterpart(&table.id);
            let mut refused = Vec::new();
            let (reason, context) = match compared {
                Counterpart::Shown { pairings, changed } => {
                    for (by, pairing) in pairings {
                        let found = pairs_of(run, by, pairing, extent);
                        pairs.extend(found.pairs);
                        refused.extend(found.refused);
                    }
                    (not_held(&compared.experiments()), changed)
                }
                Counterpart::Unlike { why, .. } | Counterpart::None { why } => (why.to_owned(), ""),
            };
            let rows = if pairs.len() > found_here || !refused.is_empty() {
                refused
            } else {
                let elsewhere = |row: &&papers::Row| !published::has(&table.id, &row.id);
                let rows = table.rows.iter().filter(elsewhere);
                rows.map(|row| (row.label().to_owned(), reason.clone()))
                    .collect()
            };
            missing.rows.extend(rows);
            without.push(missing);
            parts.push(PublishedTable {
                id: table.id.clone(),
                place: table.place.clone(),
                title: table.title.clone(),
                context,
                pairs,
            });
        }
        parts.retain(|part| !part.pairs.is_empty());
        for part in &parts {
            paired += part.pairs.iter().filter(|pair| !pair.again).count();
            shown += part.pairs.len().min(ON_A_PAGE);
            let told = match extent {
                Extent::Page => on_page(&part.pairs),
                Extent::Whole => part.pairs.clone(),
            };
            changes.extend(largest_share(paper, &told));
        }
        if extent == Extent::Page {
            notes.extend(parts.iter().filter_map(|part| {
                let changed = changed(&on_page(&part.pairs))?;
                Some(present::note(format!(
                    "{}, {}: {changed}",
                    paper.citation(),
                    part.place
                )))
            }));
        }
        match extent {
            Extent::Page => tables.extend(page(paper, &parts)),
            Extent::Whole => tables.extend(parts.iter().flat_map(|part| part.tables(paper))),
        }
        without.retain(|without_counterpart| !without_counterpart.rows.is_empty());
        silent += without
            .iter()
            .map(|without_counterpart| without_counterpart.rows.len())
            .sum::<usize>();
        if extent == Extent::Whole && !without.is_empty() {
            tables.push(without_counterpart(paper, &without));
        }
    }
    changes.sort_by(|(one, _), (other, _)| other.abs().total_cmp(&one.abs()));
    let finding = match changes.first() {
        _ if paired == 0 => "The run holds no row that any of the papers has.".to_owned(),
        first => {
            let most = first.map_or_else(String::new, |(_, text)| {
                format!("; the share that changed most is {text}")
            });
            let some = match extent {
                Extent::Page if shown < paired => {
                    format!(", {} of them below", format::whole(shown as u64))
                }
                Extent::Page | Extent::Whole => String::new(),
            };
            format!(
                "{} a counterpart in this run{some}{most}.",
                format::counted(
                    paired as u64,
                    "number of the papers has",
                    "numbers of the papers have"
                )
            )
        }
    };
    let reasons = match extent {
        Extent::Page => "for which `tollgate papers --from RUN` gives the reasons",
        Extent::Whole => "each with the reason",
    };
    notes.push(present::note(format!(
        "{} none, {reasons}; times are compared only where a paper gives no share, and then say how much quicker machines became; \
         cycles of today are those of the run's clock",
        format::counted(silent as u64, "row of the papers has", "rows of the papers have")
    )));
    Experiment {
        name: "papers".to_owned(),
        title: "Then and now: the five papers beside this run".to_owned(),
        paper: None,
        finding,
        command: command("RUN"),
        tables,
        figures: Vec::new(),
        trust: notes,
    }
}

/// Pairs the published rows of a table or a paper's text with numbers elsewhere in the run. The rest is returned with the reason.
fn published_of(run: &Run, of: &str) -> (Vec<Pair>, WithoutCounterpart) {
    let mut pairs = Vec::new();
    let mut rows = Vec::new();
    let mut paired: Vec<&published::Published> = Vec::new();
    for row in published::ALL.iter().filter(|row| row.of == of) {
        let Some((published, published_cell)) = row.published() else {
            continue;
        };
        match row.measured(run) {
            Ok(measured) if !row.may_be(measured.value) => {
                rows.push((row.label.to_owned(), IMPOSSIBLE.to_owned()));
            }
            Ok(measured) => {
                let again = paired.iter().any(|one| row.is_of_the_same(one));
                paired.push(row);
                pairs.push(Pair {
                    label: row.label.to_owned(),
                    unit: row.unit,
                    published_cell,
                    published,
                    measured,
                    again,
                });
            }
            Err(why) => rows.push((row.label.to_owned(), why)),
        }
    }
    let unlike = published::UNLIKE.iter().filter(|one| one.of() == of);
    rows.extend(unlike.map(|one| (one.label.to_owned(), one.why.to_owned())));
    let heading = match papers::table(of) {
        Some(table) => format!("{}: {}", table.place, table.title),
        None => IN_TEXT.to_owned(),
    };
    (pairs, WithoutCounterpart { heading, rows })
}

/// The share that changed most, in hundredths, and a sentence on it.
fn largest_share(paper: &Paper, pairs: &[Pair]) -> Option<(f64, String)> {
    let by = |pair: &&Pair| pair.measured.value - pair.published;
    // A share without an interval is not stated.
    let is_stated = |pair: &&Pair| pair.measured.ci.is_some() && pair.is_told();
    let shares = pairs
        .iter()
        .filter(|pair| pair.unit == Unit::Percent)
        .filter(is_stated);
    let pair = shares.max_by(|one, other| by(one).abs().total_cmp(&by(other).abs()))?;
    let text = format!(
        "{}: {} % in {} ({}), {} % now",
        pair.label,
        format::significant(pair.published),
        paper.year,
        paper.citation(),
        format::significant(pair.measured.value),
    );
    Some((by(&pair), text))
}

/// Says what changed, from the numbers: the largest change for shares, the interquartile mean of quotients for all else.
fn changed(pairs: &[Pair]) -> Option<String> {
    let unit = pairs.first()?.unit;
    if pairs.iter().any(|pair| pair.unit != unit) {
        return None;
    }
    if unit == Unit::Percent {
        let by = |pair: &&Pair| (pair.measured.value - pair.published).abs();
        let pair = pairs
            .iter()
            .filter(|pair| pair.is_known() && pair.is_told())
            .max_by(|one, other| by(one).total_cmp(&by(other)))?;
        return Some(format!(
            "Most changed: {}, {} % for {} %",
            pair.label,
            format::significant(pair.measured.value),
            format::significant(pair.published)
        ));
    }
    let mut ratios: Vec<f64> = pairs
        .iter()
        .filter(|pair| pair.published > 0.0 && pair.measured.value > 0.0 && pair.is_known())
        .map(|pair| pair.measured.value / pair.published)
        .collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    let quicker = unit == Unit::Nanoseconds && most < 1.0;
    let (least, most) = if quicker {
        (1.0 / most, 1.0 / least)
    } else {
        (least, most)
    };
    let range = if format::factor(least) == format::factor(most) {
        format::factor(least)
    } else {
        format!("{} to {}", format::factor(least), format::factor(most))
    };
    Some(match unit {
        Unit::Nanoseconds if quicker => format!("Now {range} times quicker"),
        Unit::Nanoseconds | Unit::NanosecondsPerByte => format!("Now {range} times the time"),
        Unit::Instructions => format!("Now {range} times the instructions"),
        Unit::Cycles => format!("Now {range} times the cycles"),
        Unit::BytesPerSecond | Unit::PerSecond => format!("Now {range} times the rate"),
        Unit::None | Unit::Bytes | Unit::Percent | Unit::Ratio | Unit::Count => {
            format!("Now {range} times as much")
        }
    })
}

/// Says that the run holds none of these experiments, and how each is measured.
fn not_held(experiments: &[&str]) -> String {
    format!(
        "the run holds no {} with it; `tollgate experiment run {}` measures it",
        experiments.join(" or "),
        experiments.join(" ")
    )
}

/// Pairs of a published table, and its rows whose counterpart the run holds without a number, with the reason.
#[derive(Debug, Default)]
struct Found {
    pairs: Vec<Pair>,
    refused: Vec<(String, String)>,
}

/// The published numbers that an experiment of the run shows, each with those of today that the pairing names.
fn pairs_of(run: &Run, experiment: &str, pairing: &Pairing, extent: Extent) -> Found {
    let Some(experiment) = run.experiments.iter().find(|one| one.name == experiment) else {
        return Found::default();
    };
    let table = |id: &str| experiment.tables.iter().find(|one| one.id == id);
    let most = match extent {
        Extent::Page => 1,
        Extent::Whole => usize::MAX,
    };
    match *pairing {
        Pairing::Columns {
            table: id,
            published,
            measured,
            except,
        } => table(id).map_or_else(Found::default, |table| {
            let columns = InColumns {
                published,
                measured,
                right: 0,
                except,
            };
            columns.find(table, most, is_possible)
        }),
        Pairing::Shares {
            table: id,
            published,
            measured,
        } => table(id).map_or_else(Found::default, |table| {
            let columns = InColumns {
                published,
                measured,
                right: 1,
                except: &[],
            };
            columns.find(table, most, is_possible)
        }),
        Pairing::Savings {
            table: id,
            published,
            measured,
            by,
        } => table(id).map_or_else(Found::default, |table| {
            let columns = InColumns {
                published,
                measured,
                right: 0,
                except: &[],
            };
            saved_by(by, columns.find(table, most, is_saving))
        }),
        Pairing::SavingsInRows {
            table: id,
            published,
            measured,
            by,
        } => table(id).map_or_else(Found::default, |table| {
            saved_by(by, between_rows(table, published, measured, most))
        }),
        Pairing::Means {
            published,
            measured,
            row,
        } => Found {
            pairs: table(published)
                .zip(table(measured))
                .map_or_else(Vec::new, |(published, measured)| {
                    of_means(published, measured, row)
                }),
            refused: Vec::new(),
        },
    }
}

/// Puts what saves it before each label.
fn saved_by(by: &str, mut found: Found) -> Found {
    let labels = found.pairs.iter_mut().map(|pair| &mut pair.label);
    for label in labels.chain(found.refused.iter_mut().map(|(label, _)| label)) {
        *label = format!("{by}, {label}");
    }
    found
}

/// The label of a row behind that of the heading, a row without cells, that it stands below.
fn below(heading: Option<&Row>, row: &Row) -> String {
    let label = row.label.trim();
    match heading {
        Some(heading) if heading.depth < row.depth => format!("{}: {label}", heading.label),
        _ => label.to_owned(),
    }
}

/// The columns of one table that are compared row by row, by their names.
struct InColumns {
    published: &'static str,
    measured: &'static [Today],
    /// The distance from a named column to the compared one.
    right: usize,
    except: &'static [(&'static str, &'static str)],
}

impl InColumns {
    /// The pairs of numbers that `may_be` accepts; at most so many for each row.
    fn find(&self, table: &Table, most: usize, may_be: fn(Unit, f64) -> bool) -> Found {
        let place = |name: &str| {
            let found = table.columns.iter().position(|column| column.name == name);
            found.map(|at| at + self.right)
        };
        let mut found = Found::default();
        let Some(column) = place(self.published) else {
            return found;
        };
        let mut heading = None;
        for row in &table.rows {
            if row.cells.is_empty() {
                heading = Some(row);
            }
            let Some(published) = row.cells.get(column) else {
                continue;
            };
            let label = below(heading, row);
            if let Some((_, why)) = self.except.iter().find(|(other, _)| *other == label) {
                found.refused.push((label, (*why).to_owned()));
                continue;
            }
            let counterparts = self
                .measured
                .iter()
                .filter_map(|now| Some((now.words, row.cells.get(place(now.name)?)?)));
            let unit = table.columns[column].unit;
            found.add((&label, unit, published), counterparts, most, may_be);
        }
        found
    }
}

impl Found {
    /// Adds a published number with those of today beside it, each with its words; at most so many of them.
    fn add<'a>(
        &mut self,
        (label, unit, published_cell): (&str, Unit, &Cell),
        counterparts: impl Iterator<Item = (&'static str, &'a Cell)>,
        most: usize,
        may_be: fn(Unit, f64) -> bool,
    ) {
        let Some(published) = published_cell.number() else {
            return;
        };
        let before = self.pairs.len();
        let mut reason = None;
        for (words, cell) in counterparts {
            match cell {
                Cell::Value(measured) if may_be(unit, measured.value) => {
                    let again = self.pairs.len() - before;
                    if again < most {
                        self.pairs.push(Pair {
                            label: format!("{label}, {words}"),
                            unit,
                            published_cell: published_cell.clone(),
                            published,
                            measured: measured.clone(),
                            again: again > 0,
                        });
                    }
                }
                Cell::Value(_) => reason = reason.or_else(|| Some(IMPOSSIBLE.to_owned())),
                Cell::NotAvailable { reason: why } => reason = reason.or_else(|| Some(why.clone())),
                Cell::Text { .. } | Cell::Published { .. } => {}
            }
        }
        if self.pairs.len() == before {
            self.refused
                .extend(reason.map(|why| (label.to_owned(), why)));
        }
    }
}

/// A published row of a table against others of it, column by column.
fn between_rows(table: &Table, published: &str, measured: &[Today], most: usize) -> Found {
    let row = |label: &str| table.rows.iter().find(|row| row.label == label);
    let mut found = Found::default();
    let Some(published) = row(published) else {
        return found;
    };
    for (at, (column, cell)) in table.columns.iter().zip(&published.cells).enumerate() {
        let counterparts = measured
            .iter()
            .filter_map(|now| Some((now.words, row(now.name)?.cells.get(at)?)));
        found.add(
            (&column.name, column.unit, cell),
            counterparts,
            most,
            is_saving,
        );
    }
    found
}

/// All published numbers of a table against the means of a row of another.
fn of_means(published_cell: &Table, measured: &Table, row: &str) -> Vec<Pair> {
    let Some(today) = measured.rows.iter().find(|one| one.label == row) else {
        return Vec::new();
    };
    let mut pairs = Vec::new();
    for published in &published_cell.rows {
        for (column, cell) in published_cell.columns.iter().zip(&published.cells) {
            let Some(value) = cell.number() else { continue };
            let mean = measured
                .columns
                .iter()
                .position(|one| one == column)
                .and_then(|at| {
                    let measured = today.cells.get(at)?.measured()?;
                    Some(Measured {
                        value: measured.mean?,
                        n: measured.n,
                        ..Measured::default()
                    })
                });
            pairs.extend(mean.map(|measured| Pair {
                label: format!("{}, {}: {row}", published.label, column.name),
                unit: column.unit,
                published_cell: cell.clone(),
                published: value,
                measured,
                again: false,
            }));
        }
    }
    pairs
}

/// Tells whether a number can be: no share is beyond its whole, and nothing here is below zero.
fn is_possible(unit: Unit, value: f64) -> bool {
    value >= 0.0 && (unit != Unit::Percent || value <= 100.0)
}

/// Tells whether a number can be a saving or a gain, which is below zero where it costs.
fn is_saving(_: Unit, value: f64) -> bool {
    value <= 100.0
}

/// The reason why a number that cannot be has no place here.
const IMPOSSIBLE: &str = "its counterpart came out below zero or beyond its whole";

/// One table for each unit.
fn side_by_side(id: &str, title: &str, year: u16, pairs: &[Pair]) -> Vec<Table> {
    let mut units: Vec<Unit> = Vec::new();
    for pair in pairs {
        if !units.contains(&pair.unit) {
            units.push(pair.unit);
        }
    }
    let id = id.replace('/', "-");
    let of_unit = |(at, unit): (usize, &Unit)| Table {
        id: if at == 0 {
            id.clone()
        } else {
            format!("{id}-{at}")
        },
        title: title.to_owned(),
        columns: vec![
            Column {
                name: year.to_string(),
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
                let measured = Cell::Value(Measured {
                    value: pair.measured.value,
                    ci: pair.measured.ci,
                    n: pair.measured.n,
                    ..Measured::default()
                });
                plain_row(
                    &pair.label,
                    vec![pair.published_cell.clone(), measured, pair.quotient()],
                )
            })
            .collect(),
    };
    units.iter().enumerate().map(of_unit).collect()
}

/// The table of a paper's rows that have no counterpart, with the reason.
fn without_counterpart(paper: &Paper, without: &[WithoutCounterpart]) -> Table {
    let mut rows = Vec::new();
    let plain = |label: &str, depth: u8, cell: Cell| Row {
        label: label.to_owned(),
        depth,
        kind: RowKind::Plain,
        layer: None,
        note: None,
        cells: vec![cell],
    };
    for WithoutCounterpart {
        heading,
        rows: lines,
    } in without
    {
        rows.push(plain(heading, 0, Cell::text("")));
        rows.extend(lines.iter().map(|(label, reason)| {
            let reason = reason.clone();
            plain(label, 1, Cell::NotAvailable { reason })
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
