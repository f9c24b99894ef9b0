//! A small seeded generator: PCG-XSH-RR 64/32 (O'Neill 2014, HMC-CS-2014-0905, section 6.3.1).
//!
//! The sequence for a seed and a stream is part of what a failing test is replayed by, so it never changes.

/// One stream of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
    increment: u64,
}

impl Random {
    const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

    /// Streams of one seed are independent sequences.
    pub(crate) const fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self {
            state: 0,
            increment: (stream << 1) | 1,
        };
        random.step();
        random.state = random.state.wrapping_add(seed);
        random.step();
        random
    }

    const fn step(&mut self) {
        self.state = self
            .state
            .wrapping_mul(Self::MULTIPLIER)
            .wrapping_add(self.increment);
    }

    /// 32 uniform bits.
    pub(crate) const fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.step();
        let folded = (((old >> 18) ^ old) >> 27) as u32;
        folded.rotate_right((old >> 59) as u32)
    }

    /// Uniform in `0..bound`; 0 for a bound of 0. The bias is below `bound / 2^64`.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        let draw = ((self.next_u32() as u64) << 32) | self.next_u32() as u64;
        ((draw as u128 * bound as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_reference_sequence() {
        // The reference implementation's demonstration: pcg32_srandom(42, 54).
        let mut random = Random::new(42, 54);
        let expected = [
            0xa15c_02b7,
            0x7b47_f409,
            0xba1d_3330,
            0x83d2_f293,
            0xbfa4_784b,
            0xcbed_606e,
        ];
        assert_eq!([(); 6].map(|()| random.next_u32()), expected);
    }

    #[test]
    fn stays_below_its_bound_and_reaches_all_of_it() {
        let mut random = Random::new(1, 1);
        let mut seen = [0; 7];
        for _ in 0..700 {
            seen[random.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
