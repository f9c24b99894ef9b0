//! Gates that sleep through a part of a slice's round trips.
//!
//! A gate that is attached and asleep costs a message about half of what one does that records it ([`tollgate_kernel::Doze`]). So a
//! slice whose gates take turns with naps is disturbed less, at the price of fewer messages that are seen. Naps change between round
//! trips only, while nothing is under way, by the end that is timed.
//!
//! A turn begins with a round trip that finds the programs cold and ends with one that gives the last its end, where a round trip is
//! told from a passage of a gate to the next: neither counts. This module never decides how much is slept.

use std::ops::Range;
use std::sync::Arc;

use rustix::time::ClockId;
use tollgate_kernel::Doze;

use crate::stamps::clock_ns;

/// Gates that can sleep.
pub trait Sleeper: std::fmt::Debug + Send + Sync {
    /// From now on they see nothing.
    fn sleep(&self);

    /// From now on they see all again.
    fn wake(&self);
}

impl Sleeper for Doze {
    fn sleep(&self) {
        Self::sleep(self);
    }

    fn wake(&self) {
        Self::wake(self);
    }
}

/// How a session's gates sleep.
#[derive(Debug, Clone)]
pub struct Naps {
    /// The gates.
    pub gates: Arc<dyn Sleeper>,
    /// Round trips that count between two naps; one more on either side is seen.
    pub followed: u64,
    /// Round trips that they sleep through.
    pub slept: u64,
}

/// A time of a slice in which gates were awake. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// When they were awake; nothing was under way at its beginning and its end.
    pub awake: Range<u64>,
    /// When the messages were sent that count.
    pub counted: Range<u64>,
    /// Round trips that count.
    pub round_trips: u64,
}

/// The naps of one slice.
#[derive(Debug)]
pub(crate) struct Napping {
    naps: Option<Naps>,
    /// Round trips since the last waking.
    at: u64,
    turns: Vec<Turn>,
}

impl Naps {
    const fn period(&self) -> u64 {
        self.followed + 2 + self.slept
    }
}

impl Napping {
    /// Begins the timed part of a slice of so many round trips. Without naps all of them count, and what gates saw before was awake, too.
    pub(crate) fn begin(naps: Option<Naps>, round_trips: u64) -> Self {
        let turns = match &naps {
            // So that memory is not asked for in the middle of a slice.
            Some(naps) => Vec::with_capacity((round_trips / naps.period() + 1) as usize),
            None => vec![Turn {
                awake: 0..u64::MAX,
                counted: clock_ns(ClockId::Monotonic)..u64::MAX,
                round_trips,
            }],
        };
        Self { naps, at: 0, turns }
    }

    /// A round trip begins.
    #[inline]
    pub(crate) fn next(&mut self) {
        if self.naps.is_some() {
            self.turn();
        }
    }

    #[inline(never)]
    fn turn(&mut self) {
        let Some(naps) = &self.naps else { return };
        let now = || clock_ns(ClockId::Monotonic);
        if self.at == 0 {
            naps.gates.wake();
            self.turns.push(Turn {
                awake: now()..u64::MAX,
                counted: u64::MAX..u64::MAX,
                round_trips: 0,
            });
        } else if let Some(turn) = self.turns.last_mut() {
            if self.at == 1 {
                turn.counted.start = now();
            } else if self.at == naps.followed + 1 {
                turn.counted.end = now();
            } else if self.at == naps.followed + 2 {
                naps.gates.sleep();
                turn.awake.end = now();
            }
            if (1..=naps.followed).contains(&self.at) {
                turn.round_trips += 1;
            }
        }
        self.at = (self.at + 1) % naps.period();
    }

    /// The slice is over.
    pub(crate) fn end(mut self) -> Vec<Turn> {
        std::mem::take(&mut self.turns)
    }
}

/// However a slice ends, gates are left awake.
impl Drop for Napping {
    fn drop(&mut self) {
        if let Some(naps) = &self.naps {
            naps.gates.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Says which of the round trips it saw.
    #[derive(Debug, Default)]
    struct Watcher {
        asleep: Mutex<bool>,
        seen: Mutex<Vec<u64>>,
    }

    impl Sleeper for Watcher {
        fn sleep(&self) {
            *self.asleep.lock().unwrap() = true;
        }

        fn wake(&self) {
            *self.asleep.lock().unwrap() = false;
        }
    }

    impl Watcher {
        fn round_trip(&self, number: u64) {
            if !*self.asleep.lock().unwrap() {
                self.seen.lock().unwrap().push(number);
            }
        }
    }

    fn slice(naps: Option<(u64, u64)>, round_trips: u64) -> (Vec<u64>, Vec<Turn>) {
        let watcher = Arc::new(Watcher::default());
        let naps = naps.map(|(followed, slept)| Naps {
            gates: Arc::<Watcher>::clone(&watcher),
            followed,
            slept,
        });
        let mut napping = Napping::begin(naps, round_trips);
        for number in 0..round_trips {
            napping.next();
            watcher.round_trip(number);
        }
        let turns = napping.end();
        assert!(!*watcher.asleep.lock().unwrap(), "gates are left awake");
        (
            Arc::into_inner(watcher).unwrap().seen.into_inner().unwrap(),
            turns,
        )
    }

    #[test]
    fn without_naps_everything_counts() {
        let before = clock_ns(ClockId::Monotonic);
        let (seen, turns) = slice(None, 5);
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert_eq!(turns.len(), 1);
        assert_eq!(
            (turns[0].awake.clone(), turns[0].round_trips),
            (0..u64::MAX, 5)
        );
        assert!(turns[0].counted.start >= before && turns[0].counted.end == u64::MAX);
    }

    #[test]
    fn gates_sleep_between_turns() {
        let (seen, turns) = slice(Some((2, 3)), 16);
        assert_eq!(seen, [0, 1, 2, 3, 7, 8, 9, 10, 14, 15]);
        // The last turn is broken off: the second of its round trips has no other behind it.
        let counted: Vec<u64> = turns.iter().map(|turn| turn.round_trips).collect();
        assert_eq!(counted, [2, 2, 1]);
        for turn in &turns {
            assert!(turn.awake.start <= turn.counted.start);
            assert!(turn.counted.start <= turn.counted.end && turn.counted.end <= turn.awake.end);
        }
        assert!(turns[0].awake.end <= turns[1].awake.start);
    }

    #[test]
    fn a_turn_that_is_hardly_begun_counts_nothing() {
        let (seen, turns) = slice(Some((2, 3)), 8);
        assert_eq!(seen, [0, 1, 2, 3, 7]);
        assert_eq!(turns.last().unwrap().round_trips, 0);
        assert!(turns.last().unwrap().counted.is_empty());
    }

    #[test]
    fn a_slice_that_fails_leaves_gates_awake() {
        let watcher = Arc::new(Watcher::default());
        let mut napping = Napping::begin(
            Some(Naps {
                gates: Arc::<Watcher>::clone(&watcher),
                followed: 1,
                slept: 9,
            }),
            20,
        );
        for _ in 0..5 {
            napping.next();
        }
        assert!(*watcher.asleep.lock().unwrap());
        drop(napping);
        assert!(!*watcher.asleep.lock().unwrap());
    }
}
