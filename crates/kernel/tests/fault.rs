//! Faults on the real kernel: a delay is on its side of the gate and in no other span, and goes when it is dropped.
//!
//! Without gates these tests say why and leave themselves out. A delay is a lower bound that no other program can break, and it is
//! some twenty times as long as the spans, so a busy machine does not decide.
#![cfg(feature = "bpf")]

#[cfg(target_arch = "x86_64")]
#[path = "../../qemu/tests/stock/mod.rs"]
mod stock;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use tollgate_gate::{Gate, GateSet};
use tollgate_kernel::{
    Error, Event, ExtraCost, Fault, FaultKind, Gates, Namespace, Plan, Side, Traffic, Watch,
    kernel_features,
};

const ROUND_TRIPS: u32 = 64;
/// Runs with a fault.
const RUNS: usize = 4;
const TIME: Duration = Duration::from_micros(60);
const DELAY: FaultKind = FaultKind::Delay(TIME);
/// Nanoseconds that a program has taken before it looks at the clock for the first time, at most.
const FILTER: u64 = 1_000;

/// Attached gates are seen by everybody, so the tests take turns.
static EXCLUSIVE: Mutex<()> = Mutex::new(());

/// Loaded gates, or the reason why there are none.
fn gates(traffic: Traffic, cost: ExtraCost) -> Result<Gates, String> {
    let kernel_features = kernel_features();
    if let Some(reason) = kernel_features.tracepoints.reason() {
        return Err(reason.to_owned());
    }
    let plan = Plan::choose(&kernel_features, traffic);
    Gates::load_with_extra_cost(&plan, 1 << 12, &cost).map_err(|error| error.to_string())
}

macro_rules! gates_or_leave {
    ($traffic:expr, $cost:expr) => {
        match gates($traffic, $cost) {
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

/// Both ends share the processor on which the test runs first, so that a reader sleeps before each message.
fn pin(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

/// A client and a server that answers.
struct Pair {
    stream: TcpStream,
    watch: Watch,
}

impl Pair {
    fn new() -> Self {
        let processor = rustix::thread::sched_getcpu();
        pin(processor);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            pin(processor);
            tell.send(thread_id()).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut buffer = [0; 64];
            while stream.read_exact(&mut buffer).is_ok() && stream.write_all(&buffer).is_ok() {}
        });
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let watch = Watch {
            ports: vec![address.port()],
            threads: vec![thread_id(), told.recv().unwrap()],
            acknowledgments: false,
        };
        Self { stream, watch }
    }

    fn run(&mut self) {
        let mut buffer = [0; 64];
        for _ in 0..ROUND_TRIPS {
            self.stream.write_all(&buffer).unwrap();
            self.stream.read_exact(&mut buffer).unwrap();
        }
    }
}

/// Nanoseconds from each passage of `from` to the next one of `to`.
fn spans(events: &[Event], from: Gate, to: Gate) -> Vec<u64> {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.ktime);
    let mut begun = None;
    let mut spans = Vec::new();
    for event in events {
        if event.gate() == Some(from) {
            begun = Some(event.ktime);
        } else if event.gate() == Some(to)
            && let Some(begun) = begun.take()
        {
            spans.push(event.ktime - begun);
        }
    }
    spans
}

/// The share of spans that hold the whole delay.
fn delayed(spans: &[u64]) -> f64 {
    // Both directions pass, but for a few at the ends of runs.
    let least = RUNS * ROUND_TRIPS as usize;
    assert!(spans.len() > least, "{} spans", spans.len());
    let long = TIME.as_nanos() as u64 - FILTER;
    let delayed = spans.iter().filter(|&&ns| ns >= long).count();
    delayed as f64 / spans.len() as f64
}

/// Tells whether all spans hold the delay, but for those at the ends of runs.
fn is_in(share: f64) -> bool {
    share > 0.95
}

/// Tells whether spans do not hold it: a few may take as long for other reasons.
fn is_not_in(share: f64) -> bool {
    share < 0.5
}

/// The gates that programs take, in the order in which a message passes them when both ends share a processor: the sender returns
/// before the reader runs.
fn in_order_of_time(gates: &Gates) -> Vec<Gate> {
    let mut order: Vec<Gate> = gates
        .plan()
        .boundaries()
        .iter()
        .filter(|boundary| !boundary.programs.is_empty() && boundary.gate != Gate::SocketOutEnd)
        .map(|boundary| boundary.gate)
        .collect();
    if gates.plan().hook(Gate::SocketOutEnd).is_some()
        && let Some(at) = order.iter().position(|&gate| gate == Gate::ReaderRuns)
    {
        order.insert(at, Gate::SocketOutEnd);
    }
    order
}

/// The shares of the spans before and behind `order[at]` that hold the delay, over several runs.
fn shares(
    order: &[Gate],
    at: usize,
    mut run: impl FnMut(GateSet, usize) -> Vec<Event>,
) -> (f64, f64) {
    let (n, gate) = (order.len(), order[at]);
    let (previous, next) = (order[(at + n - 1) % n], order[(at + 1) % n]);
    let set = GateSet::of(&[previous, gate, next]);
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    for number in 0..RUNS {
        let events = run(set, number);
        before.extend(spans(&events, previous, gate));
        behind.extend(spans(&events, gate, next));
    }
    (delayed(&before), delayed(&behind))
}

/// Descriptors of links and programs that this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| {
            let target = target.to_string_lossy();
            target.contains("bpf_link")
                || target.contains("bpf-link")
                || target.contains("bpf-prog")
        })
        .count()
}

#[test]
fn delay_is_in_the_span_on_its_side_of_every_hook() {
    let _exclusive = EXCLUSIVE.lock();
    let gates = gates_or_leave!(Traffic::Others, ExtraCost::default());
    let mut pair = Pair::new();
    gates.watch(&pair.watch).unwrap();
    let order = in_order_of_time(&gates);
    assert!(order.len() > 3, "{order:?}");
    for (at, &gate) in order.iter().enumerate() {
        for side in [Side::Before, Side::Behind] {
            let fault = Fault {
                gate,
                side,
                kind: DELAY,
            };
            let inject = || gates.inject(fault, &[Namespace::Own]);
            let (before, behind) = shares(&order, at, |set, run| {
                let open = descriptors();
                // Gates are attached again and again while a fault stays.
                let mut injected = None;
                if run % 2 == 0 {
                    injected = Some(inject().unwrap());
                }
                let mut attached = Some(gates.attach(set, &[Namespace::Own]).unwrap());
                if injected.is_none() {
                    injected = Some(inject().unwrap_or_else(|error| {
                        assert!(matches!(error, Error::Order { .. }), "{error}");
                        drop(attached.take());
                        let injected = inject().unwrap();
                        attached = Some(gates.attach(set, &[Namespace::Own]).unwrap());
                        injected
                    }));
                }
                assert!(attached.is_some());
                pair.run();
                if let Some(injected) = &injected {
                    let runs = injected.runs();
                    assert!(runs >= u64::from(ROUND_TRIPS), "{fault:?}: {runs}");
                }
                drop((injected, attached));
                assert_eq!(descriptors(), open, "{fault:?}");
                gates.take().events
            });
            println!(
                "{:16} {side:?}: in {before:.2} of the spans before, {behind:.2} behind",
                gate.name()
            );
            let (its, other) = match side {
                Side::Before => (before, behind),
                Side::Behind => (behind, before),
            };
            assert!(is_in(its), "{fault:?}: {before} {behind}");
            assert!(is_not_in(other), "{fault:?}: {before} {behind}");
        }
    }
}

#[test]
fn fault_needs_no_gate_and_leaves_nothing() {
    let _exclusive = EXCLUSIVE.lock();
    let gates = gates_or_leave!(Traffic::Others, ExtraCost::default());
    let mut pair = Pair::new();
    let mut other = Pair::new();
    gates.watch(&pair.watch).unwrap();
    let open = descriptors();
    for kind in [DELAY, FaultKind::Touch32KiB] {
        for gate in [Gate::DeviceQueueIn, Gate::IpOutBegin] {
            let fault = Fault {
                gate,
                side: Side::Behind,
                kind,
            };
            let injected = gates.inject(fault, &[Namespace::Own]).unwrap();
            assert!(descriptors() > open);
            pair.run();
            assert_eq!(injected.runs(), u64::from(2 * ROUND_TRIPS), "{fault:?}");
            other.run();
            assert_eq!(injected.runs(), u64::from(2 * ROUND_TRIPS), "{fault:?}");
            drop(injected);
            assert_eq!(descriptors(), open, "{fault:?}");
        }
    }
    assert_eq!(gates.take(), tollgate_kernel::Taken::default());
}

#[test]
fn order_that_cannot_be_had_is_an_error() {
    let _exclusive = EXCLUSIVE.lock();
    let gates = gates_or_leave!(Traffic::Ours, ExtraCost::default());
    let fault = |gate, side, kind| gates.inject(Fault { gate, side, kind }, &[Namespace::Own]);
    let open = descriptors();
    let attached = gates
        .attach(GateSet::of(&[Gate::DeviceQueueIn]), &[Namespace::Own])
        .unwrap();
    let outcome = fault(Gate::DeviceQueueIn, Side::Before, DELAY);
    assert!(matches!(outcome, Err(Error::Order { .. })), "{outcome:?}");
    drop(attached);
    fault(Gate::DeviceQueueIn, Side::Before, DELAY).unwrap();
    for (gate, possible, impossible) in [
        (Gate::SocketOutBegin, Side::Behind, Side::Before),
        (Gate::SocketOutEnd, Side::Before, Side::Behind),
        (Gate::SocketInEnd, Side::Before, Side::Behind),
    ] {
        let attached = gates.attach(GateSet::of(&[gate]), &[Namespace::Own]);
        fault(gate, possible, DELAY).unwrap();
        drop(attached.unwrap());
        let outcome = fault(gate, impossible, DELAY);
        assert!(matches!(outcome, Err(Error::Order { .. })), "{outcome:?}");
    }
    let long = FaultKind::Delay(Duration::from_millis(2));
    let outcome = fault(Gate::DeviceQueueIn, Side::Behind, long);
    assert!(matches!(outcome, Err(Error::TooMany { .. })), "{outcome:?}");
    assert_eq!(descriptors(), open);
}

#[test]
fn extra_cost_of_gates_is_before_or_behind_their_stamps() {
    let _exclusive = EXCLUSIVE.lock();
    let plain = gates_or_leave!(Traffic::Others, ExtraCost::default());
    let order = in_order_of_time(&plain);
    let mut pair = Pair::new();
    plain.watch(&pair.watch).unwrap();
    let at = order
        .iter()
        .position(|&gate| gate == Gate::DeviceQueueIn)
        .unwrap();
    let gate = GateSet::of(&[Gate::DeviceQueueIn]);
    let zero = ExtraCost::default();
    for (side, cost) in [
        (None, zero),
        (
            None,
            ExtraCost {
                touches_32_kib: true,
                ..zero
            },
        ),
        (
            Some(Side::Before),
            ExtraCost {
                before: TIME,
                ..zero
            },
        ),
        (
            Some(Side::Behind),
            ExtraCost {
                behind: TIME,
                ..zero
            },
        ),
    ] {
        let dear = gates(Traffic::Others, cost).unwrap();
        dear.watch(&pair.watch).unwrap();
        let (before, behind) = shares(&order, at, |set, _| {
            let around = set.iter().filter(|&other| !gate.contains(other)).collect();
            let attached = [
                plain.attach(around, &[Namespace::Own]).unwrap(),
                dear.attach(gate, &[Namespace::Own]).unwrap(),
            ];
            pair.run();
            drop(attached);
            [plain.take().events, dear.take().events].concat()
        });
        println!("{cost:?}: in {before:.2} of the spans before, {behind:.2} behind");
        let expected = (side == Some(Side::Before), side == Some(Side::Behind));
        assert_eq!((is_in(before), is_in(behind)), expected, "{cost:?}");
        assert_eq!(
            (is_not_in(before), is_not_in(behind)),
            (!expected.0, !expected.1),
            "{cost:?}"
        );
    }
}

/// A kernel where functions take the place of the newest hooks takes faults as well. Its processor is emulated, so no
/// time is compared.
#[cfg(target_arch = "x86_64")]
#[test]
fn stock_kernel_takes_faults_as_well() {
    stock::run_there(&[
        "fault_needs_no_gate_and_leaves_nothing",
        "order_that_cannot_be_had_is_an_error",
    ]);
}
