//! Round trips over `stack-memory` in virtual time, for those who count their instructions.
//!
//! It owns sessions of the same two applications, stacks and link as the path's, whose clock moves by a fixed step with each
//! reading and whose keys are fixed. So neither timers nor hashes differ from run to run. It must never read a clock.

use super::Ends;
use super::hosts::Time;
use crate::error::Error;
use crate::path::Path;
use crate::spec::Spec;
use crate::stack_host::DEFAULT_MTU;
use crate::stack_memory::StackMemory;

/// Two ends in one thread that do the same in every run.
pub struct RoundTrips {
    ends: Ends,
}

impl RoundTrips {
    /// Opens both ends as `stack-memory` does for this spec.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what the path cannot do; else what a stack refused.
    pub fn open(spec: &Spec) -> Result<Self, Error> {
        let path = StackMemory::DEFAULT;
        path.capabilities().check(path.id(), spec)?;
        let ends = Ends::open(spec, DEFAULT_MTU, Time::Virtual)?;
        Ok(Self { ends })
    }

    /// Makes `count` round trips.
    ///
    /// # Errors
    /// Errors of the path.
    #[inline(never)]
    pub fn run(&mut self, count: u64) -> Result<(), Error> {
        for _ in 0..count {
            self.ends.round_trip(&mut super::Ungated)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Placement, Waiting, Workload};

    use super::*;

    /// Counters of both stacks of a session after some round trips.
    fn counters(size: usize) -> String {
        let spec = Spec::new(Workload::Rr, size).with_mode(Placement::OneCore, Waiting::BusyPoll);
        let mut trips = RoundTrips::open(&spec.verified()).unwrap();
        trips.run(100).unwrap();
        format!("{:?}", trips.ends.hosts.counters())
    }

    #[test]
    fn round_trips_in_virtual_time_repeat_to_the_segment() {
        for size in [1, 1_448, 65_536] {
            assert_eq!(counters(size), counters(size), "{size}");
        }
    }

    /// Nagle's algorithm and the peer's delayed acknowledgment wait for each other in each round trip of two segments.
    #[test]
    fn waits_for_timers_take_few_turns() {
        let spec = Spec::new(Workload::Rr, 2_000)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .with_nagle(true);
        let mut trips = RoundTrips::open(&spec).unwrap();
        let before = trips.ends.hosts.elapsed_ns();
        trips.run(20).unwrap();
        let waited = trips.ends.hosts.elapsed_ns() - before;
        assert!(waited > 20 * 40_000_000, "{waited}");
    }

    #[test]
    fn virtual_time_is_for_what_the_path_runs() {
        let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::TwoCores, Waiting::BusyPoll);
        assert!(matches!(
            RoundTrips::open(&spec),
            Err(Error::Unsupported { .. })
        ));
    }
}
