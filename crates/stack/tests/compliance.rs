//! COMPLIANCE.md says of each requirement of RFC 9293 which test proves it. These tests see to it that the tests are there
//! and that the file says what the table in `rfc/requirements.rs` says. `UPDATE_COMPLIANCE=1 cargo test -p tollgate-stack
//! --test compliance` writes the file anew.

#[path = "rfc/requirements.rs"]
mod requirements;

use requirements::{
    ALTERNATE_CHECKSUMS, FAST_OPEN, IPV6, MUST, Requirement, SELECTIVE, SHOULD, Status,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The comments of each test in the scripts, by `module::name`.
fn tests() -> BTreeMap<String, String> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rfc");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(scripts).expect("the scripts are there") {
        let path = entry.expect("an entry can be read").path();
        let module = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a name")
            .to_owned();
        let source = fs::read_to_string(&path).expect("a script can be read");
        let lines: Vec<&str> = source.lines().collect();
        for at in 1..lines.len() {
            if lines[at - 1] != "#[test]" {
                continue;
            }
            let name = lines[at]
                .strip_prefix("fn ")
                .and_then(|rest| rest.split('(').next())
                .expect("a function");
            let comment: Vec<&str> = lines[..at - 1]
                .iter()
                .rev()
                .map_while(|line| line.strip_prefix("///"))
                .collect();
            let comment: String = comment.into_iter().rev().collect();
            found.insert(format!("{module}::{name}"), comment);
        }
    }
    found
}

fn table(out: &mut String, rows: &[Requirement]) {
    out.push_str("| id | section | clause | status | proven by |\n|---|---|---|---|---|\n");
    for Requirement {
        id,
        section,
        clause,
        status,
    } in rows
    {
        let (word, tests, reason): (&str, &[&str], &str) = match status {
            Status::Proven(tests) => ("yes", tests, ""),
            Status::Partly(tests, reason) => ("partly", tests, reason),
            Status::NotYet(reason) => ("not yet", &[], reason),
            Status::NotApplicable(reason) => ("not applicable", &[], reason),
        };
        let mut proof: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
        if !reason.is_empty() {
            proof.push(reason.to_owned());
        }
        writeln!(
            out,
            "| {id} | {section} | {clause} | {word} | {} |",
            proof.join("; ")
        )
        .expect("a string takes it");
    }
}

fn count(rows: &[Requirement]) -> String {
    let of = |wanted: fn(&Status) -> bool| rows.iter().filter(|row| wanted(&row.status)).count();
    format!(
        "{} requirements: {} proven, {} in part, {} not yet, {} not applicable.",
        rows.len(),
        of(|status| matches!(status, Status::Proven(_))),
        of(|status| matches!(status, Status::Partly(..))),
        of(|status| matches!(status, Status::NotYet(_))),
        of(|status| matches!(status, Status::NotApplicable(_))),
    )
}

fn document() -> String {
    let mut out = String::from(
        "# Compliance with RFC 9293\n\n\
         Which requirements of RFC 9293 (TCP, appendix B) the stack meets, and the test that proves each. The clauses are in \
         our own words; each test quotes the RFC's. A test `module::name` lies in `crates/stack/tests/rfc/module.rs`; \
         `cargo test -p tollgate-stack --test rfc name` runs it.\n\n\
         This file is generated from `crates/stack/tests/rfc/requirements.rs`:\n\
         `UPDATE_COMPLIANCE=1 cargo test -p tollgate-stack --test compliance`.\n\n## MUST and MUST NOT\n\n",
    );
    out += &count(&MUST);
    out.push_str("\n\n");
    table(&mut out, &MUST);
    out.push_str("\n## SHOULD and SHOULD NOT\n\n");
    out += &count(&SHOULD);
    out.push_str("\n\n");
    table(&mut out, &SHOULD);
    out.push_str(
        "\n## Selective acknowledgments (RFC 2018, 2883, 6675, 8985, 9937)\n\nWith the mechanism `recovery=sack`, the default. Tail loss \
         probes (RFC 8985, 7) are not sent.\n\n",
    );
    out += &count(&SELECTIVE);
    out.push_str("\n\n");
    table(&mut out, &SELECTIVE);
    out.push_str(
        "\n## Alternate checksums (RFC 1146)\n\nWith the mechanism `checksum=redundancy-avoidance` only; RFC 6247 has made RFC 1146 \
         historic.\n\n",
    );
    out += &count(&ALTERNATE_CHECKSUMS);
    out.push_str("\n\n");
    table(&mut out, &ALTERNATE_CHECKSUMS);
    out.push_str(
        "\n## Fast Open (RFC 7413)\n\nFor listeners that ask for it: `Open::fast_open`.\n\n",
    );
    out += &count(&FAST_OPEN);
    out.push_str("\n\n");
    table(&mut out, &FAST_OPEN);
    out.push_str("\n## IPv6 (RFC 4443, 4861, 4862, 8200, 8201)\n\nWith `Config::ipv6`.\n\n");
    out += &count(&IPV6);
    out.push_str("\n\n");
    table(&mut out, &IPV6);
    out
}

#[test]
fn every_requirement_is_listed_once_and_in_order() {
    let all = [
        (&MUST[..], "MUST"),
        (&SHOULD[..], "SHLD"),
        (&SELECTIVE[..], "SACK"),
        (&ALTERNATE_CHECKSUMS[..], "CSUM"),
        (&FAST_OPEN[..], "TFO"),
        (&IPV6[..], "IP6"),
    ];
    for (rows, prefix) in all {
        for (n, row) in rows.iter().enumerate() {
            assert_eq!(row.id, format!("{prefix}-{}", n + 1));
        }
    }
}

/// Each test exists, and at least one of a requirement's tests names it in its comment, where the clause is quoted.
#[test]
fn every_named_test_exists_and_names_its_requirement() {
    let tests = tests();
    assert!(tests.len() > 100, "only {} tests were found", tests.len());
    for row in MUST
        .iter()
        .chain(&SHOULD)
        .chain(&SELECTIVE)
        .chain(&ALTERNATE_CHECKSUMS)
        .chain(&FAST_OPEN)
        .chain(&IPV6)
    {
        let (Status::Proven(named) | Status::Partly(named, _)) = &row.status else {
            continue;
        };
        assert!(
            !named.is_empty(),
            "{} is said to be proven by nothing",
            row.id
        );
        let mut quoted = false;
        for name in *named {
            let comment = tests
                .get(*name)
                .unwrap_or_else(|| panic!("{}: there is no test {name}", row.id));
            quoted |= comment.match_indices(row.id).any(|(at, id)| {
                !comment[at + id.len()..].starts_with(|next: char| next.is_ascii_digit())
            });
        }
        assert!(quoted, "no test of {} names it in its comment", row.id);
    }
}

#[test]
fn the_document_is_up_to_date() {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../COMPLIANCE.md");
    let wanted = document();
    if env::var_os("UPDATE_COMPLIANCE").is_some() {
        fs::write(&path, &wanted).expect("the document can be written");
    }
    let there = fs::read_to_string(&path).expect("COMPLIANCE.md is there");
    assert!(
        there == wanted,
        "COMPLIANCE.md is not what the table says: UPDATE_COMPLIANCE=1 cargo test -p tollgate-stack --test compliance"
    );
}
