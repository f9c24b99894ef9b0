//! The numbers that a run is made of: from a seed, or from a fuzzer's bytes for as long as they last.

use super::splitmix::Random;
use tollgate_stack::config::Mechanisms;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Numbers<'a> {
    bytes: &'a [u8],
    random: Random,
}

impl Numbers<'static> {
    /// The stream of a seed, another one under each name.
    pub fn new(name: &str, seed: u64) -> Self {
        Self {
            bytes: &[],
            random: Random::new(name, seed),
        }
    }
}

impl<'a> Numbers<'a> {
    /// The stream that begins with a fuzzer's bytes. A seed that is taken from them continues it.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        // FNV-1a.
        let seed = bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self {
            bytes,
            random: Random::new("bytes", seed),
        }
    }

    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: u64) -> u64 {
        let wanted = match n {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            0x1_0001..=0x1_0000_0000 => 4,
            _ => 8,
        };
        let Some((taken, left)) = self.bytes.split_at_checked(wanted) else {
            self.bytes = &[];
            return self.random.next() % n;
        };
        self.bytes = left;
        let number = taken
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte));
        number % n
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Like [`Numbers::between`], small numbers as likely as large ones.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let bits = u64::from(u64::BITS - (high - low).leading_zeros());
        let bits = self.between(0, bits);
        (low + self.below(1 << bits)).min(high)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, each as likely as its weight says.
    pub fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> T {
        let mut at = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for &(weight, choice) in choices {
            if at < weight {
                return choice;
            }
            at -= weight;
        }
        choices[0].1
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Mechanisms of which each that `drawn` names has its usual value or, as often, any.
    pub fn mechanisms(&mut self, usual: Mechanisms, drawn: impl Fn(&str) -> bool) -> Mechanisms {
        let mut mechanisms = usual;
        for switch in Mechanisms::SWITCHES {
            if drawn(switch.name) && self.one_in(2) {
                let value = self.pick(switch.values);
                mechanisms
                    .set(switch.name, value)
                    .expect("the mechanism has this value");
            }
        }
        mechanisms
    }
}
