//! The command from outside: what it prints, where, and with which exit code.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tollgate_run::{Cell, Run};

fn tollgate(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env("COLUMNS", "100")
        .stdin(Stdio::null());
    command
}

fn outcome(folder: &Path, arguments: &[&str]) -> Output {
    tollgate(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A run so small that it takes no time.
const SMALL: [&str; 6] = [
    "--size=4,200",
    "--iterations=16",
    "--repetitions=1",
    "--path=peer-smoltcp",
    "--wait=poll",
    "--cores=1",
];

fn small<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().copied().chain(SMALL).collect()
}

/// Bad usage: exit code 2, one line on standard error, nothing on standard output, no file.
fn refused(arguments: &[&str]) -> String {
    let folder = folder();
    let output = outcome(folder.path(), arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert_eq!(files(folder.path()), [""; 0]);
    error
}

/// A run in a file of its own, each time the same one but for the factor on its times.
fn run_file(folder: &Path, name: &str, factor: f64) -> String {
    let cell = |ns: f64| {
        let (value, low, high) = (ns * factor, ns * factor * 0.999, ns * factor * 1.001);
        format!(r#"{{"type": "value", "value": {value}, "ci": {{"low": {low}, "high": {high}}}}}"#)
    };
    let none = r#"{"type": "not_available", "reason": "not read in this test"}"#;
    let text = format!(
        r#"{{"schema": "tollgate.run", "version": 1, "tool": {{"name": "tollgate", "version": "0.1.0"}},
        "started": "2026-01-01T00:00:00Z", "elapsed_s": 1.0, "command": "tollgate rr", "quick": false,
        "host": {{"kernel": {none}, "cpu_model": {none}, "cores": {none}, "mitigations": {none}, "governor": {none},
            "frequency_hz": {none}, "memory_bytes": {none}, "hypervisor": {none}}},
        "clock": {{"source": "tsc", "hz": 1e9, "read_cost_ns": 10.0, "resolution_ns": 1.0}},
        "experiments": [{{"name": "rr-by-size", "title": "Round trips by size", "finding": "", "command": "tollgate rr",
            "tables": [{{"id": "round-trips", "title": "Round trip, median",
                "columns": [{{"name": "4 B", "unit": "ns"}}, {{"name": "200 B", "unit": "ns"}}],
                "rows": [{{"label": "kernel-loopback, 2 cores, polling", "depth": 0, "kind": "plain",
                    "cells": [{}, {}]}}]}}],
            "figures": [], "trust": []}}],
        "warnings": []}}"#,
        cell(8_000.0),
        cell(9_000.0),
    );
    std::fs::write(folder.join(name), text).unwrap();
    name.to_owned()
}

#[test]
fn a_regression_is_told_by_the_exit_code_when_asked_for() {
    let folder = folder();
    let before = run_file(folder.path(), "before.json", 1.0);
    let after = run_file(folder.path(), "after.json", 2.0);
    let code = |arguments: &[&str]| {
        let output = outcome(folder.path(), arguments);
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        (output.status.code(), text(&output.stdout))
    };
    let (status, told) = code(&["compare", &before, &after, "--fail-on", "5%"]);
    assert_eq!(status, Some(1), "{told}");
    assert!(
        told.starts_with("1 of 1 path and 2 of 2 rows are worse by more than 5 %"),
        "{told}"
    );
    assert_eq!(code(&["compare", &before, &after]).0, Some(0));
    assert_eq!(
        code(&["compare", &after, &before, "--fail-on=5%"]).0,
        Some(0)
    );
    assert_eq!(
        code(&["compare", &before, &before, "--fail-on=5%"]).0,
        Some(0)
    );
    // Several runs of one thing, by commas.
    let again = |name, factor| run_file(folder.path(), name, factor);
    let (before2, after2) = (again("before2.json", 1.01), again("after2.json", 2.02));
    let sides = [format!("{before},{before2}"), format!("{after},{after2}")];
    let (status, told) = code(&["compare", &sides[0], &sides[1], "--fail-on=5%"]);
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("as 2 and 2 runs show"), "{told}");
    let (_, json) = code(&["compare", &before, &after, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "tollgate.comparison");
    assert_eq!(json["rows"][0]["verdict"]["type"], "regression");
}

#[test]
fn history_is_told_of_any_run_and_predictions_need_three_sizes() {
    let folder = folder();
    let run = run_file(folder.path(), "run.json", 1.0);
    let output = outcome(
        folder.path(),
        &["papers", "--from", &run, "--out", "h.html"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Then and now"));
    assert_eq!(files(folder.path()), ["h.html", "run.json"]);
    let output = outcome(folder.path(), &["predict", "--from", &run]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("at least three sizes") && error.lines().count() == 1,
        "{error}"
    );
    let text_of = std::fs::read_to_string(folder.path().join(&run)).unwrap();
    let third = |column: &str, cell: &str| {
        let columns = r#"{"name": "4 B", "unit": "ns"}"#;
        text_of
            .replace(columns, &format!("{column}, {columns}"))
            .replace("\"cells\": [", &format!("\"cells\": [{cell}, "))
    };
    let cell = r#"{"type": "value", "value": 7900.0}"#;
    let more = third(r#"{"name": "1 B", "unit": "ns"}"#, cell);
    std::fs::write(folder.path().join("more.json"), more).unwrap();
    let output = outcome(folder.path(), &["predict", "--from", "more.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = outcome(
        folder.path(),
        &["predict", "--from", "more.json", "--validate"],
    );
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("another machine") && error.lines().count() == 1,
        "{error}"
    );
    for command in ["papers", "predict"] {
        let output = outcome(folder.path(), &[command, "--from", "gone.json"]);
        assert_eq!(output.status.code(), Some(2), "{command}");
    }
}

#[test]
fn what_is_no_run_is_told_in_a_line_and_ends_with_2() {
    let folder = folder();
    let good = run_file(folder.path(), "good.json", 1.0);
    let whole = std::fs::read_to_string(folder.path().join(&good)).unwrap();
    for (name, contents, told) in [
        ("cut.json", whole[..whole.len() / 2].to_owned(), "EOF"),
        ("other.json", "{\"a\": 1}".to_owned(), "not a run"),
        (
            "newer.json",
            whole.replace("\"version\": 1,", "\"version\": 99,"),
            "newer tollgate",
        ),
        (
            "apart.json",
            whole.replace("kernel-loopback", "elsewhere"),
            "no row is in both runs",
        ),
    ] {
        std::fs::write(folder.path().join(name), contents).unwrap();
        let output = outcome(folder.path(), &["compare", &good, name]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert_eq!(error.lines().count(), 1, "{name}: {error}");
        assert!(error.contains(told), "{name}: {error}");
    }
    let output = outcome(folder.path(), &["compare", &good, "gone.json"]);
    assert_eq!(output.status.code(), Some(2));
    // A run is no repetition of itself, whatever its file is called.
    std::fs::write(folder.path().join("copy.json"), &whole).unwrap();
    let output = outcome(
        folder.path(),
        &["compare", &good, &format!("{good},copy.json")],
    );
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("is no repetition of itself"), "{told}");
    // Nor is there a regression to be told where nothing can be judged.
    let bare = whole.replace("\"ci\": {", "\"left_out\": {");
    std::fs::write(folder.path().join("bare.json"), bare).unwrap();
    for (arguments, status) in [(&["--fail-on=5%"][..], 2), (&[], 0)] {
        let arguments = [&["compare", "bare.json", "bare.json"], arguments].concat();
        let output = outcome(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn an_unknown_path_is_refused_with_the_known_ones() {
    assert_eq!(
        refused(&["rr", "--path", "kernel-lopback"]),
        "error: --path: unknown path `kernel-lopback`; known: kernel-loopback, kernel-veth, kernel-remote, stack-memory, stack-shm, \
         stack-tap, stack-packet, stack-xdp, peer-smoltcp, bare-shm; did you mean kernel-loopback?\n"
    );
}

#[test]
fn an_unknown_size_is_refused() {
    assert_eq!(
        refused(&["report", "--size", "4,many"]),
        "error: --size: unknown size `many`; a size is a number of bytes from 1 to 1048576, like 200, 4k or 1M, or a list: kay (the \
         40 of Kay and Pasquale 1996), lehmann (the 256 of Lehmann and Benz 2002), wolman (the 8 of Wolman et al. 1994)\n"
    );
    assert!(refused(&["stream", "--size", "0"]).contains("from 1 to 1048576"));
}

#[test]
fn sizes_have_prefixes() {
    let folder = folder();
    let arguments = ["rr", "--json=-", "--quiet"].into_iter().chain(SMALL);
    let arguments: Vec<&str> = arguments
        .map(|one| {
            if one == "--size=4,200" {
                "--size=4,4k"
            } else {
                one
            }
        })
        .collect();
    let output = outcome(folder.path(), &arguments);
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    let columns = &run.experiments[0].tables[0].columns;
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["4 B", "4,096 B"]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn completions_are_scripts_of_their_shell() {
    let folder = folder();
    for (shell, sign) in [
        ("bash", "complete -F _tollgate"),
        ("zsh", "#compdef tollgate"),
        ("fish", "complete -c tollgate"),
    ] {
        let output = outcome(folder.path(), &["completions", shell]);
        let script = text(&output.stdout);
        assert!(script.contains(sign), "{shell}: {script}");
        assert!(script.contains("line-rate"), "{shell}: {script}");
        assert!(!script.contains("__scenario"), "{shell}: {script}");
    }
    let output = outcome(folder.path(), &["completions", "bash"]);
    std::fs::write(folder.path().join("script"), output.stdout).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-n", "script"]).current_dir(folder.path());
    assert!(bash.status().unwrap().success());
}

#[test]
fn manual_has_a_page_for_each_command() {
    let folder = folder();
    let output = outcome(folder.path(), &["man", "."]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let pages = files(folder.path());
    for page in [
        "tollgate.1",
        "tollgate-report.1",
        "tollgate-experiment-run.1",
    ] {
        assert!(pages.contains(&page.to_owned()), "{pages:?}");
    }
    assert!(
        !pages.iter().any(|page| page.contains("scenario")),
        "{pages:?}"
    );
    let page = std::fs::read_to_string(folder.path().join("tollgate-report.1")).unwrap();
    assert!(page.contains(".TH tollgate-report 1"), "{page}");
    assert!(page.contains("\\-\\-quick"), "{page}");

    let output = outcome(folder.path(), &["man", "gone"]);
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("gone/tollgate.1"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn version_has_the_commit() {
    let folder = folder();
    let output = outcome(folder.path(), &["--version"]);
    let git = Command::new("git")
        .args(["rev-parse", "--short=10", "HEAD"])
        .output();
    let version = env!("CARGO_PKG_VERSION");
    let expected = match git {
        Ok(git) if git.status.success() => {
            format!("tollgate {version} ({})\n", text(&git.stdout).trim())
        }
        _ => format!("tollgate {version}\n"),
    };
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn an_unknown_experiment_is_refused_with_the_nearest() {
    let error = refused(&["experiment", "run", "rr-by-sise"]);
    assert!(error.contains("unknown experiment `rr-by-sise`"), "{error}");
    assert!(error.contains("did you mean rr-by-size?"), "{error}");
}

#[test]
fn unknown_ways_are_refused() {
    assert!(refused(&["rr", "--cores", "3"]).contains("known: 1 (both ends on one core), 2"));
    assert!(refused(&["rr", "--wait", "blok"]).contains("did you mean block?"));
    assert!(refused(&["report", "--for", "soon"]).contains("10s"));
}

#[test]
fn an_unknown_flag_and_no_command_are_bad_usage() {
    let folder = folder();
    for arguments in [&["rr", "--sise", "4"][..], &[], &["experiment", "run"]] {
        let output = outcome(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
    let tip = text(&outcome(folder.path(), &["rr", "--sise", "4"]).stderr);
    assert!(tip.contains("--size"), "{tip}");
}

#[test]
fn the_same_file_twice_is_bad_usage() {
    let error = refused(&small(&["report", "--out", "x", "--json", "x"]));
    assert!(error.contains("give them different files"), "{error}");
}

#[test]
fn an_experiment_that_has_nothing_to_measure_is_bad_usage() {
    assert_eq!(
        refused(&[
            "experiment",
            "run",
            "wolman-receive",
            "--path",
            "peer-smoltcp"
        ]),
        "error: wolman-receive has nothing to measure as asked (--path peer-smoltcp); leave --path, --cores and --wait out\n"
    );
}

#[test]
fn an_unwritable_file_is_told_before_anything_is_measured() {
    let folder = folder();
    for flag in ["--out", "--json"] {
        let output = outcome(folder.path(), &["report", flag, "missing/file"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(
            error.starts_with("error: cannot write \"missing/file\"")
                && error.contains("make the folder first"),
            "{error}"
        );
        assert!(output.stdout.is_empty());
    }
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn what_no_path_can_do_fails_with_the_reason() {
    let folder = folder();
    let output = outcome(
        folder.path(),
        &["rr", "--path", "peer-smoltcp", "--cores", "2"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "error: no path runs rr as asked (--path peer-smoltcp --cores 2); `tollgate doctor` lists what each path can do\n"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_report_as_json_is_a_run_and_nothing_else_is_printed() {
    let folder = folder();
    let output = outcome(
        folder.path(),
        &small(&["report", "--quick", "--quiet", "--json", "-"]),
    );
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(error.is_empty(), "{error}");
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    run.check().unwrap();
    assert!(run.quick);
    assert!(
        run.command
            .starts_with("tollgate report --quick --quiet --json - ")
    );
    let rr = &run.experiments[0];
    assert_eq!(rr.name, "rr-by-size");
    let measured = rr.tables[0].rows[0].cells[0].measured().unwrap();
    assert_eq!(measured.n, Some(16));
    assert!(measured.value > 0.0);
    // The page is written all the same, and is whole.
    assert_eq!(files(folder.path()), ["tollgate-report.html"]);
    let page = std::fs::read_to_string(folder.path().join("tollgate-report.html")).unwrap();
    assert!(page.trim_end().ends_with("</html>"));
}

#[test]
fn tables_are_printed_and_files_written_where_they_were_named() {
    let folder = folder();
    let output = outcome(
        folder.path(),
        &small(&["rr", "--json", "run.json", "--out", "run.html"]),
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.starts_with("Tollgate "), "{printed}");
    assert!(
        printed.contains("peer-smoltcp, 1 core, polling"),
        "{printed}"
    );
    assert!(!printed.contains('\x1b'));
    assert_eq!(text(&output.stderr), "wrote run.json\nwrote run.html\n");
    assert_eq!(files(folder.path()), ["run.html", "run.json"]);
}

#[test]
fn colours_are_given_when_asked_for() {
    let folder = folder();
    let output = outcome(folder.path(), &small(&["crr", "--color", "always"]));
    assert!(text(&output.stdout).contains("\x1b[1m"));
}

#[test]
fn gates_are_for_the_kernels_own_paths() {
    let folder = folder();
    for (arguments, reason) in [
        (
            ["crr", "--gates", "--path=stack-memory"].as_slice(),
            "name kernel-loopback",
        ),
        (&["rr", "--gates", "--to=127.0.0.1"], "cannot be used with"),
    ] {
        let output = outcome(folder.path(), arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn a_path_of_two_processes_is_measured() {
    let folder = folder();
    let output = outcome(
        folder.path(),
        &[
            "rr",
            "--path=bare-shm,peer-smoltcp",
            "--size=4",
            "--iterations=16",
            "--repetitions=1",
            "--json",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    match &run.experiments[0].tables[0].rows[0].cells[0] {
        Cell::Value(measured) => assert_eq!(measured.n, Some(16)),
        // A machine with one processor.
        Cell::NotAvailable { reason } => assert!(reason.contains("two cores"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn experiments_are_listed() {
    let folder = folder();
    let output = outcome(folder.path(), &["experiment", "list"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(text(&output.stdout));
    for columns in [60, 80] {
        let mut list = tollgate(folder.path(), &["experiment", "list"]);
        let output = list.env("COLUMNS", columns.to_string()).output().unwrap();
        let text = text(&output.stdout);
        let long: Vec<&str> = text
            .lines()
            .filter(|line| line.chars().count() > columns)
            .collect();
        assert!(!text.is_empty() && long.is_empty(), "{columns}: {long:#?}");
    }
    let json = outcome(folder.path(), &["experiment", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(
        listed
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["name"] == "crr")
    );
}

#[test]
fn a_category_file_is_checked_before_anything_runs() {
    let folder = folder();
    let file = folder.path().join("mine.toml");
    let mine = "name = \"mine\"\ntitle = \"Mine\"\n\n[[category]]\nname = \"Net\"\nabout = \"all\"\n\n[[rule]]\n";
    std::fs::write(
        &file,
        format!("{mine}category = \"Nett\"\nfunctions = [\"tcp_*\"]\n"),
    )
    .unwrap();
    let output = outcome(
        folder.path(),
        &[
            "experiment",
            "run",
            "kay-detail",
            "--categories",
            "mine.toml",
        ],
    );
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains(
            "mine.toml, line 9, field `category`: no category is called `Nett`; known: Net, caller"
        ),
        "{told}"
    );
    let gone = outcome(
        folder.path(),
        &[
            "experiment",
            "run",
            "kay-detail",
            "--categories",
            "none.toml",
        ],
    );
    assert_eq!(gone.status.code(), Some(2));

    // With a file that can be read its categories stand in the table, or the reason why nothing could be sampled.
    std::fs::write(
        &file,
        format!("{mine}category = \"Net\"\nfunctions = [\"*\"]\n"),
    )
    .unwrap();
    let output = outcome(
        folder.path(),
        &[
            "experiment",
            "run",
            "kay-breakdown",
            "--categories=mine.toml",
            "--path=kernel-loopback",
            "--size=1,8192",
            "--for=1s",
            "--json",
        ],
    );
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    let shown = &run.experiments[0];
    let table = &shown.tables[0];
    let mut cells = table.rows.iter().flat_map(|row| &row.cells);
    let code = i32::from(!cells.any(|cell| cell.measured().is_some()));
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    let names = table.columns.iter().map(|column| &column.name);
    let rows = table.rows.iter().map(|row| &row.label);
    assert!(names.chain(rows).any(|name| name == "Net"), "{table:?}");
    assert!(shown.command.contains("--categories mine.toml"));
}

#[test]
fn the_doctor_looks_at_everything() {
    let folder = folder();
    let output = outcome(folder.path(), &["doctor"]);
    assert_eq!(output.status.code(), Some(0));
    let printed = text(&output.stdout);
    for word in [
        "clock",
        "cores",
        "valgrind",
        "kernel-loopback",
        "peer-smoltcp",
    ] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    let json = outcome(folder.path(), &["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(found["schema"], "tollgate.doctor");
    assert!(found["paths"].as_array().unwrap().len() > 4);
    let links = found["links"].as_array().unwrap().iter();
    let links: Vec<_> = links
        .map(|link| (link["name"].as_str().unwrap(), link["without_root"] == true))
        .collect();
    let each = ["tap", "packet", "xdp"].map(|name| [(name, false), (name, true)]);
    assert_eq!(links, each.concat());
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = folder();
    let mut child = tollgate(folder.path(), &["doctor", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(error.is_empty(), "{error}");
}

/// Starts a long run, waits until slices are being measured, and sends what Ctrl-C sends.
fn interrupted(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut child = tollgate(folder, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let measuring = |line: &str| line.contains(": 1 of ");
    let mut told = String::new();
    for line in lines.by_ref() {
        let line = line.unwrap();
        let begun = measuring(&line);
        told.push_str(&line);
        told.push('\n');
        if begun {
            break;
        }
    }
    // The line comes before the first slice; the second size is told after all slices of the first.
    let pid = rustix::process::Pid::from_child(&child);
    if let Some(line) = lines.next() {
        told.push_str(&line.unwrap());
        told.push('\n');
    }
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    for line in lines {
        told.push_str(&line.unwrap());
        told.push('\n');
    }
    let mut printed = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    (child.wait().unwrap().code(), printed, told)
}

#[test]
fn ctrl_c_ends_a_self_test_with_its_exit_code() {
    let folder = folder();
    let mut child = tollgate(
        folder.path(),
        &["doctor", "--self-test", "--quick", "--verbose"],
    )
    .stdout(Stdio::null())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first one tells that it has begun.
    let mut told = lines.next().unwrap().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    lines.for_each(|line| told.push_str(&line.unwrap()));
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    assert!(
        told.contains("stopped; what was tried until then is shown"),
        "{told}"
    );
}

#[test]
fn output_that_nobody_takes_is_told_without_advice_on_other_commands() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let folder = folder();
    let mut command = tollgate(folder.path(), &["experiment", "list"]);
    let output = command.stdout(full.unwrap()).stderr(Stdio::piped());
    let output = output.spawn().unwrap().wait_with_output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("standard output") && !error.contains("--json"),
        "{error}"
    );
}

#[test]
fn ctrl_c_shows_what_was_measured_so_far() {
    let folder = folder();
    let (code, printed, told) = interrupted(
        folder.path(),
        &[
            "rr",
            "-v",
            "--path=peer-smoltcp",
            "--size=4,8000",
            "--iterations=2000",
            "--repetitions=1000",
            "--json",
        ],
    );
    assert_eq!(code, Some(130), "{told}");
    let run: Run = serde_json::from_str(&printed).unwrap();
    assert!(
        run.warnings
            .iter()
            .any(|warning| warning.contains("stopped by the user"))
    );
    let first = run.experiments[0].tables[0].rows[0].cells[0].measured();
    assert!(first.is_some_and(|measured| measured.n.is_some_and(|n| n >= 250)));
}

#[test]
fn ablate_shows_every_mechanism_in_time_and_in_instructions() {
    let folder = folder();
    let output = outcome(
        folder.path(),
        &[
            "ablate",
            // Counting in a debug build takes its time.
            "--for=20min",
            "--size=4",
            "--iterations=16",
            "--repetitions=2",
            "--json",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    let table = |id: &str| {
        let mut tables = run.experiments[0].tables.iter();
        tables.find(|table| table.id == id).unwrap()
    };
    let (effects, measured) = (table("effects"), table("measured"));
    let default = &measured.rows[0];
    let off = &measured.rows[3];
    assert_eq!(
        [&default.label, &effects.rows[1].label, &off.label],
        ["default", "prediction=off", "prediction=off"]
    );
    for row in &measured.rows {
        assert!(row.cells[0].measured().is_some(), "{}", row.label);
    }
    let here = Command::new("valgrind").arg("--version").output().is_ok();
    match (&default.cells[2], &off.cells[2]) {
        (Cell::Value(default), Cell::Value(off)) => assert!(off.value > default.value),
        (Cell::NotAvailable { reason }, _) => assert!(!here && reason.contains("valgrind")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ablate_under_a_stream_has_the_time_of_a_byte_and_instructions_of_a_write() {
    let folder = folder();
    let output = outcome(
        folder.path(),
        &[
            "ablate",
            "--workload=stream",
            "--for=20min",
            "--size=4096",
            "--iterations=16",
            "--repetitions=2",
            "--json",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    let shown = &run.experiments[0];
    assert_eq!(shown.name, "stream-ablation");
    let measured = shown.tables.iter().find(|table| table.id == "measured");
    let measured = measured.unwrap();
    let [byte, _, count] = &measured.columns[..] else {
        panic!("three columns");
    };
    assert!(byte.name.ends_with("each byte"), "{}", byte.name);
    assert!(count.name.ends_with("instructions"), "{}", count.name);
    for row in &measured.rows {
        assert!(row.cells[0].measured().is_some(), "{}", row.label);
    }
    let here = Command::new("valgrind").arg("--version").output().is_ok();
    match &measured.rows[0].cells[2] {
        // Two full segments and a part, there and into the reader's buffer.
        Cell::Value(count) => assert!(count.value > 500.0),
        Cell::NotAvailable { reason } => assert!(!here && reason.contains("valgrind")),
        other => panic!("{other:?}"),
    }
    let error = refused(&["ablate", "--workload=crr"]);
    assert!(error.contains("unknown workload `crr`"), "{error}");
}

#[test]
fn ablate_takes_paths_of_the_stack_only() {
    let error = refused(&["ablate", "--path", "kernel-loopback"]);
    assert!(error.contains("leave --path"), "{error}");
}

#[test]
fn ablate_refuses_and_hides_options_without_effect() {
    let help = text(&outcome(folder().path(), &["ablate", "--help"]).stdout);
    for options in [&["--gentle"][..], &["--line-rate", "10G"]] {
        let error = refused(&[&["ablate"], options].concat());
        assert!(
            error.contains(&format!("leave {} out", options[0])),
            "{error}"
        );
        assert!(!help.contains(options[0]), "{help}");
    }
}

#[test]
fn prediction_is_in_json_always_and_printed_when_all_is() {
    let folder = folder();
    let arguments = [
        "rr",
        "--path=stack-memory,stack-shm",
        "--wait=poll",
        "--size=200",
        "--iterations=64",
        "--repetitions=2",
    ];
    let with = |more: &[&str]| {
        let output = outcome(folder.path(), &[&arguments[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let run: Run = serde_json::from_str(&with(&["--json"])).unwrap();
    let mut tables = run.experiments[0].tables.iter();
    let table = tables.find(|table| table.id == "prediction").unwrap();
    let ends = table
        .rows
        .iter()
        .filter(|row| row.label == "server: predicted");
    let shares: Vec<f64> = ends.filter_map(|row| row.cells[0].number()).collect();
    // Where there is one processor alone, stack-shm has no row.
    assert!(!shares.is_empty() && shares.len() <= 2, "{table:?}");
    assert!(shares.iter().all(|share| *share > 90.0), "{shares:?}");
    assert!(with(&["-v"]).contains("client: predicted"));
    assert!(!with(&["-q"]).contains("client: predicted"));
}
