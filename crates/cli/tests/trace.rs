//! `tollgate trace` from outside, on the rebuilt traces and on what is no capture.
#![cfg(feature = "sql")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tollgate_experiment::published;

fn trace(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .arg("trace")
        .args(arguments)
        .current_dir(folder)
        .env("COLUMNS", "120")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let output = trace(folder.path(), arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fact(id: &str) -> f64 {
    published::fact(&format!("kay-pasquale-1996/{id}"))
        .unwrap()
        .value
}

fn group<'a>(sizes: &'a Value, reach: &str, kind: &str) -> &'a Value {
    let groups = sizes["groups"].as_array().unwrap();
    groups
        .iter()
        .find(|group| group["reach"] == reach && group["kind"] == kind)
        .unwrap()
}

/// What the project keeps of the paper, and what the rebuilt traces are made from, are the same numbers.
#[test]
fn the_rebuilt_traces_are_as_published() {
    let close = |found: &Value, published: f64, within: f64| {
        let found = found.as_f64().unwrap();
        assert!(
            (found - published).abs() <= within,
            "{found}, published {published}"
        );
    };
    let lan = json(&["sizes", "kay-lan", "--json"]);
    let (udp, tcp) = (
        group(&lan, "lan", "udp-datagram"),
        group(&lan, "lan", "tcp-write"),
    );
    let messages = udp["messages"].as_f64().unwrap() + tcp["messages"].as_f64().unwrap();
    assert_eq!(messages, fact("lan-messages"));
    close(&udp["share"], fact("lan-udp-share") / 100.0, 1e-4);
    close(&udp["p50"], fact("lan-udp-median"), 0.0);
    close(&udp["below_200"], fact("lan-udp-small-share") / 100.0, 1e-4);
    // Some of what lies between 200 bytes and 8 KB lies near 8 KB, too.
    close(&udp["near_8k"], fact("lan-udp-large-share") / 100.0, 0.01);
    close(&tcp["p50"], fact("lan-tcp-median"), 0.0);
    assert!(tcp["below_200"].as_f64().unwrap() > fact("lan-tcp-small-share") / 100.0);
    assert!(!udp["modes"].is_null());

    let wan = json(&["sizes", "kay-wan", "--json"]);
    close(
        &group(&wan, "wan", "tcp-write")["share"],
        fact("wan-tcp-share") / 100.0,
        1e-4,
    );
    let small: f64 = ["tcp-write", "udp-datagram"]
        .iter()
        .map(|kind| group(&wan, "wan", kind))
        .map(|group| group["share"].as_f64().unwrap() * group["at_most_500"].as_f64().unwrap())
        .sum();
    assert!(
        (small - fact("wan-small-share") / 100.0).abs() < 5e-4,
        "{small}"
    );
}

#[test]
fn a_rebuilt_trace_is_marked_as_such_wherever_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["info", "sizes", "flows", "cache"] {
        let output = trace(folder.path(), &[command, "kay-lan"]);
        let shown = text(&output.stdout).replace('\n', " ");
        assert!(
            shown.contains("rebuilt from what Kay and Pasquale 1996"),
            "{command}: {shown}"
        );
    }
}

#[test]
fn sql_is_answered_as_text_and_as_json() {
    let query = "SELECT protocol, count(*) AS n FROM messages GROUP BY protocol ORDER BY protocol";
    let folder = tempfile::tempdir().unwrap();
    let output = trace(folder.path(), &["sql", "kay-lan", query]);
    assert_eq!(
        text(&output.stdout),
        "protocol       n\n       6   13972\n      17  125748\n"
    );
    let answer = json(&["sql", "kay-lan", query, "--json"]);
    assert_eq!(answer["rows"][1], serde_json::json!([17, 125_748]));
    let output = trace(folder.path(), &["sql", "kay-lan", "SELECT"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: the query failed: "));
}

#[test]
fn what_is_no_capture_and_no_trace_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letter"), "dear reader").unwrap();
    for (arguments, told) in [
        (
            &["import", "letter"][..],
            "error: letter: is neither pcap nor pcapng",
        ),
        (&["import", "nothing"], "error: nothing: cannot open"),
        (&["sizes", "nowhere"], "error: nowhere: no trace is there"),
        (
            &["sizes", "kay-lan", "--lan", "ten"],
            "error: `ten` is no prefix",
        ),
    ] {
        let output = trace(folder.path(), arguments);
        let error = text(&output.stderr);
        assert!(!output.status.success());
        assert!(error.starts_with(told), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
