//! A distribution of times: mean, and percentiles from a histogram of at most 0.1 % error.

use hdrhistogram::Histogram;

/// Times in nanoseconds, with fractions down to a picosecond.
///
/// Times may be negative, since two processors may note the ends of a hand-over in the wrong order. The mean holds them
/// as they are; the histogram cannot, so it holds them as zero, and [`Self::below_zero`] counts them.
#[derive(Clone, Debug)]
pub struct Distribution {
    sum_ns: f64,
    below_zero: u64,
    /// In picoseconds.
    histogram: Histogram<u64>,
}

const PS_PER_NS: f64 = 1e3;

/// The numbers of a distribution. All times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of times.
    pub n: u64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
    /// The 99.9th percentile.
    pub p999_ns: f64,
}

impl Summary {
    /// The same distribution with every time `ns` shorter.
    #[must_use]
    pub fn less(self, ns: f64) -> Self {
        Self {
            n: self.n,
            mean_ns: self.mean_ns - ns,
            p50_ns: self.p50_ns - ns,
            p99_ns: self.p99_ns - ns,
            p999_ns: self.p999_ns - ns,
        }
    }
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// A distribution of nothing.
    pub fn new() -> Self {
        let histogram =
            Histogram::new(3).expect("a histogram of three significant digits can be made");
        Self {
            sum_ns: 0.0,
            below_zero: 0,
            histogram,
        }
    }

    /// Adds a time. What is not a finite number counts as zero and as below zero.
    pub fn record_ns(&mut self, ns: f64) {
        let ns = if ns.is_finite() { ns } else { -0.0 };
        self.sum_ns += ns;
        self.below_zero += u64::from(ns.is_sign_negative());
        let ps = (ns.max(0.0) * PS_PER_NS).round() as u64;
        if self.histogram.record(ps).is_err() {
            // Only where the histogram's size exceeds the address space.
            self.histogram.saturating_record(ps);
        }
    }

    /// Adds all times of another distribution.
    pub fn merge(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        self.below_zero += other.below_zero;
        for value in other.histogram.iter_recorded() {
            let (ps, n) = (value.value_iterated_to(), value.count_at_value());
            if self.histogram.record_n(ps, n).is_err() {
                self.histogram.saturating_record_n(ps, n);
            }
        }
    }

    /// The number of times.
    pub fn n(&self) -> u64 {
        self.histogram.len()
    }

    /// The sum in nanoseconds.
    pub fn sum_ns(&self) -> f64 {
        self.sum_ns
    }

    /// Times below zero.
    pub fn below_zero(&self) -> u64 {
        self.below_zero
    }

    /// The mean in nanoseconds; none without a time.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.n() > 0).then(|| self.sum_ns / self.n() as f64)
    }

    /// The mean in nanoseconds of all but the longest hundredth; none without a time. Times below zero count as zero
    /// here.
    pub fn trimmed_mean_ns(&self) -> Option<f64> {
        let kept = self.n() - self.n() / 100;
        let mut left = kept;
        let mut sum_ps = 0.0;
        for value in self.histogram.iter_recorded() {
            let n = value.count_at_value().min(left);
            let ps = self.histogram.median_equivalent(value.value_iterated_to());
            sum_ps += ps as f64 * n as f64;
            left -= n;
        }
        (kept > 0).then(|| sum_ps / kept as f64 / PS_PER_NS)
    }

    /// The time in nanoseconds that a share of `q` (0 to 1) does not exceed; none without a time.
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        (self.n() > 0).then(|| {
            let ps = self.histogram.value_at_quantile(q);
            // The histogram answers with the upper end of a bucket; its middle is without bias.
            self.histogram.median_equivalent(ps) as f64 / PS_PER_NS
        })
    }

    /// The numbers; none without a time.
    pub fn summary(&self) -> Option<Summary> {
        Some(Summary {
            n: self.n(),
            mean_ns: self.mean_ns()?,
            p50_ns: self.quantile_ns(0.5)?,
            p99_ns: self.quantile_ns(0.99)?,
            p999_ns: self.quantile_ns(0.999)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_numbers() {
        assert_eq!(Distribution::new().summary(), None);
    }

    #[test]
    fn negative_times_stay_in_the_mean_and_are_counted() {
        let mut times = Distribution::new();
        for ns in [-4.0, 10.0, 12.0, f64::NAN] {
            times.record_ns(ns);
        }
        assert_eq!(times.mean_ns(), Some(4.5));
        assert_eq!((times.n(), times.below_zero()), (4, 2));
        assert_eq!(times.quantile_ns(0.25), Some(0.0));
    }

    #[test]
    fn a_quiet_zero_is_not_below_zero() {
        let mut times = Distribution::new();
        times.record_ns(0.0);
        assert_eq!(times.below_zero(), 0);
    }

    #[test]
    fn percentiles_of_a_ramp_are_those_of_the_ramp() {
        let mut times = Distribution::new();
        for ns in 1..=1_000 {
            times.record_ns(f64::from(ns));
        }
        let summary = times.summary().unwrap();
        assert_eq!((summary.n, summary.mean_ns), (1_000, 500.5));
        for (is, ought) in [
            (summary.p50_ns, 500.0),
            (summary.p99_ns, 990.0),
            (summary.p999_ns, 999.0),
        ] {
            assert!((is / ought - 1.0_f64).abs() <= 0.001, "{is} for {ought}");
        }
    }

    #[test]
    fn the_longest_hundredth_is_left_out_of_the_trimmed_mean() {
        let mut times = Distribution::new();
        assert_eq!(times.trimmed_mean_ns(), None);
        for i in 0..200 {
            times.record_ns(if i % 100 == 0 {
                1e9
            } else {
                f64::from(i % 2) * 10.0 + 10.0
            });
        }
        // 98 short ones of 10 and 100 long ones of 20 stay.
        let ought = (98.0 * 10.0 + 100.0 * 20.0) / 198.0;
        let is = times.trimmed_mean_ns().unwrap();
        assert!((is / ought - 1.0).abs() <= 0.001, "{is} for {ought}");
    }

    proptest! {
        #[test]
        fn a_time_comes_back_within_a_thousandth(ns in 0.001f64..1e12) {
            let mut times = Distribution::new();
            times.record_ns(ns);
            let back = times.quantile_ns(0.5).unwrap();
            prop_assert!((back - ns).abs() <= ns * 0.001 + 0.001);
        }

        #[test]
        fn merging_is_recording_all(
            a in proptest::collection::vec(-100.0f64..1e6, 0..30),
            b in proptest::collection::vec(-100.0f64..1e6, 0..30),
        ) {
            let distribution = |all: &[f64]| {
                let mut times = Distribution::new();
                all.iter().for_each(|&ns| times.record_ns(ns));
                times
            };
            let mut merged = distribution(&a);
            merged.merge(&distribution(&b));
            let whole = distribution(&[a, b].concat());
            prop_assert_eq!(merged.n(), whole.n());
            prop_assert_eq!(merged.below_zero(), whole.below_zero());
            prop_assert!((merged.sum_ns() - whole.sum_ns()).abs() <= 1e-6 * (1.0 + whole.sum_ns().abs()));
            for q in [0.1, 0.5, 0.99] {
                prop_assert_eq!(merged.quantile_ns(q), whole.quantile_ns(q));
            }
        }
    }
}
