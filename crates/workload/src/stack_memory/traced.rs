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
//! A [`Fault`] is compiled into copies of their own, so that it costs nothing where there is none.
//!
//! It must never choose gates, and never judge a time.

use tollgate_gate::delay::{Delay, Wait};
use tollgate_gate::record::{Ordered, Stamp, Trace};
use tollgate_gate::{Clock, Gate, GateSet, PacketId, Recorded, Recorder, Ticks};
use tollgate_link::Side;
use tollgate_run::Workload;

use super::hosts::{Gates, Time, Ungated};
use super::{Ends, PATH, StackMemory};
use crate::clock::gate_clock;
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::path::Path;
use crate::spec::Spec;

/// Round trips that one reading of the application's clock ends.
pub const BATCH: u64 = 16;
/// The gates that a message of one segment passes. The reader's buffer is posted, so a message that is queued is read in the same
/// call, and does not pass [`Gate::SocketInBegin`].
pub const PASSED: GateSet = GateSet::of(&[
    Gate::SocketOutBegin,
    Gate::TcpOutBegin,
    Gate::ChecksumOutBegin,
    Gate::ChecksumOutEnd,
    Gate::IpOutBegin,
    Gate::DeviceQueueIn,
    Gate::DriverOutBegin,
    Gate::DriverOutEnd,
    Gate::DriverInBegin,
    Gate::IpInBegin,
    Gate::DemuxBegin,
    Gate::TcpInBegin,
    Gate::ChecksumInBegin,
    Gate::ChecksumInEnd,
    Gate::SocketQueued,
    Gate::SocketInEnd,
]);
/// Bytes of the IP and TCP headers with the timestamp option.
const HEADERS: usize = 20 + 20 + 12;
/// Events that a slice has room for; those beyond are counted as lost.
const CAPACITY: usize = 1 << 15;

/// The bytes of the largest message of one segment.
pub const fn one_segment(mtu: usize) -> usize {
    mtu.saturating_sub(HEADERS)
}

/// A known delay behind a gate, in both copies of the code.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The gate.
    pub gate: Gate,
    /// The delay.
    pub wait: Wait,
}

/// Two ends whose round trips run with gates or without.
pub struct Traced {
    ends: Ends,
    passages: Passages<Ordered>,
    clock: Clock,
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
            warmup: spec.warmup,
            fault: None,
            _pinned: pinned,
        })
    }

    /// The clock of gates and application.
    pub const fn clock(&self) -> &Clock {
        &self.clock
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
            warmup: self.warmup,
            batches,
        };
        match (gates, &self.fault) {
            (None, None) => timed.run(&mut Ungated, lap),
            (Some(_), None) => timed.run(&mut self.passages, lap),
            (None, Some(fault)) => timed.run(&mut Faulty::new(&mut Ungated, fault), lap),
            (Some(_), Some(fault)) => timed.run(&mut Faulty::new(&mut self.passages, fault), lap),
        }?;
        Ok(self.passages.trace.recorded())
    }
}

/// A slice that is to be timed.
struct Timed<'a> {
    ends: &'a mut Ends,
    clock: Clock,
    warmup: u32,
    batches: u64,
}

impl Timed<'_> {
    #[inline(never)]
    fn run<G: Gates + Forget>(
        &mut self,
        gates: &mut G,
        mut lap: impl FnMut(f64),
    ) -> Result<(), Error> {
        self.ends.hosts.catch_up();
        for _ in 0..self.warmup {
            self.ends.round_trip(gates)?;
        }
        gates.forget();
        let mut last = self.clock.now();
        for _ in 0..self.batches {
            for _ in 0..BATCH {
                self.ends.round_trip(gates)?;
            }
            let now = self.clock.now();
            lap(self.clock.ns_between(last, now) / BATCH as f64);
            last = now;
        }
        Ok(())
    }
}

/// Gates that can forget what the warm-up left.
pub(super) trait Forget {
    fn forget(&mut self);
}

impl Forget for Ungated {
    fn forget(&mut self) {}
}

/// The passages of messages of one segment, whose times are read as `S` says.
pub(super) struct Passages<S> {
    trace: Trace<S>,
    clock: Clock,
    client: Pending,
    server: Pending,
}

/// Passages of one end that belong to no message yet.
#[derive(Default)]
struct Pending {
    /// The message that joined the device queue last: the driver takes bursts, and does not say of which messages.
    queued: PacketId,
    /// When the link was asked last: which message comes of it is seen behind it.
    asked: Ticks,
    /// The message that was read last.
    read: Option<PacketId>,
}

impl<S: Stamp> Passages<S> {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            trace: Trace::new(clock, GateSet::EMPTY, CAPACITY),
            clock,
            client: Pending::default(),
            server: Pending::default(),
        }
    }

    /// Forgets everything, and records these gates from now on.
    pub(super) fn start(&mut self, active: GateSet) {
        self.trace.set_active(active);
        self.forget();
    }

    #[inline(always)]
    fn end(&mut self, side: Side) -> At<'_, S> {
        At {
            trace: &mut self.trace,
            clock: self.clock,
            pending: match side {
                Side::A => &mut self.client,
                Side::B => &mut self.server,
            },
        }
    }
}

impl<S: Stamp> Forget for Passages<S> {
    fn forget(&mut self) {
        self.trace.clear();
        self.client = Pending::default();
        self.server = Pending::default();
    }
}

impl<S: Stamp> Gates for Passages<S> {
    type Recorder<'a>
        = At<'a, S>
    where
        S: 'a;

    const FREQUENT: bool = true;

    #[inline(always)]
    fn at(&mut self, side: Side) -> At<'_, S> {
        self.end(side)
    }

    #[inline(always)]
    fn returned(&mut self, side: Side) {
        let end = self.end(side);
        if let Some(packet) = end.pending.read.take() {
            end.trace.pass(Gate::SocketInEnd, packet);
        }
    }
}

/// The recorder of one end.
pub(super) struct At<'a, S> {
    trace: &'a mut Trace<S>,
    clock: Clock,
    pending: &'a mut Pending,
}

impl<S: Stamp> Recorder for At<'_, S> {
    const ON: bool = true;
    type Lent<'b>
        = &'b mut Self
    where
        Self: 'b;

    #[inline(always)]
    fn lend(&mut self) -> &mut Self {
        self
    }

    #[inline(always)]
    fn pass(&mut self, gate: Gate, packet: PacketId) {
        match gate {
            Gate::DeviceQueueIn => {
                self.pending.queued = packet;
                self.trace.pass(gate, packet);
            }
            Gate::DriverOutBegin | Gate::DriverOutEnd => self.trace.pass(gate, self.pending.queued),
            Gate::DriverInBegin => {
                if self.trace.active().contains(gate) {
                    self.pending.asked = S::stamp(&self.clock);
                }
            }
            Gate::IpInBegin => {
                let asked = self.pending.asked;
                self.trace.pass_at(Gate::DriverInBegin, packet, asked);
                self.trace.pass(gate, packet);
            }
            // The reader's buffer is posted: what is queued is read, and where the call returns is seen from outside.
            Gate::SocketQueued => {
                self.trace.pass(gate, packet);
                self.pending.read = Some(packet);
            }
            Gate::SocketInBegin => self.pending.read = Some(packet),
            Gate::SocketInEnd => {}
            _ => self.trace.pass(gate, packet),
        }
    }
}

/// Gates with a delay behind one of them.
pub(super) struct Faulty<'a, G> {
    pub(super) gates: &'a mut G,
    fault: &'a Fault,
}

impl<'a, G> Faulty<'a, G> {
    pub(super) fn new(gates: &'a mut G, fault: &'a Fault) -> Self {
        Self { gates, fault }
    }
}

impl<G: Gates> Gates for Faulty<'_, G> {
    type Recorder<'a>
        = Delay<'a, G::Recorder<'a>>
    where
        Self: 'a;

    const FREQUENT: bool = G::FREQUENT;

    #[inline(always)]
    fn at(&mut self, side: Side) -> Self::Recorder<'_> {
        Delay::behind(self.fault.gate, &self.fault.wait, self.gates.at(side))
    }

    #[inline(always)]
    fn returned(&mut self, side: Side) {
        self.gates.returned(side);
        if self.fault.gate == Gate::SocketInEnd {
            self.fault.wait.wait();
        }
    }
}

impl<G: Forget> Forget for Faulty<'_, G> {
    fn forget(&mut self) {
        self.gates.forget();
    }
}

#[cfg(test)]
mod tests {
    use tollgate_gate::{JoinPlan, join};

    use super::*;
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
