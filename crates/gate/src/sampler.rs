//! Choice of the packets that are recorded.
//!
//! The sampler decides once per call into the stack; the caller then takes the copy of the path with the recorder or
//! the copy without. It holds no randomness of its own: the seed is an argument.

use core::num::NonZeroU32;

/// Picks one call in `one_in` on average, in runs of `run` calls that follow each other.
///
/// The copy of the path with a recorder is another piece of code than the one without. A single call of it finds none of
/// it in the processor's caches and none of its branches foreseen, which costs more than the recording and shows in what
/// is recorded; of a run only the first call does.
///
/// A fixed distance would beat with traffic that has a period of its own (every second packet an ACK: one in 64 would
/// see data only, or ACKs only). So the number of calls between two runs is drawn evenly from 0 to twice its mean; a number
/// is drawn only when a run ends. Every other call costs a decrement and a branch.
#[derive(Clone, Debug)]
pub struct Sampler {
    one_in: NonZeroU32,
    run: NonZeroU32,
    /// Calls up to the next one that is looked at closely.
    countdown: u64,
    /// Calls of the present run that are left.
    left: u32,
    state: u64,
}

impl Sampler {
    /// A sampler that picks one call in `one_in` on average, each by itself, with distances that depend on `seed` alone.
    pub fn new(one_in: NonZeroU32, seed: u64) -> Self {
        Self::in_runs(one_in, NonZeroU32::MIN, seed)
    }

    /// A sampler that picks one call in `one_in` on average, `run` at a time.
    pub fn in_runs(one_in: NonZeroU32, run: NonZeroU32, seed: u64) -> Self {
        let mut sampler = Self {
            one_in,
            run,
            countdown: 0,
            left: run.get(),
            state: seed,
        };
        sampler.countdown = sampler.draw();
        sampler
    }

    /// Number of calls for each that is picked.
    pub fn one_in(&self) -> NonZeroU32 {
        self.one_in
    }

    /// Tells whether the next packet is recorded.
    #[inline(always)]
    pub fn pick(&mut self) -> bool {
        self.countdown -= 1;
        if self.countdown == 0 {
            self.picked();
            true
        } else {
            false
        }
    }

    #[cold]
    fn picked(&mut self) {
        self.left -= 1;
        if self.left > 0 {
            self.countdown = 1;
        } else {
            self.left = self.run.get();
            self.countdown = self.draw();
        }
    }

    /// The distance to the next run, at least 1. The numbers are those of SplitMix64 (Steele, Lea and Flood 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        let span = 2 * u128::from(self.run.get()) * (u128::from(self.one_in.get()) - 1) + 1;
        1 + ((u128::from(word) * span) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn distances(one_in: u32, seed: u64, picks: usize) -> Vec<u64> {
        let mut sampler = Sampler::new(NonZeroU32::new(one_in).unwrap(), seed);
        let mut distances = Vec::new();
        let mut distance = 0;
        while distances.len() < picks {
            distance += 1;
            if sampler.pick() {
                distances.push(distance);
                distance = 0;
            }
        }
        distances
    }

    #[test]
    fn one_in_one_picks_every_call() {
        assert!(distances(1, 7, 1_000).iter().all(|&distance| distance == 1));
    }

    #[test]
    fn the_mean_distance_is_one_in() {
        let picks = 20_000;
        let sum: u64 = distances(64, 1, picks).iter().sum();
        let mean = sum as f64 / picks as f64;
        // The standard deviation of the mean is 36.7 / sqrt(20,000) = 0.26.
        assert!((mean - 64.0).abs() < 1.5, "mean distance {mean}");
    }

    #[test]
    fn runs_are_whole_and_keep_the_share() {
        let number = |n| NonZeroU32::new(n).unwrap();
        let mut sampler = Sampler::in_runs(number(64), number(16), 5);
        let picks: Vec<bool> = (0..2_000_000).map(|_| sampler.pick()).collect();
        let share = picks.iter().filter(|&&picked| picked).count() as f64 / picks.len() as f64;
        // Some 1,950 runs, whose distances have a standard deviation of 0.58 of their mean: 1.3 % of the share.
        assert!((share * 64.0 - 1.0).abs() < 0.06, "share {share}");
        let mut runs = picks.chunk_by(|a, b| a == b).filter(|run| run[0]);
        runs.next_back();
        assert!(runs.all(|run| run.len() % 16 == 0));
    }

    #[test]
    fn a_period_in_the_traffic_is_sampled_evenly() {
        let mut sampler = Sampler::new(NonZeroU32::new(64).unwrap(), 3);
        let mut picks = [0u32; 2];
        for call in 0..640_000usize {
            picks[call % 2] += u32::from(sampler.pick());
        }
        let share = f64::from(picks[0]) / f64::from(picks[0] + picks[1]);
        assert!((share - 0.5).abs() < 0.03, "share of even calls {share}");
    }

    proptest! {
        #[test]
        fn distances_stay_in_bounds_and_repeat_with_the_seed(one_in in 1u32..2_000, seed: u64) {
            let first = distances(one_in, seed, 20);
            prop_assert!(first.iter().all(|&distance| distance >= 1 && distance < 2 * u64::from(one_in)));
            prop_assert_eq!(first, distances(one_in, seed, 20));
        }
    }
}
