//! A row of both sides as one observation: how far it moved, and how well that is known from within the runs.
//!
//! The observation is the difference of the sides' mean logarithms, towards higher costs, less what the control benchmark explains
//! ([`super::machine`]). Its variance has three parts: the runs' 95 % intervals on the logarithmic scale, the step of the clock for the
//! spans of a ledger, and the uncertainty of the covariate. Without intervals the first is what several runs a side show
//! ([`super::repeated`]). What runs differ by as a whole is added later ([`super::effects`]).
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
const ONE_RUN: &str = "some run holds no interval for it, and one run a side shows no spread";
const TOO_FEW: &str =
    "some run holds no interval for it, and too few runs hold it to show its spread";
const NO_QUOTIENT: &str = "some run holds no interval for it, and it is not above zero";
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
    pub(super) fn of(pair: &Pair<'_>) -> Option<Self> {
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
    /// The variance from the intervals and the clock; without intervals that of the median such row of the path, as the runs show it.
    pub(super) within: f64,
    /// Tells whether all runs hold an interval.
    pub(super) has_intervals: bool,
    /// The variance that the slope of the covariate adds; rows of one benchmark share this error and the next.
    pub(super) slope: f64,
    /// The variance that noise of the control benchmark adds.
    pub(super) noise: f64,
}

/// Observes a row; or says why that cannot be done. `steps_ns` are the steps of the clocks of all runs, those of the first side first.
/// `spread` is the variance that runs show of a row that has no interval.
pub(super) fn observe(
    pair: &Pair<'_>,
    removed: Removed,
    steps_ns: &[f64],
    spread: Option<f64>,
) -> Result<Observed, &'static str> {
    let better = Preference::of(pair).ok_or(NO_DIRECTION)?;
    let (steps_a, steps_b) = steps_ns.split_at(pair.a.len());
    let sides = [(&pair.a, steps_a), (&pair.b, steps_b)];
    let exact = |measured: &Measured| pair.unit == Unit::Instructions && measured.ci.is_none();
    let has_intervals = has_intervals(pair);
    let above = |measured: &Measured| {
        let reaches_zero = measured.ci.is_some_and(|ci| ci.low <= 0.0);
        measured.value > 0.0 && !(has_intervals && reaches_zero)
    };
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
            has_intervals: false,
            slope: 0.0,
            noise: 0.0,
        });
    }
    let from_intervals = variance_of_sides(sides, |measured, step_ns| {
        let Interval { low, high } = measured.ci?;
        // The wider side counts: a skewed distribution is taken for a wide one.
        let half = (high / measured.value).max(measured.value / low).ln();
        Some((half / NORMAL).powi(2) + clock(pair, step_ns) / measured.value.powi(2))
    });
    let within = from_intervals.or(spread).ok_or_else(|| no_spread(pair))?;
    Ok(Observed {
        better,
        scale: Scale::Quotient,
        moved: log - removed.log,
        within,
        has_intervals,
        slope: removed.slope,
        noise: removed.noise,
    })
}

/// Tells whether each run that holds the number has an interval for it.
pub(super) fn has_intervals(pair: &Pair<'_>) -> bool {
    pair.all().flatten().all(|one| one.ci.is_some())
}

fn no_spread(pair: &Pair<'_>) -> &'static str {
    match (pair.a.len(), pair.b.len()) {
        (1, 1) => ONE_RUN,
        _ if pair.all().flatten().any(|one| one.value <= 0.0) => NO_QUOTIENT,
        _ => TOO_FEW,
    }
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
    let within = variance_of_sides(sides, |measured, step_ns| {
        let Interval { low, high } = measured.ci?;
        let half = (high - measured.value).max(measured.value - low);
        let step = match pair.unit {
            Unit::Nanoseconds => UNIFORM * step_ns.powi(2),
            _ => 0.0,
        };
        Some(((half / NORMAL).powi(2) + step) / larger.powi(2))
    });
    let within = within.ok_or_else(|| no_spread(pair))?;
    Ok(Observed {
        better,
        scale: Scale::Difference(larger),
        moved: better.towards_worse((b - a) / larger) - removed.log,
        within,
        has_intervals: true,
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

/// The variance of the difference of the means of both sides; none where that of a number is not known.
fn variance_of_sides(
    sides: [(&Vec<Option<&Measured>>, &[f64]); 2],
    variance: impl Fn(&Measured, f64) -> Option<f64>,
) -> Option<f64> {
    let mut total = 0.0;
    for (side, steps_ns) in sides {
        let (mut sum, mut n) = (0.0, 0.0);
        for (measured, step_ns) in side.iter().zip(steps_ns) {
            if let Some(measured) = measured {
                sum += variance(measured, *step_ns)?;
                n += 1.0;
            }
        }
        total += sum / (n * n);
    }
    Some(total)
}
