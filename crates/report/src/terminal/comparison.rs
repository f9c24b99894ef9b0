//! Two sides held against each other as text: the finding, the paths, the rows that became worse and better, what only one side holds,
//! in what the machines differ, and how far to trust it.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_analysis::comparison::{
    CellKey, Change, Comparison, IntervalOf, POWER, PathChange, Side, UNTOLD, Verdict,
};
use tollgate_run::format::counted;

use super::{Detail, Ink, Page};
use crate::format::{FormattedColumn, group_thousands, signed_percent};

/// Most lines of what only one side holds.
const LISTED: usize = 6;

/// Renders a comparison for a terminal of `width` columns, with ANSI colours if `colour`. Long lists of what only one side holds are
/// counted, unless all of it is shown.
#[must_use]
pub fn render_comparison(
    comparison: &Comparison,
    detail: Detail,
    width: usize,
    colour: bool,
) -> String {
    let mut page = Page::new(width, colour);
    page.wrap(Ink::Bold, "", 0, &comparison.finding);
    for (runs, name) in [(&comparison.a, "before"), (&comparison.b, "after")] {
        page.runs(name, runs);
    }
    page.paths(comparison);
    let percent = comparison.threshold * 100.0;
    for (verdict, title) in [
        (
            Verdict::Regression,
            format!("Worse by more than {percent} %"),
        ),
        (
            Verdict::Improvement,
            format!("Better by more than {percent} %"),
        ),
        (
            Verdict::Slight,
            format!("Different, by {percent} % at most"),
        ),
    ] {
        page.changes(&title, comparison.with(&verdict));
    }
    page.unjudged(comparison);
    page.only(
        "Only in the run before",
        comparison,
        &comparison.only_a,
        detail,
    );
    page.only(
        "Only in the run after",
        comparison,
        &comparison.only_b,
        detail,
    );
    page.hosts(comparison);
    page.line("");
    let judged = counted(comparison.judged as u64, "row", "rows");
    let rate = comparison.false_discovery_rate * 100.0;
    page.wrap(
        Ink::Faint,
        "  ",
        2,
        &format!(
            "{judged} judged; of the paths, and of the rows, that are told apart {rate} % are no differences on average at most \
             (Benjamini and Hochberg); intervals are 95 % for each change alone, less what is removed below"
        ),
    );
    for note in &comparison.notes {
        page.wrap(Ink::Faint, "  ", 2, note);
    }
    page.text
}

impl Page {
    fn runs(&mut self, name: &str, runs: &[Side]) {
        for run in runs {
            let text = format!("{name}: {} · {}", run.started, run.command);
            self.wrap(Ink::Faint, "  ", 10, &text);
        }
    }

    /// One effect for each path, with its interval and the smallest change that would have been found.
    fn paths(&mut self, comparison: &Comparison) {
        if comparison.paths.is_empty() {
            return;
        }
        self.line("");
        let count = group_thousands(&comparison.paths.len().to_string());
        self.wrap(
            Ink::Bold,
            "",
            0,
            &format!("Paths ({count}): change of cost"),
        );
        let heads = ["", "rows", "change", "95 % interval", "p", "detectable", ""];
        let mut rows = vec![heads.map(str::to_owned)];
        let mut last = None;
        for path in &comparison.paths {
            if last != Some(&path.experiment) {
                let mut heading = [const { String::new() }; 7];
                heading[0].clone_from(&path.experiment);
                rows.push(heading);
                last = Some(&path.experiment);
            }
            let name = path.path.as_deref().unwrap_or("rows of no single path");
            rows.push([
                format!("  {name}"),
                group_thousands(&path.rows.to_string()),
                signed_percent(path.change),
                between(path.low, path.high),
                probability(path.p),
                smallest(path.smallest),
                said_of(path).to_owned(),
            ]);
        }
        self.columns(&rows, 1, None);
        if let Some(smallest) = comparison.smallest_change {
            let text = format!(
                "a rise of a path's cost as large as under \"detectable\" is found with {} % probability; the median over the paths is {}",
                POWER * 100.0,
                self::smallest(smallest)
            );
            self.wrap(Ink::Faint, "  ", 2, &text);
        }
    }

    fn changes<'a>(&mut self, title: &str, changes: impl Iterator<Item = &'a Change>) {
        let changes: Vec<&Change> = changes.collect();
        if changes.is_empty() {
            return;
        }
        self.line("");
        let count = group_thousands(&changes.len().to_string());
        self.wrap(Ink::Bold, "", 0, &format!("{title} ({count})"));
        let mut rows =
            vec![["", "before", "after", "change", "95 % interval", "p"].map(str::to_owned)];
        let mut last = None;
        for change in changes {
            let table = (&change.place.experiment, &change.place.table);
            if last != Some(table) {
                let heading = format!("{}, {}", table.0, table.1);
                let mut cells = [const { String::new() }; 6];
                cells[0] = heading;
                rows.push(cells);
                last = Some(table);
            }
            let shown = FormattedColumn::choose(change.unit, [change.a, change.b]);
            rows.push([
                format!("  {}, {}", change.place.row, change.place.column),
                shown.with_unit(change.a),
                shown.with_unit(change.b),
                change.change.map(signed_percent).unwrap_or_default(),
                interval(change),
                change.p.map(probability).unwrap_or_default(),
            ]);
        }
        self.columns(&rows, 1, None);
    }

    /// Counts the rows that could not be judged, by the reason, and those with a better and a worse that moved most.
    fn unjudged(&mut self, comparison: &Comparison) {
        let mut reasons: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for change in &comparison.rows {
            if let Verdict::NotJudged { reason } = change.verdict {
                let counts = reasons.entry(reason).or_default();
                counts.0 += 1;
                let moved = change
                    .change
                    .is_some_and(|by| by.abs() > comparison.threshold);
                counts.1 += usize::from(moved);
            }
        }
        if reasons.is_empty() {
            return;
        }
        self.line("");
        self.wrap(Ink::Bold, "", 0, "Not judged");
        for (reason, (all, moved)) in reasons {
            let (all, moved) = (
                counted(all as u64, "row", "rows"),
                group_thousands(&moved.to_string()),
            );
            let percent = comparison.threshold * 100.0;
            let text = format!(
                "{all}: {reason} ({moved} moved by more than {percent} %; --json has them)"
            );
            self.wrap(Ink::Plain, "  ", 4, &text);
        }
    }

    fn only(&mut self, title: &str, comparison: &Comparison, places: &[CellKey], detail: Detail) {
        if places.is_empty() {
            return;
        }
        self.line("");
        let count = group_thousands(&places.len().to_string());
        self.wrap(Ink::Bold, "", 0, &format!("{title} ({count})"));
        let shared: BTreeSet<(&str, &str)> = comparison
            .rows
            .iter()
            .map(|row| (row.place.experiment.as_str(), row.place.table.as_str()))
            .collect();
        // A table that the other run does not hold at all is one line, a row another.
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        for place in places {
            let whole = !shared.contains(&(place.experiment.as_str(), place.table.as_str()));
            let name = if whole {
                format!("{}, {}: all of it", place.experiment, place.table)
            } else {
                format!("{}, {}: {}", place.experiment, place.table, place.row)
            };
            let column = (!whole).then_some(place.column.as_str());
            match lines.last_mut() {
                Some((last, columns)) if *last == name => columns.extend(column),
                _ => lines.push((name, column.into_iter().collect())),
            }
        }
        if lines.len() > LISTED && detail != Detail::Whole {
            let mut counts: Vec<(&str, u64)> = Vec::new();
            for place in places {
                match counts
                    .iter_mut()
                    .find(|(name, _)| *name == place.experiment)
                {
                    Some((_, count)) => *count += 1,
                    None => counts.push((&place.experiment, 1)),
                }
            }
            let counts = counts.iter();
            let counts: Vec<String> = counts
                .map(|(name, count)| format!("{name} {}", group_thousands(&count.to_string())))
                .collect();
            let text = format!("{}; --verbose lists them", counts.join(", "));
            self.wrap(Ink::Plain, "  ", 4, &text);
            return;
        }
        for (name, columns) in lines {
            let text = if columns.is_empty() {
                name
            } else {
                format!("{name} ({})", columns.join(", "))
            };
            self.wrap(Ink::Plain, "  ", 4, &text);
        }
    }

    fn hosts(&mut self, comparison: &Comparison) {
        self.line("");
        let title = if comparison.host.is_empty() {
            "The machines are described alike"
        } else {
            "The machines differ"
        };
        self.wrap(Ink::Bold, "", 0, title);
        for one in &comparison.host {
            let text = format!("{}: {} -> {}", one.name, one.a, one.b);
            self.wrap(Ink::Plain, "  ", 4, &text);
        }
        for (what, facts) in [
            ("looked at", &comparison.host_looked_at),
            ("not known of both", &comparison.host_not_known),
        ] {
            if !facts.is_empty() {
                let text = format!("{what}: {}", facts.join(", "));
                self.wrap(Ink::Faint, "  ", 4, &text);
            }
        }
    }
}

fn said_of(path: &PathChange) -> &'static str {
    match path.verdict {
        Verdict::Regression => "worse",
        Verdict::Improvement => "better",
        Verdict::Slight => "slight",
        Verdict::NoDifference | Verdict::NotJudged { .. } => "",
    }
}

/// The smallest rise that would have been told.
fn smallest(share: f64) -> String {
    if share < UNTOLD {
        signed_percent(share)
    } else {
        "beyond 10 times".to_owned()
    }
}

fn between(low: f64, high: f64) -> String {
    format!("{} to {}", signed_percent(low), signed_percent(high))
}

/// Interval of a change: as shares of the number before, or as differences in its unit.
fn interval(change: &Change) -> String {
    let Some(interval) = change.interval else {
        return "exact".to_owned();
    };
    match interval.of {
        IntervalOf::Quotient => between(interval.low, interval.high),
        IntervalOf::Difference => {
            let shown = FormattedColumn::choose(change.unit, [interval.low, interval.high]);
            let [low, high] = [interval.low, interval.high].map(|end| shown.with_unit(end));
            format!("{low} to {high}")
        }
    }
}

/// A p-value, the small ones as a bound.
fn probability(p: f64) -> String {
    if p < 0.000_1 {
        "<0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}
