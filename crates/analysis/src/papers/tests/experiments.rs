//! Tests that no published number is passed over that an experiment shows: what the experiments name in their sources is compared, or
//! has the difference of the quantities beside it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_papers as papers;

use super::super::counterparts::{Counterpart, TABLES};
use super::super::published;

/// Numbers that experiments read and that are no result of a paper.
const SETTINGS: [&str; 3] = [
    "kay-pasquale-1996/fddi-mtu",
    "kay-pasquale-1996/sizes",
    "kay-pasquale-1996/standard-error",
];

/// Numbers of the text that a table has, too, in which they are compared.
const IN_TABLES: [(&str, &str); 1] = [(
    "lehmann-benz-2002/ip-queue-delay",
    "lehmann-benz-2002/queueing",
)];

/// A source of an experiment, without its tests and comments.
struct Source {
    /// The text between quotation marks, and between two such.
    literals: HashSet<String>,
    /// The ids of tables and facts that it names.
    names: BTreeSet<&'static str>,
}

impl Source {
    fn of(text: &str, above: &str) -> Self {
        let literals = text.lines().flat_map(|line| line.split('"'));
        let literals: HashSet<String> = literals.map(str::to_owned).collect();
        let ids = ids().into_iter();
        let names = ids.filter(|id| {
            let (paper, end) = id.split_once('/').unwrap();
            let of_its_paper = text.contains(paper) || above.contains(paper);
            let is_read = papers::table(id).is_some() || text.contains("fact(");
            let by_its_end = [end, &format!("{{PAPER}}/{end}")].map(|end| literals.contains(end));
            let by_its_beginning = literals.iter().any(|literal| {
                let (beginning, _) = literal.split_once('{').unwrap_or_default();
                beginning.len() > paper.len() + 1 && id.starts_with(beginning)
            });
            literals.contains(*id)
                || by_its_beginning
                || (of_its_paper && is_read && by_its_end.contains(&true))
        });
        Self {
            names: names.collect(),
            literals,
        }
    }
}

/// The ids of all published tables and facts.
fn ids() -> Vec<&'static str> {
    let facts = papers::all().iter().flat_map(|paper| {
        let ids = paper.facts.iter();
        ids.map(|fact| &*format!("{}/{}", paper.id, fact.id).leak())
    });
    let tables = papers::all().iter().flat_map(|paper| &paper.tables);
    facts.chain(tables.map(|table| table.id.as_str())).collect()
}

fn files(under: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(under).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .filter(|path| !path.ends_with("tests.rs"))
        .collect()
}

fn without_tests(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let (code, _) = text.split_once("#[cfg(test)]\n").unwrap_or((&text, ""));
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiment/src/experiments");
    let source = |path: &PathBuf| {
        let above = path.parent().unwrap().join("mod.rs");
        let above = match above.exists() && above != root.join("mod.rs") {
            true => without_tests(&above),
            false => String::new(),
        };
        Source::of(&without_tests(path), &above)
    };
    files(&root).iter().map(source).collect()
}

#[test]
fn published_numbers_that_experiments_show_are_compared_or_told_apart() {
    let compared: BTreeSet<&str> = published::ALL.iter().flat_map(|one| one.ids()).collect();
    let unlike: BTreeSet<&str> = published::UNLIKE.iter().map(|one| one.fact).collect();
    let sources = sources();
    let shown: BTreeSet<&str> = sources.iter().flat_map(|one| &one.names).copied().collect();
    for id in &shown {
        let table = TABLES.iter().find(|(table, _)| table == id);
        let known = match table {
            Some((_, Counterpart::None { .. })) | None => {
                let as_table = IN_TABLES.iter().find(|(fact, _)| fact == id);
                compared.contains(as_table.map_or(*id, |(_, table)| *table))
                    || unlike.contains(id)
                    || SETTINGS.contains(id)
            }
            Some((_, Counterpart::Shown { .. } | Counterpart::Unlike { .. })) => true,
        };
        assert!(
            known,
            "an experiment shows {id}, and no run is set beside it"
        );
    }
    // What is found by a constant, by a beginning, by an end, and in a module's own file.
    for id in [
        "clark-1989/tcp-input",
        "wolman-1994/pcb-search-1000",
        "foong-2003/driver-most",
        "lehmann-benz-2002/queueing",
    ] {
        assert!(shown.contains(id), "{id} was not found");
    }
}

#[test]
fn differences_are_told_only_of_what_experiments_show() {
    let sources = sources();
    for (id, counterpart) in TABLES {
        if let Counterpart::Unlike { by, .. } = counterpart {
            let of_it = sources
                .iter()
                .any(|source| source.names.contains(id) && source.literals.contains(by));
            assert!(of_it, "{by} does not show {id}");
        }
    }
    for one in published::UNLIKE {
        assert!(papers::fact(one.fact).is_some(), "{}", one.fact);
        let shown = sources.iter().any(|source| source.names.contains(one.fact));
        assert!(shown, "no experiment shows {}", one.fact);
    }
}
