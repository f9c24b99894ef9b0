//! Stamps that the ends of a kernel session take themselves, just before `send()` is called and just after it and `recv()` return.
//!
//! The kernel's own hooks at these places (sys_enter, sys_exit) put every system call of every thread on its slow path while they
//! are attached, which lengthens what is measured by more than any other gate. Reading the clock in the
//! thread that makes the call costs that thread one read, and nobody else anything.
//!
//! Times are CLOCK_MONOTONIC, the clock of the kernel's gates. An end writes to memory of its own and gives it away after a slice;
//! without a wish each boundary costs one branch. This module never decides which boundaries are wanted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::time::{ClockId, clock_gettime};
use tollgate_gate::{Gate, GateSet};

/// The boundaries that ends can stamp.
pub const STAMPED: GateSet =
    GateSet::of(&[Gate::SocketOutBegin, Gate::SocketInEnd, Gate::SocketOutEnd]);

/// The boundaries that the kernel stamps for a socket, by SO_TIMESTAMPING. That a message was acknowledged says that the answer to
/// it, which carries the acknowledgment, is about to be queued.
pub const SOCKET_STAMPED: GateSet = GateSet::of(&[
    Gate::DeviceQueueIn,
    Gate::DriverOutBegin,
    Gate::DriverOutEnd,
    Gate::SocketQueued,
]);

/// A boundary that an end has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// CLOCK_MONOTONIC in nanoseconds.
    pub ktime: u64,
    /// The boundary, one of [`STAMPED`] or of [`SOCKET_STAMPED`].
    pub gate: Gate,
    /// The thread that passed.
    pub thread: u32,
    /// With a boundary of [`SOCKET_STAMPED`], which of the slice's messages in that direction passed, from 0.
    pub message: u32,
}

/// Gates wanted of both ends of a session, and their stamps.
#[derive(Debug, Default)]
pub struct Stamps {
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    wanted: GateSet,
    taken: Vec<Stamp>,
    timed_from: u64,
}

impl Stamps {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Whoever panicked left whole values.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what both ends stamp from the next slice on; of these only what is in [`STAMPED`] or [`SOCKET_STAMPED`] counts.
    pub fn want(&self, wanted: GateSet) {
        self.shared().wanted = wanted;
    }

    /// When the last slice's warm-up was over, in nanoseconds of CLOCK_MONOTONIC: what gates saw before belongs to no round trip
    /// that was timed. 0 before the first slice.
    pub fn timed_from(&self) -> u64 {
        self.shared().timed_from
    }

    /// Takes what was stamped since the last time, each end's in its own order.
    pub fn take(&self) -> Vec<Stamp> {
        std::mem::take(&mut self.shared().taken)
    }
}

/// One end's pen.
#[derive(Debug)]
pub(crate) struct Stamper {
    thread: u32,
    wanted: GateSet,
    own: Vec<Stamp>,
    of_socket: GateSet,
    /// The offset of CLOCK_MONOTONIC behind CLOCK_REALTIME, in ns.
    behind: u64,
    /// Messages that were received in this slice.
    received: u32,
    /// This end sends after it has received.
    answers: bool,
}

impl Stamper {
    /// For the end on the calling thread, which asks, or answers.
    pub(crate) fn new(answers: bool) -> Self {
        Self {
            thread: rustix::thread::gettid().as_raw_nonzero().get() as u32,
            wanted: GateSet::EMPTY,
            own: Vec::new(),
            of_socket: GateSet::EMPTY,
            behind: 0,
            received: 0,
            answers,
        }
    }

    /// Begins a slice of so many messages.
    pub(crate) fn begin(&mut self, stamps: &Stamps, messages: u64) {
        self.wanted = stamps.shared().wanted;
        self.of_socket = SOCKET_STAMPED
            .iter()
            .filter(|&gate| self.wanted.contains(gate))
            .collect();
        self.received = 0;
        if !self.of_socket.is_empty() {
            self.behind = monotonic_behind_real();
        }
        let each = STAMPED
            .union(SOCKET_STAMPED)
            .iter()
            .filter(|&gate| self.wanted.contains(gate))
            .count();
        // So that memory is not asked for in the middle of a slice.
        self.own
            .reserve(each.saturating_mul(usize::try_from(messages).unwrap_or(0)));
    }

    /// The warm-up is over, and nothing is under way.
    pub(crate) fn timed(&self, stamps: &Stamps) {
        stamps.shared().timed_from = clock_ns(ClockId::Monotonic);
    }

    /// Passes a boundary now.
    #[inline]
    pub(crate) fn pass(&mut self, gate: Gate) {
        if self.wanted.contains(gate) {
            self.note(gate);
        }
    }

    #[inline(never)]
    fn note(&mut self, gate: Gate) {
        self.own.push(Stamp {
            ktime: clock_ns(ClockId::Monotonic),
            gate,
            thread: self.thread,
            message: 0,
        });
    }

    /// The boundaries that the kernel is to stamp for the socket.
    pub(crate) const fn of_socket(&self) -> GateSet {
        self.of_socket
    }

    /// The kernel has stamped what was sent last, at this CLOCK_REALTIME.
    pub(crate) fn sent(&mut self, gate: Gate, real: u64) {
        self.note_socket(
            gate,
            real,
            self.received - u32::from(self.answers && self.received > 0),
        );
    }

    /// A message has come in at this CLOCK_REALTIME. What was sent before has to be told before [`Self::next_message`].
    pub(crate) fn came(&mut self, real: u64) {
        self.note_socket(Gate::DriverOutEnd, real, self.received);
    }

    /// Assigns all further events to the next message.
    pub(crate) fn next_message(&mut self) {
        self.received += 1;
    }

    fn note_socket(&mut self, gate: Gate, real: u64, message: u32) {
        if self.wanted.contains(gate) {
            self.own.push(Stamp {
                ktime: real.saturating_sub(self.behind),
                gate,
                thread: self.thread,
                message,
            });
        }
    }

    /// The kernel says that the other end has acknowledged what was sent before, at this CLOCK_REALTIME: with the message that has
    /// come in just now. Told before [`Self::next_message`].
    pub(crate) fn acknowledged(&mut self, real: u64) {
        self.note_socket(Gate::SocketQueued, real, self.received);
    }

    /// Ends a slice and gives away what was stamped.
    pub(crate) fn end(&mut self, stamps: &Stamps) {
        let mut shared = stamps.shared();
        shared.taken.append(&mut self.own);
    }
}

pub(crate) fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Offset of CLOCK_MONOTONIC behind CLOCK_REALTIME, in ns, from the shortest of some readings of one between two of the other. Both
/// run at one rate, so it changes only when somebody sets the clock.
fn monotonic_behind_real() -> u64 {
    (0..16)
        .map(|_| {
            let before = clock_ns(ClockId::Monotonic);
            let real = clock_ns(ClockId::Realtime);
            let after = clock_ns(ClockId::Monotonic);
            (after - before, real.saturating_sub(before.midpoint(after)))
        })
        .min()
        .map_or(0, |(_, behind)| behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(wanted: GateSet) -> Vec<Stamp> {
        let stamps = Stamps::default();
        stamps.want(wanted);
        let mut stamper = Stamper::new(false);
        stamper.begin(&stamps, 1);
        for gate in STAMPED.iter() {
            stamper.pass(gate);
        }
        assert_eq!(stamps.take(), [], "nothing is given away in a slice");
        stamper.end(&stamps);
        stamps.take()
    }

    #[test]
    fn only_what_is_wanted_is_stamped() {
        assert_eq!(passed(GateSet::EMPTY), []);
        let seen = passed(GateSet::of(&[Gate::SocketOutBegin]));
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].gate, Gate::SocketOutBegin);
    }

    #[test]
    fn the_end_of_the_warm_up_lies_between_the_stamps_around_it() {
        let stamps = Stamps::default();
        assert_eq!(stamps.timed_from(), 0);
        stamps.want(STAMPED);
        let mut stamper = Stamper::new(false);
        stamper.begin(&stamps, 1);
        stamper.pass(Gate::SocketOutBegin);
        stamper.timed(&stamps);
        stamper.pass(Gate::SocketInEnd);
        stamper.end(&stamps);
        let seen: Vec<u64> = stamps.take().iter().map(|stamp| stamp.ktime).collect();
        assert!(seen[0] <= stamps.timed_from() && stamps.timed_from() <= seen[1]);
    }

    #[test]
    fn an_acknowledgment_is_a_passage_of_the_message_that_carries_it() {
        for answers in [false, true] {
            let stamps = Stamps::default();
            stamps.want(SOCKET_STAMPED);
            let mut stamper = Stamper::new(answers);
            stamper.begin(&stamps, 2);
            for _ in 0..2 {
                stamper.acknowledged(u64::MAX);
                stamper.next_message();
            }
            stamper.end(&stamps);
            let seen: Vec<(Gate, u32)> = stamps
                .take()
                .iter()
                .map(|stamp| (stamp.gate, stamp.message))
                .collect();
            assert_eq!(seen, [(Gate::SocketQueued, 0), (Gate::SocketQueued, 1)]);
        }
    }
}
