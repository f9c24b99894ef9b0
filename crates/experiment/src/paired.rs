//! Things that are each held against a control, in pairs of their own: which of them has the next round, and what its rounds come to.
//!
//! A *cell* is a thing at a size. A *round* of it gives one quotient: the thing's time over that of its control, both made anew and
//! run in turns within a few milliseconds ([`sessions`]). A cell's value is the median of its quotients, its interval that of the order
//! statistics ([`stats::median`]): it asks nothing of how quotients are distributed.
//!
//! # Time
//!
//! Cells scatter unlike: where memory lies moves a copy of 1,400 bytes by 40 %, and one of 4 bytes by 5 %. A *trial* of a fifth of the
//! time finds how far each scatters and what its round takes. The rest is allotted so that all intervals come out as wide as each other,
//! which makes the widest as narrow as can be. A quotient beyond [`PLAIN`] is told as well by a wider interval, so its cell has the
//! fewest rounds: one that waits for a timer of 40 ms would take half of all time. The rounds of all cells are spread over all of that time.
//!
//! # Why the intervals stay true
//!
//! An interval whose rounds have decided how many of them there are is too narrow: it stops where chance has made it so (Stein, "A
//! two-sample test for a linear hypothesis whose power is independent of the variance", 1945). So the trial's quotients decide, and
//! count for nothing else. The later ones decide nothing: a cell's number of rounds follows from the trial and from the clock.
//!
//! It must never look at a quotient of the second stage before that has ended, nor know what a round does.

pub(crate) mod sessions;

use std::time::Duration;

use tollgate_stats as stats;

/// The part of the time that the trial takes.
const TRIAL: f64 = 0.2;
/// The fewest and the most rounds of a cell in the trial.
const TRIAL_ROUNDS: [u32; 2] = [2, 24];
/// Degrees of freedom for which the scatter of all cells together counts beside that of a cell's own trial.
const SHRINK: f64 = 3.0;
/// Rounds that are wanted of each cell at least: six make an interval, and of twelve the two outermost on either side may be disturbed.
const LEAST: f64 = 12.0;
/// A quotient, or its reciprocal, that needs no narrow interval.
pub(crate) const PLAIN: f64 = 100.0;
/// The part of the time after the trial that is planned, so that a round which takes longer than the trial said still fits.
const PLANNED: f64 = 0.95;
/// The part of the time within which the rounds come that an interval needs.
const EARLY: f64 = 0.8;
/// Rounds that are made however little time there is.
const ALWAYS: u32 = 2;
/// Rounds of each cell where there is no limit.
const UNHURRIED: u32 = 40;

/// Whoever makes rounds.
pub(crate) trait Rounds {
    /// Makes a round of a cell, and gives its quotient; none where the cell has failed, for good. A round of the trial is not kept.
    fn round(&mut self, cell: usize, is_trial: bool) -> Option<f64>;

    /// Time since some beginning.
    fn now(&self) -> Duration;

    /// Tells whether to stop after this round.
    fn is_stopped(&self) -> bool;
}

/// The limits of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// When it ends, by [`Rounds::now`]; without it each cell has a fixed number of rounds.
    pub(crate) until: Option<Duration>,
    /// The most rounds of a cell.
    pub(crate) most: Option<u32>,
}

/// Makes rounds of so many cells, and gives each one's quotients, those of the trial left out.
pub(crate) fn run(rounds: &mut impl Rounds, cells: usize, limits: Limits) -> Vec<Vec<f64>> {
    let most = limits.most.unwrap_or(match limits.until {
        Some(_) => u32::MAX,
        None => UNHURRIED,
    });
    let plan = match limits.until {
        None => vec![Planned::even(f64::from(most)); cells],
        Some(until) => {
            let trials = trial(rounds, cells, until, most);
            let left = until.saturating_sub(rounds.now());
            allot(&trials, PLANNED * left.as_secs_f64(), f64::from(most))
        }
    };
    second_stage(rounds, &plan, limits.until, most)
}

/// Findings of the trial for a cell.
#[derive(Debug, Clone, Default)]
struct Trial {
    /// Natural logarithms of the quotients.
    logs: Vec<f64>,
    /// Seconds that all of its rounds took.
    took: f64,
    has_failed: bool,
}

impl Trial {
    fn rounds(&self) -> u32 {
        self.logs.len() as u32
    }

    /// Tells whether the quotients lie beyond [`PLAIN`].
    fn is_plain(&self) -> bool {
        let middle = stats::median_of(&self.logs);
        middle.is_some_and(|middle| middle.abs() > PLAIN.ln())
    }

    /// Seconds of a round.
    fn cost(&self) -> f64 {
        self.took / f64::from(self.rounds().max(1))
    }
}

/// Rounds of each cell by turns, until each has had its part of the trial's time.
fn trial(rounds: &mut impl Rounds, cells: usize, until: Duration, most: u32) -> Vec<Trial> {
    let [least, usual] = TRIAL_ROUNDS;
    let whole = until.saturating_sub(rounds.now()).as_secs_f64();
    let share = TRIAL * whole / cells.max(1) as f64;
    let mut trials = vec![Trial::default(); cells];
    for _ in 0..usual.min(most) {
        for (cell, trial) in trials.iter_mut().enumerate() {
            let has_had_its_part = trial.rounds() >= least && trial.took + trial.cost() > share;
            if trial.has_failed || has_had_its_part || rounds.is_stopped() {
                continue;
            }
            let begun = rounds.now();
            match rounds.round(cell, true) {
                Some(quotient) => trial.logs.push(quotient.ln()),
                None => trial.has_failed = true,
            }
            trial.took += rounds.now().saturating_sub(begun).as_secs_f64();
        }
    }
    trials
}

/// Share of a cell in the second stage.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Planned {
    /// Rounds, 0 for a cell that has failed.
    rounds: f64,
    /// Seconds that one is expected to take.
    cost: f64,
}

impl Planned {
    const fn even(rounds: f64) -> Self {
        Self { rounds, cost: 0.0 }
    }
}

/// Allots `time` seconds to the cells: rounds in proportion to the variance of a cell's quotients, so that all intervals have one
/// width, but [`LEAST`] at least and `most` at most; of quotients beyond [`PLAIN`] the least.
fn allot(trials: &[Trial], time: f64, most: f64) -> Vec<Planned> {
    let variance = |trial: &Trial| stats::scatter(&trial.logs).map(|scatter| scatter * scatter);
    let own: Vec<Option<f64>> = trials.iter().map(variance).collect();
    let known: Vec<f64> = own.iter().flatten().copied().collect();
    // Where no cell scatters all have as many rounds.
    let typical = stats::median_of(&known)
        .filter(|typical| *typical > 0.0)
        .unwrap_or(1.0);
    let variances = trials.iter().zip(&own).map(|(trial, own)| {
        let degrees = f64::from(trial.rounds().saturating_sub(1));
        (degrees * own.unwrap_or(typical) + SHRINK * typical) / (degrees + SHRINK)
    });
    let wanted = trials.iter().zip(variances);
    let wanted = wanted.map(|(trial, variance)| if trial.is_plain() { 0.0 } else { variance });
    let wanted: Vec<f64> = wanted.collect();
    let rounds = |factor: f64| -> Vec<Planned> {
        let cells = trials.iter().zip(&wanted);
        let planned = cells.map(|(trial, wanted)| match trial.has_failed {
            true => Planned::even(0.0),
            false => Planned {
                rounds: (factor * wanted).max(LEAST).min(most),
                cost: trial.cost(),
            },
        });
        planned.collect()
    };
    let takes = |plan: &[Planned]| -> f64 { plan.iter().map(|one| one.rounds * one.cost).sum() };
    let (mut low, mut high) = (0.0, 1e9 / typical);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if takes(&rounds(middle)) > time {
            high = middle;
        } else {
            low = middle;
        }
    }
    rounds(low)
}

/// Rounds as planned, each cell's spread over all of the time, until that is over.
fn second_stage(
    rounds: &mut impl Rounds,
    plan: &[Planned],
    until: Option<Duration>,
    most: u32,
) -> Vec<Vec<f64>> {
    let mut quotients = vec![Vec::new(); plan.len()];
    let mut is_open: Vec<bool> = plan.iter().map(|one| one.rounds > 0.0).collect();
    // The cell that is furthest behind its plan; of several, the first.
    let behind = |quotients: &[Vec<f64>], is_open: &[bool]| {
        let progress = |cell: usize| {
            let done = quotients[cell].len() as f64;
            let hurry = if done < LEAST { EARLY } else { 1.0 };
            hurry * (done + 0.5) / plan[cell].rounds
        };
        let open = (0..plan.len()).filter(|&cell| is_open[cell]);
        open.min_by(|&a, &b| progress(a).total_cmp(&progress(b)))
    };
    while let Some(cell) = behind(&quotients, &is_open) {
        if rounds.is_stopped() {
            break;
        }
        let done = quotients[cell].len() as u32;
        let ends = rounds.now().as_secs_f64() + plan[cell].cost;
        let fits = until.is_none_or(|until| ends <= until.as_secs_f64());
        if done >= most || (done >= ALWAYS && !fits) {
            is_open[cell] = false;
            continue;
        }
        match rounds.round(cell, false) {
            Some(quotient) => quotients[cell].push(quotient),
            None => is_open[cell] = false,
        }
    }
    quotients
}

#[cfg(test)]
mod tests;
