//! `lehmann-processing`: the work of each layer for each packet, by the size of the response (Lehmann and Benz 2002, Figs. 4, 5, 10
//! and 11).

use tollgate_gate::Direction;
use tollgate_papers as papers;
use tollgate_run::{self as run, Cell, Figure, Row, RowKind, Table, Unit, format, present};

use super::super::Content;
use super::{
    NANOSECONDS_PER_MICROSECOND, PAPER, View, axis, columns, missing, not_available, not_measured,
    over_sizes, packet_work, span_row, way,
};
use crate::claim::{Claim, Evidence, Finding, FindingText, Refusal};
use crate::context::Options;
use crate::per_packet::{Measured, PerPacket, packets};

/// Figs. 4, 5, 10 and 11.
pub(in crate::experiments) const PROCESSING: View = View {
    name: "lehmann-processing",
    title: "Work of each layer for each packet",
    place: "Figs. 4, 5, 10 and 11",
    summary: "what each layer works on a packet of a response, apart from queues, by the size of the response",
    weight: 1,
    parts,
};

/// Tables and figures of the measurement.
fn parts(per_packet: &PerPacket, _options: &Options, command: &str) -> Content {
    let mut tables: Vec<Table> = per_packet
        .measured
        .iter()
        .map(|measured| today(measured, per_packet))
        .collect();
    tables.extend(published_table());
    let places = columns(&per_packet.sizes);
    let left_out = not_measured(per_packet, places.len());
    if !left_out.is_empty() {
        tables.push(super::table(
            "absent".to_owned(),
            "Not measured".to_owned(),
            per_packet,
            &places,
            left_out,
        ));
    }
    let mut figures: Vec<Figure> = per_packet
        .measured
        .iter()
        .filter(|measured| measured.table.is_some())
        .map(|measured| by_layer(measured, per_packet, command))
        .collect();
    figures.push(both_ways(per_packet, command));
    Content {
        finding: finding(per_packet),
        tables,
        figures,
        trust: super::trust(per_packet),
    }
}

/// The least work for a packet that is told, in nanoseconds: a reading of the clock takes some ten times as long, and what comes out
/// below is as much the clock's as the layer's.
pub(super) const LEAST_STATED: f64 = 1.0;

/// Work for a packet in words.
pub(super) fn work_time(claim: &Claim) -> String {
    if claim.value() < LEAST_STATED {
        format!(
            "less than {} (the least that can be told)",
            format::duration(LEAST_STATED)
        )
    } else {
        claim.duration()
    }
}

fn today(measured: &Measured, per_packet: &PerPacket) -> Table {
    let places = columns(&per_packet.sizes);
    let mut rows = Vec::new();
    for direction in [Direction::Tx, Direction::Rx] {
        for (index, span) in measured.worked(direction) {
            let cells = places
                .iter()
                .map(|&at| match measured.sizes[at].work(index) {
                    Some(work) => packet_work(measured, work),
                    None => missing(measured, at, "every packet waited here"),
                });
            rows.push(span_row(span, RowKind::Processing, cells.collect()));
        }
        let cells = places
            .iter()
            .map(|&at| match measured.sizes[at].path(direction) {
                Some(work) => packet_work(measured, work),
                None => missing(measured, at, "one of its parts was not measured"),
            });
        rows.push(Row {
            kind: RowKind::Total,
            ..present::plain_row(format!("{}: all layers", way(direction)), cells.collect())
        });
    }
    rows.push(present::plain_row(
        "packets of a response",
        places
            .iter()
            .map(|&at| Cell::text(packets(per_packet.sizes[at]).to_string()))
            .collect(),
    ));
    super::table(
        format!("work-{}", measured.subject.id()),
        format!(
            "Today, {}, {}: work for each packet, queues left out",
            measured.subject.label(),
            measured.mode
        ),
        per_packet,
        &places,
        rows,
    )
}

/// The paper's numbers.
fn published_table() -> Option<Table> {
    let id = format!("{PAPER}/processing");
    let (table, source) = (papers::table(&id)?, papers::source(&id)?);
    let rows = table.rows.iter().map(|row| {
        let cells = ["least", "most"].map(|column| {
            let ns = table.cell(&row.id, column);
            present::published_cell(ns.map(|us| us * NANOSECONDS_PER_MICROSECOND), &source)
        });
        Row {
            kind: RowKind::Processing,
            ..present::plain_row(row.label(), cells.into())
        }
    });
    Some(Table {
        id: "published".to_owned(),
        title: "2002, Pentium III at 800 MHz, Linux 2.4.18: work for each packet".to_owned(),
        columns: ["Least", "Most"]
            .map(|name| run::Column {
                name: name.to_owned(),
                unit: Unit::Nanoseconds,
            })
            .into(),
        rows: rows.collect(),
    })
}

fn by_layer(measured: &Measured, per_packet: &PerPacket, command: &str) -> Figure {
    Figure::Lines {
        title: format!(
            "Work of each layer for each packet, {}",
            measured.subject.label()
        ),
        x: axis("Size of the response", Unit::Bytes),
        y: axis("Work for each packet", Unit::Nanoseconds),
        series: [Direction::Tx, Direction::Rx]
            .into_iter()
            .flat_map(|direction| measured.worked(direction))
            .map(|(index, span)| {
                over_sizes(super::name(span), &per_packet.sizes, |at| {
                    super::drawn(measured.sizes[at].work(index)?)
                })
            })
            .filter(|line| !line.points.is_empty())
            .collect(),
        command: command.to_owned(),
    }
}

fn both_ways(per_packet: &PerPacket, command: &str) -> Figure {
    let lines = per_packet.measured.iter().flat_map(|measured| {
        [Direction::Tx, Direction::Rx].map(|direction| {
            let label = format!("{}: {}", way(direction), measured.subject.label());
            over_sizes(label, &per_packet.sizes, |at| {
                super::drawn(measured.sizes[at].path(direction)?)
            })
        })
    });
    Figure::Lines {
        title: "Work of all layers for each packet".to_owned(),
        x: axis("Size of the response", Unit::Bytes),
        y: axis("Work for each packet", Unit::Nanoseconds),
        series: lines.filter(|line| !line.points.is_empty()).collect(),
        command: command.to_owned(),
    }
}

/// The mean over the sizes of the work of all layers, with the mean of the intervals.
fn mean_evidence(measured: &Measured, direction: Direction) -> Result<Evidence, Refusal> {
    let mut known = Vec::new();
    let mut refused = Refusal::NotMeasured("it has no size".to_owned());
    for (at, size) in measured.sizes.iter().enumerate() {
        match super::evidence(measured, at, size.path(direction)) {
            Ok(evidence) => known.push(evidence),
            Err(why) => refused = why,
        }
    }
    Evidence::mean_of(&known).ok_or(refused)
}

fn finding(per_packet: &PerPacket) -> FindingText {
    let mut finding = Finding::default();
    let mut any = false;
    for (direction, takes) in [
        (Direction::Tx, "to send a packet takes"),
        (Direction::Rx, "to receive a packet takes"),
    ] {
        let mut means: Vec<(String, Claim)> = Vec::new();
        for measured in per_packet.measured.iter().filter(|one| one.table.is_some()) {
            let label = measured.subject.label();
            let mean = mean_evidence(measured, direction).and_then(Evidence::amount);
            any = true;
            means.extend(
                finding
                    .claim(
                        format!(
                            "what it takes {} on {label}",
                            takes.trim_end_matches(" takes")
                        ),
                        mean,
                    )
                    .map(|claim| (label, claim)),
            );
        }
        if let Some((most, least)) = super::ends(&means, |(_, claim)| claim.value()) {
            let less = least.map_or_else(String::new, |(label, claim)| {
                format!(", and {} on {label}", work_time(claim))
            });
            finding.say(format!(
                "{takes} {} on {}{less}",
                work_time(&most.1),
                most.0
            ));
        }
    }
    if !any {
        return FindingText::unavailable("no path has gates");
    }
    let published_table =
        super::fact("send-processing-least").zip(super::fact("receive-processing-least"));
    if let Some((sent, received)) = published_table.filter(|_| !finding.is_silent()) {
        finding.say(format!(
            "in 2002 it was about {sent} us and {received} us at the least"
        ));
    }
    finding.finish()
}

/// The reason why a kind of packet has no number, for tables of other views.
pub(super) fn no_work() -> Cell {
    not_available("every packet waited here")
}
