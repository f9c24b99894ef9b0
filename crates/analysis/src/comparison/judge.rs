//! Whether a row differs between two runs, as a p-value.
//!
//! The statistic is what the machine does not explain of `ln(b / a)` ([`super::machine`]), over its standard error. Three things make up
//! the error. The first is the spread within each run, from its 95 % interval on the logarithmic scale. The second is the step of the
//! clock, for the spans of a ledger and their sums: a span is a difference of two readings, and what a run's gates make of it is the
//! same all through that run. The third is how much runs differ as a whole ([`BetweenRuns`]): a process that is started again lies
//! elsewhere in memory, and a virtual machine has other neighbours, of which the interval of a single run knows nothing. The statistic
//! is held against Student's distribution with [`DEGREES`] degrees of freedom.
//!
//! Where a number is not above zero, or its interval is not, there is no quotient: then the statistic is what the machine does not
//! explain of `b - a`, over the larger of the two, and the same three things make up its error ([`by_difference`]).

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_run::{Interval, Measured, RowKind, Unit, format};
use tollgate_stats as stats;

use super::cells::{Pair, Place};
use super::machine::Explained;

/// Degrees of freedom of the statistic. So few, because some rows differ more from run to run than most do. Chosen by 25 runs each of rr,
/// crr and stream of 5 s on a shared virtual machine of two processors: of 300 pairs of rr 3 had a row told apart with 6 degrees, 8
/// with 8, 12 with 14; of the others none. `scripts/same.sh` verifies it on runs that it was not chosen by.
const DEGREES: u64 = 6;

/// The 97.5 % point of the normal distribution: an interval's half is so many standard errors.
const NORMAL: f64 = 1.96;

/// The variance of what is uniform over a step of 1.
const UNIFORM: f64 = 1.0 / 12.0;

/// The least that two runs are taken to differ, as a share.
const LEAST: f64 = 0.01;

/// What two runs are taken to differ when they hold fewer than [`ENOUGH`] rows to see it by.
const ASSUMED: f64 = 0.03;

/// The fewest rows by which it is seen how much two runs differ.
const ENOUGH: usize = 20;

/// Half of a normal distribution lies within so many standard deviations: the length of its shortest half.
const SHORTEST_HALF: f64 = 1.349;

/// Why a row of such a unit, or such a kind, is not judged.
const NO_DIRECTION: &str = "it has no better and no worse";
const NO_INTERVAL: &str = "the runs hold no interval for it";
const STANDS_AS_TIME: &str = "the same number is judged as a time";

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    /// Costs.
    Less,
    /// Rates.
    More,
}

impl Pair<'_> {
    /// None where neither way is better: shares, quotients, counts, and what is left over.
    fn better(&self) -> Option<Better> {
        match self.kind {
            RowKind::Unattributed => None,
            RowKind::Processing | RowKind::Queueing | RowKind::Total | RowKind::Plain => {
                Better::of(self.unit)
            }
        }
    }

    /// What a step of the clock adds to the variance of a number's logarithm.
    fn step(&self, measured: &Measured, step_ns: f64) -> f64 {
        let is_of_a_ledger = match self.kind {
            RowKind::Processing | RowKind::Queueing | RowKind::Total => true,
            RowKind::Unattributed | RowKind::Plain => false,
        };
        if is_of_a_ledger && self.unit == Unit::Nanoseconds {
            UNIFORM * (step_ns / measured.value).powi(2)
        } else {
            0.0
        }
    }
}

impl Better {
    fn of(unit: Unit) -> Option<Self> {
        match unit {
            Unit::Nanoseconds | Unit::NanosecondsPerByte | Unit::Instructions | Unit::Cycles => {
                Some(Self::Less)
            }
            Unit::BytesPerSecond | Unit::PerSecond => Some(Self::More),
            Unit::None | Unit::Bytes | Unit::Percent | Unit::Ratio | Unit::Count => None,
        }
    }

    /// A logarithm that is above zero when it moved for the worse.
    fn towards_worse(self, log: f64) -> f64 {
        match self {
            Self::Less => log,
            Self::More => -log,
        }
    }
}

/// How much two runs of the same thing differ beyond their intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BetweenRuns {
    /// The standard deviation of the quotient of two numbers, as a share.
    pub share: f64,
    /// How it is known.
    pub from: Origin,
    /// From how many rows; 0 when it is assumed.
    pub rows: usize,
}

/// How it is known how much runs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// There are too few rows to see it.
    Assumed,
    /// From the two runs themselves: from how differently the numbers of one row changed.
    Compared,
    /// From a repeated run of the same thing.
    Repeated,
}

impl BetweenRuns {
    /// That of the two runs that are compared, which may differ in truth: the length of the shortest half of all changes (Rousseeuw
    /// 1984, "Least median of squares regression"), or less where the numbers of one row of a table moved together, since what makes
    /// a path slower makes it so at all sizes: the median of what they moved against their mean move, as a standard deviation. What
    /// moves whole rows is left to the least that is assumed, to what the machine explains and to the few degrees of freedom.
    pub(super) fn compared(pairs: &[Pair<'_>]) -> Self {
        let mut all: Vec<f64> = pairs.iter().filter_map(moved).collect();
        if all.len() < ENOUGH {
            return Self {
                share: ASSUMED,
                from: Origin::Assumed,
                rows: 0,
            };
        }
        all.sort_by(f64::total_cmp);
        let halves = all.iter().zip(&all[all.len() / 2..]);
        let shortest = halves
            .map(|(low, high)| high - low)
            .fold(f64::INFINITY, f64::min);
        let mut apart = apart(pairs);
        apart.sort_by(f64::total_cmp);
        // Either is too much when many rows differ in truth: the first when they do so by different shares, the second when
        // they do so within a row.
        let within = match apart.get(apart.len() / 2) {
            Some(median) if apart.len() >= ENOUGH => 2.0 * median,
            Some(_) | None => f64::INFINITY,
        };
        let (share, rows) = (shortest.min(within) / SHORTEST_HALF, all.len());
        Self {
            share: share.max(LEAST),
            from: Origin::Compared,
            rows,
        }
    }

    /// That of two runs of the same thing, in which every change is noise: the median change, whatever its direction. None when
    /// no row has an interval in both.
    pub(super) fn repeated(pairs: &[Pair<'_>]) -> Option<Self> {
        let mut moved: Vec<f64> = pairs.iter().filter_map(moved).map(f64::abs).collect();
        moved.sort_by(f64::total_cmp);
        let median = moved.get(moved.len() / 2)?;
        Some(Self {
            share: (2.0 * median / SHORTEST_HALF).max(LEAST),
            from: Origin::Repeated,
            rows: moved.len(),
        })
    }

    /// What is taken for it, and why.
    pub(super) fn in_words(&self) -> String {
        let percent = format::significant(100.0 * self.share);
        match self.from {
            Origin::Repeated => format!(
                "two runs of the same thing differ by {percent} % (standard deviation), as the repeated run shows in {}",
                format::counted(self.rows as u64, "row", "rows")
            ),
            Origin::Compared => format!(
                "two runs of the same thing are taken to differ by {percent} % (standard deviation), as {} numbers of these two show, \
                 since what becomes slower in truth does so at all sizes alike; a repeated run of the first, given with --again, says it \
                 for certain",
                format::whole(self.rows as u64)
            ),
            Origin::Assumed => format!(
                "two runs of the same thing are taken to differ by {percent} % (standard deviation), since there are too few rows to \
                 see it; a repeated run of the first, given with --again, says it for certain"
            ),
        }
    }
}

/// By how much the numbers of each row moved against their mean move, whatever the direction, of rows with three at least; enlarged by
/// what the mean takes away of a sum of squares.
fn apart(pairs: &[Pair<'_>]) -> Vec<f64> {
    let mut rows: BTreeMap<(&str, &str, &str), Vec<f64>> = BTreeMap::new();
    for pair in pairs {
        if let Some(log) = moved(pair) {
            let Place {
                experiment,
                table,
                row,
                column: _,
            } = &pair.place;
            rows.entry((experiment, table, row)).or_default().push(log);
        }
    }
    rows.values()
        .filter(|logs| logs.len() >= 3)
        .flat_map(|logs| {
            let n = logs.len() as f64;
            let mean = logs.iter().sum::<f64>() / n;
            let taken = (n / (n - 1.0)).sqrt();
            logs.iter().map(move |log| (log - mean).abs() * taken)
        })
        .collect()
}

/// How far a row moved towards the worse, on the logarithmic scale, when it can show how much runs differ.
fn moved(pair: &Pair<'_>) -> Option<f64> {
    pair.a.ci.and(pair.b.ci)?;
    if pair.stands_as_time {
        return None;
    }
    Some(pair.better()?.towards_worse(logarithm(pair)?))
}

/// How a row stands, before all rows are looked at together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Judged {
    /// The p-value.
    pub(super) p: f64,
    /// How far it moved towards the worse beyond what the machine explains, as a share of the first run's number.
    pub(super) beyond: f64,
}

/// What is known of two runs apart from their rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// How much they differ by themselves, as a share.
    pub(super) between_runs: f64,
    /// What the machine explains of the row.
    pub(super) machine: Explained,
    /// The steps of the clocks of the first and the second, in nanoseconds.
    pub(super) steps_ns: [f64; 2],
}

/// How a row stands; or why that cannot be told.
pub(super) fn judge(pair: &Pair<'_>, known: &Known) -> Result<Judged, &'static str> {
    let better = pair.better().ok_or(NO_DIRECTION)?;
    if pair.stands_as_time {
        return Err(STANDS_AS_TIME);
    }
    let exact = |measured: &Measured| pair.unit == Unit::Instructions && measured.ci.is_none();
    let Some(log) = logarithm(pair).filter(|_| has_quotient(pair)) else {
        return by_difference(pair, better, known);
    };
    let log = better.towards_worse(log);
    if exact(pair.a) && exact(pair.b) {
        return Ok(Judged {
            p: if log == 0.0 { 1.0 } else { 0.0 },
            beyond: log.exp_m1(),
        });
    }
    let log = known.machine.beyond(log);
    let within = variance(pair.a)? + variance(pair.b)?;
    let [a, b] = known.steps_ns;
    let steps = pair.step(pair.a, a) + pair.step(pair.b, b);
    let error = (within + steps + known.between_runs.powi(2)).sqrt();
    Ok(Judged {
        p: stats::beyond_student(log.abs() / error, DEGREES),
        beyond: log.exp_m1(),
    })
}

/// Whether no interval of a pair reaches zero.
fn has_quotient(pair: &Pair<'_>) -> bool {
    let above = |measured: &Measured| measured.ci.is_none_or(|ci| ci.low > 0.0);
    above(pair.a) && above(pair.b)
}

/// How a row stands by the difference of its numbers, as a share of the larger one.
fn by_difference(pair: &Pair<'_>, better: Better, known: &Known) -> Result<Judged, &'static str> {
    let larger = pair.a.value.abs().max(pair.b.value.abs());
    if larger == 0.0 {
        return Err("both numbers are zero");
    }
    let deviation = |measured: &Measured, step_ns: f64| -> Result<f64, &'static str> {
        let Interval { low, high } = measured.ci.ok_or(NO_INTERVAL)?;
        let half = (high - measured.value).max(measured.value - low);
        let step = match pair.unit {
            Unit::Nanoseconds => UNIFORM.sqrt() * step_ns,
            _ => 0.0,
        };
        Ok((half / NORMAL).hypot(step) / larger)
    };
    let [a, b] = known.steps_ns;
    let within = deviation(pair.a, a)?.hypot(deviation(pair.b, b)?);
    let error = within.hypot(known.between_runs);
    let moved = better.towards_worse((pair.b.value - pair.a.value) / larger);
    let beyond = known.machine.beyond(moved);
    Ok(Judged {
        p: stats::beyond_student(beyond.abs() / error, DEGREES),
        beyond,
    })
}

fn logarithm(pair: &Pair<'_>) -> Option<f64> {
    let (a, b) = (pair.a.value, pair.b.value);
    (a > 0.0 && b > 0.0).then(|| (b / a).ln())
}

/// The variance of a number's logarithm, from its interval. The wider side counts: a distribution that is skewed is taken for
/// one that is wide.
fn variance(measured: &Measured) -> Result<f64, &'static str> {
    let Interval { low, high } = measured.ci.ok_or(NO_INTERVAL)?;
    let half = (high / measured.value).max(measured.value / low).ln();
    Ok((half / NORMAL).powi(2))
}
