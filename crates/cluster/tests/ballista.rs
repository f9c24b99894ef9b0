//! Queries on a Ballista cluster: a scheduler and two executors, each a process, as they are published.

#[path = "../../trace/src/craft.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the tests of the other crate use more of it"
)]
mod craft;
mod servers;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use servers::Server;
use tempfile::TempDir;
use tollgate_table::answer::Answer;
use tollgate_table::engine::Engine;
use tollgate_table::import::{self, Options};
use tollgate_table::place::Place;
use tollgate_table::prefix::{LOCAL, list};
use tollgate_table::session::{Origin, Session};
use tollgate_table::store::{Trace, Writable};
use tollgate_table::{flows, sizes};
use tollgate_wire::ipv4::{Header, protocol};

/// How long is waited between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A scheduler and two executors.
struct Cluster {
    scheduler: Server,
    executors: [Server; 2],
    _folders: [TempDir; 2],
}

impl Cluster {
    fn start() -> Self {
        let scheduler = Server::start(&["scheduler"]);
        let port = scheduler.port().to_string();
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let executors = [0, 1].map(|at: usize| {
            Server::start(&["executor", &port, folders[at].path().to_str().unwrap()])
        });
        let cluster = Self {
            scheduler,
            executors,
            _folders: folders,
        };
        while !cluster.is_ready() {
            thread::sleep(LOOK);
        }
        cluster
    }

    /// Whether both executors have told the scheduler of themselves.
    fn is_ready(&self) -> bool {
        let mut stream = TcpStream::connect(("127.0.0.1", self.scheduler.port())).unwrap();
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: scheduler\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.1 200")
    }

    fn engine(&self) -> Engine {
        let url = format!("ballista://127.0.0.1:{}", self.scheduler.port());
        url.parse().unwrap()
    }
}

/// A capture of datagrams: many flows between hosts of the site and some beyond, of many sizes.
fn capture(first: u32, packets: u32) -> Vec<u8> {
    let frames = (first..first + packets).map(|at| {
        let size = (at.wrapping_mul(2_654_435_761) >> 20) as usize % 1_400;
        let client = Ipv4Addr::new(10, 0, 0, (at % 200) as u8 + 1);
        let server = match at % 3 {
            0 => Ipv4Addr::new(172, 31, 0, 5),
            1 => Ipv4Addr::new(172, 32, 0, 5),
            _ => Ipv4Addr::new(203, 0, 113, 9),
        };
        let payload = craft::udp((2_000 + (at % 300) as u16, 53), size);
        let header = Header {
            header_len: 20,
            tos: 0,
            total_len: (20 + payload.len()) as u16,
            identification: 0,
            flags_and_offset: 0,
            ttl: 64,
            protocol: protocol::UDP,
            source: client,
            destination: server,
        };
        craft::ethernet(0x0800, &[&header.to_bytes()[..], &payload].concat())
    });
    craft::pcap(&frames.collect::<Vec<_>>())
}

/// A trace of two captures.
fn trace(folder: &Path, packets: u32) -> impl Fn() -> Origin {
    let into = Place::Folder(folder.join("trace"));
    let mut trace = Writable::open(&into).unwrap();
    for (name, first) in [("one.pcap", 0), ("two.pcap", packets)] {
        let path = folder.join(name);
        std::fs::write(&path, capture(first, packets)).unwrap();
        import::file(&path, &Options::default(), &mut trace, &mut |_| true).unwrap();
    }
    move || Origin::Stored(Trace::open(&into).unwrap())
}

fn asked(session: &Session, sql: &str) -> Answer {
    let (schema, batches) = session.query(sql).unwrap();
    Answer::of(&schema, &batches).unwrap()
}

#[test]
fn a_cluster_finds_what_this_machine_finds() {
    let folder = tempfile::tempdir().unwrap();
    let origin = trace(folder.path(), 3_000);
    let cluster = Cluster::start();
    let here = Session::open(origin()).unwrap();
    let there = Session::on(&cluster.engine(), origin()).unwrap();

    let local = list(LOCAL).unwrap();
    let found = sizes::of(&here, Some(&local)).unwrap();
    assert!(found.groups.len() >= 3, "LAN, WAN and all of it: {found:?}");
    assert_eq!(sizes::of(&there, Some(&local)).unwrap(), found);
    assert_eq!(
        sizes::of(&there, None).unwrap(),
        sizes::of(&here, None).unwrap()
    );
    assert_eq!(flows::of(&there).unwrap(), flows::of(&here).unwrap());

    for sql in [
        "SELECT * FROM messages ORDER BY time, flow LIMIT 100",
        "SELECT server, count(*) AS n, sum(size) AS octets FROM messages GROUP BY server ORDER BY server",
        "SELECT in_prefix(server, '172.16.0.0/12') AS inside, ending, count(*) FROM flows GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT f.server, max(p.size) FROM packets p JOIN flows f ON p.flow = f.flow GROUP BY 1 ORDER BY 1",
    ] {
        let found = asked(&here, sql);
        assert!(!found.rows.is_empty());
        assert_eq!(asked(&there, sql), found, "{sql}");
    }

    let error = there
        .query("SELECT nothing FROM messages")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("ballista://127.0.0.1:"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

/// Processor time of a process in clock ticks, hundredths of a second.
fn ticks(id: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    // Behind the name, which may hold anything: state, then numbers; utime and stime are the 14th and the 15th of all.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<&str> = rest.split(' ').collect();
    [11, 12]
        .map(|at: usize| fields[at].parse::<u64>().unwrap())
        .iter()
        .sum()
}

#[test]
fn an_executor_that_is_killed_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let origin = trace(folder.path(), 3_000);
    let mut cluster = Cluster::start();
    let here = Session::open(origin()).unwrap();
    let there = Session::on(&cluster.engine(), origin()).unwrap();
    // Each message with each: seconds of work.
    let sql = "SELECT a.server, count(*) AS pairs, sum(a.size + b.size) AS octets \
               FROM messages a JOIN messages b ON a.size < b.size GROUP BY a.server ORDER BY a.server";
    let expected = asked(&here, sql);

    let before: Vec<u64> = cluster
        .executors
        .iter()
        .map(|one| ticks(one.id()))
        .collect();
    let question = thread::spawn(move || asked(&there, sql));
    // The one that has worked for a while.
    let busy = loop {
        assert!(
            !question.is_finished(),
            "the query ended before an executor could be killed"
        );
        let mut worked = (0..2).filter(|at| ticks(cluster.executors[*at].id()) >= before[*at] + 50);
        if let Some(at) = worked.next() {
            break at;
        }
        thread::sleep(LOOK);
    };
    cluster.executors[busy].kill();
    assert!(!question.is_finished(), "it was killed in the middle");
    assert_eq!(question.join().unwrap(), expected);
}
