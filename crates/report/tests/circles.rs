//! Files of a crate form no circle of more than two: each can be read when those that it uses have been.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates whose circles are known and not yet undone: the state of a connection is shared by all of TCP.
const KNOWN: [&str; 1] = ["stack"];
/// The most files that a circle may have.
const MOST: usize = 2;

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The module that a file is, by the names on the way to it; none for the root.
fn module(root: &Path, file: &Path) -> Vec<String> {
    let inside = file.strip_prefix(root).unwrap().with_extension("");
    let mut names: Vec<String> = inside
        .iter()
        .map(|name| name.to_str().unwrap().to_owned())
        .collect();
    if matches!(
        names.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        names.pop();
    }
    names
}

/// The code without comments and without the tests at its end.
fn code(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let tests = (1..lines.len()).find(|&at| {
        lines[at - 1] == "#[cfg(test)]" && lines[at].starts_with("mod ") && lines[at].ends_with('{')
    });
    let code = &lines[..tests.unwrap_or(lines.len())];
    let code = code.iter().map(|line| line.split("//").next().unwrap());
    code.collect::<Vec<_>>().join("\n")
}

/// The paths behind `crate::`, those in braces one by one as far as their first name.
fn used(code: &str) -> Vec<Vec<String>> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let names = |path: &str| -> Vec<String> {
        let path: String = path.trim().chars().take_while(|&c| is_path(c)).collect();
        path.split("::").map(str::to_owned).collect()
    };
    let mut used = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(list) => {
                let list = list.split(';').next().unwrap();
                used.extend(list.split([',', '{', '}']).map(names));
            }
            None => used.push(names(rest)),
        }
    }
    used
}

type Modules = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// The modules that each module of a crate names.
fn modules(root: &Path) -> Modules {
    let mut files = Vec::new();
    sources(root, &mut files);
    files.retain(|file| file.file_name().is_none_or(|name| name != "tests.rs"));
    let all: BTreeSet<Vec<String>> = files.iter().map(|file| module(root, file)).collect();
    let nearest = |mut path: Vec<String>| {
        while !path.is_empty() && !all.contains(&path) {
            path.pop();
        }
        (!path.is_empty()).then_some(path)
    };
    files
        .iter()
        .map(|file| {
            let own = module(root, file);
            let text = fs::read_to_string(file).unwrap();
            let used = used(&code(&text)).into_iter().filter_map(nearest);
            let others = used.filter(|other| *other != own).collect();
            (own, others)
        })
        .collect()
}

/// The modules that a module reaches.
fn reached(from: &Vec<String>, modules: &Modules) -> BTreeSet<Vec<String>> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(one) = next.pop() {
        for other in &modules[one] {
            if reached.insert(other.clone()) {
                next.push(other);
            }
        }
    }
    reached
}

/// The largest circle.
fn largest(modules: &Modules) -> BTreeSet<Vec<String>> {
    let reached: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> = modules
        .keys()
        .map(|one| (one, reached(one, modules)))
        .collect();
    let circle = |one: &Vec<String>| -> BTreeSet<Vec<String>> {
        let mutual = reached[one]
            .iter()
            .filter(|other| reached[other].contains(one));
        mutual.cloned().collect()
    };
    modules
        .keys()
        .map(circle)
        .max_by_key(BTreeSet::len)
        .unwrap()
}

#[test]
fn files_form_no_circle_of_more_than_two() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let one = entry.unwrap().path();
        let name = one.file_name().unwrap().to_str().unwrap().to_owned();
        let root = one.join("src");
        if !root.is_dir() || KNOWN.contains(&name.as_str()) {
            continue;
        }
        let modules = modules(&root);
        seen += modules.values().map(BTreeSet::len).sum::<usize>();
        let circle: Vec<String> = largest(&modules).iter().map(|one| one.join("::")).collect();
        assert!(circle.len() <= MOST, "{name}: {}", circle.join(", "));
    }
    assert!(seen > 500, "only {seen} uses were seen");
}

#[test]
fn circle_of_three_is_seen() {
    let name = |name: &str| vec![name.to_owned()];
    let uses = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")];
    let modules: Modules = uses
        .iter()
        .map(|(one, other)| (name(one), BTreeSet::from([name(other)])))
        .collect();
    assert_eq!(largest(&modules), [name("a"), name("b"), name("c")].into());
    assert_eq!(
        used("use crate::{a::X, b};\nuse crate::c::{Y, Z}; crate::d::f()")[..2],
        [vec!["a".to_owned(), "X".to_owned()], name("b")]
    );
}
