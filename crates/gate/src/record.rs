//! Recorders that keep what they see.
//!
//! [`Trace`] writes the passages into a buffer that was allocated and touched beforehand; while it records it neither
//! allocates nor calls the system. What does not fit is counted, never dropped in silence. [`Twin`] measures what a
//! passage costs where it stands.

use std::hint::black_box;
use std::marker::PhantomData;

use crate::clock::Clock;
use crate::id::Gate;
use crate::join::Recorded;
use crate::recorder::{PacketId, Recorder};
use crate::set::GateSet;
use crate::ticks::{TickScale, Ticks};

/// A packet passed a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub ticks: Ticks,
    /// Which packet.
    pub packet: PacketId,
    /// Where.
    pub gate: Gate,
}

/// How a recorder reads the clock; chosen at compile time.
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

    /// Changes the gates that are recorded, for the next slice of a rotation.
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

    /// What was recorded, as [`join`](crate::join()) takes it.
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

/// Passes every gate twice, so that the time between the two is what one passage costs in that place.
///
/// Give a slice of the workload this recorder with one gate active, then ask [`twin_cost`] for the cost.
#[derive(Clone, Debug)]
pub struct Twin<R>(pub R);

impl<R: Recorder> Recorder for Twin<R> {
    const ON: bool = R::ON;
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
        self.0.pass(gate, packet);
        self.0.pass(gate, packet);
    }
}

/// What one passage of a gate costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeCost {
    /// The median, in nanoseconds; a whole number of the clock's steps.
    pub median_ns: f64,
    /// The mean of all but the longest hundredth, in nanoseconds. Where a passage costs but a few steps of the clock,
    /// this is the truer figure to subtract from a mean.
    pub trimmed_mean_ns: f64,
    /// The mean of the middle half, in nanoseconds: what a passage costs in a packet's usual course, not bound to the clock's
    /// steps.
    pub middle_mean_ns: f64,
    /// The number of twin passages behind all of them.
    pub n: usize,
}

impl ProbeCost {
    fn of(mut costs: Vec<f64>) -> Option<Self> {
        costs.sort_by(f64::total_cmp);
        let n = costs.len();
        let median_ns = *costs.get(n / 2)?;
        let kept = &costs[..n - n / 100];
        let trimmed_mean_ns = kept.iter().sum::<f64>() / kept.len() as f64;
        let middle = &costs[n / 4..n - n / 4];
        let middle_mean_ns = middle.iter().sum::<f64>() / middle.len() as f64;
        Some(Self {
            median_ns,
            trimmed_mean_ns,
            middle_mean_ns,
            n,
        })
    }
}

/// The cost of a passage from the twin passages in `events`, as [`Twin`] records them; none when there is no twin.
///
/// Events are paired from the start: a twin is two events in a row of one packet at one gate.
pub fn twin_cost(events: &[Event], scale: TickScale) -> Option<ProbeCost> {
    let costs = events
        .chunks_exact(2)
        .filter(|pair| pair[0].gate == pair[1].gate && pair[0].packet == pair[1].packet)
        .map(|pair| scale.ns_between(pair[0].ticks, pair[1].ticks));
    ProbeCost::of(costs.collect())
}

/// What one passage costs with nothing around it, from `passages` twins; none when that is 0. In the place where a gate
/// stands a passage may cost more, because its code and its buffer have left the cache; measure that with [`Twin`].
pub fn probe_cost<S: Stamp>(clock: Clock, passages: u32) -> Option<ProbeCost> {
    let gate = Gate::SocketOutBegin;
    let mut twin = Twin(Trace::<S>::new(
        clock,
        GateSet::of(&[gate]),
        passages as usize * 2,
    ));
    for packet in 0..passages {
        twin.pass(black_box(gate), PacketId(packet));
    }
    twin_cost(twin.0.events(), clock.scale())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Off;
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
        let seen: Vec<_> = trace
            .events()
            .iter()
            .map(|event| (event.gate, event.packet.0))
            .collect();
        assert_eq!(seen, [(Gate::TcpOutBegin, 1), (Gate::SocketOutBegin, 2)]);
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

    #[test]
    fn a_twin_passes_twice_and_off_stays_off() {
        let mut twin = Twin(Trace::<Plain>::new(*CLOCK, GateSet::ALL, 4));
        twin.pass(Gate::DemuxBegin, PacketId(5));
        assert_eq!(twin.0.events().len(), 2);
        const { assert!(!Twin::<Off>::ON && Twin::<Trace>::ON) };
    }

    #[test]
    fn the_twins_median_is_taken_from_pairs_only() {
        let at = |ticks, packet, gate| Event {
            ticks: Ticks(ticks),
            packet: PacketId(packet),
            gate,
        };
        let gate = Gate::IpInBegin;
        let events = [
            at(100, 1, gate),
            at(120, 1, gate),
            at(200, 2, gate),
            at(230, 2, gate),
            at(300, 3, gate),
            at(900, 3, gate),
            at(1_000, 4, gate),
        ];
        assert_eq!(
            twin_cost(&events, TickScale::NANOSECONDS),
            Some(ProbeCost {
                median_ns: 30.0,
                trimmed_mean_ns: 650.0 / 3.0,
                middle_mean_ns: 650.0 / 3.0,
                n: 3
            })
        );
        assert_eq!(twin_cost(&events[..1], TickScale::NANOSECONDS), None);
        let strangers = [at(1, 1, gate), at(2, 2, gate)];
        assert_eq!(twin_cost(&strangers, TickScale::NANOSECONDS), None);
    }

    #[test]
    fn the_longest_hundredth_is_left_out_of_the_mean() {
        let mut costs = vec![10.0; 150];
        costs.extend([20.0; 50]);
        costs[3] = 1e6;
        costs[77] = 1e6;
        let cost = ProbeCost::of(costs).unwrap();
        assert_eq!((cost.median_ns, cost.n), (10.0, 200));
        assert_eq!(cost.trimmed_mean_ns, (148.0 * 10.0 + 50.0 * 20.0) / 198.0);
    }

    #[test]
    fn probe_cost_counts_its_passages() {
        assert_eq!(
            probe_cost::<Plain>(*CLOCK, 100).map(|cost| cost.n),
            Some(100)
        );
        assert_eq!(probe_cost::<Ordered>(*CLOCK, 0), None);
    }
}
