//! `tollgate trace capture` on traffic of our own, in a network namespace of the test's: left out, and said so, where there is none to
//! be had.
#![cfg(feature = "sql")]

mod nobody;

use nobody::Place;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use rustix::thread::UnshareFlags;
use serde_json::Value;

fn tollgate(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .arg("trace")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a test on a thread that has a network namespace with a loopback interface and nothing else. Programs that it starts are in
/// there, too. The namespace goes with the thread.
fn in_a_namespace(test: impl FnOnce() + Send + 'static) {
    // Under the test's name, by which a skipped one is counted.
    let name = thread::current().name().unwrap_or_default().to_owned();
    let alone = thread::Builder::new().name(name).spawn(move || {
        // SAFETY: the thread shares no descriptors' table and no file system's place with others on account of this flag.
        let own = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) };
        let up = own.is_ok() && {
            let ip = Command::new("ip")
                .args(["link", "set", "lo", "up"])
                .status();
            ip.is_ok_and(|status| status.success())
        };
        if up {
            test();
        } else {
            tollgate_skip::skipped!(
                "no network namespace of its own can be had (root, and iproute2)"
            );
        }
    });
    if let Err(panic) = alone.unwrap().join() {
        std::panic::resume_unwind(panic);
    }
}

/// Captures with these arguments while `talk` talks, and ends the capture as Ctrl-C does.
fn capture(folder: &Path, arguments: &[&str], talk: impl FnOnce()) -> Output {
    let arguments = [&["capture", "--into", "traffic"], arguments].concat();
    let mut command = tollgate(folder, &arguments);
    let mut child: Child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("capturing on "), "{line}");
    talk();
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(output.status.success(), "{rest}");
    output
}

fn sql(folder: &Path, query: &str) -> Value {
    let output = tollgate(folder, &["sql", "traffic", query, "--json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["rows"].clone()
}

/// A request of 300 bytes and a response of 5,000 on one connection, which both ends close.
fn talk_tcp(listener: &TcpListener) {
    let at = listener.local_addr().unwrap();
    thread::scope(|scope| {
        // Where a thread is made, it lies in the same namespace.
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 300]).unwrap();
            stream.write_all(&[2; 5_000]).unwrap();
        });
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(&[1; 300]).unwrap();
        stream.read_exact(&mut [0; 5_000]).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    });
}

fn talk_udp(to: &UdpSocket, count: usize, size: usize) {
    let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to_address = to.local_addr().unwrap();
    for _ in 0..count {
        from.send_to(&vec![3; size], to_address).unwrap();
        to.recv(&mut [0; 2_000]).unwrap();
    }
}

/// A socket at a port below all that a sender is given: the lower port is taken for the server's.
fn udp(port: u16) -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap()
}

#[test]
fn what_is_sent_is_in_the_trace_once() {
    for interface in ["lo", "any"] {
        in_a_namespace(move || {
            let folder = tempfile::tempdir().unwrap();
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let to = udp(7_000);
            let output = capture(folder.path(), &["--iface", interface], || {
                talk_udp(&to, 50, 1_400);
                talk_tcp(&listener);
            });
            let shown = text(&output.stdout);
            assert!(shown.contains("the kernel dropped none"), "{shown}");
            let carried = "SELECT protocol, count(*), sum(bytes_to_server), sum(bytes_to_client) FROM flows GROUP BY protocol ORDER BY protocol";
            assert_eq!(
                sql(folder.path(), carried),
                serde_json::json!([[6, 1, 300, 5_000], [17, 1, 70_000, 0]])
            );
            let datagrams =
                "SELECT count(*), min(size), max(size) FROM messages WHERE protocol = 17";
            assert_eq!(
                sql(folder.path(), datagrams),
                serde_json::json!([[50, 1_400, 1_400]])
            );
            // Nothing is left but the trace.
            assert!(!folder.path().join("traffic/captures").exists());
        });
    }
}

#[test]
fn a_filter_is_the_kernel_s_and_addresses_are_replaced() {
    in_a_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (udp(7_000), udp(7_001));
        capture(
            folder.path(),
            &[
                "--iface",
                "lo",
                "--filter",
                "udp and dst port 7000",
                "--anonymise",
            ],
            || {
                talk_udp(&one, 7, 10);
                talk_udp(&other, 9, 10);
            },
        );
        let found = "SELECT count(*), count(*) FILTER (WHERE client = '127.0.0.1') FROM messages";
        assert_eq!(sql(folder.path(), found), serde_json::json!([[7, 0]]));
    });
}

#[test]
fn a_ring_keeps_the_last_files() {
    in_a_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let to = udp(7_000);
        let ring = [
            "--iface",
            "lo",
            "--ring",
            "2",
            "--file-size",
            "100k",
            "--keep",
            "--json",
        ];
        let output = capture(folder.path(), &ring, || talk_udp(&to, 3_000, 60));
        let captured: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(captured["schema"], "tollgate-trace-capture");
        assert_eq!(
            (&captured["packets"], &captured["dropped"]),
            (&3_000.into(), &0.into())
        );
        assert!(
            captured["removed_files"].as_u64().unwrap() >= 2,
            "{captured}"
        );
        let kept = captured["kept_files"].as_array().unwrap();
        assert_eq!(kept.len(), 2);
        let imported = captured["imported"].as_array().unwrap();
        let packets = imported
            .iter()
            .map(|one| one["counts"]["packets"].as_u64().unwrap());
        let packets: u64 = packets.sum();
        assert_eq!(
            sql(folder.path(), "SELECT count(*) FROM packets"),
            serde_json::json!([[packets]])
        );
        assert_eq!(
            fs::read_dir(folder.path().join("traffic/captures"))
                .unwrap()
                .count(),
            2
        );
        // The last packets, not the first.
        let last = &imported[1]["counts"];
        assert!(packets < 3_000 && last["cut_packets"] == 0, "{last}");
    });
}

#[test]
fn a_capture_that_cannot_be_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let output = tollgate(folder.path(), &["capture", "--iface", "nosuch0"])
        .output()
        .unwrap();
    let error = text(&output.stderr);
    assert!(
        error.starts_with("error: there is no interface nosuch0"),
        "{error}"
    );
    assert_eq!((error.lines().count(), output.status.code()), (1, Some(2)));

    let place = Place::new();
    let mut command = place.command(&["trace", "capture", "--iface", "lo", "--for", "1s"]);
    let output = command.output().unwrap();
    let error = text(&output.stderr);
    assert!(
        error.starts_with("error: packets were to be captured: "),
        "{error}"
    );
    assert!(error.contains("run this as root"), "{error}");
    assert_eq!((error.lines().count(), output.status.code()), (1, Some(1)));
    // Nothing was made before it was known.
    assert!(!folder.path().join("tollgate-trace").exists());
}
