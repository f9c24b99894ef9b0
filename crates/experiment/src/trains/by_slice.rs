//! Times that slices of a rotation have seen, and how well their typical one is known.
//!
//! What one slice sees, it sees on the machine as it was then, and with the cost of gates that was known then: the times of a slice
//! depend on each other, and so it is from how much slices differ that an interval comes. What gates cost is known only so well in a
//! whole run, and each passage within a time brings that with it. It never judges a slice.

use tollgate_stats::{self as stats, interquartile_mean};

use super::plain_mean;
use crate::run::Interval;

/// Times of one kind in nanoseconds, by the slice that saw them.
#[derive(Debug, Clone, Default)]
pub(super) struct BySlice {
    slices: Vec<(usize, Vec<f64>)>,
    /// How many times were added.
    n: u64,
    /// Passages of gates within all of them together.
    passages: f64,
}

/// A number, how well it is known, and from how many times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Known {
    /// The mean of the middle half, in nanoseconds.
    pub(crate) ns: f64,
    /// Its 95 % interval, from how much slices differ, in each of which the machine was as it was, and from what is not known of the
    /// gates' cost; none of a single slice.
    pub(crate) ci: Option<Interval>,
    pub(crate) n: u64,
}

impl BySlice {
    /// Adds a time that the slice of this number saw, within which gates were passed so many times; slices come one after the other.
    pub(super) fn add(&mut self, slice: usize, ns: f64, passages: f64) {
        self.passages += passages;
        self.n += 1;
        match self.slices.last_mut() {
            Some((last, times)) if *last == slice => times.push(ns),
            _ => self.slices.push((slice, vec![ns])),
        }
    }

    /// Of the last slice only the mean of all times counts from now on: a clock of coarse steps tells it, and no single time.
    pub(super) fn by_its_mean(&mut self) {
        if let Some((_, times)) = self.slices.last_mut()
            && let Some(ns) = plain_mean(times)
        {
            *times = vec![ns];
        }
    }

    /// The mean of the middle half; none of nothing.
    pub(super) fn typical(&self) -> Option<f64> {
        of(&self.slices)
    }

    /// The same, and how well it is known when what a passage of a gate costs is known to so many nanoseconds either way.
    pub(super) fn known(&self, within_ns: f64) -> Option<Known> {
        let ns = self.typical()?;
        let of_gates = within_ns * self.passages / self.n as f64;
        let ci = stats::by_batches(&self.slices, of).map(|known| {
            let half = (known.high - ns).hypot(of_gates);
            Interval {
                low: ns - half,
                high: ns + half,
            }
        });
        Some(Known { ns, ci, n: self.n })
    }

    /// All times at a machine that is so many times slower, by the slice that saw them.
    pub(super) fn slower(&mut self, slowness: impl Fn(usize) -> f64) {
        for (slice, times) in &mut self.slices {
            let slowness = slowness(*slice);
            times.iter_mut().for_each(|ns| *ns *= slowness);
        }
    }
}

fn of(slices: &[(usize, Vec<f64>)]) -> Option<f64> {
    let times = slices.iter().flat_map(|(_, times)| times);
    interquartile_mean(&times.copied().collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices with these times.
    fn seen(slices: &[&[f64]]) -> BySlice {
        let mut all = BySlice::default();
        for (slice, times) in slices.iter().enumerate() {
            times.iter().for_each(|&ns| all.add(slice, ns, 3.0));
        }
        all
    }

    #[test]
    fn slices_tell_how_well_a_time_is_known_and_not_the_times_in_them() {
        let known = seen(&[&[10.0; 9], &[12.0; 9], &[10.0; 9], &[12.0; 9]]).known(0.0);
        let of_slices = stats::mean(&[10.0, 12.0, 10.0, 12.0]).unwrap();
        let known = known.unwrap();
        assert_eq!((known.ns, known.n), (11.0, 36));
        assert_eq!(known.ci, Some(of_slices.interval.into()));
    }

    #[test]
    fn each_passage_of_a_gate_brings_what_is_not_known_of_its_cost() {
        let same = seen(&[&[100.0; 4], &[100.0; 4]]);
        let ci = same.known(10.0).and_then(|known| known.ci).unwrap();
        // Three passages, each off by the same.
        let half = 3.0 * 10.0;
        assert!((ci.high - 100.0 - half).abs() < 1e-3, "{ci:?}");
        assert!((100.0 - ci.low - half).abs() < 1e-3, "{ci:?}");
    }

    #[test]
    fn one_slice_has_no_interval_and_none_no_time() {
        let once = seen(&[&[10.0, 12.0]]).known(0.0).unwrap();
        assert_eq!((once.ns, once.ci, once.n), (11.0, None, 2));
        assert_eq!(seen(&[]).known(0.0), None);
        // A slice that saw no such time counts for nothing.
        let twice = seen(&[&[10.0], &[], &[12.0]]).known(0.0).unwrap();
        assert!(twice.ci.is_some_and(|ci| ci.low < 10.0 && ci.high > 12.0));
    }

    #[test]
    fn a_coarse_clock_tells_the_mean_of_a_slice() {
        let mut coarse = BySlice::default();
        for (slice, times) in [[10.0, 10.0, 10.0, 20.0], [10.0, 20.0, 10.0, 20.0]]
            .iter()
            .enumerate()
        {
            times.iter().for_each(|&ns| coarse.add(slice, ns, 1.0));
            coarse.by_its_mean();
            coarse.by_its_mean();
        }
        let known = coarse.known(0.0).unwrap();
        assert_eq!((known.ns, known.n), (13.75, 8));
    }

    #[test]
    fn a_slower_machine_stretches_the_interval_too() {
        let mut slow = seen(&[&[10.0], &[12.0]]);
        let usual = slow.known(0.0).and_then(|known| known.ci).unwrap();
        slow.slower(|_| 2.0);
        let ci = slow.known(0.0).and_then(|known| known.ci).unwrap();
        assert_eq!((ci.low, ci.high), (2.0 * usual.low, 2.0 * usual.high));
    }

    #[test]
    fn each_slice_has_a_speed_of_its_own() {
        let mut all = seen(&[&[10.0, 10.0], &[], &[15.0, 15.0]]);
        all.slower(|slice| [1.0, 0.0, 2.0 / 3.0][slice]);
        assert_eq!(all.typical(), Some(10.0));
    }
}
