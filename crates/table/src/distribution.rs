//! The distribution of message sizes, exactly: how many messages there are of each size.

use std::collections::BTreeMap;

use serde::Serialize;

/// Counts of messages by their size in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    counts: BTreeMap<u32, u64>,
}

/// Messages of a stretch of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// The least size, in bytes.
    pub from: u32,
    /// The largest size.
    pub to: u32,
    /// The count of messages.
    pub messages: u64,
    /// Of all, from 0 to 1.
    pub share: f64,
}

/// Two kinds of messages with few between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Modes {
    /// The fullest bin on the side of small ones.
    pub small: Bin,
    /// The fullest bin on the side of large ones.
    pub large: Bin,
    /// The emptiest bin between them.
    pub between: Bin,
    /// The share of messages below the emptiest bin, from 0 to 1.
    pub below: f64,
    /// The share of messages above it.
    pub above: f64,
}

/// A bin with less than this share is no mode.
const LEAST_MODE: f64 = 0.02;
/// Between two modes a bin is at most this part of the lesser one.
const VALLEY: f64 = 0.5;

impl Sizes {
    /// Adds `n` messages of `size`.
    pub fn add(&mut self, size: u32, n: u64) {
        *self.counts.entry(size).or_default() += n;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        other
            .counts
            .iter()
            .for_each(|(size, n)| self.add(*size, *n));
    }

    /// The count of messages.
    pub fn messages(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The sum of their bytes.
    pub fn bytes(&self) -> u64 {
        self.counts
            .iter()
            .map(|(size, n)| u64::from(*size) * n)
            .sum()
    }

    /// The least size such that a share `q` (0 to 1) of the messages is no larger; nothing when there are none.
    pub fn quantile(&self, q: f64) -> Option<u32> {
        let rank = ((self.messages() as f64 * q).ceil() as u64).max(1);
        let mut passed = 0;
        self.counts
            .iter()
            .find(|(_, n)| {
                passed += **n;
                passed >= rank
            })
            .map(|(size, _)| *size)
    }

    /// The share (0 to 1) of messages from `from` bytes on and below `below`.
    pub fn share(&self, from: u32, below: u32) -> f64 {
        let within: u64 = self.counts.range(from..below).map(|(_, n)| n).sum();
        within as f64 / self.messages().max(1) as f64
    }

    /// The largest; nothing when there are none.
    pub fn largest(&self) -> Option<u32> {
        self.counts.last_key_value().map(|(size, _)| *size)
    }

    /// Bins by powers of two: 0, 1, 2 to 3, 4 to 7 and so on; the last ends with the largest size.
    pub fn bins(&self) -> Vec<Bin> {
        let all = self.messages().max(1) as f64;
        let largest = self.largest().unwrap_or(0);
        let last = self.largest().map_or(0, |size| bits(size) + 1);
        let mut bins: Vec<Bin> = (0..last)
            .map(|bits| Bin {
                from: if bits == 0 { 0 } else { 1 << (bits - 1) },
                to: if bits == 0 {
                    0
                } else {
                    largest.min(u32::MAX >> (32 - bits))
                },
                messages: 0,
                share: 0.0,
            })
            .collect();
        for (size, n) in &self.counts {
            bins[bits(*size) as usize].messages += n;
        }
        for bin in &mut bins {
            bin.share = bin.messages as f64 / all;
        }
        bins
    }

    /// The two modes, when there are two: bins of at least 2 % of the messages each, with one between them that has at most
    /// half of the lesser.
    pub fn modes(&self) -> Option<Modes> {
        let bins = self.bins();
        let mut best: Option<(usize, usize, usize)> = None;
        let share = |at: usize| bins[at].share;
        for small in 0..bins.len() {
            for large in small + 2..bins.len() {
                let lesser = share(small).min(share(large));
                let valley = (small + 1..large)
                    .min_by(|one, other| share(*one).total_cmp(&share(*other)))
                    .filter(|valley| lesser >= LEAST_MODE && share(*valley) <= lesser * VALLEY);
                let better = best.is_none_or(|(a, _, b)| {
                    let held = share(a).min(share(b));
                    lesser > held
                        || lesser == held && share(small) + share(large) > share(a) + share(b)
                });
                if let Some(valley) = valley
                    && better
                {
                    best = Some((small, valley, large));
                }
            }
        }
        best.map(|(small, valley, large)| Modes {
            small: bins[small],
            large: bins[large],
            between: bins[valley],
            below: bins[..valley].iter().map(|bin| bin.share).sum(),
            above: bins[valley + 1..].iter().map(|bin| bin.share).sum(),
        })
    }
}

/// Bin of a size.
const fn bits(size: u32) -> u32 {
    u32::BITS - size.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(counts: &[(u32, u64)]) -> Sizes {
        let mut sizes = Sizes::default();
        counts.iter().for_each(|(size, n)| sizes.add(*size, *n));
        sizes
    }

    #[test]
    fn quantiles_are_sizes_that_occur() {
        let sizes = sizes(&[(1, 50), (100, 49), (8_192, 1)]);
        assert_eq!(sizes.quantile(0.5), Some(1));
        assert_eq!(sizes.quantile(0.51), Some(100));
        assert_eq!(sizes.quantile(0.99), Some(100));
        assert_eq!(sizes.quantile(1.0), Some(8_192));
        assert_eq!(sizes.bytes(), 50 + 4_900 + 8_192);
        assert_eq!(Sizes::default().quantile(0.5), None);
        assert!((sizes.share(0, 200) - 0.99).abs() < 1e-12);
    }

    #[test]
    fn bins_hold_every_message_once() {
        let sizes = sizes(&[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (u32::MAX, 6)]);
        let bins = sizes.bins();
        assert_eq!(bins.iter().map(|bin| bin.messages).sum::<u64>(), 21);
        assert_eq!((bins[2].from, bins[2].to, bins[2].messages), (2, 3, 7));
        assert_eq!(bins.last().map(|bin| bin.to), Some(u32::MAX));
    }

    #[test]
    fn the_last_bin_ends_with_the_largest_size() {
        let sizes = sizes(&[(40, 80), (100, 5), (9_000, 15)]);
        let bins = sizes.bins();
        assert_eq!(
            bins.last().map(|bin| (bin.from, bin.to)),
            Some((8_192, 9_000))
        );
        assert_eq!(bins[7].to, 127);
        assert_eq!(sizes.modes().map(|modes| modes.large.to), Some(9_000));
    }

    #[test]
    fn two_kinds_are_told_from_one() {
        let two = sizes(&[(40, 80), (100, 5), (8_192, 15)]);
        let modes = two.modes().unwrap();
        assert_eq!((modes.small.from, modes.large.from), (32, 8_192));
        assert!((modes.below - 0.85).abs() < 1e-12 && (modes.above - 0.15).abs() < 1e-12);
        let even: Vec<(u32, u64)> = (32..2_048).map(|size| (size, 1)).collect();
        assert_eq!(sizes(&even).modes(), None);
        assert_eq!(sizes(&[(7, 100)]).modes(), None);
    }
}
