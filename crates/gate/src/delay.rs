//! A known delay at a gate, so that what shows spans can be tried with a span that is known to be longer.
//!
//! Owns the wait and its calibration. It must never record anything: the recorder that it wraps does that, before the wait.

use std::time::Duration;

use crate::clock::Clock;
use crate::id::Gate;
use crate::recorder::{PacketId, Recorder};

/// Waits in a row whose mean is one timing, at most.
const BATCH: u32 = 256;
/// The longest timing, in nanoseconds: the scheduler's slice is milliseconds, and one that is longer always holds a neighbour's.
const TIMING_NS: f64 = 100_000.0;
/// Timings in a round, of which the median counts.
const TIMINGS: usize = 7;
/// Rounds, of which the shortest counts.
const ROUNDS: usize = 5;
/// Time between two rounds: a neighbour on the same core can lengthen every wait for milliseconds.
const SPACING: Duration = Duration::from_millis(2);

/// A wait of a known length: ordered readings of the clock, one after the other, until that length has gone by. The processor
/// neither begins it early nor goes on beside it, and it is as long at any speed of the processor, as a number of instructions would
/// not be. Its length is the time between the first reading and the last: what they take themselves comes on top, some 20 ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    clock: Clock,
    ticks: i64,
    ns: f64,
}

impl Wait {
    /// A wait of so many nanoseconds, and of up to a reading of the clock more; two readings are the shortest that there is.
    /// Takes some tens of milliseconds.
    pub fn calibrate(clock: Clock, ns: f64) -> Self {
        let length = Duration::from_secs_f64(ns.max(0.0) / 1e9);
        let ticks = clock.scale().ticks_in(length);
        let wait = Self {
            clock,
            ticks: i64::try_from(ticks).unwrap_or(i64::MAX),
            ns: 0.0,
        };
        Self {
            ns: wait.measure(),
            ..wait
        }
    }

    /// Its length in nanoseconds, the mean in a row of waits.
    pub fn ns(&self) -> f64 {
        self.ns
    }

    /// Waits, and returns how long that took.
    #[inline(never)]
    pub fn wait(&self) -> f64 {
        let begin = self.clock.now_ordered();
        loop {
            let now = self.clock.now_ordered();
            if now.since(begin) >= self.ticks {
                return self.clock.ns_between(begin, now);
            }
        }
    }

    fn measure(&self) -> f64 {
        let batch = batch(self.wait());
        let timing = |_| (0..batch).map(|_| self.wait()).sum::<f64>() / f64::from(batch);
        let round = |number| {
            if number > 0 {
                std::thread::sleep(SPACING);
            }
            (0..TIMINGS).map(timing).collect()
        };
        shortest((0..ROUNDS).map(round))
    }
}

/// Waits of this length that make a timing.
fn batch(ns: f64) -> u32 {
    let fit = (TIMING_NS / ns.max(1.0)) as u32;
    fit.clamp(1, BATCH)
}

/// The median of the round that has the least: whatever else runs on the core can only lengthen a wait.
fn shortest(rounds: impl Iterator<Item = Vec<f64>>) -> f64 {
    let median = |mut timings: Vec<f64>| {
        timings.sort_by(f64::total_cmp);
        timings[timings.len() / 2]
    };
    rounds.map(median).fold(f64::INFINITY, f64::min)
}

/// A recorder that waits behind one gate, whether it records or not. Behind [`Gate::DriverInBegin`] it waits for what the driver
/// gives alone: a call that finds nothing holds up no message, and comes as often as the receiver sleeps.
#[derive(Clone, Debug)]
pub struct Delay<'w, R> {
    recorder: R,
    gate: Gate,
    wait: &'w Wait,
    /// The driver was asked, and has given nothing yet.
    asked: bool,
}

impl<'w, R> Delay<'w, R> {
    /// Waits behind `gate`.
    #[inline(always)]
    pub fn behind(gate: Gate, wait: &'w Wait, recorder: R) -> Self {
        Self {
            recorder,
            gate,
            wait,
            asked: false,
        }
    }

    /// Tells whether it waits before this gate is recorded, and whether behind.
    #[inline(always)]
    fn due(&mut self, gate: Gate) -> [bool; 2] {
        // The driver was asked, and gives something.
        let before = gate == Gate::IpInBegin && self.asked;
        let asks = gate == Gate::DriverInBegin;
        let is_here = gate == self.gate;
        self.asked = (self.asked && !before) || (is_here && asks);
        [before, is_here && !asks]
    }
}

impl<R: Recorder> Recorder for Delay<'_, R> {
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
        let [before, behind] = self.due(gate);
        if before {
            self.wait.wait();
        }
        self.recorder.pass(gate, packet);
        if behind {
            self.wait.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Trace;
    use crate::set::GateSet;
    use crate::ticks::Ticks;

    #[test]
    fn waits_are_as_long_as_they_are_to_be_at_least() {
        let clock = Clock::calibrate();
        for ns in [0.0, 300.0, 30_000.0] {
            let wait = Wait::calibrate(clock, ns);
            let least = ns - clock.ns_between(Ticks(0), Ticks(1));
            assert!(wait.wait() >= least, "{ns}");
            assert!(wait.ns() >= least, "{ns}");
        }
    }

    #[test]
    fn timings_are_shorter_than_a_slice_of_the_scheduler() {
        for ns in [0.0, 20.0, 300.0, 3_000.0, 20_000.0, 1e9] {
            let batch = batch(ns);
            assert!(batch == 1 || f64::from(batch) * ns <= TIMING_NS, "{ns}");
        }
        assert_eq!([20.0, 20_000.0, 1e9].map(batch), [BATCH, 5, 1]);
    }

    /// A receiver that sleeps asks its driver twice for one message.
    #[test]
    fn delay_behind_the_driver_waits_for_what_it_gives() {
        let wait = Wait::calibrate(Clock::calibrate(), 0.0);
        let mut delay = Delay::behind(Gate::DriverInBegin, &wait, crate::recorder::Off);
        let passed = [
            (Gate::DriverInBegin, [false, false]),
            (Gate::DriverInBegin, [false, false]),
            (Gate::IpInBegin, [true, false]),
            (Gate::IpInBegin, [false, false]),
            (Gate::DemuxBegin, [false, false]),
        ];
        for (gate, due) in passed {
            assert_eq!(delay.due(gate), due, "{}", gate.name());
        }
        let mut delay = Delay::behind(Gate::IpInBegin, &wait, crate::recorder::Off);
        let due = [Gate::DriverInBegin, Gate::IpInBegin].map(|gate| delay.due(gate));
        assert_eq!(due, [[false, false], [false, true]]);
    }

    #[test]
    fn round_that_was_disturbed_does_not_count() {
        let rounds = [[493.0, 490.0, 495.0], [304.0, 900.0, 303.0], [493.0; 3]];
        assert_eq!(shortest(rounds.into_iter().map(Vec::from)), 304.0);
    }

    #[test]
    fn delay_passes_every_gate_on() {
        let clock = Clock::calibrate();
        let wait = Wait::calibrate(clock, 300.0);
        let mut trace: Trace = Trace::new(clock, GateSet::ALL, 4);
        let mut delay = Delay::behind(Gate::IpInBegin, &wait, &mut trace);
        let gates = [Gate::DriverInBegin, Gate::IpInBegin, Gate::DemuxBegin];
        for gate in gates {
            delay.lend().pass(gate, PacketId(7));
        }
        let passed: Vec<_> = trace.events().iter().map(|event| event.gate).collect();
        assert_eq!(passed, gates);
        const { assert!(Delay::<crate::recorder::Off>::ON) };
    }
}
