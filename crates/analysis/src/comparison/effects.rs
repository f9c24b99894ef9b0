//! The mixed model: one effect for each path, the run as a random effect, and rows below.
//!
//! A path of an experiment is a group of rows. Its effect is the mean of its rows, weighted by what is known of each: of whole numbers,
//! and of the spans of a ledger only where there is nothing else, since spans are parts. Rows scatter about the effect by a standard
//! deviation that they show. Rows of one column stand on the same samples, so as many rows count as there are columns. Whole paths differ
//! between equal runs beyond that. With several runs of one side each path shows by how much it does: some differ much more than others,
//! and what they have in common says little of one. With one run a side that is not identifiable: a prior of [`PRIOR`] with
//! [`PRIOR_DEGREES`] is used, together with how far the paths of the two runs lie from each other. What all paths have in common is then predicted as the effect of the run (the best
//! linear unbiased prediction) and removed, unless it is larger than runs are expected to differ.
//!
//! This module owns variances and tests. It never decides what a change means.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use tollgate_run::{Measured, PathId, RowKind, format};
use tollgate_stats::{self as stats, Variance};

use super::cells::Pair;
use super::judge::{Observed, Scale};
use super::machine::{Machine, OF_A_MEDIAN, from_mean};

/// Standard deviation of the logarithm of a quotient of equal runs. An assumption for shared virtual machines of two processors,
/// which no set of runs was fitted to.
pub const PRIOR: f64 = 0.03;

/// The degrees of freedom of the prior. So few, because some paths differ more from run to run than most do. Of 300 pairs of 25 equal runs
/// of rr, 3 had a row told apart with 6 degrees, 8 with 8 and 12 with 14, by a test of rows alone that was adjusted by Holm's method.
pub const PRIOR_DEGREES: f64 = 6.0;

/// Variances of the prior beyond which the runs of a path are believed alone, since the prior would pull them down: the 95th percentile of F with 4
/// degrees of freedom, as three runs a side have, and those of the prior is 4.5.
const RESTLESS: f64 = 4.5;

/// The least that the rows of a path are taken to scatter, as a share.
const LEAST: f64 = 0.01;

/// The fewest paths that show what all have in common: a minority of one that changed must not decide it.
const ENOUGH_PATHS: usize = 4;

/// The fewest rows that show how far they scatter.
const ENOUGH_ROWS: usize = 3;

/// Largest common move of all paths that counts as an effect of the run, in standard deviations of the prior.
const PLAUSIBLE: f64 = 2.0;

/// The probability with which the smallest change is told.
pub const POWER: f64 = 0.8;

/// Difference between two sides though nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BetweenRuns {
    /// The standard deviation of the logarithm of a path's quotient; the median of the paths' own where several runs show them.
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

/// A path of an experiment, by its place among the rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    /// The rows that its effect is the mean of.
    rows: Vec<usize>,
    /// The variance by which they scatter.
    scatter: f64,
    /// The mean of their moves, with the variance of what is known from within the runs.
    mean: stats::Mean,
    /// The variance that the covariate adds.
    machine: f64,
    /// The variance between equal sides, and whether runs of one side have shown it.
    between: Variance,
    is_shown: bool,
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
    /// The standard error.
    pub(super) error: f64,
    /// Its degrees of freedom.
    degrees: f64,
}

/// The model, fitted.
pub(super) struct Fitted {
    pub(super) between: BetweenRuns,
    pub(super) groups: Vec<(Name, Group)>,
    /// The variance of the scatter for each row.
    scatter: Vec<f64>,
    /// The group of each row that has one.
    group_of: Vec<Option<usize>>,
    /// The logarithm that is removed from every row.
    together: f64,
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
        let mut group_of = vec![None; pairs.len()];
        let mut groups = Vec::new();
        for ((name, rows), scatter) in members.into_iter().zip(scatters) {
            let scatter = scatter.unwrap_or(typical);
            for &row in &rows {
                of_row[row] = scatter;
            }
            let whole = whole(rows.clone(), pairs);
            let scatter = self::scatter(&whole, observed).unwrap_or(scatter);
            if let Some(group) = Group::of(whole, scatter, pairs, observed) {
                for row in rows {
                    group_of[row] = Some(groups.len());
                }
                groups.push((name, group));
            }
        }
        let runs: f64 = sides.iter().map(|&n| n as f64).sum();
        let share = sides.iter().map(|&n| (n as f64).recip()).sum::<f64>();
        let (between, together) = if runs > 2.0 {
            for (_, group) in &mut groups {
                let shown = group.between_runs(pairs, observed, machine, runs - 2.0);
                let of_one = shown.unwrap_or(ONE_RUN);
                group.is_shown = shown.is_some();
                group.between = Variance {
                    value: of_one.value * share,
                    ..of_one
                };
            }
            (several_runs(&groups), 0.0)
        } else {
            let (between, together) = one_run_a_side(&groups, typical.sqrt());
            for (_, group) in &mut groups {
                group.between = between.variance();
            }
            (between, together)
        };
        Self {
            between,
            groups,
            scatter: of_row,
            group_of,
            together,
        }
    }

    /// Tests a row.
    pub(super) fn row(&self, at: usize, observed: &Observed) -> Tested {
        match observed.scale {
            Scale::Exact => Tested {
                moved: observed.moved,
                p: if observed.moved == 0.0 { 1.0 } else { 0.0 },
                half: 0.0,
                error: 0.0,
                degrees: f64::INFINITY,
            },
            Scale::Quotient | Scale::Difference(_) => {
                let group = self.group_of[at].map(|group| &self.groups[group].1);
                self.test(
                    observed.moved,
                    observed.within + observed.machine + self.scatter[at],
                    group.map_or_else(|| self.between.variance(), |group| group.between),
                )
            }
        }
    }

    /// Tests a path.
    pub(super) fn path(&self, group: &Group) -> Tested {
        let variance = group.mean.variance + group.machine;
        self.test(group.mean.value, variance, group.between)
    }

    fn test(&self, moved: f64, variance: f64, between: Variance) -> Tested {
        let degrees = between.degrees;
        let error = (variance + between.value).sqrt();
        let moved = moved - self.together;
        Tested {
            moved,
            p: stats::beyond_student(moved / error, degrees),
            half: error * stats::student_quantile(0.975, degrees),
            error,
            degrees,
        }
    }

    /// The smallest change for the worse, as a share, that a path with such an error shows with a probability of [`POWER`] when it is the
    /// only one: the minimum detectable effect (Bloom 1995) at the first step of the false discovery rate.
    pub(super) fn smallest(&self, tested: &Tested, rate: f64) -> f64 {
        let degrees = tested.degrees;
        let tests = self.groups.len().max(1) as f64;
        let told = stats::student_quantile(1.0 - rate / (2.0 * tests), degrees);
        (tested.error * (told + stats::student_quantile(POWER, degrees))).exp_m1()
    }
}

impl Group {
    fn of(
        rows: Vec<usize>,
        scatter: f64,
        pairs: &[Pair<'_>],
        observed: &[Result<Observed, &'static str>],
    ) -> Option<Self> {
        let known: Vec<&Observed> = rows
            .iter()
            .filter_map(|&row| observed[row].as_ref().ok())
            .collect();
        let weighted: Vec<(f64, f64)> = known
            .iter()
            .map(|one| (one.moved, one.within + scatter))
            .collect();
        let mut mean = stats::weighted_mean(&weighted)?;
        let columns: HashSet<&str> = rows
            .iter()
            .map(|&row| pairs[row].place.column.as_str())
            .collect();
        mean.variance *= rows.len() as f64 / columns.len() as f64;
        // Rows of one benchmark share its error, so it does not become less by their number.
        let machine = known.iter().map(|one| one.machine).sum::<f64>() / known.len() as f64;
        Some(Self {
            rows,
            scatter,
            mean,
            machine,
            between: prior(),
            is_shown: false,
        })
    }

    /// The variance of this path by the run alone, for one run, as the runs of each side show it, with the prior; none where they do not.
    fn between_runs(
        &self,
        pairs: &[Pair<'_>],
        observed: &[Result<Observed, &'static str>],
        machine: &Machine,
        degrees: f64,
    ) -> Option<Variance> {
        let mut sums: Vec<f64> = Vec::new();
        let mut rows = 0.0;
        for &row in &self.rows {
            let Ok(one) = &observed[row] else { continue };
            let Some(within) = within_sides(&pairs[row], one) else {
                continue;
            };
            let explained = machine.within(&pairs[row]);
            sums.resize(within.len(), 0.0);
            for ((sum, moved), explained) in sums.iter_mut().zip(within).zip(explained) {
                *sum += moved - explained;
            }
            rows += 1.0;
        }
        if rows == 0.0 {
            return None;
        }
        let squares: f64 = sums.iter().map(|sum| (sum / rows).powi(2)).sum();
        let own = Variance {
            value: squares / degrees,
            degrees,
        };
        Some(if own.value > RESTLESS * ONE_RUN.value {
            own
        } else {
            ONE_RUN.and(own)
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
        let name = Name {
            experiment: pair.place.experiment.clone(),
            path: pair.path,
        };
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

/// The prior for one run: a quotient has the variance of two.
const ONE_RUN: Variance = Variance {
    value: PRIOR * PRIOR / 2.0,
    degrees: PRIOR_DEGREES,
};

const fn prior() -> Variance {
    Variance {
        value: PRIOR * PRIOR,
        degrees: PRIOR_DEGREES,
    }
}

/// The variation between sides of several runs that most paths show.
fn several_runs(groups: &[(Name, Group)]) -> BetweenRuns {
    let values: Vec<f64> = groups.iter().map(|(_, one)| one.between.value).collect();
    let degrees: Vec<f64> = groups.iter().map(|(_, one)| one.between.degrees).collect();
    BetweenRuns {
        deviation: stats::median_of(&values).map_or(PRIOR, f64::sqrt),
        degrees: stats::median_of(&degrees).unwrap_or(PRIOR_DEGREES),
        from: if groups.iter().any(|(_, one)| one.is_shown) {
            Origin::Runs
        } else {
            Origin::Prior
        },
        together: 0.0,
    }
}

/// Estimates the variation between runs from one run a side, and the move that all paths have in common. Paths that really changed
/// differ, too. Their spread counts only up to the scatter of rows within a path, or up to the prior.
fn one_run_a_side(groups: &[(Name, Group)], scatter: f64) -> (BetweenRuns, f64) {
    let prior = prior();
    let moved: Vec<f64> = groups.iter().map(|(_, group)| group.mean.value).collect();
    let errors: Vec<f64> = groups
        .iter()
        .map(|(_, group)| group.mean.variance + group.machine)
        .collect();
    let known = stats::median_of(&moved)
        .zip(stats::median_of(&errors))
        .zip(stats::scatter(&moved));
    let Some(((common, error), apart)) = known.filter(|_| moved.len() >= ENOUGH_PATHS) else {
        let between = BetweenRuns {
            deviation: PRIOR,
            degrees: PRIOR_DEGREES,
            from: Origin::Prior,
            together: 0.0,
        };
        return (between, 0.0);
    };
    let paths = moved.len() as f64;
    let of_paths = prior.and(Variance {
        value: (apart.powi(2) - error).clamp(0.0, scatter.max(PRIOR).powi(2)),
        degrees: stats::SCATTER_EFFICIENCY * (paths - 1.0),
    });
    let (together, of_run) = if common.abs() <= PLAUSIBLE * PRIOR {
        let of_common = OF_A_MEDIAN * (of_paths.value + error) / paths;
        let precision = prior.value.recip() + of_common.recip();
        (common / of_common / precision, precision.recip())
    } else {
        (0.0, prior.value)
    };
    let between = BetweenRuns {
        deviation: (of_paths.value + of_run).sqrt(),
        degrees: of_paths.degrees,
        from: Origin::Paths,
        together: together.exp_m1(),
    };
    (between, together)
}

impl BetweenRuns {
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
