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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use servers::Server;
use tempfile::TempDir;
use tollgate_experiment::context::Cancel;
use tollgate_table::answer::Answer;
use tollgate_table::cluster::{QueryEvent, Watch};
use tollgate_table::engine::Engine;
use tollgate_table::import::{self, Options};
use tollgate_table::location::Location;
use tollgate_table::prefix::{LOCAL, list};
use tollgate_table::session::{Origin, Session};
use tollgate_table::store::{Trace, Writable};
use tollgate_table::{Error, flows, sizes};
use tollgate_wire::ipv4::{Header, protocol};

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Polls after which a server does not start any more. They are counted and not timed: a busy machine takes longer for them.
const POLLS: u32 = 3_000;

static ONE: Mutex<()> = Mutex::new(());

/// A scheduler and its executors.
struct Cluster {
    scheduler: Server,
    executors: Vec<Server>,
    _folders: Vec<TempDir>,
    /// Two clusters at once would take each other's processors, and executors that wait for one look lost. The last to go.
    _alone: MutexGuard<'static, ()>,
}

/// Waits for the start of a server.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..POLLS {
        if holds() {
            return;
        }
        thread::sleep(POLL_INTERVAL);
    }
    panic!("it never came that {what}");
}

impl Cluster {
    fn start(policy: &str, executors: usize) -> Self {
        // Whether a test before failed is no matter.
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let scheduler = Server::start(&["scheduler", policy, &executors.to_string()]);
        let port = scheduler.port().to_string();
        let folders: Vec<TempDir> = (0..executors)
            .map(|_| tempfile::tempdir().unwrap())
            .collect();
        let started = folders.iter().map(|folder| {
            let folder = folder.path().to_str().unwrap();
            let executor = Server::start(&["executor", policy, &port, folder]);
            // It names its port before it binds it, and another one could be given the same.
            let address = ("127.0.0.1", executor.port());
            wait_until("an executor listens", || {
                TcpStream::connect(address).is_ok()
            });
            executor
        });
        let cluster = Self {
            _alone: alone,
            scheduler,
            executors: started.collect(),
            _folders: folders,
        };
        wait_until("all executors are registered", || {
            cluster.asked("/readyz").starts_with("HTTP/1.1 200")
        });
        cluster
    }

    /// Answer of the scheduler to a request by HTTP.
    fn asked(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.scheduler.port())).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: scheduler\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Waits until no job runs; whether the one that there was has been cancelled.
    fn job_was_cancelled(&self) -> bool {
        loop {
            let jobs = self.asked("/api/jobs");
            if !jobs.contains("\"status\":\"Running\"") && !jobs.contains("\"status\":\"Queued\"") {
                return jobs.contains("Cancelled");
            }
            thread::sleep(POLL_INTERVAL);
        }
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
    let into = Location::Folder(folder.join("trace"));
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
    let cluster = Cluster::start("push-staged", 2);
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
        "SELECT server, count(*) AS n, sum(size) AS bytes FROM messages GROUP BY server ORDER BY server",
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
    let mut cluster = Cluster::start("pull-staged", 2);
    let here = Session::open(origin()).unwrap();
    let there = Session::on(&cluster.engine(), origin()).unwrap();
    // Each message with each: seconds of work.
    let sql = "SELECT a.server, count(*) AS pairs, sum(a.size + b.size) AS bytes \
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
        thread::sleep(POLL_INTERVAL);
    };
    cluster.executors[busy].kill();
    assert!(!question.is_finished(), "it was killed in the middle");
    assert_eq!(question.join().unwrap(), expected);
}

/// A query of three shuffles: by flow, by connection, by server.
const SHUFFLED: &str = "\
    WITH each AS (\
        SELECT m.server, m.client, m.client_port, count(*) AS n, sum(p.size) AS bytes \
        FROM messages m JOIN packets p ON m.flow = p.flow GROUP BY 1, 2, 3) \
    SELECT server, n, count(*) AS clients, sum(bytes) AS bytes FROM each GROUP BY server, n ORDER BY server, n";
/// One that reads both tables.
const COUNTED: &str = "SELECT (SELECT sum(size) FROM messages), (SELECT sum(size) FROM packets)";
/// Packets of each capture: enough that the query takes a second.
const PACKETS: u32 = 12_000;
/// Longest time without progress before a query counts as stuck: longer than a query takes whose executors are there.
const LIMIT: Duration = Duration::from_secs(10);

/// Outcome of a query while one of its executors is killed.
#[derive(Debug, PartialEq)]
enum Ending {
    Equal,
    Failed(String),
}

/// Asks, kills an executor after this share of the time that the query takes undisturbed, and waits for the end.
fn killed(
    policy: &str,
    origin: Origin,
    after: Duration,
    which: usize,
    expected: &Answer,
) -> Ending {
    let mut cluster = Cluster::start(policy, 2);
    let watch = Watch {
        limit: LIMIT,
        ..Watch::default()
    };
    let there = Session::watched(&cluster.engine(), origin, watch).unwrap();
    // As the undisturbed one, it finds executors that have read the files before.
    assert_eq!(asked(&there, COUNTED).rows.len(), 1);
    let question = thread::spawn(move || there.query(SHUFFLED));
    thread::sleep(after);
    cluster.executors[which].kill();
    match question.join().unwrap() {
        Ok((schema, batches)) => {
            assert_eq!(Answer::of(&schema, &batches).unwrap(), *expected);
            Ending::Equal
        }
        Err(error) => Ending::Failed(error.to_string()),
    }
}

/// Kills an executor at these tenths of a query.
fn killed_at(policy: &str, tenths: impl Iterator<Item = u32>) -> Vec<Ending> {
    let folder = tempfile::tempdir().unwrap();
    let origin = trace(folder.path(), PACKETS);
    let expected = asked(&Session::open(origin()).unwrap(), SHUFFLED);
    let whole = {
        let cluster = Cluster::start(policy, 2);
        let there = Session::on(&cluster.engine(), origin()).unwrap();
        assert_eq!(asked(&there, COUNTED).rows.len(), 1);
        let begun = Instant::now();
        assert_eq!(asked(&there, SHUFFLED), expected);
        begun.elapsed()
    };
    let endings = tenths.map(|at| {
        let begun = Instant::now();
        let after = whole * at / 10;
        let ending = killed(policy, origin(), after, at as usize % 2, &expected);
        println!(
            "{policy}, killed after {at}/10 of {whole:?}: {ending:?} in {:?}",
            begun.elapsed()
        );
        ending
    });
    endings.collect()
}

#[test]
fn an_executor_killed_at_each_of_ten_moments_ends_the_query() {
    // Executors that ask for their tasks are never booked for those that are no more.
    for ending in killed_at("pull-staged", 0..10) {
        assert_eq!(ending, Ending::Equal);
    }
}

#[test]
fn an_executor_killed_under_push_staged_scheduling_ends_the_query_too() {
    for ending in killed_at("push-staged", (1..10).step_by(2)) {
        let Ending::Failed(line) = ending else {
            continue;
        };
        assert!(line.contains("lost"), "{line}");
        assert!(line.contains("pull-staged scheduling"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn a_cluster_without_executors_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let origin = trace(folder.path(), 100);
    let cluster = Cluster::start("pull-staged", 0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let watch = Watch {
        limit: Duration::from_secs(2),
        on_event: Box::new(move |one| told.lock().unwrap().push(one.clone())),
        ..Watch::default()
    };
    let there = Session::watched(&cluster.engine(), origin(), watch).unwrap();
    let error = there.query("SELECT count(*) FROM packets").unwrap_err();
    assert!(matches!(error, Error::NoExecutors { .. }), "{error}");
    let line = error.to_string();
    assert!(
        line.contains("no executor was registered for 2 s; start ballista-executor"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1, "{line}");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.last(), Some(&QueryEvent::Ended));
    assert!(seen.iter().all(|told| match told {
        QueryEvent::Progress(now) => now.stages() == "no executor is registered; waiting for one",
        _ => true,
    }));
    assert!(cluster.job_was_cancelled());
}

#[test]
fn an_executor_that_ended_before_the_query_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let origin = trace(folder.path(), 100);
    let mut cluster = Cluster::start("pull-staged", 1);
    cluster.executors[0].kill();
    let watch = Watch {
        limit: Duration::from_secs(3),
        ..Watch::default()
    };
    // The scheduler has it registered for half a minute more.
    let there = Session::watched(&cluster.engine(), origin(), watch).unwrap();
    let error = there.query("SELECT count(*) FROM packets").unwrap_err();
    let line = error.to_string();
    assert!(matches!(error, Error::Stalled { .. }), "{line}");
    assert!(line.contains(" cannot be reached; 0 of "), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn a_query_that_the_user_stops_is_cancelled_at_the_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let origin = trace(folder.path(), PACKETS);
    let cluster = Cluster::start("pull-staged", 2);
    let cancel = Cancel::default();
    let raised = cancel.clone();
    let watch = Watch {
        cancel,
        // As soon as something runs.
        on_event: Box::new(move |told| {
            if matches!(told, QueryEvent::Progress(now) if now.tasks_running > 0) {
                raised.raise();
            }
        }),
        ..Watch::default()
    };
    let there = Session::watched(&cluster.engine(), origin(), watch).unwrap();
    let sql = "SELECT a.server, count(*) FROM messages a JOIN messages b ON a.size < b.size GROUP BY a.server";
    let error = there.query(sql).unwrap_err();
    assert!(matches!(error, Error::Interrupted(_)), "{error}");
    assert!(cluster.job_was_cancelled());
}

#[test]
fn files_that_the_scheduler_does_not_find_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let origin = trace(folder.path(), 100);
    let cluster = Cluster::start("pull-staged", 2);
    let there = Session::on(&cluster.engine(), origin()).unwrap();
    std::fs::remove_dir_all(folder.path().join("trace")).unwrap();
    let error = there.query("SELECT max(size) FROM packets").unwrap_err();
    assert!(
        matches!(
            error,
            Error::Unseen {
                found: 0,
                held: 200,
                ..
            }
        ),
        "{error}"
    );
    let line = error.to_string();
    assert!(line.ends_with("under the same absolute path"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}
