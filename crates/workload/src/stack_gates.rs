//! The gates of our stack under an application of one or both ends: none, those of messages of one segment, and a known delay behind
//! one of them.
//!
//! Gates are chosen at compile time, so that code without gates is the code that runs where nobody measures. A
//! [`Fault`] is compiled into copies of their own, so that it costs nothing where there is none.
//!
//! It must never choose gates, and never judge a time.

use tollgate_gate::delay::{Delay, Wait};
use tollgate_gate::record::{Stamp, Trace};
use tollgate_gate::{Clock, Gate, GateSet, Off, PacketId, Recorded, Recorder, Ticks};
use tollgate_link::Side;

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
/// Events that a slice has room for; those beyond are counted as lost.
const CAPACITY: usize = 1 << 15;

/// The gates that a round trip carries, chosen at compile time.
pub(crate) trait Gates {
    /// Tells whether nearly all messages run with these gates, so that their code is worth a copy for each direction. Code that
    /// runs now and then has left the caches by its next turn; one copy for both directions is fetched once.
    const FREQUENT: bool;

    /// The recorder of one end's stack.
    type Recorder<'a>: Recorder
    where
        Self: 'a;

    /// The recorder of one end, for one call or several in a row.
    fn at(&mut self, side: Side) -> Self::Recorder<'_>;

    /// A call that reads has returned to the application of this end with what it has read.
    fn returned(&mut self, side: Side);
}

/// No gates: the code without any.
pub(crate) struct Ungated;

impl Gates for Ungated {
    const FREQUENT: bool = true;

    type Recorder<'a> = Off;

    #[inline(always)]
    fn at(&mut self, _side: Side) -> Off {
        Off
    }

    #[inline(always)]
    fn returned(&mut self, _side: Side) {}
}

/// A known delay behind a gate, in both copies of the code.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The gate.
    pub gate: Gate,
    /// The delay.
    pub wait: Wait,
}

/// Gates that can forget what the warm-up left.
pub(crate) trait Forget {
    fn forget(&mut self);
}

impl Forget for Ungated {
    fn forget(&mut self) {}
}

/// The passages of messages of one segment, whose times are read as `S` says.
pub(crate) struct Passages<S> {
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
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            trace: Trace::new(clock, GateSet::EMPTY, CAPACITY),
            clock,
            client: Pending::default(),
            server: Pending::default(),
        }
    }

    /// The events so far.
    pub(crate) fn recorded(&self) -> Recorded<'_> {
        self.trace.recorded()
    }

    /// Forgets everything, and records these gates from now on.
    pub(crate) fn start(&mut self, active: GateSet) {
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
pub(crate) struct At<'a, S> {
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

/// Gates of datagrams, which have no number of their own: each has that of its turn. Ends that take turns in one thread have one
/// datagram on its way at a time.
pub(crate) struct Numbered<'a, G> {
    gates: &'a mut G,
    turn: PacketId,
}

impl<'a, G> Numbered<'a, G> {
    pub(crate) fn new(gates: &'a mut G) -> Self {
        Self {
            gates,
            turn: PacketId(0),
        }
    }
}

impl<G: Gates> Gates for Numbered<'_, G> {
    type Recorder<'a>
        = InTurn<G::Recorder<'a>>
    where
        Self: 'a;

    const FREQUENT: bool = G::FREQUENT;

    #[inline(always)]
    fn at(&mut self, side: Side) -> Self::Recorder<'_> {
        InTurn {
            inner: self.gates.at(side),
            turn: self.turn,
        }
    }

    #[inline(always)]
    fn returned(&mut self, side: Side) {
        self.gates.returned(side);
        self.turn.0 = self.turn.0.wrapping_add(1);
    }
}

impl<G: Forget> Forget for Numbered<'_, G> {
    fn forget(&mut self) {
        self.gates.forget();
    }
}

/// A recorder of what belongs to one turn.
pub(crate) struct InTurn<R> {
    inner: R,
    turn: PacketId,
}

impl<R: Recorder> Recorder for InTurn<R> {
    const ON: bool = R::ON;
    type Lent<'b>
        = &'b mut Self
    where
        Self: 'b;

    #[inline(always)]
    fn lend(&mut self) -> &mut Self {
        self
    }

    #[inline(always)]
    fn pass(&mut self, gate: Gate, _unnumbered: PacketId) {
        self.inner.pass(gate, self.turn);
    }
}

/// Gates with a delay behind one of them.
pub(crate) struct Faulty<'a, G> {
    pub(crate) gates: &'a mut G,
    fault: &'a Fault,
}

impl<'a, G> Faulty<'a, G> {
    pub(crate) fn new(gates: &'a mut G, fault: &'a Fault) -> Self {
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
