//! A known delay at a gate, so that what shows spans can be tried with a span that is known to be longer.
//!
//! Owns the wait and its calibration. It must never record anything: the recorder that it wraps does that, before the wait.

use std::hint::black_box;
use std::time::Duration;

use crate::clock::Clock;
use crate::id::Gate;
use crate::recorder::{PacketId, Recorder};

/// Waits in a row whose mean is one timing.
const BATCH: u32 = 256;
/// Timings in a round, of which the median counts.
const TIMINGS: usize = 7;
/// Rounds, of which the shortest counts.
const ROUNDS: usize = 5;
/// Time between two rounds: a neighbour on the same core can lengthen every wait for milliseconds.
const SPACING: Duration = Duration::from_millis(2);
/// Steps of the chain of the longer of the two waits that calibrate it.
const STEPS: u32 = 4_096;

/// A wait of a known length. It is a chain of dependent instructions between two ordered readings of the clock, so the processor
/// neither begins it early nor goes on beside it. Its length is the time between those readings: what they take themselves comes
/// on top, some 20 ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    clock: Clock,
    steps: u32,
    ns: f64,
}

impl Wait {
    /// A wait of so many nanoseconds; an ordered reading of the clock is the shortest that there is. Takes some tens of
    /// milliseconds.
    pub fn calibrate(clock: Clock, ns: f64) -> Self {
        let timed = |steps| Self {
            clock,
            steps,
            ns: 0.0,
        };
        let (none, many) = (timed(0).measure(), timed(STEPS).measure());
        let step = (many - none) / f64::from(STEPS);
        let steps = ((ns - none) / step).round().clamp(0.0, f64::from(u32::MAX));
        let wait = timed(steps as u32);
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
        let mut chain = begin.0;
        for _ in 0..self.steps {
            // Each step needs the one before; the compiler cannot see through.
            chain = black_box(chain.rotate_left(1));
        }
        black_box(chain);
        self.clock.ns_between(begin, self.clock.now_ordered())
    }

    fn measure(&self) -> f64 {
        let timing = |_| (0..BATCH).map(|_| self.wait()).sum::<f64>() / f64::from(BATCH);
        let round = |number| {
            if number > 0 {
                std::thread::sleep(SPACING);
            }
            (0..TIMINGS).map(timing).collect()
        };
        shortest((0..ROUNDS).map(round))
    }
}

/// The median of the round that has the least: whatever else runs on the core can only lengthen a wait.
fn shortest(rounds: impl Iterator<Item = Vec<f64>>) -> f64 {
    let median = |mut timings: Vec<f64>| {
        timings.sort_by(f64::total_cmp);
        timings[timings.len() / 2]
    };
    rounds.map(median).fold(f64::INFINITY, f64::min)
}

/// A recorder that waits behind one gate, whether it records or not.
#[derive(Clone, Debug)]
pub struct Delay<'w, R> {
    recorder: R,
    gate: Gate,
    wait: &'w Wait,
}

impl<'w, R> Delay<'w, R> {
    /// Waits behind `gate`.
    #[inline(always)]
    pub fn behind(gate: Gate, wait: &'w Wait, recorder: R) -> Self {
        Self {
            recorder,
            gate,
            wait,
        }
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
        self.recorder.pass(gate, packet);
        if gate == self.gate {
            self.wait.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Trace;
    use crate::set::GateSet;

    #[test]
    fn longer_waits_have_more_steps() {
        let clock = Clock::calibrate();
        let [least, short, long] =
            [0.0, 300.0, 30_000.0].map(|ns| Wait::calibrate(clock, ns).steps);
        assert_eq!(least, 0);
        assert!(short < long, "{short} {long}");
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
