//! The importer counts the packets, user data and flows of TCP and UDP that tshark counts. Where tshark is not
//! installed, or may not capture, the test says so and leaves itself out.

#[path = "../src/craft.rs"]
#[expect(dead_code, unreachable_pub, reason = "the unit tests use more of it")]
mod craft;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tollgate_trace::capture::Capture;
use tollgate_trace::rows::{Ends, InMemory, MessageRow};
use tollgate_trace::{Counts, Importer, Settings};
use tollgate_wire::ipv4::protocol::{TCP, UDP};
use tollgate_wire::tcp::Flags;

/// Packets, bytes of user data, flows.
type Traffic = (u64, u64, u64);

fn ours(path: &Path) -> (Counts, [Traffic; 2]) {
    let (counts, _) = read(path);
    let traffic = [counts.tcp, counts.udp].map(|t| (t.packets, t.bytes, t.flows));
    (counts, traffic)
}

fn read(path: &Path) -> (Counts, InMemory) {
    let mut capture = Capture::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut importer = Importer::new(Settings::default());
    let mut rows = InMemory::default();
    while importer.read(&mut capture, 1_000, &mut rows) == Ok(true) {}
    let Ok(counts) = importer.finish(&mut rows);
    (counts, rows)
}

/// Counts of tshark; nothing when it is not there.
fn theirs(path: &Path) -> Option<[Traffic; 2]> {
    let fields = ["tcp.stream", "tcp.len", "udp.stream", "udp.length"];
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-Y",
        "(tcp or udp) and not icmp and not icmpv6",
        "-T",
        "fields",
        "-r",
    ]);
    command.arg(path);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            tollgate_skip::skipped!("tshark cannot be run: {error}");
            return None;
        }
    };
    let mut traffic = [(0, 0, BTreeSet::new()), (0, 0, BTreeSet::new())];
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        for (at, header) in [(0, 0), (1, 8)] {
            let (stream, length) = (fields[2 * at], fields[2 * at + 1]);
            if !stream.is_empty() {
                traffic[at].0 += 1;
                traffic[at].1 += length.parse::<u64>().unwrap() - header;
                traffic[at].2.insert(stream.to_owned());
            }
        }
    }
    Some(traffic.map(|(packets, bytes, flows)| (packets, bytes, flows.len() as u64)))
}

#[test]
fn odd_packets_are_counted_as_tshark_counts_them() {
    let mut packets = Vec::new();
    let mut add = |ethertype: u16, packet: &[u8]| packets.push(craft::ethernet(ethertype, packet));
    let flags = [
        Flags::SYN,
        Flags::ACK,
        Flags::ACK | Flags::PSH,
        Flags::ACK | Flags::FIN,
    ];
    // Connections whose ports are used again, segments that are sent again, keep-alives.
    for round in 0..3_u32 {
        let isn = round * 100_000;
        for (seq, flags, size) in [
            (0, flags[0], 0),
            (0, flags[0], 0),
            (1, flags[1], 1_000),
            (1, flags[1], 1_000),
            (1_001, flags[2], 460),
            (1_460, flags[1], 1),
            (1_461, flags[3], 7),
        ] {
            let segment = craft::segment((4_000, 80), isn + seq, flags, size);
            add(0x0800, &craft::ipv4(true, TCP, &segment));
            let answer = craft::segment((80, 4_000), isn + seq, flags | Flags::ACK, size / 2);
            add(0x0800, &craft::ipv4(false, TCP, &answer));
        }
    }
    // Version 6, plain and behind two extension headers, and tagged.
    for size in [0, 1, 1_200] {
        let datagram = craft::udp((5_000, 53_000), size);
        add(0x86dd, &craft::ipv6(UDP, &datagram));
        let extended = [
            &[60, 0, 1, 4, 0, 0, 0, 0, UDP, 0, 1, 4, 0, 0, 0, 0],
            &datagram[..],
        ];
        add(0x86dd, &craft::ipv6(0, &extended.concat()));
        let tagged = [&[0, 5, 8, 0], &craft::ipv4(true, UDP, &datagram)[..]];
        add(0x8100, &tagged.concat());
    }
    // A datagram in fragments, out of order and one twice; another of which a part is missing.
    let whole = craft::udp((6_000, 2_049), 8_192);
    let part = |at: usize, identification| {
        let chunk = whole.chunks(1_480).nth(at).unwrap();
        let more = if at == 5 { 0 } else { 0x2000 };
        craft::fragment(true, UDP, chunk, (at * 185) as u16 | more, identification)
    };
    for at in [0, 3, 2, 2, 1, 5, 4] {
        add(0x0800, &part(at, 7));
    }
    for at in [0, 1, 2, 3, 5] {
        add(0x0800, &part(at, 8));
    }
    add(0x0806, &[0; 28]);
    add(0x0800, &craft::ipv4(true, 1, &[8, 0, 0, 0, 0, 0, 0, 0]));

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("odd.pcap");
    std::fs::write(&path, craft::pcap(&packets)).unwrap();
    let (counts, ours) = ours(&path);
    assert_eq!((counts.fragments, counts.reassembled), (12, 1));
    assert_eq!(
        (counts.incomplete, counts.not_ip, counts.other_protocols),
        (1, 1, 1)
    );
    if let Some(theirs) = theirs(&path) {
        assert_eq!(ours, theirs);
    }
}

/// Talks over loopback: TCP both ways over version 4 and 6, UDP in small and large datagrams.
fn run_traffic(tcp: &[TcpListener], udp: &[UdpSocket]) {
    for listener in tcp {
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for stream in listener.incoming().take(3) {
                    let mut stream = stream.unwrap();
                    let mut request = [0; 200];
                    while stream.read_exact(&mut request).is_ok() {
                        stream.write_all(&[1; 30_000]).unwrap();
                    }
                }
            });
            for _ in 0..3 {
                let mut stream = TcpStream::connect(address).unwrap();
                for _ in 0..20 {
                    stream.write_all(&[2; 200]).unwrap();
                    stream.read_exact(&mut [0; 30_000]).unwrap();
                }
            }
        });
    }
    for receiver in udp {
        let address = receiver.local_addr().unwrap();
        let sender = UdpSocket::bind((address.ip(), 0)).unwrap();
        for size in [0, 1, 512, 8_192, 60_000] {
            sender.send_to(&vec![3; size], address).unwrap();
            receiver.recv(&mut [0; 65_536]).unwrap();
        }
    }
}

/// Captures with tshark what passes these ports on the loopback interface while `run_traffic` talks; nothing, and says so, where that
/// cannot be done. One datagram more is captured, which says that all before it was.
fn captured(ports: &[u16], run_traffic: impl FnOnce()) -> Option<(TempDir, PathBuf)> {
    let last = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let last = last.local_addr().unwrap();
    let ports = ports.iter().copied().chain([last.port()]);
    let filter: Vec<String> = ports.map(|port| format!("port {port}")).collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("live.pcapng");
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-i",
        "lo",
        "-B",
        "64",
        "-f",
        &filter.join(" or "),
        "-w",
    ]);
    let capture = command
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut capture = match capture {
        Ok(capture) => capture,
        Err(error) => {
            tollgate_skip::skipped!("tshark cannot be run: {error}");
            return None;
        }
    };
    let said = BufReader::new(capture.stderr.take().unwrap());
    let begun = said
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("Capture started"));
    if begun.is_none() {
        capture.wait().unwrap();
        tollgate_skip::skipped!("tshark may not capture on lo");
        return None;
    }
    run_traffic();
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    sender.send_to(b"the last", last).unwrap();
    let done = || {
        let flows = read(&path).1.flows;
        flows
            .iter()
            .any(|flow| flow.ends.server.port == last.port())
    };
    // The capture is written in blocks.
    for _ in 0..100 {
        if std::fs::metadata(&path).is_ok_and(|file| file.len() > 0) && done() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let id = capture.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().unwrap();
    capture.wait().unwrap();
    Some((directory, path))
}

#[test]
fn live_traffic_is_counted_as_tshark_counts_it() {
    let locals = [
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
    ];
    // A host without IPv6 has only the first.
    let tcp: Vec<TcpListener> = locals
        .iter()
        .filter_map(|at| TcpListener::bind(at).ok())
        .collect();
    let udp: Vec<UdpSocket> = locals
        .iter()
        .filter_map(|at| UdpSocket::bind(at).ok())
        .collect();
    let ports = tcp.iter().map(|one| one.local_addr().unwrap().port());
    let ports = ports.chain(udp.iter().map(|one| one.local_addr().unwrap().port()));
    let ports: Vec<u16> = ports.collect();
    let Some((_directory, path)) = captured(&ports, || run_traffic(&tcp, &udp)) else {
        return;
    };
    let (_, ours) = ours(&path);
    assert_eq!(ours[0].2 as usize, 3 * tcp.len());
    let expected: u64 = [0, 1, 512, 8_192, 60_000].iter().sum();
    // And the last datagram.
    assert_eq!(
        ours[1],
        (
            5 * udp.len() as u64 + 1,
            expected * udp.len() as u64 + 8,
            udp.len() as u64 + 1
        )
    );
    assert_eq!(Some(ours), theirs(&path));
}

/// Bytes that each path of the server below is answered with.
const PAGES: [usize; 4] = [0, 13, 5_000, 3_000_000];

/// Answers requests over HTTP/1.1 on one connection after the other.
fn serve(listener: &TcpListener, connections: usize) {
    for stream in listener.incoming().take(connections) {
        let stream = stream.unwrap();
        let mut writer = stream.try_clone().unwrap();
        let mut client = None;
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Some(path) = line.strip_prefix("GET /") {
                client = path
                    .split(' ')
                    .next()
                    .and_then(|page| page.parse::<usize>().ok());
            }
            if line.is_empty()
                && let Some(page) = client.take()
            {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", PAGES[page]);
                writer.write_all(head.as_bytes()).unwrap();
                writer.write_all(&vec![b'.'; PAGES[page]]).unwrap();
            }
        }
    }
}

#[test]
fn what_curl_fetches_is_counted_as_tshark_counts_it() {
    if let Err(error) = Command::new("curl").arg("--version").output() {
        return tollgate_skip::skipped!("curl cannot be run: {error}");
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let pages: Vec<String> = (0..PAGES.len())
        .map(|page| format!("http://{at}/{page}"))
        .collect();
    // All on one connection, then each on its own.
    let calls: Vec<&[String]> = std::iter::once(&pages[..]).chain(pages.chunks(1)).collect();
    let curl = |pages: &[String]| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--noproxy", "*"]);
        for page in pages {
            command.args(["--output", "/dev/null", page]);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let found = captured(&[at.port()], || {
        std::thread::scope(|scope| {
            let server = scope.spawn(|| serve(&listener, calls.len()));
            calls.iter().for_each(|pages| curl(pages));
            server.join().unwrap();
        });
    });
    let Some((_directory, path)) = found else {
        return;
    };
    let (_, ours) = ours(&path);
    let (_, rows) = read(&path);
    let flows = rows
        .flows
        .iter()
        .filter(|flow| flow.ends.server.port == at.port());
    let flows: Vec<_> = flows.collect();
    assert_eq!(flows.len(), calls.len());
    let pages: u64 = PAGES.iter().map(|page| *page as u64).sum();
    // Every page twice, and the heads in front of them; what was sent again is in no write.
    let sent = |row: &MessageRow| row.counted.is_write() && !row.to_server;
    let of_server = |ends: &Ends| ends.server.port == at.port();
    let messages = rows.messages.iter();
    let writes = messages.filter(|(row, ends)| sent(row) && of_server(ends));
    let written: u64 = writes.map(|(row, _)| u64::from(row.size)).sum();
    assert!(
        (2 * pages..2 * pages + 2_000).contains(&written),
        "{written}"
    );
    assert_eq!(Some(ours), theirs(&path));
}
