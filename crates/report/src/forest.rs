//! Scale of a forest plot, which its drawings in HTML and in the terminal share.
//!
//! It owns the ends of the scale. It must never draw.

use tollgate_run::{ForestRow, Ratio};

/// The least ratio and its inverse that a scale holds, so that a plot without differences has a width.
const LEAST: f64 = 1.1;
/// Intervals widen the scale of the ratios by this factor at most.
const WIDEST: f64 = 2.0;
/// The largest ratio and its inverse that the scale holds: with more, a change of a tenth has no length that can be seen.
const MOST: f64 = 4.0;

/// End of a scale that a ratio lies beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// Less than the scale holds.
    Low,
    /// More than it holds.
    High,
}

/// A logarithmic scale around 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ForestScale {
    low: f64,
    high: f64,
}

impl ForestScale {
    /// The scale that holds all ratios, and their intervals as far as they do not crowd them.
    pub(crate) fn of(rows: &[ForestRow]) -> Self {
        let ratios = || rows.iter().flat_map(|row| &row.panels).flatten();
        let values = || {
            ratios()
                .map(|ratio| ratio.value)
                .filter(|value| *value > 0.0)
        };
        let least = values().fold(1.0 / LEAST, f64::min);
        let most = values().fold(LEAST, f64::max);
        let lows = ratios().filter_map(|ratio| Some(ratio.ci?.low));
        let highs = ratios().filter_map(|ratio| Some(ratio.ci?.high));
        Self {
            low: lows
                .fold(least, f64::min)
                .max(least / WIDEST)
                .max(1.0 / MOST),
            high: highs.fold(most, f64::max).min(most * WIDEST).min(MOST),
        }
    }

    /// The place of a ratio, from 0 at the low end to 1 at the high end. What lies beyond an end is at that end.
    pub(crate) fn share(self, ratio: f64) -> f64 {
        let ratio = ratio.clamp(self.low, self.high);
        (ratio / self.low).ln() / (self.high / self.low).ln()
    }

    /// Tells whether a ratio lies beyond an end: less than 1, or more.
    pub(crate) fn beyond(self, ratio: f64) -> Option<Beyond> {
        if ratio < self.low {
            Some(Beyond::Low)
        } else if ratio > self.high {
            Some(Beyond::High)
        } else {
            None
        }
    }

    /// The ends of a ratio's interval as places; none where it is exact.
    pub(crate) fn interval(self, ratio: &Ratio) -> Option<[f64; 2]> {
        let ci = ratio.ci?;
        Some([ci.low, ci.high].map(|end| self.share(end)))
    }

    /// Round ratios on the scale, 1 among them.
    pub(crate) fn ticks(self) -> impl Iterator<Item = f64> {
        const ROUND: [f64; 19] = [
            0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0,
            20.0, 50.0, 100.0,
        ];
        let on_it = move |tick: &f64| (self.low..=self.high).contains(tick);
        ROUND.into_iter().filter(on_it)
    }
}

/// Names of what has intervals and of what is exact, in the order in which they occur.
pub(crate) fn names(rows: &[ForestRow], exact: bool) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for ratio in rows.iter().flat_map(|row| &row.panels).flatten() {
        if ratio.ci.is_none() == exact && !names.contains(&ratio.label.as_str()) {
            names.push(&ratio.label);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use tollgate_run::Interval;

    use super::*;

    fn rows(ratios: &[(f64, Option<(f64, f64)>)]) -> Vec<ForestRow> {
        let ratio = |&(value, ci): &(f64, Option<(f64, f64)>)| Ratio {
            label: if ci.is_some() { "time" } else { "instructions" }.to_owned(),
            value,
            ci: ci.map(|(low, high)| Interval { low, high }),
        };
        vec![ForestRow {
            label: "row".to_owned(),
            panels: vec![ratios.iter().map(ratio).collect()],
        }]
    }

    #[test]
    fn scale_holds_ratios_and_one() {
        let scale = ForestScale::of(&rows(&[(0.5, None), (2.0, Some((1.5, 3.0)))]));
        assert_eq!((scale.share(0.5), scale.share(3.0)), (0.0, 1.0));
        assert_eq!(scale.beyond(0.5), None);
        assert!((0.0..1.0).contains(&scale.share(1.0)));
        let flat = ForestScale::of(&rows(&[(1.0, None)]));
        assert!((flat.share(1.0) - 0.5).abs() < 1e-9);
        assert!(flat.ticks().any(|tick| tick == 1.0));
    }

    #[test]
    fn wide_interval_does_not_crowd_the_ratios() {
        let scale = ForestScale::of(&rows(&[(1.0, Some((0.0, 1e9)))]));
        assert_eq!((scale.share(0.0), scale.share(1e9)), (0.0, 1.0));
        assert!(scale.share(1.5) < 1.0);
    }

    #[test]
    fn ratio_of_thousands_leaves_room_for_small_ones() {
        let scale = ForestScale::of(&rows(&[(1.1, None), (100_000.0, Some((9e4, 1.1e5)))]));
        assert_eq!(scale.beyond(100_000.0), Some(Beyond::High));
        assert_eq!(scale.beyond(1e-5), Some(Beyond::Low));
        assert!(scale.share(1.1) - scale.share(1.0) > 0.05);
    }

    #[test]
    fn names_of_estimates_and_of_exact_ratios_are_apart() {
        let rows = rows(&[(1.0, None), (1.0, Some((0.9, 1.1))), (2.0, None)]);
        assert_eq!(names(&rows, true), ["instructions"]);
        assert_eq!(names(&rows, false), ["time"]);
    }
}
