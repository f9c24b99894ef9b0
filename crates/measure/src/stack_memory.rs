//! The gates of Tollgate's own stack, under two ends in one thread.
//!
//! Owns the ends, one pair for each size. It must never judge a time.

use tollgate_gate::{Gate, TickScale};
use tollgate_run::{Placement, Waiting, Workload};
use tollgate_workload::stack_gates::PASSED;
use tollgate_workload::stack_memory::traced::{BATCH, Traced, one_segment};
use tollgate_workload::{InputCounts, Mechanisms, Sockets, Spec, Transport};

use crate::faults::{Delayed, Waits};
use crate::gated::{Gated, Ran, Reopened};
use crate::ledger::Split;
use crate::schedule::Probes;
use crate::way::Way;

/// Round trips before each slice that are not timed: the other copy of the code ran last.
const WARM_UP: u32 = 64;
/// Bytes of the largest IP packet where one segment of it holds the message.
pub const MTU: usize = 1_500;
/// Bytes of the largest IP packet where that does not. Gate by gate a message is one segment.
pub const JUMBO_MTU: usize = 9_000;

/// Bytes of the largest message that has a ledger.
pub const LARGEST: usize = one_segment(JUMBO_MTU);

/// Two stacks in one thread, for each size.
pub struct StackMemory {
    way: Way,
    specs: Vec<Spec>,
    ends: Vec<Traced>,
    probes: Probes,
    waits: Waits,
}

/// Bytes of the largest IP packet under messages of this size.
pub const fn mtu(size: usize) -> usize {
    if size <= one_segment(MTU) {
        MTU
    } else {
        JUMBO_MTU
    }
}

impl StackMemory {
    /// Opens both ends for messages of each size over TCP, with these mechanisms.
    ///
    /// # Errors
    /// Those of [`StackMemory::open_over`].
    pub fn open(sizes: &[usize], mechanisms: Mechanisms) -> Result<Self, String> {
        Self::open_over(Transport::Tcp, sizes, mechanisms)
    }

    /// Opens both ends for messages of each size, over TCP or as datagrams, with these mechanisms.
    ///
    /// # Errors
    /// The refusal by the path, for people: messages that no segment holds.
    pub fn open_over(
        transport: Transport,
        sizes: &[usize],
        mechanisms: Mechanisms,
    ) -> Result<Self, String> {
        let way = Way::new(PASSED.iter().collect()).map_err(|error| error.to_string())?;
        let spec = |&size: &usize| Spec {
            warmup: WARM_UP,
            ..Spec::new(Workload::Rr, size)
                .with_mode(Placement::OneCore, Waiting::BusyPoll)
                .with_mechanisms(mechanisms)
                .over(Sockets {
                    transport,
                    ..Sockets::PLAIN
                })
        };
        let specs: Vec<Spec> = sizes.iter().map(spec).collect();
        Ok(Self {
            way,
            ends: open(&specs)?,
            specs,
            probes: Probes::Uninstrumented,
            waits: Waits::default(),
        })
    }
}

impl StackMemory {
    /// The segments that both stacks of the size at this place have received since they were opened, the client end's first.
    pub fn input_counts(&self, size: usize) -> Option<[InputCounts; 2]> {
        self.ends.get(size).map(Traced::input_counts)
    }
}

fn open(specs: &[Spec]) -> Result<Vec<Traced>, String> {
    let open = |spec: &Spec| Traced::open(spec, mtu(spec.size)).map_err(|error| error.to_string());
    specs.iter().map(open).collect()
}

impl Reopened for StackMemory {
    fn reopen(&mut self) -> Result<(), String> {
        self.probes = Probes::Uninstrumented;
        self.ends.clear();
        self.ends = open(&self.specs)?;
        for ends in &mut self.ends {
            ends.set_fault(self.waits.last());
        }
        Ok(())
    }
}

impl Delayed for StackMemory {
    /// The code has the delay compiled in for either case, so that code with and without one is laid out alike.
    fn delay(&mut self, delay: Option<(Gate, f64)>) -> Result<f64, String> {
        let fault = self.waits.fault(delay);
        for ends in &mut self.ends {
            ends.set_fault(Some(fault));
        }
        Ok(delay.map_or(0.0, |_| fault.wait.ns()))
    }
}

impl Gated for StackMemory {
    fn way(&self) -> &Way {
        &self.way
    }

    fn splits(&self) -> Vec<Split> {
        vec![Split::Alike(0); self.way.len()]
    }

    fn sizes(&self) -> usize {
        self.ends.len()
    }

    fn has_disabled(&self) -> bool {
        true
    }

    fn batch(&self) -> usize {
        BATCH as usize
    }

    fn scale(&self) -> TickScale {
        self.ends
            .first()
            .map_or(TickScale::NANOSECONDS, |ends| ends.clock().scale())
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        self.probes = probes;
        Ok(())
    }

    fn run(&mut self, size: usize, round_trips: u64) -> Result<Ran, String> {
        let ends = &mut self.ends[size];
        let scale = ends.clock().scale();
        let set = self.probes.active();
        let gates = (self.probes != Probes::Uninstrumented).then_some(set);
        let mut round_trips_ns = Vec::new();
        let recorded = ends.slice(gates, round_trips, |ns| round_trips_ns.push(ns));
        let recorded = recorded.map_err(|error| error.to_string())?;
        Ok(Ran::of(recorded, set, scale, BATCH, round_trips_ns))
    }
}
