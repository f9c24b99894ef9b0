//! The way of every packet of a response, span by span, by the size of the response: measured once, shown by the experiments after
//! Lehmann and Benz 2002.
//!
//! Gates rotate: a slice carries the two gates of one span and runs every size, and a slice without gates follows. What a passage
//! costs is subtracted for every passage that lies within a time: in the kernel as twins show it in place, and for the first packet of a
//! message as [`crate::kernel_gated`] finds it where gates stand; in Tollgate's own stack as [`added`] finds it. All times are brought
//! to the speed that was usual in the run ([`crate::drift`]) and to code without gates: those of the kernel slice by slice, by how much
//! longer its own round trips took beside what their gates cost ([`laden`]), those of our stack by slices whose gates are all asleep. A
//! slice of the kernel that something else has disturbed is run again.
//!
//! **Work and waiting.** A packet that comes to a span when the one before it has left, and leaves it on the same processor, went
//! straight through: its time is the work of the span. One that comes while the one before it is still there, or that goes on on
//! another processor, has waited, and how much of its time was work cannot be told: all of it counts as waiting and none as work.
//! Packets that enter and leave together are one piece (GSO) and share its time. Spans that are queues by their kind are waiting
//! always.
//!
//! **Closure.** The kernel's round trips are looked at where they are usual: in the middle half of a slice by their whole time, with
//! gates and without, so that what is left out is the same for all spans; of the slices of a span, as of those without gates, the
//! middle half counts. The sums of all packets' times say nothing of the round trip, since packets are under way at once. What must sum to
//! it is the way of the last byte: from the call that sends to the last packet's passage of each gate to the return of the call
//! that reads it, for request and response. In Tollgate's own stack a reading of the clock costs as much as a span, and what it
//! costs is hidden in part by what the processor has in flight; so there each gate is timed from the first, and the spans of that
//! way are differences, from which the reading falls out. What our two applications do between their calls is no span there, nor is
//! the way into the kernel before its first gate and out of it behind its last, which a call that does nothing shows; both stand
//! beside the spans.

mod added;
mod by_slice;
mod kernel;
mod laden;
mod seen;
mod stack;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_gate::{Gate, GateSet, Span, SpanTable};
use tollgate_stats::interquartile_mean;
use tollgate_workload::kernel::trains::Carrier;
use tollgate_workload::trains::SEGMENT;
use tollgate_workload::{Mode, PathId, find};

use crate::context::{Context, Options};
use crate::drift::Drift;
use crate::error::Error;
pub(crate) use added::Added;
pub(crate) use by_slice::Known;
use laden::Price;
pub(crate) use seen::{AtSize, of_packets};

/// Bytes between two sizes of the paper's sweep, and the last of them.
const STEP: usize = 256;
const MOST: usize = 65_536;
/// Sizes whose packets are shown one by one, as in the paper's Figs. 6 to 9.
pub(crate) const OVER_TIME: [usize; 2] = [8_192, 65_536];
/// Sizes for each second of a run that is short of time: so few that slices have round trips enough for their middle half to leave out
/// a disturbed one.
const SIZES_A_SECOND: f64 = 1.0;
/// Round trips of a slice at one size.
const ROUND_TRIPS: u32 = 24;
/// The fewest of them: the middle half of fewer leaves out none.
const LEAST_ROUND_TRIPS: u32 = 4;
/// Half of the 95 % interval of what lies anywhere within a step of the kernel's clock, 1 ns, as what a passage costs does by a twin: its
/// standard deviation, 1 / sqrt(12), taken as a normal one.
const WITHIN_STEP_NS: f64 = 1.96 * 0.288_675;
/// Times that the rotation is gone through without a time budget, and at least when slices can be made short enough for it: of four
/// slices of a span the middle half is two, which one disturbed slice does not move.
const ROUNDS: u32 = 4;

/// What is measured: a path, and how it carries segments.
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

    /// What it is called in tables.
    pub(crate) fn label(self) -> String {
        match self {
            Self::Kernel(path, carrier) => format!("{path}, {}", carrier.name()),
            Self::Stack => PathId::StackMemory.to_string(),
        }
    }

    /// What it is called in the ids of tables.
    pub(crate) fn id(self) -> String {
        match self {
            Self::Kernel(path, Carrier::Packets) => path.to_string(),
            Self::Kernel(path, Carrier::Gso) => format!("{path}-gso"),
            Self::Stack => PathId::StackMemory.to_string(),
        }
    }

    /// Whether each segment travels as a packet of its own.
    pub(crate) const fn is_a_train(self) -> bool {
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
    /// Why there are no gates.
    pub(crate) without_gates: Option<String>,
    pub(crate) sizes: Vec<AtSize>,
    /// What a passage of a gate costs by its twins, in nanoseconds, by gate and round; nothing in our stack.
    probes: BTreeMap<Gate, Vec<f64>>,
    /// What it costs the first packet of a message, against that; none where there are no twins.
    pub(crate) in_place: Option<kernel::Crossed>,
    /// What gates add in our stack; none in the kernel.
    pub(crate) added: Option<Added>,
    /// How many times as long all but the gates took for them in the kernel; none where nothing tells it.
    pub(crate) slowed: Option<f64>,
    /// What a call into the kernel that does nothing takes, in nanoseconds; none in our stack.
    pub(crate) call_ns: Option<f64>,
    /// Half of the 95 % interval of what a passage of a gate costs, in nanoseconds.
    pub(crate) within_ns: f64,
    drift: Drift,
    pub(crate) settings: Vec<(&'static str, String)>,
}

/// What all subjects gave.
#[derive(Debug)]
pub(crate) struct Trains {
    pub(crate) sizes: Vec<usize>,
    /// Whether sizes were left out for want of time.
    pub(crate) fewer: bool,
    pub(crate) measured: Vec<Measured>,
    /// Subjects that could not be run at all, and why.
    pub(crate) absent: Vec<(Subject, String)>,
    pub(crate) stopped: bool,
}

/// The mean; none of nothing.
fn plain_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The segments of a response.
pub(crate) const fn packets(response: usize) -> usize {
    response.div_ceil(SEGMENT)
}

impl Measured {
    fn new(subject: Subject, mode: Mode, table: Option<SpanTable>, sizes: usize) -> Self {
        let spans = table.map_or(0, |table| table.spans().len());
        Self {
            subject,
            mode,
            table,
            without_gates: None,
            sizes: vec![AtSize::new(spans); sizes],
            probes: BTreeMap::new(),
            in_place: None,
            added: None,
            slowed: None,
            call_ns: None,
            within_ns: WITHIN_STEP_NS,
            drift: Drift::default(),
            settings: Vec::new(),
        }
    }

    /// The spans with their place in [`AtSize::spans`]; none without gates.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (usize, &'static Span)> {
        self.table
            .map_or(&[][..], SpanTable::spans)
            .iter()
            .enumerate()
    }

    /// Brings all times, which are those of a machine as it was in the first slice and as slow as gates made it, to the speed that was
    /// usual in the run without gates.
    fn at_usual_speed(mut self) -> Self {
        let mut sizes = std::mem::take(&mut self.sizes);
        let slowed: Vec<f64> = sizes
            .iter_mut()
            .flat_map(|size| size.as_without_gates(|gate| self.price(gate)))
            .collect();
        self.slowed = interquartile_mean(&slowed);
        self.sizes = sizes;
        let slowness = self.drift.usual();
        if let Some(added) = &mut self.added {
            added.slower(slowness);
            self.within_ns = added.within_ns();
        }
        for size in &mut self.sizes {
            size.slower(slowness);
        }
        for ns in self.probes.values_mut().flatten().chain(&mut self.call_ns) {
            *ns *= slowness;
        }
        self
    }

    /// How the speed of the machine changed over the run.
    pub(crate) const fn drift(&self) -> &Drift {
        &self.drift
    }

    /// What a passage of a gate costs by its twins as known so far, in nanoseconds: the median of the rounds; none without any.
    fn probe_ns(&self, gate: Gate) -> Option<f64> {
        let mut costs = self.probes.get(&gate)?.clone();
        costs.sort_by(f64::total_cmp);
        costs.get(costs.len() / 2).copied()
    }

    /// What passages of a gate cost as known so far; none where no twin has told it. One whose turn has not come yet costs what it did
    /// where gates were crossed.
    fn price(&self, gate: Gate) -> Option<Price> {
        let in_place = self.in_place.as_ref().and_then(|known| known.as_ref().ok());
        let before = || in_place?.by_twins().get(&gate).copied();
        let each_ns = self.probe_ns(gate).or_else(before)?;
        let factor = in_place.map_or(1.0, |known| known.factor(gate));
        Some(Price {
            each_ns,
            first_ns: (factor - 1.0) * each_ns,
        })
    }

    /// The least and the most that a passage of a gate costs by its twins; none without any.
    pub(crate) fn probes_ns(&self) -> Option<(f64, f64)> {
        let costs = || self.probes.keys().filter_map(|&gate| self.probe_ns(gate));
        Some((costs().reduce(f64::min)?, costs().reduce(f64::max)?))
    }

    /// How many times as long a round trip takes with all gates asleep as through code without any: the least and the most over the sizes;
    /// none where that is not told apart.
    pub(crate) fn asleep(&self) -> Option<(f64, f64)> {
        let all = || self.sizes.iter().filter_map(AtSize::asleep);
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    }

    /// The share of packets that were seen at both gates of a span; none when none was sent.
    pub(crate) fn packets_joined(&self) -> Option<f64> {
        share(self.sizes.iter().map(|size| size.packets))
    }

    /// The same of messages.
    pub(crate) fn messages_joined(&self) -> Option<f64> {
        share(self.sizes.iter().map(|size| size.messages))
    }

    /// Events that found no room.
    pub(crate) fn lost(&self) -> u64 {
        self.sizes.iter().map(|size| size.lost).sum()
    }

    /// Passages of acknowledgments.
    pub(crate) fn acknowledgments(&self) -> u64 {
        self.sizes.iter().map(|size| size.acknowledgments).sum()
    }

    /// Slices of a size that were disturbed and run again.
    pub(crate) fn disturbed(&self) -> u64 {
        self.sizes.iter().map(|size| size.disturbed).sum()
    }

    /// Events that belong to nothing.
    pub(crate) fn strange(&self) -> u64 {
        self.sizes.iter().map(|size| size.strange).sum()
    }

    /// What the gates of each span cost, as the median over the sizes; the span that costs most.
    pub(crate) fn worst_perturbation(&self) -> Option<(&'static str, f64)> {
        self.spans()
            .filter_map(|(index, span)| {
                let mut costs: Vec<f64> = self
                    .sizes
                    .iter()
                    .filter_map(|size| size.spans[index].perturbation())
                    .collect();
                costs.sort_by(f64::total_cmp);
                Some((span.name, *costs.get(costs.len() / 2)?))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn share(counts: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let (all, seen) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (all > 0).then(|| seen as f64 / all as f64)
}

/// The paper's sizes, or fewer of them that lie apart evenly when there is little time: the first, those of [`OVER_TIME`], and what
/// lies between.
fn sizes(options: &Options, within: Option<Duration>) -> (Vec<usize>, bool) {
    if let Some(sizes) = &options.sizes {
        return (sizes.clone(), false);
    }
    let all = MOST / STEP;
    let count = within.map_or(all, |within| {
        ((within.as_secs_f64() * SIZES_A_SECOND) as usize).clamp(4, all)
    });
    let mut sizes: Vec<usize> = (1..=count).map(|at| at * all / count * STEP).collect();
    sizes.push(STEP);
    sizes.extend(OVER_TIME);
    sizes.sort_unstable();
    sizes.dedup();
    let fewer = sizes.len() < all;
    (sizes, fewer)
}

/// The gates of a slice for a span.
fn active(span: &Span) -> GateSet {
    let gates = span.gates();
    if gates.contains(Gate::ApplicationEnd) {
        gates.with(Gate::SocketOutBegin)
    } else {
        gates
    }
}

/// How much of it is to be run.
struct Plan<'a> {
    sizes: &'a [usize],
    round_trips: u32,
    rounds: u32,
    /// For one subject.
    within: Option<Duration>,
}

impl Plan<'_> {
    /// The same when so much of its time is gone.
    fn after(&self, gone: Duration) -> Self {
        Self {
            within: self.within.map(|within| within.saturating_sub(gone)),
            ..*self
        }
    }

    /// The round trips of a slice that let all rounds of `slices` slices over all sizes end in time, when a round trip at every size
    /// takes `once` and a slice begins with `warm_up` of them.
    fn paced(&self, once: Duration, slices: usize, warm_up: u32) -> u32 {
        let Some(within) = self.within else {
            return self.round_trips;
        };
        let whole = once.as_secs_f64() * slices as f64 * f64::from(self.rounds);
        let fit = within.as_secs_f64() / whole.max(f64::MIN_POSITIVE) - f64::from(warm_up);
        (fit as u32).clamp(LEAST_ROUND_TRIPS.min(self.round_trips), self.round_trips)
    }
}

/// Measures all subjects that are wanted.
///
/// # Errors
/// [`Error::NothingMeasured`] with the first reason, [`Error::Stopped`].
pub(crate) fn run(experiment: &'static str, context: &Context<'_>) -> Result<Arc<Trains>, Error> {
    let wanted = wanted(&context.options);
    let (sizes, fewer) = sizes(&context.options, context.remaining());
    let iterations = context.options.iterations;
    let round_trips = iterations.map_or(ROUND_TRIPS, |iterations| {
        u32::try_from(iterations)
            .unwrap_or(u32::MAX)
            .clamp(4, ROUND_TRIPS)
    });
    let mut trains = Trains {
        sizes,
        fewer,
        measured: Vec::new(),
        absent: Vec::new(),
        stopped: false,
    };
    let mut shared = None;
    for (turn, &(subject, mode)) in wanted.iter().enumerate() {
        if context.cancel.is_raised() {
            trains.stopped = true;
            break;
        }
        let plan = Plan {
            sizes: &trains.sizes,
            round_trips,
            rounds: iterations.map_or(ROUNDS, |iterations| {
                u32::try_from(iterations.div_ceil(u64::from(round_trips)))
                    .unwrap_or(ROUNDS)
                    .clamp(1, ROUNDS)
            }),
            within: context
                .remaining()
                .map(|left| left / (wanted.len() - turn) as u32),
        };
        let outcome = match subject {
            Subject::Kernel(_, carrier) => {
                let shared = shared.get_or_insert_with(kernel::Shared::load);
                kernel::run(subject, carrier, mode, &plan, shared, context)
            }
            Subject::Stack => stack::run(mode, &plan, context),
        };
        match outcome {
            Ok(measured) => trains.measured.push(measured),
            Err(error) => trains.absent.push((subject, error.to_string())),
        }
    }
    trains.stopped |= context.cancel.is_raised();
    let any = trains
        .measured
        .iter()
        .any(|one| one.sizes.iter().any(|size| !size.ungated.is_empty()));
    if any {
        return Ok(Arc::new(trains));
    }
    match trains.absent.first() {
        Some((subject, reason)) => Err(Error::NothingMeasured {
            experiment,
            reason: format!("{}: {reason}", subject.label()),
        }),
        None => Err(Error::Stopped),
    }
}

#[cfg(test)]
pub(crate) mod tests;
