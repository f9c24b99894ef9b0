//! A machine of which everything is known, for tests: it makes the events that gates would record.
//!
//! It knows spans, what each gate costs on either side and elsewhere, drift from block to block and from slice to slice, and
//! round trips that something disturbs. The engine gets its events and its application's clock only.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate_gate::{
    Event, Gate, GateSet, JoinPlan, PacketId, Passage, Recorded, TickScale, Ticks, join,
};

use crate::packets::Crossings;
use crate::schedule::{self, Probes, Sets};
use crate::trips::{self, Slice};
use crate::way::Way;

/// True values of a synthetic machine, in nanoseconds of one message, which is half of a round trip.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) way: Way,
    /// The spans, the application's turn last.
    pub(crate) spans: Vec<f64>,
    /// The time of each gate before it reads the clock.
    pub(crate) before: Vec<f64>,
    /// The time of each gate behind the reading.
    pub(crate) after: Vec<f64>,
    /// The time that each gate adds elsewhere.
    pub(crate) elsewhere: Vec<f64>,
    /// The number of spans from a gate's own to the one where it adds that.
    pub(crate) distance: usize,
    /// The time that code with gates adds to each span, recording or not.
    pub(crate) disabled: Option<Vec<f64>>,
    /// Standard deviation of a block's speed.
    pub(crate) drift: f64,
    /// Standard deviation of each span between blocks, as where each block has a session of its own.
    pub(crate) anew: f64,
    /// Standard deviation of a slice's speed.
    pub(crate) restless: f64,
    /// Share of round trips that something disturbs.
    pub(crate) disturbed: f64,
}

/// Faults of the events on their way to the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faulty {
    /// Share of stamps that belong to the message before.
    pub(crate) shifted: f64,
    /// Share of events that are lost.
    pub(crate) lost: f64,
    /// A gate and the nanoseconds by which all its stamps are late.
    pub(crate) late: Option<(Gate, u64)>,
}

/// Result of a run of the machine.
pub(crate) struct Run {
    pub(crate) slices: Vec<Slice>,
    /// Messages that passed every gate of their slice, over all.
    pub(crate) join_rate: f64,
}

const SCALE: TickScale = TickScale::NANOSECONDS;
/// Round trips of a slice.
const ROUND_TRIPS: usize = 32;

impl Machine {
    /// One with the kernel's spans and gate costs on loopback, both ends on one core, as they were measured.
    pub(crate) fn kernel() -> Self {
        let gates = [
            Gate::SocketOutBegin,
            Gate::TcpOutBegin,
            Gate::IpOutBegin,
            Gate::DeviceQueueIn,
            Gate::DriverOutBegin,
            Gate::DriverOutEnd,
            Gate::IpInBegin,
            Gate::DemuxBegin,
            Gate::TcpInBegin,
            Gate::SocketQueued,
            Gate::ReaderRuns,
            Gate::SocketInBegin,
            Gate::SocketInEnd,
        ];
        Self {
            way: Way::new(gates.to_vec()).unwrap(),
            spans: vec![
                300.0, 1_100.0, 450.0, 120.0, 260.0, 350.0, 500.0, 150.0, 700.0, 1_900.0, 1_300.0,
                400.0, 90.0,
            ],
            before: vec![
                20.0, 110.0, 90.0, 95.0, 100.0, 105.0, 90.0, 80.0, 110.0, 120.0, 130.0, 100.0, 20.0,
            ],
            after: vec![
                20.0, 60.0, 50.0, 55.0, 50.0, 60.0, 50.0, 45.0, 50.0, 60.0, 70.0, 60.0, 20.0,
            ],
            elsewhere: vec![
                0.0, 15.0, 10.0, 20.0, 0.0, 5.0, 10.0, 12.0, 30.0, 25.0, 40.0, 10.0, 0.0,
            ],
            // Half a way.
            distance: 7,
            disabled: None,
            drift: 0.02,
            anew: 0.0,
            restless: 0.015,
            disturbed: 0.05,
        }
    }

    /// A round trip without gates.
    pub(crate) fn round_trip(&self) -> f64 {
        2.0 * self.spans.iter().sum::<f64>()
    }

    /// The cost of gate number `place` beside itself in a round trip.
    pub(crate) fn beside(&self, place: usize) -> f64 {
        2.0 * (self.before[place] + self.after[place])
    }

    /// The whole cost of gate number `place` in a round trip.
    pub(crate) fn whole(&self, place: usize) -> f64 {
        self.beside(place) + 2.0 * self.elsewhere[place]
    }

    /// Runs blocks of slices.
    pub(crate) fn run(&self, blocks: u32, seed: u64, faulty: Faulty) -> Run {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut slices = Vec::new();
        let (mut joined, mut all) = (0.0, 0.0);
        for block in 0..blocks {
            let speed = 1.0 + self.drift * normal(&mut random);
            let session = self.session(self.anew, &mut random);
            let disabled = self.disabled.is_some();
            for probes in schedule::block(&self.way, Sets::DEFAULT, disabled, &mut random) {
                let set = probes.active();
                let (times, mut events) = session.slice(probes, speed, &mut random);
                spoil(&mut events, faulty, &mut random);
                let recorded = Recorded {
                    events: &events,
                    lost: 0,
                };
                let passages = join([recorded], JoinPlan::new(set, SCALE)).passages;
                if !set.is_empty() {
                    all += 2.0 * ROUND_TRIPS as f64;
                    joined += passages.iter().filter(|one| one.gates() == set).count() as f64;
                }
                slices.push(Slice {
                    block,
                    probes,
                    total: trips::mean(times).unwrap(),
                    between: self.between(set, &passages),
                    crossings: Crossings::default(),
                });
            }
        }
        Run {
            slices,
            join_rate: joined / all,
        }
    }

    /// The machine as one session has it, whose spans each differ by so much.
    pub(crate) fn session(&self, deviation: f64, random: &mut impl Rng) -> Self {
        let mut session = self.clone();
        if deviation > 0.0 {
            for span in &mut session.spans {
                *span *= 1.0 + deviation * normal(random);
            }
        }
        session
    }

    fn between(&self, set: GateSet, passages: &[Passage]) -> Vec<f64> {
        let set = set.into();
        let messages = trips::messages(&self.way, set, passages);
        let chosen = trips::chosen(&self.way, messages, 1, SCALE);
        chosen.map_or_else(Vec::new, |chosen| {
            trips::between(&self.way, set, &chosen, SCALE)
        })
    }

    /// The round trips of a slice by the application's clock, and what its gates record.
    fn slice(&self, probes: Probes, speed: f64, random: &mut impl Rng) -> (Vec<f64>, Vec<Event>) {
        let len = self.way.len();
        let set = probes.active();
        let disabled = self
            .disabled
            .as_ref()
            .filter(|_| probes != Probes::Uninstrumented);
        let speed = speed * (1.0 + self.restless * normal(random));
        let mut events = Vec::new();
        let mut times = Vec::new();
        let mut now = 1e6;
        for trip in 0..ROUND_TRIPS {
            let begun = now;
            for message in 0..2 {
                let packet = PacketId((2 * trip + message) as u32);
                // Round trips differ by a part of each span; a few are held up for long.
                let late = match random.random_bool(self.disturbed / 2.0) {
                    true => random.random_range(2_000.0..200_000.0),
                    false => 0.0,
                };
                let held = random.random_range(0..len);
                for place in 0..len {
                    let gate = self.way.gates()[place];
                    if set.contains(gate) {
                        now += self.before[place];
                        events.push(Event {
                            ticks: Ticks(now.round() as u64),
                            packet,
                            gate,
                        });
                        now += self.after[place];
                    }
                    let carried = disabled.map_or(0.0, |disabled| disabled[place]);
                    let span =
                        (self.spans[place] + carried) * speed * (1.0 + 0.04 * normal(random));
                    // The gate that slows it.
                    let slow = (place + len - self.distance) % len;
                    let slowed = if set.contains(self.way.gates()[slow]) {
                        self.elsewhere[slow]
                    } else {
                        0.0
                    };
                    now += span + slowed + if place == held { late } else { 0.0 };
                }
            }
            times.push(now - begun);
        }
        (times, events)
    }
}

fn spoil(events: &mut Vec<Event>, faulty: Faulty, random: &mut impl Rng) {
    if faulty.shifted > 0.0 {
        for event in events.iter_mut() {
            if random.random_bool(faulty.shifted) {
                event.packet.0 = event.packet.0.saturating_sub(1);
            }
        }
    }
    if let Some((gate, late)) = faulty.late {
        for event in events.iter_mut().filter(|event| event.gate == gate) {
            event.ticks.0 += late;
        }
    }
    if faulty.lost > 0.0 {
        events.retain(|_| !random.random_bool(faulty.lost));
    }
}

/// Normally distributed with mean 0 and deviation 1, near enough: twelve uniform numbers, summed.
pub(crate) fn normal(random: &mut impl Rng) -> f64 {
    (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
}
