//! `lehmann-bandwidth`, `lehmann-processing`, `lehmann-queues` and `lehmann-budget`: requests of 128 bytes and responses of 256 to
//! 65,536 bytes, packet by packet, after Lehmann and Benz 2002.
//!
//! All four show one measurement ([`crate::trains`]): whichever comes first makes it. They share how sizes become columns, and what
//! is said of trust.

mod bandwidth;
mod budget;
mod processing;
mod queues;

use tollgate_gate::{Direction, Span};
use tollgate_workload::trains::REQUEST;

use super::{Experiment, Reported};
use crate::claim::{Evidence, Refusal};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::published;
use crate::run::{
    self, Axis, Cell, Figure, Layer, Measured as Number, Point, Row, RowKind, Scale, Series,
    Source, Table, TrustKind, TrustLine, Unit,
};
use crate::shapes;
use crate::trains::{self, Known, Measured, Trains};
use crate::words;

pub(super) use bandwidth::BANDWIDTH;
pub(super) use budget::BUDGET;
pub(super) use processing::PROCESSING;
pub(super) use queues::QUEUES;

const PAPER: &str = "lehmann-benz-2002";
/// The sizes that become columns where there are too many for a table; figures show all.
const COLUMNS: [usize; 8] = [256, 1_536, 4_096, 8_192, 16_384, 32_768, 49_152, 65_536];
/// The sum of the spans lies within this share of the round trip without gates.
const CLOSES: f64 = 0.03;
/// What the gates of a span may cost, as a share of the round trip.
const PERTURBS: f64 = 0.05;
/// The shares of packets and of messages that should be joined.
const PACKETS: f64 = 0.95;
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
    parts: fn(&Trains, &Options, &str) -> Parts,
}

/// What a view shows.
struct Parts {
    finding: String,
    tables: Vec<Table>,
    figures: Vec<Figure>,
    trust: Vec<TrustLine>,
}

impl View {
    fn show(&self, trains: &Trains, options: &Options) -> run::Experiment {
        let command = shapes::command(self.name, options);
        let Parts {
            finding,
            tables,
            figures,
            trust,
        } = (self.parts)(trains, options, &command);
        run::Experiment {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            paper: self.paper(),
            finding,
            command,
            tables,
            figures,
            trust,
        }
    }
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

    /// Whichever of the four comes first measures for all.
    fn weight(&self) -> u32 {
        self.weight
    }

    fn concerns(&self, options: &Options) -> bool {
        !trains::wanted(options).is_empty()
    }

    fn run(&self, context: &mut Context<'_>) -> Result<run::Experiment, Error> {
        let trains = context.trains(self.name)?;
        Ok(self.show(&trains, &context.options))
    }
}

/// A figure of the paper.
fn figure(place: &str) -> Option<Source> {
    Some(shapes::source_at(published::paper(PAPER)?, place))
}

/// A number of the paper's running text.
fn fact(id: &str) -> Option<f64> {
    Some(published::paper(PAPER)?.fact(id)?.value)
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

fn sizes_at(trains: &Trains, places: &[usize]) -> Vec<usize> {
    places.iter().map(|&at| trains.sizes[at]).collect()
}

const fn layer(layer: tollgate_gate::Layer) -> Layer {
    use tollgate_gate::Layer as Gate;
    match layer {
        Gate::Socket => Layer::Socket,
        Gate::Tcp => Layer::Tcp,
        Gate::Ip => Layer::Ip,
        Gate::Device => Layer::Device,
        Gate::Driver => Layer::Driver,
        Gate::Link => Layer::Link,
        Gate::Scheduler => Layer::Scheduler,
    }
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
        layer: Some(layer(span.layer)),
        note: Some(format!("{} -> {}", span.from.name(), span.to.name())),
        cells,
    }
}

/// A number of a subject. With GSO a packet's time is that of the piece that it is in, and how pieces form is a state of the connection, of
/// which a run has one: its slices agree on it, so they tell nothing of how well the time is known.
fn number(measured: &Measured, known: Known) -> Cell {
    Cell::Value(Number {
        value: known.ns,
        ci: known.ci.filter(|_| measured.subject.is_a_train()),
        n: Some(known.n),
        ..Number::default()
    })
}

fn not_available(reason: impl Into<String>) -> Cell {
    Cell::NotAvailable {
        reason: reason.into(),
    }
}

/// Why a subject has no number at a size.
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
fn over_packets(label: String, values: &[Option<f64>]) -> Series {
    let points = values.iter().enumerate().filter_map(|(at, value)| {
        Some(Point {
            x: (at + 1) as f64,
            y: (*value)?,
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
fn absent(trains: &Trains, cells: usize) -> Vec<Row> {
    trains
        .absent
        .iter()
        .map(|(subject, reason)| {
            let cells = (0..cells).map(|_| not_available(reason.clone())).collect();
            shapes::plain_row(subject.label(), cells)
        })
        .collect()
}

/// The subject that answers for a figure of packets: the first whose segments are packets and that has gates.
fn first_train(trains: &Trains) -> Option<&Measured> {
    trains
        .measured
        .iter()
        .find(|one| one.subject.is_a_train() && one.table.is_some())
}

/// The way with the most, and the one with the least where there is another.
fn ends<T>(ways: &[T], of: impl Fn(&T) -> f64) -> Option<(&T, Option<&T>)> {
    let by = |a: &&T, b: &&T| of(a).total_cmp(&of(b));
    let most = ways.iter().max_by(by)?;
    let least = ways.iter().min_by(by).filter(|_| ways.len() > 1);
    Some((most, least))
}

/// How far the measurement can be trusted.
fn trust(trains: &Trains) -> Vec<TrustLine> {
    let mut lines = vec![shapes::note(format!(
        "requests of {}, responses of {} from {} to {}{}; a time is the mean of the middle half of all",
        words::bytes(REQUEST),
        words::counted(trains.sizes.len() as u64, "size", "sizes"),
        words::whole(trains.sizes.first().copied().unwrap_or(0) as u64),
        words::bytes(trains.sizes.last().copied().unwrap_or(0)),
        if trains.fewer {
            " (fewer than the paper's 256, to end in time)"
        } else {
            ""
        }
    ))];
    for measured in &trains.measured {
        lines.extend(of_subject(trains, measured));
    }
    lines.extend(trains.absent.iter().map(|(subject, reason)| {
        shapes::warning(format!("{} is left out: {reason}", subject.label()))
    }));
    if trains.stopped {
        lines.push(shapes::warning(
            "the run was stopped; what is shown was measured until then",
        ));
    }
    lines
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn of_subject(trains: &Trains, measured: &Measured) -> Vec<TrustLine> {
    let label = measured.subject.label();
    let mut lines = Vec::new();
    let settings: Vec<String> = measured
        .settings
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    lines.push(shapes::note(format!(
        "{label}, {}: {}",
        measured.mode,
        settings.join(", ")
    )));
    if let Some(reason) = &measured.without_gates {
        lines.push(shapes::warning(format!(
            "{label} has no gates here, only round trips: {reason}"
        )));
    }
    if let Some(table) = measured.table {
        let mut closures: Vec<(f64, f64, usize)> = trains
            .sizes
            .iter()
            .zip(&measured.sizes)
            .filter_map(|(&size, at)| Some((at.closure(table)?, at.open_ns(table)?, size)))
            .collect();
        closures.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
        if let Some(&(worst, residual, size)) = closures.last() {
            let middle = closures[closures.len() / 2].0;
            let within = closures.iter().filter(|one| one.0.abs() <= CLOSES).count();
            let holds = worst.abs() <= CLOSES;
            lines.push(TrustLine {
                kind: TrustKind::Closure,
                value: Some(100.0 * worst),
                unit: Unit::Percent,
                holds,
                text: format!(
                    "{label}: the way of the last byte {} on the round trip without gates: {} of it is left open at the size in \
                     the middle, {} at the worst ({}); {within} of {} within {}",
                    if holds { "closes" } else { "does not close" },
                    percent(middle),
                    percent(worst),
                    words::bytes(size),
                    words::counted(closures.len() as u64, "size", "sizes"),
                    percent(CLOSES)
                ),
            });
            lines.push(TrustLine {
                kind: TrustKind::Residual,
                value: Some(residual),
                unit: Unit::Nanoseconds,
                holds: true,
                text: format!("{label}: there {} are left open", words::duration(residual)),
            });
        }
    }
    if let Some(told) = measured.drift().told("without gates") {
        let disturbed = measured.disturbed();
        lines.push(shapes::note(match disturbed {
            0 => format!("{label}: {told}"),
            some => format!(
                "{label}: {told}; {} a size was disturbed and run again",
                words::counted(some, "time", "times")
            ),
        }));
    }
    if let Some((span, cost)) = measured.worst_perturbation() {
        lines.push(TrustLine {
            kind: TrustKind::Perturbation,
            value: Some(100.0 * cost),
            unit: Unit::Percent,
            holds: cost <= PERTURBS,
            text: format!(
                "{label}: gates see every packet, so that round trips with the two gates of a span take longer, by {} at most \
                 ({span}), at the size in the middle",
                percent(cost)
            ),
        });
    }
    lines.extend(of_gates(measured).into_iter().map(shapes::note));
    if measured.table.is_some() {
        let lost = measured.lost();
        lines.push(TrustLine {
            kind: TrustKind::EventsLost,
            value: Some(lost as f64),
            unit: Unit::Count,
            holds: lost == 0,
            text: format!(
                "{label}: {} lost; {} to no packet of a message",
                words::counted(lost, "event", "events"),
                words::counted(measured.strange(), "belongs", "belong")
            ),
        });
    }
    if let (Some(packets), Some(messages)) = (measured.packets_joined(), measured.messages_joined())
    {
        lines.push(TrustLine {
            kind: TrustKind::JoinRate,
            value: Some(100.0 * packets.min(messages)),
            unit: Unit::Percent,
            holds: packets >= PACKETS && messages >= MESSAGES,
            text: format!(
                "{label}: {:.2} % of the packets and {:.2} % of the messages were seen at both gates of a span",
                100.0 * packets,
                100.0 * messages
            ),
        });
    }
    lines
}

/// What is said of what gates cost, and of what no span holds.
fn of_gates(measured: &Measured) -> Vec<String> {
    let label = measured.subject.label();
    let mut said = Vec::new();
    if let Some((low, high)) = measured.probes_ns() {
        let where_it_stands = match &measured.in_place {
            None => String::new(),
            Some(Ok(known)) => known.told().map_or_else(String::new, |told| {
                format!(" (for the first packet of a message {told})")
            }),
            Some(Err(reason)) => {
                format!(
                    " (what it is for the first packet of a message could not be told: {reason})"
                )
            }
        };
        let slowed = measured.slowed.map_or_else(String::new, |slowed| {
            format!(
                "; all else takes {} longer with the gates, as the round trips of the same slices show, which is taken off slice by \
                 slice",
                percent(slowed - 1.0)
            )
        });
        said.push(format!(
            "{label}: a passage of a gate costs {} to {} as measured in place by a twin{where_it_stands}, which is subtracted for each \
             that lies within a time; acknowledgments pass gates too, {}, and are subtracted in the same way{slowed}",
            words::duration(low),
            words::duration(high),
            words::counted(measured.acknowledgments(), "time", "times")
        ));
    }
    if let Some(added) = &measured.added {
        let of_spans = added.spans_ns().map_or_else(String::new, |(low, high)| {
            format!(
                ", and its own two gates {} to {} to a span (below nothing where a reading of the clock is hidden by the span)",
                words::duration(low),
                words::duration(high)
            )
        });
        said.push(format!(
            "{label}: a passage of a gate adds {} in place{of_spans}, which is subtracted",
            words::duration(added.passage_ns())
        ));
    }
    if let Some((low, high)) = measured.asleep() {
        let [low, high] = [low, high].map(|ratio| percent(ratio - 1.0));
        said.push(format!(
            "{label}: with all gates asleep a round trip takes {low} to {high} longer than through code without gates, to which \
             times are brought at each size"
        ));
    }
    if let Some(call_ns) = measured.call_ns {
        said.push(format!(
            "{label}: on the way into the kernel before the first gate and out of it behind the last a round trip is {}, as a call that \
             does nothing shows; it is in no span, and beside the way of the last byte in what closes",
            words::duration(call_ns)
        ));
    }
    let turns = |packets| measured.added.as_ref()?.turns_ns(packets);
    if let Some((one, more)) = turns(1).zip(turns(2)) {
        said.push(format!(
            "{label}: what the applications do in a round trip between their calls takes {} with a response of one segment and {} with \
             one of more; it is in no span, and beside the way of the last byte in what closes",
            words::duration(one),
            words::duration(more)
        ));
    }
    said
}

/// The share of the round trip that is left open at a size, where it is too much.
fn left_open(measured: &Measured, at: usize) -> Option<f64> {
    measured.sizes[at]
        .closure(measured.table?)
        .filter(|share| share.abs() > CLOSES)
}

/// A time that gates tell at a size, with the round trips of that size.
fn evidence(measured: &Measured, at: usize, known: Option<Known>) -> Result<Evidence, Refusal> {
    let known = known.ok_or_else(|| Refusal::NotMeasured("no packet of it was seen".to_owned()))?;
    let trips = measured.sizes[at].ungated.len() as u64;
    Ok(Evidence::new(known.ns, known.ci, trips).leaving(left_open(measured, at)))
}

/// A table of the columns' sizes.
fn table(id: String, title: String, trains: &Trains, places: &[usize], rows: Vec<Row>) -> Table {
    Table {
        id,
        title,
        columns: shapes::size_columns(&sizes_at(trains, places), Unit::Nanoseconds),
        rows,
    }
}

#[cfg(test)]
mod tests;
