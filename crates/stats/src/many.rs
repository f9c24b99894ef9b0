//! Tests of many hypotheses at once.

use super::within;

/// The probability that Student's t with so many degrees of freedom lies beyond plus or minus `t`; 1 for 0 degrees.
#[must_use]
pub fn beyond_student(t: f64, degrees: u64) -> f64 {
    if degrees == 0 {
        return 1.0;
    }
    (1.0 - within(t.abs(), degrees)).clamp(0.0, 1.0)
}

/// The p-values adjusted by Holm's step-down method, in their order: calling those below alpha significant calls any true
/// hypothesis false with a probability of alpha at most, whatever the dependence between them.
///
/// Holm, "A simple sequentially rejective multiple test procedure" (1979).
#[must_use]
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|&a, &b| ps[a].total_cmp(&ps[b]));
    let mut adjusted = vec![1.0; ps.len()];
    let mut least: f64 = 0.0;
    for (place, &at) in order.iter().enumerate() {
        least = least.max((ps.len() - place) as f64 * ps[at]).min(1.0);
        adjusted[at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tails_are_those_of_the_tables() {
        for (t, degrees, want) in [
            (2.228, 10, 0.05),
            (3.169, 10, 0.01),
            (4.587, 10, 0.001),
            (12.706, 1, 0.05),
        ] {
            let got = beyond_student(t, degrees);
            assert!((got / want - 1.0).abs() < 2e-3, "{t} {degrees}: {got}");
        }
        assert_eq!(beyond_student(0.0, 10), 1.0);
        assert_eq!(beyond_student(5.0, 0), 1.0);
    }

    #[test]
    fn holms_method_on_an_example() {
        // As R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, want) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - want).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn adjusting_keeps_the_order_and_never_helps(ps in prop::collection::vec(0.0f64..=1.0, 1..50)) {
            let adjusted = holm(&ps);
            for (i, p) in ps.iter().enumerate() {
                prop_assert!(adjusted[i] >= *p && adjusted[i] <= 1.0);
                for (j, q) in ps.iter().enumerate() {
                    prop_assert!(p > q || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
