//! The mixed model: one effect for each path, the run as a random effect, and rows below.
//!
//! A path of an experiment is a group of rows. Its effect is the mean of its rows, weighted by what is known of each: of whole numbers,
//! and of the spans of a ledger only where there is nothing else, since spans are parts. Rows scatter about the effect by a standard
//! deviation that they show. Rows of one column stand on the same samples, so as many rows count as there are columns. Whole paths differ
//! between equal runs beyond that. Several runs of one side show it of each path ([`super::repeated`]). With one run a side that is not
//! identifiable: a prior of [`PRIOR`] with [`PRIOR_DEGREES`] is used, together with how far the other paths of the two runs lie from each
//! other. What all paths have in common is then predicted as the effect of the run (the best linear unbiased prediction) and removed,
//! unless it is larger than runs are expected to differ.
//!
//! This module owns variances and tests. It never decides what a change means.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use tollgate_run::{PathId, RowKind, format};
use tollgate_stats::{self as stats, Variance};

use super::cells::Pair;
use super::judge::{Observed, Scale};
use super::machine::{Machine, OF_A_MEDIAN};
use super::repeated::{Path, Sides, excess_of_others, moderated, without_interval};

/// Standard deviation of the logarithm of a quotient of equal runs. An assumption for shared virtual machines of two processors,
/// which no set of runs was fitted to.
pub const PRIOR: f64 = 0.03;

/// The degrees of freedom of the prior. So few, because some paths differ more from run to run than most do: the most with which 5 % of
/// equal pairs are told apart at most, where one path in three differs by up to three times the prior, with two runs a side or more.
pub const PRIOR_DEGREES: f64 = 2.5;

/// The least that the rows of a path are taken to scatter, as a share.
pub(super) const LEAST: f64 = 0.01;

/// The fewest paths that show what all have in common, and how far they lie apart: a minority of one that changed must not decide it.
const ENOUGH_PATHS: usize = 4;

/// The fewest rows that show how far they scatter.
pub(super) const ENOUGH_ROWS: usize = 3;

/// Largest common move of all paths that counts as an effect of the run, in standard deviations of the prior.
const PLAUSIBLE: f64 = 2.0;

/// The probability with which the smallest change is told.
pub const POWER: f64 = 0.8;

/// The rise of a cost, as a share, from which the smallest that would be told says no more than that nothing is: ten times the cost.
pub const UNTOLD: f64 = 9.0;

/// Difference between two sides though nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BetweenRuns {
    /// The standard deviation of the logarithm of a path's quotient; where several runs show it that of the median path, with all that is
    /// within the runs.
    pub deviation: f64,
    /// Its degrees of freedom.
    pub degrees: f64,
    /// The source of the estimate.
    pub from: Origin,
    /// The share by which all paths moved together; removed from each. Zero when that is not known, or not explained by a run.
    pub together: f64,
}

/// Source of the estimate of the variation between runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// From the prior.
    Prior,
    /// From the prior, and from how far the paths of two runs lie from each other.
    Paths,
    /// From the prior, and from several runs of one side.
    Runs,
}

/// The experiment and the path of a group; the latter is none for rows of no single path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) experiment: String,
    pub(super) path: Option<PathId>,
}

impl Name {
    pub(super) fn of(pair: &Pair<'_>) -> Self {
        Self {
            experiment: pair.place.experiment.clone(),
            path: pair.path,
        }
    }
}

/// A path of an experiment, by its place among the rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    /// The rows that its effect is the mean of, each with its weight.
    rows: Vec<(usize, f64)>,
    /// The variance by which they scatter.
    scatter: f64,
    /// The mean of their moves, with the variance of what is known from within the runs.
    mean: stats::Mean,
    /// The variance that the slope of the covariate adds.
    slope: f64,
    /// The variance that noise of the control benchmark adds.
    noise: f64,
    /// The variance of the mean between equal sides without that of the slope.
    total: Variance,
    /// That variance if this path is the one that changed.
    if_changed: Variance,
}

/// Result of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tested {
    /// The move for the worse, on the scale of its observation.
    pub(super) moved: f64,
    /// The p-value of this test alone.
    pub(super) p: f64,
    /// Half of the 95 % interval.
    pub(super) half: f64,
}

/// The model, fitted.
pub(super) struct Fitted {
    pub(super) between: BetweenRuns,
    pub(super) groups: Vec<(Name, Group)>,
    /// The variance of the scatter for each row.
    scatter: Vec<f64>,
    /// The variance between equal sides of each row that runs of one side show.
    shown: Vec<Option<Variance>>,
    /// The logarithm that is removed from every row.
    together: f64,
}

impl Fitted {
    /// Fits the model to all rows that can be observed.
    pub(super) fn of(
        pairs: &[Pair<'_>],
        observed: &[Result<Observed, &'static str>],
        machine: &Machine,
        sides: [usize; 2],
    ) -> Self {
        let members = members(pairs, observed);
        let scatters: Vec<Option<f64>> = members
            .iter()
            .map(|(_, rows)| scatter(rows, observed))
            .collect();
        let known: Vec<f64> = scatters.iter().flatten().copied().collect();
        let typical = stats::median_of(&known).unwrap_or(LEAST.powi(2));
        let mut of_row = vec![typical; pairs.len()];
        let mut groups = Vec::new();
        let mut rows_of = Vec::new();
        for ((name, rows), scatter) in members.into_iter().zip(scatters) {
            let scatter = scatter.unwrap_or(typical);
            for &row in &rows {
                of_row[row] = scatter;
            }
            let whole = complete(whole(rows.clone(), pairs), pairs);
            let scatter = self::scatter(&whole, observed).unwrap_or(scatter);
            if let Some(group) = Group::of(whole, scatter, pairs, observed) {
                groups.push((name, group));
                rows_of.push(rows);
            }
        }
        let mut shown = vec![None; pairs.len()];
        if sides == [1, 1] {
            let paths: Vec<(f64, f64)> = groups
                .iter()
                .map(|(_, one)| (one.mean.value, one.mean.variance + one.noise + one.slope))
                .collect();
            let OneRun {
                between,
                together,
                if_one_changed,
            } = OneRun::of(&paths, typical.sqrt());
            for (at, (_, group)) in groups.iter_mut().enumerate() {
                let within = group.mean.variance + group.noise;
                group.total = between.variance().beside(within);
                group.if_changed = if_one_changed.beside(within);
                for &row in &rows_of[at] {
                    let Ok(one) = &observed[row] else { continue };
                    shown[row] = Some(of_a_row(between.variance(), of_row[row], one));
                }
            }
            return Self {
                between,
                groups,
                scatter: of_row,
                shown,
                together,
            };
        }
        let sides = Sides {
            pairs,
            observed,
            machine,
            sides,
        };
        let between_runs = sides.between_runs();
        let paths: Vec<Path> = groups
            .iter()
            .map(|(_, group)| Path {
                own: sides.own(&group.rows),
                expected: between_runs + group.mean.variance + group.noise,
            })
            .collect();
        for (at, (_, group)) in groups.iter_mut().enumerate() {
            let excess = excess_of_others(&paths, at);
            group.total = moderated(paths[at].own, excess * paths[at].expected);
            group.if_changed = group.total;
            for &row in &rows_of[at] {
                let Ok(one) = &observed[row] else { continue };
                let expected = between_runs + one.within + one.noise + of_row[row];
                let own = sides.own(&[(row, 1.0)]);
                shown[row] = Some(if one.has_intervals {
                    moderated(own, excess * expected)
                } else {
                    without_interval(own, excess * expected)
                });
            }
        }
        let is_shown = paths.iter().any(|path| path.own.is_some());
        Self {
            between: typical_path(&groups, is_shown),
            groups,
            scatter: of_row,
            shown,
            together: 0.0,
        }
    }

    /// Tests a row.
    pub(super) fn row(&self, at: usize, observed: &Observed) -> Tested {
        match observed.scale {
            Scale::Exact => Tested {
                moved: observed.moved,
                p: if observed.moved == 0.0 { 1.0 } else { 0.0 },
                half: 0.0,
            },
            Scale::Quotient | Scale::Difference(_) => {
                let total = self.shown[at].unwrap_or_else(|| {
                    of_a_row(self.between.variance(), self.scatter[at], observed)
                });
                self.test(observed.moved, observed.slope, total)
            }
        }
    }

    /// Tests a path.
    pub(super) fn path(&self, group: &Group) -> Tested {
        self.test(group.mean.value, group.slope, group.total)
    }

    fn test(&self, moved: f64, slope: f64, total: Variance) -> Tested {
        let Variance { value, degrees } = total.beside(slope);
        let error = value.sqrt();
        let moved = moved - self.together;
        Tested {
            moved,
            p: stats::beyond_student(moved / error, degrees),
            half: error * stats::student_quantile(0.975, degrees),
        }
    }

    /// The smallest change for the worse, as a share, that this path shows with a probability of [`POWER`] when it is the only one that
    /// changed: the minimum detectable effect (Bloom 1995) at the first step of the false discovery rate.
    pub(super) fn smallest(&self, group: &Group, rate: f64) -> f64 {
        let Variance { value, degrees } = group.if_changed.beside(group.slope);
        let tests = self.groups.len().max(1) as f64;
        let told = stats::student_quantile(1.0 - rate / (2.0 * tests), degrees);
        (value.sqrt() * (told + stats::student_quantile(POWER, degrees))).exp_m1()
    }
}

impl Group {
    fn of(
        rows: Vec<usize>,
        scatter: f64,
        pairs: &[Pair<'_>],
        observed: &[Result<Observed, &'static str>],
    ) -> Option<Self> {
        let known: Vec<(usize, &Observed)> = rows
            .iter()
            .filter_map(|&row| Some((row, observed[row].as_ref().ok()?)))
            .collect();
        let weighted: Vec<(f64, f64)> = known
            .iter()
            .map(|(_, one)| (one.moved, one.within + scatter))
            .collect();
        let mut mean = stats::weighted_mean(&weighted)?;
        let columns: HashSet<&str> = known
            .iter()
            .map(|&(row, _)| pairs[row].place.column.as_str())
            .collect();
        mean.variance *= known.len() as f64 / columns.len() as f64;
        // Rows of one benchmark share its error, so it does not become less by their number.
        let average = |of: fn(&Observed) -> f64| {
            known.iter().map(|(_, one)| of(one)).sum::<f64>() / known.len() as f64
        };
        Some(Self {
            scatter,
            mean,
            slope: average(|one| one.slope),
            noise: average(|one| one.noise),
            total: prior(),
            if_changed: prior(),
            rows: known
                .iter()
                .zip(weighted)
                .map(|(&(row, _), (_, variance))| (row, variance.recip()))
                .collect(),
        })
    }

    /// The count of rows of this path.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The standard deviation by which its rows scatter.
    pub(super) fn scatter(&self) -> f64 {
        self.scatter.sqrt()
    }
}

/// The rows with a quotient by experiment and path, in their order.
fn members(
    pairs: &[Pair<'_>],
    observed: &[Result<Observed, &'static str>],
) -> Vec<(Name, Vec<usize>)> {
    let mut places: HashMap<Name, usize> = HashMap::new();
    let mut members: Vec<(Name, Vec<usize>)> = Vec::new();
    for (at, (pair, observed)) in pairs.iter().zip(observed).enumerate() {
        if !matches!(observed, Ok(one) if one.scale == Scale::Quotient) {
            continue;
        }
        let name = Name::of(pair);
        let place = *places.entry(name.clone()).or_insert_with(|| {
            members.push((name, Vec::new()));
            members.len() - 1
        });
        members[place].1.push(at);
    }
    members
}

/// Those of the rows that are no spans of a ledger; all when there are only spans.
fn whole(rows: Vec<usize>, pairs: &[Pair<'_>]) -> Vec<usize> {
    let is_whole = |&row: &usize| match pairs[row].kind {
        RowKind::Total | RowKind::Plain => true,
        RowKind::Processing | RowKind::Queueing | RowKind::Unattributed => false,
    };
    let whole: Vec<usize> = rows.iter().copied().filter(is_whole).collect();
    if whole.is_empty() { rows } else { whole }
}

/// Those of the rows that all runs hold, so that all of them show the same; all when no row is held by all.
fn complete(rows: Vec<usize>, pairs: &[Pair<'_>]) -> Vec<usize> {
    let is_complete = |&row: &usize| pairs[row].all().all(|one| one.is_some());
    let complete: Vec<usize> = rows.iter().copied().filter(is_complete).collect();
    if complete.is_empty() { rows } else { complete }
}

/// The variance of a row between equal sides, from that of its path. Some rows scatter more than others, as some paths do.
fn of_a_row(between: Variance, scatter: f64, observed: &Observed) -> Variance {
    let scatter = Variance {
        value: scatter,
        degrees: PRIOR_DEGREES,
    };
    between
        .plus(scatter)
        .beside(observed.within + observed.noise)
}

/// The variance by which the rows of a path scatter beyond their intervals; none of too few.
fn scatter(rows: &[usize], observed: &[Result<Observed, &'static str>]) -> Option<f64> {
    if rows.len() < ENOUGH_ROWS {
        return None;
    }
    let known = || rows.iter().filter_map(|&row| observed[row].as_ref().ok());
    let moved: Vec<f64> = known().map(|one| one.moved).collect();
    let within: Vec<f64> = known().map(|one| one.within).collect();
    let beyond = stats::scatter(&moved)?.powi(2) - stats::median_of(&within)?;
    Some(beyond.max(LEAST.powi(2)))
}

/// The prior for a quotient of one run a side.
const fn prior() -> Variance {
    Variance {
        value: PRIOR * PRIOR,
        degrees: PRIOR_DEGREES,
    }
}

/// The variation between sides of several runs that the median path shows.
fn typical_path(groups: &[(Name, Group)], is_shown: bool) -> BetweenRuns {
    let values: Vec<f64> = groups.iter().map(|(_, one)| one.total.value).collect();
    let degrees: Vec<f64> = groups.iter().map(|(_, one)| one.total.degrees).collect();
    BetweenRuns {
        deviation: stats::median_of(&values).map_or(PRIOR, f64::sqrt),
        degrees: stats::median_of(&degrees).unwrap_or(PRIOR_DEGREES),
        from: if is_shown {
            Origin::Runs
        } else {
            Origin::Prior
        },
        together: 0.0,
    }
}

/// The variances that one run a side shows.
struct OneRun {
    between: BetweenRuns,
    /// The logarithm by which all paths moved together.
    together: f64,
    /// The variance that a path is judged by when its own change drives the paths apart.
    if_one_changed: Variance,
}

impl OneRun {
    /// Estimates it from the move of each path and the variance of its error. Where paths lie further apart than rows of one path do, and
    /// than the prior says, some of them changed or are restless. Then they say nothing of how far equal ones lie apart.
    fn of(paths: &[(f64, f64)], scatter: f64) -> Self {
        let prior = prior();
        let (moved, errors): (Vec<f64>, Vec<f64>) = paths.iter().copied().unzip();
        let known = stats::median_of(&moved)
            .zip(stats::median_of(&errors))
            .zip(stats::scatter(&moved));
        let Some(((common, error), apart)) = known.filter(|_| moved.len() >= ENOUGH_PATHS) else {
            return Self {
                between: BetweenRuns::assumed(),
                together: 0.0,
                if_one_changed: prior,
            };
        };
        let paths = moved.len() as f64;
        let shown = (apart.powi(2) - error).max(0.0);
        let of_paths = if shown > scatter.max(PRIOR).powi(2) {
            prior
        } else {
            prior.and(Variance {
                value: shown,
                degrees: stats::SCATTER_EFFICIENCY * (paths - 1.0),
            })
        };
        let (together, of_run) = if common.abs() <= PLAUSIBLE * PRIOR {
            let of_common = OF_A_MEDIAN * (of_paths.value + error) / paths;
            let precision = prior.value.recip() + of_common.recip();
            (common / of_common / precision, precision.recip())
        } else {
            (0.0, prior.value)
        };
        Self {
            between: BetweenRuns {
                deviation: (of_paths.value + of_run).sqrt(),
                degrees: of_paths.degrees,
                from: Origin::Paths,
                together: together.exp_m1(),
            },
            together,
            if_one_changed: Variance {
                value: of_paths.value.max(prior.value) + of_run,
                degrees: prior.degrees,
            },
        }
    }
}

impl BetweenRuns {
    const fn assumed() -> Self {
        Self {
            deviation: PRIOR,
            degrees: PRIOR_DEGREES,
            from: Origin::Prior,
            together: 0.0,
        }
    }

    const fn variance(&self) -> Variance {
        Variance {
            value: self.deviation * self.deviation,
            degrees: self.degrees,
        }
    }

    /// A sentence that says what is taken for it, and why.
    pub(super) fn in_words(&self, sides: [usize; 2]) -> Vec<String> {
        let percent = |share: f64| format::significant(100.0 * share);
        let prior = format!(
            "{} % (standard deviation, an assumption for shared virtual machines)",
            percent(PRIOR)
        );
        let deviation = percent(self.deviation);
        let mut told = vec![match self.from {
            Origin::Prior => format!(
                "one run a side does not show how much runs differ: paths of equal runs are taken to differ by {prior}; give several runs a \
                 side, BEFORE,BEFORE2 AFTER,AFTER2, to measure it"
            ),
            Origin::Paths => format!(
                "one run a side does not show how much runs differ: paths are taken to differ by {deviation} %, from a prior of {prior} and \
                 from how far the paths lie from each other; give several runs a side, BEFORE,BEFORE2 AFTER,AFTER2, to measure it"
            ),
            Origin::Runs => format!(
                "paths of equal sides differ by {deviation} % (standard deviation, the median path), as {} and {} runs show of each, with a prior of \
                 {} % for one run each",
                sides[0],
                sides[1],
                percent(PRIOR)
            ),
        }];
        if self.together.abs() >= 0.001 {
            told.push(format!(
                "all paths together cost {:+.1} %, which is removed from every change: runs of the same thing differ by as much",
                100.0 * self.together
            ));
        }
        told
    }
}
