//! `lehmann-bandwidth`, `lehmann-processing`, `lehmann-queues` and `lehmann-budget`: requests of 128 bytes and responses of 256 to
//! 65,536 bytes, packet by packet, after Lehmann and Benz 2002.
//!
//! All four show one measurement ([`crate::per_packet`]): whichever comes first makes it. They share how sizes become columns, and what
//! is said of trust.

mod bandwidth;
mod budget;
mod processing;
mod queues;

use tollgate_gate::{Direction, Span};
use tollgate_measure::{Figure as Known, Verdict};
use tollgate_papers as papers;
use tollgate_run::{
    Axis, Cell, Interval, Measured as Number, Point, Row, RowKind, Scale, Series, Source, Table,
    TrustKind, TrustLine, Unit, format, present,
};
use tollgate_workload::config::Transmit;
use tollgate_workload::per_packet::REQUEST;

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Evidence, Refusal};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::layout;
use crate::per_packet::{self, AtGates, Measured, PerPacket};

pub(super) use bandwidth::BANDWIDTH;
pub(super) use budget::BUDGET;
use processing::LEAST_STATED;
pub(super) use processing::PROCESSING;
pub(super) use queues::QUEUES;

const PAPER: &str = "lehmann-benz-2002";
/// The sizes that become columns where there are too many for a table; figures show all.
const COLUMNS: [usize; 8] = [256, 1_536, 4_096, 8_192, 16_384, 32_768, 49_152, 65_536];
/// The share of messages that should be joined.
const MESSAGES: f64 = 0.99;
const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;

/// One of the four: what it is called, and what it makes of the measurement.
pub(super) struct View {
    name: &'static str,
    title: &'static str,
    /// The place in the paper.
    place: &'static str,
    summary: &'static str,
    weight: u32,
    /// Given the measurement, the options, and the command that makes it.
    parts: fn(&PerPacket, &Options, &str) -> Content,
}

impl Experiment for View {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn paper(&self) -> Option<Source> {
        figure(self.place)
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    /// In the full report: every size of every path takes seconds that a quick one does not have.
    fn reported(&self) -> Reported {
        Reported::Full
    }

    /// The first of the four measures for all.
    fn mechanisms(&self) -> Uses {
        // Requests carry their number, which a write without a copy does not put there.
        Uses::AsSet {
            but: &[Transmit::NAME],
        }
    }

    fn weight(&self) -> u32 {
        self.weight
    }

    fn concerns(&self, options: &Options) -> bool {
        !per_packet::wanted(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let per_packet = per_packet::of(self.name, context)?;
        Ok((self.parts)(&per_packet, &context.options, command))
    }
}

/// A figure of the paper.
fn figure(place: &str) -> Option<Source> {
    Some(papers::source_at(papers::paper(PAPER)?, place))
}

/// A number of the paper's running text.
fn fact(id: &str) -> Option<f64> {
    Some(papers::paper(PAPER)?.fact(id)?.value)
}

/// The places of the sizes that become columns.
fn columns(sizes: &[usize]) -> Vec<usize> {
    if sizes.len() <= COLUMNS.len() {
        return (0..sizes.len()).collect();
    }
    let mut places: Vec<usize> = COLUMNS
        .iter()
        .filter_map(|&wanted| (0..sizes.len()).min_by_key(|&at| sizes[at].abs_diff(wanted)))
        .collect();
    places.dedup();
    places
}

fn sizes_at(per_packet: &PerPacket, places: &[usize]) -> Vec<usize> {
    places.iter().map(|&at| per_packet.sizes[at]).collect()
}

const fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Tx => "send",
        Direction::Rx => "receive",
        Direction::Between => "between",
    }
}

/// A span with its direction, since both have spans of one name.
fn name(span: &Span) -> String {
    format!("{}: {}", way(span.direction), span.name)
}

/// A row of a span.
fn span_row(span: &Span, kind: RowKind, cells: Vec<Cell>) -> Row {
    Row {
        label: name(span),
        depth: 0,
        kind,
        layer: Some(layout::layer(span.layer)),
        note: Some(format!("{} -> {}", span.from.name(), span.to.name())),
        cells,
    }
}

fn interval(known: Known) -> Interval {
    Interval {
        low: known.ns - known.half_width,
        high: known.ns + known.half_width,
    }
}

/// A number with its interval.
fn number(known: Known) -> Cell {
    Cell::Value(Number {
        value: known.ns,
        ci: Some(interval(known)),
        ..Number::default()
    })
}

/// A time of packets. With GSO it is that of the piece that a packet is in, and how pieces form is a state of the connection, of which
/// a run has one: its slices agree on it, so they tell nothing of how well the time is known.
fn packet_number(measured: &Measured, known: Known) -> Cell {
    if measured.subject.is_per_packet() {
        number(known)
    } else {
        Cell::exact(known.ns)
    }
}

/// Work: it cannot be below zero, so what comes out there is shown as the bound that its interval leaves.
fn work(known: Known, cell: Cell) -> Cell {
    if known.ns >= 0.0 {
        return cell;
    }
    let bound = (known.ns + known.half_width).max(LEAST_STATED);
    Cell::text(format!("below {}", format::duration(bound)))
}

/// A time of packets that is work.
fn packet_work(measured: &Measured, known: Known) -> Cell {
    work(known, packet_number(measured, known))
}

/// Work for a figure; none where it comes out below zero.
fn drawn(known: Known) -> Option<f64> {
    (known.ns >= 0.0).then_some(known.ns)
}

fn not_available(reason: impl Into<String>) -> Cell {
    Cell::NotAvailable {
        reason: reason.into(),
    }
}

/// The reason why a subject has no number at a size.
fn missing(measured: &Measured, at: usize, reason: &str) -> Cell {
    let failure = measured.sizes[at].failure.clone();
    not_available(
        failure
            .or_else(|| measured.without_gates.clone())
            .unwrap_or_else(|| reason.to_owned()),
    )
}

/// A line over the sizes.
fn over_sizes(label: String, sizes: &[usize], value: impl Fn(usize) -> Option<f64>) -> Series {
    let points = sizes.iter().enumerate().filter_map(|(at, &size)| {
        Some(Point {
            x: size as f64,
            y: value(at)?,
            ci: None,
        })
    });
    Series {
        label,
        points: points.collect(),
        published: false,
    }
}

/// A line over the packets of a response, which are counted from 1.
fn over_packets(label: String, values: &[Option<Known>]) -> Series {
    let points = values.iter().enumerate().filter_map(|(at, value)| {
        Some(Point {
            x: (at + 1) as f64,
            y: (*value)?.ns,
            ci: None,
        })
    });
    Series {
        label,
        points: points.collect(),
        published: false,
    }
}

fn axis(label: &str, unit: Unit) -> Axis {
    Axis {
        label: label.to_owned(),
        unit,
        scale: Scale::Linear,
    }
}

/// The subjects with gates that could not be run, or not with gates: rows that say why.
fn not_measured(per_packet: &PerPacket, cells: usize) -> Vec<Row> {
    per_packet
        .unavailable
        .iter()
        .map(|(subject, reason)| {
            let cells = (0..cells).map(|_| not_available(reason.clone())).collect();
            present::plain_row(subject.label(), cells)
        })
        .collect()
}

/// The subject that answers for a figure of packets: the first whose segments are packets and that has gates.
fn first_per_packet(per_packet: &PerPacket) -> Option<&Measured> {
    per_packet
        .measured
        .iter()
        .find(|one| one.subject.is_per_packet() && one.table.is_some())
}

/// The way with the most, and the one with the least where there is another.
fn ends<T>(ways: &[T], of: impl Fn(&T) -> f64) -> Option<(&T, Option<&T>)> {
    let by = |a: &&T, b: &&T| of(a).total_cmp(&of(b));
    let most = ways.iter().max_by(by)?;
    let least = ways.iter().min_by(by).filter(|_| ways.len() > 1);
    Some((most, least))
}

/// Lines of trust of the measurement.
fn trust(per_packet: &PerPacket) -> Vec<TrustLine> {
    let mut lines = vec![present::note(format!(
        "requests of {}, responses of {} from {} to {}{}; a time is the interquartile mean of a slice's round trips",
        format::bytes(REQUEST),
        format::counted(per_packet.sizes.len() as u64, "size", "sizes"),
        format::whole(per_packet.sizes.first().copied().unwrap_or(0) as u64),
        format::bytes(per_packet.sizes.last().copied().unwrap_or(0)),
        if per_packet.fewer {
            " (a sample of the paper's 256, one of each of as many equal parts, to end in time)"
        } else {
            ""
        }
    ))];
    if per_packet.measured.iter().any(|one| !one.swept.is_empty()) {
        lines.push(present::note(
            "round trips of all of the paper's sizes were measured without gates, in turns; layers are told at the sample",
        ));
    }
    for measured in &per_packet.measured {
        lines.extend(of_subject(per_packet, measured));
    }
    lines.extend(per_packet.unavailable.iter().map(|(subject, reason)| {
        present::warning(format!("{} is left out: {reason}", subject.label()))
    }));
    if per_packet.stopped {
        lines.push(present::warning(
            "the run was stopped; what is shown was measured until then",
        ));
    }
    lines
}

fn of_subject(per_packet: &PerPacket, measured: &Measured) -> Vec<TrustLine> {
    let label = measured.subject.label();
    let mut lines = Vec::new();
    let settings: Vec<String> = measured
        .settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    lines.push(present::note(format!(
        "{label}, {}: {}",
        measured.mode,
        settings.join(", ")
    )));
    if let Some(reason) = &measured.without_gates {
        lines.push(present::warning(format!(
            "{label} has no gates here, only round trips: {reason}"
        )));
    }
    if measured.table.is_none() {
        return lines;
    }
    lines.extend(closures(per_packet, measured));
    lines.extend(of_gates(per_packet, measured));
    let lost = measured.lost();
    lines.push(TrustLine {
        kind: TrustKind::EventsLost,
        value: Some(lost as f64),
        unit: Unit::Count,
        holds: lost == 0,
        text: format!(
            "{label}: {} lost; {} to no packet of a message",
            format::counted(lost, "event", "events"),
            format::counted(measured.unmatched, "belongs", "belong")
        ),
    });
    lines.extend(measured.joined().map(|joined| TrustLine {
        kind: TrustKind::JoinRate,
        value: Some(100.0 * joined),
        unit: Unit::Percent,
        holds: joined >= MESSAGES,
        text: format!(
            "{label}: {:.2} % of the messages were seen at every gate of their slice",
            100.0 * joined
        ),
    }));
    lines
}

/// The sizes that have a ledger.
fn with_ledger<'a>(
    per_packet: &'a PerPacket,
    measured: &'a Measured,
) -> impl Iterator<Item = (usize, &'a AtGates)> {
    let sizes = per_packet.sizes.iter().zip(&measured.sizes);
    sizes.filter_map(|(&size, at)| Some((size, at.ledger.as_ref()?)))
}

/// The verdict of the closure: at the size where it leaves most open, and how many sizes have which verdict.
fn closures(per_packet: &PerPacket, measured: &Measured) -> Vec<TrustLine> {
    let label = measured.subject.label();
    let share = |ledger: &AtGates| ledger.closure.left.ns / ledger.closure.of_ns;
    let worst = with_ledger(per_packet, measured)
        .max_by(|a, b| share(a.1).abs().total_cmp(&share(b.1).abs()));
    let Some((size, ledger)) = worst else {
        return Vec::new();
    };
    let verdicts: Vec<Verdict> = with_ledger(per_packet, measured)
        .map(|(_, ledger)| ledger.closure.verdict(measured.limit()))
        .collect();
    let count = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|one| is(one)).count();
    let closes = count(|one| *one == Verdict::Closes);
    let left = ledger.closure.left;
    let half_width = left.half_width / ledger.closure.of_ns;
    let said = match ledger.closure.verdict(measured.limit()) {
        Verdict::Closes => "closes".to_owned(),
        Verdict::DoesNotClose => "does not close".to_owned(),
        Verdict::CannotTell { times } => {
            format!("cannot be told to close ({times:.1} times as long a run could)")
        }
    };
    let unseen: Vec<String> = measured
        .spans()
        .filter(|(index, _)| ledger.unseen.contains(index))
        .map(|(_, span)| name(span))
        .collect();
    let unseen = if unseen.is_empty() {
        String::new()
    } else {
        format!("; too short for this closure to see: {}", unseen.join(", "))
    };
    vec![
        TrustLine {
            kind: TrustKind::Closure,
            value: Some(100.0 * share(ledger)),
            unit: Unit::Percent,
            holds: closes == verdicts.len(),
            text: format!(
                "{label}: where the way of the last byte leaves most open ({}) it {said}: {:.1} +-{:.1} % of the round trip without \
                 gates; of {} {closes} close, {} do not and {} cannot be told{unseen}",
                format::bytes(size),
                100.0 * share(ledger),
                100.0 * half_width,
                format::counted(verdicts.len() as u64, "size", "sizes"),
                count(|one| *one == Verdict::DoesNotClose),
                count(|one| matches!(one, Verdict::CannotTell { .. })),
            ),
        },
        TrustLine {
            kind: TrustKind::Residual,
            value: Some(left.ns),
            unit: Unit::Nanoseconds,
            holds: true,
            text: format!(
                "{label}: there {} +-{} are left open",
                format::duration(left.ns),
                format::duration(left.half_width)
            ),
        },
    ]
}

/// The cost of gates: where it disturbs a round trip most.
fn of_gates(per_packet: &PerPacket, measured: &Measured) -> Vec<TrustLine> {
    let label = measured.subject.label();
    let share = |ledger: &AtGates| ledger.perturbation.ns / ledger.closure.of_ns;
    let most = with_ledger(per_packet, measured).max_by(|a, b| share(a.1).total_cmp(&share(b.1)));
    let Some((size, ledger)) = most else {
        return Vec::new();
    };
    let disabled = ledger.disabled.map_or_else(String::new, |disabled| {
        format!(
            "; disabled they add {} +-{}",
            format::duration(disabled.ns),
            format::duration(disabled.half_width)
        )
    });
    vec![TrustLine {
        kind: TrustKind::Perturbation,
        value: Some(100.0 * share(ledger)),
        unit: Unit::Percent,
        holds: true,
        text: format!(
            "{label}: gates see every packet; all of them together would make a round trip {} +-{} longer ({}, {}), of which {} +-{} \
             falls elsewhere than beside them{disabled}; it is estimated from {} slices in {} blocks and in no span; all \
             blocks are of one session, and another may differ by more",
            format::duration(ledger.perturbation.ns),
            format::duration(ledger.perturbation.half_width),
            layout::percent(share(ledger)),
            format::bytes(size),
            format::duration(ledger.elsewhere.ns),
            format::duration(ledger.elsewhere.half_width),
            ledger.slices,
            ledger.blocks,
        ),
    }]
}

/// The share of the round trip that is left open at a size, where its ledger does not close.
fn left_open(measured: &Measured, at: usize) -> Option<f64> {
    let closure = measured.sizes[at].ledger.as_ref()?.closure;
    let open = closure.verdict(measured.limit()) == Verdict::DoesNotClose;
    open.then(|| closure.left.ns / closure.of_ns)
}

/// A time of packets as evidence, with the round trips of its size.
fn evidence(measured: &Measured, at: usize, known: Option<Known>) -> Result<Evidence, Refusal> {
    let known = known.ok_or_else(|| Refusal::NotMeasured("no packet of it was seen".to_owned()))?;
    let interval = measured.subject.is_per_packet().then(|| interval(known));
    let evidence = Evidence::new(known.ns, interval, measured.sizes[at].round_trips);
    Ok(evidence.leaving(left_open(measured, at)))
}

/// A table of the columns' sizes.
fn table(
    id: String,
    title: String,
    per_packet: &PerPacket,
    places: &[usize],
    rows: Vec<Row>,
) -> Table {
    Table {
        id,
        title,
        columns: present::size_columns(&sizes_at(per_packet, places), Unit::Nanoseconds),
        rows,
    }
}

#[cfg(test)]
mod tests;
