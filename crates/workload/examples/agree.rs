//! Waits in queues as the gates tell them, beside what the kernel's own trace events (tracefs) tell of the same packets in the same run:
//! in the queueing discipline of a device (net_dev_queue to net_dev_start_xmit, behind a token bucket), and in the softirq's queue
//! (netif_rx_entry to netif_receive_skb, and of it softirq_raise to softirq_entry).
//!
//! `make agree` runs it; it takes root, and tc of iproute2. Both write their own stamps at the same tracepoints, so what they disagree by
//! is what one of them gets wrong. Ends with 1 where they differ by more than 5 %. The trace goes to an instance of its own, which is
//! removed at the end, and the devices are those of `kernel-veth`, in namespaces that go with this process.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tollgate_gate::{Clock, Gate, GateSet, Source};
use tollgate_kernel::{Event, Gates, Namespace, Plan, Traffic, Watch, kernel_features};
use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
use tollgate_workload::{Session, Spec, find};

const TRACEFS: &str = "/sys/kernel/tracing";
/// Largest difference between the two.
const WITHIN: f64 = 0.05;
/// Bytes of a message: longer than any acknowledgment, so that the two can be told apart by their length.
const SIZE: usize = 1_000;
const ROUND_TRIPS: u64 = 1_000;
/// The client's device.
const QUEUED: &str = "tollgate0";
/// Queueing discipline of the device: slower than the ends send, so that packets wait.
const BUCKET: [&str; 7] = ["tbf", "rate", "40mbit", "burst", "1600", "latency", "100ms"];
/// NET_RX_SOFTIRQ of include/linux/interrupt.h.
const NET_RX: &str = "vec=3";

type Outcome<T> = Result<T, Box<dyn Error>>;

/// An instance of the kernel's tracing, removed when this is dropped.
struct Trace(PathBuf);

impl Trace {
    fn begin() -> Outcome<Self> {
        let instance =
            Path::new(TRACEFS).join(format!("instances/tollgate-{}", std::process::id()));
        fs::create_dir(&instance).map_err(|error| {
            format!(
                "{}: {error}; mount -t tracefs tracefs {TRACEFS}",
                instance.display()
            )
        })?;
        let trace = Self(instance);
        trace.set("trace_clock", "x86-tsc")?;
        trace.set("buffer_size_kb", "16384")?;
        for event in [
            "net/net_dev_queue",
            "net/net_dev_start_xmit",
            "net/netif_rx_entry",
            "net/netif_receive_skb",
            "irq/softirq_raise",
            "irq/softirq_entry",
        ] {
            trace.set(&format!("events/{event}/enable"), "1")?;
        }
        Ok(trace)
    }

    fn set(&self, file: &str, value: &str) -> Outcome<()> {
        let path = self.0.join(file);
        fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    fn on(&self, on: bool) -> Outcome<()> {
        if on {
            self.set("trace", "")?;
        }
        self.set("tracing_on", if on { "1" } else { "0" })
    }

    fn lines(&self) -> Outcome<Vec<Line>> {
        let text = fs::read_to_string(self.0.join("trace"))?;
        Ok(text.lines().filter_map(Line::parse).collect())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Nothing is left to be done about an instance that stays.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A line such as `tg-1 [000] ..... 123456: net_dev_queue: dev=tollgate0 skbaddr=00000000deadbeef len=1066`.
struct Line {
    cpu: String,
    ticks: u64,
    event: String,
    fields: String,
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let (head, rest) = line.split_once(": ")?;
        let (event, fields) = rest.split_once(": ")?;
        let cpu = head.split('[').nth(1)?.split(']').next()?;
        Some(Self {
            cpu: cpu.to_owned(),
            ticks: head.split_whitespace().last()?.parse().ok()?,
            event: event.trim().to_owned(),
            fields: fields.to_owned(),
        })
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .split_whitespace()
            .find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    }

    /// The skb of a message on one of our devices.
    fn skb(&self) -> Option<&str> {
        let ours = self.field("dev")?.starts_with("tollgate");
        let long = self.field("len")?.parse::<usize>().ok()? >= SIZE;
        (ours && long).then(|| self.field("skbaddr"))?
    }
}

/// Ticks from each event `from` to the next one `to` with the same key.
fn between<'a>(
    lines: &'a [Line],
    (from, to): (&str, &str),
    key: impl Fn(&'a Line) -> Option<&'a str>,
) -> Vec<f64> {
    let mut begun: HashMap<&str, u64> = HashMap::new();
    let mut waits = Vec::new();
    for line in lines {
        let Some(key) = key(line) else { continue };
        if line.event == from {
            begun.insert(key, line.ticks);
        } else if line.event == to
            && let Some(since) = begun.remove(key)
        {
            waits.push((line.ticks - since) as f64);
        }
    }
    waits
}

/// Nanoseconds from each passage of the gate `from` to that of `to` by the same bytes.
fn passages(events: &[Event], from: Gate, to: Gate) -> Vec<f64> {
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|event| event.ktime);
    let mut begun = HashMap::new();
    let mut waits = Vec::new();
    for event in events {
        let key = (event.flow(), event.seq);
        if event.gate() == Some(from) {
            begun.insert(key, event.ktime);
        } else if event.gate() == Some(to)
            && let Some(since) = begun.remove(&key)
        {
            waits.push((event.ktime - since) as f64);
        }
    }
    waits
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Tells whether an event is of what goes to this port.
fn goes_to(port: u16) -> impl Fn(&Event) -> bool {
    move |event| event.flow().is_some_and(|flow| flow.destination() == port)
}

/// Prints both figures; whether they agree.
fn compare(what: &str, gates: &[f64], trace: &[f64]) -> bool {
    let apart = |of: fn(&[f64]) -> f64| of(gates) / of(trace) - 1.0;
    println!("{what}");
    for (name, times) in [("gates", gates), ("tracefs", trace)] {
        println!(
            "  {name:<8} n {:>6}  mean {:>10.1} ns  median {:>10.1} ns",
            times.len(),
            mean(times),
            median(times)
        );
    }
    let (means, medians) = (apart(mean), apart(median));
    println!(
        "  apart    mean {:+.2} %, median {:+.2} %",
        100.0 * means,
        100.0 * medians
    );
    !gates.is_empty() && means.abs() <= WITHIN && medians.abs() <= WITHIN
}

/// Runs `tc` in the first of the session's namespaces.
fn queue_by(session: &dyn Session, discipline: &[&str]) -> Outcome<()> {
    let ends = session
        .kernel_ends()
        .ok_or("the session has no ends in the kernel")?;
    let namespace = *ends
        .namespaces
        .first()
        .ok_or("the session has no namespace")?;
    let arguments = ["qdisc", "replace", "dev", QUEUED, "root"];
    let output = std::thread::scope(|scope| {
        let run = || {
            move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?;
            Command::new("tc").args(arguments).args(discipline).output()
        };
        scope.spawn(run).join()
    });
    let output = output.map_err(|_| "the thread that runs tc has panicked")??;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("tc: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

fn run() -> Outcome<bool> {
    let Source::Tsc { hz } = Clock::calibrate().source() else {
        return Err(
            "this machine has no invariant TSC, in whose ticks the trace is stamped".into(),
        );
    };
    let ns = |ticks: Vec<f64>| -> Vec<f64> {
        ticks.iter().map(|ticks| ticks * 1e9 / hz as f64).collect()
    };
    let plan = Plan::choose(&kernel_features(), Traffic::Ours);
    let gates = Gates::load(&plan, 1 << 14)?;
    let mode = Mode {
        placement: Placement::OneCore,
        waiting: Waiting::Blocking,
    };
    let spec = Spec::new(Workload::Rr, SIZE).with_mode(mode.placement, mode.waiting);
    let path = find(PathId::KernelVeth).ok_or("there is no kernel-veth here")?;
    let mut session = path.open(&spec)?;
    queue_by(&*session, &BUCKET)?;
    let trace = Trace::begin()?;
    let active = GateSet::of(&[
        Gate::DeviceQueueIn,
        Gate::DriverOutBegin,
        Gate::DriverOutEnd,
        Gate::IpInBegin,
    ]);
    let (attached, port) = {
        let ends = session
            .kernel_ends()
            .ok_or("the session has no ends in the kernel")?;
        let port = ends
            .server_ports
            .first()
            .copied()
            .ok_or("the session has no port")?;
        gates.watch(&Watch {
            ports: ends.server_ports,
            ..Watch::default()
        })?;
        let namespaces: Vec<Namespace<'_>> = ends
            .namespaces
            .iter()
            .map(|&fd| Namespace::Of(fd))
            .collect();
        (gates.attach(active, &namespaces)?, port)
    };
    let mut samples = session.new_samples();
    trace.on(true)?;
    session.run(ROUND_TRIPS, &mut samples)?;
    trace.on(false)?;
    drop(attached);
    let taken = gates.take();
    let lines = trace.lines()?;
    println!(
        "{ROUND_TRIPS} round trips of {SIZE} bytes over kernel-veth, one way behind {}; {} events of gates lost",
        BUCKET.join(" "),
        taken.lost
    );
    // The other direction has no queue: its time there is that of the two tools themselves.
    let there: Vec<Event> = taken.events.iter().copied().filter(goes_to(port)).collect();
    let queue = compare(
        "In the queueing discipline, net_dev_queue to net_dev_start_xmit",
        &passages(&there, Gate::DeviceQueueIn, Gate::DriverOutBegin),
        &ns(between(
            &lines,
            ("net_dev_queue", "net_dev_start_xmit"),
            |line| line.skb().filter(|_| line.field("dev") == Some(QUEUED)),
        )),
    );
    let softirq = compare(
        "In the softirq's queue, netif_rx_entry to netif_receive_skb",
        &passages(&taken.events, Gate::DriverOutEnd, Gate::IpInBegin),
        &ns(between(
            &lines,
            ("netif_rx_entry", "netif_receive_skb"),
            Line::skb,
        )),
    );
    let raised = ns(between(
        &lines,
        ("softirq_raise", "softirq_entry"),
        |line| line.fields.contains(NET_RX).then_some(line.cpu.as_str()),
    ));
    println!(
        "  of it    softirq_raise to softirq_entry, by tracefs alone: n {}, median {:.1} ns",
        raised.len(),
        median(&raised)
    );
    Ok(queue && softirq && taken.lost == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            println!("They do not agree within {:.0} %.", 100.0 * WITHIN);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
