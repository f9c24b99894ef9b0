//! Parts of a mixed model: what groups have in common, how far they scatter, and a variance from several sources.

use super::middle;

/// A mean with the variance of its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// The variance of its error.
    pub variance: f64,
}

/// A variance with the degrees of freedom that it is known by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variance {
    /// The variance.
    pub value: f64,
    /// Degrees of freedom.
    pub degrees: f64,
}

/// Degrees of freedom from which Student's distribution is as good as normal.
const NORMAL_DEGREES: f64 = 1e3;

impl Variance {
    /// Adds the variance of something else, with the degrees of freedom of the sum (Satterthwaite, "An approximate distribution of
    /// estimates of variance components" (1946)).
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        let unknown = |one: Self| one.value.powi(2) / one.degrees;
        let degrees = value.powi(2) / (unknown(self) + unknown(other));
        Self {
            value,
            degrees: degrees.min(NORMAL_DEGREES),
        }
    }

    /// Adds a variance that is known well.
    #[must_use]
    pub fn beside(self, known: f64) -> Self {
        self.plus(Self {
            value: known,
            degrees: f64::INFINITY,
        })
    }

    /// Pools two estimates of one variance by their degrees of freedom; this one when the other has none.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let degrees = self.degrees + other.degrees;
        if other.degrees <= 0.0 {
            return self;
        }
        Self {
            value: (self.degrees * self.value + other.degrees * other.value) / degrees,
            degrees,
        }
    }
}

/// The median of an estimate of a variance of 1 that has these degrees of freedom, as the distribution of chi-squared has it by the
/// approximation of Wilson and Hilferty (1931): within 4 % from 1 degree on.
#[must_use]
pub fn median_of_variance(degrees: f64) -> f64 {
    (1.0 - 2.0 / (9.0 * degrees)).powi(3)
}

/// The mean of values that are weighted by the reciprocals of their variances; `None` of no values, or of a variance that is not
/// above zero.
#[must_use]
pub fn weighted_mean(values: &[(f64, f64)]) -> Option<Mean> {
    let is_known = |variance: f64| variance.is_finite() && variance > 0.0;
    if values.is_empty() || !values.iter().all(|(_, variance)| is_known(*variance)) {
        return None;
    }
    let weight: f64 = values.iter().map(|(_, variance)| variance.recip()).sum();
    let sum: f64 = values
        .iter()
        .map(|(value, variance)| value / variance)
        .sum();
    Some(Mean {
        value: sum / weight,
        variance: weight.recip(),
    })
}

/// The efficiency of [`scatter`] against the standard deviation, for values of a normal distribution.
pub const SCATTER_EFFICIENCY: f64 = 0.82;

/// The standard deviation of normal values, of which less than half may lie anywhere: the estimator Qn. `None` below 2 values.
///
/// Rousseeuw and Croux, "Alternatives to the median absolute deviation" (1993); the factors for few values are those of Croux and
/// Rousseeuw, "Time-efficient algorithms for two highly robust estimators of scale" (1992).
#[must_use]
pub fn scatter(values: &[f64]) -> Option<f64> {
    const NORMAL: f64 = 2.2219;
    const FEW: [f64; 8] = [0.399, 0.994, 0.512, 0.844, 0.611, 0.857, 0.669, 0.872];
    let n = values.len();
    let mut apart: Vec<f64> = Vec::with_capacity(n * n.saturating_sub(1) / 2);
    for (at, one) in values.iter().enumerate() {
        apart.extend(values[..at].iter().map(|other| (one - other).abs()));
    }
    let half = n / 2 + 1;
    let rank = (half * (half - 1) / 2).checked_sub(1)?;
    if rank >= apart.len() {
        return None;
    }
    let (_, quantile, _) = apart.select_nth_unstable_by(rank, f64::total_cmp);
    let factor = match (FEW.get(n - 2), n % 2) {
        (Some(factor), _) => *factor,
        (None, 1) => n as f64 / (n as f64 + 1.4),
        (None, _) => n as f64 / (n as f64 + 3.8),
    };
    Some(factor * NORMAL * *quantile)
}

/// The median of values in any order; `None` of none.
#[must_use]
pub fn median_of(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weighted_mean_on_an_example() {
        let mean = weighted_mean(&[(1.0, 1.0), (4.0, 0.5)]).unwrap();
        assert!((mean.value - 3.0).abs() < 1e-12);
        assert!((mean.variance - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(weighted_mean(&[]), None);
        assert_eq!(weighted_mean(&[(1.0, 0.0)]), None);
        assert_eq!(weighted_mean(&[(1.0, f64::NAN)]), None);
    }

    #[test]
    fn scatter_is_that_of_the_normal_distribution_and_ignores_a_minority() {
        // Quantiles of the standard normal distribution, evenly spaced in probability.
        let normal: Vec<f64> = (1..100)
            .map(|at| {
                use statrs::distribution::{ContinuousCDF, Normal};
                Normal::new(0.0, 1.0)
                    .unwrap()
                    .inverse_cdf(f64::from(at) / 100.0)
            })
            .collect();
        let plain = scatter(&normal).unwrap();
        assert!((plain - 1.0).abs() < 0.06, "{plain}");
        let mut spoilt = normal;
        for value in spoilt.iter_mut().take(20) {
            *value = 1e6;
        }
        assert!(scatter(&spoilt).unwrap() < 2.0);
    }

    #[test]
    fn scatter_of_few_values() {
        assert_eq!(scatter(&[]), None);
        assert_eq!(scatter(&[1.0]), None);
        // Two values: one distance, and the published factor for two.
        let two = scatter(&[1.0, 2.0]).unwrap();
        assert!((two - 0.399 * 2.2219).abs() < 1e-12);
        assert_eq!(scatter(&[3.0; 7]), Some(0.0));
    }

    #[test]
    fn variances_are_pooled_by_their_degrees() {
        let one = Variance {
            value: 4.0,
            degrees: 6.0,
        };
        let other = Variance {
            value: 1.0,
            degrees: 3.0,
        };
        let both = one.and(other);
        assert_eq!((both.value, both.degrees), (3.0, 9.0));
        let nothing = Variance {
            value: f64::NAN,
            degrees: 0.0,
        };
        assert_eq!(one.and(nothing), one);
    }

    #[test]
    fn a_variance_beside_a_known_one_has_more_degrees() {
        let one = Variance {
            value: 1.0,
            degrees: 3.0,
        };
        let both = one.beside(1.0);
        assert_eq!((both.value, both.degrees), (2.0, 12.0));
        assert_eq!(one.beside(0.0), one);
        let both = one.plus(one);
        assert_eq!((both.value, both.degrees), (2.0, 6.0));
    }

    #[test]
    fn median_of_a_variance_is_that_of_the_tables() {
        // Chi-squared has the median 0.4549 for 1 degree of freedom, 3.357 for 4 and 9.342 for 10.
        for (degrees, median) in [(1.0, 0.4549), (4.0, 3.357), (10.0, 9.342)] {
            let got = degrees * median_of_variance(degrees);
            assert!((got / median - 1.0).abs() < 0.04, "{degrees}: {got}");
        }
    }

    #[test]
    fn median_of_values_in_any_order() {
        assert_eq!(median_of(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median_of(&[]), None);
    }
}
