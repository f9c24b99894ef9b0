//! Packets of responses between two of Tollgate's own stacks in one thread.
//!
//! Owns the ends: one connection carries responses of all sizes. It must never judge a time.

use std::sync::Arc;

use tollgate_gate::{Event, JoinPlan, PacketId, Recorded, STACK, SpanTable, TickScale, join};
use tollgate_workload::stack_gates::Fault;
use tollgate_workload::stack_memory::per_packet::{PASSED, Recording, StackPacketSession};
use tollgate_workload::stack_memory::traced::BATCH;
use tollgate_workload::{Error, InputCounts, Mechanisms};

use super::{Kinds, Packet, Packets, way};
use crate::gated::{Gated, Ran};
use crate::ledger::Split;
use crate::schedule::Probes;
use crate::way::Way;

/// Two stacks in one thread.
pub struct StackPackets {
    way: Way,
    kinds: Kinds,
    table: SpanTable,
    session: StackPacketSession,
    sizes: Vec<usize>,
    probes: Probes,
}

impl StackPackets {
    /// Connects both ends with these mechanisms; `sizes` are those of responses.
    ///
    /// # Errors
    /// The refusal by the path, for people.
    pub fn open(sizes: &[usize], mechanisms: Mechanisms) -> Result<Self, String> {
        let table = STACK
            .joined(PASSED)
            .ok_or("the stack has fewer than two gates")?;
        let (way, kinds) = way(table)?;
        Ok(Self {
            way,
            kinds,
            table,
            session: StackPacketSession::open(mechanisms)
                .map_err(|error: Error| error.to_string())?,
            sizes: sizes.to_vec(),
            probes: Probes::Uninstrumented,
        })
    }

    /// The spans of its way.
    pub const fn table(&self) -> SpanTable {
        self.table
    }

    /// Settings that a reader has to know to repeat it, as names and values.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        self.session.settings()
    }

    /// The segments that both stacks have received so far, the client end's first.
    pub fn input_counts(&self) -> [InputCounts; 2] {
        self.session.input_counts()
    }

    /// Puts a fault beside a gate, in slices with gates and without, or takes it away.
    pub const fn set_fault(&mut self, fault: Option<Fault>) {
        self.session.set_fault(fault);
    }

    /// The messages and packets of a slice.
    fn ran(&self, round_trips_ns: Vec<f64>, recording: &Recording) -> Ran {
        let set = self.probes.active();
        let mut events = Vec::new();
        let mut responses = Vec::new();
        for (message, id) in recording.messages.iter().zip(0..) {
            let id = PacketId(id);
            events.extend(set.iter().filter_map(|gate| {
                let ticks = message.whole.at(gate)?;
                Some(Event {
                    ticks,
                    packet: id,
                    gate,
                })
            }));
            // Requests have even numbers.
            if id.0 % 2 == 1 {
                let packets = message.segments.iter().map(|segment| {
                    let mut packet = Packet::UNSEEN;
                    for gate in set.iter() {
                        if let Some(ticks) = segment.at(gate) {
                            packet.pass(gate, ticks, 0);
                        }
                    }
                    packet
                });
                responses.push((id, packets.collect()));
            }
        }
        let recorded = Recorded {
            events: &events,
            lost: recording.lost,
        };
        Ran {
            messages: 2 * BATCH * round_trips_ns.len() as u64,
            round_trips_ns,
            passages: join([recorded], JoinPlan::new(set, self.scale())).passages,
            lost: recording.lost,
            packets: (!set.is_empty()).then(|| Packets {
                kinds: Arc::clone(&self.kinds),
                passages: recording.passages.clone(),
                responses: responses.into_iter().collect(),
            }),
        }
    }
}

impl Gated for StackPackets {
    fn way(&self) -> &Way {
        &self.way
    }

    fn splits(&self) -> Vec<Split> {
        vec![Split::Alike(0); self.way.len()]
    }

    fn sizes(&self) -> usize {
        self.sizes.len()
    }

    fn has_disabled(&self) -> bool {
        true
    }

    fn batch(&self) -> usize {
        BATCH as usize
    }

    fn scale(&self) -> TickScale {
        self.session.clock().scale()
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        self.probes = probes;
        Ok(())
    }

    fn run(&mut self, size: usize, round_trips: u64) -> Result<Ran, String> {
        let gates = (self.probes != Probes::Uninstrumented).then_some(self.probes.active());
        let mut times = Vec::new();
        let response = self.sizes[size];
        let recording = self
            .session
            .slice(gates, response, round_trips, &mut |ns| times.push(ns));
        let recording = recording.map_err(|error| error.to_string())?;
        Ok(self.ran(times, &recording))
    }
}
