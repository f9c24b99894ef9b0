//! Which packets are recorded.
//!
//! The sampler decides once per call into the stack; the caller then takes the copy of the path with the recorder or
//! the copy without. It holds no randomness of its own: the seed is an argument.

use core::num::NonZeroU32;

/// Picks one call in `one_in` on average.
///
/// A fixed distance would beat with traffic that has a period of its own (every second packet an ACK: one in 64 would
/// see data only, or ACKs only). So the distances are drawn evenly from 1 to 2 * `one_in` - 1, which has the mean
/// `one_in`; a number is drawn only when a call was picked. Every other call costs a decrement and a branch.
#[derive(Clone, Debug)]
pub struct Sampler {
    one_in: NonZeroU32,
    countdown: u64,
    state: u64,
}

impl Sampler {
    /// A sampler that picks one call in `one_in` on average, with distances that depend on `seed` alone.
    pub fn new(one_in: NonZeroU32, seed: u64) -> Self {
        let mut sampler = Self {
            one_in,
            countdown: 0,
            state: seed,
        };
        sampler.countdown = sampler.draw();
        sampler
    }

    /// The mean distance between two calls that are picked.
    pub fn one_in(&self) -> NonZeroU32 {
        self.one_in
    }

    /// Whether the next packet is recorded.
    #[inline(always)]
    pub fn pick(&mut self) -> bool {
        self.countdown -= 1;
        if self.countdown == 0 {
            self.countdown = self.draw();
            true
        } else {
            false
        }
    }

    /// A distance, at least 1. The numbers are those of SplitMix64 (Steele, Lea and Flood 2014).
    #[cold]
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        let span = 2 * u128::from(self.one_in.get()) - 1;
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
