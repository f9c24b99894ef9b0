//! A machine that answers orders by several packets and of which everything is known, for tests: one core, on which a response is
//! sent packet by packet, leaves in a burst and is received packet by packet. The engine gets its passages and its clock only.

use std::collections::HashMap;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate_gate::{
    Event, Gate, GateSet, JoinPlan, Kind, PacketId, Recorded, TickScale, Ticks, join,
};

use super::{Packet, Packets};
use crate::gated::{Gated, Ran};
use crate::ledger::Split;
use crate::schedule::Probes;
use crate::synthetic::normal;
use crate::way::Way;

pub(super) const GATES: [Gate; 7] = [
    Gate::SocketOutBegin,
    Gate::TcpOutBegin,
    Gate::DeviceQueueIn,
    Gate::DriverOutBegin,
    Gate::IpInBegin,
    Gate::SocketQueued,
    Gate::SocketInEnd,
];
/// Gates that each packet passes; the others are passed once by a message, or by a burst.
const BY_PACKET: [bool; 7] = [false, true, true, false, true, true, false];
const KINDS: [Option<Kind>; 7] = [
    None,
    Some(Kind::Processing),
    Some(Kind::Queueing),
    Some(Kind::Processing),
    Some(Kind::Processing),
    None,
    None,
];
/// Slices of a block: seven gates are dealt twice into two sets, and a third of all are without.
const SLICES: u32 = 6;
const SCALE: TickScale = TickScale::NANOSECONDS;

/// A synthetic machine; times are nanoseconds.
pub(super) struct Machine {
    way: Way,
    /// Packets of a response.
    pub(super) packets: usize,
    /// Work behind each gate whenever it is passed.
    pub(super) work: [f64; 7],
    /// Cost of a passage before the clock is read, and behind it.
    pub(super) cost: [(f64, f64); 7],
    /// Standard deviations of the speed, from block to block and from slice to slice.
    pub(super) restless: (f64, f64),
    /// Share of passages that the list of all passages lacks.
    pub(super) uncounted: f64,
    speed: f64,
    slices: u32,
    probes: Probes,
    random: ChaCha8Rng,
}

/// The passages of a slice.
#[derive(Default)]
struct Record {
    passages: Vec<(Ticks, Gate)>,
    messages: Vec<Event>,
    responses: HashMap<PacketId, Vec<Packet>>,
}

impl Machine {
    pub(super) fn new(packets: usize, seed: u64) -> Self {
        Self {
            way: Way::new(GATES.to_vec()).unwrap(),
            packets,
            work: [700.0, 900.0, 150.0, 260.0, 800.0, 240.0, 1_300.0],
            cost: [
                (90.0, 50.0),
                (110.0, 60.0),
                (95.0, 55.0),
                (100.0, 50.0),
                (105.0, 60.0),
                (120.0, 60.0),
                (100.0, 60.0),
            ],
            restless: (0.02, 0.01),
            uncounted: 0.0,
            speed: 1.0,
            slices: 0,
            probes: Probes::Uninstrumented,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// The spans of the way of the last byte, in a request and a response together.
    pub(super) fn spans(&self) -> [f64; 7] {
        let w = self.work;
        let before = (self.packets - 1) as f64;
        let mut spans = w.map(|work| 2.0 * work);
        spans[1] += before * (w[1] + w[2]);
        spans[3] += before * (w[4] + w[5]);
        spans
    }

    fn message(&mut self, id: PacketId, now: &mut f64, slow: f64, record: &mut Record) {
        let response = id.0 % 2 == 1;
        let count = if response { self.packets } else { 1 };
        let mut packets = vec![Packet::UNSEEN; count];
        let mut whole: [Option<Ticks>; 7] = [None; 7];
        let set = self.probes.active();
        let pass = |place: usize, machine: &mut Self, now: &mut f64, record: &mut Record| {
            let gate = GATES[place];
            let ticks = set.contains(gate).then(|| {
                *now += machine.cost[place].0;
                let ticks = Ticks(now.round() as u64);
                if !machine.random.random_bool(machine.uncounted) {
                    record.passages.push((ticks, gate));
                }
                *now += machine.cost[place].1;
                ticks
            });
            *now += machine.work[place] * slow * (1.0 + 0.04 * normal(&mut machine.random));
            ticks
        };
        // Neighbouring gates that packets pass one by one are one loop.
        for places in [0..1, 1..3, 3..4, 4..6, 6..7] {
            let rounds = if BY_PACKET[places.start] { count } else { 1 };
            for index in 0..rounds {
                for place in places.clone() {
                    let Some(ticks) = pass(place, self, now, record) else {
                        continue;
                    };
                    if place != 1 || index == 0 {
                        whole[place] = Some(ticks);
                    }
                    let of = if rounds > 1 {
                        index..index + 1
                    } else {
                        0..count
                    };
                    for packet in &mut packets[of] {
                        packet.pass(GATES[place], ticks, 0);
                    }
                }
            }
        }
        let events = GATES.iter().zip(whole).filter_map(|(&gate, ticks)| {
            Some(Event {
                ticks: ticks?,
                packet: id,
                gate,
            })
        });
        record.messages.extend(events);
        if response {
            record.responses.insert(id, packets);
        }
    }
}

impl Gated for Machine {
    fn splits(&self) -> Vec<Split> {
        let share = |(before, after): &(f64, f64)| after / (before + after);
        let shares = self.cost.iter().map(share);
        shares
            .map(|share| Split::Share {
                least: share,
                most: share,
            })
            .collect()
    }

    fn way(&self) -> &Way {
        &self.way
    }

    fn sizes(&self) -> usize {
        1
    }

    fn has_disabled(&self) -> bool {
        false
    }

    fn batch(&self) -> usize {
        1
    }

    fn scale(&self) -> TickScale {
        SCALE
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        self.probes = probes;
        Ok(())
    }

    fn run(&mut self, _size: usize, round_trips: u64) -> Result<Ran, String> {
        if self.slices.is_multiple_of(SLICES) {
            self.speed = 1.0 + self.restless.0 * normal(&mut self.random);
        }
        self.slices += 1;
        let slow = self.speed * (1.0 + self.restless.1 * normal(&mut self.random));
        let mut now = 1e6;
        let mut record = Record::default();
        let mut round_trips_ns = Vec::new();
        for trip in 0..round_trips as u32 {
            let begun = now;
            for message in 0..2 {
                let id = PacketId(2 * trip + message);
                self.message(id, &mut now, slow, &mut record);
            }
            round_trips_ns.push(now - begun);
        }
        let set = self.probes.active();
        let recorded = Recorded {
            events: &record.messages,
            lost: 0,
        };
        Ok(Ran {
            lost: 0,
            round_trips_ns,
            passages: join([recorded], JoinPlan::new(set, SCALE)).passages,
            messages: 2 * round_trips,
            packets: (set != GateSet::EMPTY).then(|| Packets {
                kinds: Arc::new(KINDS),
                passages: record.passages,
                responses: record.responses,
            }),
        })
    }
}
