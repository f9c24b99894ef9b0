//! Recorders that keep what they see.
//!
//! [`Trace`] writes the passages into a buffer that was allocated and touched beforehand; while it records it neither
//! allocates nor calls the system. What does not fit is counted, never dropped in silence.

use std::marker::PhantomData;

use crate::clock::Clock;
use crate::id::Gate;
use crate::join::Recorded;
use crate::recorder::{PacketId, Recorder};
use crate::set::GateSet;
use crate::ticks::Ticks;

/// A packet passed a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub ticks: Ticks,
    /// The packet.
    pub packet: PacketId,
    /// The place.
    pub gate: Gate,
}

/// Reading of the clock by a recorder; chosen at compile time.
pub trait Stamp {
    /// The time now.
    fn stamp(clock: &Clock) -> Ticks;
}

/// [`Clock::now`]: cheap, and blurred by what the processor has in flight.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Stamp for Plain {
    #[inline(always)]
    fn stamp(clock: &Clock) -> Ticks {
        clock.now()
    }
}

/// [`Clock::now_ordered`]: sharp, and slows what it measures.
#[derive(Clone, Copy, Debug)]
pub struct Ordered;

impl Stamp for Ordered {
    #[inline(always)]
    fn stamp(clock: &Clock) -> Ticks {
        clock.now_ordered()
    }
}

/// Records the passages of the active gates.
#[derive(Clone, Debug)]
pub struct Trace<S = Plain> {
    clock: Clock,
    active: GateSet,
    events: Box<[Event]>,
    len: usize,
    lost: u64,
    stamp: PhantomData<S>,
}

impl<S> Trace<S> {
    /// A recorder with room for `capacity` events of the gates in `active`. All memory is allocated and written here.
    pub fn new(clock: Clock, active: GateSet, capacity: usize) -> Self {
        // Not zeros: an allocator gives zeroed pages without touching them, and the first write would then fault.
        let fill = Event {
            ticks: Ticks(u64::MAX),
            packet: PacketId(0),
            gate: Gate::SocketOutBegin,
        };
        Self {
            clock,
            active,
            events: vec![fill; capacity].into_boxed_slice(),
            len: 0,
            lost: 0,
            stamp: PhantomData,
        }
    }

    /// The gates that are recorded.
    pub fn active(&self) -> GateSet {
        self.active
    }

    /// Changes the gates that are recorded, for the next slice of a run.
    pub fn set_active(&mut self, active: GateSet) {
        self.active = active;
    }

    /// The events so far, in the order of recording.
    pub fn events(&self) -> &[Event] {
        &self.events[..self.len]
    }

    /// Events that found the buffer full.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Recorded events, in the form that [`join`](crate::join()) takes.
    pub fn recorded(&self) -> Recorded<'_> {
        Recorded {
            events: self.events(),
            lost: self.lost,
        }
    }

    /// Forgets the events and the losses; the memory stays.
    pub fn clear(&mut self) {
        self.len = 0;
        self.lost = 0;
    }

    /// `packet` passed `gate` at `ticks`: for a passage whose packet is known only later, like the moment at which the
    /// receiver asked the link for frames.
    #[inline]
    pub fn pass_at(&mut self, gate: Gate, packet: PacketId, ticks: Ticks) {
        if self.active.contains(gate) {
            self.store(Event {
                ticks,
                packet,
                gate,
            });
        }
    }

    #[inline(always)]
    fn store(&mut self, event: Event) {
        if let Some(slot) = self.events.get_mut(self.len) {
            *slot = event;
            self.len += 1;
        } else {
            self.lost += 1;
        }
    }
}

impl<S: Stamp> Recorder for Trace<S> {
    const ON: bool = true;
    type Lent<'a>
        = &'a mut Self
    where
        Self: 'a;

    #[inline(always)]
    fn lend(&mut self) -> &mut Self {
        self
    }

    #[inline(always)]
    fn pass(&mut self, gate: Gate, packet: PacketId) {
        if self.active.contains(gate) {
            let ticks = S::stamp(&self.clock);
            self.store(Event {
                ticks,
                packet,
                gate,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::calibrate);

    #[test]
    fn an_event_takes_sixteen_bytes() {
        assert_eq!(size_of::<Event>(), 16);
    }

    #[test]
    fn only_active_gates_are_recorded() {
        let mut trace: Trace = Trace::new(*CLOCK, GateSet::of(&[Gate::TcpOutBegin]), 8);
        trace.pass(Gate::SocketOutBegin, PacketId(1));
        trace.pass(Gate::TcpOutBegin, PacketId(1));
        trace.set_active(GateSet::of(&[Gate::SocketOutBegin]));
        trace.pass(Gate::TcpOutBegin, PacketId(2));
        trace.pass(Gate::SocketOutBegin, PacketId(2));
        let passed: Vec<_> = trace
            .events()
            .iter()
            .map(|event| (event.gate, event.packet.0))
            .collect();
        assert_eq!(passed, [(Gate::TcpOutBegin, 1), (Gate::SocketOutBegin, 2)]);
        assert_eq!(trace.lost(), 0);
    }

    #[test]
    fn a_full_buffer_counts_what_it_loses_and_keeps_what_it_has() {
        let mut trace: Trace = Trace::new(*CLOCK, GateSet::ALL, 3);
        for packet in 0..10 {
            trace.pass(Gate::IpInBegin, PacketId(packet));
        }
        let packets: Vec<u32> = trace.events().iter().map(|event| event.packet.0).collect();
        assert_eq!(packets, [0, 1, 2]);
        assert_eq!(trace.lost(), 7);
        assert_eq!(trace.recorded().lost, 7);
        trace.clear();
        assert_eq!((trace.events().len(), trace.lost()), (0, 0));
        trace.pass(Gate::IpInBegin, PacketId(9));
        assert_eq!(trace.events().len(), 1);
    }

    #[test]
    fn a_buffer_without_room_loses_everything() {
        let mut trace: Trace<Ordered> = Trace::new(*CLOCK, GateSet::ALL, 0);
        trace.pass(Gate::IpInBegin, PacketId(1));
        assert_eq!((trace.events().len(), trace.lost()), (0, 1));
    }

    #[test]
    fn a_stamp_taken_earlier_is_kept() {
        let mut trace: Trace = Trace::new(*CLOCK, GateSet::of(&[Gate::DriverInBegin]), 2);
        trace.pass_at(Gate::DriverInBegin, PacketId(4), Ticks(77));
        trace.pass_at(Gate::IpInBegin, PacketId(4), Ticks(78));
        assert_eq!(
            trace.events(),
            [Event {
                ticks: Ticks(77),
                packet: PacketId(4),
                gate: Gate::DriverInBegin
            }]
        );
    }
}
