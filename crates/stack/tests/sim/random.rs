//! The numbers that a run is made of: SplitMix64 (Steele, Lea and Flood 2014).

use std::time::Duration;

/// A seeded stream of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a scenario's seed.
    pub fn new(scenario: &str, seed: u64) -> Self {
        // FNV-1a, so that the scenarios' streams differ.
        let name = scenario
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self(name ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Like [`Random::between`], small numbers as likely as large ones.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let bits = u64::BITS - (high - low).leading_zeros();
        let bits = self.between(0, u64::from(bits));
        let mask = u64::MAX.checked_shr(64 - bits as u32).unwrap_or(0);
        (low + (self.next() & mask)).min(high)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// A time up to `most`.
    pub fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.between(0, most.as_nanos() as u64))
    }

    /// A stream of its own.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }
}
