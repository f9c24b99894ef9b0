//! Coverage: the share of a workload's traffic that the kernel's gates trace end to end. All gates are attached at once, and every
//! message and segment is looked for at each of them.
//!
//! The sent messages are known, since this program sends them. A message or a segment is traced when every gate of its path has
//! recorded it. This module owns the measurement; it must never give a time that could be taken for that of a path without gates.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use tollgate_gate::{Gate, GateSet, JoinPlan, Passage, Recorded, SpanTable, TickScale, join};
use tollgate_kernel::join::per_packet::{Leg, PacketJoiner, SegmentOrMessage, SliceMessages};
use tollgate_kernel::{Event, Gates, Plan, Taken, Traffic, Watch, kernel_features, watch::ROOM};
use tollgate_run::{Mode, Offload, PathId, Waiting, Workload};
use tollgate_workload::per_packet::SEGMENT;
use tollgate_workload::{Session, Sockets, Spec, find};

use crate::context::{Context, Options};
use crate::control::between_slices;
use crate::error::Error;

/// Gates whose events name the bytes that pass. Those of threads are left out: a stream's calls are no messages to them.
const NAMED: GateSet = GateSet::of(&[
    Gate::TcpOutBegin,
    Gate::IpOutBegin,
    Gate::DeviceQueueIn,
    Gate::DriverOutBegin,
    Gate::DriverOutEnd,
    Gate::IpInBegin,
    Gate::DemuxBegin,
    Gate::TcpInBegin,
    Gate::SocketQueued,
    Gate::SocketInBegin,
]);
/// Payload of a full segment on loopback: the longest packet of IPv4 less its header (20), TCP's (20) and TCP's timestamps (12).
const LOOPBACK_SEGMENT: u32 = 65_535 - 52;
/// Messages of a cell, unless the options say otherwise.
const MESSAGES: u64 = 4_000;
/// The most messages of a slice.
const MOST_IN_A_SLICE: u64 = 256;
/// Round trips that a slice makes before those that are timed; they are messages as good as the others.
const WARM_UP: u32 = 1;

/// One way in which a workload is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) path: PathId,
    pub(crate) offload: Offload,
    pub(crate) mode: Mode,
}

impl Carried {
    /// Its name in tables.
    pub(crate) fn label(&self) -> String {
        let offload = match (self.path, self.offload) {
            (PathId::KernelVeth, Offload::Usual) => ", TSO",
            (PathId::KernelVeth, Offload::Both) => ", TSO and GRO",
            (PathId::KernelVeth, Offload::Checksum) => ", segments alone",
            _ => "",
        };
        format!("{}{offload}, {}", self.path, self.mode)
    }

    /// Bytes of a full segment.
    pub(crate) fn segment(&self) -> u32 {
        match self.path {
            PathId::KernelVeth => SEGMENT as u32,
            _ => LOOPBACK_SEGMENT,
        }
    }

    /// Of these gates those that packets pass. A veth device with GRO hands them to NAPI, and nobody calls netif_rx
    /// (drivers/net/veth.c, veth_forward_skb).
    fn passed(&self, gates: GateSet) -> GateSet {
        match self.offload {
            Offload::Both => gates.without(Gate::DriverOutEnd),
            Offload::Usual | Offload::Checksum | Offload::Neither => gates,
        }
    }
}

/// Numbers of what was sent, and of what was recorded at every gate of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) sent: u64,
    pub(crate) traced: u64,
}

impl Share {
    /// The share that was traced; none when nothing was sent.
    pub(crate) fn of_one(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.traced as f64 / self.sent as f64)
    }

    fn merge(&mut self, other: Self) {
        self.sent += other.sent;
        self.traced += other.traced;
    }
}

/// Coverage of a workload at one size.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellCoverage {
    pub(crate) messages: Share,
    pub(crate) segments: Share,
    /// Events that were read.
    pub(crate) events: u64,
    /// Events that found no room.
    pub(crate) lost: u64,
    /// Events that belong to no message.
    pub(crate) unmatched: u64,
    /// Events of listening sockets, which are told of connections and carry no byte.
    pub(crate) listening: u64,
    /// Passages of a gate that the message or segment had passed before: mostly retransmissions.
    pub(crate) repeated: u64,
    /// Pieces of more than one segment at a gate, and the segments in them.
    pub(crate) joint: (u64, u64),
    /// By gate, the messages and segments that were sent and not seen there.
    pub(crate) missed: BTreeMap<Gate, u64>,
    /// By span of the row's table, the nanoseconds of each message.
    pub(crate) spans: Vec<Vec<f64>>,
}

/// One way of carrying, at every size.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) carried: Carried,
    /// The spans between the gates that it passes.
    pub(crate) table: SpanTable,
    /// In the order of the sizes; the reason where it failed.
    pub(crate) sizes: Vec<Result<CellCoverage, String>>,
}

/// Coverage of a workload, by path, mode and size.
#[derive(Debug, Clone)]
pub(crate) struct Coverage {
    pub(crate) rows: Vec<Row>,
    /// Gates that this kernel has no hook for.
    pub(crate) unresolved: Vec<(Gate, String)>,
    pub(crate) stopped: bool,
}

/// The ways in which the options want a workload carried.
pub(crate) fn ways(workload: Workload, options: &Options) -> Vec<Carried> {
    let paths = [PathId::KernelLoopback, PathId::KernelVeth];
    let mut ways = Vec::new();
    for path in paths.into_iter().filter(|&path| options.wants(path)) {
        let Some(found) = find(path) else { continue };
        let capabilities = found.capabilities();
        let offloads: &[Offload] = match (path, workload) {
            (PathId::KernelVeth, Workload::Crr | Workload::Stream) => {
                &[Offload::Usual, Offload::Both, Offload::Checksum]
            }
            _ => &[Offload::Usual],
        };
        for mode in options.modes(&capabilities) {
            // A reader that polls is seen no otherwise; who wants it asks for it.
            if mode.waiting == Waiting::BusyPoll && options.waiting.is_none() {
                continue;
            }
            ways.extend(offloads.iter().map(|&offload| Carried {
                path,
                offload,
                mode,
            }));
        }
    }
    ways
}

/// Runs the workload in every way and at every size.
///
/// # Errors
/// [`Error::NothingToRun`] when no path fits, [`Error::NothingMeasured`] when the kernel allows no gates.
pub(crate) fn run(
    experiment: &'static str,
    workload: Workload,
    sizes: &[usize],
    context: &Context<'_>,
) -> Result<Coverage, Error> {
    let ways = ways(workload, &context.options);
    if ways.is_empty() {
        return Err(Error::NothingToRun {
            workload,
            asked: context.options.restrictions(),
        });
    }
    let refused = |reason: String| Error::NothingMeasured { experiment, reason };
    let kernel_features = kernel_features();
    let plan = Plan::choose(&kernel_features, Traffic::Ours);
    let active: GateSet = plan
        .gates()
        .iter()
        .filter(|&gate| NAMED.contains(gate))
        .collect();
    if !plan.has_programs() || active.len() < 2 {
        let reason = kernel_features
            .types
            .reason()
            .or(kernel_features.tracepoints.reason());
        return Err(refused(
            reason
                .unwrap_or("this kernel has fewer than two of the hooks")
                .to_owned(),
        ));
    }
    let gates = Gates::load(&plan, ROOM).map_err(|error| refused(error.to_string()))?;
    let mut coverage = Coverage {
        rows: Vec::new(),
        unresolved: plan
            .boundaries()
            .iter()
            .filter(|boundary| boundary.hook.is_none() && NAMED.contains(boundary.gate))
            .map(|boundary| {
                let reasons: Vec<&str> = boundary
                    .missed
                    .iter()
                    .map(|(_, reason)| reason.as_str())
                    .collect();
                (boundary.gate, reasons.join("; "))
            })
            .collect(),
        stopped: false,
    };
    let mut cells_left = (ways.len() * sizes.len()) as u32;
    for carried in ways {
        let passed = carried.passed(active);
        let Some(table) = tollgate_gate::KERNEL.joined(passed) else {
            continue;
        };
        let mut row = Row {
            carried,
            table,
            sizes: Vec::new(),
        };
        for &size in sizes {
            if context.cancel.is_raised() {
                coverage.stopped = true;
                break;
            }
            let left = context.remaining().unwrap_or_default();
            between_slices(
                context,
                &format!("{}, {}", carried.label(), tollgate_run::format::size(size)),
                left,
            );
            let until = context.remaining().map(|left| left / cells_left.max(1));
            cells_left = cells_left.saturating_sub(1);
            let cell = Cell {
                gates: &gates,
                carried,
                passed,
                table,
                wanted: context.options.iterations.unwrap_or(MESSAGES),
                until,
                nagle: context.options.nagle(),
            };
            row.sizes.push(cell.run(workload, size));
        }
        coverage.rows.push(row);
    }
    let first_reason = coverage
        .rows
        .iter()
        .flat_map(|row| &row.sizes)
        .find_map(|cell_coverage| cell_coverage.as_ref().err());
    if coverage
        .rows
        .iter()
        .all(|row| row.sizes.iter().all(Result::is_err))
    {
        return Err(first_reason.map_or(Error::Stopped, |reason| refused(reason.clone())));
    }
    Ok(coverage)
}

/// One way at one size.
struct Cell<'a> {
    gates: &'a Gates,
    carried: Carried,
    passed: GateSet,
    table: SpanTable,
    /// Messages, at least.
    wanted: u64,
    /// The time after which no further slice begins.
    until: Option<Duration>,
    nagle: bool,
}

impl Cell<'_> {
    fn run(&self, workload: Workload, size: usize) -> Result<CellCoverage, String> {
        let begun = Instant::now();
        let mode = self.carried.mode;
        let spec = Spec {
            warmup: WARM_UP,
            ..Spec::new(workload, size).with_mode(mode.placement, mode.waiting)
        }
        .with_nagle(self.nagle)
        .over(Sockets {
            offload: self.carried.offload,
            ..Sockets::PLAIN
        });
        let path = find(self.carried.path)
            .ok_or_else(|| format!("{} cannot be opened here", self.carried.path))?;
        let mut session = path.open(&spec).map_err(|error| error.to_string())?;
        let transfer = Transfer::of(workload, size, self.carried.segment());
        let most = transfer.messages_that_fit(self.passed.len());
        let mut cell_coverage = CellCoverage {
            spans: vec![Vec::new(); self.table.spans().len()],
            ..CellCoverage::default()
        };
        while cell_coverage.messages.sent < self.wanted.max(1) {
            let over = self.until.is_some_and(|until| begun.elapsed() >= until);
            if over && cell_coverage.messages.sent > 0 {
                break;
            }
            let left =
                (self.wanted - cell_coverage.messages.sent).div_ceil(transfer.legs().len() as u64);
            let iterations = left.clamp(1, most);
            let (taken, ports) = self.slice(&mut *session, iterations)?;
            transfer.count_traced(
                &taken,
                &ports,
                transfer.messages_of(iterations),
                self,
                &mut cell_coverage,
            );
        }
        Ok(cell_coverage)
    }

    /// A slice with all gates.
    fn slice(
        &self,
        session: &mut dyn Session,
        iterations: u64,
    ) -> Result<(Taken, Vec<u16>), String> {
        let mut samples = session.new_samples();
        let nothing = || format!("the kernel carries nothing of {}", self.carried.path);
        let (attached, ports) = {
            let ends = session.kernel_ends().ok_or_else(nothing)?;
            let watch = Watch {
                ports: ends.server_ports.clone(),
                ..Watch::default()
            };
            self.gates
                .watch(&watch)
                .map_err(|error| error.to_string())?;
            let attached = self.gates.attach(self.passed, &ends.networks());
            (
                attached.map_err(|error| error.to_string())?,
                ends.server_ports,
            )
        };
        let outcome = session.run(iterations, &mut samples);
        drop(attached);
        let taken = self.gates.take();
        outcome.map_err(|error| error.to_string())?;
        Ok((taken, ports))
    }
}

/// Messages that the two ends exchange in a slice.
#[derive(Debug, Clone, Copy)]
struct Transfer {
    workload: Workload,
    size: u32,
    segment: u32,
}

impl Transfer {
    fn of(workload: Workload, size: usize, segment: u32) -> Self {
        Self {
            workload,
            // A spec has at most 1 MiB.
            size: u32::try_from(size).unwrap_or(u32::MAX),
            segment,
        }
    }

    /// The directions that carry messages. The byte that ends a slice of a stream is none.
    const fn legs(&self) -> &'static [Leg] {
        match self.workload {
            Workload::Rr | Workload::Crr => &[Leg::Request, Leg::Response],
            Workload::Stream => &[Leg::Request],
        }
    }

    /// Iterations of a slice whose events fit into half of a processor's room, since all may be of one.
    fn messages_that_fit(&self, gates: usize) -> u64 {
        let segments = u64::from(self.size.div_ceil(self.segment));
        let events = gates as u64 * (segments + 1) * self.legs().len() as u64;
        (u64::from(ROOM) / 2 / events).clamp(1, MOST_IN_A_SLICE)
    }

    /// Messages of each leg in a slice of so many iterations.
    fn messages_of(&self, iterations: u64) -> u32 {
        let warm_up = match self.workload {
            Workload::Rr | Workload::Crr => WARM_UP,
            Workload::Stream => 0,
        };
        iterations as u32 + warm_up
    }

    /// Finds what was sent in a slice among its events.
    fn count_traced(
        &self,
        taken: &Taken,
        ports: &[u16],
        messages: u32,
        cell: &Cell<'_>,
        cell_coverage: &mut CellCoverage,
    ) {
        // On a connection of crr there is one message each way.
        let (each, connections) = match self.workload {
            Workload::Rr | Workload::Stream => (messages, 1),
            Workload::Crr => (1, messages),
        };
        let exchange = SliceMessages {
            messages: each,
            request: self.size,
            response: self.size,
            segment: self.segment,
        };
        let legs = self.legs();
        let sent = u64::from(messages) * legs.len() as u64;
        let segments = u64::from(exchange.segments(Leg::Request));
        cell_coverage.messages.merge(Share { sent, traced: 0 });
        cell_coverage.segments.merge(Share {
            sent: sent * segments,
            traced: 0,
        });
        cell_coverage.events += taken.events.len() as u64;
        cell_coverage.lost += taken.lost;
        let mut of_gates: BTreeMap<Gate, u64> = BTreeMap::new();
        let mut found = 0;
        let (of_connections, listening) = split_listeners(&taken.events);
        cell_coverage.listening += listening;
        for (far_port, events) in connections_of(&of_connections, ports, legs) {
            found += 1;
            if found > connections {
                // More than were made: what is known of none belongs to no message.
                cell_coverage.unmatched += events.len() as u64;
                continue;
            }
            let mut trains = PacketJoiner::new(far_port, 0, 0);
            // Where messages begin is told by the first event of each leg; no message has gone by then.
            let before = SliceMessages {
                messages: 0,
                ..exchange
            };
            trains.learn(&events, &before);
            let tied = trains.tie(&events, &exchange);
            let recorded = Recorded {
                events: &tied.events,
                lost: 0,
            };
            let joined = join(
                [recorded],
                JoinPlan::new(cell.passed, TickScale::NANOSECONDS),
            );
            cell_coverage.unmatched += tied.counts.unmatched;
            cell_coverage.repeated += joined.stats.repeated;
            cell_coverage.joint.0 += tied.joint.0;
            cell_coverage.joint.1 += tied.joint.1;
            for passage in first_passages(&joined.passages) {
                let Some(part) = exchange.part(passage.packet) else {
                    continue;
                };
                let gates = passage.gates();
                for gate in cell.passed.iter().filter(|&gate| gates.contains(gate)) {
                    *of_gates.entry(gate).or_default() += 1;
                }
                let whole = gates == cell.passed;
                match part {
                    SegmentOrMessage::Segment { .. } => {
                        cell_coverage.segments.traced += u64::from(whole)
                    }
                    SegmentOrMessage::Message { .. } => {
                        cell_coverage.messages.traced += u64::from(whole);
                        note_spans(passage, cell.table, &mut cell_coverage.spans);
                    }
                }
            }
        }
        let all = sent * (segments + 1);
        for gate in cell.passed.iter() {
            let missed = all.saturating_sub(of_gates.get(&gate).copied().unwrap_or(0));
            *cell_coverage.missed.entry(gate).or_default() += missed;
        }
    }
}

/// The events of connections, and how many others there are: a socket that listens has no other end.
fn split_listeners(events: &[Event]) -> (Vec<Event>, u64) {
    let connected = |event: &&Event| {
        event
            .flow()
            .is_some_and(|flow| flow.source() != 0 && flow.destination() != 0)
    };
    let of_connections: Vec<Event> = events.iter().filter(connected).copied().collect();
    let others = (events.len() - of_connections.len()) as u64;
    (of_connections, others)
}

/// The events of each connection with the port of its far end, those of the wanted legs only, the connections by their first event.
fn connections_of(events: &[Event], ports: &[u16], legs: &[Leg]) -> Vec<(u16, Vec<Event>)> {
    let mut connections: HashMap<(u16, u16), Vec<Event>> = HashMap::new();
    for event in events {
        let Some(flow) = event.flow() else { continue };
        let (key, leg) = if ports.contains(&flow.destination()) {
            ((flow.destination(), flow.source()), Leg::Request)
        } else {
            ((flow.source(), flow.destination()), Leg::Response)
        };
        if legs.contains(&leg) {
            connections.entry(key).or_default().push(*event);
        }
    }
    let mut connections: Vec<_> = connections.into_iter().collect();
    connections.sort_by_key(|((far, near), events)| {
        let first = events.iter().map(|event| event.ktime).min();
        (first, *far, *near)
    });
    connections
        .into_iter()
        .map(|((far, _), events)| (far, events))
        .collect()
}

/// The passages without those of what had passed before: a message counts once.
fn first_passages(passages: &[Passage]) -> impl Iterator<Item = &Passage> {
    let mut known = std::collections::HashSet::new();
    passages
        .iter()
        .filter(move |passage| known.insert(passage.packet))
}

/// Adds the times of a message at the gates of each span.
fn note_spans(passage: &Passage, table: SpanTable, spans: &mut [Vec<f64>]) {
    for (span, times) in table.spans().iter().zip(spans) {
        if let (Some(from), Some(to)) = (passage.at(span.from), passage.at(span.to)) {
            times.push(TickScale::NANOSECONDS.ns_between(from, to));
        }
    }
}
