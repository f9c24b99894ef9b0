//! The recorder of a round trip in one thread: gives the gates of bursts to packets, so that the spans of a message follow
//! each other without overlap.
//!
//! One thread does everything in turn, so the time of a message of several segments can be divided among the spans, each
//! moment counted once:
//! - What happens to each segment by itself (TCP, IP, demux) counts for each.
//! - What happens once for the whole message counts once: the copy from the user (first segment), the time in the device queue
//!   from the moment at which the last segment joined it, the link, and the return to the reader (last segment).
//! - The stack asks the link before it knows what comes: the moment is kept and given to the first segment of what came as
//!   the beginning of its driver's time, or to the last as the end of its time in the link.
//! - A posted reader takes the payload as it arrives: its time begins where the wait in the socket queue would, and ends
//!   where the call returns to the application.
//!
//! That works because a slice carries the two gates of one span only; which of two readings is meant follows from the
//! other gate.

use tollgate_gate::record::Stamp;
use tollgate_gate::{Clock, Gate, GateSet, PacketId, Recorded, Recorder, Ticks, Trace};
use tollgate_link::Side;

use super::hosts::Gates;

/// The gates of both ends.
pub(super) struct Tracing<S> {
    trace: Trace<S>,
    clock: Clock,
    near: Pending,
    far: Pending,
}

/// What one end has passed and not yet given to a packet.
#[derive(Default)]
struct Pending {
    /// A send whose first segment has not come to TCP yet.
    sending: bool,
    /// The last packet in the device queue, and when it joined.
    queued: Option<(PacketId, Ticks)>,
    /// When the link was asked last.
    asked: Ticks,
    /// The last packet that came of it.
    arrived: Option<PacketId>,
    /// The last packet whose payload reached the reader, and when.
    read: Option<(PacketId, Ticks)>,
}

impl<S: Stamp> Tracing<S> {
    /// A recorder with room for `capacity` events.
    pub(super) fn new(clock: Clock, capacity: usize) -> Self {
        Self {
            trace: Trace::new(clock, GateSet::EMPTY, capacity),
            clock,
            near: Pending::default(),
            far: Pending::default(),
        }
    }

    /// Forgets everything and records `active` from now on.
    pub(super) fn start(&mut self, active: GateSet) {
        self.trace.clear();
        self.trace.set_active(active);
        self.near = Pending::default();
        self.far = Pending::default();
    }

    /// Ends the slice and gives what was recorded.
    pub(super) fn stop(&mut self) -> Recorded<'_> {
        for pending in [&mut self.near, &mut self.far] {
            give_arrival(&mut self.trace, pending);
        }
        self.trace.recorded()
    }

    #[inline(always)]
    fn side(&mut self, side: Side) -> At<'_, S> {
        At {
            trace: &mut self.trace,
            clock: self.clock,
            pending: match side {
                Side::A => &mut self.near,
                Side::B => &mut self.far,
            },
        }
    }
}

impl<S: Stamp> Gates for Tracing<S> {
    type Recorder<'a>
        = At<'a, S>
    where
        S: 'a;

    const FREQUENT: bool = false;

    #[inline(always)]
    fn at(&mut self, side: Side) -> At<'_, S> {
        self.side(side)
    }

    #[inline(always)]
    fn returned(&mut self, side: Side) {
        self.side(side).returned();
    }
}

/// The end of the way through the link of the last packet that arrived.
#[inline(always)]
fn give_arrival<S>(trace: &mut Trace<S>, pending: &mut Pending) {
    if trace.active().contains(Gate::DriverOutEnd)
        && let Some(packet) = pending.arrived.take()
    {
        trace.pass_at(Gate::DriverInBegin, packet, pending.asked);
    }
}

/// The recorder of one end.
pub(super) struct At<'a, S> {
    trace: &'a mut Trace<S>,
    clock: Clock,
    pending: &'a mut Pending,
}

impl<S: Stamp> At<'_, S> {
    #[inline(always)]
    fn active(&self, gate: Gate) -> bool {
        self.trace.active().contains(gate)
    }

    /// The packet passes now.
    #[inline(always)]
    fn now(&mut self, gate: Gate, packet: PacketId) {
        self.trace.pass(gate, packet);
    }

    /// Takes the time when it will be asked for.
    #[inline(always)]
    fn stamp(&self, wanted: bool) -> Ticks {
        if wanted {
            S::stamp(&self.clock)
        } else {
            Ticks(0)
        }
    }

    #[inline(always)]
    fn returned(&mut self) {
        if let Some((packet, at)) = self.pending.read.take() {
            self.now(Gate::SocketInEnd, packet);
            if self.active(Gate::SocketInEnd) {
                self.trace.pass_at(Gate::SocketInBegin, packet, at);
            }
        }
    }
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
            Gate::SocketOutBegin => {
                self.pending.sending = true;
                self.now(gate, packet);
            }
            Gate::TcpOutBegin => {
                let first = std::mem::take(&mut self.pending.sending);
                if first || !self.active(Gate::SocketOutBegin) {
                    self.now(gate, packet);
                }
            }
            Gate::DeviceQueueIn => {
                let held = self.active(Gate::DriverOutBegin);
                self.pending.queued = Some((packet, self.stamp(held && self.active(gate))));
                if !held {
                    self.now(gate, packet);
                }
            }
            Gate::DriverOutBegin => {
                if let Some((packet, at)) = self.pending.queued {
                    self.now(gate, packet);
                    if self.active(gate) {
                        self.trace.pass_at(Gate::DeviceQueueIn, packet, at);
                    }
                }
            }
            Gate::DriverOutEnd => {
                if let Some((packet, _)) = self.pending.queued.take() {
                    self.now(gate, packet);
                }
            }
            Gate::DriverInBegin => {
                give_arrival(self.trace, self.pending);
                self.pending.asked = self.stamp(self.active(gate));
                self.pending.arrived = None;
            }
            Gate::IpInBegin => {
                let first = self.pending.arrived.replace(packet).is_none();
                if first || !self.active(Gate::DriverInBegin) {
                    self.now(gate, packet);
                }
                if first && !self.active(Gate::DriverOutEnd) {
                    let asked = self.pending.asked;
                    self.trace.pass_at(Gate::DriverInBegin, packet, asked);
                }
            }
            Gate::SocketQueued => {
                self.now(gate, packet);
                let held = self.active(Gate::SocketInEnd);
                self.pending.read = Some((packet, self.stamp(held)));
                if !held {
                    self.now(Gate::SocketInBegin, packet);
                }
            }
            // What did not fit the posted buffer is read from the queue.
            Gate::SocketInBegin => {
                let held = self.active(Gate::SocketInEnd);
                self.pending.read = Some((packet, self.stamp(held)));
                if !held {
                    self.now(gate, packet);
                }
            }
            // Where the call returns is seen from outside.
            Gate::SocketInEnd => {}
            _ => self.now(gate, packet),
        }
    }
}
