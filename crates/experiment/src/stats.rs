//! Statistics over samples and over interleaved repetitions.
//!
//! Two kinds of numbers come in: the [`Samples`] of one repetition, of which [`Summary`] gives mean, deviation and
//! percentiles, and one figure per repetition (a mean or a median), over which intervals are computed. Successive round
//! trips depend on each other, repetitions much less so; therefore what is compared is repetitions. All intervals have
//! 95 % confidence.
//!
//! Nothing here measures, and nothing is rounded: rendering does that.
//!
//! Sources: Student, "The probable error of a mean" (1908); Jain, "The Art of Computer Systems Performance Analysis"
//! (1991), chapters 12 and 13; Conover, "Practical Nonparametric Statistics" (1999), section 3.2; Fleming and Wallace, "How
//! not to lie with statistics" (1986); Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), section 26.7.

mod line;
mod many;

pub use line::{Line, line};
pub use many::{beyond_student, holm};

use tollgate_workload::Samples;

use crate::words::counted;

/// Why a statistic cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatsError {
    /// Fewer values than the statistic needs.
    #[error("{} too few, {need} are needed for a 95 % interval", counted(*.have, "value is", "values are"))]
    TooFew {
        /// Values at hand.
        have: u64,
        /// Values needed.
        need: u64,
    },
    /// Interleaved runs come in pairs.
    #[error("interleaved runs come in pairs, and there are {a} against {b}")]
    Unpaired {
        /// Values on one side.
        a: usize,
        /// Values on the other side.
        b: usize,
    },
    /// A value that is infinite or no number.
    #[error("a value is infinite or not a number")]
    NotFinite,
    /// A ratio of values that are not all above zero.
    #[error("a ratio needs values above zero")]
    NotPositive,
}

/// A confidence interval, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies in it.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether the two have a value in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// A value with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Where it lies with 95 % confidence.
    pub interval: Interval,
    /// From how many observations it was computed.
    pub n: u64,
}

/// What one repetition's samples say. Times are nanoseconds per operation; when the samples were timed in batches, all but
/// the mean are those of batch means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Operations.
    pub operations: u64,
    /// Readings of the clock: operations, or batches.
    pub readings: u64,
    /// Exact arithmetic mean, `S / n`.
    pub mean: f64,
    /// Standard deviation of a reading, see [`standard_deviation`]; `None` for a single reading.
    pub standard_deviation: Option<f64>,
    /// The exact smallest.
    pub min: u64,
    /// Median, at most 0.1 % off, like all percentiles.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// The exact largest.
    pub max: u64,
}

impl Summary {
    /// Summarises samples; `None` when there are none.
    pub fn of(samples: &Samples) -> Option<Self> {
        let percentile = |q| samples.quantile_ns(q);
        Some(Self {
            operations: samples.operations(),
            readings: samples.readings(),
            mean: mean_of(samples)?,
            standard_deviation: standard_deviation(samples),
            min: samples.min_ns()?,
            p50: percentile(0.5)?,
            p90: percentile(0.9)?,
            p99: percentile(0.99)?,
            p999: percentile(0.999)?,
            max: samples.max_ns()?,
        })
    }
}

/// The exact mean of samples in ns per operation, `S / n`; `None` when there are none.
pub fn mean_of(samples: &Samples) -> Option<f64> {
    (samples.operations() > 0).then(|| samples.sum_ns() as f64 / samples.operations() as f64)
}

/// The standard deviation of samples, in ns: `sqrt((Q - S^2 / n) / n * K / (K - 1))`.
///
/// `S` is the sum, `Q` the sum of squares, `n` the operations and `K` the readings. When each operation is read, `K = n` and
/// this is the usual `sqrt((Q - S^2 / n) / (n - 1))` (Jain 1991, section 12.8). `None` below two readings.
pub fn standard_deviation(samples: &Samples) -> Option<f64> {
    let (n, k) = (samples.operations(), samples.readings());
    if k < 2 {
        return None;
    }
    // n Q - S^2 in integers where they suffice, since the two terms may be almost equal.
    let exact = u128::from(n)
        .checked_mul(samples.sum_of_squares())
        .and_then(|nq| Some(nq.saturating_sub(samples.sum_ns().checked_mul(samples.sum_ns())?)));
    let n = n as f64;
    let spread = match exact {
        Some(spread) => spread as f64,
        None => {
            let sum = samples.sum_ns() as f64;
            (n * samples.sum_of_squares() as f64 - sum * sum).max(0.0)
        }
    };
    let k = k as f64;
    Some((spread / (n * n) * k / (k - 1.0)).sqrt())
}

/// The median of samples with its distribution-free interval, in ns: the interval runs from the reading of rank `j` to
/// that of rank `K + 1 - j`, see [`median_rank`].
///
/// It takes readings as independent, which those of one repetition are only roughly; to compare, use one median per
/// repetition.
///
/// # Errors
/// [`StatsError::TooFew`] below 6 readings.
pub fn median_of_samples(samples: &Samples) -> Result<Estimate, StatsError> {
    let k = samples.readings();
    let too_few = StatsError::TooFew {
        have: k,
        need: MEDIAN_NEEDS,
    };
    let j = median_rank(k).ok_or(too_few)?;
    let at = |q: f64| samples.quantile_ns(q).map(|ns| ns as f64).ok_or(too_few);
    let interval = Interval {
        low: at(j as f64 / k as f64)?,
        high: at((k + 1 - j) as f64 / k as f64)?,
    };
    Ok(Estimate {
        value: at(0.5)?,
        interval,
        n: k,
    })
}

/// The middle of sorted values; none of none.
pub(crate) fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

/// The median of one figure per repetition with its distribution-free interval, see [`median_rank`].
///
/// # Errors
/// [`StatsError::TooFew`] below 6 values, [`StatsError::NotFinite`].
pub fn median(values: &[f64]) -> Result<Estimate, StatsError> {
    finite(values)?;
    let n = values.len() as u64;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(j), Some(value)) = (median_rank(n), middle(&sorted)) else {
        return Err(StatsError::TooFew {
            have: n,
            need: MEDIAN_NEEDS,
        });
    };
    let j = j as usize;
    Ok(Estimate {
        value,
        interval: Interval {
            low: sorted[j - 1],
            high: sorted[sorted.len() - j],
        },
        n,
    })
}

/// The fewest values whose smallest and largest enclose the median with 95 % confidence: `1 - 2 / 2^6` is 0.97.
const MEDIAN_NEEDS: u64 = 6;
/// Up to here the binomial distribution is summed; its first term `2^-n` is still a normal number.
const EXACT_BINOMIAL: u64 = 1000;

/// The rank `j` (counted from 1) for which the `j`th smallest and the `j`th largest of `n` values enclose the median with at
/// least 95 % confidence: the largest `j` with `P(Bin(n, 1/2) <= j - 1) <= 0.025` (Conover 1999, section 3.2). Above 1,000
/// values the normal approximation `j = floor((n - 1.96 sqrt(n)) / 2)` is used. `None` below 6 values.
pub fn median_rank(n: u64) -> Option<u64> {
    if n < MEDIAN_NEEDS {
        return None;
    }
    if n > EXACT_BINOMIAL {
        let n = n as f64;
        return Some(((n - NORMAL * n.sqrt()) / 2.0).floor() as u64);
    }
    let mut term = 0.5f64.powi(n as i32);
    let mut sum = term;
    let mut j = 0;
    while sum <= 0.025 {
        j += 1;
        term *= (n - j + 1) as f64 / j as f64;
        sum += term;
    }
    Some(j)
}

/// The mean of one figure per repetition with Student's interval: `m ± t(0.975, n - 1) s / sqrt(n)` (Jain 1991, section 13.2).
///
/// # Errors
/// [`StatsError::TooFew`] below two values, [`StatsError::NotFinite`].
pub fn mean(values: &[f64]) -> Result<Estimate, StatsError> {
    finite(values)?;
    let n = values.len() as u64;
    if n < 2 {
        return Err(StatsError::TooFew { have: n, need: 2 });
    }
    let count = n as f64;
    let value = values.iter().sum::<f64>() / count;
    let variance = values
        .iter()
        .map(|x| (x - value) * (x - value))
        .sum::<f64>()
        / (count - 1.0);
    let reach = student_t(n - 1) * (variance / count).sqrt();
    Ok(Estimate {
        value,
        interval: Interval {
            low: value - reach,
            high: value + reach,
        },
        n,
    })
}

/// The middle half of some things in the order of their times: a quarter of them, rounded down, is left out at either end.
pub(crate) fn middle_half<T>(mut all: Vec<T>, ns: impl Fn(&T) -> f64) -> Vec<T> {
    all.sort_by(|a, b| ns(a).total_cmp(&ns(b)));
    let beside = all.len() / 4;
    all.truncate(all.len() - beside);
    all.drain(..beside);
    all
}

/// The mean of the middle half, which a processor that is taken away now and then does not move; none of nothing.
pub(crate) fn typical(values: &[f64]) -> Option<f64> {
    let middle = middle_half(values.to_vec(), |value| *value);
    (!middle.is_empty()).then(|| middle.iter().sum::<f64>() / middle.len() as f64)
}

/// The most batches that [`by_batches`] makes.
const BATCHES: usize = 10;

/// The 95 % interval of a number of observations that came one after the other and depend on each other, by batch means: from how much
/// the number differs between batches of successive ones (Jain 1991, section 25.5.2). None of fewer than two observations, or where
/// all or a batch lack the number.
pub(crate) fn by_batches<T>(
    observations: &[T],
    number: impl Fn(&[T]) -> Option<f64>,
) -> Option<Interval> {
    let value = number(observations)?;
    let each = observations.len().div_ceil(BATCHES).max(1);
    let batches = observations.chunks(each).map(&number);
    let batches = mean(&batches.collect::<Option<Vec<f64>>>()?).ok()?;
    let reach = batches.interval.high - batches.value;
    Some(Interval {
        low: value - reach,
        high: value + reach,
    })
}

/// How one thing stands to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The first is less than the second.
    Less,
    /// The first is more than the second.
    More,
    /// The intervals overlap: no difference was shown.
    NoDifference,
}

/// The difference of two interleaved series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The mean of the first.
    pub a: Estimate,
    /// The mean of the second.
    pub b: Estimate,
    /// The mean of the differences `a - b` of the pairs.
    pub difference: Estimate,
    /// What may be said.
    pub verdict: Verdict,
}

/// Compares two series whose repetitions were interleaved (A B A B), so that the `i`th of each belong together.
///
/// The difference and its interval are those of the paired observations `a_i - b_i` (Jain 1991, section 13.4.1), from which
/// what both have in common, such as a slow drift of the machine, falls out. The verdict is stricter: it speaks of a
/// difference only when the intervals of the two means do not overlap and that of the difference leaves out zero.
///
/// # Errors
/// [`StatsError::Unpaired`], and what [`mean`] gives.
pub fn difference(a: &[f64], b: &[f64]) -> Result<Difference, StatsError> {
    let differences: Vec<f64> = pairs(a, b)?.map(|(a, b)| a - b).collect();
    let (a, b, difference) = (mean(a)?, mean(b)?, mean(&differences)?);
    let verdict = if a.interval.overlaps(&b.interval) || difference.interval.contains(0.0) {
        Verdict::NoDifference
    } else if difference.value < 0.0 {
        Verdict::Less
    } else {
        Verdict::More
    };
    Ok(Difference {
        a,
        b,
        difference,
        verdict,
    })
}

/// The ratio `a / b` of two series whose repetitions were interleaved: the geometric mean of the ratios of the pairs, with
/// the interval that Student's is on their logarithms, `exp(m ± t s / sqrt(n))` with `m` the mean of `ln(a_i / b_i)`. So
/// `ratio(a, b)` is exactly the reciprocal of `ratio(b, a)` (Fleming and Wallace 1986).
///
/// # Errors
/// [`StatsError::Unpaired`], [`StatsError::NotPositive`], and what [`mean`] gives.
pub fn ratio(a: &[f64], b: &[f64]) -> Result<Estimate, StatsError> {
    finite(a)?;
    finite(b)?;
    let pairs: Vec<(f64, f64)> = pairs(a, b)?.collect();
    if pairs.iter().any(|&(a, b)| a <= 0.0 || b <= 0.0) {
        return Err(StatsError::NotPositive);
    }
    let logarithms: Vec<f64> = pairs.iter().map(|(a, b)| a.ln() - b.ln()).collect();
    let log = mean(&logarithms)?;
    let interval = Interval {
        low: log.interval.low.exp(),
        high: log.interval.high.exp(),
    };
    Ok(Estimate {
        value: log.value.exp(),
        interval,
        n: log.n,
    })
}

fn pairs<'a>(
    a: &'a [f64],
    b: &'a [f64],
) -> Result<impl Iterator<Item = (f64, f64)> + 'a, StatsError> {
    if a.len() == b.len() {
        Ok(a.iter().copied().zip(b.iter().copied()))
    } else {
        Err(StatsError::Unpaired {
            a: a.len(),
            b: b.len(),
        })
    }
}

fn finite(values: &[f64]) -> Result<(), StatsError> {
    if values.iter().all(|x| x.is_finite()) {
        Ok(())
    } else {
        Err(StatsError::NotFinite)
    }
}

/// The 97.5 % point of the normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;
/// Above so many degrees of freedom the expansion for the t distribution is used.
const EXACT_STUDENT: u64 = 1000;

/// The 97.5 % point of Student's t distribution: 95 % of it lie within plus and minus this. Infinite for 0 degrees of freedom.
///
/// Up to 1,000 degrees it is where the closed form of `P(|T| <= t)` crosses 0.95 (Abramowitz and Stegun 26.7.3 and
/// 26.7.4); above, the expansion `z + (z^3 + z) / 4v + (5 z^5 + 16 z^3 + 3 z) / 96 v^2` (26.7.5).
pub fn student_t(degrees: u64) -> f64 {
    if degrees == 0 {
        return f64::INFINITY;
    }
    if degrees > EXACT_STUDENT {
        let (z, v) = (NORMAL, degrees as f64);
        return z
            + (z.powi(3) + z) / (4.0 * v)
            + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v);
    }
    // The answer falls from 12.71 for one degree towards the normal distribution's 1.96.
    let (mut low, mut high) = (1.9, 13.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if within(middle, degrees) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// `P(|T| <= t)` for a whole number of degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
fn within(t: f64, degrees: u64) -> f64 {
    let angle = (t / (degrees as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    if degrees % 2 == 1 {
        // theta + sin (cos + 2/3 cos^3 + 2*4/(3*5) cos^5 + ...), up to cos^(degrees - 2).
        let (mut sum, mut term, mut power) = (0.0, cos, 1);
        while power + 2 <= degrees {
            sum += term;
            term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
            power += 2;
        }
        std::f64::consts::FRAC_2_PI * (angle + sin * sum)
    } else {
        // sin (1 + 1/2 cos^2 + 1*3/(2*4) cos^4 + ...), up to cos^(degrees - 2).
        let (mut sum, mut term, mut power) = (0.0, 1.0, 0);
        while power + 2 <= degrees {
            sum += term;
            term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
            power += 2;
        }
        sin * sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_workload::Timing;

    use super::*;

    /// Cushny and Peebles' hours of sleep, the example of Student (1908), as R has them in `sleep`.
    const FIRST: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const SECOND: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    fn near(got: f64, want: f64, by: f64) {
        assert!((got - want).abs() <= by, "{got} is not {want}");
    }

    #[test]
    fn student_t_is_that_of_the_tables() {
        for (degrees, want) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (9, 2.262),
            (10, 2.228),
            (20, 2.086),
            (30, 2.042),
            (40, 2.021),
            (60, 2.000),
            (100, 1.984),
            (120, 1.980),
            (1000, 1.962),
            (100_000_000, 1.960),
        ] {
            near(student_t(degrees), want, 0.0005);
        }
        assert!(student_t(0).is_infinite());
    }

    #[test]
    fn batches_tell_how_well_what_depends_on_each_other_is_known() {
        // Ten states that last for a hundred observations each are ten observations, not a thousand.
        let drifting: Vec<f64> = (0..1_000).map(|at| f64::from(at / 100 % 2)).collect();
        let known = by_batches(&drifting, plain).unwrap();
        let (states, wrong) = (
            mean(&[0.0, 1.0].repeat(5)).unwrap(),
            mean(&drifting).unwrap(),
        );
        near(
            known.high - known.low,
            states.interval.high - states.interval.low,
            1e-12,
        );
        assert!(known.high - known.low > 5.0 * (wrong.interval.high - wrong.interval.low));
        assert!(known.contains(0.5));
        assert_eq!(by_batches(&[1.0], plain), None);
        assert_eq!(by_batches(&[], plain), None);
    }

    /// The mean, and nothing of nothing.
    fn plain(values: &[f64]) -> Option<f64> {
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    #[test]
    fn closed_form_and_expansion_meet() {
        near(student_t(EXACT_STUDENT), student_t(EXACT_STUDENT + 1), 1e-5);
    }

    #[test]
    fn mean_interval_of_students_example() {
        let differences: Vec<f64> = FIRST.iter().zip(SECOND).map(|(a, b)| b - a).collect();
        let estimate = mean(&differences).unwrap();
        near(estimate.value, 1.58, 1e-9);
        near(estimate.interval.low, 0.700_114_2, 1e-6);
        near(estimate.interval.high, 2.459_885_8, 1e-6);
        assert_eq!(estimate.n, 10);
    }

    #[test]
    fn overlapping_intervals_are_no_difference_even_when_the_pairs_differ() {
        let difference = difference(&FIRST, &SECOND).unwrap();
        assert!(!difference.difference.interval.contains(0.0));
        assert!(difference.a.interval.overlaps(&difference.b.interval));
        assert_eq!(difference.verdict, Verdict::NoDifference);
    }

    #[test]
    fn the_middle_half_is_what_most_are_like() {
        assert_eq!(typical(&[]), None);
        assert_eq!(typical(&[3.0]), Some(3.0));
        assert_eq!(typical(&[9.0, 1e9, 11.0, -1e9]), Some(10.0));
        assert_eq!(
            middle_half(vec![5, 1, 4, 2, 3], |&value| f64::from(value)),
            [2, 3, 4]
        );
    }

    #[test]
    fn clear_differences_are_named() {
        let (low, high) = ([10.0, 10.2, 9.9, 10.1], [20.0, 20.3, 19.8, 20.1]);
        assert_eq!(difference(&low, &high).unwrap().verdict, Verdict::Less);
        assert_eq!(difference(&high, &low).unwrap().verdict, Verdict::More);
        assert_eq!(
            difference(&low, &low).unwrap().verdict,
            Verdict::NoDifference
        );
        near(
            difference(&high, &low).unwrap().difference.value,
            10.0,
            1e-9,
        );
    }

    #[test]
    fn ratio_is_the_geometric_mean() {
        let estimate = ratio(&[2.0, 8.0], &[1.0, 1.0]).unwrap();
        near(estimate.value, 4.0, 1e-12);
        // Logarithms ln 2 and ln 8: their deviation is ln 4 / sqrt 2, so the reach is t(1) ln 4 / 2.
        let reach = (student_t(1) * 4f64.ln() / 2.0).exp();
        near(estimate.interval.high / (4.0 * reach), 1.0, 1e-9);
        near(estimate.interval.low * reach / 4.0, 1.0, 1e-9);
    }

    #[test]
    fn ratio_of_equal_ratios_has_no_width() {
        let estimate = ratio(&[3.0, 6.0, 12.0], &[1.0, 2.0, 4.0]).unwrap();
        near(estimate.value, 3.0, 1e-12);
        near(estimate.interval.high - estimate.interval.low, 0.0, 1e-12);
    }

    #[test]
    fn median_ranks_are_those_of_the_binomial_tables() {
        for (n, want) in [
            (6, 1),
            (7, 1),
            (8, 1),
            (9, 2),
            (10, 2),
            (15, 4),
            (20, 6),
            (30, 10),
            (50, 18),
            (100, 40),
        ] {
            assert_eq!(median_rank(n), Some(want), "{n}");
        }
        assert_eq!(median_rank(5), None);
    }

    #[test]
    fn exact_and_approximate_median_ranks_meet() {
        let (exact, approximate) = (
            median_rank(EXACT_BINOMIAL).unwrap(),
            median_rank(EXACT_BINOMIAL + 1).unwrap(),
        );
        assert!(exact.abs_diff(approximate) <= 1, "{exact} {approximate}");
    }

    #[test]
    fn median_and_its_interval() {
        let estimate = median(&[10.0, 1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0, 6.0, 5.0]).unwrap();
        assert_eq!(estimate.value, 5.5);
        assert_eq!(
            estimate.interval,
            Interval {
                low: 2.0,
                high: 9.0
            }
        );
        assert_eq!(
            median(&[3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0]).unwrap().value,
            4.0
        );
    }

    #[test]
    fn what_cannot_be_computed_is_refused() {
        assert_eq!(mean(&[1.0]), Err(StatsError::TooFew { have: 1, need: 2 }));
        assert_eq!(
            median(&[1.0; 5]),
            Err(StatsError::TooFew { have: 5, need: 6 })
        );
        assert_eq!(mean(&[1.0, f64::NAN]), Err(StatsError::NotFinite));
        assert_eq!(
            difference(&[1.0, 2.0], &[1.0]),
            Err(StatsError::Unpaired { a: 2, b: 1 })
        );
        assert_eq!(
            ratio(&[1.0, 0.0], &[1.0, 1.0]),
            Err(StatsError::NotPositive)
        );
        assert_eq!(
            ratio(&[1.0, 1.0], &[1.0, f64::INFINITY]),
            Err(StatsError::NotFinite)
        );
        assert_eq!(Summary::of(&Samples::new(Timing::Each)), None);
    }

    #[test]
    fn summary_of_known_samples() {
        let mut samples = Samples::new(Timing::Each);
        for ns in [2, 4, 4, 4, 5, 5, 7, 9] {
            samples.record(ns, 1);
        }
        let summary = Summary::of(&samples).unwrap();
        assert_eq!((summary.operations, summary.readings), (8, 8));
        assert_eq!(summary.mean, 5.0);
        near(
            summary.standard_deviation.unwrap(),
            (32.0f64 / 7.0).sqrt(),
            1e-12,
        );
        assert_eq!(
            (summary.min, summary.p50, summary.p99, summary.max),
            (2, 4, 9, 9)
        );
    }

    #[test]
    fn deviation_of_batches_is_that_of_their_means() {
        let mut samples = Samples::new(Timing::Batch(10));
        for ns in [1000, 1200, 1100, 900] {
            samples.record(ns, 10);
        }
        // Batch means 100, 120, 110, 90: deviations -5, 15, 5, -15, squares 500, over 3.
        near(
            standard_deviation(&samples).unwrap(),
            (500.0f64 / 3.0).sqrt(),
            1e-9,
        );
        assert_eq!(mean_of(&samples), Some(105.0));
    }

    #[test]
    fn median_of_samples_encloses_it() {
        let mut samples = Samples::new(Timing::Each);
        for ns in 1..=100 {
            samples.record(ns, 1);
        }
        let estimate = median_of_samples(&samples).unwrap();
        assert_eq!(estimate.value, 50.0);
        assert_eq!(
            estimate.interval,
            Interval {
                low: 40.0,
                high: 61.0
            }
        );
        let mut few = Samples::new(Timing::Batch(100));
        few.record(500, 100);
        assert_eq!(
            median_of_samples(&few),
            Err(StatsError::TooFew { have: 1, need: 6 })
        );
    }

    proptest! {
        #[test]
        fn deviation_from_sums_is_that_of_the_values(values in prop::collection::vec(0u64..1_000_000_000, 2..200)) {
            let mut samples = Samples::new(Timing::Each);
            for &ns in &values {
                samples.record(ns, 1);
            }
            let n = values.len() as f64;
            let mean = values.iter().map(|&x| x as f64).sum::<f64>() / n;
            let want = (values.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
            let got = standard_deviation(&samples).unwrap();
            prop_assert!((got - want).abs() <= 1e-6 * want.max(1.0), "{} {}", got, want);
        }

        #[test]
        fn ratios_are_reciprocal(a in prop::collection::vec(0.1f64..1e6, 2..20), b in prop::collection::vec(0.1f64..1e6, 2..20)) {
            let n = a.len().min(b.len());
            let (there, back) = (ratio(&a[..n], &b[..n]).unwrap(), ratio(&b[..n], &a[..n]).unwrap());
            prop_assert!((there.value * back.value - 1.0).abs() < 1e-9);
            prop_assert!(there.interval.contains(there.value));
        }

        #[test]
        fn a_shift_moves_mean_and_interval_alike(values in prop::collection::vec(-1e3f64..1e3, 2..50), by in -1e3f64..1e3) {
            let shifted: Vec<f64> = values.iter().map(|x| x + by).collect();
            let (at, moved) = (mean(&values).unwrap(), mean(&shifted).unwrap());
            prop_assert!((moved.value - at.value - by).abs() < 1e-6);
            prop_assert!((moved.interval.low - at.interval.low - by).abs() < 1e-6);
            prop_assert!((moved.interval.high - at.interval.high - by).abs() < 1e-6);
        }

        #[test]
        fn median_interval_holds_the_median(values in prop::collection::vec(-1e6f64..1e6, 6..300)) {
            let estimate = median(&values).unwrap();
            prop_assert!(estimate.interval.contains(estimate.value));
        }
    }
}
