//! Predictions from a run: what a message, a packet and a byte cost, and what follows for a line's rate.
//!
//! Costs are fitted to the round trips and streams of the run by size (`fit`); each size is also predicted from the others,
//! and the error stands beside the costs. Sizes and MTUs that the run does not have are measured only when that is asked for
//! ([`validate`]). What follows from costs is plain arithmetic ([`model`]), the same that gives the papers' own predictions from the
//! papers' counts.

mod fit;
mod interval;
pub mod memory;
pub mod model;
mod packets;
#[cfg(test)]
mod tests;
mod validate;
mod validated;

use tollgate_papers as papers;
use tollgate_run::{
    Cell, Column, Experiment, Measured, Row, Run, Source, Table, TrustKind, TrustLine, Unit,
    format, present, present::plain_row,
};
use tollgate_stats as stats;

pub use crate::context::LINE_RATE;
use fit::{Cost, CostModel, Costs};
use interval::{HELD, Point, Predicted, Teller};
use packets::Packets;

pub use validate::{Validation, validate};

/// The experiment whose round trips are predicted.
const TRIPS: &str = "rr-by-size";

/// A full frame on Ethernet, as Lehmann and Benz count it: without preamble, checksum and gap.
const FRAME: f64 = 1_514.0;
/// Bytes of the largest packet on Linux's loopback device.
const LOOPBACK_MTU: usize = 65_536;
/// The segment there.
const LOOPBACK: f64 = fit::segment(LOOPBACK_MTU);
/// The segment of smoltcp in packets of 1,500 bytes: it counts no timestamps.
const SMOLTCP: f64 = 1_460.0;
/// The bars that costs are held against: how far they miss a size that they have not seen, at the median and at most.
const MEDIAN_BAR: f64 = 0.05;
const WORST_BAR: f64 = 0.15;

/// A run that holds nothing to predict from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "predictions were to be made from round trips or streams of at least three sizes, and the run holds none; make one with \
     `tollgate experiment run rr-by-size stream-by-write-size --json run.json`"
)]
pub struct NothingToPredictFrom;

/// Options of a prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The file of the run, for the command that repeats it.
    pub from: String,
    /// Sizes that are told; none for some between those of usual runs and beyond them.
    pub sizes: Option<Vec<usize>>,
    /// Bits per second of the line.
    pub line_rate: u64,
    /// Bytes that memory moves in a second, read or written; none where it was not measured.
    pub memory: Option<f64>,
}

/// A way that was measured over several sizes.
struct Way {
    label: String,
    /// Bytes and nanoseconds.
    points: Vec<(f64, f64)>,
    cost_model: CostModel,
    costs: Costs,
    errors: Vec<Option<f64>>,
    teller: Teller,
}

impl Way {
    fn of(
        label: &str,
        points: &[Point],
        cost_model: CostModel,
        teller: Option<Teller>,
    ) -> Option<Self> {
        let shared = interval::shared_error(points);
        let points: Vec<(f64, f64)> = points.iter().map(Point::pair).collect();
        Some(Self {
            label: label.to_owned(),
            cost_model,
            costs: Costs::fit(&points, cost_model)?.widened(shared),
            errors: fit::left_out(&points, cost_model),
            points,
            teller: teller?,
        })
    }

    /// Tells whether sizes that were left out are told well enough.
    fn is_straight(&self) -> bool {
        self.held_out().is_some_and(Missed::is_met)
    }

    /// The errors at sizes that were left out.
    fn held_out(&self) -> Option<Missed> {
        Missed::of(self.errors.iter().flatten().copied())
    }
}

/// Errors of predictions, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Missed {
    median: f64,
    worst: f64,
}

impl Missed {
    /// Of relative errors, whatever their direction; none of none.
    fn of(errors: impl Iterator<Item = f64>) -> Option<Self> {
        let mut errors: Vec<f64> = errors.map(f64::abs).collect();
        errors.sort_by(f64::total_cmp);
        Some(Self {
            median: stats::middle(&errors)?,
            worst: *errors.last()?,
        })
    }

    fn is_met(self) -> bool {
        self.median <= MEDIAN_BAR && self.worst <= WORST_BAR
    }
}

/// Model of a round trip over the path that a row's label names.
fn trip(label: &str, packets: Packets) -> CostModel {
    let usual = packets.segment(fit::USUAL_MTU);
    if label.starts_with("bare-shm") {
        CostModel::Whole
    } else if label.starts_with("kernel-loopback") {
        let segment = packets.segment(LOOPBACK_MTU);
        match packets.datagrams {
            true => CostModel::Packets(segment),
            false => CostModel::Together(segment),
        }
    } else if label.starts_with("kernel-") && !packets.datagrams {
        CostModel::Together(usual)
    } else if label.starts_with("peer-smoltcp") {
        CostModel::Packets(SMOLTCP)
    } else {
        CostModel::Packets(usual)
    }
}

/// Model of a write of a stream over the path that a row's label names. The kernel's writer takes its segment all the way into the
/// reader's socket, so it sets the pace, also on two cores. It hands over at most 64 KiB at once, with headers (GSO).
fn write(label: &str) -> CostModel {
    if label.starts_with("kernel-") {
        CostModel::Piled(LOOPBACK)
    } else if label.contains("2 cores") {
        CostModel::BothEnds
    } else {
        CostModel::Whole
    }
}

/// Predicts from a run; with a validation, its outcome stands after the costs.
///
/// # Errors
/// [`NothingToPredictFrom`].
pub fn predict(
    run: &Run,
    options: &Options,
    validation: Option<&Validation>,
) -> Result<Experiment, NothingToPredictFrom> {
    let packets = Packets::of(run, TRIPS);
    let of_trip = |label: &str| trip(label, packets);
    let trips = ways(run, TRIPS, "round-trips", of_trip, |ns, _| ns);
    let streams = ways(run, "stream-by-write-size", "cost", write, |ns, size| {
        ns * size
    });
    if trips.is_empty() && streams.is_empty() {
        return Err(NothingToPredictFrom);
    }
    let line = options.line_rate as f64;
    let mut tables = Vec::new();
    if !trips.is_empty() {
        tables.push(costs(
            "round-trip-costs",
            "What a round trip costs",
            TRIP_COSTS,
            &trips,
        ));
        tables.push(sizes_predicted(
            "round-trips",
            "Round trips",
            &options
                .sizes
                .clone()
                .unwrap_or_else(|| validate::SIZES.to_vec()),
            &trips,
        ));
        tables.extend(errors(&trips));
        tables.push(effects(run, &trips, packets));
    }
    if !streams.is_empty() {
        tables.push(costs(
            "stream-costs",
            "What a stream costs",
            WRITE_COSTS,
            &streams,
        ));
        tables.push(sizes_predicted(
            "streams",
            "Writes of a stream",
            &options
                .sizes
                .clone()
                .unwrap_or_else(|| validate::WRITES.to_vec()),
            &streams,
        ));
        tables.push(at_line(run, &streams, line));
        tables.extend(
            options
                .memory
                .map(|memory| memory::limits(memory, &streams)),
        );
    }
    let mut trust = trust(&trips, &streams, packets, options);
    let mut finding = finding(&trips, &streams, line);
    let mut command = format!(
        "tollgate predict --from {} --line-rate {}",
        format::quoted(&options.from),
        options.line_rate
    );
    if let Some(validation) = validation {
        let shown = validated::show(validation, &trips, &streams);
        tables.splice(0..0, shown.tables);
        trust.extend(shown.trust);
        finding = format!("{} {finding}", shown.finding);
        command.push_str(" --validate");
    }
    tables.push(papers());
    Ok(Experiment {
        name: "predict".to_owned(),
        title: format!("Predictions for a line of {}", rate_in_words(line)),
        paper: None,
        finding,
        command,
        tables,
        figures: Vec::new(),
        trust,
    })
}

/// The rows of a table whose columns are sizes, as times of a whole message.
fn ways(
    run: &Run,
    experiment: &str,
    table: &str,
    cost_model: impl Fn(&str) -> CostModel,
    whole: impl Fn(f64, f64) -> f64,
) -> Vec<Way> {
    let Some(table) = find(run, experiment, table) else {
        return Vec::new();
    };
    let points = |row: &Row| -> Vec<Point> {
        let cells = table.columns.iter().zip(&row.cells);
        cells
            .filter_map(|(column, cell)| {
                let size = format::parse_size(&column.name)?;
                let times = whole(1.0, size);
                let whole = Cell::Value(cell.measured()?.clone().times(times));
                Point::of(size, &whole)
            })
            .collect()
    };
    let rows = table.rows.iter();
    let measured: Vec<(Vec<Point>, CostModel)> = rows
        .map(|row| (points(row), cost_model(&row.label)))
        .collect();
    let rows = table
        .rows
        .iter()
        .zip(&measured)
        .zip(interval::tellers(&measured));
    rows.filter_map(|((row, (points, cost_model)), teller)| {
        Way::of(&row.label, points, *cost_model, teller)
    })
    .collect()
}

/// Times of sizes that the run does not have, each with the interval of what such a run would measure.
fn sizes_predicted(id: &str, what: &str, sizes: &[usize], ways: &[Way]) -> Table {
    let rows = ways.iter().flat_map(|way| {
        let predicted: Vec<Predicted> = sizes
            .iter()
            .map(|&size| way.teller.at(size as f64))
            .collect();
        predicted_rows(&way.label, &predicted)
    });
    Table {
        id: format!("told-{id}"),
        title: format!(
            "{what} of other sizes, and between what such a run would measure {:.0} % of them",
            100.0 * HELD
        ),
        columns: present::size_columns(sizes, Unit::Nanoseconds),
        rows: rows.collect(),
    }
}

/// Rows of the predictions for a way, with the ends of the intervals.
fn predicted_rows(label: &str, predicted: &[Predicted]) -> Vec<Row> {
    let line = |name: &str, of: fn(&Predicted) -> Result<f64, &'static str>| {
        let cells = predicted
            .iter()
            .map(|predicted| of(predicted).map_or_else(missing, Cell::exact));
        plain_row(format!("{label}: {name}"), cells.collect())
    };
    vec![
        line("predicted", |predicted| Ok(predicted.ns)),
        line("at least", |predicted| Ok(predicted.interval?.0)),
        line("at most", |predicted| Ok(predicted.interval?.1)),
    ]
}

fn find<'a>(run: &'a Run, experiment: &str, table: &str) -> Option<&'a Table> {
    let experiment = run.experiments.iter().find(|one| one.name == experiment)?;
    experiment.tables.iter().find(|one| one.id == table)
}

fn column(name: &str, unit: Unit) -> Column {
    Column {
        name: name.to_owned(),
        unit,
    }
}

fn cell(cost: Cost) -> Cell {
    Cell::Value(Measured {
        value: cost.value,
        ci: cost.ci,
        ..Measured::default()
    })
}

fn missing(reason: &str) -> Cell {
    Cell::NotAvailable {
        reason: reason.to_owned(),
    }
}

/// A cost of a way, or why it has none.
type OfCosts = fn(&Costs) -> Result<Cost, &'static str>;

/// The costs that tables show: the heading, the unit, which.
const TRIP_COSTS: &[(&str, Unit, OfCosts)] = &[
    ("Each trip", Unit::Nanoseconds, |costs| costs.per_message),
    ("further packet", Unit::Nanoseconds, |costs| {
        costs.per_packet
    }),
    ("beyond a segment", Unit::Nanoseconds, |costs| {
        costs.per_long
    }),
    ("each byte", Unit::NanosecondsPerByte, |costs| {
        costs.per_byte
    }),
];
const WRITE_COSTS: &[(&str, Unit, OfCosts)] = &[
    ("Each write", Unit::Nanoseconds, |costs| costs.per_message),
    ("own segment", Unit::Nanoseconds, |costs| costs.per_own),
    ("further segment", Unit::Nanoseconds, |costs| {
        costs.per_packet
    }),
    ("each byte", Unit::NanosecondsPerByte, |costs| {
        costs.per_byte
    }),
    ("reader, each byte", Unit::NanosecondsPerByte, |costs| {
        costs.per_byte_read
    }),
];

fn costs(id: &str, title: &str, shown: &[(&str, Unit, OfCosts)], ways: &[Way]) -> Table {
    let row = |way: &Way| {
        let error = |share: Option<f64>| match share {
            Some(share) => Cell::exact(100.0 * share),
            None => missing("too few sizes to leave one out"),
        };
        let held_out = way.held_out();
        let predicted = shown
            .iter()
            .map(|(_, _, of)| of(&way.costs).map_or_else(missing, cell));
        let errors = [
            error(held_out.map(|missed| missed.median)),
            error(held_out.map(|missed| missed.worst)),
        ];
        plain_row(&way.label, predicted.chain(errors).collect())
    };
    let columns = shown.iter().map(|&(name, unit, _)| column(name, unit));
    Table {
        id: id.to_owned(),
        title: format!("{title}, and by how much a size that was left out of the fit is missed"),
        columns: columns
            .chain([
                column("missed, median", Unit::Percent),
                column("at most", Unit::Percent),
            ])
            .collect(),
        rows: ways.iter().map(row).collect(),
    }
}

/// Table of leave-one-out errors: the prediction from the other sizes, less the measured time.
fn errors(ways: &[Way]) -> Option<Table> {
    let longest = ways.iter().max_by_key(|way| way.points.len())?;
    let sizes: Vec<f64> = longest.points.iter().map(|(size, _)| *size).collect();
    let row = |way: &Way| {
        let at = |size: &f64| {
            let place = way.points.iter().position(|(one, _)| one == size)?;
            *way.errors.get(place)?
        };
        let cells = sizes
            .iter()
            .map(|size| match at(size) {
                Some(error) => Cell::exact(100.0 * error),
                None => missing("not measured, or too few other sizes"),
            })
            .collect();
        plain_row(&way.label, cells)
    };
    Some(Table {
        id: "held-out".to_owned(),
        title: "Round trips predicted from the other sizes, less those measured".to_owned(),
        columns: sizes
            .iter()
            .map(|&size| column(&format::size(size as usize), Unit::Percent))
            .collect(),
        rows: ways.iter().map(row).collect(),
    })
}

/// Table of the effects of MTU, copy, waking and offload, as far as the run shows them.
fn effects(run: &Run, trips: &[Way], packets: Packets) -> Table {
    let mut rows = Vec::new();
    for way in trips {
        let Some(&(size, ns)) = way.points.last() else {
            continue;
        };
        let whole = format::whole(size as u64);
        let mut push = |what: &str, cost: Result<Cost, &'static str>, times: f64| {
            let label = format!("{what}, {whole} B, {}", way.label);
            let cells = match certain(cost) {
                Ok(cost) => vec![
                    Cell::exact(times * cost),
                    Cell::exact(100.0 * times * cost / ns),
                ],
                Err(reason) => vec![missing(reason), missing(reason)],
            };
            rows.push(plain_row(label, cells));
        };
        let [.., jumbo] = fit::MTUS;
        let (same_run, later_run) = (fit::segment(fit::USUAL_MTU), fit::segment(jumbo));
        let jumbo = format!("MTU {jumbo} for {}", fit::USUAL_MTU);
        match trip(&way.label, packets) {
            // A run of other packets does not show what larger ones save.
            _ if packets != Packets::default() => {}
            CostModel::Packets(_) => {
                let fewer = model::packets(size, same_run) - model::packets(size, later_run);
                push(&jumbo, way.costs.per_packet, fewer);
            }
            CostModel::Together(mss) if mss == same_run && size > same_run && size <= later_run => {
                push(&jumbo, way.costs.per_long, 1.0);
            }
            CostModel::Together(_)
            | CostModel::Alone(_)
            | CostModel::Piled(_)
            | CostModel::Whole
            | CostModel::BothEnds => {}
        }
        push("no byte touched", way.costs.per_byte, size);
        let polling = way
            .label
            .strip_suffix("blocking")
            .map(|path| format!("{path}polling"));
        let quick = polling.and_then(|label| trips.iter().find(|way| way.label == label));
        if let Some(quick) = quick {
            let (small, slow) = way.points[0];
            let saved = slow - quick.costs.at(small);
            let label = format!(
                "no waking, {} B, {}",
                format::whole(small as u64),
                way.label
            );
            rows.push(plain_row(
                label,
                vec![Cell::exact(saved), Cell::exact(100.0 * saved / slow)],
            ));
        }
    }
    if !run
        .experiments
        .iter()
        .any(|one| one.name == "foong-offload")
    {
        let reason = "the run holds no foong-offload, which measures with and without";
        rows.push(plain_row(
            "checksum and segmentation offload",
            vec![missing(reason), missing(reason)],
        ));
    }
    Table {
        id: "effects".to_owned(),
        title: "What a round trip would save".to_owned(),
        columns: vec![
            column("saved", Unit::Nanoseconds),
            column("of the trip", Unit::Percent),
        ],
        rows,
    }
}

/// A cost that is certain to be one.
fn certain(cost: Result<Cost, &'static str>) -> Result<f64, &'static str> {
    let cost = cost?;
    match cost.ci {
        Some(ci) if ci.low <= 0.0 => Err("its interval holds zero"),
        Some(_) | None => Ok(cost.value),
    }
}

/// The smallest write with which the measured ones fill a line: between two sizes, cost follows a power of the size.
fn fills(points: &[(f64, f64)], line: f64) -> Option<f64> {
    let speed = |&(size, ns): &(f64, f64)| size * 8e9 / ns / line;
    let first = points.first()?;
    if speed(first) >= 1.0 {
        return Some(first.0);
    }
    points.windows(2).find_map(|pair| {
        let (slow, quick) = (speed(&pair[0]), speed(&pair[1]));
        let share = -slow.ln() / (quick.ln() - slow.ln());
        (quick >= 1.0).then(|| pair[0].0 * (pair[1].0 / pair[0].0).powf(share))
    })
}

/// Table of a line at full rate: the smallest message that fills it on each way of streaming, and the cycles and processors it
/// takes.
fn at_line(run: &Run, streams: &[Way], line: f64) -> Table {
    let row = |way: &Way| {
        let (message, byte) = way.costs.message_and_byte();
        let best = way
            .points
            .iter()
            .map(|(size, ns)| size / ns)
            .fold(0.0, f64::max);
        // Both ends of a path on one core take turns there, so the core is all busy; on two, each end has its own.
        let busy = if way.label.contains("2 cores") {
            2.0
        } else {
            1.0
        };
        let hz = model::hz_per_bit(busy, run.clock.hz, best * 8e9);
        let smallest = match model::smallest_message(line, message, byte) {
            _ if !way.is_straight() => missing(
                "costs do not tell this way: they miss sizes that were left out by too much",
            ),
            Some(bytes) => Cell::exact(bytes.ceil()),
            None => missing("a byte alone takes longer than on the line; it takes several streams"),
        };
        let measured = match fills(&way.points, line) {
            Some(bytes) => Cell::exact(bytes.ceil()),
            None => missing("no size that was measured fills it"),
        };
        plain_row(
            &way.label,
            vec![
                Cell::exact(best * 1e9),
                smallest,
                measured,
                Cell::exact(hz),
                Cell::exact(model::cores(hz, line, run.clock.hz)),
            ],
        )
    };
    Table {
        id: "line".to_owned(),
        title: format!(
            "A line of {}: {} for a full packet of {} bytes",
            rate_in_words(line),
            format::duration(model::budget_ns(FRAME, line)),
            format::whole(FRAME as u64)
        ),
        columns: vec![
            column("best of the run", Unit::BytesPerSecond),
            column("filled from, by costs", Unit::Bytes),
            column("from, as measured", Unit::Bytes),
            column("Hz per bit/s", Unit::None),
            column("cores for it", Unit::None),
        ],
        rows: streams.iter().map(row).collect(),
    }
}

/// The papers' own predictions, from their counts by this arithmetic.
fn papers() -> Table {
    let fact = |id: &str| papers::fact(id).map(|fact| fact.value);
    let clark = |id: &str| fact(&format!("clark-1989/{id}"));
    let packets = || {
        let each = model::execution_ns(clark("path-risc")?, clark("processor-rate")? * 1e6);
        Some(model::rate(each))
    };
    let carried = |of_data: f64| {
        let bits = model::throughput_bits(packets()?, clark("predicted-packet-size")?, of_data);
        Some(bits / 1e6)
    };
    let memory = || {
        let bandwidth = clark("memory-width")? / 8.0 / (clark("memory-cycle")? * 1e-9);
        Some(model::memory_limit_bits(bandwidth, clark("memory-cycles-per-word")?) / 1e6)
    };
    let budget = || {
        let line = fact("lehmann-benz-2002/gigabit-bytes")? * 8.0;
        Some(model::budget_ns(fact("lehmann-benz-2002/gigabit-frame")?, line) / 1e3)
    };
    let rows = [
        ("clark-1989/predicted-packet-rate", packets()),
        ("clark-1989/predicted-throughput", carried(1.0)),
        (
            "clark-1989/predicted-throughput-with-acks",
            clark("data-packets-in-three").and_then(|data| carried(data / 3.0)),
        ),
        (
            "clark-1989/predicted-smallest-packet",
            clark("fddi-bandwidth")
                .zip(packets())
                .map(|(line, packets)| model::smallest_packet(line * 1e6, packets)),
        ),
        ("clark-1989/predicted-memory-limit", memory()),
        ("lehmann-benz-2002/gigabit-budget", budget()),
        (
            "foong-2003/rule-of-thumb",
            Some(model::hz_per_bit(1.0, 1e9, 1e9)),
        ),
    ];
    let row = |(id, ours): (&str, Option<f64>)| {
        let (paper, name) = id.split_once('/')?;
        let (paper, fact) = (papers::paper(paper)?, papers::fact(id)?);
        let place = match fact.page {
            Some(page) => format!("{}, p. {page}", fact.place),
            None => format!("section {}", fact.place),
        };
        let source = Source {
            authors: paper
                .citation()
                .trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ')
                .to_owned(),
            year: paper.year,
            place,
        };
        Some(plain_row(
            format!(
                "{}, {}",
                name.trim_start_matches("predicted-").replace('-', " "),
                fact.unit
            ),
            vec![
                Cell::Published {
                    value: fact.value,
                    source,
                },
                Cell::exact(ours?),
            ],
        ))
    };
    Table {
        id: "papers".to_owned(),
        title: "The papers' own predictions, from their counts by the same arithmetic".to_owned(),
        columns: vec![
            column("printed", Unit::None),
            column("computed", Unit::None),
        ],
        rows: rows.into_iter().filter_map(row).collect(),
    }
}

fn rate_in_words(line: f64) -> String {
    if line >= 1e9 {
        format!("{} Gb/s", format::significant(line / 1e9))
    } else {
        format!("{} Mb/s", format::significant(line / 1e6))
    }
}

fn finding(trips: &[Way], streams: &[Way], line: f64) -> String {
    let mut predicted = Vec::new();
    let quickest = |ways: &'_ [Way]| {
        (0..ways.len())
            .filter(|&at| ways[at].label.starts_with("kernel-loopback"))
            .min_by(|&a, &b| ways[a].costs.at(1.0).total_cmp(&ways[b].costs.at(1.0)))
            .or((!ways.is_empty()).then_some(0))
    };
    if let Some(way) = quickest(trips).map(|at| &trips[at])
        && let Some(Missed { median, worst }) = way.held_out()
    {
        predicted.push(format!(
            "a round trip of a byte over {} takes {} and each more {} ns, which tells sizes that were left out within {:.1} % at the median \
             and {:.1} % at most",
            way.label,
            format::duration(way.costs.at(1.0)),
            format::significant(way.costs.message_and_byte().1),
            100.0 * median,
            100.0 * worst,
        ));
    }
    if let Some(way) = quickest(streams).map(|at| &streams[at]) {
        predicted.push(match fills(&way.points, line) {
            Some(bytes) => format!(
                "one stream over {} fills {} with writes of {} or more",
                way.label,
                rate_in_words(line),
                format::counted(bytes.ceil() as u64, "byte", "bytes")
            ),
            None => format!(
                "one stream over {} does not fill {} whatever the size of its writes",
                way.label,
                rate_in_words(line)
            ),
        });
    }
    format::sentence(&predicted)
}

fn trust(trips: &[Way], streams: &[Way], packets: Packets, options: &Options) -> Vec<TrustLine> {
    let note = |holds: bool, text: String| TrustLine {
        kind: TrustKind::Note,
        value: None,
        unit: Unit::None,
        holds,
        text,
    };
    let segments = match packets == Packets::default() {
        true => "1,448 and 1,460 bytes".to_owned(),
        false => {
            let bytes = packets.segment(fit::USUAL_MTU);
            format!("{} bytes", format::whole(bytes as u64))
        }
    };
    let mut lines = vec![note(
        true,
        format!(
            "costs by least squares of relative errors over the sizes of the run, intervals of 95 %; on Tollgate's stack and smoltcp a message \
         makes ceil(size / segment) packets, of {segments}, the first of which is part of the message; the kernel's segments pass together (GSO), but a message that is \
         longer than one is acknowledged by a packet of its own; a write of a stream over kernel sockets makes a segment for each 65,483 \
         bytes, or piles up with others when it is small (own segment: what it costs more when it does not); a size between two others is told by its costs times what these leave of the times of those two, in proportion; a round trip is one message there and back, so its packets and \
         bytes count once and cost both ways"
        ),
    )];
    lines.push(note(
        true,
        "intervals of costs hold what the fit leaves and what differs between the repetitions of this run; what differs from run to run, \
         such as the cores that a virtual machine lies on, is not in them"
            .to_owned(),
    ));
    for (what, ways) in [("round trips", trips), ("streams", streams)] {
        let poor: Vec<String> = ways
            .iter()
            .filter(|way| !way.is_straight())
            .map(|way| way.label.clone())
            .collect();
        if !poor.is_empty() {
            lines.push(note(
                false,
                format!(
                    "costs do not tell {what} within 5 % at the median and 15 % at most over {}: do not go by them there",
                    format::list(&poor)
                ),
            ));
        }
    }
    if !streams.is_empty() {
        lines.push(note(
            true,
            "cores are those that are busy at the run's best rate, an end that polls or sleeps on a core of its own counted as all \
             busy; hertz are those of the run's clock, not of a processor that changes its frequency"
                .to_owned(),
        ));
    }
    let beyond = options
        .memory
        .and_then(|memory| memory::beyond(memory, streams));
    lines.extend(beyond.map(|text| note(false, text)));
    if options.memory.is_none() {
        lines.push(note(
            true,
            "what memory allows is not shown: give its bandwidth with --memory 20G (bytes per second)".to_owned(),
        ));
    }
    lines
}
