//! `rr-coverage`, `crr-coverage`, `stream-coverage`: coverage of a workload by the kernel's gates, all attached at once. For each
//! path and mode it shows the share of messages and of segments that was traced end to end, and what was not.

use tollgate_gate::span::Position;
use tollgate_run::{
    self as run, Cell, Column, Measured, Offload, RowKind, Source, Table, TrustKind, TrustLine,
    Unit, Workload, format, present,
};
use tollgate_stats::interquartile_mean;

use super::{Content, Experiment, Reported};
use crate::claim::{Evidence, Finding, FindingText};
use crate::context::{Context, Options};
use crate::coverage::{self, CellCoverage, Coverage, Row, Share};
use crate::error::Error;
use crate::layout::layer;

/// The share of messages that should be traced.
const MESSAGES: f64 = 0.99;
/// The share of segments that should be traced.
const SEGMENTS: f64 = 0.95;
/// Sizes of a message unless given.
const OF_MESSAGES: [usize; 4] = [4, 200, 1_400, 8_000];
/// Sizes of a write unless given: far below a segment, one segment, and many.
const OF_WRITES: [usize; 4] = [64, 1_448, 16_384, 65_536];

/// One workload under all gates.
pub(super) struct GateCoverage {
    name: &'static str,
    title: &'static str,
    summary: &'static str,
    workload: Workload,
}

/// Request-response.
pub(super) const RR: GateCoverage = GateCoverage {
    name: "rr-coverage",
    title: "Requests and responses under all gates of the kernel",
    summary: "coverage of rr: messages and segments that the kernel's gates trace end to end",
    workload: Workload::Rr,
};
/// Connect, request, response, close.
pub(super) const CRR: GateCoverage = GateCoverage {
    name: "crr-coverage",
    title: "Connections under all gates of the kernel",
    summary: "coverage of crr: messages and segments that the kernel's gates trace end to end",
    workload: Workload::Crr,
};
/// One way.
pub(super) const STREAM: GateCoverage = GateCoverage {
    name: "stream-coverage",
    title: "A stream under all gates of the kernel",
    summary: "coverage of a stream: writes and segments that the kernel's gates trace, with GSO and GRO",
    workload: Workload::Stream,
};

impl Experiment for GateCoverage {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn paper(&self) -> Option<Source> {
        None
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn weight(&self) -> u32 {
        4
    }

    fn concerns(&self, options: &Options) -> bool {
        !coverage::ways(self.workload, options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        let usual: &[usize] = match self.workload {
            Workload::Rr | Workload::Crr => &OF_MESSAGES,
            Workload::Stream => &OF_WRITES,
        };
        let sizes = context.options.sizes_or(usual);
        let coverage = coverage::run(self.name, self.workload, &sizes, context)?;
        Ok(self.shown(&coverage, &sizes))
    }
}

impl GateCoverage {
    fn shown(&self, coverage: &Coverage, sizes: &[usize]) -> Content {
        let mut tables = vec![
            shares(
                "messages",
                &self.messages("traced"),
                coverage,
                sizes,
                |seen| seen.messages,
            ),
            shares("segments", "Segments traced", coverage, sizes, |seen| {
                seen.segments
            }),
            events(coverage),
        ];
        tables.extend(
            coverage
                .rows
                .iter()
                .filter(|row| row.carried.offload == Offload::Usual)
                .map(|row| spans(row, sizes)),
        );
        Content {
            finding: self.finding(coverage),
            tables,
            figures: Vec::new(),
            trust: self.trust(coverage, sizes),
        }
    }

    /// Name of a message in the heading of a table.
    fn messages(&self, verb: &str) -> String {
        match self.workload {
            Workload::Rr | Workload::Crr => format!("Messages {verb}"),
            Workload::Stream => format!("Writes {verb}"),
        }
    }

    fn finding(&self, coverage: &Coverage) -> FindingText {
        let what = match self.workload {
            Workload::Rr => "requests and responses",
            Workload::Crr => "messages on connections of their own",
            Workload::Stream => "writes",
        };
        let mut finding = Finding::default();
        let worst = |of: fn(&CellCoverage) -> Share| {
            measured(coverage)
                .filter_map(|(row, _, seen)| Some((row, of(seen), of(seen).of_one()?)))
                .min_by(|a, b| a.2.total_cmp(&b.2))
        };
        if let (Some((row, messages, _)), Some((_, segments, _))) =
            (worst(|seen| seen.messages), worst(|seen| seen.segments))
        {
            let share = |of: Share| Evidence::counted(of.traced, of.sent).share();
            let messages = finding.claim(
                format!("the share of {what} that was traced"),
                share(messages),
            );
            let segments = finding.claim(
                "the share of their segments that was traced",
                share(segments),
            );
            let lost: u64 = measured(coverage).map(|(_, _, seen)| seen.lost).sum();
            if let (Some(messages), Some(segments)) = (messages, segments) {
                finding.say(format!(
                    "the kernel's gates trace at least {} % of {what} end to end, and {} % of their segments (lowest: {}); {} lost",
                    hundredths(messages.value()),
                    hundredths(segments.value()),
                    row.carried.label(),
                    format::counted(lost, "event was", "events were")
                ));
            }
        }
        finding.finish()
    }

    fn trust(&self, coverage: &Coverage, sizes: &[usize]) -> Vec<TrustLine> {
        let mut lines: Vec<TrustLine> = coverage.rows.iter().flat_map(trust_of).collect();
        lines.push(present::note(
            "traced is what was seen at every gate that the path has, of what was sent, which is known; all gates are attached at \
             once, so the times lie above those without gates by what the gates between cost: wolman-transmit and \
             wolman-receive measure spans one at a time",
        ));
        lines.push(present::note(
            "a segment is as many bytes as a full one carries, counted from where its message begins, and passes a gate when the \
             piece with its last byte does, however many travel in one skb (GSO, GRO, coalescing)",
        ));
        if coverage
            .rows
            .iter()
            .any(|row| row.carried.offload == Offload::Both)
        {
            lines.push(present::note(
                "with GRO a veth device polls (NAPI) and netif_rx is not called, so that way has no gate driver.out.end",
            ));
        }
        lines.extend(coverage.unresolved.iter().map(|(gate, reason)| {
            present::note(format!(
                "the boundary {} is not resolved, so nothing is looked for there: {reason}",
                gate.name()
            ))
        }));
        for row in &coverage.rows {
            for (size, seen) in sizes.iter().zip(&row.sizes) {
                if let Err(reason) = seen {
                    lines.push(present::warning(format!(
                        "{}, {} failed: {reason}",
                        row.carried.label(),
                        format::size(*size)
                    )));
                }
            }
        }
        if coverage.stopped {
            lines.push(present::warning(
                "the run was stopped; what is shown was measured until then",
            ));
        }
        lines
    }
}

/// Cells that were measured, by path, mode and size.
fn measured(coverage: &Coverage) -> impl Iterator<Item = (&Row, usize, &CellCoverage)> {
    coverage.rows.iter().flat_map(|row| {
        let sizes = row.sizes.iter().enumerate();
        sizes.filter_map(move |(at, seen)| Some((row, at, seen.as_ref().ok()?)))
    })
}

/// A share in percent that is rounded down, so that what is missing is never rounded away.
fn hundredths(percent: f64) -> String {
    format!("{:.2}", (percent * 1e2).floor() / 1e2)
}

fn number(value: f64, n: u64) -> Cell {
    Cell::Value(Measured {
        value,
        n: Some(n),
        ..Measured::default()
    })
}

fn not_available(reason: &str) -> Cell {
    Cell::NotAvailable {
        reason: reason.to_owned(),
    }
}

/// The cell of a size, which a run that was stopped may not have.
fn cell(row: &Row, at: usize, of: impl Fn(&CellCoverage) -> Option<Cell>) -> Cell {
    match row.sizes.get(at) {
        Some(Ok(seen)) => of(seen).unwrap_or_else(|| not_available("no message was seen there")),
        Some(Err(reason)) => not_available(reason),
        None => not_available("the run was stopped before"),
    }
}

fn shares(
    id: &str,
    title: &str,
    coverage: &Coverage,
    sizes: &[usize],
    of: impl Fn(&CellCoverage) -> Share,
) -> Table {
    let rows = coverage.rows.iter().map(|row| {
        let cells = (0..sizes.len()).map(|at| {
            cell(row, at, |seen| {
                let share = of(seen);
                Some(number(100.0 * share.of_one()?, share.sent))
            })
        });
        present::plain_row(row.carried.label(), cells.collect())
    });
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        columns: present::size_columns(sizes, Unit::Percent),
        rows: rows.collect(),
    }
}

/// A count of a cell.
type CountOf = fn(&CellCoverage) -> u64;

/// Table of the events by their fate, all sizes together.
fn events(coverage: &Coverage) -> Table {
    let counts: [(&str, CountOf); 6] = [
        ("events", |seen| seen.events),
        ("lost", |seen| seen.lost),
        ("of listeners", |seen| seen.listening),
        ("of no message", |seen| seen.unmatched),
        ("passed again", |seen| seen.repeated),
        ("segments in larger pieces", |seen| seen.joint.1),
    ];
    let rows = coverage.rows.iter().map(|row| {
        let sum = |of: CountOf| row.sizes.iter().flatten().map(of).sum::<u64>();
        let cells = counts.iter().map(|(_, of)| {
            Cell::Value(Measured {
                value: sum(*of) as f64,
                ..Measured::default()
            })
        });
        present::plain_row(row.carried.label(), cells.collect())
    });
    Table {
        id: "events".to_owned(),
        title: "What became of the events".to_owned(),
        columns: counts
            .iter()
            .map(|(name, _)| Column {
                name: (*name).to_owned(),
                unit: Unit::Count,
            })
            .collect(),
        rows: rows.collect(),
    }
}

/// Time of the messages between gates, with all gates attached.
fn spans(row: &Row, sizes: &[usize]) -> Table {
    let spans = row.table.spans().iter().enumerate();
    let rows = spans
        .filter(|(_, span)| span.position != Position::Beside)
        .map(|(index, span)| {
            let cells = (0..sizes.len()).map(|at| {
                cell(row, at, |seen| {
                    let times = seen.spans.get(index)?;
                    Some(number(interquartile_mean(times)?, times.len() as u64))
                })
            });
            run::Row {
                label: span.name.to_owned(),
                depth: 0,
                kind: match span.kind {
                    tollgate_gate::Kind::Processing => RowKind::Processing,
                    tollgate_gate::Kind::Queueing => RowKind::Queueing,
                },
                layer: Some(layer(span.layer)),
                note: Some(format!("{} -> {}", span.from.name(), span.to.name())),
                cells: cells.collect(),
            }
        });
    Table {
        id: format!("spans-{}-{}", row.carried.path, row.carried.mode.placement),
        title: format!(
            "{}: the way of a message from gate to gate, all gates attached, interquartile mean",
            row.carried.label()
        ),
        columns: present::size_columns(sizes, Unit::Nanoseconds),
        rows: rows.collect(),
    }
}

/// Lines of trust on lost events and on coverage.
fn trust_of(row: &Row) -> Vec<TrustLine> {
    let seen = || row.sizes.iter().flatten();
    let label = row.carried.label();
    let worst = |of: fn(&CellCoverage) -> Share| {
        seen().filter_map(|seen| of(seen).of_one()).reduce(f64::min)
    };
    let (Some(messages), Some(segments)) =
        (worst(|seen| seen.messages), worst(|seen| seen.segments))
    else {
        return Vec::new();
    };
    let unmatched: u64 = seen()
        .map(|seen| {
            let open = |share: Share| share.sent - share.traced.min(share.sent);
            open(seen.messages) + open(seen.segments)
        })
        .sum();
    let lost: u64 = seen().map(|seen| seen.lost).sum();
    let mut text = format!(
        "{label}: at least {} % of the messages and {} % of the segments were seen at every gate; {} were not",
        hundredths(100.0 * messages),
        hundredths(100.0 * segments),
        format::whole(unmatched)
    );
    let gates: Vec<String> = row
        .table
        .gates()
        .iter()
        .filter_map(|gate| {
            let missed: u64 = seen().filter_map(|seen| seen.missed.get(&gate)).sum();
            (missed > 0).then(|| format!("{} at {}", format::whole(missed), gate.name()))
        })
        .collect();
    if !gates.is_empty() {
        text.push_str(&format!(", missed {}", format::list(&gates)));
    }
    vec![
        TrustLine {
            kind: TrustKind::EventsLost,
            value: Some(lost as f64),
            unit: Unit::Count,
            holds: lost == 0,
            text: format!("{label}: {} lost", format::counted(lost, "event", "events")),
        },
        TrustLine {
            kind: TrustKind::JoinRate,
            value: Some(100.0 * messages.min(segments)),
            unit: Unit::Percent,
            holds: messages >= MESSAGES && segments >= SEGMENTS,
            text,
        },
    ]
}

#[cfg(test)]
mod tests;
