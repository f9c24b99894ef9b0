//! The cost of sampling: round trips over `stack-memory` of which a few are recorded, beside round trips without a sampler.
//!
//! One decision of a [`Sampler`] stands for a whole round trip: the packets of both ends are recorded, or both ends run the
//! copy of the code that was compiled without a recorder. It must never look at what was recorded.

use std::num::NonZeroU32;

use tollgate_gate::record::Plain;
use tollgate_gate::{Clock, STACK, Sampler};
use tollgate_run::Workload;

use super::hosts::Time;
use super::{Ends, PATH, StackMemory};
use crate::clock::gate_clock;
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::path::Path;
use crate::spec::Spec;
use crate::stack_gates::{Passages, Ungated};
use crate::stack_host::DEFAULT_MTU;

/// Round trips that one reading of the clock ends.
const BATCH: u64 = 16;

/// Plan of sampling round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// One round trip in so many is recorded, on average.
    pub one_in: NonZeroU32,
    /// The length of a run of recorded round trips: the first warms the code that records for the others.
    pub run: NonZeroU32,
    /// Round trips in a slice; rounded up to whole batches of 16, at least one.
    pub round_trips: u64,
    /// Times that the spans of the stack are gone through, the two gates of one in each slice.
    pub rounds: u32,
}

impl Default for Sampling {
    /// One in 64 in runs of 32, 1,024 round trips a slice, 10 rounds.
    fn default() -> Self {
        Self {
            one_in: NonZeroU32::new(64).unwrap_or(NonZeroU32::MIN),
            run: NonZeroU32::new(32).unwrap_or(NonZeroU32::MIN),
            round_trips: 1024,
            rounds: 10,
        }
    }
}

/// Cost of sampling: nanoseconds per round trip, slice by slice, those at one index measured next to each other.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingCost {
    /// Slices without a sampler, running the code without gates.
    pub without_ns: Vec<f64>,
    /// Slices with it, some of whose round trips were recorded.
    pub with_ns: Vec<f64>,
}

/// Measures what sampling costs: slices with the sampler, each beside one without.
///
/// # Errors
/// [`Error::Unsupported`] for another workload than rr or a mode that the path has not; else what went wrong on the path.
pub fn sampling_cost(spec: &Spec, sampling: &Sampling) -> Result<SamplingCost, Error> {
    let mut bench = Bench::open(spec, sampling)?;
    let mut passages = Passages::<Plain>::new(bench.clock);
    let mut cost = SamplingCost {
        without_ns: Vec::new(),
        with_ns: Vec::new(),
    };
    let mut with_first = false;
    for _ in 0..sampling.rounds {
        for active in STACK.spans().iter().map(tollgate_gate::Span::gates) {
            passages.start(active);
            if with_first {
                cost.with_ns.push(bench.sampled(&mut passages)?);
            }
            cost.without_ns.push(bench.ungated()?);
            if !with_first {
                cost.with_ns.push(bench.sampled(&mut passages)?);
            }
            with_first = !with_first;
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
    fn open(spec: &Spec, sampling: &Sampling) -> Result<Self, Error> {
        StackMemory::DEFAULT.capabilities().check(PATH, spec)?;
        if spec.workload != Workload::Rr {
            return Err(Error::Unsupported {
                path: PATH,
                asked: format!("{} with gates", spec.workload),
                has: Workload::Rr.to_string(),
            });
        }
        let cores = Cores::choose(spec.placement)?;
        let pinned = Pinned::to(cores.client)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        Ok(Self {
            ends: Ends::open(spec, DEFAULT_MTU, Time::Real)?,
            sampler: Sampler::in_runs(sampling.one_in, sampling.run, 1),
            clock: gate_clock(),
            warmup: spec.warmup,
            batches: sampling.round_trips.div_ceil(BATCH).max(1),
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

    /// A slice without gates; the mean time of a round trip in nanoseconds.
    fn ungated(&mut self) -> Result<f64, Error> {
        self.warm_up()?;
        let begin = self.clock.now();
        for _ in 0..self.batches * BATCH {
            self.ends.round_trip(&mut Ungated)?;
        }
        Ok(self.since(begin))
    }

    /// A slice with the sampler; the mean time of a round trip in nanoseconds.
    fn sampled(&mut self, passages: &mut Passages<Plain>) -> Result<f64, Error> {
        self.warm_up()?;
        let begin = self.clock.now();
        for _ in 0..self.batches * BATCH {
            if self.sampler.pick() {
                recorded_round_trip(&mut self.ends, passages)?;
            } else {
                self.ends.round_trip(&mut Ungated)?;
            }
        }
        Ok(self.since(begin))
    }

    fn since(&self, begin: tollgate_gate::Ticks) -> f64 {
        self.clock.ns_between(begin, self.clock.now()) / (self.batches * BATCH) as f64
    }
}

/// Kept out of the loop, so that the code without gates stays as dense as it is alone.
#[inline(never)]
fn recorded_round_trip(ends: &mut Ends, passages: &mut Passages<Plain>) -> Result<(), Error> {
    ends.round_trip(passages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_run::{Placement, Waiting};

    const FEW: Sampling = Sampling {
        one_in: NonZeroU32::MIN,
        run: NonZeroU32::MIN,
        round_trips: 64,
        rounds: 1,
    };

    fn spec() -> Spec {
        Spec::new(Workload::Rr, 4)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .verified()
    }

    #[test]
    fn sampling_is_measured_slice_by_slice() {
        let cost = sampling_cost(&spec(), &FEW).unwrap();
        assert_eq!(cost.with_ns.len(), STACK.spans().len());
        assert_eq!(cost.without_ns.len(), STACK.spans().len());
        assert!(
            cost.with_ns
                .iter()
                .chain(&cost.without_ns)
                .all(|&ns| ns > 0.0)
        );
    }

    #[test]
    fn only_round_trips_are_sampled() {
        let spec = Spec {
            workload: Workload::Stream,
            ..spec()
        };
        let error = sampling_cost(&spec, &FEW).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stack-memory does not run stream with gates; it has: rr"
        );
    }
}
