//! Responses of several packets on all paths that carry them, by the size of the response: measured once by
//! [`tollgate_measure::packets`], shown by the experiments after Lehmann and Benz 2002.
//!
//! It owns which paths and sizes are measured, and for how long; it must never judge a time.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_gate::{Direction, Kind, Span, SpanTable};
use tollgate_measure::gated::{self, Amount, Gated, Sized};
use tollgate_measure::ledger::LEAST_BLOCKS;
use tollgate_measure::packets::kernel::KernelPackets;
use tollgate_measure::packets::stack::StackPackets;
use tollgate_measure::packets::{of_packets, on_the_way};
use tollgate_measure::schedule::Sets;
use tollgate_measure::{Closure, Figure, Ledger, Limit, PacketTime};
use tollgate_run::{Mode, PathId, Placement};
use tollgate_stats::{self as stats, interquartile_mean};
use tollgate_workload::find;
use tollgate_workload::kernel::per_packet::{Carrier, KernelPacketSession};
use tollgate_workload::per_packet::SEGMENT;
use tollgate_workload::stack_memory::per_packet::StackPacketSession;

use crate::context::{Context, Options};
use crate::control::between_slices;
use crate::error::Error;

/// Bytes between two sizes of the paper's sweep, and the last of them.
const STEP: usize = 256;
const MOST: usize = 65_536;
/// Sizes whose packets are shown one by one, as in the paper's Figs. 6 to 9.
pub(crate) const OVER_TIME: [usize; 2] = [8_192, 65_536];
/// Sizes for each second of a run that is short of time: so few that a block of all of them takes a tenth of it.
const SIZES_A_SECOND: f64 = 1.0;
/// Round trips of a slice over the kernel: the fewest, and the usual number. The interquartile mean of fewer leaves out none.
const KERNEL_ROUND_TRIPS: [u64; 2] = [8, 32];
/// Round trips of a slice over our stack, whose clock spans batches of 16; the last batch has no end.
const STACK_ROUND_TRIPS: [u64; 2] = [96, 128];
/// The share of a subject's time that goes into round trips of all sizes, when the sizes with gates are a sample of them.
const SWEEP: u32 = 4;
/// The fewest rounds through all sizes: an interval needs two.
const LEAST_ROUNDS: u32 = 2;
/// Sizes are swept in steps of so many, which has no divisor in common with their number: neighbours lie apart in time, so a
/// machine that slows down for a while moves no stretch of the curve.
const STRIDE: usize = 101;
/// The share of its time after which a sweep is given up.
const MOST_PASSED: f64 = 2.0;
/// Less than this is not worth a sweep.
const LEAST_SWEPT: Duration = Duration::from_millis(500);
/// Blocks without a time budget: with 24 an interval is 4 % wider than with many.
const BLOCKS: u32 = 24;

/// A path, and the carrier of its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The kernel.
    Kernel(PathId, Carrier),
    /// Tollgate's own stack.
    Stack,
}

/// All of them, in the order in which they are shown.
const SUBJECTS: [Subject; 5] = [
    Subject::Kernel(PathId::KernelLoopback, Carrier::Packets),
    Subject::Kernel(PathId::KernelVeth, Carrier::Packets),
    Subject::Kernel(PathId::KernelLoopback, Carrier::Gso),
    Subject::Kernel(PathId::KernelVeth, Carrier::Gso),
    Subject::Stack,
];

impl Subject {
    pub(crate) const fn path(self) -> PathId {
        match self {
            Self::Kernel(path, _) => path,
            Self::Stack => PathId::StackMemory,
        }
    }

    /// Its name in tables.
    pub(crate) fn label(self) -> String {
        match self {
            Self::Kernel(path, carrier) => format!("{path}, {}", carrier.name()),
            Self::Stack => PathId::StackMemory.to_string(),
        }
    }

    /// Its name in the ids of tables.
    pub(crate) fn id(self) -> String {
        match self {
            Self::Kernel(path, Carrier::Packets) => path.to_string(),
            Self::Kernel(path, Carrier::Gso) => format!("{path}-gso"),
            Self::Stack => PathId::StackMemory.to_string(),
        }
    }

    /// Tells whether each segment travels as a packet of its own.
    pub(crate) const fn is_per_packet(self) -> bool {
        !matches!(self, Self::Kernel(_, Carrier::Gso))
    }

    /// The mode that it is gated in; none when the user wants none of its.
    fn mode(self, options: &Options) -> Option<Mode> {
        let capabilities = find(self.path())?.capabilities();
        options.gated_mode(&capabilities)
    }
}

/// The subjects that the user wants, each in the mode that it is gated in.
pub(crate) fn wanted(options: &Options) -> Vec<(Subject, Mode)> {
    SUBJECTS
        .iter()
        .filter(|subject| options.wants(subject.path()))
        .filter_map(|&subject| Some((subject, subject.mode(options)?)))
        .collect()
}

/// All that was measured of one subject.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) subject: Subject,
    pub(crate) mode: Mode,
    /// The spans; none where the path was run without gates.
    pub(crate) table: Option<SpanTable>,
    /// The reason why there are no gates.
    pub(crate) without_gates: Option<String>,
    pub(crate) sizes: Vec<AtSize>,
    /// The round trip of each of the paper's sizes without gates, where those with gates are a sample; empty otherwise.
    pub(crate) swept: Vec<(usize, Figure)>,
    /// Events that belong to no packet.
    pub(crate) unmatched: u64,
    pub(crate) settings: Vec<(&'static str, String)>,
}

/// One size of response.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtSize {
    /// The round trip without gates.
    pub(crate) round_trip: Option<Figure>,
    pub(crate) ledger: Option<AtGates>,
    /// Round trips that were run, with gates and without.
    pub(crate) round_trips: u64,
    /// Events that found no room.
    pub(crate) lost: u64,
    /// Messages that were sent while gates watched, and those that passed all of them.
    pub(crate) messages: (u64, u64),
    /// The reason why it failed, or has no ledger.
    pub(crate) failure: Option<String>,
}

/// The part of a ledger that is shown.
#[derive(Debug, Clone)]
pub(crate) struct AtGates {
    /// The way of the last byte, request and response together, in the order of the way; the applications' turns come last.
    pub(crate) spans: Vec<Figure>,
    /// Times of packets.
    pub(crate) packets: std::collections::BTreeMap<PacketTime, Figure>,
    /// Work of all spans of a direction on a packet: to send it, and to receive it.
    pub(crate) work: [Option<Figure>; 2],
    pub(crate) closure: Closure,
    /// The spans that are too short for the closure to show that one is left out.
    pub(crate) unseen: Vec<usize>,
    pub(crate) disabled: Option<Figure>,
    pub(crate) elsewhere: Figure,
    pub(crate) perturbation: Figure,
    pub(crate) slices: usize,
    pub(crate) blocks: usize,
}

/// Measurements of all subjects.
#[derive(Debug)]
pub(crate) struct PerPacket {
    pub(crate) sizes: Vec<usize>,
    /// Tells whether sizes were left out for want of time.
    pub(crate) fewer: bool,
    pub(crate) measured: Vec<Measured>,
    /// Subjects that could not be run at all, and why.
    pub(crate) unavailable: Vec<(Subject, String)>,
    pub(crate) stopped: bool,
}

/// The segments of a response.
pub(crate) const fn packets(response: usize) -> usize {
    response.div_ceil(SEGMENT)
}

/// The spans of a direction in which work is done on packets, with their places on the way.
fn worked(table: SpanTable, direction: Direction) -> impl Iterator<Item = (usize, &'static Span)> {
    on_the_way(table).enumerate().filter(move |(_, span)| {
        of_packets(span) && span.kind == Kind::Processing && span.direction == direction
    })
}

impl AtGates {
    fn of(ledger: &Ledger, table: SpanTable) -> Self {
        let work = [Direction::Tx, Direction::Rx].map(|direction| {
            let times: Vec<PacketTime> = worked(table, direction)
                .map(|(place, _)| PacketTime::Work(place))
                .collect();
            ledger.sum_of_packets(&times)
        });
        Self {
            spans: ledger.spans.clone(),
            packets: ledger.packets.clone(),
            work,
            closure: ledger.closure,
            unseen: ledger.unseen_by_closure().collect(),
            disabled: ledger.disabled,
            elsewhere: ledger.elsewhere,
            perturbation: ledger.perturbation,
            slices: ledger.slices,
            blocks: ledger.blocks,
        }
    }
}

impl AtSize {
    fn of(sized: Sized, gated: &impl Gated, table: SpanTable) -> Self {
        let mut size = Self {
            round_trips: sized.round_trips,
            lost: sized.lost,
            messages: (sized.messages, sized.joined),
            failure: sized.failure.clone(),
            ..Self::default()
        };
        if size.failure.is_some() {
            return size;
        }
        match sized.ledger(gated, 1) {
            Ok(ledger) => {
                size.round_trip = Some(ledger.total);
                size.ledger = Some(AtGates::of(&ledger, table));
            }
            Err(reason) => {
                let without = sized.slices.iter();
                let without = without.filter(|slice| slice.between.is_empty());
                let times: Vec<f64> = without.map(|slice| slice.total.ns).collect();
                size.round_trip = figure(&times);
                size.failure = Some(reason.to_string());
            }
        }
        size
    }

    /// A time of packets; none where it was not seen.
    pub(crate) fn packet_time(&self, time: PacketTime) -> Option<Figure> {
        self.ledger.as_ref()?.packets.get(&time).copied()
    }

    /// Work on a packet at the span at this place.
    pub(crate) fn work(&self, span: usize) -> Option<Figure> {
        self.packet_time(PacketTime::Work(span))
    }

    /// Work on a packet at all spans of a direction.
    pub(crate) fn path(&self, direction: Direction) -> Option<Figure> {
        let [send, receive] = self.ledger.as_ref()?.work;
        match direction {
            Direction::Tx => send,
            Direction::Rx => receive,
            Direction::Between => None,
        }
    }

    /// Wait of a packet at the span at this place, mean over a response.
    pub(crate) fn wait(&self, span: usize) -> Option<Figure> {
        self.packet_time(PacketTime::Wait(span))
    }

    /// The wait of a packet at the span, by its place in a response of so many packets.
    pub(crate) fn wait_by_place(&self, span: usize, packets: usize) -> Vec<Option<Figure>> {
        let places = 0..packets;
        places
            .map(|place| self.packet_time(PacketTime::WaitOf(span, place)))
            .collect()
    }

    /// Time since the packet before where the span begins, by place; none at the first.
    pub(crate) fn gaps(&self, span: usize, packets: usize) -> Vec<Option<Figure>> {
        let places = 0..packets;
        places
            .map(|place| self.packet_time(PacketTime::Gap(span, place)))
            .collect()
    }
}

/// The mean of slices, with its interval; none of fewer than two.
fn figure(times: &[f64]) -> Option<Figure> {
    let known = stats::by_batches(times, interquartile_mean)?;
    Some(Figure {
        ns: f64::midpoint(known.low, known.high),
        half_width: (known.high - known.low) / 2.0,
    })
}

impl Measured {
    fn new(subject: Subject, mode: Mode, table: Option<SpanTable>, sizes: Vec<AtSize>) -> Self {
        Self {
            subject,
            mode,
            table,
            without_gates: None,
            sizes,
            swept: Vec::new(),
            unmatched: 0,
            settings: Vec::new(),
        }
    }

    /// The spans of the way with their places; none without gates.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (usize, &'static Span)> {
        self.table.into_iter().flat_map(on_the_way).enumerate()
    }

    /// The spans in which work is done on packets.
    pub(crate) fn worked(
        &self,
        direction: Direction,
    ) -> impl Iterator<Item = (usize, &'static Span)> {
        let table = self.table.into_iter();
        table.flat_map(move |table| worked(table, direction))
    }

    /// The interval of a closure has to be narrower than this before it closes.
    pub(crate) const fn limit(&self) -> Limit {
        match self.mode.placement {
            Placement::OneCore => Limit::ONE_CORE,
            _ => Limit::TWO_CORES,
        }
    }

    /// Events that found no room.
    pub(crate) fn lost(&self) -> u64 {
        self.sizes.iter().map(|size| size.lost).sum()
    }

    /// The share of messages that passed every gate of their slice; none when none was sent.
    pub(crate) fn joined(&self) -> Option<f64> {
        let sizes = self.sizes.iter().map(|size| size.messages);
        let (sent, joined) = sizes.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (sent > 0).then(|| joined as f64 / sent as f64)
    }
}

/// All of the paper's sizes.
pub(crate) fn all_sizes() -> Vec<usize> {
    (1..=MOST / STEP).map(|at| at * STEP).collect()
}

/// The paper's sizes, or a sample of them when there is little time: the first, those of [`OVER_TIME`], and one of each of so many
/// equal parts. Where in its part follows the golden ratio, so that no period, as that of a segment, meets always the same place.
fn sizes(options: &Options, within: Option<Duration>) -> (Vec<usize>, bool) {
    if let Some(sizes) = &options.sizes {
        return (sizes.clone(), false);
    }
    let all = MOST / STEP;
    let count = within.map_or(all, |within| {
        ((within.as_secs_f64() * SIZES_A_SECOND) as usize).clamp(4, all)
    });
    let golden = f64::midpoint(5.0_f64.sqrt(), -1.0);
    let drawn = (0..count).map(|part| {
        let place = part as f64 + (part as f64 * golden).fract();
        ((place * all as f64 / count as f64) as usize + 1) * STEP
    });
    let mut sizes: Vec<usize> = if count == all {
        all_sizes()
    } else {
        drawn.collect()
    };
    sizes.push(STEP);
    sizes.extend(OVER_TIME);
    sizes.sort_unstable();
    sizes.dedup();
    let fewer = sizes.len() < all;
    (sizes, fewer)
}

/// Runs a slice of round trips of a size and gives their times.
type Slices<'a> = &'a mut dyn FnMut(usize) -> Result<Vec<f64>, String>;

/// The round trip of each size over whole rounds, until the time is over: `passed` tells the share of it that has passed. A size that
/// fails is left out; so is all of it when the first rounds take longer than [`MOST_PASSED`].
fn swept(sizes: &[usize], passed: &dyn Fn() -> f64, run: Slices<'_>) -> Vec<(usize, Figure)> {
    let mut means: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
    let mut round = 0;
    while round < LEAST_ROUNDS || passed() < 1.0 {
        for turn in 0..sizes.len() {
            if passed() > MOST_PASSED {
                return if round < LEAST_ROUNDS {
                    Vec::new()
                } else {
                    known(sizes, &means)
                };
            }
            let at = turn * STRIDE % sizes.len();
            if let Ok(times) = run(sizes[at]) {
                means[at].extend(interquartile_mean(&times));
            }
        }
        round += 1;
    }
    known(sizes, &means)
}

/// The sizes with their times, as far as they have any.
fn known(sizes: &[usize], means: &[Vec<f64>]) -> Vec<(usize, Figure)> {
    let sizes = sizes.iter().zip(means);
    sizes
        .filter_map(|(&size, means)| Some((size, figure(means)?)))
        .collect()
}

/// Round trips of all of the paper's sizes without gates; none where the path cannot be opened, which the measurement with gates
/// tells.
fn sweep(
    subject: Subject,
    mode: Mode,
    time: Duration,
    context: &Context<'_>,
) -> Vec<(usize, Figure)> {
    let all = all_sizes();
    let begun = Instant::now();
    let passed = || {
        if context.cancel.is_raised() {
            f64::INFINITY
        } else {
            begun.elapsed().as_secs_f64() / time.as_secs_f64()
        }
    };
    between_slices(context, &format!("{}, all sizes", subject.label()), time);
    match subject {
        Subject::Stack => {
            let Ok(mut stack) = StackPacketSession::open(context.options.mechanisms) else {
                return Vec::new();
            };
            swept(&all, &passed, &mut |size| {
                let mut times = Vec::new();
                let ran = stack.slice(None, size, STACK_ROUND_TRIPS[0], &mut |ns| times.push(ns));
                ran.map_err(|error| error.to_string())?;
                Ok(times)
            })
        }
        Subject::Kernel(path, carrier) => {
            let Ok(mut kernel) = KernelPacketSession::open(path, carrier, mode) else {
                return Vec::new();
            };
            swept(&all, &passed, &mut |size| {
                let mut times = Vec::new();
                let ran = kernel.run(size, KERNEL_ROUND_TRIPS[0] as u32, &mut |ns| times.push(ns));
                ran.map_err(|error| error.to_string())?;
                Ok(times)
            })
        }
    }
}

/// The extent of a measurement.
struct Plan<'a> {
    sizes: &'a [usize],
    /// Round trips that the user wants of each slice.
    iterations: Option<u64>,
    /// For one subject.
    within: Option<Duration>,
}

impl Plan<'_> {
    fn amount(&self, [fewest, usual]: [u64; 2]) -> Amount {
        let least = if self.within.is_some() || self.iterations.is_some() {
            LEAST_BLOCKS as u32
        } else {
            BLOCKS
        };
        Amount {
            round_trips: self
                .iterations
                .map_or(usual, |iterations| iterations.clamp(fewest, usual)),
            least_blocks: least,
            time: self.within.unwrap_or_default(),
            sets: Sets::DEFAULT,
            seed: 1,
        }
    }

    /// Runs all blocks on what can be gated.
    fn run(
        &self,
        gated: &mut impl Gated,
        table: SpanTable,
        (subject, round_trips): (Subject, [u64; 2]),
        context: &Context<'_>,
    ) -> Vec<AtSize> {
        let begun = Instant::now();
        let sized = gated::run(gated, &self.amount(round_trips), || {
            let left = self.within.unwrap_or_default();
            between_slices(
                context,
                &subject.label(),
                left.saturating_sub(begun.elapsed()),
            );
            !context.cancel.is_raised()
        });
        let sizes = sized.into_iter();
        sizes
            .map(|sized| AtSize::of(sized, &*gated, table))
            .collect()
    }
}

fn measure(
    subject: Subject,
    mode: Mode,
    plan: &Plan<'_>,
    context: &Context<'_>,
) -> Result<Measured, String> {
    match subject {
        Subject::Stack => {
            let mut stack = StackPackets::open(plan.sizes, context.options.mechanisms)?;
            let table = stack.table();
            let run = (subject, STACK_ROUND_TRIPS);
            let sizes = plan.run(&mut stack, table, run, context);
            Ok(Measured {
                settings: stack.settings(),
                ..Measured::new(subject, mode, Some(table), sizes)
            })
        }
        Subject::Kernel(path, carrier) => {
            match KernelPackets::open(path, carrier, mode, plan.sizes) {
                Ok(mut kernel) => {
                    let table = kernel.table();
                    let run = (subject, KERNEL_ROUND_TRIPS);
                    let sizes = plan.run(&mut kernel, table, run, context);
                    Ok(Measured {
                        unmatched: kernel.unmatched(),
                        settings: kernel.settings(),
                        ..Measured::new(subject, mode, Some(table), sizes)
                    })
                }
                Err(reason) => without_gates(subject, (path, carrier, mode), plan, reason, context),
            }
        }
    }
}

/// Measures round trips only, where there are no gates.
fn without_gates(
    subject: Subject,
    (path, carrier, mode): (PathId, Carrier, Mode),
    plan: &Plan<'_>,
    reason: String,
    context: &Context<'_>,
) -> Result<Measured, String> {
    let mut per_packet =
        KernelPacketSession::open(path, carrier, mode).map_err(|error| error.to_string())?;
    let amount = plan.amount(KERNEL_ROUND_TRIPS);
    let begun = Instant::now();
    let mut means: Vec<Vec<f64>> = vec![Vec::new(); plan.sizes.len()];
    let mut sizes = vec![AtSize::default(); plan.sizes.len()];
    let mut block = 0;
    while (block < amount.least_blocks || begun.elapsed() < amount.time)
        && !context.cancel.is_raised()
    {
        between_slices(
            context,
            &subject.label(),
            amount.time.saturating_sub(begun.elapsed()),
        );
        for (at, &response) in plan.sizes.iter().enumerate() {
            let mut times = Vec::new();
            let run = per_packet.run(response, amount.round_trips as u32, &mut |ns| {
                times.push(ns)
            });
            match run {
                Ok(()) => {
                    sizes[at].round_trips += times.len() as u64;
                    means[at].extend(interquartile_mean(&times));
                }
                Err(error) => {
                    sizes[at].failure.get_or_insert(error.to_string());
                }
            }
        }
        block += 1;
    }
    for (size, means) in sizes.iter_mut().zip(&means) {
        size.round_trip = figure(means);
    }
    Ok(Measured {
        without_gates: Some(reason),
        settings: per_packet.settings(),
        ..Measured::new(subject, mode, None, sizes)
    })
}

/// Measures all subjects that are wanted.
///
/// # Errors
/// [`Error::NothingMeasured`] with the first reason, [`Error::Stopped`].
pub(crate) fn of(experiment: &'static str, context: &Context<'_>) -> Result<Rc<PerPacket>, Error> {
    context.once(|_| true, || run(experiment, context))
}

fn run(experiment: &'static str, context: &Context<'_>) -> Result<PerPacket, Error> {
    let wanted = wanted(&context.options);
    let (sizes, fewer) = sizes(&context.options, context.remaining());
    let mut per_packet = PerPacket {
        sizes,
        fewer,
        measured: Vec::new(),
        unavailable: Vec::new(),
        stopped: false,
    };
    for (turn, &(subject, mode)) in wanted.iter().enumerate() {
        if context.cancel.is_raised() {
            break;
        }
        let within = || {
            let left = context.remaining();
            left.map(|left| left / (wanted.len() - turn) as u32)
        };
        let time = within()
            .filter(|_| per_packet.fewer)
            .map(|time| time / SWEEP);
        let swept = time
            .filter(|&time| time >= LEAST_SWEPT)
            .map_or_else(Vec::new, |time| sweep(subject, mode, time, context));
        let plan = Plan {
            sizes: &per_packet.sizes,
            iterations: context.options.iterations,
            within: within(),
        };
        match measure(subject, mode, &plan, context) {
            Ok(measured) => per_packet.measured.push(Measured { swept, ..measured }),
            Err(reason) => per_packet.unavailable.push((subject, reason)),
        }
    }
    per_packet.stopped |= context.cancel.is_raised();
    let any = per_packet
        .measured
        .iter()
        .any(|one| one.sizes.iter().any(|size| size.round_trip.is_some()));
    if any {
        return Ok(per_packet);
    }
    match per_packet.unavailable.first() {
        Some((subject, reason)) => Err(Error::NothingMeasured {
            experiment,
            reason: format!("{}: {reason}", subject.label()),
        }),
        None => Err(Error::Stopped),
    }
}

#[cfg(test)]
pub(crate) mod tests;
