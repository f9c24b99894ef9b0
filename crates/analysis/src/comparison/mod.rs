//! Two sides held against each other: what became worse, what became better, what cannot be told apart, and in what the machines
//! differ. A side is one run, or several runs of the same thing.
//!
//! Every number that both sides hold is one row of the comparison, and every fact is one row, however many tables show it. A row is
//! judged when its unit has a better and a worse and its spread is known: by the run's own 95 % interval, by several runs a side, or
//! because it is a count of instructions, which is exact. The rows of a path in an experiment have one effect, which is tested first;
//! the rows are tested below it. Both families of tests control the false discovery rate. See `machine` for the covariate and
//! `effects` for the mixed model.
//! A path or a row is a regression when it differs in that sense *and* is worse by more than the threshold.
//!
//! This module reads [`Run`]s. It measures nothing, and it draws nothing.

mod cells;
mod effects;
mod facts;
mod finding;
mod host;
mod judge;
mod machine;
mod repeated;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use serde::Serialize;
use tollgate_run::{Measured, Run, Timestamp, Unit, format};
use tollgate_stats as stats;

pub use cells::{CellKey, Number, numbers};
pub use effects::{BetweenRuns, Origin, POWER, PRIOR, PRIOR_DEGREES, UNTOLD};
pub use host::HostDifference;
pub use machine::{Moved, Slope, SlopeOrigin};

use cells::{Pair, Paired};
use effects::{Fitted, Tested};
use judge::{Observed, Scale};
use machine::Machine;

/// The false discovery rate: the share of paths, and of rows, told apart that do not differ, on average at most.
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;

/// The threshold when none is asked for, as a share.
pub const THRESHOLD: f64 = 0.05;

/// The version of what [`Comparison`] is written as.
pub const VERSION: u32 = 3;

/// Options of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The least change for the worse that is a regression, as a share of the first run's number: 0.05 is 5 %.
    pub threshold: f64,
    /// Only these experiments; all unless given.
    pub experiments: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threshold: THRESHOLD,
            experiments: None,
        }
    }
}

/// Runs that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComparisonError {
    /// A side without a run.
    #[error("a comparison needs a run before and a run after")]
    NoRun,
    /// No number is in both.
    #[error(
        "no row is in both runs: the first holds {a}, the second {b}; compare runs of the same experiments, paths and sizes"
    )]
    NothingInCommon {
        /// The experiments of the first.
        a: String,
        /// Those of the second.
        b: String,
    },
}

/// One of the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The command line that made it.
    pub command: String,
    /// When.
    pub started: Timestamp,
    /// The version of the tool.
    pub tool: String,
    /// Tells whether it was shortened.
    pub quick: bool,
}

/// Verdict on a row or a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Verdict {
    /// Worse, significantly and by more than the threshold.
    Regression,
    /// Better, significantly and by more than the threshold.
    Improvement,
    /// Significantly different, by the threshold at most.
    Slight,
    /// Not told apart by these two runs.
    NoDifference,
    /// No judgement is possible.
    NotJudged {
        /// The reason.
        reason: &'static str,
    },
}

/// A 95 % interval of a change, of this change alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangeInterval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The quantity that the ends measure.
    pub of: IntervalOf,
}

/// Quantity that the ends of a change's interval measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalOf {
    /// Shares of the number before.
    Quotient,
    /// Differences in the row's unit.
    Difference,
}

/// The effect that the rows of a path in an experiment have in common.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathChange {
    /// The experiment.
    pub experiment: String,
    /// The path; none for rows that belong to no single path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The count of its rows.
    pub rows: usize,
    /// The share by which its cost rose, less what control benchmark and run explain.
    pub change: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The standard deviation by which its rows scatter about the change, as a logarithm.
    pub scatter: f64,
    /// The p-value, adjusted for all paths.
    pub p: f64,
    /// The smallest rise of its cost that would have been found, with a probability of [`POWER`].
    pub smallest: f64,
    /// The verdict on it.
    pub verdict: Verdict,
}

impl PathChange {
    /// Its name in a sentence.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.path {
            Some(path) => format!("{path} in {}", self.experiment),
            None => format!("{} (rows of no single path)", self.experiment),
        }
    }
}

/// A number that both sides hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The key of its cell.
    #[serde(flatten)]
    pub place: CellKey,
    /// The keys of the cells that hold the same fact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<CellKey>,
    /// Its unit.
    pub unit: Unit,
    /// Before: the geometric mean of the runs, or their mean where one is not above zero.
    pub a: f64,
    /// After.
    pub b: f64,
    /// `(b - a) / a`; none when `a` is not above zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
    /// The interval of the change, less what control benchmark and run explain; none when the row is exact or not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<ChangeInterval>,
    /// The p-value, adjusted for all rows that are judged; none when this one is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// The verdict on it.
    pub verdict: Verdict,
}

/// Two sides held against each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Always `tollgate.comparison`.
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// The runs before.
    pub a: Vec<Side>,
    /// The runs after.
    pub b: Vec<Side>,
    /// The least change for the worse that is a regression, as a share.
    pub threshold: f64,
    /// [`FALSE_DISCOVERY_RATE`].
    pub false_discovery_rate: f64,
    /// The variation between runs without any change.
    pub between_runs: BetweenRuns,
    /// The moves of the control benchmarks that all runs have.
    pub machine: Vec<Moved>,
    /// The effect of a benchmark's move on rows: first for all paths by processors, then for single paths where runs of one side
    /// show it.
    pub slopes: Vec<Slope>,
    /// One sentence.
    pub finding: String,
    /// The paths, in the order of the first run.
    pub paths: Vec<PathChange>,
    /// The smallest rise of a path's cost that would have been found: the median over the paths; none without a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smallest_change: Option<f64>,
    /// The count of judged rows.
    pub judged: usize,
    /// All facts that both sides hold, in the order of the first run.
    pub rows: Vec<Change>,
    /// The cells for which only the first side has a number.
    pub only_a: Vec<CellKey>,
    /// The cells for which only the second side has a number.
    pub only_b: Vec<CellKey>,
    /// The differences between the machines of the first runs of both sides.
    pub host: Vec<HostDifference>,
    /// The facts of the machines that were compared.
    pub host_looked_at: Vec<String>,
    /// The facts that one of the descriptions does not hold, or neither.
    pub host_not_known: Vec<String>,
    /// The remarks to read before trusting any of it.
    pub notes: Vec<String>,
}

impl Comparison {
    /// The rows of which this is said.
    pub fn with(&self, verdict: &Verdict) -> impl Iterator<Item = &Change> {
        self.rows.iter().filter(move |row| row.verdict == *verdict)
    }

    /// Tells whether a path or a row became worse.
    #[must_use]
    pub fn has_regressions(&self) -> bool {
        let path = |one: &PathChange| one.verdict == Verdict::Regression;
        self.paths.iter().any(path) || self.with(&Verdict::Regression).next().is_some()
    }
}

/// Compares the runs `b` with the runs `a`, which are what was before. Runs of one side are to be repetitions of one another.
///
/// # Errors
/// [`ComparisonError`].
pub fn compare(a: &[&Run], b: &[&Run], options: &Options) -> Result<Comparison, ComparisonError> {
    let (Some(first), Some(second)) = (a.first(), b.first()) else {
        return Err(ComparisonError::NoRun);
    };
    let Paired {
        pairs,
        only_a,
        only_b,
    } = cells::pairs(a, b, options.experiments.as_deref());
    if pairs.is_empty() {
        return Err(ComparisonError::NothingInCommon {
            a: names(first),
            b: names(second),
        });
    }
    let sides = [a.len(), b.len()];
    let steps_ns: Vec<f64> = a
        .iter()
        .chain(b)
        .map(|run| run.clock.resolution_ns)
        .collect();
    let (machine, observed) = observe(&pairs, Machine::of(a, b), &steps_ns, sides);
    let fitted = Fitted::of(&pairs, &observed, &machine, sides);
    let paths = paths(&fitted, options.threshold);
    let smallest: Vec<f64> = paths.iter().map(|one| one.smallest).collect();
    let rows = rows(&pairs, &observed, &fitted, options.threshold);
    let machines = host::compared(first, second);
    let mut comparison = Comparison {
        schema: "tollgate.comparison",
        version: VERSION,
        a: a.iter().map(|run| Side::of(run)).collect(),
        b: b.iter().map(|run| Side::of(run)).collect(),
        threshold: options.threshold,
        false_discovery_rate: FALSE_DISCOVERY_RATE,
        between_runs: fitted.between,
        finding: String::new(),
        smallest_change: stats::median_of(&smallest),
        paths,
        judged: rows.iter().filter(|row| row.p.is_some()).count(),
        rows,
        only_a,
        only_b,
        host: machines.differences,
        host_looked_at: machines.looked_at,
        host_not_known: machines.not_known,
        notes: Vec::new(),
        slopes: Vec::new(),
        machine: Vec::new(),
    };
    comparison.finding = finding::finding(&comparison);
    comparison.notes = fitted.between.in_words(sides);
    comparison.notes.extend(machine.in_words());
    comparison.notes.extend(finding::of_runs(a, b));
    comparison.slopes = machine.slopes;
    comparison.machine = machine.moved;
    Ok(comparison)
}

/// Observes all rows, after the slopes of the covariate are learnt from runs of one side where there are several.
fn observe(
    pairs: &[Pair<'_>],
    mut machine: Machine,
    steps_ns: &[f64],
    sides: [usize; 2],
) -> (Machine, Vec<Result<Observed, &'static str>>) {
    let all = |machine: &Machine| -> Vec<Result<Observed, &'static str>> {
        let spreads = repeated::spreads(pairs, machine, sides);
        let both = pairs.iter().zip(spreads);
        both.map(|(pair, spread)| judge::observe(pair, machine.of_row(pair), steps_ns, spread))
            .collect()
    };
    let observed = all(&machine);
    if sides == [1, 1] {
        return (machine, observed);
    }
    let within: Vec<_> = pairs
        .iter()
        .zip(&observed)
        .filter(|(pair, _)| pair.unit != Unit::Instructions)
        .filter_map(|(pair, observed)| {
            let observed = observed.as_ref().ok()?;
            let is_quotient = observed.scale == Scale::Quotient;
            let logs = repeated::within_sides(pair, observed.better).filter(|_| is_quotient)?;
            Some(machine::Within {
                experiment: &pair.place.experiment,
                path: pair.path,
                cores: pair.cores,
                logs,
            })
        })
        .collect();
    machine.take_rows(pairs);
    machine.learn(&within, PRIOR * PRIOR / 2.0);
    let observed = all(&machine);
    (machine, observed)
}

fn paths(fitted: &Fitted, threshold: f64) -> Vec<PathChange> {
    let tested: Vec<Tested> = fitted
        .groups
        .iter()
        .map(|(_, group)| fitted.path(group))
        .collect();
    let ps: Vec<f64> = tested.iter().map(|one| one.p).collect();
    let adjusted = stats::benjamini_hochberg(&ps);
    fitted
        .groups
        .iter()
        .zip(tested.iter().zip(adjusted))
        .map(|((name, group), (tested, p))| {
            let change = tested.moved.exp_m1();
            PathChange {
                experiment: name.experiment.clone(),
                path: name.path.map(|path| path.to_string()),
                rows: group.len(),
                change,
                low: (tested.moved - tested.half).exp_m1(),
                high: (tested.moved + tested.half).exp_m1(),
                scatter: group.scatter(),
                p,
                smallest: fitted.smallest(group, FALSE_DISCOVERY_RATE),
                verdict: verdict(p, change, threshold),
            }
        })
        .collect()
}

fn rows(
    pairs: &[Pair<'_>],
    observed: &[Result<Observed, &'static str>],
    fitted: &Fitted,
    threshold: f64,
) -> Vec<Change> {
    let tested: Vec<Option<Tested>> = observed
        .iter()
        .enumerate()
        .map(|(at, observed)| Some(fitted.row(at, observed.as_ref().ok()?)))
        .collect();
    // Counts without a spread are no tests, so they are not adjusted, and make no test of others stricter or more lenient.
    let is_test = |at: usize| matches!(&observed[at], Ok(one) if one.scale != Scale::Exact);
    let places: Vec<usize> = (0..pairs.len()).filter(|&at| is_test(at)).collect();
    let raw: Vec<f64> = places
        .iter()
        .filter_map(|&at| Some(tested[at]?.p))
        .collect();
    let mut ps: Vec<Option<f64>> = tested.iter().map(|one| Some((*one)?.p)).collect();
    for (at, p) in places.into_iter().zip(stats::benjamini_hochberg(&raw)) {
        ps[at] = Some(p);
    }
    let every = pairs.iter().zip(observed).zip(tested.iter().zip(ps));
    every
        .map(|((pair, observed), (tested, p))| {
            let (a, b) = levels(pair);
            let judged = observed.as_ref().ok().zip(*tested);
            Change {
                place: pair.place.clone(),
                also: pair.also.clone(),
                unit: pair.unit,
                a,
                b,
                change: (a > 0.0).then(|| (b - a) / a),
                interval: judged.and_then(|(observed, tested)| interval(observed, &tested)),
                p,
                verdict: match (observed, judged) {
                    (Err(reason), _) => Verdict::NotJudged { reason },
                    (Ok(_), Some((observed, tested))) => {
                        let beyond = match observed.scale {
                            Scale::Exact | Scale::Quotient => tested.moved.exp_m1(),
                            Scale::Difference(_) => tested.moved,
                        };
                        verdict(p.unwrap_or(1.0), beyond, threshold)
                    }
                    (Ok(_), None) => Verdict::NoDifference,
                },
            }
        })
        .collect()
}

/// The number before and after: geometric means over the runs, or means where one is not above zero.
fn levels(pair: &Pair<'_>) -> (f64, f64) {
    let geometric = pair.all().flatten().all(|one| one.value > 0.0);
    let mean = |side: &[Option<&Measured>]| {
        if geometric {
            judge::mean_of(side, |one| one.value.ln()).exp()
        } else {
            judge::mean_of(side, |one| one.value)
        }
    };
    // A logarithm and back would change the last digits of a single number.
    let level = |side: &[Option<&Measured>]| match side {
        [Some(one)] => one.value,
        _ => mean(side),
    };
    (level(&pair.a), level(&pair.b))
}

fn interval(observed: &Observed, tested: &Tested) -> Option<ChangeInterval> {
    let ends = [tested.moved - tested.half, tested.moved + tested.half];
    let [one, other] = ends.map(|end| observed.better.towards_worse(end));
    let (low, high) = (one.min(other), one.max(other));
    match observed.scale {
        Scale::Exact => None,
        Scale::Quotient => Some(ChangeInterval {
            low: low.exp_m1(),
            high: high.exp_m1(),
            of: IntervalOf::Quotient,
        }),
        Scale::Difference(unit) => Some(ChangeInterval {
            low: low * unit,
            high: high * unit,
            of: IntervalOf::Difference,
        }),
    }
}

/// Judges a path or row by its move beyond the corrections, a share above zero for the worse.
fn verdict(p: f64, beyond: f64, threshold: f64) -> Verdict {
    if p >= FALSE_DISCOVERY_RATE {
        Verdict::NoDifference
    } else if beyond.abs() <= threshold {
        Verdict::Slight
    } else if beyond > 0.0 {
        Verdict::Regression
    } else {
        Verdict::Improvement
    }
}

impl Side {
    fn of(run: &Run) -> Self {
        Self {
            command: run.command.clone(),
            started: run.started,
            tool: run.tool.version.clone(),
            quick: run.quick,
        }
    }
}

fn names(run: &Run) -> String {
    let names: Vec<String> = run.experiments.iter().map(|e| e.name.clone()).collect();
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        format::list(&names)
    }
}
