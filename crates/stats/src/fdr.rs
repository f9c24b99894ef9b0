//! Tests of many hypotheses at once: Student's distribution and the false discovery rate.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The probability that Student's t lies beyond plus or minus `t`; 1 unless the degrees of freedom are above zero and `t` is a number.
#[must_use]
pub fn beyond_student(t: f64, degrees: f64) -> f64 {
    // Zero by zero, or infinity by infinity: nothing is told, and the distribution is not asked, which would panic.
    if t.is_nan() {
        return 1.0;
    }
    StudentsT::new(0.0, 1.0, degrees)
        .map_or(1.0, |student| (2.0 * student.cdf(-t.abs())).clamp(0.0, 1.0))
}

/// The value below which Student's t lies with probability `p`; infinite unless the degrees of freedom are above zero and `p` is
/// between 0 and 1.
#[must_use]
pub fn student_quantile(p: f64, degrees: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, degrees) {
        Ok(student) if p > 0.0 && p < 1.0 => student.inverse_cdf(p),
        Ok(_) | Err(_) => f64::INFINITY,
    }
}

/// The p-values adjusted for the false discovery rate, in their order. Of the hypotheses whose adjusted value is below `q`, a share
/// of `q` is true on average at most, when the tests are independent or positively dependent.
///
/// Benjamini and Hochberg, "Controlling the false discovery rate" (1995); Benjamini and Yekutieli (2001) for the dependence.
#[must_use]
pub fn benjamini_hochberg(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|&a, &b| ps[a].total_cmp(&ps[b]));
    let mut adjusted = vec![1.0; ps.len()];
    let mut least: f64 = 1.0;
    for (place, &at) in order.iter().enumerate().rev() {
        least = least.min(ps.len() as f64 / (place + 1) as f64 * ps[at]);
        adjusted[at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn student_tails_are_those_of_the_tables() {
        for (t, degrees, want) in [
            (2.228, 10.0, 0.05),
            (3.169, 10.0, 0.01),
            (4.587, 10.0, 0.001),
            (12.706, 1.0, 0.05),
        ] {
            let got = beyond_student(t, degrees);
            assert!((got / want - 1.0).abs() < 2e-3, "{t} {degrees}: {got}");
            let quantile = student_quantile(1.0 - want / 2.0, degrees);
            assert!((quantile / t - 1.0).abs() < 1e-3, "{quantile}");
        }
        assert_eq!(beyond_student(0.0, 10.0), 1.0);
        assert_eq!(beyond_student(5.0, 0.0), 1.0);
        for degrees in [0.5, 10.0, 1e9, f64::INFINITY] {
            assert_eq!(beyond_student(f64::NAN, degrees), 1.0);
            assert_eq!(beyond_student(f64::INFINITY, degrees), 0.0);
        }
        assert_eq!(student_quantile(0.9, 0.0), f64::INFINITY);
        assert_eq!(student_quantile(1.0, 3.0), f64::INFINITY);
    }

    #[test]
    fn benjamini_hochberg_on_an_example() {
        // As R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "BH").
        let adjusted = benjamini_hochberg(&[0.01, 0.04, 0.03, 0.005]);
        for (got, want) in adjusted.iter().zip([0.02, 0.04, 0.04, 0.02]) {
            assert!((got - want).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(benjamini_hochberg(&[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn adjusting_keeps_the_order_and_never_helps(ps in prop::collection::vec(0.0f64..=1.0, 1..50)) {
            let adjusted = benjamini_hochberg(&ps);
            for (i, p) in ps.iter().enumerate() {
                prop_assert!(adjusted[i] >= *p && adjusted[i] <= 1.0);
                for (j, q) in ps.iter().enumerate() {
                    prop_assert!(p > q || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
