//! Packets of responses over the Linux kernel, under two ends that run here.
//!
//! Owns the ends, whose one connection carries responses of all sizes, and the gates. It must never judge a time.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_gate::{
    Gate, GateSet, JoinPlan, PacketId, Passage, Recorded, SpanTable, TickScale, join,
};
use tollgate_kernel::join::per_packet::{Leg, PacketJoiner, SegmentOrMessage, SliceMessages, Tied};
use tollgate_kernel::{
    Attached, Event, Fault, Gates, Injected, Plan, Traffic, Watch, kernel_features,
};
use tollgate_run::{Mode, PathId};
use tollgate_workload::kernel::per_packet::{Carrier, KernelPacketSession, WARM_UP};
use tollgate_workload::per_packet::{REQUEST, SEGMENT};

use super::{Kinds, Packet, Packets, way};
use crate::gated::{Gated, Ran};
use crate::kernel;
use crate::ledger::Split;
use crate::schedule::Probes;
use crate::way::Way;

/// Events that each processor has room for: a slice of the longest responses.
const ROOM: u32 = 1 << 15;
const SCALE: TickScale = TickScale::NANOSECONDS;
/// Gates that are left out: the reader of a response sleeps and wakes more than once in it, so the wait for it ends where a packet
/// is copied.
const EXCEPT: GateSet = GateSet::of(&[Gate::ReaderRuns]);

/// Two ends over kernel sockets, and the kernel's gates.
pub struct KernelPackets {
    plan: Plan,
    way: Way,
    kinds: Kinds,
    table: SpanTable,
    gates: Gates,
    attached: Option<Attached>,
    set: GateSet,
    joiner: PacketJoiner,
    session: KernelPacketSession,
    sizes: Vec<usize>,
    /// Events of data that belonged to no packet.
    unmatched: u64,
}

impl KernelPackets {
    /// Connects the ends of a path of the kernel and loads the gates; `sizes` are those of responses.
    ///
    /// # Errors
    /// The refusal by the kernel or the path, for people.
    pub fn open(
        path: PathId,
        carrier: Carrier,
        mode: Mode,
        sizes: &[usize],
    ) -> Result<Self, String> {
        let plan = Plan::choose(&kernel_features(), Traffic::Others);
        let table = plan
            .table(EXCEPT)
            .ok_or("this kernel has fewer than two of the hooks")?;
        let (way, kinds) = way(table)?;
        let gates = Gates::load(&plan, ROOM).map_err(|error| error.to_string())?;
        let session =
            KernelPacketSession::open(path, carrier, mode).map_err(|error| error.to_string())?;
        let ends = session.ends();
        let port = ends.server_ports.first().copied().unwrap_or(0);
        let joiner = PacketJoiner::new(port, ends.client, ends.server);
        let watch = Watch {
            ports: ends.server_ports.clone(),
            threads: vec![ends.client, ends.server],
            // They pass between the gates of packets, and their passages cost as much.
            acknowledgments: true,
        };
        gates.watch(&watch).map_err(|error| error.to_string())?;
        let mut packets = Self {
            plan,
            way,
            kinds,
            table,
            gates,
            attached: None,
            set: GateSet::EMPTY,
            joiner,
            session,
            sizes: sizes.to_vec(),
            unmatched: 0,
        };
        packets.learn()?;
        Ok(packets)
    }

    /// The spans of its way.
    pub const fn table(&self) -> SpanTable {
        self.table
    }

    /// Settings that a reader has to know to repeat it, as names and values.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        self.session.settings()
    }

    /// Events of data that belonged to no packet, so far.
    pub const fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Puts a fault beside a gate, in slices with gates and without, until the result is dropped.
    ///
    /// # Errors
    /// The refusal by the kernel, or an order that is impossible, for people.
    pub fn inject(&self, fault: Fault) -> Result<Injected, String> {
        let ends = self.session.ends();
        let injected = self.gates.inject(fault, &ends.networks());
        injected.map_err(|error| error.to_string())
    }

    /// Learns where messages begin in the sequence numbers.
    fn learn(&mut self) -> Result<(), String> {
        let gate = [Gate::TcpOutBegin, Gate::IpOutBegin, Gate::DeviceQueueIn]
            .into_iter()
            .find(|gate| self.way.gates().contains(gate))
            .ok_or("no gate sees where messages begin")?;
        self.enable(Probes::Active(GateSet::of(&[gate]).into()))?;
        let run = self.session.run(SEGMENT, 1, &mut |_| ());
        run.map_err(|error| error.to_string())?;
        let taken = self.gates.take();
        if !self.joiner.learn(&taken.events, &exchange(SEGMENT, 1)) {
            return Err("the gates saw nothing of the connection".to_owned());
        }
        self.enable(Probes::Uninstrumented)
    }

    /// The messages and packets of a slice.
    fn ran(
        &self,
        round_trips_ns: Vec<f64>,
        exchange: &SliceMessages,
        events: &[Event],
        tied: &Tied,
        lost: u64,
    ) -> Ran {
        let recorded = Recorded {
            events: &tied.events,
            lost,
        };
        let joined = join([recorded], JoinPlan::new(self.set, SCALE)).passages;
        let mut messages = Vec::new();
        let mut responses: HashMap<PacketId, Vec<Packet>> = HashMap::new();
        let packets = exchange.segments(Leg::Response) as usize;
        for mut passage in joined {
            match exchange.part(passage.packet) {
                Some(SegmentOrMessage::Message { leg, message }) if message >= WARM_UP => {
                    passage.packet = message_id(leg, message);
                    messages.push(passage);
                }
                Some(SegmentOrMessage::Segment {
                    leg: Leg::Response,
                    message,
                    index,
                }) if message >= WARM_UP => {
                    let response = responses
                        .entry(message_id(Leg::Response, message))
                        .or_insert_with(|| vec![Packet::UNSEEN; packets]);
                    response[index as usize] = packet(&passage, self.set, tied);
                }
                _ => {}
            }
        }
        let passages = events
            .iter()
            .filter_map(|event| Some((event.ticks(), event.gate()?)));
        let mut passages: Vec<_> = passages.collect();
        passages.sort_unstable();
        Ran {
            messages: 2 * round_trips_ns.len() as u64,
            round_trips_ns,
            passages: messages,
            lost,
            packets: Some(Packets {
                kinds: Arc::clone(&self.kinds),
                passages,
                responses,
            }),
        }
    }
}

fn exchange(response: usize, round_trips: u32) -> SliceMessages {
    SliceMessages {
        messages: round_trips + WARM_UP,
        request: REQUEST as u32,
        response: response as u32,
        segment: SEGMENT as u32,
    }
}

/// Requests have even numbers.
const fn message_id(leg: Leg, message: u32) -> PacketId {
    PacketId(match leg {
        Leg::Request => 2 * message,
        Leg::Response => 2 * message + 1,
    })
}

fn packet(passage: &Passage, set: GateSet, tied: &Tied) -> Packet {
    let mut packet = Packet::UNSEEN;
    for gate in set.iter() {
        let processor = tied.processor(passage.packet, gate);
        if let (Some(ticks), Some(processor)) = (passage.at(gate), processor) {
            packet.pass(gate, ticks, processor);
        }
    }
    packet
}

impl Gated for KernelPackets {
    fn way(&self) -> &Way {
        &self.way
    }

    fn splits(&self) -> Vec<Split> {
        kernel::splits(&self.plan, &self.way)
    }

    fn sizes(&self) -> usize {
        self.sizes.len()
    }

    fn has_disabled(&self) -> bool {
        // What is not wanted is detached.
        false
    }

    fn batch(&self) -> usize {
        1
    }

    fn scale(&self) -> TickScale {
        SCALE
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        self.attached = None;
        self.set = probes.active();
        if !self.set.is_empty() {
            let ends = self.session.ends();
            let attached = self.gates.attach(self.set, &ends.networks());
            self.attached = Some(attached.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    fn run(&mut self, size: usize, round_trips: u64) -> Result<Ran, String> {
        let response = self.sizes[size];
        let round_trips = u32::try_from(round_trips).unwrap_or(u32::MAX - WARM_UP);
        let exchange = exchange(response, round_trips);
        let mut times = Vec::new();
        let run = self
            .session
            .run(response, round_trips, &mut |ns| times.push(ns));
        run.map_err(|error| error.to_string())?;
        if self.set.is_empty() {
            self.joiner.advance(&exchange);
            return Ok(Ran {
                round_trips_ns: times,
                ..Ran::default()
            });
        }
        let taken = self.gates.take();
        let tied = self.joiner.tie(&taken.events, &exchange);
        self.unmatched += tied.counts.unmatched;
        Ok(self.ran(times, &exchange, &taken.events, &tied, taken.lost))
    }
}
