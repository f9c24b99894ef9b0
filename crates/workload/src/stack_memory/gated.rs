//! Round trips over `stack-memory` with gates: a ledger that closes on slices without any, and what sampling costs.
//!
//! One decision of a [`Sampler`] stands for a whole round trip: the packets of both ends are recorded, or both ends run the
//! copy of the code that was compiled without a recorder. The two gates of one span are active at a time; slices with them
//! take turns with slices without gates and with slices that pass each gate twice, which measure what a passage costs.

use std::num::NonZeroU32;

use tollgate_gate::distribution::Distribution;
use tollgate_gate::record::{Ordered, Plain, Stamp, twin_cost};
use tollgate_gate::{
    Clock, Gate, GateSet, JoinPlan, Ledger, STACK, Sampler, Scope, Slice, Span, join,
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

/// How round trips are gated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gating {
    /// One round trip in so many is recorded, on average.
    pub one_in: NonZeroU32,
    /// Round trips in a slice; rounded up to whole batches of 16, at least one.
    pub round_trips: u64,
    /// Times that the rotation through all spans is gone through.
    pub rounds: u32,
    /// Where the sampler's distances begin.
    pub seed: u64,
    /// How gates read the clock.
    pub reading: Reading,
    /// Bytes of the largest IP packet. With 9,000 every message of Wolman's sizes is one segment, as on his ATM network.
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
    /// One in 64, 1,024 round trips a slice, 10 rounds, plain readings, MTU 1500.
    fn default() -> Self {
        Self {
            one_in: NonZeroU32::new(64).unwrap_or(NonZeroU32::MIN),
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

    /// The largest message of one segment.
    const fn one_segment(&self) -> usize {
        self.mtu.saturating_sub(HEADERS)
    }

    fn batches(&self) -> u64 {
        self.round_trips.div_ceil(BATCH).max(1)
    }
}

/// What a gated run measured.
#[derive(Debug, Clone)]
pub struct GatedRun {
    /// The spans of a round trip. It holds the totals of batches with and without gates, and counts what was lost or did
    /// not join.
    pub ledger: Ledger,
    /// Round trips that were recorded.
    pub recorded: u64,
    /// What a passage cost in place, in nanoseconds, one figure for each twin slice.
    pub probe_ns: Vec<f64>,
    /// The clock that took all times.
    pub clock: Clock,
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

/// The way of a message, gate by gate: how long after `send()` was called it came to each.
///
/// The spans follow as differences, so they sum to the time from the first gate to the last whatever the processor overlaps;
/// what a reading hides or adds is the same at every gate and falls out.
#[derive(Debug, Clone)]
pub struct Chain {
    reached: Vec<(Gate, Distribution)>,
    ungated: Distribution,
    probe_ns: f64,
}

impl Chain {
    /// The mean time from the first gate to `gate` in nanoseconds, the longest hundredth left out and the cost of a passage
    /// subtracted; 0 at the first gate, none at a gate that no message passed.
    pub fn reached_ns(&self, gate: Gate) -> Option<f64> {
        if gate == Gate::SocketOutBegin {
            return Some(0.0);
        }
        let (_, times) = self.reached.iter().find(|(other, _)| *other == gate)?;
        Some(times.trimmed_mean_ns()? - self.probe_ns)
    }

    /// The time of a span of one message, in nanoseconds. It may come out a little below zero.
    pub fn span_ns(&self, span: &Span) -> Option<f64> {
        Some(self.reached_ns(span.to)? - self.reached_ns(span.from)?)
    }

    /// The time of a whole message, from `send()` to the return of the read, in nanoseconds.
    pub fn message_ns(&self) -> Option<f64> {
        self.reached_ns(Gate::SocketInEnd)
    }

    /// The time of a round trip in slices without gates, in nanoseconds, the longest hundredth left out.
    pub fn ungated_ns(&self) -> Option<f64> {
        self.ungated.trimmed_mean_ns()
    }

    /// What two messages leave of the ungated round trip, signed, in nanoseconds: the applications' part, and what gates
    /// disturb.
    pub fn unattributed_ns(&self) -> Option<f64> {
        Some(self.ungated_ns()? - 2.0 * self.message_ns()?)
    }
}

/// Runs round trips as [`gated`] does, with the first gate and one other active at a time, each in turn.
///
/// # Errors
/// As [`gated`]; [`Error::Unsupported`] for a message of more than one segment, whose spans do not follow each other gate by
/// gate.
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
    let first = Gate::SocketOutBegin;
    let gates = Gate::ALL.iter().copied().filter(|&gate| gate != first);
    let mut chain = Chain {
        reached: gates.map(|gate| (gate, Distribution::new())).collect(),
        ungated: Distribution::new(),
        probe_ns: 0.0,
    };
    let mut tracing = Tracing::<S, false>::new(clock, CAPACITY);
    let mut twin = Tracing::<S, true>::new(clock, CAPACITY);
    let mut probes = Distribution::new();
    for _ in 0..gating.rounds {
        twin.start(GateSet::of(&[first]));
        bench.sampled(&mut twin, |_| ())?;
        if let Some(cost) = twin_cost(twin.stop().events, clock.scale()) {
            probes.record_ns(cost.trimmed_mean_ns);
        }
        for (gate, times) in &mut chain.reached {
            bench.ungated(|ns| chain.ungated.record_ns(ns))?;
            let active = GateSet::of(&[first, *gate]);
            tracing.start(active);
            bench.sampled(&mut tracing, |_| ())?;
            for passage in join([tracing.stop()], JoinPlan::new(active, clock.scale())).passages {
                if let (Some(from), Some(to)) = (passage.at(first), passage.at(*gate)) {
                    times.record_ns(clock.ns_between(from, to));
                }
            }
        }
    }
    chain.probe_ns = probes.quantile_ns(0.5).unwrap_or(clock.cost_ns().plain_ns);
    Ok(chain)
}

/// Runs round trips of the spec's size with gates and without, in turn, and gives their ledger.
///
/// # Errors
/// [`Error::Unsupported`] for another workload than rr or a mode that the path has not; else what went wrong on the path.
pub fn gated(spec: &Spec, gating: &Gating) -> Result<GatedRun, Error> {
    match gating.reading {
        Reading::Plain => gated_by::<Plain>(spec, gating),
        Reading::Ordered => gated_by::<Ordered>(spec, gating),
    }
}

fn gated_by<S: Stamp>(spec: &Spec, gating: &Gating) -> Result<GatedRun, Error> {
    let mut bench = Bench::open(spec, gating)?;
    let clock = bench.clock;
    let mut run = GatedRun {
        ledger: Ledger::new(STACK, Scope::RoundTrip),
        recorded: 0,
        probe_ns: Vec::new(),
        clock,
    };
    let mut tracing = Tracing::<S, false>::new(clock, CAPACITY);
    let mut twin = Tracing::<S, true>::new(clock, CAPACITY);
    for _ in 0..gating.rounds {
        for active in STACK.rotation() {
            bench.ungated(|ns| run.ledger.add_ungated_ns(ns))?;

            twin.start(twin_gate(active));
            bench.sampled(&mut twin, |_| ())?;
            let cost = twin_cost(twin.stop().events, clock.scale());
            let probe_ns = cost.map_or(clock.cost_ns().plain_ns, |cost| cost.trimmed_mean_ns);
            run.probe_ns.extend(cost.map(|cost| cost.trimmed_mean_ns));

            tracing.start(active);
            let units = bench.sampled(&mut tracing, |ns| run.ledger.add_gated_ns(ns))?;
            let joined = join([tracing.stop()], JoinPlan::new(active, clock.scale()));
            let slice = Slice {
                active,
                units,
                probe_ns,
                scale: clock.scale(),
            };
            run.ledger.add_slice(&slice, &joined);
            run.recorded += units;
        }
    }
    Ok(run)
}

/// Measures what sampling costs: `gating.rounds` rotations of slices with the sampler, each beside one without.
///
/// # Errors
/// As [`gated`].
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

/// The gate whose passage stands for the cost of both: the first of the pair, unless its moment is only kept.
fn twin_gate(active: GateSet) -> GateSet {
    let kept = [
        Gate::DriverInBegin,
        Gate::DeviceQueueIn,
        Gate::SocketInBegin,
    ];
    let gate = active.iter().find(|gate| !kept.contains(gate)).into_iter();
    gate.collect()
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
            sampler: Sampler::new(gating.one_in, gating.seed),
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
    use tollgate_gate::span::Place;

    fn spec(size: usize) -> Spec {
        Spec::new(Workload::Rr, size)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .verified()
    }

    fn few(one_in: u32) -> Gating {
        Gating {
            one_in: NonZeroU32::new(one_in).unwrap(),
            round_trips: 64,
            rounds: 1,
            seed: 3,
            reading: Reading::Ordered,
            mtu: DEFAULT_MTU,
        }
    }

    #[test]
    fn every_span_of_every_round_trip_is_seen_once_each_way() {
        let run = gated(&spec(80), &few(1)).unwrap();
        let spans = STACK.spans().len() as u64;
        assert_eq!(run.recorded, 64 * spans);
        assert_eq!(run.ledger.lost_events(), 0);
        assert!(run.ledger.missing().is_empty());
        // A delayed ACK that falls due in between is a passage of its own, on a machine that stalls.
        for row in run.ledger.rows() {
            let n = row.raw.expect("seen").n;
            assert!((128..=132).contains(&n), "{}: {n}", row.span.name);
            assert!(row.unmatched <= 4, "{}: {}", row.span.name, row.unmatched);
        }
        assert_eq!(run.ledger.ungated().unwrap().n, 4 * spans);
        assert_eq!(run.ledger.gated().unwrap().n, 4 * spans);
        assert_eq!(run.probe_ns.len() as u64, spans);
    }

    #[test]
    fn segments_of_one_message_do_not_overlap() {
        let run = gated(&spec(8000), &few(1)).unwrap();
        // Six segments a message.
        for row in run.ledger.rows() {
            let n = row.raw.expect("seen").n;
            let once = matches!(
                (row.span.name, row.span.direction as u8),
                ("socket" | "device.queue" | "driver" | "ip.queue", _)
            );
            if once {
                assert!((128..6 * 128).contains(&n), "{} {n}", row.span.name);
            } else {
                assert!(n >= 6 * 128, "{} {n}", row.span.name);
            }
            assert!(row.span.place == Place::Inside || row.per_unit_ns.is_some());
        }
    }

    #[test]
    fn one_in_many_is_sampled_and_one_decision_holds_for_both_ends() {
        let gating = Gating {
            round_trips: 512,
            ..few(8)
        };
        let run = gated(&spec(4), &gating).unwrap();
        let all = 512 * STACK.spans().len() as u64;
        assert!(
            run.recorded > all / 16 && run.recorded < all / 4,
            "{}",
            run.recorded
        );
        let rate = run.ledger.join_rate().unwrap();
        assert!(rate > 0.98, "{rate}");
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
        for &gate in Gate::ALL {
            assert!(chain.reached_ns(gate).is_some(), "{}", gate.name());
        }
        let on_the_way = STACK
            .spans()
            .iter()
            .filter(|span| span.place == Place::OnTheWay);
        let sum: f64 = on_the_way.filter_map(|span| chain.span_ns(span)).sum();
        assert!((sum - chain.message_ns().unwrap()).abs() < 1e-6);
        assert!(chain.unattributed_ns().is_some());
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
        let error = gated(&spec, &few(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stack-memory does not run stream with gates; it has: rr"
        );
    }
}
