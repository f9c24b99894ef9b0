//! Samples of a session: a histogram of at most 0.1 % error beside exact sums.

use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Frequency of clock readings.
///
/// Reading it costs some 20 ns, which a round trip through the kernel does not notice and one of 200 ns does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// After each operation: the histogram holds single operations.
    Each,
    /// After so many operations: the histogram holds the means of batches, so its tail is shorter than that of single
    /// operations.
    Batch(u32),
}

impl Timing {
    /// Operations per reading of the clock.
    pub const fn operations(self) -> u32 {
        match self {
            Self::Each => 1,
            Self::Batch(n) => n,
        }
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Each => f.write_str("operation"),
            Self::Batch(n) => write!(f, "batch of {n}"),
        }
    }
}

/// Samples that were taken in different ways cannot be put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("samples timed per {ours} and per {theirs} cannot be put together")]
pub struct MixedTimings {
    /// Timing of the samples at hand.
    pub ours: Timing,
    /// Timing of the others.
    pub theirs: Timing,
}

/// Samples of a session. All times are nanoseconds.
///
/// A batch of `m` operations that took `x` ns counts as `m` operations of `x / m` ns each: it enters the histogram `m`
/// times, the sum with `x` and the sum of squares with `x * x / m`. With [`Timing::Each`] both sums are exact; with
/// batches the sum is exact and each batch's square is rounded to 1 ns².
#[derive(Clone)]
pub struct Samples {
    timing: Timing,
    histogram: Histogram<u64>,
    operations: u64,
    readings: u64,
    sum_ns: u128,
    sum_of_squares: u128,
    min_ns: u64,
    max_ns: u64,
    bytes: u64,
    elapsed_ns: u64,
    lost: u64,
}

/// Significant decimal digits of the histogram: an error of at most 0.1 % of a value.
const DIGITS: u8 = 3;
/// The histogram's upper end, 1000 s; the exact maximum is kept beside it.
const HIGHEST_NS: u64 = 1_000_000_000_000;

impl Samples {
    /// Nothing measured yet.
    pub fn new(timing: Timing) -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS)
            .expect("1 ns to 1000 s at 3 digits are bounds that a histogram can have");
        Self {
            timing,
            histogram,
            operations: 0,
            readings: 0,
            sum_ns: 0,
            sum_of_squares: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            bytes: 0,
            elapsed_ns: 0,
            lost: 0,
        }
    }

    /// Adds `operations` operations that took `ns` together. Adds nothing when `operations` is 0.
    #[inline]
    pub fn record(&mut self, ns: u64, operations: u32) {
        if operations == 0 {
            return;
        }
        let n = u64::from(operations);
        let each = if n == 1 { ns } else { (ns + n / 2) / n };
        self.histogram.saturating_record_n(each, n);
        self.operations += n;
        self.readings += 1;
        self.sum_ns += u128::from(ns);
        let square = u128::from(ns) * u128::from(ns);
        self.sum_of_squares += if n == 1 {
            square
        } else {
            (square + u128::from(n / 2)) / u128::from(n)
        };
        self.min_ns = self.min_ns.min(each);
        self.max_ns = self.max_ns.max(each);
    }

    /// Adds user bytes that were carried and the whole time of a slice, first operation's start to last operation's end.
    pub fn add_slice(&mut self, bytes: u64, elapsed_ns: u64) {
        self.bytes += bytes;
        self.elapsed_ns += elapsed_ns;
    }

    /// Adds messages that were lost on the way. None of the times is theirs.
    pub fn add_lost(&mut self, messages: u64) {
        self.lost += messages;
    }

    /// Adds what `other` holds.
    ///
    /// # Errors
    /// [`MixedTimings`] when the two were timed in different ways; nothing is added then.
    pub fn merge(&mut self, other: &Self) -> Result<(), MixedTimings> {
        self.check_timing(other.timing)?;
        self.histogram
            .add(&other.histogram)
            .expect("both histograms have the same bounds");
        self.operations += other.operations;
        self.readings += other.readings;
        self.sum_ns += other.sum_ns;
        self.sum_of_squares += other.sum_of_squares;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.bytes += other.bytes;
        self.elapsed_ns += other.elapsed_ns;
        self.lost += other.lost;
        Ok(())
    }

    /// Refuses times that were taken in another way than these.
    ///
    /// # Errors
    /// [`MixedTimings`].
    pub fn check_timing(&self, theirs: Timing) -> Result<(), MixedTimings> {
        if self.timing == theirs {
            Ok(())
        } else {
            Err(MixedTimings {
                ours: self.timing,
                theirs,
            })
        }
    }

    /// Messages that were lost on the way.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Tells whether these are single operations or batches.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Operations recorded.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Readings of the clock that were recorded: operations, or batches. This is the number of observations that a
    /// confidence interval may count on.
    pub fn readings(&self) -> u64 {
        self.readings
    }

    /// The exact sum of all recorded times, in ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The sum of the squares of the times per operation, in ns².
    pub fn sum_of_squares(&self) -> u128 {
        self.sum_of_squares
    }

    /// User bytes carried: requests and responses, or what was written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The whole time of the slices, in ns.
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// The exact smallest time per operation (of a batch: its mean), in ns.
    pub fn min_ns(&self) -> Option<u64> {
        (self.operations > 0).then_some(self.min_ns)
    }

    /// The exact largest time per operation (of a batch: its mean), in ns.
    pub fn max_ns(&self) -> Option<u64> {
        (self.operations > 0).then_some(self.max_ns)
    }

    /// The time that a share `q` (0 to 1) of the operations did not exceed, in ns, at most 0.1 % off.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        (self.operations > 0).then(|| self.histogram.value_at_quantile(q.clamp(0.0, 1.0)))
    }

    /// The interquartile mean of the operations, in ns. Unlike a quantile it is finer than the
    /// clock's step, and what disturbs less than a quarter of the operations does not move it.
    pub fn interquartile_mean_ns(&self) -> Option<f64> {
        let n = self.operations as f64;
        let (low, high) = (n / 4.0, 3.0 * n / 4.0);
        let (mut before, mut sum) = (0.0, 0.0);
        for (ns, operations) in self.buckets() {
            let until = before + operations as f64;
            sum += ns * (until.min(high) - before.max(low)).max(0.0);
            before = until;
            if before >= high {
                break;
            }
        }
        (self.operations > 0).then(|| sum / (high - low))
    }

    /// The histogram as (time in ns, operations), ascending, without empty places. A time is the middle of those that its place holds, so
    /// that means are not moved by how wide places are.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let middle = |last: u64| {
            let first = self.histogram.lowest_equivalent(last);
            first as f64 + (last - first) as f64 / 2.0
        };
        self.histogram.iter_recorded().map(move |v| {
            let last = v.value_iterated_to();
            (middle(last), v.count_since_last_iteration())
        })
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples")
            .field("timing", &self.timing)
            .field("operations", &self.operations)
            .field("readings", &self.readings)
            .field("sum_ns", &self.sum_ns)
            .field("bytes", &self.bytes)
            .field("elapsed_ns", &self.elapsed_ns)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn empty_samples_have_no_quantiles() {
        let samples = Samples::new(Timing::Each);
        assert_eq!(samples.quantile_ns(0.5), None);
        assert_eq!(samples.min_ns(), None);
        assert_eq!(samples.max_ns(), None);
        assert_eq!(samples.buckets().count(), 0);
    }

    #[test]
    fn interquartile_mean_is_finer_than_a_step_and_keeps_out_what_disturbs() {
        let of = |times: &[u64]| {
            let mut samples = Samples::new(Timing::Each);
            times.iter().for_each(|&ns| samples.record(ns, 1));
            samples.interquartile_mean_ns()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[80]), Some(80.0));
        assert_eq!(of(&[10, 80, 81, 900_000]), Some(80.5));
        // Of six values the middle three count: two whole, and half of each beside them.
        assert_eq!(of(&[1, 80, 80, 83, 83, 900]), Some(81.5));
    }

    #[test]
    fn a_batch_counts_as_its_operations() {
        let mut samples = Samples::new(Timing::Batch(4));
        samples.record(1000, 4);
        samples.record(301, 1);
        assert_eq!(samples.operations(), 5);
        assert_eq!(samples.readings(), 2);
        assert_eq!(samples.sum_ns(), 1301);
        assert_eq!(samples.sum_of_squares(), 1000 * 1000 / 4 + 301 * 301);
        assert_eq!(samples.quantile_ns(0.5), Some(250));
        assert_eq!(samples.max_ns(), Some(301));
    }

    #[test]
    fn means_are_not_moved_by_how_wide_places_are() {
        let mut samples = Samples::new(Timing::Each);
        // Values that share places of 16 ns.
        let values = 16_384..16_384 + 64;
        values.clone().for_each(|ns| samples.record(ns, 1));
        let sum: f64 = samples.buckets().map(|(ns, count)| ns * count as f64).sum();
        assert_eq!(sum, values.sum::<u64>() as f64);
        let middle = samples.interquartile_mean_ns().unwrap();
        assert!((middle - (16_384.0 + 31.5)).abs() < 0.01, "{middle}");
    }

    #[test]
    fn merging_other_timing_is_refused_and_changes_nothing() {
        let mut each = Samples::new(Timing::Each);
        each.record(7, 1);
        let mut batch = Samples::new(Timing::Batch(8));
        batch.record(80, 8);
        let error = each.merge(&batch).unwrap_err();
        assert_eq!(
            error.to_string(),
            "samples timed per operation and per batch of 8 cannot be put together"
        );
        assert_eq!(each.operations(), 1);
        assert_eq!(each.sum_ns(), 7);
    }

    #[test]
    fn times_above_the_histogram_keep_their_exact_maximum() {
        let mut samples = Samples::new(Timing::Each);
        samples.record(3 * HIGHEST_NS, 1);
        assert_eq!(samples.max_ns(), Some(3 * HIGHEST_NS));
        assert_eq!(samples.operations(), 1);
        assert_eq!(samples.buckets().map(|(_, n)| n).sum::<u64>(), 1);
    }

    proptest! {
        #[test]
        fn merging_parts_equals_recording_all(times in prop::collection::vec(0u64..10_000_000, 1..200), cut in 0usize..200) {
            let cut = cut.min(times.len());
            let mut all = Samples::new(Timing::Each);
            let (mut a, mut b) = (Samples::new(Timing::Each), Samples::new(Timing::Each));
            for (i, &t) in times.iter().enumerate() {
                all.record(t, 1);
                let part = if i < cut { &mut a } else { &mut b };
                part.record(t, 1);
                part.add_slice(8, t);
                all.add_slice(8, t);
            }
            a.merge(&b).unwrap();
            prop_assert_eq!(a.operations(), all.operations());
            prop_assert_eq!(a.readings(), all.readings());
            prop_assert_eq!(a.sum_ns(), all.sum_ns());
            prop_assert_eq!(a.sum_of_squares(), all.sum_of_squares());
            prop_assert_eq!(a.bytes(), all.bytes());
            prop_assert_eq!(a.elapsed_ns(), all.elapsed_ns());
            prop_assert_eq!(a.min_ns(), times.iter().min().copied());
            prop_assert_eq!(a.max_ns(), times.iter().max().copied());
            prop_assert_eq!(a.buckets().collect::<Vec<_>>(), all.buckets().collect::<Vec<_>>());
        }

        #[test]
        fn quantiles_are_within_one_in_a_thousand(mut times in prop::collection::vec(1u64..1_000_000_000, 1..300), q in 0.0f64..=1.0) {
            let mut samples = Samples::new(Timing::Each);
            for &t in &times {
                samples.record(t, 1);
            }
            times.sort_unstable();
            // The product is rounded before its ceiling is taken, so either neighbour may be meant.
            let rank = q * times.len() as f64;
            let low = times[((rank - 1e-6).ceil() as usize).clamp(1, times.len()) - 1];
            let high = times[((rank + 1e-6).ceil() as usize).clamp(1, times.len()) - 1];
            let got = samples.quantile_ns(q).unwrap() as f64;
            prop_assert!(got >= low as f64 * 0.999 && got <= high as f64 * 1.001, "{} not in {}..{}", got, low, high);
        }
    }
}
