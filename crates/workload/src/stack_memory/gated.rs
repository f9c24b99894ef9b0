//! Round trips over `stack-memory` with gates: the way of a message gate by gate, beside the round trip without any, and what
//! sampling costs.
//!
//! One decision of a [`Sampler`] stands for a whole round trip: the packets of both ends are recorded, or both ends run the
//! copy of the code that was compiled without a recorder. Two gates are active at a time; slices with them take turns with
//! slices without gates, with slices whose gates are all asleep, and with slices that pass a third gate, which measure what a passage
//! costs where it is: a reading of the clock whose time the processor fills with other work costs little of it.

use std::num::NonZeroU32;

use tollgate_gate::distribution::Distribution;
use tollgate_gate::record::{Ordered, Plain, Stamp};
use tollgate_gate::{Clock, Event, Gate, GateSet, JoinPlan, STACK, Sampler, Ticks, join};

use super::hosts::Ungated;
use super::tracing::Tracing;
use super::{Ends, PATH, StackMemory};
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::now::gate_clock;
use crate::path::Path;
use crate::spec::{Spec, Workload};
use crate::stack_host::DEFAULT_MTU;

mod chain;

pub use chain::Chain;

/// Round trips that one reading of the clock ends.
const BATCH: u64 = 16;
/// Bytes of the IP and TCP headers with the timestamp option.
const HEADERS: usize = 20 + 20 + 12;
/// Events that a slice has room for; those beyond are counted as lost.
const CAPACITY: usize = 1 << 16;
/// Where the time of a message begins.
const FIRST: Gate = Gate::SocketOutBegin;
/// Where it ends.
const LAST: Gate = Gate::SocketInEnd;

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
    let mut tracing = Tracing::<S>::new(clock, CAPACITY);
    for round in 0..gating.rounds {
        let ungated_ns = bench.ungated_mean_ns()?;
        chain.ungated_ns.push(ungated_ns);
        let beside_ns = bench.asleep_mean_ns(&mut tracing)?;
        chain.asleep.add(Some(beside_ns), 1, ungated_ns);
        if gating.one_in == NonZeroU32::MIN {
            let beside_ns = bench.asleep_mean_ns(&mut tracing)?;
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
            let beside_ns = bench.asleep_mean_ns(&mut tracing)?;
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
            let Some((_, crossed)) = chain
                .crossed
                .iter_mut()
                .find(|(crossed, _)| crossed == gate)
            else {
                continue;
            };
            let beside_ns = bench.asleep_mean_ns(&mut tracing)?;
            let active = active.with(LAST);
            tracing.start(active);
            bench.sampled(&mut tracing, |_| ())?;
            let joined = join([tracing.stop()], JoinPlan::new(active, clock.scale()));
            let mut times = Distribution::new();
            for passage in &joined.passages {
                if let (Some(from), Some(_), Some(to)) =
                    (passage.at(FIRST), passage.at(*gate), passage.at(LAST))
                {
                    times.record_ns(clock.ns_between(from, to));
                }
            }
            crossed.add(times.mean_ns(), times.n(), beside_ns);
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
    let mut tracing = Tracing::<S>::new(bench.clock, CAPACITY);
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

    /// A slice through the code with gates, none of which is wanted; gives the mean time of a round trip in nanoseconds.
    fn asleep_mean_ns<S: Stamp>(&mut self, tracing: &mut Tracing<S>) -> Result<f64, Error> {
        tracing.start(GateSet::EMPTY);
        let mut sum = 0.0;
        self.sampled(tracing, |ns| sum += ns)?;
        tracing.stop();
        Ok(sum / self.batches as f64)
    }

    /// A slice with the sampler; gives how many round trips were recorded.
    fn sampled<S: Stamp>(
        &mut self,
        tracing: &mut Tracing<S>,
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
fn recorded_round_trip<S: Stamp>(ends: &mut Ends, tracing: &mut Tracing<S>) -> Result<(), Error> {
    ends.round_trip(tracing)
}

#[cfg(test)]
mod tests {
    use tollgate_gate::span::Place;

    use super::chain::middle;
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
        assert_eq!((chain.ungated_ns.len(), chain.asleep.n), (1, 1));
        assert_eq!(chain.gated.n, 4 * gates);
        assert!(chain.crossed.iter().all(|(_, times)| times.n == 128));

        let other = chain.clone();
        chain.merge(&other);
        assert_eq!(chain.recorded(), 128 * (gates + 1));
        assert_eq!(chain.least_messages(), 256);
        assert_eq!(chain.ungated_ns.len(), 2 * other.ungated_ns.len());
        let share = other.asleep();
        assert!(share.is_some() && chain.asleep() == share);
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
        chain.asleep.add(Some(110.0), 1, speeds[0]);
        chain.gated.add(Some(208.0), 1, speeds[1]);
        let share = |at: usize| 0.02 * (at as f64 + 2.0);
        for (at, (_, slices)) in chain.reached.iter_mut().enumerate() {
            let speed = speeds[at % 2];
            slices.add(Some(share(at) * speed), 1, speed);
        }
        let last = chain.reached.iter().position(|(gate, _)| *gate == LAST);
        let last = share(last.unwrap());
        for (at, (_, slices)) in chain.crossed.iter_mut().enumerate() {
            // A gate more costs 2 % of a round trip, or twice that.
            let (speed, cost) = (speeds[at % 2], [0.02, 0.04][at % 2]);
            slices.add(Some((last + cost) * speed), 1, speed);
        }
        let costs = chain.crossed.len() as f64;
        let twice = (costs / 2.0).floor();
        let passage = 3.0 * (costs + twice) / costs;
        assert_eq!(chain.ungated_ns(), Some(150.0));
        assert!((chain.probe_ns().unwrap() - 1.1 * passage).abs() < 1e-9);
        assert!((chain.perturbation().unwrap() - (1.1 * 1.04 - 1.0)).abs() < 1e-9);
        for (at, (gate, _)) in chain.reached.iter().enumerate() {
            let expected = 150.0 * share(at) - passage;
            assert!((chain.reached_ns(*gate).unwrap() - expected).abs() < 1e-9);
        }
        chain.asleep.add(None, 0, 100.0);
        chain.asleep.add(Some(1.0), 1, 0.0);
        assert_eq!(chain.asleep.shares.len(), 1);
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
