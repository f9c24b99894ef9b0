//! Statistics over samples and over interleaved repetitions.
//!
//! Two kinds of numbers come in: the [`Samples`] of one repetition, of which [`mean_of`] gives the exact mean, and one
//! figure per repetition (a mean or a median), over which intervals are computed. Successive round trips depend on each
//! other, repetitions much less so; therefore what is compared is repetitions. All intervals have 95 % confidence.
//!
//! This crate never measures, never reads a clock and never rounds: rendering does that. It depends on no other crate of
//! the workspace, so that whatever measures or renders may depend on it.
//!
//! Sources: Student, "The probable error of a mean" (1908); Jain, "The Art of Computer Systems Performance Analysis"
//! (1991), chapters 12 and 13; Conover, "Practical Nonparametric Statistics" (1999), section 3.2; Fleming and Wallace, "How
//! not to lie with statistics" (1986); Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), section 26.7.

mod fdr;
mod line;
mod mixed;
mod samples;

pub use fdr::{benjamini_hochberg, beyond_student, student_quantile};
pub use line::{Line, line};
pub use mixed::{
    Mean, SCATTER_EFFICIENCY, Variance, median_of, median_of_variance, scatter, weighted_mean,
};

pub use samples::{MixedTimings, Samples, Timing};

/// The reason why a statistic cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatsError {
    /// Fewer values than the statistic needs.
    #[error("{} too few, {need} are needed for a 95 % interval", values_are(*.have))]
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
    /// Tells whether `value` lies in it.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// A value with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The 95 % confidence interval.
    pub interval: Interval,
    /// From how many observations it was computed.
    pub n: u64,
}

/// The exact mean of samples in ns per operation, `S / n`; `None` when there are none.
pub fn mean_of(samples: &Samples) -> Option<f64> {
    (samples.operations() > 0).then(|| samples.sum_ns() as f64 / samples.operations() as f64)
}

/// The median of finite values that are sorted already: of an even number of them, the mean of the two in the middle. `None` of
/// no values. [`median`] gives it with its interval.
#[must_use]
pub fn middle(sorted: &[f64]) -> Option<f64> {
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
    let half_width = student_t(n - 1) * (variance / count).sqrt();
    Ok(Estimate {
        value,
        interval: Interval {
            low: value - half_width,
            high: value + half_width,
        },
        n,
    })
}

/// The interquartile part of some things in the order of their times: a quarter of them, rounded down, is left out at either
/// end. Things of equal times keep their order.
#[must_use]
pub fn interquartile<T>(mut all: Vec<T>, ns: impl Fn(&T) -> f64) -> Vec<T> {
    all.sort_by(|a, b| ns(a).total_cmp(&ns(b)));
    let beside = all.len() / 4;
    all.truncate(all.len() - beside);
    all.drain(..beside);
    all
}

/// The interquartile mean: that of the values which [`interquartile`] keeps. A processor that is taken away now and then does
/// not move it. `None` of no values.
#[must_use]
pub fn interquartile_mean(values: &[f64]) -> Option<f64> {
    let kept = interquartile(values.to_vec(), |value| *value);
    (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
}

/// The most batches that [`by_batches`] makes.
const BATCHES: usize = 10;

/// The 95 % interval of a number of observations that came one after the other and depend on each other, by batch means: from how much
/// the number differs between batches of successive ones (Jain 1991, section 25.5.2). `None` of fewer than two observations, or where
/// all or a batch lack the number.
#[must_use]
pub fn by_batches<T>(observations: &[T], number: impl Fn(&[T]) -> Option<f64>) -> Option<Interval> {
    let value = number(observations)?;
    let each = observations.len().div_ceil(BATCHES).max(1);
    let batches = observations.chunks(each).map(&number);
    let batches = mean(&batches.collect::<Option<Vec<f64>>>()?).ok()?;
    let half_width = batches.interval.high - batches.value;
    Some(Interval {
        low: value - half_width,
        high: value + half_width,
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

/// The ratio of the means of two series whose repetitions come in pairs, with Student's interval on what each pair departs from it
/// (Cochran, "Sampling Techniques" (1977), section 6.3). Where repetitions differ by much, what all of them carry together counts, as
/// [`ratio`] does not say: one that carried nothing has no ratio.
///
/// # Errors
/// [`StatsError::Unpaired`], [`StatsError::NotPositive`] where the mean of `b` is not above zero, and what [`mean`] gives.
pub fn ratio_of_means(a: &[f64], b: &[f64]) -> Result<Estimate, StatsError> {
    finite(a)?;
    finite(b)?;
    let pairs: Vec<(f64, f64)> = pairs(a, b)?.collect();
    let below = mean(b)?.value;
    if below <= 0.0 {
        return Err(StatsError::NotPositive);
    }
    let value = mean(a)?.value / below;
    let departures: Vec<f64> = pairs.iter().map(|(a, b)| (a - value * b) / below).collect();
    let Estimate { interval, n, .. } = mean(&departures)?;
    Ok(Estimate {
        value,
        interval: Interval {
            low: value + interval.low,
            high: value + interval.high,
        },
        n,
    })
}

/// The standard error of a normal sample's median over that of its mean, the root of pi / 2.
const MEDIAN_OVER_MEAN: f64 = 1.2533;

/// The median of two values or more with an interval: its own from six on ([`median`]). Of fewer it is Student's about the median,
/// wider as a median's error is.
///
/// # Errors
/// Those of [`mean`].
pub fn median_of_few(values: &[f64]) -> Result<Estimate, StatsError> {
    median(values).or_else(|_| {
        let Estimate { value, interval, n } = mean(values)?;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let half_width = MEDIAN_OVER_MEAN * (interval.high - value);
        let value = middle(&sorted).unwrap_or(value);
        let interval = Interval {
            low: value - half_width,
            high: value + half_width,
        };
        Ok(Estimate { value, interval, n })
    })
}

/// Estimate of a positive figure from sessions, one number each: their median with its interval ([`median_of_few`]), of fewer than
/// six on logarithms, so that it stays positive. It includes differences between sessions, such as the address of memory; slices of
/// one session would not show them. Sessions often are of two kinds, one of them rare: then no mean of six has an interval that holds.
///
/// # Errors
/// [`StatsError::NotPositive`], and what [`mean`] gives.
pub fn over_sessions(figures: &[f64]) -> Result<Estimate, StatsError> {
    finite(figures)?;
    if figures.iter().any(|&figure| figure <= 0.0) {
        return Err(StatsError::NotPositive);
    }
    median(figures).or_else(|_| {
        let logarithms: Vec<f64> = figures.iter().map(|figure| figure.ln()).collect();
        let Estimate { interval, n, .. } = median_of_few(&logarithms)?;
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let value = middle(&sorted).unwrap_or(f64::NAN);
        // Of equal figures the exponential of the logarithm may be off by its rounding.
        let interval = Interval {
            low: interval.low.exp().min(value),
            high: interval.high.exp().max(value),
        };
        Ok(Estimate { value, interval, n })
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

/// The words of [`StatsError::TooFew`] for the values at hand, of which there are fewer than ten.
fn values_are(have: u64) -> String {
    let verb = if have == 1 { "value is" } else { "values are" };
    format!("{have} {verb}")
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
    fn interquartile_mean_leaves_out_a_quarter_at_either_end() {
        assert_eq!(interquartile_mean(&[]), None);
        assert_eq!(interquartile_mean(&[3.0]), Some(3.0));
        assert_eq!(interquartile_mean(&[9.0, 1e9, 11.0, -1e9]), Some(10.0));
        assert_eq!(
            interquartile(vec![5, 1, 4, 2, 3], |&value| f64::from(value)),
            [2, 3, 4]
        );
    }

    #[test]
    fn ratio_is_the_geometric_mean() {
        let estimate = ratio(&[2.0, 8.0], &[1.0, 1.0]).unwrap();
        near(estimate.value, 4.0, 1e-12);
        // Logarithms ln 2 and ln 8: their deviation is ln 4 / sqrt 2, so the half-width is t(1) ln 4 / 2.
        let half_width = (student_t(1) * 4f64.ln() / 2.0).exp();
        near(estimate.interval.high / (4.0 * half_width), 1.0, 1e-9);
        near(estimate.interval.low * half_width / 4.0, 1.0, 1e-9);
    }

    #[test]
    fn ratio_of_means_is_that_of_sums() {
        let estimate = ratio_of_means(&[0.0, 6.0], &[1.0, 3.0]).unwrap();
        near(estimate.value, 1.5, 1e-12);
        // Departures of -1.5 and 1.5, over a mean of 2: their deviation is 0.75 sqrt 2, so the half-width is t(1) 0.75.
        near(estimate.interval.high, 1.5 + student_t(1) * 0.75, 1e-9);
        near(estimate.interval.low, 1.5 - student_t(1) * 0.75, 1e-9);
        assert!(ratio_of_means(&[1.0, 2.0], &[0.0, 0.0]).is_err());
        assert!(ratio_of_means(&[1.0], &[1.0, 2.0]).is_err());
    }

    #[test]
    fn intervals_of_ratios_of_means_hold_the_truth() {
        const SEEDS: u64 = 2_000;
        let mut held = 0;
        for seed in 1..=SEEDS {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            // What both meet, and what each does.
            let pairs = (0..20).map(|_| {
                let (both, one, other) =
                    (normal(&mut state), normal(&mut state), normal(&mut state));
                (12.0 + 2.0 * both + one, 10.0 + 2.0 * both + other)
            });
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.unzip();
            let estimate = ratio_of_means(&a, &b).unwrap();
            held += u64::from(estimate.interval.contains(1.2));
        }
        let share = held as f64 / SEEDS as f64;
        assert!((0.93..=0.97).contains(&share), "{share}");
    }

    /// Numbers as good as normal, of deviation 1: sums of twelve even ones.
    fn normal(state: &mut u64) -> f64 {
        let sum: f64 = (0..12)
            .map(|_| {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                (*state >> 11) as f64 / (1u64 << 53) as f64
            })
            .sum();
        sum - 6.0
    }

    #[test]
    fn intervals_over_sessions_hold_the_truth_where_those_over_slices_do_not() {
        const SEEDS: u64 = 2_000;
        let (mut by_sessions, mut by_slices) = (0, 0);
        for seed in 1..=SEEDS {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let sessions: Vec<Vec<f64>> = (0..6)
                .map(|_| {
                    let session = 100.0 * (1.0 + 0.02 * normal(&mut state));
                    let slice = |_| session * (1.0 + 0.01 * normal(&mut state));
                    (0..4).map(slice).collect()
                })
                .collect();
            let each = |slices: &Vec<f64>| median_of(slices);
            let figures: Vec<f64> = sessions.iter().map(each).collect();
            let holds = |estimate: Estimate| u64::from(estimate.interval.contains(100.0));
            by_sessions += holds(over_sessions(&figures).unwrap());
            by_slices += holds(median(&sessions.concat()).unwrap());
        }
        let share = |held: u64| held as f64 / SEEDS as f64;
        // The least and the largest of six enclose the median in 31 of 32 cases.
        assert!((0.96..=0.98).contains(&share(by_sessions)), "{by_sessions}");
        assert!(share(by_slices) < 0.85, "{by_slices}");
    }

    /// A name, the logarithm of a session, and the true median of that.
    type Shape = (&'static str, fn(&mut u64) -> f64, f64);

    /// Sessions of one kind, with a long tail, and of two kinds.
    const SESSIONS: [Shape; 4] = [
        ("unimodal", |state| 0.02 * normal(state), 0.0),
        ("skewed", |state| normal(state).powi(2) * 0.05, 0.022_75),
        (
            "two kinds, one rare",
            |state| 0.01 * normal(state) + 0.3 * kind(state, 0.1),
            0.001_40,
        ),
        (
            "two kinds",
            |state| 0.01 * normal(state) + 0.1 * kind(state, 0.3),
            0.005_66,
        ),
    ];

    /// One with this probability, and otherwise 0.
    fn kind(state: &mut u64, probability: f64) -> f64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        f64::from(u8::from(
            ((*state >> 11) as f64 / (1u64 << 53) as f64) < probability,
        ))
    }

    /// The share of seeds in which the interval of an estimate over so many sessions holds a truth.
    fn holds(
        session: fn(&mut u64) -> f64,
        sessions: usize,
        truth: f64,
        estimate: impl Fn(&[f64]) -> Estimate,
    ) -> f64 {
        const SEEDS: u64 = 2_000;
        let held = (1..=SEEDS).filter(|seed| {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let figures: Vec<f64> = (0..sessions).map(|_| session(&mut state).exp()).collect();
            estimate(&figures).interval.contains(truth)
        });
        held.count() as f64 / SEEDS as f64
    }

    #[test]
    fn intervals_over_sessions_are_those_of_their_median() {
        for (shape, session, truth) in SESSIONS {
            for sessions in [3, 6, 12, 40] {
                let estimate = |figures: &[f64]| over_sessions(figures).unwrap();
                let share = holds(session, sessions, truth.exp(), estimate);
                println!("{shape}, {sessions} sessions: {share:.3}");
                assert!(
                    (0.93..=0.99).contains(&share),
                    "{shape}, {sessions}: {share}"
                );
            }
        }
    }

    /// The reason why no mean is told over sessions: of six, one kind of which is rare, its interval seldom holds it.
    #[test]
    fn intervals_of_means_over_few_sessions_of_two_kinds_do_not_hold() {
        let (_, session, _) = SESSIONS[2];
        let ones = |figures: &[f64]| ratio(figures, &vec![1.0; figures.len()]).unwrap();
        let share = holds(session, 6, 0.03_f64.exp(), ones);
        assert!(share < 0.6, "{share}");
    }

    #[test]
    fn median_of_few_has_its_own_interval_from_six_on() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 60.0];
        assert_eq!(median_of_few(&values), median(&values));
        let few = median_of_few(&[1.0, 2.0, 30.0]).unwrap();
        let student = mean(&[1.0, 2.0, 30.0]).unwrap();
        assert_eq!(few.value, 2.0);
        let half_width = MEDIAN_OVER_MEAN * (student.interval.high - student.value);
        near(few.interval.high, 2.0 + half_width, 1e-9);
        assert!(median_of_few(&[1.0]).is_err());
    }

    fn median_of(values: &[f64]) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        middle(&sorted).unwrap()
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
            ratio(&[1.0, 2.0], &[1.0]),
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
        assert_eq!(mean_of(&Samples::new(Timing::Each)), None);
    }

    proptest! {
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
