//! `kay-breakdown`: processor time in the kernel to receive a message and send it back, by category and size, TCP and UDP; beside
//! it Kay and Pasquale 1996, figures 2 to 4.
//!
//! The figures of the paper are plots; the numbers of its text stand in a table.

use tollgate_papers as papers;
use tollgate_run::{
    Axis, Cell, Column, Figure, Point, Row, Scale, Series, Source, Table, TrustKind, TrustLine,
    Unit, format, present,
};
use tollgate_sampling::{Categories, Classifier};
use tollgate_stats as stats;

use super::{Content, Experiment, Reported, kay_modes};
use crate::claim::{self, Evidence, Finding, FindingText};
use crate::context::{Context, Options};
use crate::echoes::{self, Echoes, Panel, STANDARD_ERROR, touching_ns};
use crate::error::Error;
use crate::sampled::{Mean, Sampled, Split};

const PAPER: &str = "kay-pasquale-1996";
/// The largest size of the small-message view, in bytes; figure 4 ends at 614.
pub(super) const LARGEST_SMALL: usize = 640;

/// Processor time by category.
pub(super) struct KayBreakdown;

impl Experiment for KayBreakdown {
    fn name(&self) -> &'static str {
        "kay-breakdown"
    }

    fn title(&self) -> &'static str {
        "Processor time by category"
    }

    fn paper(&self) -> Option<Source> {
        source("Figs. 2 to 4, section V")
    }

    fn summary(&self) -> &'static str {
        "kernel time by Kay and Pasquale's categories, TCP and UDP, 40 sizes, from samples"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn weight(&self) -> u32 {
        12
    }

    fn concerns(&self, options: &Options) -> bool {
        !echoes::kernel_paths(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sampled = echoes::of(self.name(), context)?;
        let echoes = match &*sampled {
            Sampled::Measured(echoes) => echoes,
            Sampled::Unavailable(reason) => {
                let categories = context.options.categories.clone();
                let categories = categories.unwrap_or_else(Categories::kay);
                return Ok(unavailable(&categories, reason));
            }
        };
        let crossovers: Vec<Crossover> = echoes
            .panels
            .iter()
            .map(|panel| crossover(echoes, panel))
            .collect();
        let mut tables = kay_modes::tables(echoes);
        let panels = echoes.panels.iter();
        tables.extend(panels.map(|panel| time_table(echoes, panel)));
        tables.extend(
            echoes
                .panels
                .iter()
                .map(|panel| cumulative_table(echoes, panel)),
        );
        tables.push(published_and_measured(echoes, &crossovers));
        tables.push(error_table(echoes));
        tables.push(host_stack_table(echoes));
        let figures = [
            |echoes: &Echoes, panel: &Panel, command: &str| {
                time_figure(echoes, panel, usize::MAX, command)
            },
            cumulative_figure,
            |echoes: &Echoes, panel: &Panel, command: &str| {
                time_figure(echoes, panel, LARGEST_SMALL, command)
            },
        ]
        .iter()
        .flat_map(|figure| {
            let panels = echoes.panels.iter();
            panels.filter_map(|panel| figure(echoes, panel, command))
        })
        .collect();
        Ok(Content {
            finding: finding(echoes, &crossovers),
            tables,
            figures,
            trust: trust(echoes),
        })
    }
}

/// A place in the paper.
pub(super) fn source(place: &str) -> Option<Source> {
    Some(papers::source_at(papers::paper(PAPER)?, place))
}

/// Content of the experiment when this machine does not allow sampling.
pub(super) fn unavailable(categories: &Categories, reason: &str) -> Content {
    let cell = || Cell::NotAvailable {
        reason: reason.to_owned(),
    };
    let table = Table {
        id: "not-available".to_owned(),
        title: "Processor time in the kernel for each message received and sent back".to_owned(),
        columns: vec![Column {
            name: "Time".to_owned(),
            unit: Unit::Nanoseconds,
        }],
        rows: categories
            .categories
            .iter()
            .map(|category| present::plain_row(&category.name, vec![cell()]))
            .collect(),
    };
    Content {
        finding: FindingText::unavailable(reason),
        tables: vec![table],
        figures: Vec::new(),
        trust: vec![present::warning(format!("nothing was sampled: {reason}"))],
    }
}

/// The names of the categories and of what no rule covers.
pub(super) fn names(categories: &Categories) -> impl Iterator<Item = &str> {
    let all = categories.categories.iter();
    all.map(|category| category.name.as_str())
        .chain([categories.other.as_str()])
}

/// A cell, or why there is none.
pub(super) fn cell_of(panel: &Panel, at: usize, mean: Option<Mean>) -> Cell {
    match (mean, &panel.failures[at]) {
        (Some(mean), _) => mean.cell(),
        (None, Some(reason)) => Cell::NotAvailable {
            reason: reason.clone(),
        },
        (None, None) => Cell::NotAvailable {
            reason: "the run was stopped before it came to this".to_owned(),
        },
    }
}

fn column(name: impl Into<String>, unit: Unit) -> Column {
    Column {
        name: name.into(),
        unit,
    }
}

fn id(panel: &Panel, echoes: &Echoes, what: &str) -> String {
    let name = panel.name(echoes).to_lowercase().replace(", ", "-");
    format!("{what}-{name}")
}

/// Rows by size.
fn by_size(echoes: &Echoes, cells: impl Fn(usize) -> Vec<Cell>) -> Vec<Row> {
    let sizes = echoes.sizes.iter().enumerate();
    sizes
        .map(|(at, &size)| present::plain_row(format::size(size), cells(at)))
        .collect()
}

fn time_table(echoes: &Echoes, panel: &Panel) -> Table {
    let categories = &echoes.categories;
    let count = names(categories).count();
    let mut columns: Vec<Column> = names(categories)
        .map(|name| column(name, Unit::Nanoseconds))
        .collect();
    columns.push(column("Total", Unit::Nanoseconds));
    columns.push(column("Touching data", Unit::Percent));
    let rows = by_size(echoes, |at| {
        let mut cells: Vec<Cell> = (0..count)
            .map(|category| {
                let mean = panel.mean(at, |split| split.category_ns(category));
                cell_of(panel, at, mean)
            })
            .collect();
        cells.push(cell_of(panel, at, panel.mean(at, Split::total_ns)));
        let touching = panel.percent(at, |split| touching_ns(categories, split));
        cells.push(cell_of(panel, at, touching));
        cells
    });
    Table {
        id: id(panel, echoes, "time"),
        title: format!(
            "{}: processor time in the kernel for each message received and sent back",
            panel.name(echoes)
        ),
        columns,
        rows,
    }
}

/// ns of the first categories up to this place.
fn cumulative_ns(split: &Split, category: usize) -> f64 {
    (0..=category).map(|at| split.category_ns(at)).sum()
}

fn cumulative_table(echoes: &Echoes, panel: &Panel) -> Table {
    let count = names(&echoes.categories).count();
    let rows = by_size(echoes, |at| {
        (0..count)
            .map(|category| {
                let mean = panel.percent(at, |split| cumulative_ns(split, category));
                cell_of(panel, at, mean)
            })
            .collect()
    });
    Table {
        id: id(panel, echoes, "cumulative"),
        title: format!(
            "{}: cumulative shares, each category with those before it",
            panel.name(echoes)
        ),
        columns: names(&echoes.categories)
            .map(|name| column(name, Unit::Percent))
            .collect(),
        rows,
    }
}

/// Size at which the operations that touch data take as long as all others.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Crossover {
    /// At this size in bytes, with the interval over the rounds.
    At(Mean),
    /// At none: per byte they grow no faster than the others.
    Never,
    /// The samples do not tell whether they grow faster.
    Unclear,
    /// Too few sizes or rounds, or no category touches data.
    Unknown,
}

fn crossover(echoes: &Echoes, panel: &Panel) -> Crossover {
    let rounds = panel.splits.iter().map(Vec::len).min().unwrap_or(0);
    let touches = |category: &tollgate_sampling::Category| category.touches_data;
    if echoes.sizes.len() < 3 || rounds < 2 || !echoes.categories.categories.iter().any(touches) {
        return Crossover::Unknown;
    }
    // What the others take less what touching data takes, for each message, by size and round.
    let margins: Vec<Vec<f64>> = panel
        .splits
        .iter()
        .map(|splits| {
            let margin = |split: &Split| {
                let touching = touching_ns(&echoes.categories, split);
                let rest = split.total_ns() - touching;
                (rest - touching) / (2.0 * split.operations.max(1) as f64)
            };
            splits.iter().take(rounds).map(margin).collect()
        })
        .collect();
    crossing(&echoes.sizes, &margins, rounds)
}

/// The line through the means of the rounds, and where it meets zero; its interval by leaving out one round after the other
/// (the jackknife).
fn crossing(sizes: &[usize], margins: &[Vec<f64>], rounds: usize) -> Crossover {
    let without = |left_out: Option<usize>| {
        let points: Vec<(f64, f64)> = sizes
            .iter()
            .zip(margins)
            .map(|(&size, values)| {
                let kept = values.iter().enumerate();
                let kept: Vec<f64> = kept
                    .filter(|(round, _)| Some(*round) != left_out)
                    .map(|(_, value)| *value)
                    .collect();
                (size as f64, kept.iter().sum::<f64>() / kept.len() as f64)
            })
            .collect();
        stats::line(&points)
    };
    let Some(line) = without(None) else {
        return Crossover::Unknown;
    };
    match line.slope() {
        Some(slope) if slope.interval.low > 0.0 => return Crossover::Never,
        Some(slope) if slope.interval.high >= 0.0 => return Crossover::Unclear,
        Some(_) => {}
        None => return Crossover::Unknown,
    }
    let at = |line: &stats::Line| -line.intercept / line.slope;
    let whole = at(&line);
    let n = rounds as f64;
    let pseudo: Vec<f64> = (0..rounds)
        .filter_map(|round| Some(n * whole - (n - 1.0) * at(&without(Some(round))?)))
        .collect();
    Mean::of(&pseudo).map_or(Crossover::Unknown, |mean| {
        Crossover::At(Mean {
            value: whole,
            ..mean
        })
    })
}

fn crossover_cell(crossover: &Crossover) -> Cell {
    match crossover {
        Crossover::At(mean) => mean.cell(),
        Crossover::Never => Cell::text("none"),
        Crossover::Unclear => Cell::text("not told apart from none"),
        Crossover::Unknown => Cell::NotAvailable {
            reason: "it takes three sizes and a category that touches data".to_owned(),
        },
    }
}

/// A number of the paper's text, which is of the smallest and of the largest size.
pub(super) fn fact_at(size: usize, fact: &str) -> Cell {
    let published = || {
        let fact = papers::fact(&format!("{PAPER}/{fact}"))?;
        let source = source(&format!("section {}", fact.place))?;
        Some(present::published_cell(Some(fact.value), &source))
    };
    let is_stated = matches!(size, 1 | 8_192);
    let stated = is_stated.then(published).flatten();
    stated.unwrap_or_else(|| Cell::text("-"))
}

/// The numbers of the paper's text beside ours.
fn published_and_measured(echoes: &Echoes, crossovers: &[Crossover]) -> Table {
    let mut columns: Vec<Column> = Vec::new();
    for panel in &echoes.panels {
        columns.push(column(panel.name(echoes), Unit::None));
    }
    columns.push(column("1996", Unit::None));
    let touching = |at: usize| -> Vec<Cell> {
        echoes
            .panels
            .iter()
            .map(|panel| {
                let mean = panel.percent(at, |split| touching_ns(&echoes.categories, split));
                cell_of(panel, at, mean)
            })
            .collect()
    };
    let last = echoes.sizes.len() - 1;
    let row = |label: String, mut cells: Vec<Cell>, then: Cell| {
        cells.push(then);
        present::plain_row(label, cells)
    };
    Table {
        id: "then-and-now".to_owned(),
        title: "Touching data, then and now".to_owned(),
        columns,
        rows: vec![
            row(
                format!("Share at {}, %", format::size(echoes.sizes[0])),
                touching(0),
                fact_at(echoes.sizes[0], "data-touching-1-byte"),
            ),
            row(
                format!("Share at {}, %", format::size(echoes.sizes[last])),
                touching(last),
                fact_at(echoes.sizes[last], "data-touching-large"),
            ),
            row(
                "Takes as long as all else at, bytes".to_owned(),
                crossovers.iter().map(crossover_cell).collect(),
                Cell::text("-"),
            ),
        ],
    }
}

/// The relative standard errors of a category, in hundredths, over the sizes at which it takes more than a negligible part.
fn errors(panel: &Panel, category: usize) -> Vec<f64> {
    let errors = panel.relative_errors(category).into_iter();
    errors.map(|error| 100.0 * error).collect()
}

fn average(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn error_table(echoes: &Echoes) -> Table {
    let rows = names(&echoes.categories)
        .enumerate()
        .map(|(category, name)| {
            let cells = echoes
                .panels
                .iter()
                .map(|panel| match average(&errors(panel, category)) {
                    Some(average) => Cell::exact(average),
                    None => Cell::NotAvailable {
                        reason: "below 1 % of the time at every size, or too few rounds".to_owned(),
                    },
                });
            present::plain_row(name, cells.collect())
        });
    Table {
        id: "standard-error".to_owned(),
        title: "Standard error of the mean, relative, averaged over the sizes".to_owned(),
        columns: echoes
            .panels
            .iter()
            .map(|panel| column(panel.name(echoes), Unit::Percent))
            .collect(),
        rows: rows.collect(),
    }
}

/// The categories of the study of 2021, at some of the sizes.
fn host_stack_table(echoes: &Echoes) -> Table {
    let categories = Categories::host_stack();
    let mut classifier = Classifier::new(categories.clone());
    let places = present::some(echoes.sizes.len(), 3);
    let mut columns = Vec::new();
    let mut splits: Vec<Vec<Split>> = Vec::new();
    for panel in &echoes.panels {
        for &at in &places {
            let name = format!("{}, {}", panel.name(echoes), format::size(echoes.sizes[at]));
            columns.push(column(name, Unit::Percent));
            splits.push(echoes.survey.splits(panel.first + at, &mut classifier));
        }
    }
    let rows = names(&categories).enumerate().map(|(category, name)| {
        let cells = splits.iter().map(|rounds| {
            let shares: Vec<f64> = rounds
                .iter()
                .filter(|split| split.total_ns() > 0.0)
                .map(|split| 100.0 * split.category_ns(category) / split.total_ns())
                .collect();
            Mean::of(&shares).map_or_else(|| Cell::text("-"), |mean| mean.cell())
        });
        present::plain_row(name, cells.collect())
    });
    Table {
        id: "host-stack-2021".to_owned(),
        title: "The same samples by the categories of Cai et al., SIGCOMM 2021".to_owned(),
        columns,
        rows: rows.collect(),
    }
}

/// Lines over the size, linear as in the paper.
pub(super) fn lines(
    title: String,
    y: (&str, Unit),
    series: Vec<Series>,
    command: &str,
) -> Option<Figure> {
    let series: Vec<Series> = series
        .into_iter()
        .filter(|line| line.points.len() > 1)
        .collect();
    (!series.is_empty()).then(|| Figure::Lines {
        title,
        x: Axis {
            label: "Size of the message".to_owned(),
            unit: Unit::Bytes,
            scale: Scale::Linear,
        },
        y: Axis {
            label: y.0.to_owned(),
            unit: y.1,
            scale: Scale::Linear,
        },
        series,
        command: command.to_owned(),
    })
}

/// A line over the sizes up to `most`.
pub(super) fn series(
    label: &str,
    sizes: &[usize],
    most: usize,
    mean: impl Fn(usize) -> Option<Mean>,
) -> Series {
    let points = sizes.iter().enumerate().filter(|(_, size)| **size <= most);
    Series {
        label: label.to_owned(),
        points: points
            .filter_map(|(at, &size)| {
                let mean = mean(at)?;
                Some(Point {
                    x: size as f64,
                    y: mean.value,
                    ci: mean.interval(),
                })
            })
            .collect(),
        published: false,
    }
}

fn time_figure(echoes: &Echoes, panel: &Panel, most: usize, command: &str) -> Option<Figure> {
    let all = names(&echoes.categories)
        .enumerate()
        .map(|(category, name)| {
            series(name, &echoes.sizes, most, |at| {
                panel.mean(at, |split| split.category_ns(category))
            })
        });
    let small = if most == usize::MAX {
        ""
    } else {
        ", small messages"
    };
    lines(
        format!("{}: processor time by category{small}", panel.name(echoes)),
        ("Time for each message", Unit::Nanoseconds),
        all.collect(),
        command,
    )
}

fn cumulative_figure(echoes: &Echoes, panel: &Panel, command: &str) -> Option<Figure> {
    let all = names(&echoes.categories)
        .enumerate()
        .map(|(category, name)| {
            series(name, &echoes.sizes, usize::MAX, |at| {
                panel.percent(at, |split| cumulative_ns(split, category))
            })
        });
    lines(
        format!(
            "{}: cumulative shares, each line with those below it",
            panel.name(echoes)
        ),
        ("Share of the time", Unit::Percent),
        all.collect(),
        command,
    )
}

/// TCP and UDP over the first path; the tables have the others.
fn finding(echoes: &Echoes, crossovers: &[Crossover]) -> FindingText {
    let last = echoes.sizes.len() - 1;
    let first_path = echoes.panels.first().map(|panel| panel.path);
    let panels = echoes.panels.iter().zip(crossovers);
    let panels = panels.filter(|(panel, _)| Some(panel.path) == first_path);
    let mut finding = Finding::default();
    for (panel, crossover) in panels {
        let name = panel.name(echoes);
        let mut parts = Vec::new();
        let mut places = vec![0, last];
        places.dedup();
        for at in places {
            let (size, rounds) = (format::size(echoes.sizes[at]), &panel.splits[at]);
            let total = claim::mean(panel.mean(at, Split::total_ns), rounds);
            let touching = panel.percent(at, |split| touching_ns(&echoes.categories, split));
            let touching = claim::mean(touching, rounds);
            let total = finding.claim(
                format!("the time of {size} over {name}"),
                total.and_then(Evidence::amount),
            );
            let touching = finding.claim(
                format!("how much of {size} over {name} touches data"),
                touching.and_then(Evidence::share),
            );
            if let (Some(total), Some(touching)) = (total, touching) {
                parts.push(format!(
                    "{} for {size}, {} of it to touch data",
                    total.duration(),
                    touching.percent()
                ));
            }
        }
        if parts.is_empty() {
            continue;
        }
        let overtakes = match crossover {
            Crossover::At(at) if at.value > echoes.sizes[last] as f64 => format!(
                ", so that it would outweigh the rest only from about {} bytes",
                format::significant(at.value)
            ),
            Crossover::At(at) if at.value > 0.0 => format!(
                ", so that it outweighs the rest from about {} bytes",
                format::significant(at.value)
            ),
            Crossover::At(_) => ", and so outweighs the rest at every size".to_owned(),
            Crossover::Never => ", and so never outweighs the rest".to_owned(),
            Crossover::Unclear | Crossover::Unknown => String::new(),
        };
        finding.say(format!(
            "to receive and send back a message over {name} takes the kernel {}{overtakes}",
            format::list(&parts)
        ));
    }
    kay_modes::say(echoes, &mut finding);
    finding.finish()
}

/// Lines of trust of both experiments on echoes.
pub(super) fn trust(echoes: &Echoes) -> Vec<TrustLine> {
    let mut lines = echoes.survey.trust(&echoes.categories);
    lines.push(echoes.survey.covered(&echoes.categories));
    let categories = names(&echoes.categories).count();
    let mut all = Vec::new();
    let mut above = Vec::new();
    for panel in &echoes.panels {
        for (category, name) in names(&echoes.categories).take(categories - 1).enumerate() {
            if let Some(average) = average(&errors(panel, category)) {
                all.push(average);
                if average >= 100.0 * STANDARD_ERROR {
                    above.push(format!("{name} of {} {average:.1} %", panel.name(echoes)));
                }
            }
        }
    }
    if let Some(average) = average(&all) {
        let mut text = format!(
            "the relative standard error of the mean, averaged over sizes and over the categories that take at least 1 % of the \
             time, is {average:.1} % (asked for, as in 1996: below 5 %)"
        );
        if !above.is_empty() {
            text.push_str(&format!("; above it: {}", format::list(&above)));
        }
        lines.push(TrustLine {
            kind: TrustKind::Note,
            value: Some(average),
            unit: Unit::Percent,
            holds: average < 100.0 * STANDARD_ERROR,
            text,
        });
    }
    if let Some(reason) = &echoes.unseated {
        lines.push(present::note(format!(
            "not measured with both ends on two processors: {reason}"
        )));
    }
    if echoes.sizes.len() < echoes.wanted {
        lines.push(present::note(format!(
            "to end in time, cut to {} of {}",
            echoes.sizes.len(),
            format::counted(echoes.wanted as u64, "size", "sizes")
        )));
    }
    lines.push(present::note(
        "both ends of an echo receive a message and send it back, so its time is halved; over loopback no checksum is computed, \
         since nothing can be corrupted on the way",
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_cross_where_they_are_equal() {
        // 1,000 ns of other work, and 0.25 ns more of touching data for each byte.
        let sizes = [1, 1_000, 2_000, 3_000];
        let margins = |slope: f64| -> Vec<Vec<f64>> {
            let at = |size: &usize| 1_000.0 + slope * *size as f64;
            let rounds = [-3.0, 0.0, 3.0, 1.0];
            sizes
                .iter()
                .map(|size| rounds.iter().map(|round| at(size) + round).collect())
                .collect()
        };
        let Crossover::At(mean) = crossing(&sizes, &margins(-0.25), 4) else {
            panic!("no crossing");
        };
        assert!((mean.value - 4_001.0).abs() < 1.0, "{mean:?}");
        assert!(
            mean.interval
                .is_some_and(|interval| interval.contains(4_001.0))
        );
        assert_eq!(crossing(&sizes, &margins(0.25), 4), Crossover::Never);
        let noise = vec![
            vec![1.0, 2.0],
            vec![3.0, 1.0],
            vec![0.0, 2.0],
            vec![2.0, 2.0],
        ];
        assert_eq!(crossing(&sizes, &noise, 2), Crossover::Unclear);
    }

    #[test]
    fn without_sampling_every_category_says_why() {
        let content = unavailable(&Categories::kay(), "not allowed");
        assert_eq!(content.finding, "Not available here: not allowed.");
        let rows = &content.tables[0].rows;
        assert_eq!(rows.len(), 7);
        assert!(rows.iter().all(|row| matches!(
            &row.cells[0],
            Cell::NotAvailable { reason } if reason == "not allowed"
        )));
        assert!(!content.trust[0].holds);
    }
}
