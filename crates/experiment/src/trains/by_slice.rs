//! Times that slices of a rotation have seen, and how well their typical one is known.
//!
//! What one slice sees, it sees on the machine as it was then, and with the cost of gates that was known then: the times of a slice
//! depend on each other, and so it is from how much slices differ that an interval comes. What gates cost is known to a step of the clock
//! in a whole run, and each passage within a time brings that with it. It never judges a slice.

use crate::run::Interval;
use crate::stats::{self, typical};

/// Half of the 95 % interval of what lies anywhere within a step of 1: its standard deviation, 1 / sqrt(12), taken as a normal one.
const HALF_OF_UNIFORM: f64 = 1.96 * 0.288_675;

/// Times of one kind in nanoseconds, by the slice that saw them.
#[derive(Debug, Clone, Default)]
pub(super) struct BySlice {
    slices: Vec<Vec<f64>>,
    /// Passages of gates within all of them together.
    passages: f64,
    /// The slice that the last of them is of.
    last: usize,
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
        match self.slices.last_mut() {
            Some(times) if self.last == slice => times.push(ns),
            _ => self.slices.push(vec![ns]),
        }
        self.last = slice;
    }

    /// The mean of the middle half; none of nothing.
    pub(super) fn typical(&self) -> Option<f64> {
        of(&self.slices)
    }

    /// The same, and how well it is known by a clock of such a step in nanoseconds.
    pub(super) fn known(&self, step_ns: f64) -> Option<Known> {
        let ns = self.typical()?;
        let n: u64 = self.slices.iter().map(|times| times.len() as u64).sum();
        let of_gates = HALF_OF_UNIFORM * step_ns * self.passages / n as f64;
        let ci = stats::by_batches(&self.slices, of).map(|known| {
            let half = (known.high - ns).hypot(of_gates);
            Interval {
                low: ns - half,
                high: ns + half,
            }
        });
        Some(Known { ns, ci, n })
    }

    /// All times at a machine that is so many times slower.
    pub(super) fn slower(&mut self, slowness: f64) {
        for ns in self.slices.iter_mut().flatten() {
            *ns *= slowness;
        }
    }
}

fn of(slices: &[Vec<f64>]) -> Option<f64> {
    typical(&slices.concat())
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
    fn each_passage_of_a_gate_brings_the_clocks_step() {
        let same = seen(&[&[100.0; 4], &[100.0; 4]]);
        let ci = same.known(10.0).and_then(|known| known.ci).unwrap();
        // Three passages, each off by the same part of ten nanoseconds.
        let half = 1.96 * 3.0 * 10.0 / 12f64.sqrt();
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
    fn a_slower_machine_stretches_the_interval_too() {
        let mut slow = seen(&[&[10.0], &[12.0]]);
        let usual = slow.known(0.0).and_then(|known| known.ci).unwrap();
        slow.slower(2.0);
        let ci = slow.known(0.0).and_then(|known| known.ci).unwrap();
        assert_eq!((ci.low, ci.high), (2.0 * usual.low, 2.0 * usual.high));
    }
}
