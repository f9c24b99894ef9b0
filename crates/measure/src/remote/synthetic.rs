//! Two hosts of which everything is known, for tests: their clocks have an offset, and rates of their own.
//!
//! They know spans, what each gate costs before and behind its reading of the clock, drift, and round trips that something disturbs.
//! The engine gets passages on each host's own clock, and the client's total.

use std::time::Duration;

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate_gate::{
    Event, Gate, GateSet, JoinPlan, PacketId, Passage, Recorded, TickScale, Ticks, join,
};

use crate::gated::{self, Amount, Gated, Ran};
use crate::ledger::{Ledger, Limit, Split, Verdict};
use crate::schedule::{Probes, Sets};
use crate::synthetic::normal;
use crate::trips;
use crate::way::{Host, Station, Stations, Way};

const CLIENT: [Gate; 6] = [
    Gate::SocketOutBegin,
    Gate::TcpOutBegin,
    Gate::DriverOutBegin,
    Gate::IpInBegin,
    Gate::SocketQueued,
    Gate::SocketInEnd,
];
const SERVER: [Gate; 5] = [
    Gate::SocketOutBegin,
    Gate::DriverOutBegin,
    Gate::DriverOutEnd,
    Gate::SocketQueued,
    Gate::SocketInEnd,
];
const GATES: usize = CLIENT.len() + SERVER.len();
/// Stretches to the server, and back.
const THERE: usize = 2;
const BACK: usize = 7;

/// The clock of the server against that of the client, which shows the true time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ahead: i64,
    skew: f64,
}

impl Clock {
    fn shows(self, ns: f64) -> Ticks {
        let since = ns * (1.0 + self.skew);
        Ticks((since.round() as u64).wrapping_add_signed(self.ahead))
    }
}

struct TwoHosts {
    way: Way,
    server: Clock,
    stretches: [f64; GATES],
    before: [f64; GATES],
    after: [f64; GATES],
    /// The delay on the stretch to the server while gates watch.
    with_gates_only: f64,
    probes: Probes,
    speed: f64,
    slices: u32,
    random: ChaCha8Rng,
}

impl TwoHosts {
    fn new(server: Clock, seed: u64) -> Self {
        Self {
            way: Way::of_two_hosts(&CLIENT, &SERVER).unwrap(),
            server,
            stretches: [
                1_400.0, 800.0, 21_000.0, 900.0, 2_600.0, 500.0, 2_100.0, 9_000.0, 1_100.0,
                3_300.0, 450.0,
            ],
            before: [
                20.0, 110.0, 95.0, 90.0, 120.0, 25.0, 20.0, 100.0, 90.0, 115.0, 20.0,
            ],
            after: [
                20.0, 60.0, 55.0, 50.0, 60.0, 20.0, 25.0, 50.0, 60.0, 60.0, 20.0,
            ],
            with_gates_only: 0.0,
            probes: Probes::Uninstrumented,
            speed: 1.0,
            slices: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// The time of a span.
    fn truth(&self, span: usize) -> f64 {
        let stretches = self.stretches.iter().enumerate();
        let of_it = stretches.filter(|(stretch, _)| self.way.span_of(*stretch) == span);
        of_it.map(|(_, ns)| ns).sum()
    }

    fn ledger(mut self, blocks: u32, seed: u64) -> Ledger {
        let amount = Amount {
            round_trips: 32,
            least_blocks: blocks,
            time: Duration::ZERO,
            sets: Sets::DEFAULT,
            seed,
        };
        let sized = gated::run(&mut self, &amount, || true);
        assert_eq!(sized[0].join_rate(), Some(1.0));
        sized[0].ledger(&self, seed).unwrap()
    }
}

impl Gated for TwoHosts {
    fn way(&self) -> &Way {
        &self.way
    }

    fn splits(&self) -> Vec<Split> {
        let shares = self.before.iter().zip(self.after);
        let split = shares.map(|(before, after)| Split::Share {
            least: after / (before + after),
            most: after / (before + after),
        });
        split.collect()
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
        TickScale::NANOSECONDS
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        self.probes = probes;
        self.slices += 1;
        // The machines' speed changes while they are measured.
        self.speed = 1.0 + 0.02 * f64::from(self.slices / 8).sin();
        Ok(())
    }

    fn run(&mut self, _: usize, round_trips: u64) -> Result<Ran, String> {
        let set = self.probes.stations();
        let speed = self.speed * (1.0 + 0.01 * normal(&mut self.random));
        let stations: Vec<Station> = self.way.stations().collect();
        let mut events: [Vec<Event>; 2] = Default::default();
        let mut round_trips_ns = Vec::new();
        let mut now = 1e9;
        for number in 0..round_trips as u32 {
            let begun = now;
            let held = self.random.random_range(0..GATES);
            let late = if self.random.random_bool(0.05) {
                self.random.random_range(5_000.0..300_000.0)
            } else {
                0.0
            };
            for (place, station) in stations.iter().enumerate() {
                if set.contains(*station) {
                    now += self.before[place];
                    events[station.host as usize].push(Event {
                        ticks: match station.host {
                            Host::Local => Ticks(now.round() as u64),
                            Host::Remote => self.server.shows(now),
                        },
                        packet: PacketId(2 * number + u32::from(!station.is_of_request())),
                        gate: station.gate,
                    });
                    now += self.after[place];
                }
                let stretch = self.stretches[place];
                now += stretch * speed * (1.0 + 0.04 * normal(&mut self.random));
                if place == THERE && !set.is_empty() {
                    now += self.with_gates_only;
                }
                now += if place == held { late } else { 0.0 };
            }
            round_trips_ns.push(now - begun);
        }
        let passages = Host::BOTH.into_iter().flat_map(|host| {
            let recorded = Recorded {
                events: &events[host as usize],
                lost: 0,
            };
            join([recorded], JoinPlan::new(set.on(host), self.scale())).passages
        });
        Ok(Ran {
            round_trips_ns,
            passages: passages.collect(),
            messages: 2 * round_trips,
            ..Ran::default()
        })
    }
}

/// A server whose clock started days before the client's, and one that starts days later.
const CLOCKS: [Clock; 2] = [
    Clock {
        ahead: 400_000_000_000_000,
        skew: 4e-5,
    },
    Clock {
        ahead: -900_000_000,
        skew: -4e-5,
    },
];

#[test]
fn intervals_of_two_hosts_hold_the_truth() {
    let (mut spans, mut network, mut closures) = ([0, 0], [0, 0], [0, 0]);
    for seed in 1..=60 {
        let hosts = TwoHosts::new(CLOCKS[seed as usize % 2], seed);
        let truth: Vec<f64> = (0..hosts.way.spans()).map(|one| hosts.truth(one)).collect();
        let ledger = hosts.ledger(16, seed);
        for (span, (found, truth)) in ledger.spans.iter().zip(&truth).enumerate() {
            let held = usize::from(found.contains(*truth));
            spans[held] += 1;
            network[held] += u32::from(ledger.way().span_between_hosts() == Some(span));
        }
        let all = truth.iter().sum();
        closures[usize::from(ledger.total.contains(all))] += 1;
        closures[usize::from(ledger.closure.left.contains(0.0))] += 1;
    }
    let share = |[missed, held]: [u32; 2]| f64::from(held) / f64::from(missed + held);
    println!(
        "spans {:.3}, of them the network {:.3}, totals and closures {:.3}",
        share(spans),
        share(network),
        share(closures)
    );
    // Students' intervals over a drift that is no chance from block to block hold the total too often.
    assert!((0.90..=0.99).contains(&share(spans)), "{spans:?}");
    assert!(share(network) >= 0.85, "{network:?}");
    assert!(share(closures) >= 0.90, "{closures:?}");
}

#[test]
fn network_is_known_as_both_ways_together() {
    let hosts = TwoHosts::new(CLOCKS[0], 7);
    let network = hosts.way.span_between_hosts().unwrap();
    let truth = hosts.truth(network);
    assert_eq!(truth, hosts.stretches[THERE] + hosts.stretches[BACK]);
    let ledger = hosts.ledger(20, 7);
    // Half of it would be far outside.
    let found = ledger.spans[network];
    assert!(
        (found.ns - truth).abs() < 3.0 * found.half_width,
        "{:?}",
        ledger.spans
    );
    assert!(found.half_width < 0.05 * truth, "{found:?}");
    assert_eq!(ledger.closure.verdict(Limit::TWO_CORES), Verdict::Closes);
    // Without it the sum is no whole.
    let others: Vec<usize> = (0..ledger.spans.len())
        .filter(|&one| one != network)
        .collect();
    let without = ledger.closure_of(&others).verdict(Limit::TWO_CORES);
    assert_eq!(without, Verdict::DoesNotClose);
}

/// Everything beside gates that slices without them do not have leaves the closure open.
#[test]
fn delay_in_gated_slices_alone_leaves_the_closure_open() {
    let mut hosts = TwoHosts::new(CLOCKS[1], 8);
    hosts.with_gates_only = 2_000.0;
    let ledger = hosts.ledger(20, 8);
    let verdict = ledger.closure.verdict(Limit::TWO_CORES);
    assert_eq!(verdict, Verdict::DoesNotClose, "{:?}", ledger.closure);
}

/// Passages at all gates, of round trips whose stretches are these.
fn passages(server: Clock, trips: &[[u32; GATES]]) -> Vec<Passage> {
    let way = Way::of_two_hosts(&CLIENT, &SERVER).unwrap();
    let mut now = 1e9;
    let mut passages = Vec::new();
    for (number, stretches) in (0..).zip(trips) {
        for (station, &stretch) in way.stations().zip(stretches) {
            let event = Event {
                ticks: match station.host {
                    Host::Local => Ticks(now as u64),
                    Host::Remote => server.shows(now),
                },
                packet: PacketId(2 * number + u32::from(!station.is_of_request())),
                gate: station.gate,
            };
            let recorded = Recorded {
                events: &[event],
                lost: 0,
            };
            let gate = GateSet::of(&[station.gate]);
            passages.extend(join([recorded], JoinPlan::new(gate, TickScale::NANOSECONDS)).passages);
            now += f64::from(stretch);
        }
    }
    passages
}

proptest! {
    #[test]
    fn times_of_a_slice_sum_to_its_round_trips_whatever_the_clocks_show(
        ahead in -900_000_000..900_000_000_000_000_i64,
        trips in prop::collection::vec(prop::array::uniform11(0u32..100_000), 12..20),
        picked in prop::collection::vec(any::<bool>(), GATES),
    ) {
        let way = Way::of_two_hosts(&CLIENT, &SERVER).unwrap();
        let picked = way.stations().zip(&picked).filter(|(_, picked)| **picked);
        let set: Stations = picked.map(|(station, _)| station).collect();
        prop_assume!(!set.is_empty());
        let scale = TickScale::NANOSECONDS;
        let server = Clock { ahead, skew: 0.0 };
        let messages = trips::messages(&way, set, &passages(server, &trips));
        prop_assert_eq!(messages.len(), trips.len());
        let chosen = trips::chosen(&way, messages, 1, scale).unwrap();
        let between = trips::between(&way, set, &chosen, scale);
        let places = way.places(set);
        let both = Host::BOTH.iter().all(|&host| !set.on(host).is_empty());
        prop_assert_eq!(between.len(), places.len() - usize::from(both));
        // A round trip from the first gate of the set to the same of the next one.
        let first = places[0];
        let whole = |number: usize| -> u32 {
            let rest: u32 = trips[number][first..].iter().sum();
            rest + trips[number + 1][..first].iter().sum::<u32>()
        };
        let of_chosen = chosen.iter().map(|one| f64::from(whole(one.packet.0 as usize)));
        let expected = of_chosen.sum::<f64>() / chosen.len() as f64;
        let sum: f64 = between.iter().sum();
        prop_assert!((sum - expected).abs() < 0.5, "{} for {}", sum, expected);
        prop_assert!(between.iter().all(|&time| time >= 0.0), "{:?}", between);
    }

    #[test]
    fn round_trips_before_a_gap_are_left_out(missing in 0usize..12) {
        let trips = [[10; GATES]; 12];
        let way = Way::of_two_hosts(&CLIENT, &SERVER).unwrap();
        let set: Stations = way.stations().collect();
        let mut passages = passages(CLOCKS[0], &trips);
        passages.retain(|one| one.packet.0 as usize / 2 != missing || one.at(Gate::IpInBegin).is_none());
        let messages = trips::messages(&way, set, &passages);
        prop_assert_eq!(messages.len(), 11);
        let chosen = trips::chosen(&way, messages, 1, TickScale::NANOSECONDS).unwrap();
        prop_assert!(chosen.iter().all(|one| one.packet.0 as usize + 1 != missing));
        let sum: f64 = trips::between(&way, set, &chosen, TickScale::NANOSECONDS).iter().sum();
        prop_assert!((sum - 10.0 * GATES as f64).abs() < 0.1);
    }
}
