//! Deadlines of a connection, each set together with the connection's entry in the timing wheel.
//!
//! The wheel's entry must fire no later than the earliest deadline. A deadline that was set and not armed is a timer that
//! fires late or never, so only this module can set one, and it does both. It must never clear the wheel's entry: that one
//! is lazy (see [`crate::timer`]) and may fire with nothing due.

use crate::stack::Active;
use crate::time::Tick;
use crate::timer::Wheel;
use core::hint::cold_path;
use tollgate_gate::Recorder;

/// Segments with data that are acknowledged at once, together, where acknowledgments are delayed (RFC 9293, 3.8.6.3).
pub(crate) const DELAYED_UP_TO: u8 = 2;

/// A tick at which something is due, or nothing. The lowest bit marks that it is set, so it is exact to two ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub(crate) struct Deadline(u32);

/// The deadlines of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A retransmission, or a probe of a closed window.
    Retransmission,
    /// A delayed acknowledgment.
    Acknowledgment,
    /// A keepalive probe.
    KeepAlive,
    /// The end of an attempt: user timeout, connect timeout, FIN-WAIT-2.
    GiveUp,
}

/// Moves the entry of timer `index`, which fires at `armed`, to `at` when it would fire later.
#[inline(always)]
pub(crate) fn arm(at: Tick, armed: &mut Tick, wheel: &mut Wheel, index: usize) {
    if at.before(*armed) {
        cold_path();
        *armed = at;
        wheel.insert(index as u32, at);
    }
}

impl Deadline {
    /// Nothing is due.
    pub(crate) const NONE: Self = Self(0);

    const fn at(tick: Tick) -> Self {
        Self(tick.0 | 1)
    }

    /// Sets the deadline, and sees to it that the entry of timer `index` fires in time ([`arm`]).
    #[inline(always)]
    pub(crate) fn set(&mut self, at: Tick, armed: &mut Tick, wheel: &mut Wheel, index: usize) {
        *self = Self::at(at);
        arm(at, armed, wheel, index);
    }

    #[inline(always)]
    pub(crate) const fn is_set(self) -> bool {
        self.0 != 0
    }

    #[inline(always)]
    pub(crate) const fn tick(self) -> Option<Tick> {
        if self.0 == 0 {
            None
        } else {
            Some(Tick(self.0))
        }
    }

    #[inline(always)]
    pub(crate) const fn reached(self, now: Tick) -> bool {
        self.0 != 0 && Tick(self.0).reached(now)
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Sets one of a connection's deadlines `ticks` from now, and arms its timer.
    #[inline(always)]
    pub(crate) fn set_due(&mut self, index: usize, due: Due, ticks: u32) {
        let at = self.now.tick().after(ticks);
        let stack = &mut *self.stack;
        let tcb = &mut stack.tcbs[index];
        let deadline = match due {
            Due::Retransmission => &mut tcb.rtx_deadline,
            Due::Acknowledgment => &mut tcb.ack_deadline,
            Due::KeepAlive => &mut tcb.keep_deadline,
            Due::GiveUp => &mut tcb.user_deadline,
        };
        deadline.set(at, &mut tcb.armed, &mut stack.wheel, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_know_when_they_are_not_set() {
        assert!(!Deadline::NONE.is_set());
        assert!(Deadline::at(Tick(0)).is_set());
        assert!(Deadline::at(Tick(8)).reached(Tick(9)));
        assert!(!Deadline::at(Tick(8)).reached(Tick(8)));
        assert!(!Deadline::NONE.reached(Tick(u32::MAX)));
    }

    #[test]
    fn deadline_that_comes_earlier_moves_the_entry() {
        let mut wheel = Wheel::new(1, Tick(0));
        wheel.ensure(0);
        let (mut deadline, mut armed) = (Deadline::NONE, Tick(1000));
        wheel.insert(0, armed);
        deadline.set(Tick(2000), &mut armed, &mut wheel, 0);
        assert_eq!(armed, Tick(1000));
        deadline.set(Tick(10), &mut armed, &mut wheel, 0);
        assert_eq!(armed, Tick(10));
        wheel.advance(Tick(11));
        assert_eq!(wheel.pop_expired(), Some(0));
        assert!(deadline.reached(Tick(11)));
    }
}
