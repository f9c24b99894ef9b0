//! The sentences of a comparison: its finding, and what the reader must know.

use tollgate_run::{Run, Unit, format};

use super::{Comparison, POWER, PathChange, UNTOLD, Verdict, host};

/// Says in a sentence what the comparison comes to.
pub(super) fn finding(comparison: &Comparison) -> String {
    if comparison.judged == 0 {
        let why = match (&comparison.a[..], &comparison.b[..]) {
            ([_], [_]) => "none has an interval in both runs; several runs a side need none",
            _ => {
                "none has an interval in all runs, or is held by enough of them to show its spread"
            }
        };
        return format!("No row could be judged: {why}.");
    }
    let told: Vec<String> = [
        tell(comparison, &Verdict::Regression, "worse"),
        tell(comparison, &Verdict::Improvement, "better"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !told.is_empty() {
        return format::sentence(&told);
    }
    let percent = comparison.threshold * 100.0;
    let rows = format::counted(comparison.judged as u64, "row", "rows");
    let smallest = comparison
        .smallest_change
        .map(|share| match share < UNTOLD {
            true => format!(
                "; a path that changed by {} % would have been found with {} % probability",
                format::significant(100.0 * share),
                100.0 * POWER
            ),
            false => "; not even ten times the cost of a path would have been".to_owned(),
        });
    format!(
        "None of {rows} differs by more than {percent} %, as far as these runs can tell{}.",
        smallest.unwrap_or_default()
    )
}

fn tell(comparison: &Comparison, verdict: &Verdict, word: &str) -> Option<String> {
    let percent = comparison.threshold * 100.0;
    let paths: Vec<&PathChange> = comparison
        .paths
        .iter()
        .filter(|one| one.verdict == *verdict)
        .collect();
    let rows = comparison.with(verdict).count();
    let judged = format::counted(comparison.judged as u64, "row", "rows");
    let largest = paths
        .iter()
        .max_by(|one, other| one.change.abs().total_cmp(&other.change.abs()));
    if let Some(largest) = largest {
        let all = format::counted(comparison.paths.len() as u64, "path", "paths");
        let most = if paths.len() == 1 { "" } else { "most of all " };
        return Some(format!(
            "{} of {all} and {} of {judged} are {word} by more than {percent} %, {most}{} by {}",
            format::whole(paths.len() as u64),
            format::whole(rows as u64),
            largest.name(),
            in_percent(largest.change),
        ));
    }
    // A row without a quotient moved by more than any that has one.
    let size = |change: &&super::Change| change.change.map_or(f64::INFINITY, f64::abs);
    let worst = comparison
        .with(verdict)
        .max_by(|one, other| size(one).total_cmp(&size(other)))?;
    let by = match worst.change {
        Some(change) => format!("by {}", in_percent(change)),
        None => {
            let told = match worst.unit {
                Unit::Nanoseconds => format::duration,
                _ => format::significant,
            };
            let [a, b] = [worst.a, worst.b].map(told);
            format!("from {a} to {b}")
        }
    };
    let (verb, most) = if rows == 1 {
        ("is", "")
    } else {
        ("are", "most of all ")
    };
    Some(format!(
        "{} of {judged} {verb} {word} by more than {percent} %, {most}{} {by}",
        format::whole(rows as u64),
        worst.place
    ))
}

fn in_percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

/// Lists what the reader must know of the runs themselves.
pub(super) fn of_runs(a: &[&Run], b: &[&Run]) -> Vec<String> {
    let mut notes = Vec::new();
    let all = || a.iter().chain(b);
    if all().any(|run| run.quick) && !all().all(|run| run.quick) {
        notes.push("some of the runs are quick ones; their intervals are wider".to_owned());
    }
    let mut versions: Vec<String> = all().map(|run| version(run)).collect();
    versions.sort();
    versions.dedup();
    if versions.len() > 1 {
        notes.push(format!(
            "the runs come from several versions of Tollgate, {}: its own stack may have changed as well",
            format::list(&versions)
        ));
    }
    for (side, runs) in [("before", a), ("after", b)] {
        if let Some((first, others)) = runs.split_first() {
            let differences = others
                .iter()
                .flat_map(|run| host::compared(first, run).differences);
            let mut names: Vec<String> = differences.map(|one| one.name).collect();
            names.sort();
            names.dedup();
            if !names.is_empty() {
                notes.push(format!(
                    "the runs {side} are no repetitions of one another: their machines differ in {}",
                    format::list(&names)
                ));
            }
        }
        let mut warnings: Vec<&String> = runs.iter().flat_map(|run| &run.warnings).collect();
        warnings.sort();
        warnings.dedup();
        notes.extend(
            warnings
                .iter()
                .map(|warning| format!("the run {side} warns: {warning}")),
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
