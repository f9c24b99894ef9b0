//! Seeds of tests that draw what they do, and the numbers of each.

use std::ops::RangeInclusive;

/// Numbers of a seed (SplitMix64; Steele, Lea and Flood 2014).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// The seeds that are tried: `usual` ones, or those of `TOLLGATE_SEEDS=first:last`.
pub(crate) fn seeds(usual: RangeInclusive<u64>) -> RangeInclusive<u64> {
    let Ok(given) = std::env::var("TOLLGATE_SEEDS") else {
        return usual;
    };
    let (first, last) = given.split_once(':').expect("TOLLGATE_SEEDS=first:last");
    first.parse().expect("a number")..=last.parse().expect("a number")
}
