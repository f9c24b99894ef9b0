//! The control benchmarks of the runs as a covariate of their rows.
//!
//! A run times two control benchmarks between its slices, of which neither the kernel nor Tollgate's stack is part. The model is
//! `ln row = run + b ln benchmark`. A saved run holds one mean of its benchmark for each experiment, so a single run cannot show `b`:
//! then `b` is taken to lie anywhere between 0 and 1 with equal probability. Several runs of one side show it, within those bounds.
//! Half of what the benchmark moved is removed from a row in the first case, and the uncertainty of `b` widens its interval. A row that
//! does not say on how many processors it ran has a slope on each benchmark, and these are estimated together.
//!
//! A virtual machine changes between two speeds within seconds. The geometric mean of a benchmark moves with the time that was spent at
//! each, as the mean of a path's rows does. A median has one speed or the other. It is used where one of the runs is an older one that
//! has no mean.
//!
//! Rows of the benchmark's own path, where an experiment has them, were measured in turns with the others and in the same manner, so they
//! feel the machine as those do. With several runs a side they are the benchmark of all other paths.
//!
//! This module owns the covariate. It must never remove more than the benchmark moved, nor less than nothing.

use serde::Serialize;
use tollgate_run::{Control, Cores, Measured, PathId, Run, Unit, format};
use tollgate_stats as stats;

use super::cells::Pair;
use super::effects::ENOUGH_ROWS;

/// The least move of a control benchmark that is told, as a share.
const LEAST_MOVE: f64 = 0.02;

/// The mean of what is uniform between 0 and 1.
const UNIFORM_MEAN: f64 = 0.5;
/// The standard deviation of the same: the root of 1 / 12.
const UNIFORM_DEVIATION: f64 = 0.288_675_134_594_812_9;

/// Half of a normal distribution lies within so many standard deviations: the quartiles are so far apart.
const QUARTILES: f64 = 1.349;
/// The variance of a median of normal values, in variances of their mean.
pub(super) const OF_A_MEDIAN: f64 = std::f64::consts::FRAC_PI_2;

/// A control benchmark that all runs have, and how far it moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moved {
    /// The experiment between whose slices it was timed.
    pub experiment: String,
    /// The number of processors that it takes.
    pub cores: Cores,
    /// The path that it is.
    pub path: String,
    /// The source of its times.
    pub from: BenchmarkOrigin,
    /// The share by which it became slower: the quotient of the sides' geometric means, less 1.
    pub share: f64,
    /// The standard deviation of the logarithm of that quotient, by what a run shows of its own.
    pub deviation: f64,
    /// The logarithm of each run's benchmark, those of the first side first.
    #[serde(skip)]
    logs: Vec<f64>,
}

impl Moved {
    fn log(&self) -> f64 {
        self.share.ln_1p()
    }

    /// Tells whether it is a benchmark of rows of this experiment on these processors; rows that do not say have all benchmarks.
    fn is_of(&self, experiment: &str, cores: Option<Cores>) -> bool {
        self.experiment == experiment && cores.is_none_or(|cores| cores == self.cores)
    }

    /// Tells whether it is the path itself.
    fn is_path(&self, path: Option<PathId>) -> bool {
        path.is_some_and(|path| path.name() == self.path)
    }

    /// Distance of each run's benchmark from the mean of its side, as a logarithm.
    fn within(&self, sides: [usize; 2]) -> Vec<f64> {
        let (a, b) = self.logs.split_at(sides[0]);
        [a, b].into_iter().flat_map(from_mean).collect()
    }
}

/// Distances of the values from their mean.
pub(super) fn from_mean(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| value - mean).collect()
}

/// Coefficient of the regression of a path's rows on a control benchmark: 0 moves nothing, 1 moves rows as much as the benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slope {
    /// The experiment; none when the slope is one of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// The path; none when the slope is one of all, or of rows of no single path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathId>,
    /// The processors of the benchmark, and of the rows unless these do not say.
    pub cores: Cores,
    /// Tells whether it is of rows that do not say on how many processors they ran. They have a slope on each benchmark.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_of_both: bool,
    /// The estimate of `b`.
    pub b: f64,
    /// Its standard deviation.
    pub deviation: f64,
    /// The source of the estimate.
    pub from: SlopeOrigin,
    /// The degrees of freedom of the runs that it takes: the share of it that they decide, and not the bounds.
    #[serde(skip)]
    spent: f64,
    /// The covariance of its error with that of the slope on the other benchmark.
    #[serde(skip)]
    covariance: f64,
}

impl Slope {
    /// Any value between the bounds.
    const fn bounds(cores: Cores) -> Self {
        Self {
            experiment: None,
            path: None,
            cores,
            is_of_both: false,
            b: UNIFORM_MEAN,
            deviation: UNIFORM_DEVIATION,
            from: SlopeOrigin::Bounds,
            spent: 0.0,
            covariance: 0.0,
        }
    }
}

/// Slopes on one benchmark, or on two at once.
struct Regression<'a> {
    /// The distances of the benchmarks, one list per benchmark; all zero for a second one that is not there.
    xs: [&'a [f64]; 2],
    ys: &'a [f64],
}

/// Estimates of [`Regression`] for each benchmark.
struct Estimated {
    bs: [f64; 2],
    variances: [f64; 2],
    covariance: f64,
    spent: [f64; 2],
}

impl Regression<'_> {
    /// Estimates the slopes with the bounds as a prior. `variance` is that of a path by the run alone; a path that shows more of it is
    /// believed.
    fn slopes(&self, variance: f64, degrees: f64) -> Estimated {
        let first = self.with(variance);
        let left: f64 = (0..self.ys.len())
            .map(|at| self.ys[at] - first.bs[0] * self.xs[0][at] - first.bs[1] * self.xs[1][at])
            .map(|one| one.powi(2))
            .sum();
        let degrees = degrees - first.spent[0] - first.spent[1];
        if degrees > 0.0 && left > variance * degrees {
            self.with(left / degrees)
        } else {
            first
        }
    }

    fn with(&self, variance: f64) -> Estimated {
        let product =
            |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y / variance).sum() };
        let prior = UNIFORM_DEVIATION.powi(-2);
        let squares = self.xs.map(|x| product(x, x));
        let both = product(self.xs[0], self.xs[1]);
        let [p, q] = squares.map(|square| prior + square);
        let determinant = p * q - both.powi(2);
        let (variances, covariance) = ([q / determinant, p / determinant], -both / determinant);
        let [u, v] = self.xs.map(|x| prior * UNIFORM_MEAN + product(x, self.ys));
        let bs = [
            variances[0] * u + covariance * v,
            covariance * u + variances[1] * v,
        ];
        Estimated {
            bs: bs.map(|b| b.clamp(0.0, 1.0)),
            variances,
            covariance,
            spent: [0, 1].map(|at| variances[at] * squares[at] + covariance * both),
        }
    }
}

/// Distance of a row from the mean of its side in each run, as a logarithm, above zero for higher costs.
pub(super) struct Within<'a> {
    pub(super) experiment: &'a str,
    pub(super) path: Option<PathId>,
    pub(super) cores: Option<Cores>,
    pub(super) logs: Vec<f64>,
}

/// Source of the times of a control benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BenchmarkOrigin {
    /// Round trips between the slices of the experiment.
    Looks,
    /// The rows of its path in the experiment.
    Rows,
}

/// Source of the estimate of a slope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlopeOrigin {
    /// One run a side: any value between 0 and 1 is equally probable.
    Bounds,
    /// Those bounds, and a regression within the runs of one side.
    Runs,
}

/// Correction to subtract from the logarithm of a quotient, in the direction of higher costs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Removed {
    pub(super) log: f64,
    /// The variance that it adds because the slope is not known.
    pub(super) slope: f64,
    /// The variance that it adds because the benchmark is noisy.
    pub(super) noise: f64,
}

/// The covariate of two sides.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Machine {
    pub(super) moved: Vec<Moved>,
    /// Those of all paths, for one processor and for two, then those of single paths.
    pub(super) slopes: Vec<Slope>,
    sides: [usize; 2],
}

impl Machine {
    /// The benchmarks that all runs have, with slopes between their bounds.
    pub(super) fn of(a: &[&Run], b: &[&Run]) -> Self {
        let moved = a.first().map_or(&[][..], |run| &run.controls);
        Self {
            moved: moved
                .iter()
                .filter_map(|first| Moved::of(first, a, b))
                .collect(),
            slopes: [Cores::One, Cores::Two].map(Slope::bounds).to_vec(),
            sides: [a.len(), b.len()],
        }
    }

    /// Estimates the slopes of paths by a regression of their rows on the benchmark within the runs of each side, with the bounds as a
    /// prior. `variance` is that of a path by the run alone.
    pub(super) fn learn(&mut self, rows: &[Within<'_>], variance: f64) {
        let mut paths: Vec<(&str, Option<PathId>, Option<Cores>)> = Vec::new();
        for row in rows {
            let path = (row.experiment, row.path, row.cores);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        for (experiment, path, cores) in paths {
            let of = |row: &&Within<'_>| {
                (row.experiment, row.path, row.cores) == (experiment, path, cores)
            };
            let rows: Vec<&Within<'_>> = rows.iter().filter(of).collect();
            // Rows of one run move together, so a run counts once, by their mean.
            let mean =
                |at: usize| rows.iter().map(|row| row.logs[at]).sum::<f64>() / rows.len() as f64;
            let benchmarks: Vec<(Cores, Vec<f64>)> = self
                .of_path(experiment, path, cores)
                .map(|one| (one.cores, one.within(self.sides)))
                .collect();
            let runs = self.sides.iter().sum();
            let nothing = vec![0.0; runs];
            let (first, second) = match &benchmarks[..] {
                [] => continue,
                [(_, first)] => (first, &nothing),
                [(_, first), (_, second), ..] => (first, second),
            };
            let ys: Vec<f64> = (0..runs).map(mean).collect();
            let regression = Regression {
                xs: [first, second],
                ys: &ys,
            };
            let estimated = regression.slopes(variance, runs as f64 - 2.0);
            for (at, (of, _)) in benchmarks.iter().enumerate().take(2) {
                self.slopes.push(Slope {
                    experiment: Some(experiment.to_owned()),
                    path,
                    is_of_both: cores.is_none(),
                    b: estimated.bs[at],
                    deviation: estimated.variances[at].sqrt(),
                    from: SlopeOrigin::Runs,
                    spent: estimated.spent[at],
                    covariance: estimated.covariance,
                    ..Slope::bounds(*of)
                });
            }
        }
    }

    /// Takes the rows of a benchmark's path for the benchmark of other paths, where all runs hold enough of them.
    pub(super) fn take_rows(&mut self, pairs: &[Pair<'_>]) {
        let of_rows = |looks: &Moved| looks.of_rows(pairs, self.sides);
        let of_rows: Vec<Moved> = self.moved.iter().filter_map(of_rows).collect();
        self.moved.extend(of_rows);
    }

    /// The benchmarks of rows of this path: those of rows where there are such, but no path is its own benchmark.
    fn of_path<'a>(
        &'a self,
        experiment: &'a str,
        path: Option<PathId>,
        cores: Option<Cores>,
    ) -> impl Iterator<Item = &'a Moved> {
        let is_held = move |looks: &&Moved| {
            let mut others = self.moved.iter();
            let of_rows = others.any(|one| {
                one.from == BenchmarkOrigin::Rows
                    && one.is_of(experiment, Some(looks.cores))
                    && one.path == looks.path
            });
            match looks.from {
                BenchmarkOrigin::Looks => !of_rows || looks.is_path(path),
                BenchmarkOrigin::Rows => !looks.is_path(path),
            }
        };
        let of_rows = self.moved.iter();
        of_rows
            .filter(move |one| one.is_of(experiment, cores))
            .filter(is_held)
    }

    /// The benchmarks of a row, each with its slope: that of its processors, or both where the row does not say on how many it ran.
    fn benchmarks<'a>(
        &'a self,
        pair: &'a Pair<'_>,
    ) -> impl Iterator<Item = (&'a Moved, &'a Slope)> {
        let of_path = self.of_path(&pair.place.experiment, pair.path, pair.cores);
        // A slower processor executes no more instructions.
        let of_row = of_path.filter(|_| pair.unit != Unit::Instructions);
        of_row.filter_map(|moved| {
            let mut of_cores = self.slopes.iter().filter(|one| one.cores == moved.cores);
            let of_all = of_cores.next()?;
            let is_own = |one: &&Slope| {
                one.experiment.as_ref() == Some(&pair.place.experiment)
                    && (one.path, one.is_of_both) == (pair.path, pair.cores.is_none())
            };
            Some((moved, of_cores.find(is_own).unwrap_or(of_all)))
        })
    }

    /// Computes the correction of a row.
    pub(super) fn of_row(&self, pair: &Pair<'_>) -> Removed {
        let mut removed = Removed::default();
        let benchmarks: Vec<_> = self.benchmarks(pair).collect();
        for (moved, slope) in &benchmarks {
            removed.log += slope.b * moved.log();
            removed.slope += (slope.deviation * moved.log()).powi(2);
            removed.noise += (slope.b * moved.deviation).powi(2);
        }
        if let [(one, slope), (other, _)] = benchmarks[..] {
            removed.slope += 2.0 * slope.covariance * one.log() * other.log();
        }
        removed
    }

    /// Computes the part of a row's distances from its side's mean that the benchmarks explain, one per run.
    pub(super) fn within(&self, pair: &Pair<'_>) -> Vec<f64> {
        let mut sum = vec![0.0; self.sides.iter().sum()];
        for (moved, slope) in self.benchmarks(pair) {
            for (sum, x) in sum.iter_mut().zip(moved.within(self.sides)) {
                *sum += slope.b * x;
            }
        }
        sum
    }

    /// The degrees of freedom that the slopes of a row's benchmarks take.
    pub(super) fn spent(&self, pair: &Pair<'_>) -> f64 {
        self.benchmarks(pair).map(|(_, slope)| slope.spent).sum()
    }

    /// Sentences that the reader must know.
    pub(super) fn in_words(&self) -> Vec<String> {
        if self.moved.is_empty() {
            return vec![
                "the runs have no control benchmark in common, so a slower machine is not told from a change"
                    .to_owned(),
            ];
        }
        let told = |cores: Cores| {
            let of = self.moved.iter().filter(|one| one.cores == cores);
            let slowest = of.clone().max_by(|a, b| a.share.total_cmp(&b.share))?;
            let quickest = of.min_by(|a, b| a.share.total_cmp(&b.share))?;
            if slowest.share < LEAST_MOVE && quickest.share > -LEAST_MOVE {
                return None;
            }
            let by = if slowest == quickest {
                in_percent(slowest.share)
            } else {
                format!(
                    "{} (in {}) to {} (in {})",
                    in_percent(quickest.share),
                    quickest.experiment,
                    in_percent(slowest.share),
                    slowest.experiment
                )
            };
            let whom = match cores {
                Cores::One => "rows on one processor",
                Cores::Two => "rows on two processors",
            };
            let learnt = |one: &&Slope| one.cores == cores && one.from == SlopeOrigin::Runs;
            let bs = || self.slopes.iter().filter(learnt).map(|one| one.b);
            let removed = match (bs().reduce(f64::min), bs().reduce(f64::max)) {
                (Some(least), Some(most)) => format!(
                    "{} to {} times that is removed from {whom}, path by path, as runs of one side show",
                    format::significant(least),
                    format::significant(most)
                ),
                _ => format!(
                    "half of that is removed from {whom}, and their intervals allow for none of it and for all, since one run a side does not \
                     show how much a row feels"
                ),
            };
            Some(format!(
                "the control benchmark {} was {by} after; {removed}",
                slowest.path
            ))
        };
        [Cores::One, Cores::Two]
            .into_iter()
            .filter_map(told)
            .collect()
    }
}

impl Moved {
    /// None unless all runs have this benchmark.
    fn of(first: &Control, a: &[&Run], b: &[&Run]) -> Option<Self> {
        let is_same = |one: &&Control| {
            one.cores == first.cores && one.path == first.path && one.experiment == first.experiment
        };
        let runs = a.iter().chain(b);
        let all = runs.map(|run| run.controls.iter().find(is_same));
        let all: Vec<&Control> = all.collect::<Option<_>>()?;
        let means: Option<Vec<(f64, f64)>> = all.iter().map(|one| mean(one)).collect();
        let all = match means {
            Some(means) => means,
            None => all.iter().map(|one| median(one)).collect::<Option<_>>()?,
        };
        let (a, b) = all.split_at(a.len());
        let of_side = |side: &[(f64, f64)]| stats::Mean {
            value: side.iter().map(|one| one.0).sum::<f64>() / side.len() as f64,
            variance: side.iter().map(|one| one.1).sum::<f64>() / (side.len() as f64).powi(2),
        };
        let (before, after) = (of_side(a), of_side(b));
        Some(Self {
            experiment: first.experiment.clone(),
            cores: first.cores,
            path: first.path.clone(),
            from: BenchmarkOrigin::Looks,
            share: (after.value - before.value).exp_m1(),
            deviation: (before.variance + after.variance).sqrt(),
            logs: all.iter().map(|one| one.0).collect(),
        })
    }
}

impl Moved {
    /// The rows of this benchmark's path in its experiment, by the mean of their logarithms in each run; none where there are too few that
    /// all runs hold.
    fn of_rows(&self, pairs: &[Pair<'_>], sides: [usize; 2]) -> Option<Self> {
        let is_its = |pair: &&Pair<'_>| {
            self.is_of(&pair.place.experiment, pair.cores)
                && pair.cores.is_some()
                && self.is_path(pair.path)
                && pair.unit == Unit::Nanoseconds
        };
        let rows: Vec<Vec<f64>> = pairs
            .iter()
            .filter(is_its)
            .filter_map(|pair| {
                let positive = |one: &Measured| (one.value > 0.0).then(|| one.value.ln());
                pair.all().map(|one| one.and_then(positive)).collect()
            })
            .collect();
        if rows.len() < ENOUGH_ROWS {
            return None;
        }
        let runs = 0..sides.iter().sum();
        let mean = |run: usize| rows.iter().map(|row| row[run]).sum::<f64>() / rows.len() as f64;
        let logs: Vec<f64> = runs.map(mean).collect();
        let (a, b) = logs.split_at(sides[0]);
        let of_side = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
        Some(Self {
            from: BenchmarkOrigin::Rows,
            share: (of_side(b) - of_side(a)).exp_m1(),
            // What it varies by itself is in what the runs of a side show of the rows that it is removed from.
            deviation: 0.0,
            logs,
            ..self.clone()
        })
    }
}

/// The logarithm of the mean of a benchmark, and its variance.
fn mean(control: &Control) -> Option<(f64, f64)> {
    let mean = control.mean?;
    (mean.ns > 0.0 && mean.error >= 0.0).then(|| (mean.ns.ln(), mean.error.powi(2)))
}

/// The logarithm of its median and its variance, from the quartiles of the samples.
fn median(control: &Control) -> Option<(f64, f64)> {
    let deviation = (control.high_ns / control.low_ns).ln() / QUARTILES;
    let variance = OF_A_MEDIAN * deviation.powi(2) / control.n as f64;
    let is_usable = control.low_ns > 0.0 && control.median_ns >= control.low_ns && control.n > 0;
    is_usable.then(|| (control.median_ns.ln(), variance))
}

fn in_percent(share: f64) -> String {
    let word = if share > 0.0 { "slower" } else { "faster" };
    format!("{:.1} % {word}", 100.0 * share.abs())
}
