//! `lehmann-bandwidth`: bytes of response for each second of a round trip, by the size of the response (Lehmann and Benz 2002,
//! Fig. 3).

use tollgate_gate::Kind;
use tollgate_measure::Figure as Known;
use tollgate_run::{
    Cell, Figure, Interval, Point, Row, RowKind, Series, Table, Unit, format, present,
};

use super::super::Content;
use super::{
    Number, View, axis, columns, figure, missing, not_available, not_measured, number, span_row,
    work,
};
use crate::claim::{Claim, Evidence, Finding, FindingText};
use crate::context::Options;
use crate::per_packet::{AtGates, Measured, PerPacket, Subject};

/// Fig. 3.
pub(in crate::experiments) const BANDWIDTH: View = View {
    name: "lehmann-bandwidth",
    title: "Bandwidth of responses by their size",
    place: "Fig. 3",
    summary: "128-byte requests and responses of 256 to 65,536 bytes, packet by packet: bytes a second",
    weight: 3,
    parts,
};

/// Tables and figures of the measurement.
fn parts(per_packet: &PerPacket, _options: &Options, command: &str) -> Content {
    Content {
        finding: finding(per_packet),
        tables: std::iter::once(rates(per_packet))
            .chain(ledgers(per_packet))
            .collect(),
        figures: vec![lines(per_packet, command)],
        trust: super::trust(per_packet),
    }
}

/// Bytes of response in a second, with its interval; none when nothing was measured.
fn rate(measured: &Measured, per_packet: &PerPacket, at: usize) -> Option<Number> {
    Some(rate_of(
        per_packet.sizes[at],
        measured.sizes[at].round_trip?,
    ))
}

/// The rate at each size that was measured: at all of the paper's where they were swept.
fn curve(measured: &Measured, per_packet: &PerPacket) -> Vec<(usize, Number)> {
    if measured.swept.is_empty() {
        let sizes = per_packet.sizes.iter().enumerate();
        return sizes
            .filter_map(|(at, &size)| Some((size, rate(measured, per_packet, at)?)))
            .collect();
    }
    let swept = measured.swept.iter();
    swept
        .map(|&(size, round_trip)| (size, rate_of(size, round_trip)))
        .collect()
}

fn rate_of(size: usize, round_trip: Known) -> Number {
    let bytes = size as f64 * 1e9;
    let (low, high) = (
        round_trip.ns - round_trip.half_width,
        round_trip.ns + round_trip.half_width,
    );
    Number {
        value: bytes / round_trip.ns,
        ci: (low > 0.0).then(|| Interval {
            low: bytes / high,
            high: bytes / low,
        }),
        ..Number::default()
    }
}

fn rates(per_packet: &PerPacket) -> Table {
    let places = columns(&per_packet.sizes);
    let mut rows: Vec<Row> = per_packet
        .measured
        .iter()
        .map(|measured| {
            let cells = places
                .iter()
                .map(|&at| match rate(measured, per_packet, at) {
                    Some(value) => Cell::Value(value),
                    None => {
                        not_available(measured.sizes[at].failure.clone().unwrap_or_else(|| {
                            "the run was stopped before it came to this".to_owned()
                        }))
                    }
                });
            present::plain_row(measured.subject.label(), cells.collect())
        })
        .collect();
    rows.extend(not_measured(per_packet, places.len()));
    if let Some(source) = figure("Fig. 3") {
        let reason = format!("{source} is a plot; its text gives no number");
        let cells = places.iter().map(|_| not_available(reason.clone()));
        rows.push(present::plain_row(
            "2002, Pentium III at 800 MHz, gigabit Ethernet",
            cells.collect(),
        ));
    }
    Table {
        id: "bandwidth".to_owned(),
        title: "Bytes of response for each second of a round trip".to_owned(),
        columns: present::size_columns(&super::sizes_at(per_packet, &places), Unit::BytesPerSecond),
        rows,
    }
}

/// The way of the last byte, span by span, beside the round trip without gates that it must sum to.
fn ledgers(per_packet: &PerPacket) -> Vec<Table> {
    let gated = per_packet.measured.iter();
    gated
        .filter(|measured| measured.table.is_some())
        .map(|measured| ledger(measured, per_packet))
        .collect()
}

fn ledger(measured: &Measured, per_packet: &PerPacket) -> Table {
    let places = columns(&per_packet.sizes);
    let cells = |value: &dyn Fn(&AtGates) -> Option<Known>| -> Vec<Cell> {
        let cell = |&at: &usize| {
            let ledger = measured.sizes[at].ledger.as_ref();
            match ledger.and_then(value) {
                Some(known) => number(known),
                None => missing(measured, at, "it was not measured"),
            }
        };
        places.iter().map(cell).collect()
    };
    let row = |kind, label: &str, value: &dyn Fn(&AtGates) -> Option<Known>| Row {
        kind,
        ..present::plain_row(label, cells(value))
    };
    let mut rows: Vec<Row> = measured
        .spans()
        .map(|(index, span)| {
            let kind = match span.kind {
                Kind::Processing => RowKind::Processing,
                Kind::Queueing => RowKind::Queueing,
            };
            let is_work = span.kind == Kind::Processing;
            let cell = |&at: &usize| {
                let ledger = measured.sizes[at].ledger.as_ref();
                match ledger.and_then(|ledger| ledger.spans.get(index).copied()) {
                    Some(known) if is_work => work(known, number(known)),
                    Some(known) => number(known),
                    None => missing(measured, at, "it was not measured"),
                }
            };
            span_row(span, kind, places.iter().map(cell).collect())
        })
        .collect();
    let spans = rows.len();
    let has_turns = measured.sizes.iter().any(|size| {
        let ledger = size.ledger.as_ref();
        ledger.is_some_and(|ledger| ledger.spans.len() > spans)
    });
    if has_turns {
        let turns = |ledger: &AtGates| ledger.spans.get(spans).copied();
        rows.push(row(RowKind::Processing, "the applications' turns", &turns));
    }
    rows.push(row(RowKind::Unattributed, "left open", &|ledger| {
        Some(ledger.closure.left)
    }));
    rows.push(Row {
        kind: RowKind::Total,
        ..present::plain_row(
            "round trip without gates",
            places
                .iter()
                .map(|&at| match measured.sizes[at].round_trip {
                    Some(known) => number(known),
                    None => missing(measured, at, "it was not measured"),
                })
                .collect(),
        )
    });
    if measured.subject == Subject::Stack {
        rows.push(row(
            RowKind::Plain,
            "disabled gates, in the spans beside it",
            &|ledger| ledger.disabled,
        ));
    }
    rows.push(row(
        RowKind::Plain,
        "disturbed elsewhere by all gates",
        &|ledger| Some(ledger.elsewhere),
    ));
    super::table(
        format!("ledger-{}", measured.subject.id()),
        format!(
            "{}, {}: the way of the last byte, request and response together",
            measured.subject.label(),
            measured.mode
        ),
        per_packet,
        &places,
        rows,
    )
}

fn lines(per_packet: &PerPacket, command: &str) -> Figure {
    Figure::Lines {
        title: "Bandwidth over the size of the response".to_owned(),
        x: axis("Size of the response", Unit::Bytes),
        y: axis("Bytes of response a second", Unit::BytesPerSecond),
        series: per_packet
            .measured
            .iter()
            .map(|measured| {
                let points = curve(measured, per_packet).into_iter();
                Series {
                    label: measured.subject.label(),
                    points: points
                        .map(|(size, rate)| Point {
                            x: size as f64,
                            y: rate.value,
                            ci: None,
                        })
                        .collect(),
                    published: false,
                }
            })
            .collect(),
        command: command.to_owned(),
    }
}

fn finding(per_packet: &PerPacket) -> FindingText {
    let mut finding = Finding::default();
    let Some((last, &size)) = per_packet.sizes.iter().enumerate().next_back() else {
        return finding.finish();
    };
    let mut rates: Vec<(&Measured, Claim)> = Vec::new();
    for measured in &per_packet.measured {
        let Some(most) = rate(measured, per_packet, last) else {
            continue;
        };
        let trips = measured.sizes[last].round_trips;
        let claim = Evidence::new(most.value, most.ci, trips).amount();
        let what = format!("the rate of {}", measured.subject.label());
        rates.extend(finding.claim(what, claim).map(|claim| (measured, claim)));
    }
    let clause = |(measured, most): &(&Measured, Claim), which: &str| {
        let half = curve(measured, per_packet)
            .into_iter()
            .find(|(_, rate)| rate.value >= most.value() / 2.0)
            .map_or(size, |(half, _)| half);
        format!(
            "{} carries {which}{} Gb/s in responses of {}, half of that in responses of {}",
            measured.subject.label(),
            most.times(8.0 / 1e9).significant(),
            format::bytes(size),
            format::bytes(half)
        )
    };
    match super::ends(&rates, |(_, rate)| rate.value()) {
        None => {}
        Some((only, None)) => finding.say(clause(only, "")),
        Some((most, Some(least))) => {
            finding.say(clause(most, "most, "));
            finding.say(clause(least, "least, "));
        }
    }
    finding.finish()
}
