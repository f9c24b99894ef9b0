//! Stamps that the ends of a kernel session take themselves, just before `send()` is called and just after it and `recv()` return.
//!
//! The kernel's own hooks at these places (sys_enter, sys_exit) put every system call of every thread on its slow path while they
//! are attached, which lengthens what is measured by more than any other gate and is seen by no twin. Reading the clock in the
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

/// A boundary that an end has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// CLOCK_MONOTONIC in nanoseconds.
    pub ktime: u64,
    /// The boundary, one of [`STAMPED`].
    pub gate: Gate,
    /// The thread that passed.
    pub thread: u32,
    /// Taken right behind another one of the same passage, to measure what a stamp costs.
    pub twin: bool,
}

/// What is wanted of both ends of a session, and what they have stamped.
#[derive(Debug, Default)]
pub struct Stamps {
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    wanted: Wanted,
    taken: Vec<Stamp>,
}

/// Which boundaries are stamped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Of these only what is in [`STAMPED`] counts.
    pub gates: GateSet,
    /// Every passage is stamped twice.
    pub twins: bool,
}

impl Stamps {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Whoever panicked left whole values.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what both ends stamp from the next slice on.
    pub fn want(&self, wanted: Wanted) {
        self.shared().wanted = wanted;
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
    wanted: Wanted,
    own: Vec<Stamp>,
}

impl Stamper {
    /// For the end on the calling thread.
    pub(crate) fn new() -> Self {
        Self {
            thread: rustix::thread::gettid().as_raw_nonzero().get() as u32,
            wanted: Wanted::default(),
            own: Vec::new(),
        }
    }

    /// Begins a slice of so many messages.
    pub(crate) fn begin(&mut self, stamps: &Stamps, messages: u64) {
        self.wanted = stamps.shared().wanted;
        let each = STAMPED
            .iter()
            .filter(|&gate| self.wanted.gates.contains(gate))
            .count()
            * (1 + usize::from(self.wanted.twins));
        // So that memory is not asked for in the middle of a slice.
        self.own
            .reserve(each.saturating_mul(usize::try_from(messages).unwrap_or(0)));
    }

    /// Passes a boundary now.
    #[inline]
    pub(crate) fn pass(&mut self, gate: Gate) {
        if self.wanted.gates.contains(gate) {
            self.note(gate);
        }
    }

    #[inline(never)]
    fn note(&mut self, gate: Gate) {
        for twin in [false, true] {
            let now = clock_gettime(ClockId::Monotonic);
            self.own.push(Stamp {
                ktime: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
                gate,
                thread: self.thread,
                twin,
            });
            if !self.wanted.twins {
                break;
            }
        }
    }

    /// Ends a slice and gives away what was stamped.
    pub(crate) fn end(&mut self, stamps: &Stamps) {
        if !self.own.is_empty() {
            stamps.shared().taken.append(&mut self.own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(wanted: Wanted) -> Vec<Stamp> {
        let stamps = Stamps::default();
        stamps.want(wanted);
        let mut stamper = Stamper::new();
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
        assert_eq!(passed(Wanted::default()), []);
        let gates = GateSet::of(&[Gate::SocketOutBegin]);
        let seen = passed(Wanted {
            gates,
            twins: false,
        });
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].gate, seen[0].twin), (Gate::SocketOutBegin, false));
    }

    #[test]
    fn a_twin_comes_right_behind_its_stamp() {
        let seen = passed(Wanted {
            gates: STAMPED,
            twins: true,
        });
        assert_eq!(seen.len(), 2 * STAMPED.iter().count());
        for pair in seen.chunks(2) {
            assert_eq!((pair[0].gate, pair[0].twin), (pair[1].gate, false));
            assert!(pair[1].twin && pair[0].ktime <= pair[1].ktime);
        }
    }
}
