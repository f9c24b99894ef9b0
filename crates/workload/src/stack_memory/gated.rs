//! Round trips over `stack-memory` with gates: the way of a message gate by gate, beside the round trip without any, and what
//! sampling costs.
//!
//! One decision of a [`Sampler`] stands for a whole round trip: the packets of both ends are recorded, or both ends run the
//! copy of the code that was compiled without a recorder. Two gates are active at a time; slices with them take turns with
//! slices without gates and with slices that pass a gate twice, which measure what a passage costs.

use std::num::NonZeroU32;

use tollgate_gate::distribution::Distribution;
use tollgate_gate::record::{Ordered, Plain, Stamp, twin_cost};
use tollgate_gate::span::Place;
use tollgate_gate::{
    Clock, Event, Gate, GateSet, JoinPlan, JoinStats, STACK, Sampler, Span, Ticks, join,
};

use super::hosts::Ungated;
use super::tracing::Tracing;
use super::{Ends, PATH, StackMemory};
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::now::gate_clock;
use crate::path::Path;
use crate::spec::{Spec, Workload};
use crate::stack_host::DEFAULT_MTU;

/// Round trips that one reading of the clock ends.
const BATCH: u64 = 16;
/// Bytes of the IP and TCP headers with the timestamp option.
const HEADERS: usize = 20 + 20 + 12;
/// Events that a slice has room for; those beyond are counted as lost.
const CAPACITY: usize = 1 << 16;
/// Where the time of a message begins.
const FIRST: Gate = Gate::SocketOutBegin;

/// How round trips are gated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gating {
    /// One round trip in so many is recorded, on average.
    pub one_in: NonZeroU32,
    /// So many at a time, one after the other: the first warms the code that records for the others.
    pub run: NonZeroU32,
    /// Round trips in a slice; rounded up to whole batches of 16, at least one.
    pub round_trips: u64,
    /// Times that the rotation through all spans is gone through.
    pub rounds: u32,
    /// Where the sampler's distances begin.
    pub seed: u64,
    /// How gates read the clock.
    pub reading: Reading,
    /// Bytes of the largest IP packet. With 9,000 every message of Wolman's sizes is one segment; on his ATM network 8,000
    /// bytes were two.
    pub mtu: usize,
}

/// How gates read the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// As the processor finds time to: cheap, but what a short span does is hidden under the reading.
    Plain,
    /// Waiting for all that stands before: each span is measured by itself, without its overlap with its neighbours, so
    /// the sum comes out above the whole.
    Ordered,
}

impl Default for Gating {
    /// One in 64 in runs of 32, 1,024 round trips a slice, 10 rounds, plain readings, MTU 1500.
    fn default() -> Self {
        Self {
            one_in: NonZeroU32::new(64).unwrap_or(NonZeroU32::MIN),
            run: NonZeroU32::new(32).unwrap_or(NonZeroU32::MIN),
            round_trips: 1024,
            rounds: 10,
            seed: 1,
            reading: Reading::Plain,
            mtu: DEFAULT_MTU,
        }
    }
}

impl Gating {
    /// Every round trip is recorded. What runs now and then pays for caches and branches that it finds cold, so this is the
    /// choice for a [`chained`] way that is to close on the ungated round trip.
    #[must_use]
    pub const fn of_every_round_trip(mut self) -> Self {
        self.one_in = NonZeroU32::MIN;
        self
    }

    /// Bytes of the largest message of one segment.
    pub const fn one_segment(&self) -> usize {
        self.mtu.saturating_sub(HEADERS)
    }

    fn batches(&self) -> u64 {
        self.round_trips.div_ceil(BATCH).max(1)
    }
}

/// What sampling costs: nanoseconds per round trip, slice by slice, those at one index measured next to each other.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingCost {
    /// Slices without a sampler, running the code without gates.
    pub without_ns: Vec<f64>,
    /// Slices with it, some of whose round trips were recorded.
    pub with_ns: Vec<f64>,
}

/// A ratio with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The median of the ratios of neighbouring slices.
    pub median: f64,
    /// The lower end of the 95 % confidence interval of the median.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl SamplingCost {
    /// Time with sampling over time without; none with fewer than 8 pairs of slices, which give no interval.
    ///
    /// The interval is that of the sign test: the order statistics at n/2 ± 0.98 √n of the pairs' ratios, which assumes
    /// nothing of how they are distributed.
    pub fn ratio(&self) -> Option<Ratio> {
        let mut ratios: Vec<f64> = self
            .with_ns
            .iter()
            .zip(&self.without_ns)
            .map(|(with, without)| with / without)
            .collect();
        if ratios.len() < 8 {
            return None;
        }
        ratios.sort_by(f64::total_cmp);
        let n = ratios.len() as f64;
        let reach = 0.98 * n.sqrt();
        let low = ((n / 2.0 - reach).floor() as usize).min(ratios.len() - 1);
        let high = ((n / 2.0 + reach).ceil() as usize).min(ratios.len() - 1);
        Some(Ratio {
            median: median(&ratios)?,
            low: ratios[low],
            high: ratios[high],
        })
    }
}

/// The median of values in order.
fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let upper = *sorted.get(n / 2)?;
    Some(if n % 2 == 1 {
        upper
    } else {
        f64::midpoint(sorted[n / 2 - 1], upper)
    })
}

/// The mean of the middle half of some values; none of nothing.
fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let beside = sorted.len() / 4;
    let middle = &sorted[beside..sorted.len() - beside];
    (!middle.is_empty()).then(|| middle.iter().sum::<f64>() / middle.len() as f64)
}

/// What a time was in each of many slices: the mean of the slice, as a share of a round trip in the slice without gates right
/// before it. Gates are seen one after the other, and a machine that is quicker while one of them is looked at would move it
/// against the others; a share does not move with the machine.
///
/// Nothing is left out of a slice, because the times of messages and those of batches of round trips would not lose alike.
#[derive(Debug, Clone, Default)]
struct Slices {
    shares: Vec<f64>,
    /// Times behind them.
    n: u64,
}

impl Slices {
    /// Adds a slice whose times were these, `n` of them, when a round trip took `beside_ns`.
    fn add(&mut self, mean_ns: Option<f64>, n: u64, beside_ns: f64) {
        let share = mean_ns.map(|mean_ns| mean_ns / beside_ns);
        self.shares.extend(share.filter(|share| share.is_finite()));
        self.n += n;
    }

    fn merge(&mut self, other: &Self) {
        self.shares.extend_from_slice(&other.shares);
        self.n += other.n;
    }

    /// The mean of the middle half of the slices; none without a slice.
    fn middle_share(&self) -> Option<f64> {
        middle(&self.shares)
    }
}

/// The way of a message, gate by gate: how long after `send()` was called it came to each.
///
/// The spans follow as differences, so they sum to the time from the first gate to the last whatever the processor overlaps;
/// what a reading hides or adds is the same at every gate and falls out.
///
/// Every time is the mean of the middle half of the slices, so slices in which others took the processor away do not move it, and
/// is measured against the round trip beside it, so that a machine whose speed drifts does not move it either.
#[derive(Debug, Clone)]
pub struct Chain {
    /// By gate, how long after the first it was passed.
    reached: Vec<(Gate, Slices)>,
    /// A round trip without gates, in nanoseconds, slice by slice.
    ungated_ns: Vec<f64>,
    /// A round trip with two.
    gated: Slices,
    /// A passage of a gate.
    probes: Slices,
    /// From the first gate to the first gate of the message that answers; none where only some round trips are recorded.
    turns: Slices,
    stats: JoinStats,
    recorded: u64,
    clock: Clock,
}

impl Chain {
    fn new(clock: Clock) -> Self {
        let gates = STACK.gates().without(FIRST);
        Self {
            reached: gates.iter().map(|gate| (gate, Slices::default())).collect(),
            ungated_ns: Vec::new(),
            gated: Slices::default(),
            probes: Slices::default(),
            turns: Slices::default(),
            stats: JoinStats::default(),
            recorded: 0,
            clock,
        }
    }

    /// Adds all that another run of the same spec saw.
    pub fn merge(&mut self, other: &Self) {
        // Both list the same gates in the same order.
        for ((_, times), (_, more)) in self.reached.iter_mut().zip(&other.reached) {
            times.merge(more);
        }
        self.ungated_ns.extend_from_slice(&other.ungated_ns);
        self.gated.merge(&other.gated);
        self.probes.merge(&other.probes);
        self.turns.merge(&other.turns);
        self.stats.merge(&other.stats);
        self.recorded += other.recorded;
    }

    /// The mean time from the first gate to `gate` in nanoseconds, the cost of a passage subtracted; 0 at the first gate, none at a gate that no message passed.
    pub fn reached_ns(&self, gate: Gate) -> Option<f64> {
        if gate == FIRST {
            return Some(0.0);
        }
        let (_, times) = self.reached.iter().find(|(other, _)| *other == gate)?;
        Some(self.ns(times)? - self.probe_ns())
    }

    /// The time of a span of one message, in nanoseconds. It may come out a little below zero.
    pub fn span_ns(&self, span: &Span) -> Option<f64> {
        Some(self.reached_ns(span.to)? - self.reached_ns(span.from)?)
    }

    /// The time of the span of [`STACK`] at `index` less the spans inside it: what it adds to [`Self::message_ns`]. A span
    /// inside that no message passed takes nothing.
    pub fn own_ns(&self, index: usize) -> Option<f64> {
        let spans = STACK.spans();
        let whole = self.span_ns(spans.get(index)?)?;
        let inside = STACK.inner(index);
        let inside: f64 = inside
            .filter_map(|inner| self.span_ns(spans.get(inner)?))
            .sum();
        Some(whole - inside)
    }

    /// The sum of all spans on the way, in nanoseconds; none when one of them was not measured. It is
    /// [`Self::message_ns`], added up from its parts.
    pub fn sum_ns(&self) -> Option<f64> {
        STACK
            .spans()
            .iter()
            .filter(|span| span.place == Place::OnTheWay)
            .map(|span| self.span_ns(span))
            .sum()
    }

    /// The time of a whole message, from `send()` to the return of the read, in nanoseconds.
    pub fn message_ns(&self) -> Option<f64> {
        self.reached_ns(Gate::SocketInEnd)
    }

    /// The time of a round trip in slices without gates, in nanoseconds.
    pub fn ungated_ns(&self) -> Option<f64> {
        middle(&self.ungated_ns)
    }

    /// A time in nanoseconds, on the machine as it usually was.
    fn ns(&self, slices: &Slices) -> Option<f64> {
        Some(slices.middle_share()? * self.ungated_ns()?)
    }

    /// What an application does between the return of its read and its next `send()`, in nanoseconds; none where only some round
    /// trips were recorded.
    pub fn application_ns(&self) -> Option<f64> {
        Some(self.ns(&self.turns)? - self.probe_ns() - self.message_ns()?)
    }

    /// What two messages and the applications' turns leave of the ungated round trip, signed, in nanoseconds: what gates disturb.
    /// Where the turns are not known they are in it.
    pub fn unattributed_ns(&self) -> Option<f64> {
        let application = self.application_ns().unwrap_or(0.0);
        Some(self.ungated_ns()? - 2.0 * (self.message_ns()? + application))
    }

    /// The unattributed share of the ungated round trip, signed; none without a round trip longer than nothing.
    pub fn closure(&self) -> Option<f64> {
        let total = self.ungated_ns().filter(|&total| total > 0.0)?;
        Some(self.unattributed_ns()? / total)
    }

    /// What two active gates and the recording cost: the gated round trip over the ungated one, less 1.
    pub fn perturbation(&self) -> Option<f64> {
        Some(self.gated.middle_share()? - 1.0)
    }

    /// What a passage of a gate costs in place, in nanoseconds.
    pub fn probe_ns(&self) -> f64 {
        self.ns(&self.probes)
            .unwrap_or(self.clock.cost_ns().plain_ns)
    }

    /// What became of the events: lost ones, the join rate.
    pub const fn join_stats(&self) -> JoinStats {
        self.stats
    }

    /// The messages that were timed to the gate that fewest were timed to; 0 when a gate was not passed.
    pub fn least_messages(&self) -> u64 {
        self.reached
            .iter()
            .map(|(_, times)| times.n)
            .min()
            .unwrap_or(0)
    }

    /// The round trips that were recorded.
    pub const fn recorded(&self) -> u64 {
        self.recorded
    }

    /// The clock that took all times.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Runs round trips of the spec's size with gates and without, in turn. The first gate and one other are active at a time, each
/// in turn.
///
/// # Errors
/// [`Error::Unsupported`] for another workload than rr, for a mode that the path has not, and for a message of more than one
/// segment, whose spans do not follow each other gate by gate; else what went wrong on the path.
pub fn chained(spec: &Spec, gating: &Gating) -> Result<Chain, Error> {
    match gating.reading {
        Reading::Plain => chained_by::<Plain>(spec, gating),
        Reading::Ordered => chained_by::<Ordered>(spec, gating),
    }
}

fn chained_by<S: Stamp>(spec: &Spec, gating: &Gating) -> Result<Chain, Error> {
    let one_segment = gating.one_segment();
    if spec.size > one_segment {
        return Err(Error::Unsupported {
            path: PATH,
            asked: format!("messages of {} bytes gate by gate", spec.size),
            has: format!("messages of one segment, at most {one_segment} bytes"),
        });
    }
    let mut bench = Bench::open(spec, gating)?;
    let clock = bench.clock;
    let mut chain = Chain::new(clock);
    let mut tracing = Tracing::<S, false>::new(clock, CAPACITY);
    let mut twin = Tracing::<S, true>::new(clock, CAPACITY);
    for round in 0..gating.rounds {
        let beside_ns = bench.ungated_mean_ns()?;
        chain.ungated_ns.push(beside_ns);
        twin.start(GateSet::of(&[FIRST]));
        bench.sampled(&mut twin, |_| ())?;
        if let Some(cost) = twin_cost(twin.stop().events, clock.scale()) {
            let n = cost.n as u64;
            chain.probes.add(Some(cost.trimmed_mean_ns), n, beside_ns);
        }
        if gating.one_in == NonZeroU32::MIN {
            let beside_ns = bench.ungated_mean_ns()?;
            chain.ungated_ns.push(beside_ns);
            tracing.start(GateSet::of(&[FIRST]));
            chain.recorded += bench.sampled(&mut tracing, |_| ())?;
            let recorded = tracing.stop();
            chain.stats.lost += recorded.lost;
            let (mean_ns, n) = turns(recorded.events, |from, to| clock.ns_between(from, to));
            chain.turns.add(mean_ns, n, beside_ns);
        }
        // Forth and back in turn, so that what drifts over a round falls on all gates alike.
        for step in 0..chain.reached.len() {
            let at = if round % 2 == 0 {
                step
            } else {
                chain.reached.len() - 1 - step
            };
            let (gate, reached) = &mut chain.reached[at];
            let beside_ns = bench.ungated_mean_ns()?;
            chain.ungated_ns.push(beside_ns);
            let active = GateSet::of(&[FIRST, *gate]);
            tracing.start(active);
            let mut whole = Distribution::new();
            chain.recorded += bench.sampled(&mut tracing, |ns| whole.record_ns(ns))?;
            chain.gated.add(whole.mean_ns(), whole.n(), beside_ns);
            let joined = join([tracing.stop()], JoinPlan::new(active, clock.scale()));
            let mut times = Distribution::new();
            for passage in &joined.passages {
                if let (Some(from), Some(to)) = (passage.at(FIRST), passage.at(*gate)) {
                    times.record_ns(clock.ns_between(from, to));
                }
            }
            reached.add(times.mean_ns(), times.n(), beside_ns);
            chain.stats.merge(&joined.stats);
        }
    }
    Ok(chain)
}

/// The mean time from a passage of the first gate to the next, and how many there were, where nothing else is recorded.
fn turns(events: &[Event], ns_between: impl Fn(Ticks, Ticks) -> f64) -> (Option<f64>, u64) {
    let n = events.len().saturating_sub(1) as u64;
    let whole = events.first().zip(events.last()).filter(|_| n > 0);
    let mean = whole.map(|(first, last)| ns_between(first.ticks, last.ticks) / n as f64);
    (mean, n)
}

/// Measures what sampling costs: `gating.rounds` rotations of slices with the sampler, each beside one without.
///
/// # Errors
/// [`Error::Unsupported`] for another workload than rr or a mode that the path has not; else what went wrong on the path.
pub fn sampling_cost(spec: &Spec, gating: &Gating) -> Result<SamplingCost, Error> {
    match gating.reading {
        Reading::Plain => sampling_cost_by::<Plain>(spec, gating),
        Reading::Ordered => sampling_cost_by::<Ordered>(spec, gating),
    }
}

fn sampling_cost_by<S: Stamp>(spec: &Spec, gating: &Gating) -> Result<SamplingCost, Error> {
    let mut bench = Bench::open(spec, gating)?;
    let mut tracing = Tracing::<S, false>::new(bench.clock, CAPACITY);
    let mut cost = SamplingCost {
        without_ns: Vec::new(),
        with_ns: Vec::new(),
    };
    let mut with_first = false;
    for _ in 0..gating.rounds {
        for active in STACK.rotation() {
            tracing.start(active);
            let (mut with, mut without) = (Vec::new(), Vec::new());
            if with_first {
                bench.sampled(&mut tracing, |ns| with.push(ns))?;
            }
            bench.ungated(|ns| without.push(ns))?;
            if !with_first {
                bench.sampled(&mut tracing, |ns| with.push(ns))?;
            }
            with_first = !with_first;
            let whole = |batches: &[f64]| batches.iter().sum::<f64>() / batches.len() as f64;
            cost.with_ns.push(whole(&with));
            cost.without_ns.push(whole(&without));
        }
    }
    Ok(cost)
}

/// The ends, and how slices of them are timed.
struct Bench {
    ends: Ends,
    sampler: Sampler,
    clock: Clock,
    warmup: u32,
    batches: u64,
    _pinned: Pinned,
}

impl Bench {
    fn open(spec: &Spec, gating: &Gating) -> Result<Self, Error> {
        StackMemory::DEFAULT.capabilities().check(PATH, spec)?;
        if spec.workload != Workload::Rr {
            return Err(Error::Unsupported {
                path: PATH,
                asked: format!("{} with gates", spec.workload),
                has: Workload::Rr.to_string(),
            });
        }
        let cores = Cores::choose(spec.placement)?;
        let pinned = Pinned::to(cores.near)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        let mut ends = Ends::open(spec, gating.mtu)?;
        ends.hosts.catch_up();
        Ok(Self {
            ends,
            sampler: Sampler::in_runs(gating.one_in, gating.run, gating.seed),
            clock: gate_clock(),
            warmup: spec.warmup,
            batches: gating.batches(),
            _pinned: pinned,
        })
    }

    fn warm_up(&mut self) -> Result<(), Error> {
        self.ends.hosts.catch_up();
        for _ in 0..self.warmup {
            self.ends.round_trip(&mut Ungated)?;
        }
        Ok(())
    }

    /// A slice without gates; `lap` gets the time per round trip of each batch, in nanoseconds.
    fn ungated(&mut self, mut lap: impl FnMut(f64)) -> Result<(), Error> {
        self.warm_up()?;
        let mut last = self.clock.now();
        for _ in 0..self.batches {
            for _ in 0..BATCH {
                self.ends.round_trip(&mut Ungated)?;
            }
            let now = self.clock.now();
            lap(self.clock.ns_between(last, now) / BATCH as f64);
            last = now;
        }
        Ok(())
    }

    /// A slice without gates; gives the mean time of a round trip in nanoseconds.
    fn ungated_mean_ns(&mut self) -> Result<f64, Error> {
        let mut sum = 0.0;
        self.ungated(|ns| sum += ns)?;
        Ok(sum / self.batches as f64)
    }

    /// A slice with the sampler; gives how many round trips were recorded.
    fn sampled<S: Stamp, const TWIN: bool>(
        &mut self,
        tracing: &mut Tracing<S, TWIN>,
        mut lap: impl FnMut(f64),
    ) -> Result<u64, Error> {
        self.warm_up()?;
        let mut recorded = 0;
        let mut last = self.clock.now();
        for _ in 0..self.batches {
            for _ in 0..BATCH {
                if self.sampler.pick() {
                    recorded += 1;
                    recorded_round_trip(&mut self.ends, tracing)?;
                } else {
                    self.ends.round_trip(&mut Ungated)?;
                }
            }
            let now = self.clock.now();
            lap(self.clock.ns_between(last, now) / BATCH as f64);
            last = now;
        }
        Ok(recorded)
    }
}

/// Kept out of the loop, so that the code without gates stays as dense as it is alone.
#[inline(never)]
fn recorded_round_trip<S: Stamp, const TWIN: bool>(
    ends: &mut Ends,
    tracing: &mut Tracing<S, TWIN>,
) -> Result<(), Error> {
    ends.round_trip(tracing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Placement, Waiting};

    fn spec(size: usize) -> Spec {
        Spec::new(Workload::Rr, size)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .verified()
    }

    fn few(one_in: u32) -> Gating {
        Gating {
            run: NonZeroU32::MIN,
            one_in: NonZeroU32::new(one_in).unwrap(),
            round_trips: 64,
            rounds: 1,
            seed: 3,
            reading: Reading::Ordered,
            mtu: DEFAULT_MTU,
        }
    }

    #[test]
    fn every_gate_sees_every_message_once() {
        let gates = STACK.gates().len() as u64 - 1;
        let mut chain = chained(&spec(80), &few(1)).unwrap();
        assert_eq!(chain.recorded(), 64 * (gates + 1));
        assert_eq!(chain.turns.n, 127);
        assert_eq!(chain.join_stats().lost, 0);
        // A delayed ACK that falls due in between is a passage of its own, on a machine that stalls.
        for (gate, times) in &chain.reached {
            assert_eq!(times.n, 128, "{}", gate.name());
        }
        assert!(chain.join_stats().unmatched() <= 4 * gates);
        assert_eq!(chain.least_messages(), 128);
        assert_eq!(chain.ungated_ns.len() as u64, gates + 2);
        assert_eq!(chain.gated.n, 4 * gates);
        assert_eq!(chain.probes.shares.len(), 1);

        let other = chain.clone();
        chain.merge(&other);
        assert_eq!(chain.recorded(), 128 * (gates + 1));
        assert_eq!(chain.least_messages(), 256);
        assert_eq!(chain.ungated_ns.len(), 2 * other.ungated_ns.len());
        assert_eq!(chain.probes.shares.len(), 2);
        let share = other.probes.middle_share();
        assert!(share.is_some() && chain.probes.middle_share() == share);
        assert_eq!(chain.join_stats().passages, 2 * other.join_stats().passages);
    }

    #[test]
    fn the_middle_half_of_the_slices_counts() {
        assert_eq!(middle(&[]), None);
        let values = [10.0, 900.0, 12.0, 1.0, 11.0, 13.0, 2.0, 800.0];
        assert_eq!(middle(&values), Some(11.5));
        assert!((middle(&values[..3]).unwrap() - 922.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_machine_that_drifts_moves_no_gate_against_another() {
        let clock = gate_clock();
        let mut chain = Chain::new(clock);
        let speeds = [100.0, 200.0];
        chain.ungated_ns.extend(speeds);
        chain.probes.add(Some(2.0), 1, speeds[0]);
        chain.gated.add(Some(208.0), 1, speeds[1]);
        for (at, (_, slices)) in chain.reached.iter_mut().enumerate() {
            let speed = speeds[at % 2];
            slices.add(Some(0.02 * speed * (at as f64 + 2.0)), 1, speed);
        }
        assert_eq!(chain.ungated_ns(), Some(150.0));
        assert!((chain.probe_ns() - 3.0).abs() < 1e-9);
        assert!((chain.perturbation().unwrap() - 0.04).abs() < 1e-9);
        for (at, (gate, _)) in chain.reached.iter().enumerate() {
            let expected = 3.0 * (at as f64 + 1.0);
            assert!((chain.reached_ns(*gate).unwrap() - expected).abs() < 1e-9);
        }
        chain.probes.add(None, 0, 100.0);
        chain.probes.add(Some(1.0), 1, 0.0);
        assert_eq!(chain.probes.shares.len(), 1);
    }

    #[test]
    fn one_in_many_is_sampled_and_one_decision_holds_for_both_ends() {
        let gating = Gating {
            round_trips: 512,
            ..few(8)
        };
        let chain = chained(&spec(4), &gating).unwrap();
        let all = 512 * (STACK.gates().len() as u64 - 1);
        assert!(
            chain.recorded() > all / 16 && chain.recorded() < all / 4,
            "{}",
            chain.recorded()
        );
        let rate = chain.join_stats().join_rate().unwrap();
        assert!(rate > 0.98, "{rate}");
        // Between two round trips that were recorded others were not.
        assert_eq!(chain.application_ns(), None);
        let left = chain.ungated_ns().unwrap() - 2.0 * chain.message_ns().unwrap();
        assert_eq!(chain.unattributed_ns(), Some(left));
    }

    #[test]
    fn sampling_is_measured_slice_by_slice() {
        let cost = sampling_cost(&spec(4), &few(64)).unwrap();
        assert_eq!(cost.with_ns.len(), STACK.spans().len());
        assert_eq!(cost.without_ns.len(), STACK.spans().len());
        let ratio = cost.ratio().unwrap();
        assert!(ratio.low <= ratio.median && ratio.median <= ratio.high);
    }

    #[test]
    fn ratios_come_with_their_interval() {
        let cost = SamplingCost {
            without_ns: vec![100.0; 100],
            with_ns: (0..100).map(|n| 100.0 + f64::from(n)).collect(),
        };
        let ratio = cost.ratio().unwrap();
        assert!((ratio.median - 1.495).abs() < 1e-9);
        assert!((ratio.low - 1.40).abs() < 1e-9 && (ratio.high - 1.60).abs() < 1e-9);
        let few = SamplingCost {
            without_ns: vec![1.0; 7],
            with_ns: vec![1.0; 7],
        };
        assert_eq!(few.ratio(), None);
    }

    #[test]
    fn a_chain_reaches_every_gate_and_its_spans_sum_to_the_message() {
        let chain = chained(&spec(80), &few(1)).unwrap();
        for gate in STACK.gates().iter() {
            assert!(chain.reached_ns(gate).is_some(), "{}", gate.name());
        }
        let on_the_way = STACK
            .spans()
            .iter()
            .filter(|span| span.place == Place::OnTheWay);
        let sum: f64 = on_the_way.filter_map(|span| chain.span_ns(span)).sum();
        assert!((sum - chain.message_ns().unwrap()).abs() < 1e-6);
        assert_eq!(chain.sum_ns(), Some(sum));
        let own = (0..STACK.spans().len()).filter_map(|at| chain.own_ns(at));
        assert!((own.sum::<f64>() - sum).abs() < 1e-6);
        let left = chain.unattributed_ns().unwrap();
        let ungated = chain.ungated_ns().unwrap();
        let application = chain.application_ns().unwrap();
        assert!((left + 2.0 * (sum + application) - ungated).abs() < 1e-6);
        assert_eq!(chain.closure(), Some(left / ungated));
        assert!(chain.perturbation().is_some());
        assert!(matches!(
            chained(&spec(1449), &few(1)),
            Err(Error::Unsupported { .. })
        ));
        let jumbo = Gating {
            mtu: 9000,
            ..few(1)
        };
        let chain = chained(&spec(8000), &jumbo).unwrap();
        assert!(chain.message_ns().is_some());
    }

    #[test]
    fn only_round_trips_are_gated() {
        let spec = Spec {
            workload: Workload::Stream,
            ..spec(4)
        };
        let error = chained(&spec, &few(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stack-memory does not run stream with gates; it has: rr"
        );
    }
}
