//! Stores of runs and traces: in a folder, and in a bucket on a real S3 server that checks signatures.

#[path = "../../trace/src/craft.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the tests of the other crate use more of it"
)]
mod craft;
mod servers;

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use servers::Server;
use tollgate_run::Run;
use tollgate_table::answer::Answer;
use tollgate_table::import::{self, Options, Outcome};
use tollgate_table::location::Location;
use tollgate_table::runs::{Saved, Store};
use tollgate_table::session::{Origin, Session};
use tollgate_table::store::{Source, Trace, Writable};
use tollgate_table::{Error, flows, sizes, tcb, traffic};
use tollgate_trace::traffic::Messages;
use tollgate_wire::ipv4::{Header, protocol};
use tollgate_wire::tcp::Flags;

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

/// This program once more, for one test alone.
fn alone(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]);
    command
}

/// Starts a server, and this program once more: keys and endpoint are variables of a whole process.
fn with_server(test: &str, secret: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bucket")).unwrap();
    let server = Server::start(&["s3", folder.path().to_str().unwrap(), KEY, SECRET]);
    let output = alone(test)
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
    let Ok(location) = "s3://bucket/fleet/net".parse::<Location>();
    let error = Store::open(&location).unwrap_err().to_string();
    assert!(
        error.starts_with("s3://bucket/fleet/net: cannot read it: "),
        "{error}"
    );
    assert!(error.contains("AWS_SECRET_ACCESS_KEY"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_missing_bucket_is_told() {
    if std::env::var_os(FOLDER).is_none() {
        return with_server("a_missing_bucket_is_told", SECRET);
    }
    let endpoint = std::env::var("AWS_ENDPOINT_URL").unwrap();
    let Ok(location) = "s3://elsewhere/lan".parse::<Location>();
    let errors = [
        Trace::open(&location).unwrap_err(),
        Writable::open(&location).map(drop).unwrap_err(),
        Store::open(&location).map(drop).unwrap_err(),
        Store::prepare(&location).map(drop).unwrap_err(),
    ];
    for error in errors {
        let line = error.to_string();
        let told = format!("s3://elsewhere/lan: there is no bucket elsewhere at {endpoint}; ");
        assert!(line.starts_with(&told), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn a_bucket_that_cannot_be_reached_is_told() {
    const TEST: &str = "a_bucket_that_cannot_be_reached_is_told";
    if std::env::var_os(FOLDER).is_none() {
        // A port on which nobody listened just now.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let output = alone(TEST)
            .env(FOLDER, "none")
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let Ok(location) = "s3://bucket/lan".parse::<Location>();
    let line = Trace::open(&location).unwrap_err().to_string();
    assert!(
        line.ends_with("see to AWS_ENDPOINT_URL and the network"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn a_fleet_saves_into_a_bucket() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return with_server("a_fleet_saves_into_a_bucket", SECRET);
    };
    let bucket = Path::new(&folder).join("bucket");
    let Ok(location) = "s3://bucket/fleet/net".parse::<Location>();

    let error = Store::open(&location).unwrap_err().to_string();
    assert!(
        error.contains("s3://bucket/fleet/net: no runs are there"),
        "{error}"
    );
    let store = Store::prepare(&location).unwrap();
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
    let other = Store::prepare(&location).unwrap();
    let (second, second_json) = run(2);
    assert!(matches!(
        other.save(&second, &second_json, None).unwrap(),
        Saved::New(_)
    ));
    let store = Store::open(&location).unwrap();
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
    let Ok(above) = "s3://bucket".parse::<Location>();
    let error = Store::prepare(&above).unwrap_err().to_string();
    assert!(error.contains("holds something else"), "{error}");
}

#[test]
fn a_store_in_a_folder_shows_whole_runs_only() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().join("runs"));
    let error = Store::open(&location).unwrap_err().to_string();
    assert!(error.contains("no runs are there"), "{error}");
    let store = Store::prepare(&location).unwrap();
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

/// A connection with a request and a response of two segments, whose first sequence number is `isn`.
fn connection(isn: u32) -> Vec<u8> {
    let (ack, push) = (Flags::ACK, Flags::ACK | Flags::PSH);
    craft::pcap(&[
        craft::tcp_frame(true, isn, Flags::SYN, 0),
        craft::tcp_frame(false, isn, Flags::SYN | ack, 0),
        craft::tcp_frame(true, isn + 1, push, 20),
        craft::tcp_frame(false, isn + 1, ack, 1_000),
        craft::tcp_frame(false, isn + 1_001, push, 100),
        craft::tcp_frame(true, isn + 21, Flags::FIN | ack, 0),
    ])
}

fn imported(trace: &mut Writable, bytes: &[u8], name: &str) -> Outcome {
    import::stream(bytes, name, &Options::default(), trace, &mut |_| true).unwrap()
}

fn new(trace: &mut Writable, bytes: &[u8], name: &str) -> Source {
    match imported(trace, bytes, name) {
        Outcome::Imported(source) => *source,
        Outcome::Known(known) => panic!("{name} is known as {known}"),
    }
}

fn session(location: &Location) -> Session {
    Session::open(Origin::Stored(Trace::open(location).unwrap())).unwrap()
}

fn one_row(location: &Location, sql: &str) -> Vec<serde_json::Value> {
    let (schema, batches) = session(location).query(sql).unwrap();
    Answer::of(&schema, &batches).unwrap().rows.remove(0)
}

/// The packets of a trace, and their flows.
const COUNTS: &str = "SELECT count(*), count(DISTINCT flow) FROM packets";

/// All files below a directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths
        .flat_map(|path| {
            if path.is_dir() {
                below(&path)
            } else {
                vec![path]
            }
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_trace_in_a_bucket_is_as_one_in_a_folder() {
    if std::env::var_os(FOLDER).is_none() {
        return with_server("a_trace_in_a_bucket_is_as_one_in_a_folder", SECRET);
    }
    let Ok(bucket) = "s3://bucket/lan/office".parse::<Location>();
    let error = Trace::open(&bucket).unwrap_err().to_string();
    assert!(
        error.starts_with("s3://bucket/lan/office: no trace is there"),
        "{error}"
    );
    let folder = tempfile::tempdir().unwrap();
    let folder = Location::Folder(folder.path().join("office"));
    for location in [&bucket, &folder] {
        let mut trace = Writable::open(location).unwrap();
        new(&mut trace, &connection(0), "one.pcap");
        new(&mut trace, &connection(50_000), "two.pcap");
        // The same again, whatever it is called, and whoever opens the trace.
        let known = imported(&mut trace, &connection(0), "-");
        assert_eq!(known, Outcome::Known("one.pcap".to_owned()));
        drop(trace);
        let mut trace = Writable::open(location).unwrap();
        let known = imported(&mut trace, &connection(50_000), "other.pcap");
        assert_eq!(known, Outcome::Known("two.pcap".to_owned()));
        assert_eq!(one_row(location, COUNTS), [12, 2]);
    }
    let (there, here) = (session(&bucket), session(&folder));
    assert_eq!(
        Trace::open(&bucket).unwrap().sources(),
        Trace::open(&folder).unwrap().sources()
    );
    assert_eq!(
        sizes::of(&there, None).unwrap(),
        sizes::of(&here, None).unwrap()
    );
    assert_eq!(flows::of(&there).unwrap(), flows::of(&here).unwrap());
    assert_eq!(tcb::of(&there, 5).unwrap(), tcb::of(&here, 5).unwrap());
    assert_eq!(
        traffic::of(&there, Messages::Writes).unwrap(),
        traffic::of(&here, Messages::Writes).unwrap()
    );
    let engine = "ballista://127.0.0.1:1".parse().unwrap();
    let refused = Session::on(&engine, Origin::Stored(Trace::open(&bucket).unwrap()));
    assert!(matches!(refused, Err(Error::InBucket(_))));
    // What else is in the bucket is no trace.
    let Ok(above) = "s3://bucket".parse::<Location>();
    assert!(matches!(Writable::open(&above), Err(Error::Foreign(_))));
}

#[test]
fn several_import_into_a_bucket_at_once() {
    if std::env::var_os(FOLDER).is_none() {
        return with_server("several_import_into_a_bucket_at_once", SECRET);
    }
    let Ok(location) = "s3://bucket/lan".parse::<Location>();
    // Each has looked at the trace before the others added anything.
    let mut writers: Vec<Writable> = (0..3).map(|_| Writable::open(&location).unwrap()).collect();
    let first = new(&mut writers[0], &connection(0), "one.pcap");
    let second = new(&mut writers[1], &connection(50_000), "two.pcap");
    assert_ne!(first.ordinal, second.ordinal);
    assert_eq!(
        imported(&mut writers[2], &connection(0), "late.pcap"),
        Outcome::Known("one.pcap".to_owned())
    );
    assert_eq!(one_row(&location, COUNTS), [12, 2]);

    // In the middle of one import another adds the same capture.
    let mut other = Writable::open(&location).unwrap();
    let capture = connection(100_000);
    let mut asked = false;
    let known = import::stream(
        &[&capture[..], &[0xee; 3 << 20]].concat()[..],
        "garbage.pcap",
        &Options::default(),
        &mut writers[0],
        &mut |_| {
            if !asked {
                asked = true;
                new(
                    &mut other,
                    &[&capture[..], &[0xee; 3 << 20]].concat(),
                    "first.pcap",
                );
            }
            true
        },
    );
    assert_eq!(known.unwrap(), Outcome::Known("first.pcap".to_owned()));
    assert!(asked);
    assert_eq!(one_row(&location, COUNTS), [18, 3]);
}

/// Source that an import of the test that is killed reads, in its process.
const KILLED: &str = "TOLLGATE_TEST_KILLED";

#[test]
fn a_killed_import_leaves_nothing_that_anyone_sees() {
    const TEST: &str = "a_killed_import_leaves_nothing_that_anyone_sees";
    let Some(folder) = std::env::var_os(FOLDER) else {
        return with_server(TEST, SECRET);
    };
    let Ok(location) = "s3://bucket/lan".parse::<Location>();
    if std::env::var_os(KILLED).is_some() {
        let mut trace = Writable::open(&location).unwrap();
        let bytes = std::io::stdin();
        import::stream(bytes, "-", &Options::default(), &mut trace, &mut |_| true).unwrap();
        return;
    }
    let bucket = Path::new(&folder).join("bucket/lan");
    let mut child = alone(TEST)
        .env(KILLED, "yes")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut bytes = child.stdin.take().unwrap();
    bytes.write_all(&connection(0)).unwrap();
    while !bucket.join("00000000/importing.json").exists() {
        assert_eq!(child.try_wait().unwrap(), None);
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(bytes);
    let names = |files: &[PathBuf]| -> Vec<String> {
        let names = files.iter().map(|file| file.strip_prefix(&bucket).unwrap());
        names.map(|name| name.display().to_string()).collect()
    };
    assert_eq!(
        names(&below(&bucket)),
        ["00000000/importing.json", "trace.json"]
    );
    assert!(Trace::open(&location).unwrap().sources().is_empty());

    // As one leaves it that was killed later: its tables are there.
    let mut trace = Writable::open(&location).unwrap();
    let source = new(&mut trace, &connection(0), "one.pcap");
    assert_eq!(source.ordinal, 1);
    for table in ["packets", "messages", "flows"] {
        let file = format!("{table}.parquet");
        std::fs::copy(
            bucket.join("00000001").join(&file),
            bucket.join("00000000").join(&file),
        )
        .unwrap();
    }
    assert_eq!(one_row(&location, COUNTS), [6, 1]);
    drop(trace);
    let mut trace = Writable::open(&location).unwrap();
    assert_eq!(new(&mut trace, &connection(9), "two.pcap").ordinal, 2);
    assert_eq!(one_row(&location, COUNTS), [12, 2]);
}

/// Datagrams of so many flows, one each, between ends of their own, in a pcap file.
fn many_flows(n: u32) -> Vec<u8> {
    let mut file = craft::pcap_header(1, false);
    for at in 0..n {
        let payload = craft::udp((2_000 + (at % 50_000) as u16, 53), 10);
        // An odd factor tells all of them apart.
        let scattered = at.wrapping_mul(2_654_435_761) & 0x00ff_ffff;
        let header = Header {
            header_len: 20,
            tos: 0,
            total_len: (20 + payload.len()) as u16,
            identification: 0,
            flags_and_offset: 0,
            ttl: 64,
            protocol: protocol::UDP,
            source: Ipv4Addr::from_bits(0x0a00_0000 | scattered),
            destination: Ipv4Addr::from_bits(0xac00_0000 | scattered),
        };
        let frame = craft::ethernet(0x0800, &[&header.to_bytes()[..], &payload].concat());
        file.extend(craft::pcap_record(at / 100, &frame, 0, false));
    }
    file
}

#[test]
fn large_tables_are_sent_in_parts_and_not_kept_when_the_user_wants_no_more() {
    const TEST: &str = "large_tables_are_sent_in_parts_and_not_kept_when_the_user_wants_no_more";
    /// Count of flows: more than fit one part of a table.
    const FLOWS: u32 = 200_000;
    let Some(folder) = std::env::var_os(FOLDER) else {
        return with_server(TEST, SECRET);
    };
    let bucket = Path::new(&folder).join("bucket/lan");
    let Ok(location) = "s3://bucket/lan".parse::<Location>();
    let capture = many_flows(FLOWS);
    let mut trace = Writable::open(&location).unwrap();
    let packets = bucket.join("00000000/packets.parquet");
    let mut stopped_at = None;
    let stopped = import::stream(
        &capture[..],
        "-",
        &Options::default(),
        &mut trace,
        &mut |_| {
            // The first table is there, so others are to be sent.
            if packets.exists() {
                stopped_at = Some(below(&bucket));
            }
            stopped_at.is_none()
        },
    );
    assert!(matches!(stopped, Err(Error::Stopped { .. })), "{stopped:?}");
    assert!(stopped_at.unwrap().contains(&packets));
    assert_eq!(below(&bucket), [bucket.join("trace.json")]);

    let source = new(&mut trace, &capture, "-");
    assert_eq!(source.counts.udp.flows, u64::from(FLOWS));
    let flows = std::fs::metadata(bucket.join("00000000/flows.parquet")).unwrap();
    assert!(flows.len() > 8 << 20, "{} bytes are one part", flows.len());
    let counts = "SELECT count(*), sum(bytes_to_server) FROM flows";
    assert_eq!(one_row(&location, counts), [FLOWS, 10 * FLOWS]);
}
