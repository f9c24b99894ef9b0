//! The list of known differences that no rule explains: tests/captures.reasons.
//!
//! A line is `reason NAME: TEXT`, or `PROJECT/PATH ASPECT COUNT NAME` with the name of a reason; `#` begins a comment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::frame::Aspect;

/// A known number of differences of one aspect in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub line: usize,
    pub path: String,
    pub aspect: Aspect,
    pub count: usize,
    pub reason: String,
}

/// The whole list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub reasons: BTreeMap<String, String>,
    pub entries: Vec<Entry>,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl List {
    /// Reads the list.
    ///
    /// # Errors
    /// The first line that is none, that repeats another one, or that names a reason which is not there; a reason that
    /// no entry names.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let mut list = Self::default();
        let mut places = BTreeSet::new();
        let mut named = BTreeMap::new();
        for (at, content) in text.lines().enumerate() {
            let line = at + 1;
            let wrong = |what: String| Wrong { line, what };
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            if let Some(reason) = content.strip_prefix("reason ") {
                let (name, text) = reason
                    .split_once(": ")
                    .ok_or_else(|| wrong("a reason is `reason NAME: TEXT`".to_owned()))?;
                named.insert(name.to_owned(), line);
                if list
                    .reasons
                    .insert(name.to_owned(), text.trim().to_owned())
                    .is_some()
                {
                    return Err(wrong(format!("the reason {name} is there twice")));
                }
                continue;
            }
            let entry = entry(line, content).map_err(wrong)?;
            if !places.insert((entry.path.clone(), entry.aspect)) {
                return Err(wrong(format!(
                    "{} {} is there twice",
                    entry.path, entry.aspect
                )));
            }
            list.entries.push(entry);
        }
        for entry in &list.entries {
            if !list.reasons.contains_key(&entry.reason) {
                let what = format!("the reason {} is nowhere", entry.reason);
                return Err(Wrong {
                    line: entry.line,
                    what,
                });
            }
            named.remove(&entry.reason);
        }
        match named.into_iter().next() {
            Some((name, line)) => Err(Wrong {
                line,
                what: format!("no entry names the reason {name}"),
            }),
            None => Ok(list),
        }
    }

    /// The entry for an aspect of a file.
    pub fn find(&self, path: &str, aspect: Aspect) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.path == path && entry.aspect == aspect)
    }
}

fn entry(line: usize, content: &str) -> Result<Entry, String> {
    let fields: Vec<&str> = content.split_whitespace().collect();
    let [path, aspect, count, reason] = fields[..] else {
        return Err("an entry is `PROJECT/PATH ASPECT COUNT REASON`".to_owned());
    };
    Ok(Entry {
        line,
        path: path.to_owned(),
        aspect: Aspect::from_name(aspect).ok_or_else(|| format!("{aspect} is no aspect"))?,
        count: count
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| format!("{count} is no count"))?,
        reason: reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(text: &str) -> (usize, String) {
        let wrong = List::parse(text).unwrap_err();
        (wrong.line, wrong.what)
    }

    #[test]
    fn list_of_the_repository_is_read() {
        let list = List::parse(include_str!("../../tests/captures.reasons")).unwrap();
        assert!(!list.entries.is_empty());
    }

    #[test]
    fn entries_and_reasons_are_read() {
        let text = "# comment\n\nreason odd: It is odd: so it is.\na/b.pcap size 3 odd\n";
        let list = List::parse(text).unwrap();
        assert_eq!(list.reasons["odd"], "It is odd: so it is.");
        let entry = list.find("a/b.pcap", Aspect::Size).unwrap();
        assert_eq!((entry.line, entry.count, &*entry.reason), (4, 3, "odd"));
        assert_eq!(list.find("a/b.pcap", Aspect::Flow), None);
    }

    #[test]
    fn wrong_lines_are_refused_with_their_number() {
        assert_eq!(what("a size 3").0, 1);
        assert_eq!(what("\na bulk 3 odd"), (2, "bulk is no aspect".to_owned()));
        assert_eq!(what("a size 0 odd"), (1, "0 is no count".to_owned()));
        assert_eq!(
            what("reason odd It is."),
            (1, "a reason is `reason NAME: TEXT`".to_owned())
        );
        assert_eq!(what("a size 1 odd").1, "the reason odd is nowhere");
        assert_eq!(what("reason odd: x").1, "no entry names the reason odd");
        let twice = "reason odd: x\na size 1 odd\na size 2 odd";
        assert_eq!(what(twice), (3, "a size is there twice".to_owned()));
        assert_eq!(what("reason odd: x\nreason odd: y").0, 2);
    }
}
