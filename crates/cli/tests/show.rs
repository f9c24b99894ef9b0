//! `tollgate show` over a saved run: the one screen, an experiment, one table, and what is said of a wrong name.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn tollgate(args: &[&str], columns: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(args)
        .env("COLUMNS", columns)
        .output()
        .unwrap()
}

/// The report that the tests of all crates share.
fn report() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../run/fixtures/report.json")
}

fn shown(parts: &[&str]) -> String {
    let report = report();
    let mut args = vec!["show", report.to_str().unwrap()];
    args.extend(parts);
    let output = tollgate(&args, "100");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn show_prints_a_run_on_one_screen() {
    let text = shown(&[]);
    assert!(text.lines().count() <= 60, "{text}");
    assert!(text.contains("Where a round trip of 200 bytes goes"));
    assert!(text.contains("tollgate compare "));
}

#[test]
fn show_prints_the_tables_of_a_run_of_one_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rr.json");
    let text = std::fs::read_to_string(report()).unwrap();
    let mut run: serde_json::Value = serde_json::from_str(&text).unwrap();
    let all = run["experiments"].as_array_mut().unwrap();
    all.retain(|one| one["name"] == "rr-by-size");
    std::fs::write(&file, run.to_string()).unwrap();
    let output = tollgate(&["show", file.to_str().unwrap()], "100");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Round trip, median"), "{text}");
}

#[test]
fn show_prints_an_experiment_or_one_table() {
    let crr = shown(&["crr"]);
    assert!(crr.contains("Connect, request, response") && !crr.contains("Round trip, median"));
    let closure = shown(&["wolman-receive/closure"]);
    assert!(closure.contains("round trip without gates"), "{closure}");
    assert!(!closure.contains("The spans of"));
    let all = shown(&["--full"]);
    assert!(all.contains("Round trip, median") && all.contains("The spans of"));
}

#[test]
fn show_names_what_it_does_not_know() {
    let report = report();
    let run = report.to_str().unwrap();
    for (part, said) in [
        ("cr", "unknown experiment of this run `cr`"),
        ("crr/x", "unknown table of crr `x`; known: connections"),
    ] {
        let output = tollgate(&["show", run, part], "100");
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(said), "{text}");
    }
    let output = tollgate(&["show", "no-such.json"], "100");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("no-such.json")
    );
}

#[test]
fn show_writes_the_figure_as_svg() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("anatomy.svg");
    let report = report();
    let args = [
        "show",
        report.to_str().unwrap(),
        "--svg",
        file.to_str().unwrap(),
    ];
    let output = tollgate(&args, "100");
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("kernel-loopback, 2 cores, blocking") && !svg.contains("<script"));
}
