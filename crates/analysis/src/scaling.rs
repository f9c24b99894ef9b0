//! Foong's streams at two frequencies, from two runs: by how much of the frequency performance scales (Foong et al. 2003, section 5.1,
//! Figs. 11 and 12).
//!
//! A machine whose frequency cannot be switched tells one frequency in a run; the other comes from another run, or another host. Where
//! both runs have the same frequency no ratio is made. Nothing is measured here.

use tollgate_papers as papers;
use tollgate_run::{
    Cell, Column, Experiment, Measured, Row, Run, Table, TrustLine, Unit, format, present,
};

use crate::claim::{Evidence, Finding};

/// The experiment that both runs must have, and its tables.
const EXPERIMENT: &str = "foong-hz";
const CLOCK: &str = "clock";
const CYCLES: &str = "hz";
/// The columns of cycles for each bit, with the paper's figures.
const ENDS: [&str; 3] = ["Transmit", "Receive", "Both ends"];
/// Frequencies that differ by less are one: what `/proc/cpuinfo` says of a fixed one wanders by a part in a thousand.
const SAME: f64 = 0.01;
/// Writes of a round at the least, as the sampler makes them; a cell counts rounds.
const WRITES: u64 = 256;
/// The published scaling.
const PUBLISHED: &str = "foong-2003/frequency-scaling";

/// The reason why two runs tell nothing of frequency.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unscalable {
    /// A run lacks a table.
    #[error(
        "the {which} run has no {EXPERIMENT} with its frequency; make one with `tollgate experiment run {EXPERIMENT} --json FILE`"
    )]
    NoCycles {
        /// "first" or "second".
        which: &'static str,
    },
    /// The runs have no path and size in common.
    #[error("the two runs have no path and size of {EXPERIMENT} in common")]
    NothingInCommon,
}

/// One run, with its processor's frequency and its tables of cycles.
struct Side<'a> {
    run: &'a Run,
    hz: f64,
    tables: Vec<&'a Table>,
}

impl<'a> Side<'a> {
    fn of(run: &'a Run, which: &'static str) -> Result<Self, Unscalable> {
        let found = run.experiments.iter().find(|one| one.name == EXPERIMENT);
        let missing = Unscalable::NoCycles { which };
        let tables = &found.ok_or(missing.clone())?.tables;
        let clock = tables.iter().find(|table| table.id == CLOCK);
        let hz = clock.and_then(|table| table.rows.first()?.cells.first()?.number());
        let tables: Vec<&Table> = tables
            .iter()
            .filter(|table| {
                let rest = table.id.strip_prefix(CYCLES);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            })
            .collect();
        match hz.filter(|hz| *hz > 0.0 && !tables.is_empty()) {
            Some(hz) => Ok(Self { run, hz, tables }),
            None => Err(missing),
        }
    }

    fn name(&self) -> String {
        format!("{} MHz", format::whole((self.hz / 1e6).round() as u64))
    }
}

/// A cell of a table by names.
fn cell<'a>(table: &'a Table, row: &str, column: &str) -> Option<&'a Measured> {
    let at = table.columns.iter().position(|one| one.name == column)?;
    let row = table.rows.iter().find(|one| one.label == row)?;
    row.cells.get(at)?.measured()
}

fn evidence(cycles: &Measured) -> Evidence {
    let writes = cycles.n.unwrap_or(0).saturating_mul(WRITES);
    Evidence::new(cycles.value, cycles.ci, writes)
}

/// Performance for each frequency, of 100: cycles at the lower one over those at the higher.
fn scales(slow: &Measured, fast: &Measured) -> Evidence {
    evidence(slow).over(evidence(fast)).times(100.0)
}

/// By how much of the frequency the streams of two runs scale.
///
/// # Errors
/// [`Unscalable`].
pub fn scaling(first: &Run, second: &Run) -> Result<Experiment, Unscalable> {
    let (a, b) = (Side::of(first, "first")?, Side::of(second, "second")?);
    let (slow, fast) = if a.hz <= b.hz { (a, b) } else { (b, a) };
    let same = fast.hz / slow.hz - 1.0 < SAME;
    let mut finding = Finding::default();
    let mut tables = Vec::new();
    for table in &slow.tables {
        let Some(other) = fast.tables.iter().find(|other| other.id == table.id) else {
            continue;
        };
        tables.extend(ENDS.iter().filter_map(|end| {
            let rows = rows(table, other, end, same);
            (!rows.is_empty()).then(|| shown(table, end, &slow, &fast, rows))
        }));
        if !same {
            say(table, other, &mut finding);
        }
    }
    if tables.is_empty() {
        return Err(Unscalable::NothingInCommon);
    }
    if same {
        finding.say(format!(
            "both runs have the same frequency, {}, so they do not tell how performance scales with it",
            fast.name()
        ));
    }
    Ok(Experiment {
        name: "foong-scaling".to_owned(),
        title: "Streams at two frequencies".to_owned(),
        paper: papers::paper("foong-2003")
            .map(|paper| papers::source_at(paper, "Figs. 11 and 12, section 5.1")),
        finding: finding.finish().into(),
        command: "tollgate papers --from FIRST,SECOND".to_owned(),
        tables,
        figures: Vec::new(),
        trust: trust(&slow, &fast, same),
    })
}

/// The sizes that both have.
fn rows(slow: &Table, fast: &Table, end: &str, same: bool) -> Vec<Row> {
    let found = slow.rows.iter().filter_map(|row| {
        let [slow, fast] = [slow, fast].map(|table| cell(table, &row.label, end));
        Some((row.label.as_str(), slow?, fast?))
    });
    let found: Vec<_> = found.collect();
    let last = found.iter().rposition(|(label, ..)| is_in_cache(label));
    let rows = found
        .into_iter()
        .enumerate()
        .map(|(at, (label, slow, fast))| {
            let ratio = if same {
                Cell::NotAvailable {
                    reason: "both runs have the same frequency".to_owned(),
                }
            } else {
                let scales = scales(slow, fast);
                Cell::Value(Measured {
                    value: scales.value(),
                    ci: scales.interval(),
                    ..Measured::default()
                })
            };
            // The text gives one number, and says that it shows more at larger transfers.
            let published = papers::fact(PUBLISHED)
                .zip(papers::paper("foong-2003"))
                .filter(|_| Some(at) == last && end != "Both ends");
            let then = published.map_or(Cell::text("-"), |(fact, paper)| {
                let source = papers::source_at(paper, &format!("section {}", fact.place));
                present::published_cell(Some(fact.value), &source)
            });
            let cycles = [slow, fast].map(|one| Cell::Value(one.clone()));
            let cells = cycles.into_iter().chain([ratio, then]).collect();
            present::plain_row(label, cells)
        });
    rows.collect()
}

fn shown(table: &Table, end: &str, slow: &Side<'_>, fast: &Side<'_>, rows: Vec<Row>) -> Table {
    let path = table.id.strip_prefix(CYCLES).unwrap_or_default();
    let path = path.trim_start_matches('-');
    let over = if path.is_empty() {
        String::new()
    } else {
        format!(", {path}")
    };
    let column = |name: String, unit| Column { name, unit };
    let mut names = [slow.name(), fast.name()];
    if names[0] == names[1] {
        names = names.map(|name| format!("{name}, the run"));
        names[1].push_str(" again");
    }
    let [slow, fast] = names;
    Table {
        id: format!(
            "{}{}{path}",
            end.to_lowercase().replace(' ', "-"),
            if path.is_empty() { "" } else { "-" }
        ),
        title: format!("{end}: cycles for each bit at two frequencies{over}"),
        columns: vec![
            column(slow, Unit::None),
            column(fast, Unit::None),
            column("of the frequency".to_owned(), Unit::Percent),
            column("of the frequency, 2003".to_owned(), Unit::Percent),
        ],
        rows,
    }
}

/// Tells whether a write reuses one buffer, as those of the paper did.
fn is_in_cache(label: &str) -> bool {
    !label.contains(" through ")
}

/// The largest write of each end.
fn say(slow: &Table, fast: &Table, finding: &mut Finding) {
    for end in &ENDS[..2] {
        let in_cache = slow.rows.iter().rev().filter(|row| is_in_cache(&row.label));
        let mut common = in_cache.filter_map(|row| {
            let [slow, fast] = [slow, fast].map(|table| cell(table, &row.label, end));
            Some((row.label.as_str(), slow?, fast?))
        });
        let Some((label, slow, fast)) = common.next() else {
            continue;
        };
        let what = format!("how {} scales", end.to_lowercase());
        if let Some(claim) = finding.claim(what, scales(slow, fast).amount()) {
            finding.say(format!(
                "the performance of {} scales by {} of the frequency for {label} (60 % in 2003)",
                end.to_lowercase(),
                claim.percent()
            ));
        }
    }
}

fn trust(slow: &Side<'_>, fast: &Side<'_>, same: bool) -> Vec<TrustLine> {
    let mut lines = Vec::new();
    if same {
        lines.push(present::warning(format!(
            "the runs have {} and {}: no ratio is made of them",
            slow.name(),
            fast.name()
        )));
    }
    let hosts = [&slow.run.host, &fast.run.host];
    let differs = [
        ("processors", hosts[0].cpu_model != hosts[1].cpu_model),
        ("kernels", hosts[0].kernel != hosts[1].kernel),
    ];
    for (what, _) in differs.into_iter().filter(|(_, differs)| *differs) {
        lines.push(present::warning(format!(
            "the runs are of different {what}: what they differ in is not their frequency alone"
        )));
    }
    lines.push(present::note(
        "100 % is a machine that is so many times as fast as its frequency is higher; less is time spent waiting for memory, which \
         keeps its speed; the interval holds every quotient of the two runs",
    ));
    lines
}

#[cfg(test)]
mod tests {
    use tollgate_run::Interval;
    use tollgate_run::fixture::run_of;

    use super::*;

    fn run(mhz: f64, cycles: &[(&str, f64)]) -> Run {
        let measured = |value: f64| {
            Cell::Value(Measured {
                value,
                ci: Some(Interval {
                    low: value * 0.98,
                    high: value * 1.02,
                }),
                n: Some(24),
                ..Measured::default()
            })
        };
        let column = |name: &str, unit| Column {
            name: name.to_owned(),
            unit,
        };
        let rows = cycles
            .iter()
            .map(|(label, value)| present::plain_row(*label, vec![measured(*value); 3]));
        run_of(vec![Experiment {
            name: EXPERIMENT.to_owned(),
            title: String::new(),
            paper: None,
            finding: String::new(),
            command: String::new(),
            tables: vec![
                Table {
                    id: CYCLES.to_owned(),
                    title: String::new(),
                    columns: ENDS.map(|end| column(end, Unit::None)).into(),
                    rows: rows.collect(),
                },
                Table {
                    id: CLOCK.to_owned(),
                    title: String::new(),
                    columns: vec![column("Frequency", Unit::PerSecond)],
                    rows: vec![present::plain_row(
                        "Processor",
                        vec![Cell::exact(mhz * 1e6)],
                    )],
                },
            ],
            figures: Vec::new(),
            trust: Vec::new(),
        }])
    }

    #[test]
    fn cycles_that_rise_with_the_frequency_are_performance_that_does_not() {
        let slow = run(800.0, &[("64 B", 6.0), ("65,536 B", 0.6)]);
        let fast = run(2_400.0, &[("64 B", 6.6), ("65,536 B", 1.0)]);
        // The order of the runs is of no account.
        let shown = scaling(&fast, &slow).unwrap();
        assert_eq!(shown, scaling(&slow, &fast).unwrap());
        let transmit = &shown.tables[0];
        let names: Vec<&str> = transmit
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "800 MHz",
                "2,400 MHz",
                "of the frequency",
                "of the frequency, 2003"
            ]
        );
        let last = &transmit.rows[1];
        let scales = last.cells[2].measured().unwrap();
        assert!((scales.value - 60.0).abs() < 1e-9);
        let ci = scales.ci.unwrap();
        assert!(ci.low < 60.0 && ci.high > 60.0);
        assert_eq!(last.cells[3].number(), Some(60.0));
        assert_eq!(transmit.rows[0].cells[3], Cell::text("-"));
        assert!(
            shown.finding.starts_with(
                "The performance of transmit scales by 60 % of the frequency for 65,536 B (60 % in 2003)"
            ),
            "{}",
            shown.finding
        );
    }

    #[test]
    fn one_frequency_makes_no_ratio() {
        let one = run(2_400.0, &[("64 B", 6.0)]);
        let other = run(2_401.0, &[("64 B", 5.0)]);
        let shown = scaling(&one, &other).unwrap();
        assert!(
            matches!(&shown.tables[0].rows[0].cells[2], Cell::NotAvailable { reason } if reason.contains("same frequency"))
        );
        assert!(
            shown
                .finding
                .starts_with("Both runs have the same frequency"),
            "{}",
            shown.finding
        );
        assert!(!shown.trust[0].holds);
    }

    #[test]
    fn runs_without_streams_or_in_nothing_alike_are_refused() {
        let one = run(2_400.0, &[("64 B", 6.0)]);
        let none = run_of(Vec::new());
        let error = scaling(&one, &none).unwrap_err();
        assert_eq!(error, Unscalable::NoCycles { which: "second" });
        let other = run(800.0, &[("128 B", 5.0)]);
        assert_eq!(scaling(&one, &other), Err(Unscalable::NothingInCommon));
    }
}
