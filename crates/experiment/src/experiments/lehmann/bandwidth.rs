//! `lehmann-bandwidth`: bytes of response for each second of a round trip, by the size of the response (Lehmann and Benz 2002,
//! Fig. 3).

use tollgate_gate::Kind;
use tollgate_gate::span::Place;
use tollgate_stats::{self as stats, interquartile_mean};

use super::{
    Number, Parts, View, absent, axis, columns, figure, missing, not_available, over_sizes,
    span_row,
};
use crate::claim::{Claim, Evidence, Finding};
use crate::context::Options;
use crate::run::{Cell, Figure, Interval, Row, RowKind, Table, Unit};
use crate::shapes;
use crate::trains::{Measured, Subject, Trains};
use crate::words;

/// Fig. 3.
pub(in crate::experiments) const BANDWIDTH: View = View {
    name: "lehmann-bandwidth",
    title: "Bandwidth of responses by their size",
    place: "Fig. 3",
    summary: "128-byte requests and responses of 256 to 65,536 bytes as trains of packets: bytes a second",
    weight: 3,
    parts,
};

/// What the measurement shows.
fn parts(trains: &Trains, _options: &Options, command: &str) -> Parts {
    Parts {
        finding: finding(trains),
        tables: std::iter::once(rates(trains))
            .chain(ledgers(trains))
            .collect(),
        figures: vec![lines(trains, command)],
        trust: super::trust(trains),
    }
}

/// Bytes of response in a second; none when nothing was measured.
fn rate(measured: &Measured, trains: &Trains, at: usize) -> Option<f64> {
    let ns = measured.sizes[at].round_trip_ns()?;
    Some(trains.sizes[at] as f64 * 1e9 / ns)
}

/// The 95 % interval of the round trip at a size, in nanoseconds: the share that its typical time is known to, from how much batches of
/// successive round trips differ.
fn round_trip_interval(measured: &Measured, at: usize) -> Option<Interval> {
    let size = &measured.sizes[at];
    let (ns, middle) = (size.round_trip_ns()?, interquartile_mean(&size.ungated)?);
    let known = stats::by_batches(&size.ungated, interquartile_mean)?;
    Some(Interval {
        low: ns * known.low / middle,
        high: ns * known.high / middle,
    })
}

/// The same of the rate.
fn rate_interval(measured: &Measured, trains: &Trains, at: usize) -> Option<Interval> {
    let bytes = trains.sizes[at] as f64 * 1e9;
    let ns = round_trip_interval(measured, at).filter(|ns| ns.low > 0.0)?;
    Some(Interval {
        low: bytes / ns.high,
        high: bytes / ns.low,
    })
}

fn rates(trains: &Trains) -> Table {
    let places = columns(&trains.sizes);
    let mut rows: Vec<Row> = trains
        .measured
        .iter()
        .map(|measured| {
            let cells = places.iter().map(|&at| match rate(measured, trains, at) {
                Some(value) => Cell::Value(Number {
                    value,
                    ci: rate_interval(measured, trains, at),
                    n: Some(measured.sizes[at].ungated.len() as u64),
                    ..Number::default()
                }),
                None => not_available(
                    measured.sizes[at]
                        .failure
                        .clone()
                        .unwrap_or_else(|| "the run was stopped before it came to this".to_owned()),
                ),
            });
            shapes::plain_row(measured.subject.label(), cells.collect())
        })
        .collect();
    rows.extend(absent(trains, places.len()));
    if let Some(source) = figure("Fig. 3") {
        let reason = format!("{source} is a plot; its text gives no number");
        let cells = places.iter().map(|_| not_available(reason.clone()));
        rows.push(shapes::plain_row(
            "2002, Pentium III at 800 MHz, gigabit Ethernet",
            cells.collect(),
        ));
    }
    Table {
        id: "bandwidth".to_owned(),
        title: "Bytes of response for each second of a round trip".to_owned(),
        columns: shapes::size_columns(&super::sizes_at(trains, &places), Unit::BytesPerSecond),
        rows,
    }
}

/// The way of the last byte, span by span, beside the round trip without gates that it must sum to.
fn ledgers(trains: &Trains) -> Vec<Table> {
    let places = columns(&trains.sizes);
    let gated = trains.measured.iter();
    gated
        .filter_map(|measured| Some((measured, measured.table?)))
        .map(|(measured, table)| {
            let row = |kind, label: &str, value: &dyn Fn(usize) -> Option<f64>| Row {
                kind,
                ..shapes::plain_row(
                    label,
                    places
                        .iter()
                        .map(|&at| match value(at) {
                            Some(ns) => Cell::exact(ns),
                            None => missing(measured, at, "one of its parts was not measured"),
                        })
                        .collect(),
                )
            };
            let mut rows: Vec<Row> = measured
                .spans()
                .filter(|(_, span)| span.place == Place::OnTheWay)
                .map(|(index, span)| {
                    let kind = match span.kind {
                        Kind::Processing => RowKind::Processing,
                        Kind::Queueing => RowKind::Queueing,
                    };
                    let both = |at: usize| {
                        let (request, response) = measured.sizes[at].whole_ns(index, span)?;
                        Some(request + response)
                    };
                    let cells = row(kind, "", &both).cells;
                    span_row(span, kind, cells)
                })
                .collect();
            let total = |at: usize| measured.sizes[at].round_trip_ns();
            let turns = |at: usize| measured.sizes[at].turns_ns();
            if places.iter().any(|&at| turns(at).is_some()) {
                let label = match measured.subject {
                    Subject::Kernel(..) => "into the kernel and out of it",
                    Subject::Stack => "the applications' turns",
                };
                rows.push(row(RowKind::Processing, label, &turns));
            }
            let open = |at: usize| measured.sizes[at].open_ns(table);
            rows.push(row(RowKind::Unattributed, "left open", &open));
            let mut whole = row(RowKind::Total, "round trip without gates", &total);
            for (cell, &at) in whole.cells.iter_mut().zip(&places) {
                if let Cell::Value(number) = cell {
                    number.ci = round_trip_interval(measured, at);
                }
            }
            rows.push(whole);
            super::table(
                format!("ledger-{}", measured.subject.id()),
                format!(
                    "{}, {}: the way of the last byte, request and response together",
                    measured.subject.label(),
                    measured.mode
                ),
                trains,
                &places,
                rows,
            )
        })
        .collect()
}

fn lines(trains: &Trains, command: &str) -> Figure {
    Figure::Lines {
        title: "Bandwidth over the size of the response".to_owned(),
        x: axis("Size of the response", Unit::Bytes),
        y: axis("Bytes of response a second", Unit::BytesPerSecond),
        series: trains
            .measured
            .iter()
            .map(|measured| {
                over_sizes(measured.subject.label(), &trains.sizes, |at| {
                    rate(measured, trains, at)
                })
            })
            .collect(),
        command: command.to_owned(),
    }
}

fn finding(trains: &Trains) -> String {
    let mut finding = Finding::default();
    let Some((last, &size)) = trains.sizes.iter().enumerate().next_back() else {
        return finding.finish();
    };
    let mut rates: Vec<(&Measured, Claim)> = Vec::new();
    for measured in &trains.measured {
        let Some(most) = rate(measured, trains, last) else {
            continue;
        };
        let trips = measured.sizes[last].ungated.len() as u64;
        let claim = Evidence::new(most, rate_interval(measured, trains, last), trips).amount();
        let what = format!("the rate of {}", measured.subject.label());
        rates.extend(finding.claim(what, claim).map(|claim| (measured, claim)));
    }
    let clause = |(measured, most): &(&Measured, Claim), which: &str| {
        let half = (0..=last)
            .find(|&at| rate(measured, trains, at).is_some_and(|rate| rate >= most.value() / 2.0))
            .unwrap_or(last);
        format!(
            "{} carries {which}{} Gb/s in responses of {}, half of that in responses of {}",
            measured.subject.label(),
            words::significant(most.value() * 8.0 / 1e9),
            words::bytes(size),
            words::bytes(trains.sizes[half])
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
