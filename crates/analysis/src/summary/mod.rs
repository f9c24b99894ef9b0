//! A run in short: the anatomy of a round trip, at most six findings of one sentence each, whether they can be trusted, and
//! what could not be measured. The first screen of the terminal and of the page are made of it.
//!
//! Every figure of a finding is a claim ([`crate::claim`]); a share of a ledger that does not close is a range that holds what
//! is left open. It must never state a number that the run does not hold.

use tollgate_run::{Cell, Experiment, Run, format};

pub mod anatomy;
mod findings;
mod ledger;

use crate::claim::{REFUSED, UNAVAILABLE};

pub use anatomy::{Anatomy, RoundTrip, Stage, Stretch, anatomy};
pub use ledger::ledger;

/// Most findings that are shown.
const FINDINGS: usize = 6;

/// The fewest samples of the control benchmark whose quartiles are told.
const QUARTILES: u64 = 4;

/// A run in short.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The anatomy of a round trip; none where the run has no ledger.
    pub anatomy: Option<Anatomy>,
    /// The findings.
    pub findings: Vec<Sentence>,
    /// The reason why a finding is missing; none where none is.
    pub refused: Option<String>,
    /// The lines of trust.
    pub trust: Vec<String>,
    /// The things that could not be measured, each with its reason.
    pub missing: Vec<String>,
}

impl Summary {
    /// Tells whether it has neither the anatomy nor a finding.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.anatomy.is_none() && self.findings.is_empty()
    }
}

/// A finding in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The sentence.
    pub text: String,
    /// The experiment that holds its numbers.
    pub experiment: &'static str,
}

/// The run in short.
#[must_use]
pub fn summary(run: &Run) -> Summary {
    let anatomy = anatomy(run);
    let (mut findings, refused) = findings::findings(run, anatomy.as_ref());
    findings.truncate(FINDINGS);
    Summary {
        findings,
        refused,
        trust: trust(run),
        missing: missing(run, anatomy.is_some()),
        anatomy,
    }
}

/// Counts the ledgers that close, and reports how much the machine itself moved meanwhile.
fn trust(run: &Run) -> Vec<String> {
    [ledgers(run), control(run)].into_iter().flatten().collect()
}

fn ledgers(run: &Run) -> Option<String> {
    let receive = run
        .experiments
        .iter()
        .find(|one| one.name == "wolman-receive")?;
    let closure = receive.tables.iter().find(|table| table.id == "closure")?;
    let words = closure
        .rows
        .iter()
        .flat_map(|row| &row.cells)
        .filter_map(|cell| match cell {
            Cell::Text { text } => Some(text.as_str()),
            Cell::Value(_) | Cell::Published { .. } | Cell::NotAvailable { .. } => None,
        });
    let texts: Vec<&str> = words.collect();
    let count = |start: &str| {
        let those = texts.iter().filter(|words| words.starts_with(start));
        those.count() as u64
    };
    let [closing, open, unclear] = ["closes", "does not", "cannot"].map(count);
    let all = closing + open + unclear;
    if all == 0 {
        return None;
    }
    let left = |kind| {
        let row = closure.rows.iter().filter(move |row| row.kind == kind);
        row.flat_map(|row| &row.cells).map(Cell::number)
    };
    let shares: Vec<f64> = left(tollgate_run::RowKind::Unattributed)
        .zip(left(tollgate_run::RowKind::Total))
        .filter_map(|(open, total)| Some(100.0 * open? / total?))
        .collect();
    let low = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let high = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut text = format!(
        "In {} of {} the layers sum to the measured round trip",
        format::whole(closing),
        format::counted(all, "ledger", "ledgers"),
    );
    let others = [(open, "they do not"), (unclear, "noise hides it")];
    for (count, what) in others.iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("; in {} {what}", format::whole(*count)));
    }
    Some(format!("{text}. Left open: {low:.1} to {high:.1} %."))
}

fn control(run: &Run) -> Option<String> {
    let moved = run
        .controls
        .iter()
        .filter(|one| one.n >= QUARTILES)
        .map(|one| 100.0 * (one.high_ns - one.low_ns) / one.median_ns)
        .reduce(f64::max)?;
    Some(format!(
        "The machine's own speed varied by {} % between quartiles (control benchmark).",
        format::factor(moved)
    ))
}

/// Experiments that could not be had or state nothing, and paths without a number. Ledgers are left out where the anatomy shows
/// them with what they leave open.
fn missing(run: &Run, has_anatomy: bool) -> Vec<String> {
    let silent = |one: &Experiment| {
        if has_anatomy && one.name.starts_with("wolman-") && one.name != "wolman-networks" {
            return None;
        }
        let text = &one.finding;
        let silent = text.starts_with(UNAVAILABLE) || text.starts_with(REFUSED);
        silent.then(|| format!("{}: {}{}", one.name, text[..1].to_lowercase(), &text[1..]))
    };
    let mut lines: Vec<String> = run.experiments.iter().filter_map(silent).collect();
    if let Some(rr) = run.experiments.iter().find(|one| one.name == "rr-by-size")
        && let Some(table) = rr.tables.first()
    {
        for row in &table.rows {
            if let Some(Cell::NotAvailable { reason }) = row.cells.first()
                && row.cells.iter().all(|cell| cell.number().is_none())
            {
                lines.push(format!("{}: {reason}", row.label));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests;
