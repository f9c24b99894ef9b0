//! How much is observed: which share of the time the gates are on, and 1 in how many packets is sampled meanwhile.
//!
//! A gate costs something for every packet, sampled or not: 50 to 110 ns for the call of its program alone where indirect calls and
//! returns are dear. Thirteen of them cost a service with 100,000 messages a second on one core fifteen percent and more; no sampling
//! by packet changes that. So where the traffic is heavy the gates are on for windows only, as long and as often as the budget
//! allows, and gone in between. Where it is light they stay on.

use std::time::Duration;

/// The share of a processor that may be spent on the busiest one unless told otherwise.
pub const BUDGET: f64 = 0.01;
/// What all gates together cost a message that is not sampled, in seconds.
const UNSAMPLED: f64 = 1.5e-6;
/// What they cost one that is.
const SAMPLED: f64 = 10e-6;
/// Samples a second that are aimed at, over all the time; within windows there are more.
const AIM: f64 = 1_000.0;
/// Samples a second within a window, at most.
const MOST_IN_A_WINDOW: f64 = 3_000.0;
/// How long the traffic is looked at before the first choice.
pub(super) const FIRST: Duration = Duration::from_millis(50);
/// How long a window is open.
pub(super) const WINDOW: Duration = Duration::from_millis(50);
/// How long between choices while the gates stay on.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// The programs draw gaps up to 2N.
pub const MOST: u32 = 1 << 24;

/// Decides both.
#[derive(Debug)]
pub(super) struct Pace {
    fixed: Option<u32>,
    /// None leaves the gates on, whatever that costs.
    budget: Option<f64>,
    every: u32,
    /// The share of the time with gates.
    duty: f64,
}

impl Pace {
    pub(super) fn new(fixed: Option<u32>, budget: Option<f64>) -> Self {
        Self {
            fixed,
            budget,
            every: fixed.unwrap_or(0),
            duty: 1.0,
        }
    }

    /// 1 in so many; 0 before the first choice.
    pub(super) const fn every(&self) -> u32 {
        self.every
    }

    /// Chooses by what passed within `open`: candidates for a sample, and messages on the busiest processor.
    pub(super) fn choose(&mut self, open: Duration, candidates: u64, busiest: u64) {
        let seconds = open.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let (candidates, busiest) = (candidates as f64 / seconds, busiest as f64 / seconds);
        let duty = |sampled: f64| {
            let cost = busiest * UNSAMPLED + sampled * SAMPLED;
            self.budget
                .map_or(1.0, |budget| (budget / cost).clamp(1e-3, 1.0))
        };
        let aim = (AIM / duty(AIM)).min(MOST_IN_A_WINDOW);
        if self.fixed.is_none() {
            let every = (candidates / aim).ceil().clamp(1.0, f64::from(MOST)) as u32;
            // What differs by less than a tenth is left as it is.
            if self.every == 0 || every.abs_diff(self.every) * 10 > self.every {
                self.every = every;
            }
        }
        self.duty = duty(candidates / f64::from(self.every.max(1)));
    }

    /// How long the gates are to be off after they were on for `open`; none when they stay on. `luck`, from 0 to 1, sees to it
    /// that no rhythm of the traffic meets that of the windows.
    pub(super) fn gap(&self, open: Duration, luck: f64) -> Option<Duration> {
        // A gap shorter than that is not worth taking the gates off.
        if self.duty > 0.75 {
            return None;
        }
        let gap = open.as_secs_f64() * (1.0 / self.duty - 1.0);
        Some(Duration::from_secs_f64(gap * (0.5 + luck)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn light_traffic_is_observed_all_the_time() {
        let mut pace = Pace::new(None, Some(BUDGET));
        assert_eq!(pace.every(), 0);
        pace.choose(SECOND, 2_000, 2_000);
        assert_eq!((pace.every(), pace.gap(WINDOW, 0.5)), (2, None));
        pace.choose(SECOND, 0, 0);
        assert_eq!((pace.every(), pace.gap(WINDOW, 0.5)), (1, None));
    }

    #[test]
    fn heavy_traffic_is_observed_in_windows_that_keep_to_the_budget() {
        let mut pace = Pace::new(None, Some(BUDGET));
        for rate in [50_000_u64, 200_000, 2_000_000] {
            pace.choose(SECOND, rate, rate);
            let gap = pace.gap(WINDOW, 0.5).unwrap();
            let on = WINDOW.as_secs_f64() / (WINDOW + gap).as_secs_f64();
            let sampled = rate as f64 / f64::from(pace.every());
            let cost = on * (rate as f64 * UNSAMPLED + sampled * SAMPLED);
            assert!((cost - BUDGET).abs() < 1e-4, "{rate}: {cost}");
            assert!(sampled <= MOST_IN_A_WINDOW * 1.1, "{rate}: {sampled}");
        }
    }

    #[test]
    fn gaps_are_drawn_around_their_mean() {
        let mut pace = Pace::new(None, Some(BUDGET));
        pace.choose(SECOND, 200_000, 200_000);
        let [short, mean, long] = [0.0, 0.5, 1.0].map(|luck| pace.gap(WINDOW, luck).unwrap());
        assert!((short * 2).abs_diff(mean) < Duration::from_micros(1));
        assert!((mean * 3 / 2).abs_diff(long) < Duration::from_micros(1));
    }

    #[test]
    fn what_the_user_says_stays() {
        let mut pace = Pace::new(Some(7), None);
        pace.choose(SECOND, 1 << 40, 1 << 40);
        assert_eq!((pace.every(), pace.gap(WINDOW, 0.5)), (7, None));
    }
}
