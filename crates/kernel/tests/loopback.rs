//! The gates on the real kernel: every span of a round trip over loopback, and nothing that stays behind.
//!
//! Without gates these tests say why and leave themselves out.
#![cfg(feature = "bpf")]

#[cfg(target_arch = "x86_64")]
#[path = "../../qemu/tests/stock/mod.rs"]
mod stock;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tollgate_gate::{Gate, GateSet, JoinPlan, Recorded, TickScale, join};
use tollgate_kernel::{Gates, Joiner, Namespace, Plan, Traffic, Transfer, Watch, kernel_features};

const ROUND_TRIPS: u32 = 64;
/// The variable by which this program knows that it is the one to be killed.
const VICTIM: &str = "TOLLGATE_TEST_VICTIM";

/// Attached gates are seen by everybody, so the tests take turns.
static EXCLUSIVE: Mutex<()> = Mutex::new(());

/// Loaded gates, or the reason why there are none.
fn gates() -> Result<Gates, String> {
    let kernel_features = kernel_features();
    if let Some(reason) = kernel_features.tracepoints.reason() {
        return Err(reason.to_owned());
    }
    Gates::load(&Plan::choose(&kernel_features, Traffic::Others), 1 << 12)
        .map_err(|error| error.to_string())
}

macro_rules! gates_or_leave {
    () => {
        match gates() {
            Ok(gates) => gates,
            Err(reason) => {
                tollgate_skip::skipped!("{reason}");
                return;
            }
        }
    };
}

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// A client and a server that answers, for messages of `size` bytes.
struct Pair {
    stream: TcpStream,
    buffer: Vec<u8>,
    transfer: Transfer,
}

impl Pair {
    fn new(address: SocketAddr, size: usize) -> Self {
        Self::between(address, address.ip(), size)
    }

    /// A connection whose server may listen on more than the client connects to.
    fn between(listens: SocketAddr, to: IpAddr, size: usize) -> Self {
        let listener = TcpListener::bind(listens).unwrap();
        let address = SocketAddr::new(to, listener.local_addr().unwrap().port());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            tell.send(thread_id()).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut buffer = vec![0; size];
            while stream.read_exact(&mut buffer).is_ok() && stream.write_all(&buffer).is_ok() {}
        });
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: vec![0; size],
            transfer: Transfer {
                server_port: address.port(),
                client: thread_id(),
                server: told.recv().unwrap(),
                size: size as u32,
            },
        }
    }

    fn watch(&self) -> Watch {
        Watch {
            ports: vec![self.transfer.server_port],
            threads: vec![self.transfer.client, self.transfer.server],
            acknowledgments: false,
        }
    }

    fn run(&mut self) {
        for _ in 0..ROUND_TRIPS {
            self.stream.write_all(&self.buffer).unwrap();
            self.stream.read_exact(&mut self.buffer).unwrap();
        }
    }
}

fn every_span_is_seen(listens: SocketAddr, to: IpAddr) {
    let _exclusive = EXCLUSIVE.lock();
    let gates = gates_or_leave!();
    let table = gates.plan().table(GateSet::EMPTY).unwrap();
    for size in [4, 8_000, 100_000] {
        let mut pair = Pair::between(listens, to, size);
        gates.watch(&pair.watch()).unwrap();
        let mut joiner = Joiner::new(pair.transfer);
        let learn = gates
            .attach(
                GateSet::of(&[Gate::IpOutBegin, Gate::DeviceQueueIn]),
                &[Namespace::Own],
            )
            .unwrap();
        pair.run();
        joiner.tie(&gates.take().events);
        drop(learn);
        for span in table.spans() {
            let mut active = span.gates();
            if active.contains(Gate::ApplicationEnd) {
                active = active.with(Gate::SocketOutBegin);
            }
            let attached = gates.attach(active, &[Namespace::Own]).unwrap();
            pair.run();
            drop(attached);
            let taken = gates.take();
            assert_eq!(taken.lost, 0, "{size} {}", span.name);
            let tied = joiner.tie(&taken.events);
            let joined = join(
                [Recorded {
                    events: &tied.events,
                    lost: taken.lost,
                }],
                JoinPlan::new(span.gates(), TickScale::NANOSECONDS),
            );
            // A reader that did not sleep lacks its wakeup in the slice that begins with it, and the last message of a slice
            // its application; a retransmission, which a busy machine makes, is a passage of its own.
            let whole = u64::from(2 * ROUND_TRIPS);
            let stats = joined.stats;
            assert!(
                stats.passages >= whole - whole / 8 && stats.passages <= whole + whole / 8,
                "{size} {}: {stats:?} {:?}",
                span.name,
                tied.counts
            );
            assert!(
                stats.complete >= whole - whole / 8,
                "{size} {}: {stats:?} {:?}",
                span.name,
                tied.counts
            );
        }
    }
}

#[test]
fn every_span_of_a_round_trip_is_seen() {
    let address = Ipv4Addr::LOCALHOST;
    every_span_is_seen((address, 0).into(), address.into());
}

#[test]
fn the_same_holds_for_ipv6() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        tollgate_skip::skipped!("this machine has no IPv6 loopback");
        return;
    }
    let address = Ipv6Addr::LOCALHOST;
    every_span_is_seen((address, 0).into(), address.into());
}

/// The socket of a server that listens on `::` has its client's IPv4 address in IPv6's form, and the packets have it in their own.
#[test]
fn the_same_holds_for_a_socket_of_both_protocols() {
    if TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_err() {
        tollgate_skip::skipped!("this machine has no IPv6");
        return;
    }
    every_span_is_seen(
        (Ipv6Addr::UNSPECIFIED, 0).into(),
        Ipv4Addr::LOCALHOST.into(),
    );
}

#[test]
fn gates_attached_instead_of_others_are_all_that_record() {
    let _exclusive = EXCLUSIVE.lock();
    let gates = gates_or_leave!();
    let mut pair = Pair::new((Ipv4Addr::LOCALHOST, 0).into(), 64);
    gates.watch(&pair.watch()).unwrap();
    let mut attached = gates.attach(GateSet::EMPTY, &[Namespace::Own]).unwrap();
    let all = gates.plan().gates();
    let of = |wanted: fn(usize) -> bool| -> GateSet {
        let gates = all.iter().enumerate();
        gates
            .filter(|(at, gate)| wanted(*at) && *gate != Gate::ApplicationEnd)
            .map(|(_, gate)| gate)
            .collect()
    };
    // Some stay each time, some go, some come.
    let sets = [
        of(|at| at % 2 == 0),
        of(|at| at % 3 == 0),
        of(|at| at % 3 != 1),
        GateSet::EMPTY,
        all.without(Gate::ApplicationEnd),
    ];
    for set in sets {
        attached = gates
            .attach_instead(attached, set, &[Namespace::Own])
            .unwrap();
        assert_eq!(attached.gates(), set);
        // Those before may have seen the server's thread run once more after the last round trip.
        gates.take();
        pair.run();
        let seen: GateSet = gates
            .take()
            .events
            .iter()
            .map(|event| event.gate().unwrap())
            .collect();
        let own = gates.plan().own_calls();
        for gate in all
            .iter()
            .filter(|gate| *gate != Gate::ApplicationEnd && !own.contains(*gate))
        {
            assert_eq!(seen.contains(gate), set.contains(gate), "{}", gate.name());
        }
    }
}

#[test]
fn acknowledgments_are_seen_when_that_is_wanted() {
    let _exclusive = EXCLUSIVE.lock();
    let gates = gates_or_leave!();
    let mut pair = Pair::new((Ipv4Addr::LOCALHOST, 0).into(), 100_000);
    let mut counts = Vec::new();
    for acknowledgments in [false, true] {
        gates
            .watch(&Watch {
                acknowledgments,
                ..pair.watch()
            })
            .unwrap();
        let attached = gates
            .attach(GateSet::of(&[Gate::DeviceQueueIn]), &[Namespace::Own])
            .unwrap();
        pair.run();
        drop(attached);
        let events = gates.take().events;
        for event in &events {
            assert_eq!(event.is_acknowledgment(), event.len == 0);
        }
        let without = events.iter().filter(|event| event.is_acknowledgment());
        counts.push(without.count());
    }
    assert_eq!(counts[0], 0);
    assert!(counts[1] > 0);
}

#[test]
fn what_is_not_watched_or_not_attached_is_not_recorded() {
    let _exclusive = EXCLUSIVE.lock();
    let gates = gates_or_leave!();
    let mut watched = Pair::new((Ipv4Addr::LOCALHOST, 0).into(), 10);
    let mut other = Pair::new((Ipv4Addr::LOCALHOST, 0).into(), 10);
    gates
        .watch(&Watch {
            ports: vec![watched.transfer.server_port],
            ..Watch::default()
        })
        .unwrap();
    let attached = gates
        .attach(
            GateSet::of(&[Gate::DeviceQueueIn, Gate::ReaderRuns]),
            &[Namespace::Own],
        )
        .unwrap();
    watched.run();
    other.run();
    drop(attached);
    let seen = gates.take();
    assert_eq!(seen.events.len() as u32, 2 * ROUND_TRIPS);
    assert!(
        seen.events
            .iter()
            .all(|event| event.gate() == Some(Gate::DeviceQueueIn))
    );
    watched.run();
    assert_eq!(gates.take(), tollgate_kernel::Taken::default());
}

#[test]
fn what_finds_no_room_is_counted() {
    let _exclusive = EXCLUSIVE.lock();
    let gates = gates_or_leave!();
    let small = Gates::load(gates.plan(), 1).unwrap();
    let mut pair = Pair::new((Ipv4Addr::LOCALHOST, 0).into(), 10);
    small.watch(&pair.watch()).unwrap();
    let attached = small
        .attach(GateSet::of(&[Gate::DeviceQueueIn]), &[Namespace::Own])
        .unwrap();
    for _ in 0..8 {
        pair.run();
    }
    drop(attached);
    let taken = small.take();
    assert!(taken.lost > 0);
    assert_eq!(
        taken.events.len() as u64 + taken.lost,
        u64::from(2 * 8 * ROUND_TRIPS)
    );
}

/// In a process namespace of its own a thread has another number than programs see.
#[test]
fn threads_of_a_process_namespace_are_seen() {
    let _exclusive = EXCLUSIVE.lock();
    drop(gates_or_leave!());
    let run = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "every_span_of_a_round_trip_is_seen"])
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) => {
            tollgate_skip::skipped!("unshare: {error}");
            return;
        }
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.starts_with("unshare: ") {
        tollgate_skip::skipped!("{errors}");
        return;
    }
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}{errors}");
}

/// BPF programs of ours that the kernel has.
fn programs() -> usize {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| program.name.to_string_lossy() == "net_dev_queue")
        .count()
}

/// The child of the next test: attaches gates and waits to be killed.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let gates = gates().unwrap();
    let _attached = gates
        .attach(gates.plan().gates(), &[Namespace::Own])
        .unwrap();
    println!("attached");
    std::io::stdout().flush().unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_run_leaves_nothing_attached() {
    let _exclusive = EXCLUSIVE.lock();
    drop(gates_or_leave!());
    let before = programs();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let attached = out
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("attached"));
    assert!(attached, "the child ended before it had attached");
    assert!(programs() > before);
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel frees programs some time after the last one has let go of them.
    let deadline = Instant::now() + Duration::from_secs(20);
    while programs() > before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(programs(), before);
}

/// A kernel that lacks the newest hooks is seen as well: functions take their place.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_stock_kernel_is_seen_as_well() {
    stock::run_there(&[
        "every_span_of_a_round_trip_is_seen",
        "the_same_holds_for_ipv6",
        "what_is_not_watched_or_not_attached_is_not_recorded",
        "a_killed_run_leaves_nothing_attached",
    ]);
}
