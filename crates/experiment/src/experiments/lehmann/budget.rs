//! `lehmann-budget`: whether the layers keep up with a line: the time that a line leaves for a full packet, against the work of each
//! layer (Lehmann and Benz 2002, section 4).

use tollgate_gate::Direction;
use tollgate_run::{
    Bar, Cell, Column, Figure, Point, Row, RowKind, Segment, SegmentKind, Series, Table, Unit,
    format, present,
};

use super::super::Content;
use super::processing::{LEAST_STATED, no_work, work_time};
use super::{View, axis, fact, figure, not_measured, over_sizes, packet_work, span_row, way};
use crate::claim::{Evidence, Finding, FindingText, Refusal};
use crate::context::{LINE_RATE, Options};
use crate::layout;
use crate::per_packet::{Measured, PerPacket};

/// Bytes of a full Ethernet frame in the paper's reckoning: MTU and header, without preamble, check sequence and gap.
const FRAME: f64 = 1_514.0;
const BITS: f64 = 8.0;
/// Bits per second of the line in Lehmann and Benz 2002, section 4.
const PAPER_RATE: u64 = 1_000_000_000;
/// The reason why there is no time of very little work.
const TOO_SHORT: &str = "it takes less than 1 ns, which the clock cannot tell";

/// Section 4.
pub(in crate::experiments) const BUDGET: View = View {
    name: "lehmann-budget",
    title: "Time for a packet at a line's rate",
    place: "section 4",
    summary: "the time that a line leaves for a full packet (1.211 us at 10 Gb/s; --line-rate), and the layer that breaks it",
    weight: 1,
    parts,
};

/// Tables and figures of the measurement.
fn parts(per_packet: &PerPacket, options: &Options, command: &str) -> Content {
    let rate = options.line_rate.unwrap_or(LINE_RATE);
    let mut trust = super::trust(per_packet);
    trust.push(present::note(
            "a budget is that of one processor: work on a packet to send it, or to receive it, is done by one at a time; the copies \
             from the sender and to the reader and the reader's wakeup are not in it, nor are they in the paper, but that our \
             stack copies to the reader while it sums (receive: tcp)",
        ));
    Content {
        finding: finding(per_packet, rate),
        tables: vec![summary(per_packet, rate), layers(per_packet, rate)],
        figures: vec![bars(per_packet, command), lines(per_packet, rate, command)],
        trust,
    }
}

/// The time that a line of so many bits per second leaves for a full packet, in nanoseconds.
fn budget_ns(rate: u64) -> f64 {
    crate::predict::model::budget_ns(FRAME, rate as f64)
}

/// The rate in words.
fn line(rate: u64) -> String {
    match rate as f64 {
        rate if rate >= 1e9 => format!("{} Gb/s", format::significant(rate / 1e9)),
        rate => format!("{} Mb/s", format::significant(rate / 1e6)),
    }
}

/// The largest response that has all layers of a direction: nearly all of its packets are full.
fn place(measured: &Measured, direction: Direction) -> Option<usize> {
    (0..measured.sizes.len())
        .rev()
        .find(|&at| measured.sizes[at].path(direction).is_some())
}

/// The work of a direction on a packet, in nanoseconds.
fn path_ns(measured: &Measured, direction: Direction, at: usize) -> Option<f64> {
    Some(measured.sizes[at].path(direction)?.ns)
}

/// The layers in their order with what they and those before them take: the first at which it is more than the budget.
fn breaks(measured: &Measured, direction: Direction, budget: f64) -> Option<String> {
    let at = place(measured, direction)?;
    let mut sum = 0.0;
    for (index, span) in measured.worked(direction) {
        sum += measured.sizes[at].work(index)?.ns;
        if sum > budget {
            return Some(super::name(span));
        }
    }
    None
}

const WAYS: [Direction; 2] = [Direction::Tx, Direction::Rx];

fn summary(per_packet: &PerPacket, rate: u64) -> Table {
    let budget = budget_ns(rate);
    let column = |name: &str, unit| Column {
        name: name.to_owned(),
        unit,
    };
    let columns = vec![
        column("Budget", Unit::Nanoseconds),
        column("Work", Unit::Nanoseconds),
        column("Of the budget", Unit::Percent),
        column("Broken by", Unit::None),
        column("Lines of 1 Gb/s that it fills", Unit::Ratio),
    ];
    let mut rows = Vec::new();
    for measured in &per_packet.measured {
        for direction in WAYS {
            let ns = place(measured, direction).and_then(|at| path_ns(measured, direction, at));
            let reason = measured.without_gates.clone();
            let cells = match ns {
                Some(ns) if ns < LEAST_STATED => {
                    let mut cells = vec![Cell::exact(budget)];
                    cells.resize(columns.len(), super::not_available(TOO_SHORT.to_owned()));
                    cells
                }
                Some(ns) => vec![
                    Cell::exact(budget),
                    Cell::exact(ns),
                    Cell::exact(100.0 * ns / budget),
                    Cell::text(
                        breaks(measured, direction, budget)
                            .unwrap_or_else(|| "no layer".to_owned()),
                    ),
                    Cell::exact(budget_ns(PAPER_RATE) / ns),
                ],
                None => columns
                    .iter()
                    .map(|_| {
                        super::not_available(
                            reason
                                .clone()
                                .unwrap_or_else(|| "one of the layers was not measured".to_owned()),
                        )
                    })
                    .collect(),
            };
            let label = format!("{}, {}", measured.subject.label(), way(direction));
            rows.push(present::plain_row(label, cells));
        }
    }
    rows.extend(not_measured(per_packet, columns.len()));
    if let Some(source) = figure("sections 3.2.3 and 4") {
        for (label, least) in [
            ("2002 at 1 Gb/s, send", "send-processing-least"),
            ("2002 at 1 Gb/s, receive", "receive-processing-least"),
        ] {
            let published_table = fact(least).map(|us| us * 1_000.0);
            let budget = fact("gigabit-budget").map(|us| us * 1_000.0);
            let share = published_table
                .zip(budget)
                .map(|(published_table, budget)| 100.0 * published_table / budget);
            let cells = vec![
                present::published_cell(budget, &source),
                present::published_cell(published_table, &source),
                share.map_or_else(no_work, Cell::exact),
                Cell::text("TCP takes the largest slice"),
                budget
                    .zip(published_table)
                    .map_or_else(no_work, |(budget, published_table)| {
                        Cell::exact(budget / published_table)
                    }),
            ];
            rows.push(present::plain_row(label, cells));
        }
    }
    Table {
        id: "budget".to_owned(),
        title: format!(
            "The budget of a full packet of {FRAME} bytes at {}, and the work that it takes",
            line(rate)
        ),
        columns,
        rows,
    }
}

/// Every layer, alone and with those before it.
fn layers(per_packet: &PerPacket, rate: u64) -> Table {
    let budget = budget_ns(rate);
    let column = |name: &str, unit| Column {
        name: name.to_owned(),
        unit,
    };
    let mut rows = Vec::new();
    for measured in per_packet.measured.iter().filter(|one| one.table.is_some()) {
        rows.push(present::plain_row(measured.subject.label(), Vec::new()));
        for direction in WAYS {
            let Some(at) = place(measured, direction) else {
                continue;
            };
            let mut sum = 0.0;
            for (index, span) in measured.worked(direction) {
                let Some(work) = measured.sizes[at].work(index) else {
                    continue;
                };
                sum += work.ns;
                let cells = vec![
                    packet_work(measured, work),
                    Cell::exact(sum),
                    Cell::exact(100.0 * sum / budget),
                ];
                rows.push(Row {
                    depth: 1,
                    ..span_row(span, RowKind::Processing, cells)
                });
            }
        }
    }
    Table {
        id: "layers".to_owned(),
        title: "Work of each layer for a packet of the largest response, alone and with those before it".to_owned(),
        columns: vec![
            column("Work", Unit::Nanoseconds),
            column("With those before", Unit::Nanoseconds),
            column("Of the budget", Unit::Percent),
        ],
        rows,
    }
}

fn bars(per_packet: &PerPacket, command: &str) -> Figure {
    let bars = per_packet.measured.iter().flat_map(|measured| {
        WAYS.into_iter().filter_map(|direction| {
            let at = place(measured, direction)?;
            let segments = measured
                .worked(direction)
                .filter_map(|(index, span)| {
                    Some(Segment {
                        label: span.name.to_owned(),
                        layer: Some(layout::layer(span.layer)),
                        kind: SegmentKind::Processing,
                        value: measured.sizes[at].work(index)?.ns.max(0.0),
                    })
                })
                .collect();
            Some(Bar {
                label: format!("{}: {}", way(direction), measured.subject.label()),
                total_measured: None,
                segments,
            })
        })
    });
    Figure::StackedBars {
        title: "Work for a packet by layer".to_owned(),
        unit: Unit::Nanoseconds,
        bars: bars.collect(),
        command: command.to_owned(),
    }
}

fn lines(per_packet: &PerPacket, rate: u64, command: &str) -> Figure {
    let mut series: Vec<Series> = per_packet
        .measured
        .iter()
        .flat_map(|measured| {
            WAYS.map(|direction| {
                let label = format!("{}: {}", way(direction), measured.subject.label());
                over_sizes(label, &per_packet.sizes, |at| {
                    path_ns(measured, direction, at)
                })
            })
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    if let (Some(&first), Some(&last)) = (per_packet.sizes.first(), per_packet.sizes.last()) {
        let points = [first, last].map(|size| Point {
            x: size as f64,
            y: budget_ns(rate),
            ci: None,
        });
        series.push(Series {
            label: format!("budget at {}", line(rate)),
            points: points.into(),
            published: rate == PAPER_RATE,
        });
    }
    Figure::Lines {
        title: format!("Work for a packet against the budget at {}", line(rate)),
        x: axis("Size of the response", Unit::Bytes),
        y: axis("Work for each packet", Unit::Nanoseconds),
        series,
        command: command.to_owned(),
    }
}

fn finding(per_packet: &PerPacket, rate: u64) -> FindingText {
    let budget = budget_ns(rate);
    let (mut broken, mut kept, mut untold) = (Vec::new(), Vec::new(), 0);
    let mut finding = Finding::default();
    for measured in &per_packet.measured {
        for direction in WAYS {
            let Some(at) = place(measured, direction) else {
                continue;
            };
            let label = format!("{}, {}", measured.subject.label(), way(direction));
            let work = super::evidence(measured, at, measured.sizes[at].path(direction));
            let Some(work) = finding.claim(label.as_str(), work.and_then(Evidence::amount)) else {
                untold += 1;
                continue;
            };
            if work.may_be(budget) {
                let why = Refusal::NotMeasured(format!(
                    "it takes {}, so it may keep the budget or break it",
                    work.duration()
                ));
                finding.refuse(label, &why);
                untold += 1;
            } else if work.value() > budget {
                let layer = breaks(measured, direction, budget);
                broken.push(format!(
                    "{label}, breaks it at {} ({} in all)",
                    layer.as_deref().unwrap_or("its last layer"),
                    work.duration()
                ));
            } else {
                kept.push((label, work));
            }
        }
    }
    let keeps = kept
        .iter()
        .max_by(|a, b| a.1.value().total_cmp(&b.1.value()))
        .map(|(label, work)| {
            let all = match (kept.len(), broken.is_empty(), untold) {
                (1, true, _) => "",
                (_, true, 0) => "every path keeps up; the slowest, ",
                (_, false, 0) => "the others keep up; the slowest of them, ",
                (_, true, _) => "those that can be told keep up; the slowest of them, ",
                (_, false, _) => {
                    "of the others those that can be told keep up; the slowest of them, "
                }
            };
            if work.value() < LEAST_STATED {
                format!("{all}{label}, takes {}", work_time(work))
            } else {
                let rate = work.under(FRAME * BITS * 1e9);
                let most = match rate.value() >= 1e9 {
                    true => format!("{} Gb/s", rate.times(1e-9).significant()),
                    false => format!("{} Mb/s", rate.times(1e-6).significant()),
                };
                let takes = work.duration();
                format!("{all}{label}, takes {takes} and would keep up with {most}")
            }
        });
    let parts: Vec<String> = broken.into_iter().chain(keeps).collect();
    if parts.is_empty() && finding.is_empty() {
        return FindingText::unavailable("no path has gates");
    }
    if !parts.is_empty() {
        finding.say(format!(
            "at {} a full packet has {}: {}",
            line(rate),
            format::duration(budget),
            parts.join("; ")
        ));
    }
    finding.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_below_what_the_clock_tells_keeps_up_with_no_line() {
        let per_packet = crate::per_packet::tests::fixed_with_work(-0.35);
        let said = finding(&per_packet, LINE_RATE);
        assert!(said.contains("it may be zero"), "{said}");
        assert!(!said.contains("would keep up"), "{said}");
        let table = summary(&per_packet, LINE_RATE);
        assert!(
            matches!(&table.rows[0].cells[1], Cell::NotAvailable { reason } if reason == TOO_SHORT)
        );
    }

    #[test]
    fn the_budget_is_the_papers_at_a_gigabit() {
        let ours = budget_ns(PAPER_RATE);
        assert!(
            (ours / 1_000.0 - fact("gigabit-budget").unwrap()).abs() < 0.005,
            "{ours}"
        );
        assert_eq!(FRAME, fact("gigabit-frame").unwrap());
        assert_eq!(line(10_000_000_000), "10.0 Gb/s");
        assert_eq!(line(100_000_000), "100 Mb/s");
    }
}
