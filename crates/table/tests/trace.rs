//! Captures into a trace and out again.

#[path = "../../trace/src/craft.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the tests of the other crate use more of it"
)]
mod craft;
#[path = "../../trace/examples/mixed/capture.rs"]
#[expect(unreachable_pub, reason = "the example has it as well")]
mod mixed;

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use tempfile::TempDir;
use tollgate_table::answer::Answer;
use tollgate_table::import::{self, Options, Outcome};
use tollgate_table::location::Location;
use tollgate_table::prefix::{LOCAL, list};
use tollgate_table::session::{Origin, Session};
use tollgate_table::sizes::{Kind, Scope};
use tollgate_table::store::{Loss, Trace, Writable};
use tollgate_table::{Error, flows, sizes, tcb, traffic};
use tollgate_trace::rebuilt::Rebuilt;
use tollgate_trace::rows::Protocol;
use tollgate_trace::traffic::{Messages, Traffic};
use tollgate_wire::tcp::Flags;

/// A connection: opened, one request, one response of two segments, closed.
fn connection() -> Vec<Vec<u8>> {
    let (ack, push) = (Flags::ACK, Flags::ACK | Flags::PSH);
    vec![
        craft::tcp_frame(true, 0, Flags::SYN, 0),
        craft::tcp_frame(false, 0, Flags::SYN | ack, 0),
        craft::tcp_frame(true, 1, push, 20),
        craft::tcp_frame(false, 1, ack, 1_000),
        craft::tcp_frame(false, 1_001, push, 100),
        craft::tcp_frame(true, 21, Flags::FIN | ack, 0),
        craft::tcp_frame(false, 1_101, Flags::FIN | ack, 0),
    ]
}

struct Room {
    directory: TempDir,
}

impl Room {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn trace(&self) -> PathBuf {
        self.directory.path().join("trace")
    }

    fn location(&self) -> Location {
        Location::Folder(self.trace())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn import(&self, path: &Path) -> Result<Outcome, Error> {
        let mut trace = Writable::open(&self.location())?;
        import::file(path, &Options::default(), &mut trace, &mut |_| true)
    }

    fn session(&self) -> Session {
        let trace = Trace::open(&self.location()).unwrap();
        Session::open(Origin::Stored(trace)).unwrap()
    }

    fn ask(&self, sql: &str) -> String {
        let (schema, batches) = self.session().query(sql).unwrap();
        Answer::of(&schema, &batches).unwrap().text()
    }
}

#[test]
fn a_capture_reads_back_as_packets_messages_and_flows() {
    let room = Room::new();
    let path = room.file("one.pcap", &craft::pcap(&connection()));
    let Ok(Outcome::Imported(source)) = room.import(&path) else {
        panic!("not imported");
    };
    assert_eq!((source.counts.packets, source.counts.messages), (7, 4));
    insta::assert_snapshot!(room.ask("SELECT * FROM messages"), @r"
    time                      flow  to_server  size  packets  is_segment  is_write  again  protocol  client    client_port  server    server_port
    2023-11-14T22:13:20.002Z     0  true         20        1  true        true      false         6  10.0.0.1         1000  10.0.0.2           80
    2023-11-14T22:13:20.003Z     0  false      1000        1  true        false     false         6  10.0.0.1         1000  10.0.0.2           80
    2023-11-14T22:13:20.004Z     0  false       100        1  true        false     false         6  10.0.0.1         1000  10.0.0.2           80
    2023-11-14T22:13:20.003Z     0  false      1100        2  false       true      false         6  10.0.0.1         1000  10.0.0.2           80
    ");
    insta::assert_snapshot!(room.ask("SELECT time, to_server, size, flags FROM packets LIMIT 3"), @r"
    time                      to_server  size  flags
    2023-11-14T22:13:20Z      true          0      2
    2023-11-14T22:13:20.001Z  false         0     18
    2023-11-14T22:13:20.002Z  true         20     24
    ");
    let flow = "SELECT opened, ending, packets_to_server, bytes_to_client, segments_to_client, writes_to_client FROM flows";
    insta::assert_snapshot!(room.ask(flow), @r"
    opened  ending  packets_to_server  bytes_to_client  segments_to_client  writes_to_client
    true    closed                  3             1100                   2                 1
    ");
}

#[test]
fn the_same_capture_is_in_a_trace_once_whatever_its_name() {
    let room = Room::new();
    let bytes = craft::pcap(&connection());
    assert!(matches!(
        room.import(&room.file("one.pcap", &bytes)),
        Ok(Outcome::Imported(_))
    ));
    let again = room.import(&room.file("two.pcap", &bytes)).unwrap();
    assert!(matches!(again, Outcome::Known(name) if name.ends_with("one.pcap")));
    // Whatever it was packed with.
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let packed = room.file("two.pcap.gz", &gzip.finish().unwrap());
    assert!(matches!(room.import(&packed), Ok(Outcome::Known(_))));
    // Standard input is only known at its end.
    let mut trace = Writable::open(&room.location()).unwrap();
    let again = import::stream(
        &bytes[..],
        "-",
        &Options::default(),
        &mut trace,
        &mut |_| true,
    );
    assert!(matches!(again, Ok(Outcome::Known(_))));
    assert_eq!(trace.trace().sources().len(), 1);
    drop(trace);
    assert_eq!(room.ask("SELECT count(*) AS n FROM packets"), "n\n7\n");

    let other = room.file("other.pcap", &craft::pcap(&connection()[..3]));
    assert!(matches!(room.import(&other), Ok(Outcome::Imported(_))));
    assert_eq!(
        room.ask("SELECT count(*) AS n, count(DISTINCT flow) AS f FROM packets"),
        " n  f\n10  2\n"
    );
}

#[test]
fn an_import_that_ends_early_leaves_nothing() {
    let room = Room::new();
    let packets: Vec<Vec<u8>> = (0..70_000)
        .map(|at| craft::tcp_frame(true, at * 10, Flags::ACK, 10))
        .collect();
    let path = room.file("long.pcap", &craft::pcap(&packets));
    let mut trace = Writable::open(&room.location()).unwrap();
    let stopped = import::file(&path, &Options::default(), &mut trace, &mut |_| false);
    assert!(matches!(stopped, Err(Error::Stopped { .. })));
    drop(trace);
    let left: Vec<_> = fs::read_dir(room.trace()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");

    // As a killed one leaves it.
    let killed = room.trace().join(".importing-killed");
    fs::create_dir(&killed).unwrap();
    fs::write(killed.join("packets.parquet"), b"PAR1").unwrap();
    assert_eq!(room.ask("SELECT count(*) AS n FROM packets"), "n\n0\n");
    assert!(matches!(room.import(&path), Ok(Outcome::Imported(_))));
    assert!(!killed.exists());
    assert_eq!(
        room.ask("SELECT count(*) AS n FROM packets"),
        "    n\n70000\n"
    );
}

/// A capture without an end, of which nothing but the front can be read.
struct Endless {
    front: Vec<u8>,
    given: u64,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.front.is_empty() {
            let n = self.front.as_slice().read(into)?;
            self.front.drain(..n);
            return Ok(n);
        }
        assert!(self.given < 256 << 20, "it is read on and on");
        into.fill(0xee);
        self.given += into.len() as u64;
        Ok(into.len())
    }
}

#[test]
fn who_wants_no_more_is_heeded_where_nothing_can_be_read() {
    let room = Room::new();
    let capture = craft::pcap(&connection());
    let pcapng = [craft::section(), craft::interface(1, &[])].concat();
    for (front, packets) in [(capture, 7), (pcapng, 0)] {
        let mut trace = Writable::open(&room.location()).unwrap();
        let mut asked = Vec::new();
        let stopped = import::stream(
            Endless { front, given: 0 },
            "-",
            &Options::default(),
            &mut trace,
            &mut |packets| {
                asked.push(packets);
                asked.len() < 5
            },
        );
        assert!(matches!(stopped, Err(Error::Stopped { .. })), "{stopped:?}");
        assert_eq!(asked.len(), 5);
        assert!(asked.iter().all(|asked| *asked == packets), "{asked:?}");
        assert!(trace.trace().sources().is_empty());
    }
}

#[test]
fn a_tenth_of_the_bytes_may_be_lost_and_no_more() {
    let room = Room::new();
    let loss = |name: &str, bytes: &[u8]| {
        let Ok(Outcome::Imported(source)) = room.import(&room.file(name, bytes)) else {
            panic!("{name} was not imported");
        };
        source.loss()
    };
    let whole = craft::pcap(&connection());
    let damaged = |n: usize| {
        let mut bytes = whole.clone();
        bytes.splice(24..24, std::iter::repeat_n(0xee, n));
        bytes
    };
    let tenth = whole.len() / 9;
    assert_eq!(loss("whole", &whole), None);
    assert_eq!(loss("a tenth", &damaged(tenth - 1)), None);
    assert_eq!(loss("more", &damaged(tenth + 2)), Some(Loss::Much));
    assert_eq!(loss("nothing", &whole[..50]), Some(Loss::All));
    assert_eq!(loss("no packet", &whole[..24]), None);
    let mut foreign = whole.clone();
    foreign[20] = 147;
    assert_eq!(loss("unknown link type", &foreign), Some(Loss::All));
}

#[test]
fn what_cannot_be_decompressed_ends_an_import_and_is_told() {
    let room = Room::new();
    let capture = craft::pcap(&connection());
    // A block of gzip that is not compressed; behind it nothing more can be decompressed, however much there is.
    let len = capture.len() as u16;
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 0];
    let lens = [len.to_le_bytes(), (!len).to_le_bytes()].concat();
    let front = [&head[..], &lens, &capture].concat();
    let mut trace = Writable::open(&room.location()).unwrap();
    let source = Endless { front, given: 0 };
    let options = Options::default();
    let imported = import::stream(source, "-", &options, &mut trace, &mut |_| true).unwrap();
    let Outcome::Imported(source) = imported else {
        panic!("{imported:?}");
    };
    assert_eq!(source.counts.packets, 7);
    assert!(source.damage.unreadable.is_some());
    assert_eq!(source.loss(), Some(Loss::End));
}

#[test]
fn two_do_not_import_at_once_and_foreign_directories_are_left_alone() {
    let room = Room::new();
    let first = Writable::open(&room.location()).unwrap();
    assert!(matches!(
        Writable::open(&room.location()),
        Err(Error::Busy(_))
    ));
    drop(first);
    assert!(Writable::open(&room.location()).is_ok());
    room.file("letter.txt", b"dear");
    let around = Location::Folder(room.directory.path().to_owned());
    assert!(matches!(Writable::open(&around), Err(Error::Foreign(_))));
    assert!(matches!(Trace::open(&around), Err(Error::NoTrace(_))));
}

#[test]
fn what_can_be_read_of_a_damaged_capture_is_in_the_trace_and_the_rest_is_told() {
    let room = Room::new();
    let mut bytes = craft::pcap(&connection());
    bytes.truncate(bytes.len() - 3);
    let Ok(Outcome::Imported(source)) = room.import(&room.file("cut.pcap", &bytes)) else {
        panic!("not imported");
    };
    assert_eq!(source.counts.packets, 6);
    assert!(source.damage.cut_bytes > 0);
    assert_eq!(source.loss(), Some(Loss::End));
    let trace = Trace::open(&room.location()).unwrap();
    assert_eq!(trace.sources(), [*source]);
    let refused = room.import(&room.file("no.pcap", b"no capture, surely"));
    assert!(matches!(refused, Err(Error::Refused { .. })));
}

#[test]
fn captures_of_version_2_are_read() {
    let room = Room::new();
    room.import(&room.file("one.pcap", &craft::pcap(&connection())))
        .unwrap();
    let sources = || Trace::open(&room.location()).unwrap().sources().to_vec();
    let today = sources();
    let inside = fs::read_dir(room.trace()).unwrap();
    let inside = inside.map(|entry| entry.unwrap().path().join("source.json"));
    let description = inside.into_iter().find(|path| path.exists()).unwrap();
    for file in [room.trace().join("trace.json"), description] {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("\"version\": 3"), "{text}");
        let old = text
            .replace("\"version\": 3", "\"version\": 2")
            .replacen("\"bytes\"", "\"octets\"", 1)
            .replace("\"packed_bytes\"", "\"packed_octets\"");
        fs::write(&file, old).unwrap();
    }
    let mut read = sources();
    assert_eq!(read[0].version, 2);
    read[0].version = 3;
    assert_eq!(read, today);
    // A capture of today goes beside it.
    let other = room.file("two.pcap", &craft::pcap(&connection()[..2]));
    assert!(matches!(room.import(&other), Ok(Outcome::Imported(_))));
    assert_eq!(sources().len(), 2);
}

#[test]
fn queries_read_and_do_nothing_else() {
    let room = Room::new();
    drop(Writable::open(&room.location()).unwrap());
    let session = room.session();
    for sql in [
        "CREATE TABLE x AS SELECT 1",
        "DROP TABLE messages",
        "COPY messages TO '/tmp/tollgate-must-not-be.csv'",
        "SET datafusion.execution.batch_size = 1",
        "SELECT nothing FROM nowhere",
        "SELECT in_prefix('10.0.0.1', 'ten')",
    ] {
        assert!(matches!(session.query(sql), Err(Error::Query(_))), "{sql}");
    }
}

#[test]
fn prefixes_can_be_asked_for() {
    let room = Room::new();
    let path = room.file("one.pcap", &craft::pcap(&connection()));
    room.import(&path).unwrap();
    assert_eq!(
        room.ask("SELECT in_prefix(client, '10.0.0.1') AS a, in_prefix(client, '11.0.0.0/8,::/0') AS b FROM flows"),
        "a     b\ntrue  false\n"
    );
}

#[test]
fn sizes_flows_and_caches_agree_with_what_was_sent() {
    let room = Room::new();
    let path = room.file("one.pcap", &craft::pcap(&connection()));
    room.import(&path).unwrap();
    let session = room.session();
    let found = sizes::of(&session, Some(&list(LOCAL).unwrap())).unwrap();
    let group = |scope, kind| {
        let group = found
            .groups
            .iter()
            .find(|group| (group.scope, group.kind) == (scope, kind));
        group.map(|group| (group.messages, group.bytes, group.p50, group.largest))
    };
    assert_eq!(
        group(Scope::Lan, Kind::TcpSegment),
        Some((3, 1_120, 100, 1_000))
    );
    assert_eq!(
        group(Scope::Lan, Kind::TcpWrite),
        Some((2, 1_120, 20, 1_100))
    );
    assert_eq!(group(Scope::Wan, Kind::TcpWrite), None);
    let elsewhere = sizes::of(&session, Some(&list("192.0.2.0/24").unwrap())).unwrap();
    assert!(
        elsewhere
            .groups
            .iter()
            .all(|group| group.scope != Scope::Lan)
    );

    let found = flows::of(&session).unwrap();
    assert_eq!(found.groups.len(), 1);
    let group = &found.groups[0];
    assert_eq!(
        (group.flows, group.packets, group.bytes, group.closed),
        (1, 7, 1_120, 1)
    );
    assert_eq!(found.alive.first().map(|alive| alive.tcp), Some(1));
    assert!((found.duration_s - 0.006).abs() < 1e-9);

    let found = tcb::of(&session, 10).unwrap();
    let all = found.all.unwrap();
    assert_eq!(
        (all.segments, all.connections, found.hosts.len()),
        (7, 2, 2)
    );
    // The first segment at each host misses.
    assert!((all.hit_ratio - 5.0 / 7.0).abs() < 1e-9);
}

#[test]
fn addresses_are_replaced_with_the_key_and_fit_together_between_imports() {
    let room = Room::new();
    let mut trace = Writable::open(&room.location()).unwrap();
    let options = Options {
        key: Some([9; 32]),
        ..Options::default()
    };
    for (name, packets) in [("a", &connection()[..]), ("b", &connection()[..4])] {
        let path = room.file(name, &craft::pcap(packets));
        import::file(&path, &options, &mut trace, &mut |_| true).unwrap();
    }
    drop(trace);
    assert!(room.session().origin().is_anonymised());
    assert_eq!(
        room.ask("SELECT count(DISTINCT client) AS c, count(*) FILTER (WHERE client = '10.0.0.1') AS true_ones FROM flows"),
        "c  true_ones\n1          0\n"
    );
}

#[test]
fn messages_are_counted_by_size_and_stretch_of_time() {
    let room = Room::new();
    room.import(&room.file("one.pcap", &craft::pcap(&connection())))
        .unwrap();
    let session = room.session();
    // The four rows of messages come at 2, 3, 3 and 4 ms.
    let segments = traffic::of(&session, Messages::Segments).unwrap();
    let sizes = |traffic: &Traffic| -> Vec<Vec<(u32, u64)>> {
        let all = traffic.stretches().iter();
        all.map(|one| {
            one.of(Protocol::Tcp)
                .iter()
                .map(|(size, n)| (*size, *n))
                .collect()
        })
        .collect()
    };
    assert_eq!(
        sizes(&segments),
        [vec![(20, 1)], vec![(1_000, 1)], vec![(100, 1)]]
    );
    let writes = traffic::of(&session, Messages::Writes).unwrap();
    assert_eq!(sizes(&writes), [vec![(20, 1)], vec![(1_100, 1)]]);
    assert_eq!(writes.messages(Protocol::Udp), 0);
}

/// To the query machine, a file that is gone is a table without rows.
#[test]
fn table_that_is_gone_is_told() {
    let room = Room::new();
    let capture = room.file("one.pcap", &craft::pcap(&connection()));
    room.import(&capture).unwrap();
    let tables = fs::read_dir(room.trace()).unwrap();
    let mut tables = tables.map(|entry| entry.unwrap().path().join("messages.parquet"));
    fs::remove_file(tables.find(|table| table.exists()).unwrap()).unwrap();
    let trace = Trace::open(&room.location()).unwrap();
    let error = Session::open(Origin::Stored(trace)).err().unwrap();
    let told = error.to_string();
    assert!(told.contains("messages.parquet: is not there"), "{told}");
}

#[test]
fn folder_whose_name_looks_like_a_pattern_is_read() {
    let room = Room::new();
    let capture = room.file("one.pcap", &craft::pcap(&connection()));
    for name in ["[1]", "a*b", "a?b", "{a,b}", "a b%20#c", "above/../below"] {
        let location = Location::Folder(room.directory.path().join(name));
        let mut trace = Writable::open(&location).unwrap();
        let options = Options::default();
        import::file(&capture, &options, &mut trace, &mut |_| true).unwrap();
        let trace = Trace::open(&location).unwrap();
        let session = Session::open(Origin::Stored(trace)).unwrap();
        let (schema, batches) = session.query("SELECT count(*) FROM packets").unwrap();
        let answer = Answer::of(&schema, &batches).unwrap();
        assert_eq!(answer.rows, [[7]], "{name}");
    }
}

#[test]
fn a_rebuilt_trace_is_counted_alike_with_and_without_tables() {
    for rebuilt in Rebuilt::ALL {
        let session = Session::open(Origin::Rebuilt(rebuilt)).unwrap();
        let by_sql = traffic::of(&session, Messages::Segments).unwrap();
        let alone = Traffic::rebuilt(rebuilt, Messages::Segments);
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            assert_eq!(by_sql.messages(protocol), alone.messages(protocol));
            assert_eq!(by_sql.bytes(protocol), alone.bytes(protocol));
        }
        assert_eq!(by_sql.stretches().len(), 64);
    }
}

#[test]
fn an_empty_trace_has_no_messages() {
    let room = Room::new();
    drop(Writable::open(&room.location()).unwrap());
    let none = traffic::of(&room.session(), Messages::Segments).unwrap();
    assert_eq!(none, Traffic::default());
}

#[test]
fn messages_of_the_capture_in_the_docs_take_at_most_13_bytes_each() {
    let room = Room::new();
    let mut capture = Vec::new();
    mixed::write(50, 100_000, &mut capture).unwrap();
    let path = room.file("mixed.pcap", &capture);
    let Ok(Outcome::Imported(source)) = room.import(&path) else {
        panic!("not imported");
    };
    assert_eq!(
        (source.counts.packets, source.counts.tcp.flows),
        (100_000, 50)
    );
    let each = source.stored.messages as f64 / source.counts.messages as f64;
    println!("{each:.2} bytes each");
    assert!(each <= 13.0, "{each}");
}
