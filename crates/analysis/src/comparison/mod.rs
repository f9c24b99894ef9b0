//! Two runs held against each other: what became worse, what became better, what cannot be told apart, and in what the two
//! machines differ.
//!
//! Every number that both runs hold is one row of the comparison. A row is judged when its unit has a better and a worse and
//! its spread is known: by the run's own 95 % interval, or because it is a count of instructions, which is exact. The
//! judgement is a test on what the machine does not explain of the logarithm of the quotient (see [`machine`] and [`judge`]), and the
//! p-values of all judged rows are adjusted together by Holm's method, so that two runs of the same thing show any difference at
//! all in 5 of 100 cases at most. A row is a regression when it differs in that sense *and* is worse by more than the threshold.
//!
//! This module reads two [`Run`]s. It measures nothing, and it draws nothing.

mod cells;
mod host;
mod judge;
mod machine;
#[cfg(test)]
mod tests;

use serde::Serialize;
use tollgate_run::{Run, Timestamp, Unit, format};
use tollgate_stats as stats;

pub use cells::{Number, Place, numbers};
pub use host::HostDifference;
pub use judge::{BetweenRuns, Origin};
pub use machine::Moved;

use cells::Cells;
use judge::{Judged, Known};

/// The probability that two runs of the same thing show a difference in any row.
pub const ALPHA: f64 = 0.05;

/// The threshold when none is asked for, as a share.
pub const THRESHOLD: f64 = 0.05;

/// The version of what [`Comparison`] is written as.
pub const VERSION: u32 = 2;

/// What is asked of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How much worse a row must be to be a regression, as a share of the first run's number: 0.05 is 5 %.
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

/// Two runs that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComparisonError {
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

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The command line that made it.
    pub command: String,
    /// When.
    pub started: Timestamp,
    /// The version of the tool.
    pub tool: String,
    /// Whether it was shortened.
    pub quick: bool,
}

/// What is said of a row.
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
        /// Why.
        reason: &'static str,
    },
}

/// A number that both runs hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
    /// Its unit.
    pub unit: Unit,
    /// In the first run.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// `(b - a) / a`; none when `a` is not above zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
    /// The p-value, adjusted for all rows that are judged; none when this one is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// What is said of it.
    pub verdict: Verdict,
}

/// Two runs held against each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Always `tollgate.comparison`.
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// The first run.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// How much worse a regression is at least, as a share.
    pub threshold: f64,
    /// The probability of any difference between two runs of the same thing, at most.
    pub alpha: f64,
    /// How much runs differ by themselves.
    pub between_runs: BetweenRuns,
    /// How the yardsticks moved that both runs have.
    pub machine: Vec<Moved>,
    /// One sentence.
    pub finding: String,
    /// How many rows were judged.
    pub judged: usize,
    /// All rows that both runs hold, in the order of the first.
    pub rows: Vec<Change>,
    /// What only the first run holds a number for.
    pub only_a: Vec<Place>,
    /// What only the second run holds a number for.
    pub only_b: Vec<Place>,
    /// In what the two machines differ.
    pub host: Vec<HostDifference>,
    /// What to know before trusting any of it.
    pub notes: Vec<String>,
}

impl Comparison {
    /// The rows of which this is said.
    pub fn with(&self, verdict: &Verdict) -> impl Iterator<Item = &Change> {
        self.rows.iter().filter(move |row| row.verdict == *verdict)
    }

    /// Whether anything became worse.
    #[must_use]
    pub fn has_regressions(&self) -> bool {
        self.with(&Verdict::Regression).next().is_some()
    }
}

/// Compares `b` with `a`, which is what was before. `again` is a further run of what `a` measured, on the same machine with
/// nothing changed; from it comes how much runs differ by themselves; otherwise `a` and `b` show it (see [`BetweenRuns`]).
///
/// # Errors
/// [`ComparisonError::NothingInCommon`].
pub fn compare(
    a: &Run,
    b: &Run,
    again: Option<&Run>,
    options: &Options,
) -> Result<Comparison, ComparisonError> {
    let only = options.experiments.as_deref();
    let (first, second) = (Cells::of(a, only), Cells::of(b, only));
    let nothing = || ComparisonError::NothingInCommon {
        a: names(a),
        b: names(b),
    };
    let (pairs, only_a, only_b) = first.pairs(&second);
    if pairs.is_empty() {
        return Err(nothing());
    }
    let between = match again {
        None => BetweenRuns::compared(&pairs),
        Some(again) => {
            let again = Cells::of(again, only);
            BetweenRuns::repeated(&first.pairs(&again).0).ok_or_else(nothing)?
        }
    };
    let moved = machine::moved(a, b);
    let judged: Vec<Result<Judged, &'static str>> = pairs
        .iter()
        .map(|pair| {
            let known = Known {
                between_runs: between.share,
                machine: machine::explained(&moved, &pair.place.experiment, pair.cores),
                steps_ns: [a, b].map(|run| run.clock.resolution_ns),
            };
            judge::judge(pair, &known)
        })
        .collect();
    let raw: Vec<f64> = judged.iter().flatten().map(|judged| judged.p).collect();
    let mut adjusted = stats::holm(&raw).into_iter();
    let rows: Vec<Change> = pairs
        .iter()
        .zip(&judged)
        .map(|(pair, judged)| {
            let (was, is) = (pair.a.value, pair.b.value);
            let p = judged.as_ref().ok().and_then(|_| adjusted.next());
            let verdict = match judged {
                Err(reason) => Verdict::NotJudged { reason },
                Ok(judged) => verdict(p.unwrap_or(1.0), judged.beyond, options.threshold),
            };
            Change {
                place: pair.place.clone(),
                unit: pair.unit,
                a: was,
                b: is,
                change: (was > 0.0).then(|| (is - was) / was),
                p,
                verdict,
            }
        })
        .collect();
    let mut comparison = Comparison {
        schema: "tollgate.comparison",
        version: VERSION,
        a: Side::of(a),
        b: Side::of(b),
        threshold: options.threshold,
        alpha: ALPHA,
        between_runs: between,
        machine: moved,
        finding: String::new(),
        judged: raw.len(),
        rows,
        only_a,
        only_b,
        host: host::differences(a, b),
        notes: Vec::new(),
    };
    comparison.finding = finding(&comparison);
    comparison.notes = notes(&comparison, a, b);
    Ok(comparison)
}

/// What is said of a row that moved so far beyond what the machine explains, as a share, towards the worse when above zero.
fn verdict(p: f64, beyond: f64, threshold: f64) -> Verdict {
    if p >= ALPHA {
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

/// What the comparison comes to, in a sentence.
fn finding(comparison: &Comparison) -> String {
    let count = |verdict| comparison.with(&verdict).count();
    let percent = comparison.threshold * 100.0;
    let judged = match comparison.judged {
        0 => return "No row could be judged: none has an interval in both runs.".to_owned(),
        n => format::counted(n as u64, "row", "rows"),
    };
    let worst = |verdict: &Verdict| {
        // What was not above zero has no quotient, and moved by more than any that has.
        let size = |change: &&Change| change.change.map_or(f64::INFINITY, f64::abs);
        let worst = comparison
            .with(verdict)
            .max_by(|one, other| size(one).total_cmp(&size(other)))?;
        Some(match worst.change {
            Some(change) => format!("{} by {:+.1} %", worst.place, 100.0 * change),
            None => {
                let told = match worst.unit {
                    Unit::Nanoseconds => format::duration,
                    _ => format::significant,
                };
                let [a, b] = [worst.a, worst.b].map(told);
                format!("{} from {a} to {b}", worst.place)
            }
        })
    };
    let tell = |verdict: Verdict, word: &str| {
        let most = worst(&verdict)?;
        let n = count(verdict);
        let of = if n == 1 { "" } else { "most of all " };
        Some(format!(
            "{} of {judged} {} {word} by more than {percent} %, {of}{most}",
            format::whole(n as u64),
            if n == 1 { "is" } else { "are" },
        ))
    };
    let told: Vec<String> = [
        tell(Verdict::Regression, "worse"),
        tell(Verdict::Improvement, "better"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if told.is_empty() {
        format!(
            "None of {judged} differs by more than {percent} %, as far as these two runs can tell."
        )
    } else {
        format::sentence(&told)
    }
}

/// What the reader must know.
fn notes(comparison: &Comparison, a: &Run, b: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    notes.push(comparison.between_runs.in_words());
    notes.extend(machine::in_words(&comparison.machine));
    if a.quick != b.quick {
        notes.push("one of the two runs is a quick one; its intervals are wider".to_owned());
    }
    if a.tool != b.tool {
        notes.push(format!(
            "the runs come from two versions of Tollgate, {} and {}: its own stack may have changed as well",
            version(a),
            version(b)
        ));
    }
    for (which, run) in [("first", a), ("second", b)] {
        notes.extend(
            run.warnings
                .iter()
                .map(|warning| format!("the {which} run warns: {warning}")),
        );
    }
    notes
}

fn version(run: &Run) -> String {
    match &run.tool.git {
        Some(git) => format!("{} ({git})", run.tool.version),
        None => run.tool.version.clone(),
    }
}
