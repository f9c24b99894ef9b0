//! Slowness of the machine during a slice, from the round trips without gates beside it.
//!
//! Spans that are to sum to one whole are measured one after the other, and a machine that becomes slower for a second (its clock,
//! its neighbours on the same hardware, its caches) would move those that are looked at just then against the others. Slices
//! without gates take turns with those that have them, so each time can be brought to one speed.
//!
//! It owns that speed; it must never look at what gates measured.

use tollgate_stats::interquartile_mean;

/// The slownesses of a run's slices. A slowness of 2 means that all takes twice as long as in the first slice.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drift {
    /// By size, the round trip of the first slice.
    first_ns: Vec<Option<f64>>,
    slownesses: Vec<f64>,
}

impl Drift {
    /// Notes a slice without gates by the usual round trip of each size, in nanoseconds, and gives its slowness: that of all sizes
    /// together, since a single one tells it poorly. A slice that tells nothing is as slow as the one before.
    pub(crate) fn note(&mut self, round_trips_ns: &[Option<f64>]) -> f64 {
        if self.first_ns.len() < round_trips_ns.len() {
            self.first_ns.resize(round_trips_ns.len(), None);
        }
        let mut ratios = Vec::with_capacity(round_trips_ns.len());
        for (first, &now) in self.first_ns.iter_mut().zip(round_trips_ns) {
            let Some(now) = now.filter(|now| *now > 0.0) else {
                continue;
            };
            ratios.push(now / *first.get_or_insert(now));
        }
        let slowness = interquartile_mean(&ratios).unwrap_or_else(|| self.last());
        self.slownesses.push(slowness);
        slowness
    }

    /// The slowness of the last slice; 1 before there was one.
    pub(crate) fn last(&self) -> f64 {
        self.slownesses.last().copied().unwrap_or(1.0)
    }

    /// The slowness that was usual in the run; 1 when there was no slice.
    pub(crate) fn mean(&self) -> f64 {
        interquartile_mean(&self.slownesses).unwrap_or(1.0)
    }

    /// The least and the greatest slowness, against the usual one; none without a slice.
    fn range(&self) -> Option<(f64, f64)> {
        let against = || self.slownesses.iter().map(|one| one / self.mean());
        Some((against().reduce(f64::min)?, against().reduce(f64::max)?))
    }

    /// Says the range of the slowness, and the kind of slices that it is from; none without a slice.
    pub(crate) fn trust_text(&self, kind: &str) -> Option<String> {
        let (least, most) = self.range()?;
        Some(format!(
            "times are brought to the machine's usual speed; it took {least:.2} to {most:.2} times as long as usual in slices {kind}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_held_against_the_first() {
        let mut drift = Drift::default();
        assert_eq!(
            (drift.last(), drift.mean(), drift.range()),
            (1.0, 1.0, None)
        );
        assert_eq!(drift.note(&[Some(10.0), None, Some(100.0)]), 1.0);
        // A size that comes later tells nothing at first.
        assert_eq!(drift.note(&[Some(20.0), Some(7.0), Some(200.0)]), 5.0 / 3.0);
        assert_eq!(drift.note(&[Some(5.0), Some(3.5), Some(50.0)]), 0.5);
        assert_eq!(drift.last(), 0.5);
        let (least, most) = drift.range().unwrap();
        assert!(least < 0.5 && most > 1.5 && drift.mean() > 1.0);
        let trust_text = drift.trust_text("without gates").unwrap();
        assert!(
            trust_text.contains("0.47 to 1.58 times") && trust_text.ends_with("without gates"),
            "{trust_text}"
        );
    }

    #[test]
    fn one_disturbed_size_does_not_move_a_slice() {
        let mut drift = Drift::default();
        drift.note(&[Some(10.0); 8]);
        let mut times = [Some(11.0); 8];
        times[3] = Some(1e6);
        assert!((drift.note(&times) - 1.1).abs() < 1e-9);
    }

    #[test]
    fn a_slice_that_tells_nothing_is_as_slow_as_the_one_before() {
        let mut drift = Drift::default();
        drift.note(&[Some(10.0)]);
        drift.note(&[Some(15.0)]);
        assert_eq!(drift.note(&[None]), 1.5);
        assert_eq!(drift.note(&[Some(0.0)]), 1.5);
        assert_eq!(drift.note(&[]), 1.5);
    }
}
