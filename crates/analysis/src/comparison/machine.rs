//! What the machine alone can have made of a row between two runs, as the runs' yardsticks show.
//!
//! How much of what moves a yardstick moves a row, nothing tells: a round trip between two cores that takes 8 us has few cache lines to
//! fetch that one of 130 ns has, and work that lies in a cache is not slowed as other work is. So a row is explained by the machine
//! when it moved no further than the yardsticks of its processors, and to the same side.

use serde::Serialize;
use tollgate_run::{Cores, Run, Yardstick};

/// The least move of a yardstick that is told, as a share.
const TOLD: f64 = 0.02;

/// A yardstick that both runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moved {
    /// The experiment between whose slices it was looked at.
    pub experiment: String,
    /// How many processors it takes.
    pub cores: Cores,
    /// The path that it is.
    pub path: String,
    /// By which share it became slower, at the median of all looks at it.
    pub share: f64,
    /// The same, from the quickest the first run saw it to the slowest of the second, and the other way round: a quarter of the
    /// looks left out at either end.
    pub most: f64,
    /// See `most`.
    pub least: f64,
}

/// From where to where a logarithm may have moved by the machine alone, towards the worse. Zero lies within.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Explained {
    least: f64,
    most: f64,
}

impl Explained {
    /// Nothing.
    pub(super) const NOTHING: Self = Self {
        least: 0.0,
        most: 0.0,
    };

    /// What the machine leaves of a move.
    pub(super) fn beyond(self, moved: f64) -> f64 {
        (moved - self.most).max(0.0) + (moved - self.least).min(0.0)
    }

    /// The one and the other together.
    fn and(self, other: Self) -> Self {
        Self {
            least: self.least + other.least,
            most: self.most + other.most,
        }
    }
}

impl Moved {
    fn between(a: &Yardstick, b: &Yardstick) -> Self {
        Self {
            experiment: a.experiment.clone(),
            cores: a.cores,
            path: a.path.clone(),
            share: b.median_ns / a.median_ns - 1.0,
            most: b.high_ns / a.low_ns - 1.0,
            least: b.low_ns / a.high_ns - 1.0,
        }
    }

    fn explains(&self) -> Explained {
        Explained {
            least: self.least.ln_1p().min(0.0),
            most: self.most.ln_1p().max(0.0),
        }
    }
}

/// The yardsticks that both runs have.
pub(super) fn moved(a: &Run, b: &Run) -> Vec<Moved> {
    let usable = |one: &&Yardstick| one.low_ns > 0.0;
    a.yardsticks
        .iter()
        .filter(usable)
        .filter_map(|before| {
            let mut after = b.yardsticks.iter().filter(usable);
            let after = after.find(|after| {
                let same = |of: fn(&Yardstick) -> &str| of(after) == of(before);
                after.cores == before.cores && same(|one| &one.path) && same(|one| &one.experiment)
            })?;
            Some(Moved::between(before, after))
        })
        .collect()
}

/// What they explain of a row of an experiment on so many processors; of one that does not say on how many, what all of them explain. What
/// two processors do is also done by each.
pub(super) fn explained(moved: &[Moved], experiment: &str, cores: Option<Cores>) -> Explained {
    moved
        .iter()
        .filter(|one| one.experiment == experiment)
        .filter(|one| cores != Some(Cores::One) || one.cores == Cores::One)
        .map(Moved::explains)
        .fold(Explained::NOTHING, Explained::and)
}

/// What the reader must know of them.
pub(super) fn in_words(moved: &[Moved]) -> Vec<String> {
    if moved.is_empty() {
        return vec![
            "the runs have no yardstick of the machine in common, so a machine that was slower in one of them is not told from a change"
                .to_owned(),
        ];
    }
    let told = |cores: Cores| {
        let of = moved.iter().filter(|one| one.cores == cores);
        let slowest = of.clone().max_by(|a, b| a.share.total_cmp(&b.share))?;
        let quickest = of.min_by(|a, b| a.share.total_cmp(&b.share))?;
        if slowest.share < TOLD && quickest.share > -TOLD {
            return None;
        }
        let (which, whom) = match cores {
            Cores::One => ("a processor itself was", "rows"),
            Cores::Two => (
                "what passes between two processors was",
                "rows with two processors",
            ),
        };
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
        Some(format!(
            "{which} {by} in the second run, as {} shows, which neither the kernel nor Tollgate's stack is part of; {whom} are told apart \
             beyond that only",
            slowest.path
        ))
    };
    [Cores::One, Cores::Two]
        .into_iter()
        .filter_map(told)
        .collect()
}

fn in_percent(share: f64) -> String {
    let word = if share > 0.0 { "slower" } else { "quicker" };
    format!("{:.1} % {word}", 100.0 * share.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(cores: Cores, least: f64, most: f64) -> Moved {
        Moved {
            experiment: "rr".to_owned(),
            cores,
            path: String::new(),
            share: f64::midpoint(least, most),
            least,
            most,
        }
    }

    #[test]
    fn the_machine_explains_what_moved_no_further_to_the_same_side() {
        let slower = [moved(Cores::One, -0.01, 0.01), moved(Cores::Two, 2.0, 3.0)];
        let two = explained(&slower, "rr", Some(Cores::Two));
        assert_eq!(two.beyond(0.4), 0.0);
        assert!((two.beyond(2.0) - (2.0 - 4.0_f64.ln() - 1.01_f64.ln())).abs() < 1e-12);
        assert!((two.beyond(-0.4) - (-0.4 - 0.99_f64.ln())).abs() < 1e-12);
        let one = explained(&slower, "rr", Some(Cores::One));
        assert!((one.beyond(0.4) - (0.4 - 1.01_f64.ln())).abs() < 1e-12);
        assert_eq!(explained(&slower, "rr", None), two);
        assert_eq!(explained(&slower, "crr", None).beyond(-0.3), -0.3);
    }
}
