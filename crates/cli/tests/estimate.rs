//! `tollgate estimate` from outside: a fixed run and the built-in traces, and what is refused.

#[cfg(feature = "sql")]
#[path = "../../trace/src/craft.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the tests of the other crate use more of it"
)]
mod craft;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tollgate_run::{Cell, Run, Table};

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

/// Name of [`KERNEL`] in the folder, as a user would give it.
const RUN: &str = "run.json";

/// Gives the folder the run, by a name that is the same everywhere.
fn with_run(folder: &Path) {
    std::fs::copy(KERNEL, folder.join(RUN)).unwrap();
}

/// A run over kernel-loopback with `kay-breakdown` and `kay-detail`, as measured, without figures.
const KERNEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/estimate/kernel.json");

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
    with_run(folder.path());
    let output = tollgate(
        folder.path(),
        &["estimate", "--trace", "kay-lan", "--from", RUN],
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
                "estimate",
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
            "estimate",
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
        tollgate_skip::skipped!("{error}");
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
        let all: Vec<&str> = std::iter::once("estimate")
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
        &[
            "estimate", "--trace", "kay-lan", "--from", KERNEL, "--quick",
        ],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot be used with"));
}

/// Imports 150 requests and responses on one connection, whose responses have up to so many bytes, and as many datagrams.
#[cfg(feature = "sql")]
fn import(folder: &Path, largest: usize) {
    use tollgate_wire::ipv4::protocol::UDP;
    use tollgate_wire::tcp::Flags;
    let push = Flags::ACK | Flags::PSH;
    let (mut asked, mut answered) = (1, 1);
    let mut packets = vec![
        craft::tcp_frame(true, 0, Flags::SYN, 0),
        craft::tcp_frame(false, 0, Flags::SYN | Flags::ACK, 0),
    ];
    for at in 0..150 {
        let (request, response) = (40 + at % 7 * 30, 1 + largest * (at % 5) / 4);
        packets.push(craft::tcp_frame(true, asked, push, request));
        packets.push(craft::tcp_frame(false, answered, push, response));
        let datagram = craft::ipv4(true, UDP, &craft::udp((5_353, 53), 30 + at % 9 * 50));
        packets.push(craft::ethernet(0x0800, &datagram));
        asked += request as u32;
        answered += response as u32;
    }
    std::fs::write(folder.join("office.pcap"), craft::pcap(&packets)).unwrap();
    let output = tollgate(
        folder,
        &["trace", "import", "office.pcap", "--into", "office"],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[cfg(feature = "sql")]
#[test]
fn a_fixed_run_on_an_imported_capture() {
    let folder = tempfile::tempdir().unwrap();
    import(folder.path(), 8_000);
    with_run(folder.path());
    let profile = ["estimate", "--trace", "office", "--from", RUN];
    let output = tollgate(folder.path(), &profile);
    assert!(output.status.success(), "{}", text(&output.stderr));
    insta::assert_snapshot!(text(&output.stdout));
}

#[cfg(feature = "sql")]
#[test]
fn nothing_is_told_where_most_data_is_in_larger_messages_than_were_measured() {
    let folder = tempfile::tempdir().unwrap();
    import(folder.path(), 60_000);
    let profile = ["estimate", "--trace", "office", "--from", KERNEL, "--json"];
    let output = tollgate(folder.path(), &profile);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: Run = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &run.experiments[0].finding;
    let reason =
        "of its user data is in messages larger than 8,192 B, the largest that was measured";
    assert!(
        finding.contains("(UDP alone)")
            && finding.contains("nothing of TCP")
            && finding.contains(reason),
        "{finding}"
    );
    let aggregate = table(&run, "aggregate");
    for (name, told) in [("TCP", false), ("TCP and UDP", false), ("UDP", true)] {
        let shares = column(aggregate, name);
        assert!(shares.iter().all(|share| share.is_some() == told), "{name}");
    }
    // What the run measured is told as before.
    let benchmark = column(aggregate, "TCP of 8,192 B");
    assert!(benchmark.iter().any(Option::is_some));
}
