//! Times of each span in the order in which they came: the intervals of rows are computed from how much they differ.
//!
//! Owns at most `MOST` parts, whatever the length of an observation. It must never hold a sample by itself, nor decide when a part
//! ends: its owner does.

use tollgate_stats::{Interval, by_batches};

use crate::memory::SPANS;

/// Parts that are kept; beyond them two neighbours become one.
const MOST: usize = 256;

/// The times of a span that came within a part: for how many messages they stand, and their sum in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// For how many messages the samples stand.
    pub weight: u64,
    /// Nanoseconds, each as often as its sample counts; negative where more was taken off than there was.
    pub sum: i64,
}

/// Amounts of all spans.
pub(super) type Amounts = [Amount; SPANS];

/// Amounts of all spans, part by part.
#[derive(Clone, Debug, Default)]
pub struct Series {
    parts: Vec<Amounts>,
    /// Readings that make a part, as a power of two; all parts are as long but the last.
    doublings: u32,
    /// Readings in the last part.
    last: u32,
    /// Amounts counted before the next part.
    before: Option<Box<Amounts>>,
}

impl Series {
    /// A series of what comes after these counts.
    pub(super) fn since(before: Amounts) -> Self {
        Self {
            before: Some(Box::new(before)),
            ..Self::default()
        }
    }

    /// Adds what came until now, by counts that never go back. Nothing is added where no sample came to its end.
    pub(super) fn add(&mut self, now: &Amounts) {
        let before = self.before.as_deref().copied().unwrap_or_default();
        let came: Amounts = std::array::from_fn(|span| Amount {
            weight: now[span].weight.saturating_sub(before[span].weight),
            sum: now[span].sum.wrapping_sub(before[span].sum),
        });
        if came.iter().all(|one| one.weight == 0) {
            return;
        }
        self.before = Some(Box::new(*now));
        match self.parts.last_mut() {
            Some(part) if self.last < 1 << self.doublings => {
                merge(part, &came);
                self.last += 1;
            }
            _ => {
                if self.parts.len() == MOST {
                    self.halve();
                }
                self.parts.push(came);
                self.last = 1;
            }
        }
    }

    fn halve(&mut self) {
        let pairs = self.parts.chunks(2).map(|pair| {
            let mut first = pair[0];
            if let Some(second) = pair.get(1) {
                merge(&mut first, second);
            }
            first
        });
        self.parts = pairs.collect();
        self.doublings += 1;
    }

    /// The 95 % interval of a span's mean, by batch means; none where fewer than two parts hold a sample of it.
    pub(super) fn interval(&self, span: usize) -> Option<Interval> {
        let parts = self.parts.iter().map(|part| part[span]);
        let parts: Vec<Amount> = parts.filter(|one| one.weight > 0).collect();
        let weight = parts.iter().map(|one| one.weight as f64).sum::<f64>();
        let ratio = parts.iter().map(|one| one.sum as f64).sum::<f64>() / weight;
        // The variance of a ratio of sums is that of these values (Cochran 1977, section 6.4): a part counts by the messages it stands for.
        let scale = parts.len() as f64 / weight;
        let values: Vec<f64> = parts
            .iter()
            .map(|one| ratio + (one.sum as f64 - ratio * one.weight as f64) * scale)
            .collect();
        by_batches(&values, |batch| {
            (!batch.is_empty()).then(|| batch.iter().sum::<f64>() / batch.len() as f64)
        })
    }
}

fn merge(into: &mut Amounts, other: &Amounts) {
    for (into, other) in into.iter_mut().zip(other) {
        into.weight += other.weight;
        into.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series of a span whose parts stand for so many messages of so many nanoseconds each.
    fn series(parts: &[(u64, u64)]) -> Series {
        let mut series = Series::since([Amount::default(); SPANS]);
        let mut now = [Amount::default(); SPANS];
        for &(weight, ns) in parts {
            now[3].weight += weight;
            now[3].sum += (weight * ns) as i64;
            series.add(&now);
        }
        series
    }

    #[test]
    fn series_of_one_part_has_no_interval() {
        assert_eq!(series(&[(5, 100)]).interval(3), None);
        assert_eq!(series(&[]).interval(3), None);
        // A reading without a sample is no part.
        assert_eq!(series(&[(5, 100), (0, 0)]).interval(3), None);
    }

    #[test]
    fn interval_is_around_the_mean_of_all_messages() {
        let interval = series(&[(1, 100), (3, 104), (1, 100), (3, 104)])
            .interval(3)
            .unwrap();
        let middle = f64::midpoint(interval.low, interval.high);
        assert!((middle - 103.0).abs() < 1e-9, "{interval:?}");
        assert!(interval.low < 102.0 && interval.high > 104.0);
        let same = series(&[(1, 100); 20]).interval(3).unwrap();
        assert_eq!((same.low, same.high), (100.0, 100.0));
    }

    #[test]
    fn interval_counts_parts_by_their_messages() {
        // A few slow messages before the traffic begins move the mean from 100 to 101.1 ns.
        let mut parts = vec![(1, 10_000); 2];
        parts.extend([(1_000, 100); 18]);
        let interval = series(&parts).interval(3).unwrap();
        assert!(interval.low > 97.0 && interval.high < 105.0, "{interval:?}");
        assert!(
            interval.low < 100.0 && interval.high > 101.1,
            "{interval:?}"
        );
    }

    #[test]
    fn series_counts_from_where_it_began() {
        let mut before = [Amount::default(); SPANS];
        before[3] = Amount {
            weight: 10,
            sum: 9_000,
        };
        let mut series = Series::since(before);
        for _ in 0..2 {
            before[3].weight += 1;
            before[3].sum += 50;
            series.add(&before);
        }
        let interval = series.interval(3).unwrap();
        assert_eq!((interval.low, interval.high), (50.0, 50.0));
    }

    proptest::proptest! {
        /// However long it is, it stays small and loses nothing.
        #[test]
        fn long_series_is_thinned_and_loses_nothing(count in 1_usize..3_000) {
            let parts: Vec<(u64, u64)> = (0..count as u64).map(|at| (1 + at % 3, at)).collect();
            let series = series(&parts);
            proptest::prop_assert!(series.parts.len() <= MOST);
            let weight: u64 = series.parts.iter().map(|part| part[3].weight).sum();
            let sum: i64 = series.parts.iter().map(|part| part[3].sum).sum();
            proptest::prop_assert_eq!(weight, parts.iter().map(|one| one.0).sum::<u64>());
            proptest::prop_assert_eq!(sum as u64, parts.iter().map(|one| one.0 * one.1).sum::<u64>());
        }
    }
}
