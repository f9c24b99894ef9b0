//! Outcome of the comparison of all files, held against the list of known differences.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::{Comparison, Difference};
use crate::frame::Aspect;
use crate::known::{Entry, List};

/// Outcome of a file.
pub enum Outcome {
    /// Both programs read it.
    Compared(Comparison),
    /// It bears the mark of a capture, and tshark reads nothing of it.
    NotComparable,
}

/// A project's row in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Captures that were compared.
    pub files: usize,
    /// Of those, the ones without any difference.
    pub equal_files: usize,
    /// Frames that were compared, and of those the ones without, with known, and with unexplained differences.
    pub frames: usize,
    pub equal: usize,
    pub known: usize,
    pub unexplained: usize,
    /// Files that tshark reads nothing of.
    pub not_comparable: usize,
}

/// Differences for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub differences: usize,
    pub files: usize,
    pub text: String,
}

/// Everything that is shown.
#[derive(Default)]
pub struct Summary {
    pub projects: BTreeMap<String, Row>,
    pub reasons: BTreeMap<String, Tally>,
    /// Lines for people: a file, a frame, and how it differs.
    pub unexplained: Vec<String>,
    /// Entries of the list that explain nothing.
    pub stale: Vec<String>,
}

/// The first folder of a path.
fn project(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

/// Holds all outcomes against the list.
pub fn summary(outcomes: &[(String, Outcome)], list: &List) -> Summary {
    let mut summary = Summary::default();
    let mut used = BTreeSet::new();
    for (path, outcome) in outcomes {
        let row = summary
            .projects
            .entry(project(path).to_owned())
            .or_default();
        match outcome {
            Outcome::NotComparable => row.not_comparable += 1,
            Outcome::Compared(comparison) => {
                let judged = judge(path, comparison, list, &mut used);
                row.files += 1;
                row.equal_files += usize::from(comparison.differences.is_empty());
                row.frames += comparison.frames;
                let unexplained: BTreeSet<usize> =
                    judged.unexplained.iter().map(|it| it.frame).collect();
                let differing: BTreeSet<usize> =
                    comparison.differences.iter().map(|it| it.frame).collect();
                row.unexplained += unexplained.len();
                row.known += differing.len() - unexplained.len();
                row.equal += comparison.frames.saturating_sub(differing.len());
                for (name, (text, count)) in judged.reasons {
                    let tally = summary.reasons.entry(name).or_default();
                    tally.differences += count;
                    tally.files += 1;
                    tally.text = text;
                }
                summary.unexplained.extend(
                    judged.unexplained.iter().map(|it| {
                        format!("{path}, frame {}: {}: {}", it.frame, it.aspect, it.text)
                    }),
                );
                summary.unexplained.extend(judged.counts);
            }
        }
    }
    let fetched = |entry: &&Entry| summary.projects.contains_key(project(&entry.path));
    summary.stale = list
        .entries
        .iter()
        .filter(fetched)
        .filter(|entry| !used.contains(&entry.line))
        .map(|entry| {
            let Entry {
                line,
                path,
                aspect,
                reason,
                ..
            } = entry;
            format!("line {line}: {path} {aspect} {reason}")
        })
        .collect();
    summary
}

/// The differences of one file by reason, and the others.
#[derive(Default)]
struct Judged<'a> {
    reasons: BTreeMap<String, (String, usize)>,
    unexplained: Vec<&'a Difference>,
    /// Entries with another number than was found.
    counts: Vec<String>,
}

fn judge<'a>(
    path: &str,
    comparison: &'a Comparison,
    list: &List,
    used: &mut BTreeSet<usize>,
) -> Judged<'a> {
    let mut judged = Judged::default();
    let mut others: BTreeMap<Aspect, Vec<&Difference>> = BTreeMap::new();
    for difference in &comparison.differences {
        match difference.rule {
            Some(rule) => {
                let known = judged
                    .reasons
                    .entry(rule.name().to_owned())
                    .or_insert_with(|| (rule.text().to_owned(), 0));
                known.1 += 1;
            }
            None => others
                .entry(difference.aspect)
                .or_default()
                .push(difference),
        }
    }
    for (aspect, differences) in others {
        let Some(entry) = list.find(path, aspect) else {
            judged.unexplained.extend(differences);
            continue;
        };
        used.insert(entry.line);
        if entry.count == differences.len() {
            let text = list.reasons.get(&entry.reason).cloned().unwrap_or_default();
            let known = judged
                .reasons
                .entry(entry.reason.clone())
                .or_insert((text, 0));
            known.1 += differences.len();
        } else {
            judged.counts.push(format!(
                "{path}: {aspect}: {} differences, and the list knows {}",
                differences.len(),
                entry.count
            ));
            judged.unexplained.extend(differences);
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rule;

    fn difference(frame: usize, aspect: Aspect, rule: Option<Rule>) -> Difference {
        Difference {
            frame,
            aspect,
            text: "differs".to_owned(),
            rule,
        }
    }

    fn outcomes() -> Vec<(String, Outcome)> {
        let differences = vec![
            difference(1, Aspect::Missing, Some(Rule::Tunnel)),
            difference(2, Aspect::Size, None),
            difference(2, Aspect::Flow, None),
            difference(3, Aspect::Size, None),
        ];
        let comparison = Comparison {
            frames: 10,
            differences,
        };
        vec![
            ("one/a".to_owned(), Outcome::Compared(comparison)),
            ("one/b".to_owned(), Outcome::NotComparable),
        ]
    }

    #[test]
    fn known_differences_are_counted_by_frame_and_by_reason() {
        let list = "reason odd: x\none/a size 2 odd\none/a flow 1 odd";
        let summary = summary(&outcomes(), &List::parse(list).unwrap());
        let row = &summary.projects["one"];
        assert_eq!((row.files, row.equal_files, row.not_comparable), (1, 0, 1));
        assert_eq!((row.equal, row.known, row.unexplained), (7, 3, 0));
        assert_eq!(summary.reasons["odd"].differences, 3);
        assert_eq!(summary.reasons["tunnel"].files, 1);
        assert!(summary.unexplained.is_empty() && summary.stale.is_empty());
    }

    #[test]
    fn difference_outside_the_list_is_unexplained() {
        let list = "reason odd: x\none/a size 2 odd";
        let summary = summary(&outcomes(), &List::parse(list).unwrap());
        assert_eq!(summary.projects["one"].unexplained, 1);
        assert_eq!(summary.unexplained, ["one/a, frame 2: flow: differs"]);
    }

    #[test]
    fn other_count_than_the_list_has_is_unexplained() {
        let list = "reason odd: x\none/a size 1 odd\none/a flow 1 odd";
        let summary = summary(&outcomes(), &List::parse(list).unwrap());
        assert_eq!(summary.projects["one"].unexplained, 2);
        assert_eq!(summary.unexplained.len(), 3);
    }

    #[test]
    fn entry_that_explains_nothing_is_stale_where_its_project_was_fetched() {
        let list =
            "reason odd: x\none/a size 2 odd\none/a flow 1 odd\none/c size 1 odd\ntwo/a size 1 odd";
        let summary = summary(&outcomes(), &List::parse(list).unwrap());
        assert_eq!(summary.stale, ["line 4: one/c size odd"]);
    }
}
