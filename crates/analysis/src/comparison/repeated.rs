//! The variance between equal sides, as several runs of a side show it.
//!
//! Few runs show the variance of a path badly, so it is moderated: pooled with an expected one (Smyth, "Linear models and empirical Bayes
//! methods for assessing differential expression" (2004)). Expected is the prior between runs and what intervals within the runs say,
//! times what the other paths exceed theirs by. Pooling makes the variance of a path that varies more than others too small, which no
//! number of other paths can tell. So a path's own variance counts where it is larger. Simulated, other rules found more changes of
//! quiet paths or kept the rate of false ones, not both.
//!
//! The differences between runs of a side hold all that is within them, so nothing of that is added.

use tollgate_run::Measured;
use tollgate_stats::{self as stats, Variance};

use super::cells::Pair;
use super::effects::PRIOR_DEGREES;
use super::judge::{Observed, Scale};
use super::machine::{Machine, from_mean};

/// The degrees of freedom from which a variance is told by the runs alone.
const ENOUGH_DEGREES: f64 = 1.0;

/// The rows of two sides, of which one has several runs.
pub(super) struct Sides<'a> {
    pub(super) pairs: &'a [Pair<'a>],
    pub(super) observed: &'a [Result<Observed, &'static str>],
    pub(super) machine: &'a Machine,
    /// The count of runs of each.
    pub(super) sides: [usize; 2],
}

/// The variances of a path's quotient of two sides.
pub(super) struct Path {
    /// The one that the runs show.
    pub(super) own: Option<Variance>,
    /// The one that is expected.
    pub(super) expected: f64,
}

impl Sides<'_> {
    /// The variance of the quotient of two sides, in variances of one run.
    pub(super) fn share(&self) -> f64 {
        self.sides.iter().map(|&n| (n as f64).recip()).sum()
    }

    /// The variance of the quotient of the sides, for the mean of rows with these weights; none where a run lacks a row.
    pub(super) fn own(&self, rows: &[(usize, f64)]) -> Option<Variance> {
        let runs: usize = self.sides.iter().sum();
        let mut sums = vec![0.0; runs];
        let (mut weights, mut spent) = (0.0, 0.0_f64);
        for &(row, weight) in rows {
            let pair = &self.pairs[row];
            let within = within_sides(pair, self.observed[row].as_ref().ok()?)?;
            let explained = self.machine.within(pair);
            for ((sum, moved), explained) in sums.iter_mut().zip(within).zip(explained) {
                *sum += weight * (moved - explained);
            }
            weights += weight;
            spent = spent.max(self.machine.spent(pair));
        }
        let squares: f64 = sums.iter().map(|sum| (sum / weights).powi(2)).sum();
        let degrees = runs as f64 - 2.0 - spent;
        (degrees > 0.0).then(|| Variance {
            value: squares / degrees * self.share(),
            degrees,
        })
    }
}

/// Distance of a row from the mean of its side in each run, as a logarithm, above zero for higher costs; none unless all runs have
/// the row.
pub(super) fn within_sides(pair: &Pair<'_>, observed: &Observed) -> Option<Vec<f64>> {
    if observed.scale != Scale::Quotient {
        return None;
    }
    let log =
        |one: &Option<&Measured>| one.map(|one| observed.better.towards_worse(one.value.ln()));
    let side = |side: &[Option<&Measured>]| -> Option<Vec<f64>> {
        Some(from_mean(
            &side.iter().map(log).collect::<Option<Vec<f64>>>()?,
        ))
    };
    let mut all = side(&pair.a)?;
    all.extend(side(&pair.b)?);
    Some(all)
}

/// Pools a variance that runs show with the expected one; the own one is never made smaller.
pub(super) fn moderated(own: Option<Variance>, expected: f64) -> Variance {
    let expected = Variance {
        value: expected,
        degrees: PRIOR_DEGREES,
    };
    let Some(own) = own else { return expected };
    let pooled = expected.and(own);
    if own.degrees < ENOUGH_DEGREES {
        return pooled;
    }
    Variance {
        value: pooled.value.max(own.value),
        ..pooled
    }
}

/// Times that the other paths show what is expected of them: their median, with what is expected as one more of them; 1 at least.
pub(super) fn excess_of_others(paths: &[Path], at: usize) -> f64 {
    let others = paths.iter().enumerate().filter(|(other, _)| *other != at);
    let mut excess: Vec<f64> = others
        .filter_map(|(_, path)| {
            let own = path.own.filter(|own| own.degrees >= ENOUGH_DEGREES)?;
            Some(own.value / stats::median_of_variance(own.degrees) / path.expected)
        })
        .collect();
    excess.push(1.0);
    stats::median_of(&excess).unwrap_or(1.0).max(1.0)
}
