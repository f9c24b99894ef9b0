//! COMPLIANCE.md says of each requirement of RFC 9293 which test proves it. These tests see to it that the tests are there
//! and that the file says what the table in `rfc/requirements.rs` says. `UPDATE_COMPLIANCE=1 cargo test -p tollgate-stack
//! --test compliance` writes the file anew.

#[path = "rfc/address_requirements.rs"]
mod address_requirements;
#[path = "rfc/recovery_requirements.rs"]
mod recovery_requirements;
#[path = "rfc/requirements.rs"]
mod requirements;

use address_requirements::{ADDRESSES, DHCP};
use recovery_requirements::{ACCURATE_ECN, CONGESTION, ECN, PATH_MTU, PROBES, PROBING, UNDO};
use requirements::{
    ALTERNATE_CHECKSUMS, FAST_OPEN, IPV6, MUST, Requirement, SELECTIVE, SHOULD, Status,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// A chapter of the document.
struct Chapter {
    title: &'static str,
    about: &'static str,
    /// Prefix of the names of its requirements.
    prefix: &'static str,
    rows: &'static [Requirement],
}

/// The chapters behind those of RFC 9293.
const CHAPTERS: &[Chapter] = &[
    Chapter {
        title: "Selective acknowledgments (RFC 2018, 2883, 6675, 8985, 9937)",
        about: "With the mechanism `recovery=sack`, the default.",
        prefix: "SACK",
        rows: &SELECTIVE,
    },
    Chapter {
        title: "Tail loss probes (RFC 8985, 7)",
        about: "With the mechanism `tail-probe=on`, the default.",
        prefix: "TLP",
        rows: &PROBES,
    },
    Chapter {
        title: "Undo (RFC 3522, 4015, 3708)",
        about: "With the mechanism `undo=on`, the default. F-RTO (RFC 5682) is not there: without timestamps a timeout is undone by D-SACK.",
        prefix: "UNDO",
        rows: &UNDO,
    },
    Chapter {
        title: "Congestion control (RFC 9438, 9406)",
        about: "With the mechanism `congestion=cubic`, the default. Unit tests beside the code hold its window against real numbers.",
        prefix: "CC",
        rows: &CONGESTION,
    },
    Chapter {
        title: "Explicit congestion notification (RFC 3168)",
        about: "With the mechanism `ecn=classic`, which is not the default.",
        prefix: "ECN",
        rows: &ECN,
    },
    Chapter {
        title: "Path MTU discovery (RFC 1191)",
        about: "What routers say of a path over IPv4. It counts for the connection whose packet was too long.",
        prefix: "MTU4",
        rows: &PATH_MTU,
    },
    Chapter {
        title: "Path MTU discovery by probing (RFC 4821, RFC 8899)",
        about: "With the mechanism `mtu-probing=black-hole`, the default, or `mtu-probing=always`. What routers tell (RFC 1191, RFC 8201) counts in any case.",
        prefix: "PMTU",
        rows: &PROBING,
    },
    Chapter {
        title: "More accurate ECN feedback (RFC 9768)",
        about: "With the mechanism `ecn=accurate`, which is not the default. Options ride on acknowledgments without data only. Failed \
                attempts are not remembered from one connection to the next (3.1.4.1), and continuous marks are not looked for (3.2.2.3).",
        prefix: "ACC",
        rows: &ACCURATE_ECN,
    },
    Chapter {
        title: "Alternate checksums (RFC 1146)",
        about: "With the mechanism `checksum=redundancy-avoidance` only; RFC 6247 has made RFC 1146 historic.",
        prefix: "CSUM",
        rows: &ALTERNATE_CHECKSUMS,
    },
    Chapter {
        title: "Fast Open (RFC 7413)",
        about: "For listeners that ask for it, `Open::fast_open`, and for connections that are opened with data, `Active::connect_with_data`.",
        prefix: "TFO",
        rows: &FAST_OPEN,
    },
    Chapter {
        title: "IPv6 (RFC 4443, 4861, 4862, 8200, 8201)",
        about: "With `Config::ipv6`.",
        prefix: "IP6",
        rows: &IPV6,
    },
    Chapter {
        title: "Addresses and routes (RFC 1122, 5227)",
        about: "With `Stack::add_address`, `Active::probe_address`, `Active::remove_address` and `Stack::add_route`.",
        prefix: "ADDR",
        rows: &ADDRESSES,
    },
    Chapter {
        title: "DHCP (RFC 2131, 3442, 4361, 6842)",
        about: "With `dhcp::Client`.",
        prefix: "DHCP",
        rows: &DHCP,
    },
];

/// The comments of each test in the scripts, by `module::name`, and of the simulations, by `simulation::module::name`.
fn tests() -> BTreeMap<String, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    find_tests(&here.join("tests/rfc"), "", &mut found);
    find_tests(
        &here.join("../simulation/tests"),
        "simulation::",
        &mut found,
    );
    found
}

fn find_tests(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the scripts are there") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            continue;
        }
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
            found.insert(format!("{prefix}{module}::{name}"), comment);
        }
    }
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
         `cargo test -p tollgate-stack --test rfc name` runs it. A test `simulation::module::name` lies in \
         `crates/simulation/tests/module.rs`.\n\n\
         This file is generated from `requirements.rs`, `recovery_requirements.rs` and `address_requirements.rs` in `crates/stack/tests/rfc`:\n\
         `UPDATE_COMPLIANCE=1 cargo test -p tollgate-stack --test compliance`.\n\n## MUST and MUST NOT\n\n",
    );
    out += &count(&MUST);
    out.push_str("\n\n");
    table(&mut out, &MUST);
    out.push_str("\n## SHOULD and SHOULD NOT\n\n");
    out += &count(&SHOULD);
    out.push_str("\n\n");
    table(&mut out, &SHOULD);
    for chapter in CHAPTERS {
        let (title, about) = (chapter.title, chapter.about);
        let count = count(chapter.rows);
        write!(out, "\n## {title}\n\n{about}\n\n{count}\n\n").expect("a string takes it");
        table(&mut out, chapter.rows);
    }
    out
}

#[test]
fn every_requirement_is_listed_once_and_in_order() {
    let first = [(&MUST[..], "MUST"), (&SHOULD[..], "SHLD")];
    let others = CHAPTERS
        .iter()
        .map(|chapter| (chapter.rows, chapter.prefix));
    for (rows, prefix) in first.into_iter().chain(others) {
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
    let others = CHAPTERS.iter().flat_map(|chapter| chapter.rows);
    for row in MUST.iter().chain(&SHOULD).chain(others) {
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
