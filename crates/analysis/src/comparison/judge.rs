//! A row of both sides as one observation: how far it moved, and how well that is known from within the runs.
//!
//! The observation is the difference of the sides' mean logarithms, towards higher costs, less what the control benchmark explains
//! ([`super::machine`]). Its variance has three parts: the runs' 95 % intervals on the logarithmic scale, the step of the clock for the
//! spans of a ledger, and the uncertainty of the covariate. What runs differ by as a whole is added later ([`super::effects`]).
//!
//! A number or an interval that is not above zero has no quotient. Then the observation is the difference of the sides' means, as a
//! share of the larger one, with the same parts of variance.

use tollgate_run::{Interval, Measured, RowKind, Unit};

use super::cells::Pair;
use super::machine::Removed;

/// The 97.5 % point of the normal distribution: an interval's half is so many standard errors.
const NORMAL: f64 = 1.96;

/// The variance of what is uniform over a step of 1.
const UNIFORM: f64 = 1.0 / 12.0;

/// The reason why a row of such a unit, or such a kind, is not judged.
const NO_DIRECTION: &str = "it has no better and no worse";
const NO_INTERVAL: &str = "the runs hold no interval for it";
const BOTH_ZERO: &str = "both numbers are zero";

/// Direction that is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preference {
    /// Costs.
    Less,
    /// Rates.
    More,
}

impl Preference {
    /// None where neither way is better: shares, quotients, counts, and what is left over.
    fn of(pair: &Pair<'_>) -> Option<Self> {
        match (pair.kind, pair.unit) {
            (RowKind::Unattributed, _) => None,
            (
                RowKind::Processing | RowKind::Queueing | RowKind::Total | RowKind::Plain,
                Unit::Nanoseconds | Unit::NanosecondsPerByte | Unit::Instructions | Unit::Cycles,
            ) => Some(Self::Less),
            (
                RowKind::Processing | RowKind::Queueing | RowKind::Total | RowKind::Plain,
                Unit::BytesPerSecond | Unit::PerSecond,
            ) => Some(Self::More),
            (
                RowKind::Processing | RowKind::Queueing | RowKind::Total | RowKind::Plain,
                Unit::None | Unit::Bytes | Unit::Percent | Unit::Ratio | Unit::Count,
            ) => None,
        }
    }

    /// Turns a move into one that is above zero for the worse, and back.
    pub(super) fn towards_worse(self, moved: f64) -> f64 {
        match self {
            Self::Less => moved,
            Self::More => -moved,
        }
    }
}

/// Scale of a move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// Counts of instructions without an interval: any difference is real.
    Exact,
    /// The logarithm of the quotient.
    Quotient,
    /// The difference, as a share of so much in the row's unit.
    Difference(f64),
}

/// A row as one observation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Observed {
    pub(super) better: Preference,
    pub(super) scale: Scale,
    /// The move for the worse, less the part that the control benchmark explains.
    pub(super) moved: f64,
    /// The variance from the intervals and the clock.
    pub(super) within: f64,
    /// The variance that the slope of the covariate adds; rows of one benchmark share this error and the next.
    pub(super) slope: f64,
    /// The variance that noise of the control benchmark adds.
    pub(super) noise: f64,
}

/// Observes a row; or says why that cannot be done. `steps_ns` are the steps of the clocks of all runs, those of the first side first.
pub(super) fn observe(
    pair: &Pair<'_>,
    removed: Removed,
    steps_ns: &[f64],
) -> Result<Observed, &'static str> {
    let better = Preference::of(pair).ok_or(NO_DIRECTION)?;
    let (steps_a, steps_b) = steps_ns.split_at(pair.a.len());
    let sides = [(&pair.a, steps_a), (&pair.b, steps_b)];
    let exact = |measured: &Measured| pair.unit == Unit::Instructions && measured.ci.is_none();
    let above =
        |measured: &Measured| measured.value > 0.0 && measured.ci.is_none_or(|ci| ci.low > 0.0);
    if !pair.all().flatten().all(above) {
        return by_difference(pair, better, removed, sides);
    }
    let mean = |side: &[Option<&Measured>]| mean_of(side, |one| one.value.ln());
    let log = better.towards_worse(mean(&pair.b) - mean(&pair.a));
    if pair.all().flatten().all(exact) {
        return Ok(Observed {
            better,
            scale: Scale::Exact,
            moved: log,
            within: 0.0,
            slope: 0.0,
            noise: 0.0,
        });
    }
    let mut within = 0.0;
    for (side, steps_ns) in sides {
        within += variance_of_mean(side, steps_ns, |measured, step_ns| {
            let Interval { low, high } = measured.ci.ok_or(NO_INTERVAL)?;
            // The wider side counts: a skewed distribution is taken for a wide one.
            let half = (high / measured.value).max(measured.value / low).ln();
            Ok((half / NORMAL).powi(2) + clock(pair, step_ns) / measured.value.powi(2))
        })?;
    }
    Ok(Observed {
        better,
        scale: Scale::Quotient,
        moved: log - removed.log,
        within,
        slope: removed.slope,
        noise: removed.noise,
    })
}

fn by_difference(
    pair: &Pair<'_>,
    better: Preference,
    removed: Removed,
    sides: [(&Vec<Option<&Measured>>, &[f64]); 2],
) -> Result<Observed, &'static str> {
    let [a, b] = [&pair.a, &pair.b].map(|side| mean_of(side, |one| one.value));
    let larger = a.abs().max(b.abs());
    if larger == 0.0 {
        return Err(BOTH_ZERO);
    }
    let mut within = 0.0;
    for (side, steps_ns) in sides {
        within += variance_of_mean(side, steps_ns, |measured, step_ns| {
            let Interval { low, high } = measured.ci.ok_or(NO_INTERVAL)?;
            let half = (high - measured.value).max(measured.value - low);
            let step = match pair.unit {
                Unit::Nanoseconds => UNIFORM * step_ns.powi(2),
                _ => 0.0,
            };
            Ok(((half / NORMAL).powi(2) + step) / larger.powi(2))
        })?;
    }
    Ok(Observed {
        better,
        scale: Scale::Difference(larger),
        moved: better.towards_worse((b - a) / larger) - removed.log,
        within,
        slope: removed.slope,
        noise: removed.noise,
    })
}

/// The variance that a step of the clock adds: a span of a ledger is a difference of two readings, and what a run's gates make of it is
/// the same all through that run.
fn clock(pair: &Pair<'_>, step_ns: f64) -> f64 {
    match (pair.kind, pair.unit) {
        (RowKind::Processing | RowKind::Queueing | RowKind::Total, Unit::Nanoseconds) => {
            UNIFORM * step_ns.powi(2)
        }
        _ => 0.0,
    }
}

/// The mean over the runs that hold the number, of which there is one at least.
pub(super) fn mean_of(side: &[Option<&Measured>], of: impl Fn(&Measured) -> f64) -> f64 {
    let values: Vec<f64> = side.iter().flatten().map(|one| of(one)).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance_of_mean(
    side: &[Option<&Measured>],
    steps_ns: &[f64],
    variance: impl Fn(&Measured, f64) -> Result<f64, &'static str>,
) -> Result<f64, &'static str> {
    let (mut sum, mut n) = (0.0, 0.0);
    for (measured, step_ns) in side.iter().zip(steps_ns) {
        if let Some(measured) = measured {
            sum += variance(measured, *step_ns)?;
            n += 1.0;
        }
    }
    Ok(sum / (n * n))
}
