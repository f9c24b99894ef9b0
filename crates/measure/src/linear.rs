//! Weighted least squares from sums: what a bootstrap adds up again and again, and solves.

/// The normal equations of a weighted least-squares fit, as sums over observations.
#[derive(Clone, Debug)]
pub(crate) struct Normal {
    unknowns: usize,
    /// Sums of weight, coefficient and coefficient; row by row.
    matrix: Vec<f64>,
    /// Sums of weight, coefficient and observed value.
    right: Vec<f64>,
}

impl Normal {
    pub(crate) fn new(unknowns: usize) -> Self {
        Self {
            unknowns,
            matrix: vec![0.0; unknowns * unknowns],
            right: vec![0.0; unknowns],
        }
    }

    /// Number of unknowns.
    pub(crate) fn len(&self) -> usize {
        self.unknowns
    }

    /// Adds an observation: the unknowns in it with their coefficients, its value, its weight.
    pub(crate) fn observe(&mut self, terms: &[(usize, f64)], value: f64, weight: f64) {
        for &(row, a) in terms {
            self.right[row] += weight * a * value;
            for &(column, b) in terms {
                self.matrix[row * self.unknowns + column] += weight * a * b;
            }
        }
    }

    /// Adds the sums of other observations.
    pub(crate) fn add(&mut self, other: &Self) {
        for (a, b) in self.matrix.iter_mut().zip(&other.matrix) {
            *a += b;
        }
        for (a, b) in self.right.iter_mut().zip(&other.right) {
            *a += b;
        }
    }

    /// The unknowns; none when the observations do not determine them all.
    ///
    /// Cholesky's decomposition, of the matrix scaled to a diagonal of ones.
    pub(crate) fn solve(&self) -> Option<Vec<f64>> {
        let n = self.unknowns;
        let scale: Vec<f64> = (0..n).map(|i| self.matrix[i * n + i].sqrt()).collect();
        if scale.iter().any(|&scale| scale.is_nan() || scale <= 0.0) {
            return None;
        }
        let mut lower = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let before: f64 = (0..j).map(|k| lower[i * n + k] * lower[j * n + k]).sum();
                let left = self.matrix[i * n + j] / (scale[i] * scale[j]) - before;
                if i == j {
                    if left <= SINGULAR {
                        return None;
                    }
                    lower[i * n + i] = left.sqrt();
                } else {
                    lower[i * n + j] = left / lower[j * n + j];
                }
            }
        }
        let mut x: Vec<f64> = (0..n).map(|i| self.right[i] / scale[i]).collect();
        for i in 0..n {
            let before: f64 = (0..i).map(|k| lower[i * n + k] * x[k]).sum();
            x[i] = (x[i] - before) / lower[i * n + i];
        }
        for i in (0..n).rev() {
            let behind: f64 = (i + 1..n).map(|k| lower[k * n + i] * x[k]).sum();
            x[i] = (x[i] - behind) / lower[i * n + i];
        }
        Some(x.iter().zip(&scale).map(|(x, scale)| x / scale).collect())
    }
}

/// Remainder of a diagonal of ones when an unknown is not determined: rounding errors of some hundred additions.
const SINGULAR: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn exact_observations_give_back_the_unknowns(
            truth in prop::collection::vec(-1e4..1e4f64, 6),
            coefficients in prop::collection::vec(prop::collection::vec(-2.0..2.0f64, 6), 20),
            weights in prop::collection::vec(0.1..10.0f64, 20),
        ) {
            let mut normal = Normal::new(6);
            for (row, &weight) in coefficients.iter().zip(&weights) {
                let terms: Vec<_> = row.iter().copied().enumerate().collect();
                let value = terms.iter().map(|&(i, a)| a * truth[i]).sum();
                normal.observe(&terms, value, weight);
            }
            for (found, truth) in normal.solve().unwrap().iter().zip(&truth) {
                prop_assert!((found - truth).abs() < 1e-3, "{found} for {truth}");
            }
        }
    }

    #[test]
    fn unknowns_that_nothing_tells_apart_are_no_solution() {
        let mut normal = Normal::new(2);
        for value in [1.0, 2.0, 3.0] {
            normal.observe(&[(0, 1.0), (1, 1.0)], value, 1.0);
        }
        assert_eq!(normal.solve(), None);
        assert_eq!(Normal::new(1).solve(), None);
    }

    #[test]
    fn the_heavier_observation_counts_more() {
        let mut normal = Normal::new(1);
        normal.observe(&[(0, 1.0)], 10.0, 3.0);
        normal.observe(&[(0, 1.0)], 20.0, 1.0);
        let found = normal.solve().unwrap()[0];
        assert!((found - 12.5).abs() < 1e-9, "{found}");
    }
}
