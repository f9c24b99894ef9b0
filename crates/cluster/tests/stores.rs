//! Stores of runs: in a folder, and in a bucket on a real S3 server that checks signatures.

mod servers;

use std::path::Path;
use std::process::Command;

use servers::Server;
use tollgate_experiment::run::Run;
use tollgate_table::answer::Answer;
use tollgate_table::place::Place;
use tollgate_table::runs::{Saved, Store};

const KEY: &str = "fleet";
const SECRET: &str = "a secret of the test";

/// A run of two numbers that began at this second of a minute.
fn run(second: u32) -> (Run, String) {
    let reading = serde_json::json!({"type": "value", "value": "6.1.0-test"});
    let nothing = serde_json::json!({"type": "not_available", "reason": "not read"});
    let run = serde_json::json!({
        "schema": "tollgate.run", "version": 1,
        "tool": {"name": "tollgate", "version": "0.1.0"},
        "started": format!("2026-11-22T05:46:{second:02}Z"),
        "elapsed_s": 1.0, "command": "tollgate rr", "quick": false,
        "host": {
            "kernel": reading, "cpu_model": nothing, "cores": nothing, "mitigations": nothing,
            "governor": nothing, "frequency_hz": nothing, "memory_bytes": nothing, "hypervisor": nothing,
            "sysctls": {"type": "value", "value": [{"name": "net.ipv4.tcp_sack", "state": "1"}]},
        },
        "clock": {"source": "tsc", "hz": 1e9, "read_cost_ns": 20.0, "resolution_ns": 1.0},
        "experiments": [{
            "name": "rr-by-size", "title": "Round trips", "finding": "None.", "command": "tollgate rr",
            "tables": [{
                "id": "round-trips", "title": "Round trip, median",
                "columns": [{"name": "4 B", "unit": "ns"}, {"name": "1,400 B", "unit": "ns"}],
                "rows": [{
                    "label": "kernel-loopback, 2 cores, blocking", "depth": 0, "kind": "plain",
                    "cells": [
                        {"type": "value", "value": 9000.5, "ci": {"low": 8990.0, "high": 9010.0}, "n": 100},
                        {"type": "value", "value": f64::from(9_100 + second)},
                    ],
                }],
            }],
            "figures": [], "trust": [],
        }],
        "warnings": [],
    });
    let run: Run = serde_json::from_value(run).unwrap();
    let json = tollgate_report::json::render(&run).unwrap();
    (run, json)
}

fn asked(store: &Store, sql: &str) -> Vec<Vec<serde_json::Value>> {
    let (schema, batches) = store.query(sql).unwrap();
    Answer::of(&schema, &batches).unwrap().rows
}

/// The folder of the server, in the process that has its variables.
const FOLDER: &str = "TOLLGATE_TEST_S3_FOLDER";

/// Starts a server, and this program once more for one test alone: keys and endpoint are variables of a whole process.
fn with_server(test: &str, secret: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bucket")).unwrap();
    let server = Server::start(&["s3", folder.path().to_str().unwrap(), KEY, SECRET]);
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(FOLDER, folder.path())
        .env(
            "AWS_ENDPOINT_URL",
            format!("http://127.0.0.1:{}", server.port()),
        )
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", KEY)
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("1 passed"), "{told}");
}

#[test]
fn a_wrong_key_is_told() {
    if std::env::var_os(FOLDER).is_none() {
        return with_server("a_wrong_key_is_told", "another");
    }
    let Ok(place) = "s3://bucket/fleet/net".parse::<Place>();
    let error = Store::open(&place).unwrap_err().to_string();
    assert!(
        error.starts_with("s3://bucket/fleet/net: cannot read it: "),
        "{error}"
    );
    assert!(error.contains("AWS_SECRET_ACCESS_KEY"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_fleet_saves_into_a_bucket() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return with_server("a_fleet_saves_into_a_bucket", SECRET);
    };
    let bucket = Path::new(&folder).join("bucket");
    let Ok(place) = "s3://bucket/fleet/net".parse::<Place>();

    let error = Store::open(&place).unwrap_err().to_string();
    assert!(
        error.contains("s3://bucket/fleet/net: no runs are there"),
        "{error}"
    );
    let store = Store::prepare(&place).unwrap();
    let (first, first_json) = run(1);
    let Saved::New(id) = store.save(&first, &first_json, Some("db7")).unwrap() else {
        panic!("it is new");
    };
    assert!(id.starts_with("20261122T054601Z-"), "{id}");
    assert_eq!(
        store.save(&first, &first_json, None).unwrap(),
        Saved::Known(id.clone())
    );

    // Another host opens it anew.
    let other = Store::prepare(&place).unwrap();
    let (second, second_json) = run(2);
    assert!(matches!(
        other.save(&second, &second_json, None).unwrap(),
        Saved::New(_)
    ));
    let store = Store::open(&place).unwrap();
    let numbers = asked(
        &store,
        "SELECT host, kernel, path, size, unit, value, low, n FROM numbers ORDER BY started, size",
    );
    let expected = serde_json::json!([
        [
            "db7",
            "6.1.0-test",
            "kernel-loopback",
            4,
            "ns",
            9000.5,
            8990.0,
            100
        ],
        [
            "db7",
            "6.1.0-test",
            "kernel-loopback",
            1400,
            "ns",
            9101.0,
            null,
            null
        ],
        [
            null,
            "6.1.0-test",
            "kernel-loopback",
            4,
            "ns",
            9000.5,
            8990.0,
            100
        ],
        [
            null,
            "6.1.0-test",
            "kernel-loopback",
            1400,
            "ns",
            9102.0,
            null,
            null
        ],
    ]);
    assert_eq!(serde_json::to_value(numbers).unwrap(), expected);
    assert_eq!(
        asked(
            &store,
            "SELECT count(*) FROM settings WHERE name = 'net.ipv4.tcp_sack'"
        )[0][0],
        2
    );
    assert_eq!(store.json(&id[..17]).unwrap(), first_json);
    assert_eq!(store.json("last").unwrap(), second_json);

    // Of a save that was killed before its end nobody sees anything, and it can be made good.
    let row = bucket.join("fleet/net").join(&id).join("runs.parquet");
    std::fs::remove_file(&row).unwrap();
    assert_eq!(store.complete().unwrap().len(), 1);
    assert_eq!(asked(&store, "SELECT count(*) FROM numbers")[0][0], 2);
    assert_eq!(
        store.save(&first, &first_json, Some("db7")).unwrap(),
        Saved::New(id)
    );
    assert_eq!(asked(&store, "SELECT count(*) FROM numbers")[0][0], 4);

    // What else is in the bucket is no store.
    let Ok(above) = "s3://bucket".parse::<Place>();
    let error = Store::prepare(&above).unwrap_err().to_string();
    assert!(error.contains("holds something else"), "{error}");
}

#[test]
fn a_store_in_a_folder_shows_whole_runs_only() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::Folder(folder.path().join("runs"));
    let error = Store::open(&place).unwrap_err().to_string();
    assert!(error.contains("no runs are there"), "{error}");
    let store = Store::prepare(&place).unwrap();
    assert!(asked(&store, "SELECT * FROM numbers").is_empty());
    let (first, json) = run(1);
    let Saved::New(id) = store.save(&first, &json, Some("db7")).unwrap() else {
        panic!("it is new");
    };
    assert_eq!(
        store.save(&first, &json, None).unwrap(),
        Saved::Known(id.clone())
    );

    // What a save leaves that is killed before its end, nobody sees, and the next one clears away.
    let left = folder.path().join("runs/.saving-left");
    std::fs::create_dir(&left).unwrap();
    for file in ["numbers.parquet", "settings.parquet", "runs.parquet"] {
        std::fs::copy(
            folder.path().join("runs").join(&id).join(file),
            left.join(file),
        )
        .unwrap();
    }
    let count = "SELECT count(*) FROM numbers";
    assert_eq!(store.complete().unwrap(), [id]);
    assert_eq!(asked(&store, count)[0][0], 2);
    let (second, json) = run(2);
    assert!(matches!(
        store.save(&second, &json, None).unwrap(),
        Saved::New(_)
    ));
    assert!(!left.exists());
    assert_eq!(asked(&store, count)[0][0], 4);
    assert_eq!(store.json("last").unwrap(), json);
    let several = store.json("20261122T0546").unwrap_err().to_string();
    assert!(several.contains("several runs begin so"), "{several}");

    // Whoever may read the folder may read the runs in it.
    let mode = |path: &Path| std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap());
    let last = folder
        .path()
        .join("runs")
        .join(&store.complete().unwrap()[1]);
    assert_eq!(mode(&last), mode(&folder.path().join("runs")));
}
