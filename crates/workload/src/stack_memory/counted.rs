//! Round trips over `stack-memory`, or writes of a stream, in virtual time, for those who count their instructions.
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

use tollgate_run::Workload;

/// Two ends in one thread that do the same in every run.
pub struct Operations {
    ends: Ends,
    workload: Workload,
}

impl Operations {
    /// Opens both ends as `stack-memory` does for this spec.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what the path cannot do, and for connections; else what a stack refused.
    pub fn open(spec: &Spec) -> Result<Self, Error> {
        let path = StackMemory::DEFAULT;
        path.capabilities().check(path.id(), spec)?;
        if spec.workload == Workload::Crr {
            return Err(Error::Unsupported {
                path: path.id(),
                asked: format!("{} in virtual time", spec.workload),
                has: format!("{}, {}", Workload::Rr, Workload::Stream),
            });
        }
        let ends = Ends::open(spec, DEFAULT_MTU, Time::Virtual)?;
        Ok(Self {
            ends,
            workload: spec.workload,
        })
    }

    /// Makes `count` round trips, or writes that have all been read then.
    ///
    /// # Errors
    /// Errors of the path.
    #[inline(never)]
    pub fn run(&mut self, count: u64) -> Result<(), Error> {
        if self.workload == Workload::Stream {
            for _ in 0..count {
                self.ends.write()?;
            }
            return self.ends.finish_stream();
        }
        for _ in 0..count {
            self.ends.round_trip(&mut super::Ungated)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Placement, Waiting};

    use super::*;

    /// Counters of both stacks of a session after some operations.
    fn counters(workload: Workload, size: usize) -> String {
        let spec = Spec::new(workload, size).with_mode(Placement::OneCore, Waiting::BusyPoll);
        let mut trips = Operations::open(&spec.verified()).unwrap();
        trips.run(100).unwrap();
        format!("{:?}", trips.ends.hosts.counters())
    }

    #[test]
    fn operations_in_virtual_time_repeat_to_the_segment() {
        for workload in [Workload::Rr, Workload::Stream] {
            for size in [1, 1_448, 65_536] {
                let [once, again] = [(); 2].map(|()| counters(workload, size));
                assert_eq!(once, again, "{workload} {size}");
            }
        }
    }

    #[test]
    fn stream_in_virtual_time_has_been_read_when_its_writes_are_made() {
        let spec = Spec::new(Workload::Stream, 5_000)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .verified();
        let mut stream = Operations::open(&spec).unwrap();
        for writes in 1..=3 {
            stream.run(40).unwrap();
            assert_eq!(stream.ends.read, writes * 40 * 5_000);
        }
    }

    /// Nagle's algorithm and the peer's delayed acknowledgment wait for each other in each round trip of two segments.
    #[test]
    fn waits_for_timers_take_few_turns() {
        let spec = Spec::new(Workload::Rr, 2_000)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .with_nagle(true);
        let mut trips = Operations::open(&spec).unwrap();
        let before = trips.ends.hosts.elapsed_ns();
        trips.run(20).unwrap();
        let waited = trips.ends.hosts.elapsed_ns() - before;
        assert!(waited > 20 * 40_000_000, "{waited}");
    }

    #[test]
    fn virtual_time_is_for_what_the_path_runs() {
        let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::TwoCores, Waiting::BusyPoll);
        assert!(matches!(
            Operations::open(&spec),
            Err(Error::Unsupported { .. })
        ));
    }
}
