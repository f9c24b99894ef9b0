//! How many packets are sampled: 1 in N, and N by the traffic there is.
//!
//! A sample that passes all gates costs about as much as a thousand packets that pass them unsampled, so there are as many as give
//! good percentiles within seconds and no more. A sample counts as often as N said when it began, so that a busy second counts for
//! more than a quiet one.

use std::time::Duration;

/// Samples a second that are aimed at.
pub const AIM: f64 = 1_000.0;
/// How long the traffic is looked at before the first choice.
const FIRST: Duration = Duration::from_millis(50);
/// How long between choices after it.
const AGAIN: Duration = Duration::from_secs(1);
/// The programs draw gaps up to 2N.
pub const MOST: u32 = 1 << 24;

/// Chooses N.
#[derive(Debug)]
pub(super) struct Chooser {
    every: u32,
    fixed: bool,
    last: Option<(Duration, u64)>,
}

impl Chooser {
    /// With `every` it is always that.
    pub(super) fn new(every: Option<u32>) -> Self {
        Self {
            every: every.unwrap_or(0),
            fixed: every.is_some(),
            last: None,
        }
    }

    /// N at present; 0 before the first choice.
    pub(super) const fn every(&self) -> u32 {
        self.every
    }

    /// The new N when it changes; `seen` is all candidates until `at`.
    pub(super) fn choose(&mut self, at: Duration, seen: u64) -> Option<u32> {
        if self.fixed {
            return None;
        }
        let (since, before) = self.last.unwrap_or((Duration::ZERO, 0));
        let over = at.checked_sub(since)?;
        if over < if self.last.is_some() { AGAIN } else { FIRST } {
            return None;
        }
        self.last = Some((at, seen));
        let rate = seen.saturating_sub(before) as f64 / over.as_secs_f64();
        let every = (rate / AIM).ceil().clamp(1.0, f64::from(MOST)) as u32;
        // What differs by less than a tenth is left as it is.
        let stays = self.every > 0 && every.abs_diff(self.every) * 10 <= self.every;
        if stays {
            return None;
        }
        self.every = every;
        Some(every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_first_choice_waits_for_some_traffic() {
        let mut chooser = Chooser::new(None);
        assert_eq!(chooser.choose(ms(10), 1_000), None);
        assert_eq!(chooser.every(), 0);
        // 100,000 a second.
        assert_eq!(chooser.choose(ms(60), 6_000), Some(100));
    }

    #[test]
    fn it_follows_the_traffic_each_second_and_leaves_small_changes_alone() {
        let mut chooser = Chooser::new(None);
        chooser.choose(ms(50), 5_000);
        assert_eq!(chooser.choose(ms(500), 900_000), None);
        assert_eq!(chooser.choose(ms(1_050), 5_000 + 105_000), None);
        assert_eq!(chooser.every(), 100);
        assert_eq!(chooser.choose(ms(2_050), 110_000 + 10_000), Some(10));
        assert_eq!(chooser.choose(ms(3_050), 120_000), Some(1));
    }

    #[test]
    fn what_the_user_says_stays() {
        let mut chooser = Chooser::new(Some(7));
        assert_eq!(chooser.choose(ms(5_000), 1 << 40), None);
        assert_eq!(chooser.every(), 7);
    }
}
