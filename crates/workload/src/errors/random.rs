//! Random numbers that follow from a seed.

use crate::payload;

/// A stream of numbers: the words of [`payload`] with this seed.
#[derive(Debug, Clone)]
pub(super) struct Random {
    seed: u64,
    index: u64,
}

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, index: 0 }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.index += 1;
        u64::from_le_bytes(payload::word(self.seed, self.index))
    }

    /// Uniform below `bound`; 0 for a bound of 0. The bias is below `bound / 2^64`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}
