//! A rotation: the same steps again and again, so that what they measure lies side by side however the machine drifts.
//!
//! Owns how often the steps are gone through, for how long, and who is told of it. Must never know what a step measures.

use std::time::{Duration, Instant};

use crate::context::Context;
use crate::yardstick::between_slices;

/// How much of a rotation is gone through without a time budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// Round trips of a slice.
    pub(crate) round_trips: u64,
    /// The fewest of them.
    pub(crate) least_round_trips: u64,
    /// Times that the steps are gone through.
    pub(crate) rounds: u32,
}

impl Amount {
    /// Round trips of a slice where the user wants so many `iterations` of each step altogether.
    pub(crate) fn round_trips(&self, iterations: Option<u64>) -> u64 {
        iterations.map_or(self.round_trips, |iterations| {
            iterations.clamp(self.least_round_trips, self.round_trips)
        })
    }

    /// Rounds of so many `round_trips`, likewise; at least one.
    pub(crate) fn rounds(&self, iterations: Option<u64>, round_trips: u64) -> u32 {
        iterations.map_or(self.rounds, |iterations| {
            let rounds = iterations.div_ceil(round_trips.max(1));
            u32::try_from(rounds)
                .unwrap_or(self.rounds)
                .clamp(1, self.rounds)
        })
    }
}

/// A rotation under way.
pub(crate) struct Rotation<'c, 'p> {
    context: &'c Context<'p>,
    begun: Instant,
    within: Option<Duration>,
    rounds: u32,
    /// Rounds that were begun.
    round: u32,
    round_begun: Instant,
    longest: Duration,
    stopped: bool,
}

impl<'c, 'p> Rotation<'c, 'p> {
    /// So many rounds, that take no longer than `within` from `begun` on when that is given.
    pub(crate) fn new(
        context: &'c Context<'p>,
        rounds: u32,
        begun: Instant,
        within: Option<Duration>,
    ) -> Self {
        Self {
            context,
            begun,
            within,
            rounds,
            round: 0,
            round_begun: Instant::now(),
            longest: Duration::ZERO,
            stopped: false,
        }
    }

    /// Begins the next round; none when all are over, the user wants no more, or time does not allow another. The first is always
    /// gone through.
    pub(crate) fn round(&mut self) -> Option<Round> {
        let number = self.round;
        if number > 0 {
            self.longest = self.longest.max(self.round_begun.elapsed());
        }
        let fits = |within: Duration| self.begun.elapsed() + self.longest < within;
        if self.stopped || number == self.rounds || (number > 0 && !self.within.is_none_or(fits)) {
            return None;
        }
        self.round += 1;
        self.round_begun = Instant::now();
        Some(Round(number))
    }

    /// Tells that a step of this name begins; false when the user wants no more.
    pub(crate) fn step(&mut self, name: &str) -> bool {
        if self.context.cancel.is_raised() {
            self.stopped = true;
            return false;
        }
        let left = match self.within {
            Some(within) => within.saturating_sub(self.begun.elapsed()),
            None => self.longest * (self.rounds - self.round + 1),
        };
        between_slices(self.context, name, left);
        true
    }

    /// Whether the user stopped it.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped
    }
}

/// A round, numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round(pub(crate) u32);

impl Round {
    /// Of `count` places the one that has its turn in this step of the round: what is measured at one place only in each step comes
    /// round to all.
    pub(crate) const fn place(self, step: usize, count: usize) -> usize {
        match count {
            0 => 0,
            _ => (self.0 as usize + step) % count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Options, Silent};

    fn context() -> Context<'static> {
        Context::new(Options::default(), None, Cancel::default(), &Silent)
    }

    #[test]
    fn without_a_budget_all_rounds_are_gone_through() {
        let context = context();
        let mut rotation = Rotation::new(&context, 3, Instant::now(), None);
        let rounds: Vec<Round> = std::iter::from_fn(|| rotation.round()).collect();
        assert_eq!(rounds, [Round(0), Round(1), Round(2)]);
        assert!(!rotation.is_stopped());
    }

    #[test]
    fn without_time_the_first_round_is_gone_through_and_no_other() {
        let context = context();
        let mut rotation = Rotation::new(&context, 3, Instant::now(), Some(Duration::ZERO));
        assert_eq!(rotation.round(), Some(Round(0)));
        assert!(rotation.step("any"));
        assert_eq!(rotation.round(), None);
    }

    #[test]
    fn who_stops_it_gets_no_further_step() {
        let context = context();
        let mut rotation = Rotation::new(&context, 3, Instant::now(), None);
        assert!(rotation.round().is_some() && rotation.step("first"));
        context.cancel.raise();
        assert!(!rotation.step("second"));
        assert_eq!(rotation.round(), None);
        assert!(rotation.is_stopped());
    }

    #[test]
    fn every_place_has_its_turn_at_every_step() {
        let places: Vec<usize> = (0..3).map(|round| Round(round).place(1, 3)).collect();
        assert_eq!(places, [1, 2, 0]);
        assert_eq!(Round(7).place(1, 0), 0);
    }

    #[test]
    fn iterations_are_parted_into_slices_and_rounds() {
        let amount = Amount {
            round_trips: 256,
            least_round_trips: 32,
            rounds: 16,
        };
        for (iterations, round_trips, rounds) in [
            (None, 256, 16),
            (Some(1), 32, 1),
            (Some(100), 100, 1),
            (Some(1_000), 256, 4),
            (Some(u64::MAX), 256, 16),
        ] {
            assert_eq!(amount.round_trips(iterations), round_trips);
            assert_eq!(amount.rounds(iterations, round_trips), rounds);
        }
    }
}
