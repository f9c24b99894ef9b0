//! A straight line through points, with the intervals of its two parameters.

use super::{Estimate, Interval, student_t};

/// `y = intercept + slope x` by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// The intercept with the vertical axis.
    pub intercept: f64,
    /// Slope of the line.
    pub slope: f64,
    /// Standard errors of the two; none for two points, through which a line always goes.
    errors: Option<(f64, f64)>,
    /// The mean of `x`.
    center: f64,
    /// The part of the variance of `y` that the line explains, 0 to 1.
    pub explained: f64,
    /// Points.
    pub n: u64,
}

impl Line {
    /// The intercept with its 95 % interval.
    #[must_use]
    pub fn intercept(&self) -> Option<Estimate> {
        self.estimate(self.intercept, self.errors?.0)
    }

    /// The slope with its 95 % interval.
    #[must_use]
    pub fn slope(&self) -> Option<Estimate> {
        self.estimate(self.slope, self.errors?.1)
    }

    /// The height of the line at `x` with its 95 % interval (Jain 1991, section 14.5, the mean of many future observations).
    #[must_use]
    pub fn at(&self, x: f64) -> Option<Estimate> {
        let (intercept, slope) = self.errors?;
        // The variance of the intercept is that of the height at the mean of `x` and that of the way from there to 0.
        let at_center = intercept
            .mul_add(intercept, -(slope * self.center).powi(2))
            .max(0.0);
        let error = (at_center + (slope * (x - self.center)).powi(2)).sqrt();
        self.estimate(self.slope.mul_add(x, self.intercept), error)
    }

    fn estimate(&self, value: f64, error: f64) -> Option<Estimate> {
        let half_width = student_t(self.n - 2) * error;
        half_width.is_finite().then_some(Estimate {
            value,
            interval: Interval {
                low: value - half_width,
                high: value + half_width,
            },
            n: self.n,
        })
    }
}

/// The line of least squares through points `(x, y)`, with the intervals that hold when errors are independent and alike (Jain
/// 1991, sections 14.2 to 14.4). `None` for fewer than two different `x`, or a number that is not finite.
#[must_use]
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    if points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    let n = points.len() as f64;
    let (mean_x, mean_y) = points
        .iter()
        .fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| f(x - mean_x, y - mean_y)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let intercept = mean_y - slope * mean_x;
    let left: f64 = points
        .iter()
        .map(|(x, y)| (y - intercept - slope * x).powi(2))
        .sum();
    let errors = (points.len() > 2).then(|| {
        let deviation = (left / (n - 2.0)).sqrt();
        (
            deviation * (1.0 / n + mean_x * mean_x / xx).sqrt(),
            deviation / xx.sqrt(),
        )
    });
    Some(Line {
        intercept,
        slope,
        errors,
        center: mean_x,
        explained: if yy > 0.0 { 1.0 - left / yy } else { 1.0 },
        n: points.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Jain 1991, example 14.1 and 14.3: disk accesses and processor time of seven programs.
    const JAIN: [(f64, f64); 7] = [
        (14.0, 2.0),
        (16.0, 5.0),
        (27.0, 7.0),
        (42.0, 9.0),
        (39.0, 10.0),
        (50.0, 13.0),
        (83.0, 20.0),
    ];

    #[test]
    fn a_textbook_example_is_met() {
        let line = line(&JAIN).unwrap();
        assert!((line.slope - 0.2438).abs() < 1e-4, "{line:?}");
        assert!((line.intercept + 0.0083).abs() < 1e-3, "{line:?}");
        assert!((line.explained - 0.9715).abs() < 1e-3, "{line:?}");
        // The book gives 90 % intervals from these standard errors: 0.8311 and 0.0187.
        let (intercept, slope) = line.errors.unwrap();
        assert!((intercept - 0.8311).abs() < 1e-3, "{line:?}");
        assert!((slope - 0.0187).abs() < 1e-4, "{line:?}");
    }

    #[test]
    fn two_points_have_no_interval_and_one_no_line() {
        let two = line(&[(0.0, 1.0), (2.0, 5.0)]).unwrap();
        assert_eq!((two.intercept, two.slope), (1.0, 2.0));
        assert_eq!(two.slope(), None);
        assert_eq!(line(&[(1.0, 1.0)]), None);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(line(&[(1.0, f64::NAN), (2.0, 2.0)]), None);
    }

    proptest! {
        #[test]
        fn a_line_is_found_again(a in -1e3f64..1e3, b in -1e3f64..1e3, xs in prop::collection::hash_set(-1_000i32..1_000, 3..20)) {
            let points: Vec<(f64, f64)> = xs.into_iter().map(|x| (f64::from(x), a + b * f64::from(x))).collect();
            let line = line(&points).unwrap();
            prop_assert!((line.slope - b).abs() < 1e-6 * (1.0 + b.abs()));
            prop_assert!((line.intercept - a).abs() < 1e-6 * (1.0 + a.abs() + 1e3 * b.abs()));
            prop_assert!(line.slope().unwrap().interval.contains(line.slope));
        }
    }

    #[test]
    fn the_height_of_a_line_is_known_best_at_the_center() {
        let points = [(1.0, 2.1), (2.0, 2.9), (3.0, 4.1), (4.0, 4.9)];
        let line = line(&points).unwrap();
        let half = |x: f64| {
            let at = line.at(x).unwrap();
            assert!((at.value - (line.intercept + line.slope * x)).abs() < 1e-12);
            at.interval.high - at.value
        };
        let intercept = line.intercept().unwrap();
        assert!((half(0.0) - (intercept.interval.high - intercept.value)).abs() < 1e-9);
        assert!(half(2.5) < half(1.0) && half(1.0) < half(0.0));
        assert!((half(1.0) - half(4.0)).abs() < 1e-9);
    }
}
