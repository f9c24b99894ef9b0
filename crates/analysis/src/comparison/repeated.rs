//! The variance between equal sides, as several runs of a side show it.
//!
//! Few runs show the variance of a path badly, so it is moderated: pooled with an expected one (Smyth, "Linear models and empirical Bayes
//! methods for assessing differential expression" (2004)). Expected is the prior between runs and what intervals within the runs say,
//! times what the other paths exceed theirs by. Pooling makes the variance of a path that varies more than others too small, which no
//! number of other paths can tell. So a path's own variance counts where it is larger. Simulated, other rules found more changes of
//! quiet paths or kept the rate of false ones, not both.
//!
//! The differences between runs of a side hold all that is within them, so nothing of that is added. They judge rows without an interval,
//! too. What is expected of such a row is what the median one of its path shows.

use std::collections::HashMap;

use tollgate_run::Measured;
use tollgate_stats::{self as stats, Variance};

use super::cells::Pair;
use super::effects::{Name, PRIOR, PRIOR_DEGREES};
use super::judge::{self, Observed, Preference, Scale};
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
    /// The variance of the quotient of two sides that is expected between runs.
    pub(super) fn between_runs(&self) -> f64 {
        between_runs(self.sides)
    }

    /// The variance of the quotient of the sides, for the mean of rows with these weights; none where a run lacks a row.
    pub(super) fn own(&self, rows: &[(usize, f64)]) -> Option<Variance> {
        let runs: usize = self.sides.iter().sum();
        let mut sums = vec![0.0; runs];
        let (mut weights, mut spent) = (0.0, 0.0_f64);
        for &(row, weight) in rows {
            let pair = &self.pairs[row];
            let observed = self.observed[row].as_ref().ok()?;
            if observed.scale != Scale::Quotient {
                return None;
            }
            let distances = unexplained(pair, observed.better, self.machine)?;
            for (sum, distance) in sums.iter_mut().zip(distances) {
                *sum += weight * distance;
            }
            weights += weight;
            spent = spent.max(self.machine.spent(pair));
        }
        let means: Vec<f64> = sums.iter().map(|sum| sum / weights).collect();
        variance(&means, spent, self.sides)
    }
}

/// The variance that the runs show of rows without an interval, beyond what is expected between runs: that of the median such row of the
/// path. None for other rows, and for those that do not show it themselves.
pub(super) fn spreads(
    pairs: &[Pair<'_>],
    machine: &Machine,
    sides: [usize; 2],
) -> Vec<Option<f64>> {
    let shown = |pair: &Pair<'_>| {
        if judge::has_intervals(pair) {
            return None;
        }
        let distances = unexplained(pair, Preference::of(pair)?, machine)?;
        let own = variance(&distances, machine.spent(pair), sides)?;
        (own.degrees >= ENOUGH_DEGREES).then(|| own.value / stats::median_of_variance(own.degrees))
    };
    let shown: Vec<Option<f64>> = pairs.iter().map(shown).collect();
    let mut paths: HashMap<Name, Vec<f64>> = HashMap::new();
    for (pair, shown) in pairs.iter().zip(&shown) {
        if let Some(shown) = shown {
            paths.entry(Name::of(pair)).or_default().push(*shown);
        }
    }
    let of_path = |pair: &Pair<'_>| {
        let median = stats::median_of(paths.get(&Name::of(pair))?)?;
        Some((median - between_runs(sides)).max(0.0))
    };
    let both = pairs.iter().zip(shown);
    both.map(|(pair, shown)| shown.and_then(|_| of_path(pair)))
        .collect()
}

/// The variance of the quotient of two sides, in variances of one run.
fn share(sides: [usize; 2]) -> f64 {
    sides.iter().map(|&n| (n as f64).recip()).sum()
}

/// The prior for the quotient of two sides.
fn between_runs(sides: [usize; 2]) -> f64 {
    PRIOR.powi(2) / 2.0 * share(sides)
}

/// The variance of the quotient of two sides, from the distance of each run from the mean of its side; none without a degree of freedom.
fn variance(distances: &[f64], spent: f64, sides: [usize; 2]) -> Option<Variance> {
    let degrees = distances.len() as f64 - 2.0 - spent;
    let squares: f64 = distances.iter().map(|one| one.powi(2)).sum();
    (degrees > 0.0).then(|| Variance {
        value: squares / degrees * share(sides),
        degrees,
    })
}

/// Distance of a row from the mean of its side in each run, less what the control benchmarks explain.
fn unexplained(pair: &Pair<'_>, better: Preference, machine: &Machine) -> Option<Vec<f64>> {
    let within = within_sides(pair, better)?;
    let explained = machine.within(pair);
    Some(
        within
            .into_iter()
            .zip(explained)
            .map(|(one, explained)| one - explained)
            .collect(),
    )
}

/// Distance of a row from the mean of its side in each run, as a logarithm, above zero for higher costs; none unless all runs have
/// the row, and above zero.
pub(super) fn within_sides(pair: &Pair<'_>, better: Preference) -> Option<Vec<f64>> {
    let log = |one: &Option<&Measured>| {
        let value = one.map(|one| one.value).filter(|value| *value > 0.0)?;
        Some(better.towards_worse(value.ln()))
    };
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

/// Pools them for a row without an interval. Expected is then what the median such row shows, which may be far from this one. So a larger
/// own variance counts with no more than its own degrees of freedom.
pub(super) fn without_interval(own: Option<Variance>, expected: f64) -> Variance {
    let larger = own.filter(|own| own.value > expected);
    larger.unwrap_or_else(|| moderated(own, expected))
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
