//! The walk over the destinations that follows another choice of routers or prefixes (RFC 4861, 5.2 and 7.3.3), and that over
//! the connections that follows another MTU of the link (6.3.4).
//!
//! Any host on the link can change that choice as often as it likes, and there are as many destinations as there are
//! connections. So each tick goes on with [`STEPS`] of them and no more. A change while a walk is under way has it go once
//! around from where it is: no flood of changes keeps a destination from its turn.
//!
//! This module must never look at a destination or a connection.

use crate::time::Instant;
use core::ops::Range;

/// Destinations of a tick, which lasts 1.05 ms: 100,000 have another router within a second.
const STEPS: u32 = 128;

/// The walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    /// The choice that the walk carries to the destinations, as [`Routers::version`](super::routers::Routers::version) has it, or
    /// the MTU.
    version: u32,
    /// The next destination's id.
    at: u32,
    /// Destinations that are left.
    left: u32,
    /// The tick that had its share.
    done: Option<u64>,
}

impl Walk {
    /// Begins to go around, unless the choice is the same.
    pub(crate) const fn begin(&mut self, version: u32, destinations: u32) {
        if self.version != version {
            self.version = version;
            self.left = destinations;
        }
    }

    /// The next ids, among those below `destinations`; none where nothing is left or the tick has had its share.
    pub(crate) fn step(&mut self, destinations: u32, now: Instant) -> Range<u32> {
        if self.left == 0 || self.done == Some(now.ticks()) {
            return 0..0;
        }
        self.done = Some(now.ticks());
        self.left = self.left.min(destinations);
        if self.at >= destinations {
            self.at = 0;
        }
        let steps = STEPS.min(self.left).min(destinations - self.at);
        let ids = self.at..self.at + steps;
        self.at = ids.end;
        self.left -= steps;
        ids
    }

    /// When the walk goes on.
    pub(crate) fn next(&self) -> Option<Instant> {
        let after = self.done.map_or(0, |done| done + 1);
        (self.left != 0).then(|| Instant::of_ticks(after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tick: u64) -> Instant {
        Instant::of_ticks(tick)
    }

    #[test]
    fn each_destination_has_its_turn_once() {
        let mut walk = Walk::default();
        assert_eq!((walk.next(), walk.step(1000, at(1))), (None, 0..0));
        walk.begin(1, 300);
        assert_eq!(walk.step(300, at(1)), 0..128);
        // One share for each tick.
        assert_eq!(walk.step(300, at(1)), 0..0);
        assert_eq!(walk.next(), Some(at(2)));
        assert_eq!(walk.step(300, at(2)), 128..256);
        assert_eq!(walk.step(300, at(3)), 256..300);
        assert_eq!((walk.next(), walk.step(300, at(4))), (None, 0..0));
        // The same choice again is none.
        walk.begin(1, 300);
        assert_eq!(walk.next(), None);
    }

    #[test]
    fn changes_on_the_way_keep_nobody_from_its_turn() {
        let mut walk = Walk::default();
        let mut seen = [false; 1000];
        for tick in 1..=12 {
            walk.begin(tick, 1000);
            for id in walk.step(1000, at(tick.into())) {
                seen[id as usize] = true;
            }
        }
        assert!(seen.iter().all(|&seen| seen));
        // Fewer than there were: it ends nevertheless.
        for tick in 13..40 {
            assert!(walk.step(10, at(tick)).end <= 10);
        }
        assert_eq!(walk.next(), None);
    }
}
