//! Limits on answers that anybody can provoke.
//!
//! Time is divided into periods, and each period allows a number of answers that is drawn anew, between 3/4 and 5/4 of
//! the nominal one. A fixed number could be counted down by an attacker, who then learns from what is missing that the
//! stack has answered somebody else (CVE-2016-5696). A period begins with the first answer behind the one before.

use crate::random::Random;
use crate::time::{Instant, Tick};

/// A limit of its own for one kind of answer. It costs 24 bytes and no timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    nominal: u32,
    /// Length of a period in ticks.
    period: u32,
    /// Answers that this period still allows.
    left: u32,
    /// First tick, counted in 64 bits, behind this period.
    end: u64,
}

impl RateLimit {
    /// Makes a limit of `nominal` answers, on average, in each period of `period` ticks.
    pub(crate) const fn new(nominal: u32, period: u32) -> Self {
        Self {
            nominal,
            period,
            left: 0,
            end: 0,
        }
    }

    /// Counts an answer at `now` and says whether it may be sent.
    pub(crate) fn allow(&mut self, now: Instant, random: &mut Random) -> bool {
        let tick = now.as_nanos() >> Tick::SHIFT;
        // A clock that was set back must not silence the stack until it has caught up.
        let set_back = tick + u64::from(self.period) < self.end;
        if tick >= self.end || set_back {
            self.end = tick + u64::from(self.period);
            let least = self.nominal - self.nominal / 4;
            self.left = least + random.below(self.nominal / 2 + 1);
        }
        let allowed = self.left != 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    const NOMINAL: u32 = 100;
    const PERIOD: u32 = 256;

    fn at(tick: u64) -> Instant {
        Instant::from_nanos(tick << Tick::SHIFT)
    }

    /// Answers that are allowed when many are wanted at `tick`.
    fn allowed(limit: &mut RateLimit, random: &mut Random, tick: u64) -> u32 {
        (0..1000)
            .map(|_| u32::from(limit.allow(at(tick), random)))
            .sum()
    }

    #[test]
    fn limit_allows_another_number_in_each_period() {
        let (mut limit, mut random) = (RateLimit::new(NOMINAL, PERIOD), Random::new([1, 2]));
        let sizes: BTreeSet<u32> = (0..100)
            .map(|n| allowed(&mut limit, &mut random, n * u64::from(PERIOD)))
            .collect();
        assert!(
            sizes.iter().all(|size| (75..=125).contains(size)),
            "{sizes:?}"
        );
        assert!(sizes.len() > 30, "{sizes:?}");
    }

    #[test]
    fn limit_lasts_for_a_period() {
        let (mut limit, mut random) = (RateLimit::new(NOMINAL, PERIOD), Random::new([1, 2]));
        assert!(allowed(&mut limit, &mut random, 5) > 0);
        assert_eq!(
            allowed(&mut limit, &mut random, 5 + u64::from(PERIOD) - 1),
            0
        );
        assert!(allowed(&mut limit, &mut random, 5 + u64::from(PERIOD)) > 0);
    }

    /// Ticks of 32 bits would call a period of 26 to 52 days ago a future one.
    #[test]
    fn limit_survives_long_silence_and_a_clock_set_back() {
        let (mut limit, mut random) = (RateLimit::new(NOMINAL, PERIOD), Random::new([1, 2]));
        for tick in [10, 3 << 31, 1 << 40, 20] {
            assert!(allowed(&mut limit, &mut random, tick) > 0, "tick {tick}");
        }
    }

    #[test]
    fn limit_of_one_allows_one() {
        let (mut limit, mut random) = (RateLimit::new(1, 1), Random::new([1, 2]));
        for tick in 0..100 {
            assert_eq!(allowed(&mut limit, &mut random, tick), 1);
        }
    }
}
