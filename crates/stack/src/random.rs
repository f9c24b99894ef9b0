//! Random numbers from the stack's seed: SipHash-2-4 of a counter, under a key of its own.
//!
//! A keyed hash instead of a fast generator: some of these numbers can be observed from outside (ports, the sizes of
//! limits), and must not give the next ones away.

use crate::demux::{FlowKey, Sip};

/// A source of random numbers, the same ones for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    sip: Sip,
    drawn: u64,
}

impl Random {
    /// Makes a source from a secret key.
    pub(crate) fn new(key: [u64; 2]) -> Self {
        Self {
            sip: Sip::new(key),
            drawn: 0,
        }
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.drawn += 1;
        self.sip.flow::<2, 4>(FlowKey {
            remote: self.drawn as u32,
            local: (self.drawn >> 32) as u32,
            ports: 0,
        })
    }

    /// A number below `bound`, or 0 when that is 0. The bias is below 2^-32.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        // The high half of a product maps 64 bits onto the range without a division.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_follow_from_the_key_and_stay_below_their_bound() {
        let (mut a, mut b, mut c) = (
            Random::new([1, 2]),
            Random::new([1, 2]),
            Random::new([1, 3]),
        );
        let mut seen = [false; 10];
        for _ in 0..200 {
            let n = a.below(10);
            assert_eq!(n, b.below(10));
            seen[n as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_ne!(a.next(), c.next());
        assert_eq!(a.below(0), 0);
    }
}
