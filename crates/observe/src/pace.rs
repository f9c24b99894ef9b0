//! The pace of an observation: the share of the time in which the gates are on, and the N of 1 packet in N that is
//! sampled meanwhile.
//!
//! A gate costs something for every packet, sampled or not. The call of its program alone takes 50 to 110 ns where
//! indirect calls and returns are dear. Thirteen of them cost a service with 100,000 messages a second on one core
//! fifteen percent and more. No sampling by packet changes that. So where the traffic is heavy the gates are on for
//! windows only, as long and as often as the budget allows, and gone in between. Where it is light they stay on.
//!
//! Each message is drawn by itself, with the same probability on all processors. A window stands for the time before it, too. A sample counts
//! for the messages that it was drawn among, and as many times for those that passed while the gates were off. Otherwise traffic that is heavy now
//! and light then would be reported as if it were light.

use std::time::Duration;

/// The share of a processor that may be spent on the busiest one unless told otherwise.
pub const BUDGET: f64 = 0.01;
/// Cost of all gates together to a message that is not sampled, in seconds.
const UNSAMPLED: f64 = 1.5e-6;
/// Cost of all gates together to a message that is sampled, in seconds.
const SAMPLED: f64 = 6e-6;
/// Samples a second that are aimed at, over all the time; within windows there are more.
const AIM: f64 = 1_000.0;
/// Samples a second within a window, at most. Gates that are on cost more than samples do up to there.
const MOST_IN_A_WINDOW: f64 = 20_000.0;
/// Time for which the traffic is counted before the first choice.
pub(super) const FIRST: Duration = Duration::from_millis(50);
/// Time for which nothing is sampled when the gates were just put on. Putting them on stops each processor for a
/// moment, and the memory that they touch first is not in the cache.
pub(super) const SETTLE: Duration = Duration::from_millis(5);
/// Time in which samples begin in a window, and between choices while the gates stay on. Many short windows tell more
/// than few long ones about changes within seconds.
pub(super) const WINDOW: Duration = Duration::from_millis(20);
/// One in so many samples may find no room before fewer are drawn.
const CROWDED: u64 = 50;
/// Samples are thinned no further than this.
const MOST_THINNING: f64 = 1024.0;
/// The probability of a draw is a whole number of parts in 2^32: up to here it is within 0.4 % of 1 in N.
pub const MOST: u32 = 1 << 24;

/// Messages that passed in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// Candidates for a sample.
    pub(super) candidates: u64,
    /// Messages on the busiest processor, asked for or not.
    pub(super) busiest: u64,
    /// Samples.
    pub(super) samples: u64,
    /// Samples that were drawn and found no room.
    pub(super) skipped: u64,
}

/// Decides both.
#[derive(Debug)]
pub(super) struct Pace {
    fixed: Option<u32>,
    /// None leaves the gates on, whatever that costs.
    budget: Option<f64>,
    every: u32,
    /// Factor by which fewer are sampled since many of a connection are under way at once, at least 1.
    thinning: f64,
}

impl Pace {
    pub(super) fn new(fixed: Option<u32>, budget: Option<f64>) -> Self {
        Self {
            fixed,
            budget,
            every: fixed.unwrap_or(0),
            thinning: 1.0,
        }
    }

    /// 1 in so many; 0 before the first choice.
    pub(super) const fn every(&self) -> u32 {
        self.every
    }

    /// Chooses by what passed within `over`.
    pub(super) fn choose(&mut self, over: Duration, passed: Passed) {
        let seconds = over.as_secs_f64();
        if seconds <= 0.0 || self.fixed.is_some() {
            return;
        }
        let rate = |count: u64| count as f64 / seconds;
        let cost = rate(passed.busiest) * UNSAMPLED + AIM * SAMPLED;
        let duty = self
            .budget
            .map_or(1.0, |budget| (budget / cost).clamp(1e-3, 1.0));
        let aim = (AIM / duty).min(MOST_IN_A_WINDOW);
        // Those that find no room are of times when many wait: without them the rows would be of the fast ones.
        self.thinning = if passed.skipped * CROWDED > passed.samples + passed.skipped {
            (self.thinning * 2.0).min(MOST_THINNING)
        } else {
            (self.thinning * 0.98).max(1.0)
        };
        let every = (rate(passed.candidates) / aim * self.thinning)
            .ceil()
            .clamp(1.0, f64::from(MOST)) as u32;
        // What differs by less than a tenth is left as it is.
        if self.every == 0 || every.abs_diff(self.every) * 10 > self.every {
            self.every = every;
        }
    }

    /// Tells whether so many more than wanted are sampled that the choice must not wait.
    pub(super) fn is_late(&self, over: Duration, passed: Passed) -> bool {
        self.fixed.is_none()
            && passed.samples as f64 > 2.0 * MOST_IN_A_WINDOW * over.as_secs_f64() + 10.0
    }

    /// Time for which the gates are to be off after they were on for `open`, in which this passed; none when they
    /// stay on. `luck`, from 0 to 1, sees to it that no rhythm of the traffic meets that of the windows.
    pub(super) fn gap(&self, open: Duration, passed: Passed, luck: f64) -> Option<Duration> {
        let spent = passed.busiest as f64 * UNSAMPLED + passed.samples as f64 * SAMPLED;
        let gap = spent / self.budget? - open.as_secs_f64();
        // A gap shorter than that is not worth taking the gates off.
        if gap < open.as_secs_f64() / 3.0 {
            return None;
        }
        Some(Duration::from_secs_f64(gap * (0.5 + luck)))
    }
}

/// Time that bytes under way may take to their end when a window ends, at first.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// The longest that this becomes. Bytes that were lost go out again within that, mostly.
pub(super) const LONGEST_PATIENCE: Duration = Duration::from_secs(1);

/// The patience after `cut` of a window's `samples` took longer. It grows, since those that are cut are the slow ones: without them the
/// rows would be of the fast ones alone.
pub(super) fn patience(before: Duration, cut: u64, samples: u64) -> Duration {
    if cut * 20 > samples {
        (before * 2).min(LONGEST_PATIENCE)
    } else {
        before
    }
}

/// Time that nobody sampled, and the beginning of a window that stands for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Standing {
    unseen: Duration,
    /// For how many messages a sample stands that begins within `length`; later ones stand for 1 in so many as are sampled.
    pub(super) weight: u32,
    pub(super) length: Duration,
}

impl Standing {
    /// Samples of 1 in `every` that come after nothing was sampled for `unseen`. Weights are whole numbers, so the length is what is fitted:
    /// about [`WINDOW`], and never more unless the weight has no room.
    pub(super) fn of(every: u32, unseen: Duration) -> Self {
        let stretch = 1.0 + unseen.as_secs_f64() / WINDOW.as_secs_f64();
        let weight = (f64::from(every) * stretch).ceil() as u32;
        let more = weight.saturating_sub(every);
        Self {
            unseen,
            weight,
            length: match more {
                0 => Duration::ZERO,
                more => unseen.mul_f64(f64::from(every) / f64::from(more)),
            },
        }
    }

    /// Unseen time that nothing stands for yet, so long after the beginning.
    pub(super) fn rest(&self, after: Duration) -> Duration {
        if after >= self.length {
            return Duration::ZERO;
        }
        self.unseen
            .mul_f64(1.0 - after.as_secs_f64() / self.length.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Messages that pass in a window at a rate when 1 in `every` is sampled.
    fn passed(rate: u64, every: u32) -> Passed {
        let count = rate * WINDOW.as_millis() as u64 / 1_000;
        Passed {
            candidates: count,
            busiest: count,
            samples: count / u64::from(every.max(1)),
            skipped: 0,
        }
    }

    /// A pace that has seen this rate.
    fn settled(rate: u64) -> Pace {
        let mut pace = Pace::new(None, Some(BUDGET));
        pace.choose(WINDOW, passed(rate, 1));
        pace
    }

    #[test]
    fn patience_grows_until_the_slow_ones_are_not_cut() {
        assert_eq!(patience(PATIENCE, 5, 100), PATIENCE);
        assert_eq!(patience(PATIENCE, 6, 100), 2 * PATIENCE);
        let longest = (0..10).fold(PATIENCE, |before, _| patience(before, 100, 100));
        assert_eq!(longest, LONGEST_PATIENCE);
    }

    #[test]
    fn light_traffic_is_observed_all_the_time() {
        for (rate, every) in [(2_000, 2), (0, 1)] {
            let pace = settled(rate);
            assert_eq!(pace.every(), every);
            assert_eq!(pace.gap(WINDOW, passed(rate, every), 0.5), None);
        }
    }

    #[test]
    fn heavy_traffic_is_observed_in_windows_that_keep_to_the_budget() {
        for rate in [50_000_u64, 200_000, 2_000_000] {
            let pace = settled(rate);
            let observed = passed(rate, pace.every());
            let gap = pace.gap(WINDOW, observed, 0.5).unwrap();
            let spent = observed.busiest as f64 * UNSAMPLED + observed.samples as f64 * SAMPLED;
            let share = spent / (WINDOW + gap).as_secs_f64();
            assert!((share - BUDGET).abs() < 1e-4, "{rate}: {share}");
            let sampled = observed.samples as f64 / WINDOW.as_secs_f64();
            assert!(sampled <= MOST_IN_A_WINDOW * 1.1, "{rate}: {sampled}");
        }
    }

    #[test]
    fn a_gap_pays_for_what_was_spent_and_not_for_the_time_before() {
        let pace = settled(200_000);
        let observed = passed(200_000, pace.every());
        let all_were_followed = Passed {
            samples: observed.candidates,
            ..observed
        };
        let gap = pace.gap(WINDOW, observed, 0.5).unwrap();
        assert!(gap < SECOND * 3, "{gap:?}");
        assert!(pace.gap(WINDOW, all_were_followed, 0.5).unwrap() > gap * 3);
    }

    #[test]
    fn traffic_that_begins_is_not_followed_message_by_message_for_long() {
        let light = settled(100);
        assert!(light.is_late(WINDOW / 5, passed(100_000, light.every())));
        assert!(!light.is_late(WINDOW, passed(20_000, light.every())));
        assert!(!settled(100_000).is_late(WINDOW, passed(100_000, settled(100_000).every())));
    }

    #[test]
    fn fewer_are_drawn_until_all_find_room() {
        let mut pace = settled(100_000);
        let begun = pace.every();
        // There is room for 10 samples in a window.
        for _ in 0..8 {
            let drawn = passed(100_000, pace.every());
            let samples = drawn.samples.min(10);
            let skipped = drawn.samples - samples;
            pace.choose(
                WINDOW,
                Passed {
                    samples,
                    skipped,
                    ..drawn
                },
            );
        }
        assert!(passed(100_000, pace.every()).samples <= 10);
        // It comes back slowly, when there is room again.
        for _ in 0..300 {
            pace.choose(WINDOW, passed(100_000, pace.every()));
        }
        assert!(
            pace.every().abs_diff(begun) * 5 <= begun,
            "{} {begun}",
            pace.every()
        );
    }

    #[test]
    fn gaps_are_drawn_around_their_mean() {
        let pace = settled(200_000);
        let observed = passed(200_000, pace.every());
        let [short, mean, long] =
            [0.0, 0.5, 1.0].map(|luck| pace.gap(WINDOW, observed, luck).unwrap());
        assert!((short * 2).abs_diff(mean) < Duration::from_micros(1));
        assert!((mean * 3 / 2).abs_diff(long) < Duration::from_micros(1));
    }

    #[test]
    fn what_the_user_says_stays() {
        let mut pace = Pace::new(Some(7), None);
        pace.choose(SECOND, passed(1 << 40, 1));
        assert_eq!(pace.every(), 7);
        assert_eq!(pace.gap(WINDOW, passed(1 << 40, 7), 0.5), None);
        assert!(!pace.is_late(WINDOW, passed(1 << 40, 7)));
    }

    /// Messages that samples of 1 in `every` are expected to stand for, at a rate, over so long since the window began.
    fn expected(standing: Standing, every: u32, rate: f64, over: Duration) -> f64 {
        let first = over.min(standing.length).as_secs_f64();
        let rest = over.as_secs_f64() - first;
        rate * (first * f64::from(standing.weight) / f64::from(every) + rest)
    }

    #[test]
    fn what_was_never_unseen_is_not_stood_for() {
        let standing = Standing::of(7, Duration::ZERO);
        assert_eq!((standing.weight, standing.length), (7, Duration::ZERO));
        assert_eq!(standing.rest(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn weights_without_room_take_longer() {
        let standing = Standing::of(MOST, SECOND * 100);
        assert_eq!(standing.weight, u32::MAX);
        assert!(standing.length > WINDOW * 10);
    }

    proptest::proptest! {
        /// However late a window is closed, and wherever it was chosen anew within: samples stand for it and for the time before it.
        #[test]
        fn samples_stand_for_the_window_and_the_time_before_it(
            every in 1_u32..1_000,
            anew in 1_u32..1_000,
            unseen in 0_u64..3_000_000,
            chosen_after in 0_u64..20_000,
            late in 0_u64..50_000,
        ) {
            let rate = 1_234.0;
            let micros = Duration::from_micros;
            let first = Standing::of(every, micros(unseen));
            proptest::prop_assert!(first.length <= WINDOW);
            let second = Standing::of(anew, first.rest(micros(chosen_after)));
            proptest::prop_assert!(second.length <= WINDOW);
            let open = WINDOW + micros(late);
            let told = expected(first, every, rate, micros(chosen_after)) + expected(second, anew, rate, open);
            let passed = rate * (micros(unseen + chosen_after) + open).as_secs_f64();
            proptest::prop_assert!((told / passed - 1.0).abs() < 1e-6, "{told} of {passed}");
        }
    }
}
