//! `tollgate profile` from outside: a fixed run and the built-in traces, and what is refused.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tollgate_experiment::run::{Cell, Run, Table};

fn tollgate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .current_dir(folder)
        .env("COLUMNS", "140")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

/// A run over kernel-loopback with `kay-breakdown` and `kay-detail`, as measured, without figures.
const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profile/kernel.json");

fn table<'a>(run: &'a Run, id: &str) -> &'a Table {
    let tables = &run.experiments[0].tables;
    tables.iter().find(|one| one.id == id).unwrap()
}

fn column(table: &Table, name: &str) -> Vec<Option<f64>> {
    let at = table
        .columns
        .iter()
        .position(|one| one.name == name)
        .unwrap();
    table
        .rows
        .iter()
        .map(|row| row.cells.get(at).and_then(Cell::number))
        .collect()
}

#[test]
fn a_fixed_run_on_the_lan_trace() {
    let folder = tempfile::tempdir().unwrap();
    let output = tollgate(
        folder.path(),
        &["profile", "--trace", "kay-lan", "--from", KERNEL],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    insta::assert_snapshot!(text(&output.stdout));
}

#[test]
fn shares_sum_to_all_and_lie_in_their_intervals() {
    let folder = tempfile::tempdir().unwrap();
    for trace in ["kay-lan", "kay-wan"] {
        let output = tollgate(
            folder.path(),
            &[
                "profile",
                "--trace",
                trace,
                "--from",
                KERNEL,
                "--json",
                "--out",
                "profile.html",
            ],
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        let run: Run = serde_json::from_slice(&output.stdout).unwrap();
        let aggregate = table(&run, "aggregate");
        for name in ["TCP", "UDP", "TCP and UDP"] {
            let shares: Vec<f64> = column(aggregate, name).into_iter().flatten().collect();
            let (categories, sums) = shares.split_at(shares.len() - 2);
            let all: f64 = categories.iter().sum();
            assert!((all - 100.0).abs() < 1e-6, "{trace}, {name}: {all}");
            assert!((sums[0] + sums[1] - 100.0).abs() < 1e-6);
        }
        let measured = aggregate
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .filter_map(Cell::measured);
        for one in measured {
            match one.ci {
                Some(ci) => assert!(ci.low <= one.value && one.value <= ci.high, "{one:?}"),
                // All of it is all of it, whatever the errors.
                None => assert!((one.value - 100.0).abs() < 1e-6, "{one:?}"),
            }
        }
        let html = std::fs::read_to_string(folder.path().join("profile.html")).unwrap();
        assert!(html.contains(&format!("Where the time goes on {trace}")));
        assert!(html.contains("<svg class=\"chart\""));
    }
}

#[test]
fn our_stack_is_measured_and_weighted() {
    let folder = tempfile::tempdir().unwrap();
    let output = tollgate(
        folder.path(),
        &[
            "-q",
            "profile",
            "--trace",
            "kay-wan",
            "--path",
            "stack-memory",
            "--size",
            "4,200,1400",
            "--iterations",
            "400",
            "--json",
            "-",
        ],
    );
    // A machine that does other things meanwhile may not tell the spans of a debug build apart, and then says so.
    if !output.status.success() {
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("come out below zero"), "{error}");
        eprintln!("skipped: {error}");
        return;
    }
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    let shares = column(table(&run, "aggregate"), "TCP");
    assert!(shares.iter().all(Option::is_some), "{shares:?}");
    let udp = column(table(&run, "aggregate"), "UDP");
    assert!(udp.iter().all(Option::is_none), "{udp:?}");
}

#[test]
fn what_makes_no_profile_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("no.json"), "{}").unwrap();
    for (arguments, code, told) in [
        (
            &["--trace", "kay-lan", "--from", "no.json"][..],
            2,
            "cannot read the run",
        ),
        (
            &[
                "--trace",
                "kay-lan",
                "--from",
                KERNEL,
                "--path",
                "kernel-veth",
            ],
            2,
            "the run has no costs of kernel-veth; it has those of kernel-loopback",
        ),
        (
            &[
                "--trace",
                "kay-lan",
                "--from",
                KERNEL,
                "--path",
                "stack-memory",
            ],
            2,
            "`wolman-transmit`",
        ),
        (
            &["--trace", "kay-lan", "--path", "peer-smoltcp"],
            2,
            "a profile is of kernel-loopback, kernel-veth or stack-memory",
        ),
        (
            &["--trace", "kay-lan", "--path", "stack-memory,kernel-veth"],
            2,
            "name one with --path",
        ),
        (
            &["--trace", "kay-lan", "--messages", "packets"],
            2,
            "unknown kind of message `packets`",
        ),
        (&["--trace", "nowhere", "--from", KERNEL], 1, "nowhere"),
    ] {
        let all: Vec<&str> = std::iter::once("profile")
            .chain(arguments.iter().copied())
            .collect();
        let output = tollgate(folder.path(), &all);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(
            error.starts_with("error: ") && error.contains(told),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(output.stdout.is_empty());
    }
    // What is asked of the measurement makes no sense beside a run that was made before.
    let output = tollgate(
        folder.path(),
        &["profile", "--trace", "kay-lan", "--from", KERNEL, "--quick"],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot be used with"));
}
