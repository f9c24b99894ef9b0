//! `lehmann-queues`: how long packets wait, by the size of the response and by their place in it, and the gaps between them (Lehmann
//! and Benz 2002, Figs. 4 and 6 to 9).

use tollgate_gate::{Gate, Span};
use tollgate_measure::Figure as Known;
use tollgate_measure::packets::of_packets;
use tollgate_papers as papers;
use tollgate_run::{self as run, Column, Figure, Row, RowKind, Table, Unit, format, present};

use super::super::Content;
use super::{
    NANOSECONDS_PER_MICROSECOND, PAPER, View, axis, columns, first_per_packet, missing,
    not_measured, over_packets, over_sizes, packet_number, span_row,
};
use crate::claim::{Claim, Evidence, Finding, FindingText};
use crate::context::Options;
use crate::per_packet::{Measured, OVER_TIME, PerPacket, packets};

/// The places in a response that become columns of a table over time, counted from 1; the last is added.
const PLACES: [usize; 6] = [1, 2, 3, 6, 12, 24];

/// Figs. 4 and 6 to 9.
pub(in crate::experiments) const QUEUES: View = View {
    name: "lehmann-queues",
    title: "Where packets wait, over the size and within a response",
    place: "Figs. 4 and 6 to 9",
    summary: "how long packets wait in each queue, by the size of the response and by their place in it, and gaps",
    weight: 1,
    parts,
};

/// Tables and figures of the measurement.
fn parts(per_packet: &PerPacket, _options: &Options, command: &str) -> Content {
    let mut tables = Vec::new();
    let mut figures = Vec::new();
    for measured in &per_packet.measured {
        tables.push(by_size(measured, per_packet));
        if measured.table.is_none() {
            continue;
        }
        figures.push(over_size(measured, per_packet, command));
        for size in shown(per_packet) {
            tables.push(by_place(measured, per_packet, size));
            figures.push(waits_over_time(measured, per_packet, size, command));
            figures.push(gaps_over_time(measured, per_packet, size, command));
        }
    }
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
    Content {
        finding: finding(per_packet),
        tables,
        figures,
        trust: super::trust(per_packet),
    }
}

/// The places of the sizes that are shown packet by packet.
fn shown(per_packet: &PerPacket) -> Vec<usize> {
    let paper = |at: &usize| OVER_TIME.contains(&per_packet.sizes[*at]);
    let mut shown: Vec<usize> = (0..per_packet.sizes.len()).filter(paper).collect();
    if shown.is_empty() {
        // The user's own sizes: the largest of them.
        shown.extend(per_packet.sizes.len().checked_sub(1));
    }
    shown
}

/// The spans in which packets can wait, with what they are called as a queue.
fn queues(measured: &Measured) -> impl Iterator<Item = (usize, &'static Span)> {
    measured.spans().filter(|(_, span)| of_packets(span))
}

/// Name that Lehmann and Benz would give a span's queue.
fn queue(span: &Span) -> &'static str {
    match (span.from, span.to) {
        (Gate::TcpOutBegin, _) => "for the window or the packets before",
        (_, Gate::DriverOutBegin) => "device queue",
        (Gate::DriverOutEnd, _) => "IP queue",
        (Gate::DriverInBegin, _) => "ring, behind the packets before",
        (Gate::DemuxBegin, _) => "TCP queue (the socket's backlog)",
        (Gate::SocketQueued, _) => "socket queue, reader's wakeup",
        _ => "behind the packets before",
    }
}

fn queue_row(span: &Span, cells: Vec<run::Cell>) -> Row {
    let row = span_row(span, RowKind::Queueing, cells);
    Row {
        label: format!("{} ({})", row.label, queue(span)),
        ..row
    }
}

fn by_size(measured: &Measured, per_packet: &PerPacket) -> Table {
    let places = columns(&per_packet.sizes);
    let mut rows: Vec<Row> = queues(measured)
        .map(|(index, span)| {
            let cells = places
                .iter()
                .map(|&at| match measured.sizes[at].wait(index) {
                    Some(wait) => packet_number(measured, wait),
                    None => missing(measured, at, "no packet was seen here"),
                });
            queue_row(span, cells.collect())
        })
        .collect();
    if rows.is_empty() {
        let cells = places.iter().map(|&at| missing(measured, at, "no gates"));
        rows.push(present::plain_row("all queues", cells.collect()));
    }
    super::table(
        format!("wait-{}", measured.subject.id()),
        format!(
            "Today, {}, {}: wait of a packet in each span, mean over a response",
            measured.subject.label(),
            measured.mode
        ),
        per_packet,
        &places,
        rows,
    )
}

fn by_place(measured: &Measured, per_packet: &PerPacket, at: usize) -> Table {
    let size = per_packet.sizes[at];
    let count = packets(size);
    let mut places: Vec<usize> = PLACES.into_iter().filter(|&place| place < count).collect();
    places.push(count);
    let cells = |values: &[Option<Known>]| {
        places
            .iter()
            .map(|&place| match values.get(place - 1).copied().flatten() {
                Some(known) => packet_number(measured, known),
                None => missing(measured, at, "no packet comes before it"),
            })
            .collect()
    };
    let mut rows = Vec::new();
    for (index, span) in queues(measured) {
        let waits = measured.sizes[at].wait_by_place(index, count);
        rows.push(queue_row(span, cells(&waits)));
    }
    for (index, span) in queues(measured) {
        let gaps = measured.sizes[at].gaps(index, count);
        rows.push(Row {
            note: Some(format!("since the packet before, at {}", span.from.name())),
            ..present::plain_row(format!("gap at {}", span.from.name()), cells(&gaps))
        });
    }
    Table {
        id: format!("place-{}-{size}", measured.subject.id()),
        title: format!(
            "{}, {}: waits and gaps of the packets of a response, by their place in it",
            measured.subject.label(),
            format::bytes(size)
        ),
        columns: places
            .iter()
            .map(|place| Column {
                name: format!("packet {place}"),
                unit: Unit::Nanoseconds,
            })
            .collect(),
        rows,
    }
}

/// The paper's numbers.
fn published_table() -> Option<Table> {
    let id = format!("{PAPER}/queueing");
    let (table, source) = (papers::table(&id)?, papers::source(&id)?);
    let rows = table.rows.iter().map(|row| {
        let ns = table.cell(&row.id, "delay");
        let cell = present::published_cell(ns.map(|us| us * NANOSECONDS_PER_MICROSECOND), &source);
        Row {
            kind: RowKind::Queueing,
            ..present::plain_row(row.label(), vec![cell])
        }
    });
    Some(Table {
        id: "published".to_owned(),
        title: "2002, receive path, response of 8,192 bytes".to_owned(),
        columns: vec![Column {
            name: "Delay".to_owned(),
            unit: Unit::Nanoseconds,
        }],
        rows: rows.collect(),
    })
}

fn over_size(measured: &Measured, per_packet: &PerPacket, command: &str) -> Figure {
    Figure::Lines {
        title: format!(
            "Wait of a packet in each span, {}",
            measured.subject.label()
        ),
        x: axis("Size of the response", Unit::Bytes),
        y: axis("Wait of a packet, mean", Unit::Nanoseconds),
        series: queues(measured)
            .map(|(index, span)| {
                over_sizes(super::name(span), &per_packet.sizes, |at| {
                    Some(measured.sizes[at].wait(index)?.ns)
                })
            })
            .filter(|line| line.points.iter().any(|point| point.y > 0.0))
            .collect(),
        command: command.to_owned(),
    }
}

fn waits_over_time(
    measured: &Measured,
    per_packet: &PerPacket,
    at: usize,
    command: &str,
) -> Figure {
    Figure::Lines {
        title: format!(
            "Wait within a response of {}, {}",
            format::bytes(per_packet.sizes[at]),
            measured.subject.label()
        ),
        x: axis("Packet of the response", Unit::Count),
        y: axis("Wait", Unit::Nanoseconds),
        series: queues(measured)
            .map(|(index, span)| {
                over_packets(
                    super::name(span),
                    &measured.sizes[at].wait_by_place(index, packets(per_packet.sizes[at])),
                )
            })
            .filter(|line| line.points.iter().any(|point| point.y > 0.0))
            .collect(),
        command: command.to_owned(),
    }
}

fn gaps_over_time(measured: &Measured, per_packet: &PerPacket, at: usize, command: &str) -> Figure {
    let ends = [Gate::TcpOutBegin, Gate::IpInBegin, Gate::SocketQueued];
    Figure::Lines {
        title: format!(
            "Time between packets of a response of {}, {}",
            format::bytes(per_packet.sizes[at]),
            measured.subject.label()
        ),
        x: axis("Packet of the response", Unit::Count),
        y: axis("Since the packet before", Unit::Nanoseconds),
        series: queues(measured)
            .filter(|(_, span)| ends.contains(&span.from))
            .map(|(index, span)| {
                over_packets(
                    format!("at {}", span.from.name()),
                    &measured.sizes[at].gaps(index, packets(per_packet.sizes[at])),
                )
            })
            .filter(|line| !line.points.is_empty())
            .collect(),
        command: command.to_owned(),
    }
}

/// The longest wait on a path.
struct Longest<'a> {
    measured: &'a Measured,
    span: &'static Span,
    /// On average, and by the packets' places in the response.
    wait: Claim,
    by_place: Vec<f64>,
}

impl<'a> Longest<'a> {
    fn of(
        measured: &'a Measured,
        per_packet: &PerPacket,
        at: usize,
        finding: &mut Finding,
    ) -> Option<Self> {
        let waits = queues(measured)
            .filter_map(|(index, span)| Some((span, index, measured.sizes[at].wait(index)?)));
        let (span, index, known) = waits.max_by(|a, b| a.2.ns.total_cmp(&b.2.ns))?;
        let wait = super::evidence(measured, at, Some(known)).and_then(Evidence::amount);
        let what = format!("the longest wait on {}", measured.subject.label());
        let by_place = measured.sizes[at].wait_by_place(index, packets(per_packet.sizes[at]));
        Some(Self {
            measured,
            span,
            wait: finding.claim(what, wait)?,
            by_place: by_place.into_iter().flatten().map(|one| one.ns).collect(),
        })
    }

    fn queue(&self) -> String {
        format!("{} ({})", super::name(self.span), queue(self.span))
    }
}

fn finding(per_packet: &PerPacket) -> FindingText {
    if first_per_packet(per_packet).is_none() {
        return FindingText::unavailable("no path that carries packets has gates");
    }
    let mut finding = Finding::default();
    let Some(at) = shown(per_packet).last().copied() else {
        return finding.finish();
    };
    let waits: Vec<Longest<'_>> = per_packet
        .measured
        .iter()
        .filter(|one| one.subject.is_per_packet() && one.table.is_some())
        .filter_map(|measured| Longest::of(measured, per_packet, at, &mut finding))
        .collect();
    let Some((most, least)) = super::ends(&waits, |one| one.wait.value()) else {
        return finding.finish();
    };
    let by_place = match most.by_place.as_slice() {
        [first, .., last] if *first >= 0.0 && *last >= 0.0 => format!(
            ", {} as the first and {} as the last of {}",
            format::duration(*first),
            format::duration(*last),
            most.by_place.len()
        ),
        _ => String::new(),
    };
    finding.say(format!(
        "in a response of {} a packet waits longest on {}, in {}: {} on average{by_place}",
        format::bytes(per_packet.sizes[at]),
        most.measured.subject.label(),
        most.queue(),
        most.wait.duration(),
    ));
    if let Some(one) = least {
        finding.say(format!(
            "on {} at most {}, in {}",
            one.measured.subject.label(),
            one.wait.duration(),
            one.queue()
        ));
    }
    if let Some(us) = super::fact("ip-queue-delay") {
        finding.say(format!(
            "in 2002 the IP queue alone held one of 8,192 bytes for about {us} us"
        ));
    }
    finding.finish()
}
