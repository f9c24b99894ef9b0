//! The report for people: the finding first, then projects, reasons, and what is not explained.

use std::fmt::Write;

use crate::outcome::{Row, Summary};

/// Unexplained differences that are shown.
const SHOWN: usize = 40;

/// The report.
pub fn report(summary: &Summary, tshark: &str) -> String {
    let mut total = Row::default();
    for row in summary.projects.values() {
        total.files += row.files;
        total.equal_files += row.equal_files;
        total.frames += row.frames;
        total.equal += row.equal;
        total.known += row.known;
        total.unexplained += row.unexplained;
        total.not_comparable += row.not_comparable;
    }
    let mut text = format!(
        "captures: equal in {} of {} captures; {} of {} packets differ, {} by {} known reasons, {} unexplained\n\n",
        total.equal_files,
        total.files,
        total.known + total.unexplained,
        total.frames,
        total.known,
        summary.reasons.len(),
        total.unexplained,
    );
    let width = summary
        .projects
        .keys()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max(10);
    let _ = writeln!(
        text,
        "{:width$}  {:>5}  {:>7}  {:>7}  {:>5}  {:>11}  {:>12}",
        "project", "files", "packets", "equal", "known", "unexplained", "not captures"
    );
    let rows = summary
        .projects
        .iter()
        .map(|(name, row)| (name.as_str(), row));
    for (name, row) in rows.chain([("all", &total)]) {
        let _ = writeln!(
            text,
            "{name:width$}  {:>5}  {:>7}  {:>7}  {:>5}  {:>11}  {:>12}",
            row.files, row.frames, row.equal, row.known, row.unexplained, row.not_comparable
        );
    }
    let _ = writeln!(
        text,
        "Files are those that tshark {tshark} reads; of the others, with the mark of a capture, it reads nothing.\n"
    );
    reasons(summary, &mut text);
    list("unexplained", &summary.unexplained, &mut text);
    list(
        "known differences that are no longer there",
        &summary.stale,
        &mut text,
    );
    text
}

fn reasons(summary: &Summary, text: &mut String) {
    if summary.reasons.is_empty() {
        return;
    }
    let width = summary.reasons.keys().map(String::len).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "{:width$}  {:>11}  {:>5}",
        "reason", "differences", "files"
    );
    for (name, tally) in &summary.reasons {
        let _ = writeln!(
            text,
            "{name:width$}  {:>11}  {:>5}  {}",
            tally.differences, tally.files, tally.text
        );
    }
}

fn list(title: &str, lines: &[String], text: &mut String) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:");
    for line in lines.iter().take(SHOWN) {
        let _ = writeln!(text, "  {line}");
    }
    if lines.len() > SHOWN {
        let _ = writeln!(text, "  and {} more", lines.len() - SHOWN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_begins_with_the_finding() {
        let row = Row {
            files: 3,
            equal_files: 2,
            frames: 100,
            equal: 97,
            known: 2,
            unexplained: 1,
            not_comparable: 1,
        };
        let mut summary = Summary::default();
        summary.projects.insert("one".to_owned(), row);
        let text = report(&summary, "4.0");
        let finding = "captures: equal in 2 of 3 captures; 3 of 100 packets differ, 2 by 0 known reasons, 1 unexplained";
        assert_eq!(text.lines().next(), Some(finding));
    }
}
