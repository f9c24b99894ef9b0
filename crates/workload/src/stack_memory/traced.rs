//! Round trips over `stack-memory` in slices with gates and without, for a ledger.
//!
//! There are two copies of the code: one that was compiled without gates, and one with them, in which any set is recorded. A
//! round trip runs one of them as a whole, at both ends. Messages are one segment, so that each passes each gate once and in one
//! order.
//!
//! Gates read the clock in order ([`Ordered`]). A plain reading is taken while the processor works on what stands around it, so
//! what it costs depends on how near the next reading is, and the costs of several gates do not add up: with plain readings the
//! spans of a round trip of 64 bytes left 33 of 90 ns open, with ordered ones -3 of 85 ns.
//!
//! It must never choose gates, and never judge a time.

use tollgate_gate::record::Ordered;
use tollgate_gate::{Clock, GateSet, Recorded};
use tollgate_run::Workload;

use super::hosts::Time;
use super::{Ends, PATH, StackMemory};
use crate::clock::gate_clock;
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::input::InputCounts;
use crate::path::Path;
use crate::spec::Spec;
use crate::stack_gates::{Fault, Faulty, Forget, Gates, Numbered, Passages, Ungated};

/// Round trips that one reading of the application's clock ends.
pub const BATCH: u64 = 16;
/// Bytes of the IP and TCP headers with the timestamp option.
const HEADERS: usize = 20 + 20 + 12;
/// Bytes of the largest message of one segment, which a datagram holds as well.
pub const fn one_segment(mtu: usize) -> usize {
    mtu.saturating_sub(HEADERS)
}

/// Two ends whose round trips run with gates or without.
pub struct Traced {
    ends: Ends,
    passages: Passages<Ordered>,
    clock: Clock,
    datagrams: bool,
    warmup: u32,
    fault: Option<Fault>,
    _pinned: Pinned,
}

impl Traced {
    /// Opens both ends, with IP packets of at most `mtu` bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for another workload than rr, for a mode that the path has not, and for messages of more than
    /// one segment; else what went wrong on the path.
    pub fn open(spec: &Spec, mtu: usize) -> Result<Self, Error> {
        StackMemory::DEFAULT.capabilities().check(PATH, spec)?;
        let unsupported = |asked, has| Error::Unsupported {
            path: PATH,
            asked,
            has,
        };
        if spec.workload != Workload::Rr {
            let asked = format!("{} with gates", spec.workload);
            return Err(unsupported(asked, Workload::Rr.to_string()));
        }
        if spec.size > one_segment(mtu) {
            let asked = format!("messages of {} bytes gate by gate", spec.size);
            let most = one_segment(mtu);
            let has = format!("messages of one segment, at most {most} bytes");
            return Err(unsupported(asked, has));
        }
        let cores = Cores::choose(spec.placement)?;
        let pinned = Pinned::to(cores.client)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        let clock = gate_clock();
        Ok(Self {
            ends: Ends::open(spec, mtu, Time::Real)?,
            passages: Passages::new(clock),
            clock,
            datagrams: spec.is_datagrams(),
            warmup: spec.warmup,
            fault: None,
            _pinned: pinned,
        })
    }

    /// The clock of gates and application.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The segments that the stacks have received so far, the client end's first.
    pub fn input_counts(&self) -> [InputCounts; 2] {
        self.ends.hosts.counters().map(InputCounts::of)
    }

    /// Puts a fault beside a gate, or takes it away, from the next slice on.
    pub const fn set_fault(&mut self, fault: Option<Fault>) {
        self.fault = fault;
    }

    /// Runs a slice of whole batches, through the code without gates, or with these gates; `lap` gets the time of a round
    /// trip in each batch, in nanoseconds.
    ///
    /// # Errors
    /// The failure of the path.
    pub fn slice(
        &mut self,
        gates: Option<GateSet>,
        round_trips: u64,
        lap: impl FnMut(f64),
    ) -> Result<Recorded<'_>, Error> {
        let batches = round_trips.div_ceil(BATCH).max(1);
        self.passages.start(gates.unwrap_or(GateSet::EMPTY));
        let mut timed = Timed {
            ends: &mut self.ends,
            clock: self.clock,
            datagrams: self.datagrams,
            warmup: self.warmup,
            batches,
        };
        match (gates, &self.fault) {
            // The code without gates numbers nothing.
            (None, None) if self.datagrams => {
                timed.run_by(&mut Ungated, Ends::datagram_round_trip, lap)
            }
            (None, None) => timed.run(&mut Ungated, lap),
            (Some(_), None) => timed.run(&mut self.passages, lap),
            (None, Some(fault)) => timed.run(&mut Faulty::new(&mut Ungated, fault), lap),
            (Some(_), Some(fault)) => timed.run(&mut Faulty::new(&mut self.passages, fault), lap),
        }?;
        Ok(self.passages.recorded())
    }
}

/// A slice that is to be timed.
struct Timed<'a> {
    ends: &'a mut Ends,
    clock: Clock,
    datagrams: bool,
    warmup: u32,
    batches: u64,
}

impl Timed<'_> {
    fn run<G: Gates + Forget>(&mut self, gates: &mut G, lap: impl FnMut(f64)) -> Result<(), Error> {
        if self.datagrams {
            let numbered = &mut Numbered::new(gates);
            self.run_by(numbered, Ends::datagram_round_trip, lap)
        } else {
            self.run_by(gates, Ends::round_trip, lap)
        }
    }

    #[inline(never)]
    fn run_by<G: Gates + Forget>(
        &mut self,
        gates: &mut G,
        mut round_trip: impl FnMut(&mut Ends, &mut G) -> Result<(), Error>,
        mut lap: impl FnMut(f64),
    ) -> Result<(), Error> {
        self.ends.hosts.catch_up();
        for _ in 0..self.warmup {
            round_trip(self.ends, gates)?;
        }
        gates.forget();
        let mut last = self.clock.now();
        for _ in 0..self.batches {
            for _ in 0..BATCH {
                round_trip(self.ends, gates)?;
            }
            let now = self.clock.now();
            lap(self.clock.ns_between(last, now) / BATCH as f64);
            last = now;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tollgate_gate::delay::Wait;
    use tollgate_gate::{Gate, JoinPlan, join};

    use super::*;
    use crate::sockets::{Sockets, Transport};
    use crate::stack_gates::PASSED;
    use crate::stack_host::DEFAULT_MTU;
    use tollgate_run::{Placement, Waiting};

    fn spec(size: usize) -> Spec {
        Spec::new(Workload::Rr, size)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .verified()
    }

    /// The gates that each of so many messages passed, joined.
    fn passed(traced: &mut Traced, gates: Option<GateSet>) -> Vec<GateSet> {
        let set = gates.unwrap_or(GateSet::EMPTY);
        let scale = traced.clock().scale();
        let recorded = traced.slice(gates, 64, |_| ()).unwrap();
        assert_eq!(recorded.lost, 0);
        let joined = join([recorded], JoinPlan::new(set, scale));
        joined.passages.iter().map(|one| one.gates()).collect()
    }

    #[test]
    fn sessions_of_several_sizes_give_the_thread_back() {
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        let sessions = [4, 80].map(|size| Traced::open(&spec(size), DEFAULT_MTU).unwrap());
        // In the order in which they were opened.
        sessions.into_iter().for_each(drop);
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn messages_pass_each_gate_of_any_set_once_with_a_fault_and_without() {
        let mut traced = Traced::open(&spec(80), DEFAULT_MTU).unwrap();
        let every = PASSED;
        let wait = Wait::calibrate(gate_clock(), 30.0);
        for fault in [None, Some(Gate::IpInBegin), Some(Gate::SocketInEnd)] {
            traced.set_fault(fault.map(|gate| Fault { gate, wait }));
            for set in [
                every,
                GateSet::of(&[Gate::DriverInBegin, Gate::SocketInEnd]),
                GateSet::of(&[Gate::DeviceQueueIn, Gate::DriverOutBegin, Gate::DemuxBegin]),
            ] {
                let gates = passed(&mut traced, Some(set));
                // On a machine that stalls an acknowledgment falls due, which is a message of its own.
                let whole = gates.iter().filter(|&&one| one == set);
                assert!(whole.count() >= 126, "{set:?} {gates:?}");
            }
            assert_eq!(passed(&mut traced, None), []);
            assert_eq!(passed(&mut traced, Some(GateSet::EMPTY)), []);
        }
    }

    #[test]
    fn datagrams_pass_each_gate_of_any_set_once_with_a_fault_and_without() {
        let spec = spec(80).over(Sockets {
            transport: Transport::Udp,
            ..Sockets::PLAIN
        });
        let mut traced = Traced::open(&spec, DEFAULT_MTU).unwrap();
        let wait = Wait::calibrate(gate_clock(), 30.0);
        for fault in [None, Some(Gate::ChecksumInBegin), Some(Gate::SocketInEnd)] {
            traced.set_fault(fault.map(|gate| Fault { gate, wait }));
            for set in [
                PASSED,
                GateSet::of(&[Gate::DriverInBegin, Gate::SocketInEnd]),
                GateSet::of(&[Gate::TcpOutBegin, Gate::IpOutBegin, Gate::TcpInBegin]),
            ] {
                // Nothing but datagrams is under way, and each is predicted.
                assert_eq!(passed(&mut traced, Some(set)), [set; 128]);
            }
            assert_eq!(passed(&mut traced, None), []);
        }
    }

    #[test]
    fn laps_are_those_of_whole_batches() {
        let mut traced = Traced::open(&spec(4), DEFAULT_MTU).unwrap();
        for (round_trips, laps) in [(0, 1), (16, 1), (17, 2), (256, 16)] {
            let mut timed = 0;
            let lap = |ns: f64| timed += u32::from(ns > 0.0);
            traced.slice(None, round_trips, lap).unwrap();
            assert_eq!(timed, laps);
        }
    }

    #[test]
    fn what_is_no_round_trip_of_one_segment_is_refused() {
        let stream = Spec {
            workload: Workload::Stream,
            ..spec(4)
        };
        let error = Traced::open(&stream, DEFAULT_MTU).err().unwrap();
        assert_eq!(
            error.to_string(),
            "stack-memory does not run stream with gates; it has: rr"
        );
        let refused = |size, mtu| {
            matches!(
                Traced::open(&spec(size), mtu),
                Err(Error::Unsupported { .. })
            )
        };
        assert!(refused(1_449, DEFAULT_MTU) && !refused(8_000, 9_000));
    }
}
