//! `tollgate trace` from outside, on the rebuilt traces and on what is no capture.
#![cfg(feature = "sql")]

#[path = "../../trace/src/craft.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the tests of the other crate use more of it"
)]
mod craft;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tollgate_papers as papers;
use tollgate_wire::ipv4::protocol::UDP;
use tollgate_wire::tcp::Flags;

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

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let output = trace(folder.path(), arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fact(id: &str) -> f64 {
    papers::fact(&format!("kay-pasquale-1996/{id}"))
        .unwrap()
        .value
}

fn group<'a>(sizes: &'a Value, scope: &str, kind: &str) -> &'a Value {
    let groups = sizes["groups"].as_array().unwrap();
    groups
        .iter()
        .find(|group| group["scope"] == scope && group["kind"] == kind)
        .unwrap()
}

/// Checks that the project's numbers of the paper equal those of the scripts for the rebuilt traces.
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
    close(
        &udp["share_of_segments"],
        fact("lan-udp-share") / 100.0,
        1e-4,
    );
    close(&udp["p50"], fact("lan-udp-median"), 0.0);
    close(&udp["below_200"], fact("lan-udp-small-share") / 100.0, 1e-4);
    // Some of what lies between 200 bytes and 8 KB lies near 8 KB, too.
    close(&udp["near_8k"], fact("lan-udp-large-share") / 100.0, 0.01);
    close(&tcp["p50"], fact("lan-tcp-median"), 0.0);
    assert!(tcp["below_200"].as_f64().unwrap() > fact("lan-tcp-small-share") / 100.0);
    assert!(!udp["modes"].is_null());

    let wan = json(&["sizes", "kay-wan", "--json"]);
    close(
        &group(&wan, "wan", "tcp-segment")["share_of_segments"],
        fact("wan-tcp-share") / 100.0,
        1e-4,
    );
    let small: f64 = ["tcp-segment", "udp-datagram"]
        .iter()
        .map(|kind| group(&wan, "wan", kind))
        .map(|group| {
            group["share_of_segments"].as_f64().unwrap() * group["at_most_500"].as_f64().unwrap()
        })
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
    fs::write(folder.path().join("letter"), "dear reader").unwrap();
    for (arguments, told) in [
        (
            &["import", "letter"][..],
            "error: letter: is neither pcap nor pcapng",
        ),
        (&["import", "nothing"], "error: nothing: cannot open"),
        (&["sizes", "nowhere"], "error: nowhere: no trace is there"),
        (
            &["sizes", "kay-lan", "--lan", "ten"],
            "error: --lan: `ten` is no prefix",
        ),
    ] {
        let output = trace(folder.path(), arguments);
        let error = text(&output.stderr);
        assert!(!output.status.success());
        assert!(error.starts_with(told), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// Two connections after each other, the first of which sends a segment twice, and datagrams of a name service in between; a
/// packet of another protocol, and one that is no IP.
fn office() -> Vec<Vec<u8>> {
    let (ack, push) = (Flags::ACK, Flags::ACK | Flags::PSH);
    let mut packets = Vec::new();
    for isn in [0, 50_000] {
        packets.extend([
            craft::tcp_frame(true, isn, Flags::SYN, 0),
            craft::tcp_frame(false, isn, Flags::SYN | ack, 0),
            craft::tcp_frame(true, isn + 1, push, 120),
            craft::tcp_frame(false, isn + 1, ack, 1_448),
            craft::tcp_frame(false, isn + 1_449, ack, 1_448),
            craft::tcp_frame(false, isn + 2_897, push, 200),
        ]);
        if isn == 0 {
            packets.push(craft::tcp_frame(false, isn + 2_897, push, 200));
        }
        for size in [40, 90] {
            let datagram = craft::ipv4(size == 40, UDP, &craft::udp((5_353, 53), size));
            packets.push(craft::ethernet(0x0800, &datagram));
        }
        packets.extend([
            craft::tcp_frame(true, isn + 121, Flags::FIN | ack, 0),
            craft::tcp_frame(false, isn + 3_097, Flags::FIN | ack, 0),
        ]);
    }
    let ping = craft::ipv4(true, 1, &[8, 0, 0, 0, 0, 0, 0, 0]);
    packets.extend([
        craft::ethernet(0x0800, &ping),
        craft::ethernet(0x0806, &[0; 28]),
    ]);
    packets
}

/// Checks all output on a trace, from the import to a query.
#[test]
fn what_is_shown_of_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let whole = craft::pcap(&office());
    fs::write(folder.path().join("office.pcap"), &whole).unwrap();
    fs::write(folder.path().join("again.pcap"), &whole).unwrap();
    // Its end is missing, and something lies in its middle.
    let mut damaged = craft::pcap(&office()[..9]);
    damaged.truncate(damaged.len() - 10);
    damaged.splice(24..24, [0xee; 100]);
    fs::write(folder.path().join("damaged.pcap"), damaged).unwrap();
    let query = "SELECT server_port, count(*) AS messages, sum(size) AS bytes FROM messages GROUP BY server_port ORDER BY server_port";
    for (name, arguments) in [
        (
            "import",
            &[
                "import",
                "--lenient",
                "office.pcap",
                "damaged.pcap",
                "--into",
                "office",
            ][..],
        ),
        (
            "import_again",
            &["import", "again.pcap", "--into", "office"],
        ),
        ("info", &["info", "office"]),
        ("sizes", &["sizes", "office", "--bins"]),
        ("flows", &["flows", "office"]),
        ("cache", &["cache", "office"]),
        ("sql", &["sql", "office", query]),
        ("sizes_of_a_rebuilt_trace", &["sizes", "kay-lan"]),
        ("info_of_a_rebuilt_trace", &["info", "kay-wan"]),
    ] {
        let output = trace(folder.path(), arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        insta::assert_snapshot!(name, text(&output.stdout));
    }
}

/// The exit code, the first line of standard output, and standard error of an import.
fn import(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let all = [&["import", "--into", "trace"], arguments].concat();
    let output = trace(folder, &all);
    // The finding may be broken into several lines.
    let finding = text(&output.stdout);
    let finding = finding
        .split("\n\n")
        .next()
        .unwrap_or("")
        .replace('\n', " ");
    let code = output.status.code().unwrap();
    (code, finding, text(&output.stderr))
}

#[test]
fn loss_is_no_success_unless_it_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let whole = craft::pcap(&office());
    let mut much = whole.clone();
    much.splice(24..24, [0xee; 2_000]);
    let mut foreign = whole.clone();
    foreign[20] = 147;
    let header = craft::pcap_header(1, false);
    let garbage = [&header[..], &[0xee; 500]].concat();
    for (name, bytes) in [
        ("much", &much[..]),
        ("cut", &whole[..whole.len() - 10]),
        ("foreign", &foreign),
        ("garbage", &garbage),
        ("begun", &header[..20]),
        ("none", b""),
        ("letter", b"dear reader, this is no capture"),
        ("empty", &header),
    ] {
        fs::write(folder.join(name), bytes).unwrap();
    }
    for (name, told) in [
        ("much", "19 % of much could not be read: 2,000 of its "),
        (
            "cut",
            "The end of cut is missing: its last 48 bytes are no whole packet. 22 packets, ",
        ),
        (
            "foreign",
            "Nothing of foreign could be read: none of its 23 packets is known. 23 packets, 0 ",
        ),
        (
            "garbage",
            "Nothing of garbage could be read: 500 of its 524 bytes fit no packet. 0 packets, ",
        ),
    ] {
        let (code, finding, error) = import(folder, &[name]);
        assert_eq!(code, 1, "{name}: {finding}{error}");
        assert!(finding.starts_with(told), "{name}: {finding}");
        fs::remove_dir_all(folder.join("trace")).unwrap();
        let (code, finding, _) = import(folder, &["--lenient", name]);
        assert_eq!(code, 0);
        assert!(finding.starts_with(told), "{name}: {finding}");
        // JSON is for programs; people are told beside it.
        fs::remove_dir_all(folder.join("trace")).unwrap();
        let (code, _, error) = import(folder, &[name, "--json"]);
        assert_eq!(code, 1);
        assert!(told.starts_with(&error[..20]), "{error}");
    }
    for (name, told) in [
        (
            "begun",
            "error: begun: is a pcap that ends within its header, after 20 bytes",
        ),
        ("none", "error: none: is empty"),
        ("letter", "error: letter: is neither pcap nor pcapng"),
    ] {
        let (code, _, error) = import(folder, &[name]);
        assert_eq!(code, 1);
        assert!(error.starts_with(told), "{error}");
    }
    let (code, finding, _) = import(folder, &["empty"]);
    assert_eq!(
        (code, finding.as_str()),
        (0, "empty holds no packet, and is in trace.")
    );
    let (code, finding, _) = import(folder, &["cut", "much", "empty"]);
    assert_eq!(code, 1);
    assert!(
        finding.starts_with("2 of 3 captures could not be read whole. The end of cut "),
        "{finding}"
    );
    let info = text(&trace(folder, &["info", "trace"]).stdout);
    assert!(info.contains("2,000 of its"), "{info}");
}

#[test]
fn a_cluster_that_is_not_there_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    // The header of a capture of Ethernet, little-endian, in microseconds; no packet.
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1];
    let bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(folder.path().join("empty.pcap"), bytes).unwrap();
    let imported = trace(folder.path(), &["import", "empty.pcap", "--into", "dir"]);
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    // A port on which nobody listened just now.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let engine = format!("--engine=ballista://127.0.0.1:{port}");
    for (arguments, told, code) in [
        (
            ["sizes", "dir", &engine],
            format!("error: ballista://127.0.0.1:{port}: no scheduler answers there"),
            1,
        ),
        (
            ["flows", "kay-lan", &engine],
            "error: kay-lan is built in".to_owned(),
            1,
        ),
        (
            ["sizes", "dir", "--engine=spark://big"],
            "error: --engine: unknown engine `spark://big`".to_owned(),
            2,
        ),
    ] {
        let output = trace(folder.path(), &arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.starts_with(&told), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn trace_cache_says_why_it_runs_on_no_cluster() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, told) in [
        (
            &["cache", "kay-lan", "--engine", "ballista://big:50050"][..],
            "error: `trace cache` runs on no cluster: it reads packets one after the other",
        ),
        (
            &["flows", "kay-lan", "--cluster-timeout", "5s"],
            "error: the following required arguments were not provided",
        ),
    ] {
        let output = trace(folder.path(), arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.starts_with(told), "{error}");
    }
}
