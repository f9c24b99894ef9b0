//! `rr-by-size`: round trips over all paths, by the size of the message; beside them Wolman, Voelker and Thekkath 1994,
//! Table 1.

use tollgate_papers as papers;
use tollgate_run::{PathId, Point, Row, Series, Source, Table, Unit, Workload, format, present};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Finding, FindingText};
use crate::compare;
use crate::context::{Context, ITERATIONS, REPETITIONS, SIZES};
use crate::error::Error;
use crate::interleave::{self, Matrix};
use crate::layout;
use crate::outcome::{Figure, Outcome};
use crate::prediction;

const TABLE: &str = "wolman-1994/table-1";
const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;

/// Round trips by size.
pub(super) struct RrBySize;

impl Experiment for RrBySize {
    fn name(&self) -> &'static str {
        "rr-by-size"
    }

    fn title(&self) -> &'static str {
        "Round trips by size"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(TABLE)
    }

    fn summary(&self) -> &'static str {
        "request-response on one connection, the paths side by side, by the size of the message"
    }

    fn reported(&self) -> Reported {
        Reported::Always
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &[] }
    }

    fn takes_link(&self) -> bool {
        true
    }

    fn takes_mtu(&self) -> bool {
        true
    }

    fn takes_datagrams(&self) -> bool {
        true
    }

    fn weight(&self) -> u32 {
        8
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let matrix = Matrix::of(Workload::Rr, context)?;
        let outcome = interleave::run(self.name(), matrix, &sizes, context)?;
        let datagrams = context.options.datagrams;
        let quantity = if datagrams {
            "Round trip over UDP, median"
        } else {
            "Round trip, median"
        };
        let table = layout::table_by_size(
            "round-trips",
            quantity,
            Unit::Nanoseconds,
            &outcome,
            Figure::Median,
        );
        // What was published, and what is predicted, is TCP.
        let published = (!datagrams).then(|| published_lines(&sizes));
        let figure = layout::lines_by_size(
            "Round trip over the size of the message, each way",
            "Size of the message",
            (quantity, Unit::Nanoseconds),
            &outcome,
            Figure::Median,
            published.unwrap_or_default(),
            command,
        );
        let of_tcp = [published_table(&sizes), prediction::table(&outcome)];
        let of_tcp = of_tcp.into_iter().flatten().filter(|_| !datagrams);
        Ok(Content {
            finding: finding(&outcome, datagrams),
            tables: std::iter::once(table).chain(of_tcp).collect(),
            figures: vec![figure],
            trust: layout::trust(
                &outcome,
                context.options.iterations.unwrap_or(ITERATIONS),
                context.options.repetitions.unwrap_or(REPETITIONS),
                "round trips",
            ),
        })
    }
}

/// The paper's columns: what the line is called and the column's id.
const LINES: [(&str, &str); 2] = [
    ("Ethernet, DECstation 5000/200", "ethernet"),
    ("ATM, DECstation 5000/200", "atm"),
];

/// A published round trip in nanoseconds.
pub(super) fn published_ns(size: usize, column: &str) -> Option<f64> {
    let us = papers::table(TABLE)?.cell(&size.to_string(), column)?;
    Some(us * NANOSECONDS_PER_MICROSECOND)
}

/// The paper's numbers at these sizes; none when it has none.
pub(super) fn published_table(sizes: &[usize]) -> Option<Table> {
    let source = papers::source(TABLE)?;
    let rows: Vec<Row> = LINES
        .iter()
        .filter(|(_, column)| {
            sizes
                .iter()
                .any(|&size| published_ns(size, column).is_some())
        })
        .map(|(label, column)| {
            let cells = sizes
                .iter()
                .map(|&size| present::published_cell(published_ns(size, column), &source));
            present::plain_row(*label, cells.collect())
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        id: "published".to_owned(),
        title: "Round trip in 1994, mean, TCP of BSD 4.4 in ULTRIX 4.2A".to_owned(),
        columns: present::size_columns(sizes, Unit::Nanoseconds),
        rows,
    })
}

pub(super) fn published_lines(sizes: &[usize]) -> Vec<Series> {
    LINES
        .iter()
        .map(|(label, column)| Series {
            label: (*label).to_owned(),
            points: sizes
                .iter()
                .filter_map(|&size| {
                    Some(Point {
                        x: size as f64,
                        y: published_ns(size, column)?,
                        ci: None,
                    })
                })
                .collect(),
            published: true,
        })
        .filter(|line| !line.points.is_empty())
        .collect()
}

/// Says the time of a message on each path at the smallest size, and compares paths that correspond.
fn finding(outcome: &Outcome, datagrams: bool) -> FindingText {
    let paths = [
        PathId::KernelLoopback,
        PathId::KernelRemote,
        PathId::StackShm,
        PathId::StackMemory,
    ];
    let mut finding = Finding::default();
    if let Some((size, takes)) =
        compare::at_first_size(outcome, &paths, Figure::Median, &mut finding)
    {
        let size = format::whole(size as u64);
        let transport = if datagrams { " over UDP" } else { "" };
        finding.say(format!("a {size}-byte round trip{transport} takes {takes}"));
    }
    for (a, b) in [
        (PathId::StackShm, PathId::KernelLoopback),
        (PathId::StackMemory, PathId::PeerSmoltcp),
    ] {
        compare::over_sizes(outcome, a, b, Figure::Median, &mut finding);
    }
    finding.finish()
}
