//! The way of every packet of a response, span by span, by the size of the response: measured once, shown by the experiments after
//! Lehmann and Benz 2002.
//!
//! Gates rotate: a slice carries the two gates of one span and runs every size, and a slice without gates follows. What a passage
//! costs is measured in place by twins, and subtracted for every passage that lies within a time. All times are brought to the
//! speed that was usual in the run ([`crate::drift`]), and a slice of the kernel that something else has disturbed is run again.
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
//! way are differences, from which the reading falls out.

mod by_slice;
mod kernel;
mod stack;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Gate, GateSet, Kind, Span, SpanTable};
use tollgate_workload::kernel::trains::Carrier;
use tollgate_workload::trains::SEGMENT;
use tollgate_workload::{Mode, PathId, find};

use crate::context::{Context, Options};
use crate::drift::Drift;
use crate::error::Error;
pub(crate) use crate::stats::typical;
use by_slice::BySlice;
pub(crate) use by_slice::Known;

/// Bytes between two sizes of the paper's sweep, and the last of them.
const STEP: usize = 256;
const MOST: usize = 65_536;
/// Sizes whose packets are shown one by one, as in the paper's Figs. 6 to 9.
pub(crate) const OVER_TIME: [usize; 2] = [8_192, 65_536];
/// Sizes for each second of a run that is short of time.
const SIZES_A_SECOND: f64 = 2.0;
/// Round trips of a slice at one size.
const ROUND_TRIPS: u32 = 24;
/// The fewest of them.
const LEAST_ROUND_TRIPS: u32 = 2;
/// The step of the kernel's clock, in nanoseconds.
const STEP_NS: f64 = 1.0;
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

/// Passages of gates between two packets at a gate, which nobody subtracts: the one before passes both gates of the span.
const BETWEEN: f64 = 2.0;

/// The time of one packet, or of one message, at a span, in nanoseconds; the cost of gates is still in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Way {
    /// When it came.
    from: f64,
    /// When it left.
    to: f64,
    /// What the gates themselves cost within.
    probes: f64,
    /// How often gates were passed within.
    passages: u64,
    /// Whether it left on another processor.
    handed_over: bool,
}

impl Way {
    fn net(&self) -> f64 {
        self.to - self.from - self.probes
    }

    /// The same on a machine that is not as slow; what gates cost is known for that machine already.
    fn faster(&mut self, slowness: f64) {
        self.from /= slowness;
        self.to /= slowness;
    }
}

/// What a slice saw of a span: the packets of its responses, and messages as a whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// By response and by place in it; none where the packet was not seen at both gates.
    packets: Vec<Vec<Option<Way>>>,
    /// Requests and responses as a whole; none that was not seen at both gates.
    requests: Vec<Option<Way>>,
    responses: Vec<Option<Way>>,
    /// The places of the usual round trips; none where all are looked at alike.
    usual: Vec<usize>,
    lost: u64,
    strange: u64,
    acknowledgments: u64,
}

impl Seen {
    /// The same on a machine that is not as slow.
    fn faster(mut self, slowness: f64) -> Self {
        let packets = self.packets.iter_mut().flatten();
        let messages = self.requests.iter_mut().chain(&mut self.responses);
        for way in packets.chain(messages).flatten() {
            way.faster(slowness);
        }
        self
    }
}

/// The packets at one span at one size.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtSpan {
    /// Nanoseconds of work for each packet that went straight through, by response.
    work: BySlice,
    /// The mean wait of a response's packets, by response.
    wait: BySlice,
    /// The same by place in the response.
    wait_by_place: Vec<BySlice>,
    /// From the packet before to this one at the first gate, by place.
    gaps: Vec<BySlice>,
    /// Slices that were added.
    slices: usize,
    /// The mean time of messages as a whole in the usual round trips, by slice.
    requests: Vec<f64>,
    responses: Vec<f64>,
    /// Round trips with the span's gates, and those without any that followed.
    beside: (Vec<f64>, Vec<f64>),
}

/// One size of response.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtSize {
    /// By span of the table.
    pub(crate) spans: Vec<AtSpan>,
    /// Round trips without gates.
    pub(crate) ungated: Vec<f64>,
    /// The mean of the usual ones among them, by slice; none where all are looked at alike.
    usual_ungated: Vec<f64>,
    /// From the first gate to this one, for requests and for responses, where gates are timed so.
    reached: BTreeMap<Gate, (Vec<f64>, Vec<f64>)>,
    /// Packets that should have been seen, and those that were at both gates of a span.
    packets: (u64, u64),
    /// The same of messages.
    messages: (u64, u64),
    /// Events that found no room, and events that belong to nothing.
    lost: u64,
    strange: u64,
    /// Passages of acknowledgments.
    acknowledgments: u64,
    /// Slices that were disturbed and run again.
    disturbed: u64,
    /// Why it failed.
    pub(crate) failure: Option<String>,
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
    /// What a passage of a gate costs, in nanoseconds, by gate and round.
    probes: BTreeMap<Gate, Vec<f64>>,
    /// The step of the clock that gates read, in nanoseconds.
    pub(crate) step_ns: f64,
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

impl AtSpan {
    fn add(&mut self, span: &Span, seen: &Seen) {
        self.slices += 1;
        for (to, ways) in [
            (&mut self.requests, &seen.requests),
            (&mut self.responses, &seen.responses),
        ] {
            let usual = seen.usual.iter().filter_map(|&at| *ways.get(at)?);
            let usual: Vec<f64> = usual.map(|way| way.net()).collect();
            to.extend(plain_mean(&usual));
        }
        for response in &seen.packets {
            self.add_response(span.kind, response);
        }
    }

    fn add_response(&mut self, kind: Kind, packets: &[Option<Way>]) {
        let most = packets.len().max(self.wait_by_place.len());
        self.wait_by_place.resize(most, BySlice::default());
        self.gaps.resize(most, BySlice::default());
        // Work, and the packets that share it.
        let (mut work, mut straight) = (0.0, 0_u32);
        let (mut waits, mut n) = (0.0, 0_u32);
        // Passages of gates within the one and the others.
        let (mut in_work, mut in_waits) = (0, 0);
        let mut before: Option<(Way, f64, bool)> = None;
        for (place, way) in packets.iter().enumerate() {
            let Some(way) = *way else {
                before = None;
                continue;
            };
            let (wait, went_straight) = match before {
                // One piece with the packet before.
                Some((last, wait, went_straight)) if last.from == way.from && last.to == way.to => {
                    straight += u32::from(went_straight);
                    (wait, went_straight)
                }
                last => {
                    let in_the_way = last.is_some_and(|(last, _, _)| way.from < last.to);
                    if kind == Kind::Queueing || way.handed_over || in_the_way {
                        (way.net(), false)
                    } else {
                        work += way.net();
                        in_work += way.passages;
                        straight += 1;
                        (0.0, true)
                    }
                }
            };
            if let Some((last, _, _)) = before {
                self.gaps[place].add(self.slices, way.from - last.from, BETWEEN);
            }
            let in_wait = if went_straight { 0 } else { way.passages };
            self.wait_by_place[place].add(self.slices, wait, in_wait as f64);
            waits += wait;
            in_waits += in_wait;
            n += 1;
            before = Some((way, wait, went_straight));
        }
        if straight > 0 {
            let each = f64::from(straight);
            self.work
                .add(self.slices, work / each, in_work as f64 / each);
        }
        if n > 0 {
            let each = f64::from(n);
            self.wait
                .add(self.slices, waits / each, in_waits as f64 / each);
        }
    }

    /// Work for each packet, in nanoseconds; none when no packet went straight through.
    pub(crate) fn work_ns(&self) -> Option<f64> {
        self.work.typical()
    }

    /// The same, and how well it is known by a clock of this step.
    pub(crate) fn work(&self, step_ns: f64) -> Option<Known> {
        self.work.known(step_ns)
    }

    /// Waiting of a packet, in nanoseconds.
    pub(crate) fn wait_ns(&self) -> Option<f64> {
        self.wait.typical()
    }

    /// The same, and how well it is known by a clock of this step.
    pub(crate) fn wait(&self, step_ns: f64) -> Option<Known> {
        self.wait.known(step_ns)
    }

    /// Waiting by place in the response, in nanoseconds.
    pub(crate) fn wait_by_place_ns(&self) -> Vec<Option<f64>> {
        self.wait_by_place.iter().map(BySlice::typical).collect()
    }

    /// The same, and how well it is known by a clock of this step.
    pub(crate) fn wait_by_place(&self, step_ns: f64) -> Vec<Option<Known>> {
        let places = self.wait_by_place.iter();
        places.map(|one| one.known(step_ns)).collect()
    }

    /// From the packet before to this one at the first gate, by place, in nanoseconds; none at the first.
    pub(crate) fn gaps_ns(&self) -> Vec<Option<f64>> {
        self.gaps.iter().map(BySlice::typical).collect()
    }

    /// The same, and how well it is known by a clock of this step.
    pub(crate) fn gaps(&self, step_ns: f64) -> Vec<Option<Known>> {
        let places = self.gaps.iter();
        places.map(|one| one.known(step_ns)).collect()
    }

    /// All times at a machine that is so many times slower.
    fn slower(&mut self, slowness: f64) {
        let by_place = self.wait_by_place.iter_mut().chain(&mut self.gaps);
        let (gated, ungated) = (&mut self.beside.0, &mut self.beside.1);
        let messages = [&mut self.requests, &mut self.responses, gated, ungated];
        for ns in messages.into_iter().flatten() {
            *ns *= slowness;
        }
        for all in by_place.chain([&mut self.work, &mut self.wait]) {
            all.slower(slowness);
        }
    }

    /// What the gates cost: the round trip with them over the one without, less 1.
    fn perturbation(&self) -> Option<f64> {
        Some(typical(&self.beside.0)? / typical(&self.beside.1)? - 1.0)
    }
}

impl AtSize {
    fn new(spans: usize) -> Self {
        Self {
            spans: vec![AtSpan::default(); spans],
            ..Self::default()
        }
    }

    fn add(&mut self, index: usize, span: &Span, seen: &Seen) {
        self.lost += seen.lost;
        self.strange += seen.strange;
        self.acknowledgments += seen.acknowledgments;
        if of_packets(span) {
            for response in &seen.packets {
                self.packets.0 += response.len() as u64;
                self.packets.1 += response.iter().flatten().count() as u64;
            }
        }
        if span.place == Place::OnTheWay {
            let messages = || seen.requests.iter().chain(&seen.responses);
            self.messages.0 += messages().count() as u64;
            self.messages.1 += messages().flatten().count() as u64;
        }
        self.spans[index].add(span, seen);
    }

    /// Adds round trips without gates, beside the slice of a span when that is given.
    fn add_ungated(&mut self, beside: Option<usize>, times_ns: &[f64]) {
        if let Some(span) = beside.and_then(|index| self.spans.get_mut(index)) {
            span.beside.1.extend(times_ns);
        }
        self.ungated.extend(times_ns);
    }

    /// All times at a machine that is so many times slower.
    fn slower(&mut self, slowness: f64) {
        for span in &mut self.spans {
            span.slower(slowness);
        }
        let reached = self.reached.values_mut();
        let reached = reached.flat_map(|(requests, responses)| [requests, responses]);
        let ungated = [&mut self.ungated, &mut self.usual_ungated];
        for ns in ungated.into_iter().chain(reached).flatten() {
            *ns *= slowness;
        }
    }

    /// The round trip without gates, in nanoseconds.
    pub(crate) fn round_trip_ns(&self) -> Option<f64> {
        typical(&self.usual_ungated).or_else(|| typical(&self.ungated))
    }

    /// What the way of a request's last byte, and that of a response's, take in a span, in nanoseconds; none where it was not
    /// measured. What the asking end does between two round trips is in none of them.
    pub(crate) fn whole_ns(&self, index: usize, span: &Span) -> Option<(f64, f64)> {
        if !self.reached.is_empty() {
            let (from, to) = (self.reached_ns(span.from)?, self.reached_ns(span.to)?);
            return Some((to.0 - from.0, to.1 - from.1));
        }
        let seen = self.spans.get(index)?;
        let responses = match span.direction {
            Direction::Between => 0.0,
            Direction::Tx | Direction::Rx => typical(&seen.responses)?,
        };
        Some((typical(&seen.requests)?, responses))
    }

    /// From the first gate to this one, for a request and for a response.
    fn reached_ns(&self, gate: Gate) -> Option<(f64, f64)> {
        if gate == Gate::SocketOutBegin {
            return Some((0.0, 0.0));
        }
        let (requests, responses) = self.reached.get(&gate)?;
        Some((typical(requests)?, typical(responses)?))
    }

    /// The way of the last byte of request and response, in nanoseconds; none where a span was not measured.
    pub(crate) fn sum_ns(&self, table: SpanTable) -> Option<f64> {
        let spans = table.spans().iter().enumerate();
        spans
            .filter(|(_, span)| span.place == Place::OnTheWay)
            .map(|(index, span)| {
                self.whole_ns(index, span)
                    .map(|(request, response)| request + response)
            })
            .sum()
    }

    /// The part of the round trip that the sum leaves open, signed.
    pub(crate) fn closure(&self, table: SpanTable) -> Option<f64> {
        let total = self.round_trip_ns()?;
        Some((total - self.sum_ns(table)?) / total)
    }
}

/// Whether packets are seen at both gates of a span, and not only messages.
pub(crate) fn of_packets(span: &Span) -> bool {
    let packets = |gate: Gate| {
        !matches!(
            gate,
            Gate::SocketOutBegin | Gate::SocketInEnd | Gate::ApplicationEnd | Gate::SocketOutEnd
        )
    };
    packets(span.from) && packets(span.to) && span.place != Place::Beside
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
            step_ns: STEP_NS,
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

    /// Brings all times, which are those of a machine as it was in the first slice, to the speed that was usual in the run.
    fn at_usual_speed(mut self) -> Self {
        let slowness = self.drift.usual();
        for size in &mut self.sizes {
            size.slower(slowness);
        }
        for ns in self.probes.values_mut().flatten() {
            *ns *= slowness;
        }
        self
    }

    /// How the speed of the machine changed over the run.
    pub(crate) const fn drift(&self) -> &Drift {
        &self.drift
    }

    /// What a passage of a gate costs as known so far: the median of the rounds.
    fn probe_ns(&self, gate: Gate) -> f64 {
        let mut costs = self.probes.get(&gate).cloned().unwrap_or_default();
        costs.sort_by(f64::total_cmp);
        costs.get(costs.len() / 2).copied().unwrap_or(0.0)
    }

    /// The least and the most that a passage of a gate costs; none without gates.
    pub(crate) fn probes_ns(&self) -> Option<(f64, f64)> {
        let costs = || self.probes.keys().map(|&gate| self.probe_ns(gate));
        Some((costs().reduce(f64::min)?, costs().reduce(f64::max)?))
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
    let mut loaded = None;
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
                let loaded = loaded.get_or_insert_with(kernel::load);
                kernel::run(subject, carrier, mode, &plan, loaded, context)
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
