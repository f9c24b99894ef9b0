//! `kay-detail`: the parts of each category of `kay-breakdown`, as Kay and Pasquale 1996 show them in figures 7 to 12.

use tollgate_run::{Cell, Column, Figure, Row, RowKind, Source, Table, Unit, format, present};
use tollgate_sampling::Categories;

use super::kay_breakdown::{cell_of, lines, series, source, trust, unavailable};
use super::{Content, Experiment, Reported};
use crate::claim::{self, Claim, Evidence, Finding, FindingText, Refusal};
use crate::context::{Context, Options};
use crate::echoes::{self, Echoes, Panel};
use crate::error::Error;
use crate::sampled::{Sampled, Split};

/// Sizes that the tables show, of those that were measured.
const SHOWN: usize = 6;
/// A category with less than this share of the time at the smallest size has no figure.
const DRAWN: f64 = 0.05;

/// The parts of each category.
pub(super) struct KayDetail;

impl Experiment for KayDetail {
    fn name(&self) -> &'static str {
        "kay-detail"
    }

    fn title(&self) -> &'static str {
        "Processor time within each category"
    }

    fn paper(&self) -> Option<Source> {
        source("Figs. 7 to 12, section VIII")
    }

    fn summary(&self) -> &'static str {
        "the parts of each of Kay and Pasquale's categories, from the same samples"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn weight(&self) -> u32 {
        1
    }

    fn concerns(&self, options: &Options) -> bool {
        !echoes::kernel_paths(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sampled = echoes::of(self.name(), context)?;
        Ok(match &*sampled {
            Sampled::Measured(echoes) => {
                let panels = || echoes.panels.iter();
                Content {
                    finding: finding(echoes),
                    tables: panels().map(|panel| table(echoes, panel)).collect(),
                    figures: panels()
                        .flat_map(|panel| figures(echoes, panel, command))
                        .collect(),
                    trust: trust(echoes),
                }
            }
            Sampled::Unavailable(reason) => {
                let categories = context.options.categories.clone();
                let categories = categories.unwrap_or_else(Categories::kay);
                unavailable(&categories, reason)
            }
        })
    }
}

/// ns of a part of a category.
fn part_ns(split: &Split, category: usize, part: usize) -> f64 {
    let share = split.breakdown.shares.get(category);
    let count = share.and_then(|share| share.parts.get(part));
    split.ns(count.map_or(0, |count| count.weight))
}

fn row(label: &str, depth: u8, kind: RowKind, cells: Vec<Cell>) -> Row {
    Row {
        depth,
        kind,
        ..present::plain_row(label, cells)
    }
}

fn table(echoes: &Echoes, panel: &Panel) -> Table {
    let places = present::some(echoes.sizes.len(), SHOWN);
    let sizes: Vec<usize> = places.iter().map(|&at| echoes.sizes[at]).collect();
    let cells = |figure: &dyn Fn(&Split) -> f64| -> Vec<Cell> {
        places
            .iter()
            .map(|&at| cell_of(panel, at, panel.mean(at, figure)))
            .collect()
    };
    let mut rows = Vec::new();
    for (at, category) in echoes.categories.categories.iter().enumerate() {
        let whole = cells(&|split| split.category_ns(at));
        rows.push(row(&category.name, 0, RowKind::Total, whole));
        for (part, name) in category.parts.iter().enumerate() {
            let cells = cells(&|split| part_ns(split, at, part));
            rows.push(row(name, 1, RowKind::Plain, cells));
        }
    }
    let other = echoes.categories.categories.len();
    rows.push(row(
        &echoes.categories.other,
        0,
        RowKind::Unattributed,
        cells(&|split| split.category_ns(other)),
    ));
    rows.push(row("Total", 0, RowKind::Total, cells(&Split::total_ns)));
    let columns = sizes.iter().map(|&size| Column {
        name: format::size(size),
        unit: Unit::Nanoseconds,
    });
    let name = panel.name(echoes);
    Table {
        id: format!("parts-{}", name.to_lowercase().replace(", ", "-")),
        title: format!(
            "{name}: processor time in the kernel for each message received and sent back"
        ),
        columns: columns.collect(),
        rows,
    }
}

/// A figure for each category that has parts and matters.
fn figures(echoes: &Echoes, panel: &Panel, command: &str) -> Vec<Figure> {
    let matters = |at: usize| {
        let share = panel.percent(0, |split| split.category_ns(at));
        share.is_some_and(|share| share.value >= 100.0 * DRAWN)
    };
    let categories = echoes.categories.categories.iter().enumerate();
    categories
        .filter(|(at, category)| category.parts.len() > 1 && matters(*at))
        .filter_map(|(at, category)| {
            let parts = category.parts.iter().enumerate().map(|(part, name)| {
                series(name, &echoes.sizes, usize::MAX, |place| {
                    panel
                        .mean(place, |split| part_ns(split, at, part))
                        .filter(|mean| mean.value > 0.0)
                })
            });
            lines(
                format!("{}: {}", panel.name(echoes), category.name),
                ("Time for each message", Unit::Nanoseconds),
                parts.collect(),
                command,
            )
        })
        .collect()
}

/// The parts that take the most at the smallest size, by protocol.
fn finding(echoes: &Echoes) -> FindingText {
    const STATED: usize = 3;
    // The first path; the tables have the others.
    let first_path = echoes.panels.first().map(|panel| panel.path);
    let panels = echoes.panels.iter();
    let panels = panels.filter(|panel| Some(panel.path) == first_path);
    let mut finding = Finding::default();
    for panel in panels {
        let mut parts: Vec<(f64, Claim, String)> = Vec::new();
        let mut refused = Ok(());
        for (at, category) in echoes.categories.categories.iter().enumerate() {
            for (part, name) in category.parts.iter().enumerate() {
                let share = panel.percent(0, |split| part_ns(split, at, part));
                match claim::mean(share, &panel.splits[0]).and_then(Evidence::share) {
                    Ok(claim) => {
                        parts.push((claim.value(), claim, format!("{name} ({})", category.name)));
                    }
                    // A part that nearly no sample hit is not among the largest.
                    Err(Refusal::BelowZero) => {}
                    Err(why) => refused = Err(why),
                }
            }
        }
        let of = format!(
            "of a {} message over {}",
            format::size(echoes.sizes[0]),
            panel.name(echoes)
        );
        if let Err(why) = refused {
            finding.refuse(format!("the largest parts {of}"), &why);
            continue;
        }
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let largest: Vec<String> = parts
            .iter()
            .take(STATED)
            .map(|(_, share, name)| format!("{name} {}", share.percent()))
            .collect();
        if !largest.is_empty() {
            finding.say(format!(
                "{of}, the largest parts are {}",
                format::list(&largest)
            ));
        }
    }
    if finding.is_empty() {
        return FindingText::unavailable("the category file names no parts");
    }
    finding.finish()
}
