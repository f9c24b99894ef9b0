//! Ledgers of synthetic passages with known answers.

use proptest::prelude::*;

use super::*;
use crate::id::Gate;
use crate::join::{JoinPlan, Recorded, join};
use crate::record::Event;
use crate::recorder::PacketId;
use crate::span::{Direction, STACK, WolmanRow};
use crate::ticks::Ticks;

const SCALE: TickScale = TickScale::NANOSECONDS;

/// The gates of the stack, which are on one way.
static WAY: std::sync::LazyLock<Vec<Gate>> =
    std::sync::LazyLock::new(|| STACK.gates().iter().collect());

/// `messages` that pass `active` gates, `step` ticks after another gate plus `probe` for each active gate passed before.
fn slice(active: GateSet, messages: u32, step: u64, probe: u64) -> (Slice, Joined) {
    let mut events = Vec::new();
    for packet in 0..messages {
        let mut now = u64::from(packet) * 1_000_000;
        for &gate in WAY.iter() {
            now += step;
            if active.contains(gate) {
                events.push(Event {
                    ticks: Ticks(now),
                    packet: PacketId(packet),
                    gate,
                });
                now += probe;
            }
        }
    }
    let joined = join(
        [Recorded {
            events: &events,
            lost: 0,
        }],
        JoinPlan::new(active, SCALE),
    );
    let slice = Slice {
        active,
        units: messages.into(),
        probe_ns: probe as f64,
        scale: SCALE,
    };
    (slice, joined)
}

fn rotated(scope: Scope, messages: u32, step: u64, probe: u64) -> Ledger {
    let mut ledger = Ledger::new(STACK, scope);
    for active in STACK.rotation() {
        let (mut slice, joined) = slice(active, messages, step, probe);
        slice.units /= u64::from(scope.messages());
        ledger.add_slice(&slice, &joined);
    }
    ledger
}

fn row(ledger: &Ledger, direction: Direction, name: &str) -> Row {
    ledger
        .rows()
        .into_iter()
        .find(|row| row.span.direction == direction && row.span.name == name)
        .expect("the row exists")
}

fn mean(summary: Option<Summary>) -> Option<f64> {
    summary.map(|summary| summary.mean_ns)
}

fn near(is: Option<f64>, ought: f64) -> bool {
    is.is_some_and(|is| (is - ought).abs() <= 1e-6 * (1.0 + ought.abs()))
}

#[test]
fn a_rotation_telescopes_to_the_whole_way() {
    let mut ledger = rotated(Scope::Message, 10, 100, 20);
    // 16 steps from the first gate to the last.
    assert!(near(ledger.sum_ns(Statistic::Mean), 1_600.0));
    ledger.add_ungated_ns(1_600.0);
    assert!(near(ledger.closure(), 0.0));
    assert!(ledger.closes(0.001));
    assert!(ledger.missing().is_empty());
    assert_eq!(ledger.join_rate(), Some(1.0));
}

#[test]
fn all_gates_at_once_give_the_same_answer() {
    let (all, joined) = slice(STACK.gates(), 10, 100, 20);
    let mut at_once = Ledger::new(STACK, Scope::Message);
    at_once.add_slice(&all, &joined);
    let by_turns = rotated(Scope::Message, 10, 100, 20);
    for (a, b) in at_once.rows().iter().zip(by_turns.rows()) {
        assert!(
            near(a.per_unit_ns, b.per_unit_ns.unwrap()),
            "{}",
            a.span.name
        );
        assert!(
            near(a.own_per_unit_ns, b.own_per_unit_ns.unwrap()),
            "{}",
            a.span.name
        );
    }
    // Three steps of 100; as measured, the probes of the first gate and of the two checksum gates lie in it.
    let tcp = row(&at_once, Direction::Tx, "tcp");
    assert!(near(mean(tcp.raw), 360.0) && near(tcp.probe_mean_ns, 60.0));
    assert!(near(tcp.per_unit_ns, 300.0) && near(tcp.own_per_unit_ns, 200.0));
    let tcp = row(&by_turns, Direction::Tx, "tcp");
    assert!(near(mean(tcp.raw), 320.0) && near(tcp.probe_mean_ns, 20.0));
}

#[test]
fn processing_and_queueing_stand_apart_and_sum() {
    let ledger = rotated(Scope::Message, 4, 100, 20);
    // device.queue, ip.queue and socket.queue.
    assert!(near(ledger.kind_ns(Kind::Queueing, Statistic::Mean), 300.0));
    assert!(near(
        ledger.kind_ns(Kind::Processing, Statistic::Mean),
        1_300.0
    ));
}

#[test]
fn a_round_trip_has_two_messages() {
    let mut ledger = rotated(Scope::RoundTrip, 10, 100, 20);
    assert!(near(ledger.sum_ns(Statistic::Mean), 3_200.0));
    ledger.add_ungated_ns(4_000.0);
    assert!(near(ledger.unattributed_ns(Statistic::Mean), 800.0));
    assert!(near(ledger.closure(), 0.2));
    assert!(!ledger.closes(0.19) && ledger.closes(0.21));
    let tcp = row(&ledger, Direction::Rx, "demux");
    assert!(near(mean(tcp.net), 100.0));
    assert!(near(tcp.per_unit_ns, 200.0));
}

#[test]
fn more_spans_than_total_are_shown_as_negative() {
    let mut ledger = rotated(Scope::Message, 3, 100, 0);
    ledger.add_ungated_ns(1_000.0);
    assert!(near(ledger.unattributed_ns(Statistic::Mean), -600.0));
    assert!(near(ledger.closure(), -0.6));
    assert!(!ledger.closes(0.5));
}

#[test]
fn an_empty_ledger_closes_on_nothing() {
    let mut ledger = Ledger::new(STACK, Scope::Message);
    assert_eq!(ledger.closure(), None);
    assert!(!ledger.closes(f64::INFINITY));
    assert_eq!(ledger.sum_ns(Statistic::Mean), None);
    assert_eq!(ledger.perturbation(Statistic::Mean), None);
    ledger.add_ungated_ns(5.0);
    assert!(!ledger.closes(f64::INFINITY));
    ledger.add_gated_ns(6.0);
    assert!(near(ledger.perturbation(Statistic::Mean), 0.2));
    let mut stopped = rotated(Scope::Message, 1, 100, 0);
    stopped.add_ungated_ns(0.0);
    assert_eq!(stopped.closure(), None);
}

#[test]
fn a_span_that_was_not_measured_is_missing_and_unattributed() {
    let mut ledger = Ledger::new(STACK, Scope::Message);
    for active in STACK
        .rotation()
        .filter(|active| !active.contains(Gate::DemuxBegin))
    {
        let (slice, joined) = slice(active, 2, 100, 0);
        ledger.add_slice(&slice, &joined);
    }
    ledger.add_ungated_ns(1_600.0);
    let missing: Vec<&str> = ledger.missing().iter().map(|span| span.name).collect();
    assert_eq!(missing, ["ip", "demux"]);
    assert!(near(ledger.unattributed_ns(Statistic::Mean), 200.0));
    assert_eq!(row(&ledger, Direction::Rx, "demux").per_unit_ns, None);
    assert_eq!(row(&ledger, Direction::Rx, "demux").net, None);
}

#[test]
fn checksums_left_out_cost_nothing_and_tcp_keeps_its_time() {
    let active = GateSet::of(&[
        Gate::TcpOutBegin,
        Gate::ChecksumOutBegin,
        Gate::ChecksumOutEnd,
        Gate::IpOutBegin,
    ]);
    let events = [
        Event {
            ticks: Ticks(0),
            packet: PacketId(1),
            gate: Gate::TcpOutBegin,
        },
        Event {
            ticks: Ticks(70),
            packet: PacketId(1),
            gate: Gate::IpOutBegin,
        },
    ];
    let joined = join(
        [Recorded {
            events: &events,
            lost: 0,
        }],
        JoinPlan::new(active, SCALE),
    );
    let mut ledger = Ledger::new(STACK, Scope::Message);
    ledger.add_slice(
        &Slice {
            active,
            units: 1,
            probe_ns: 20.0,
            scale: SCALE,
        },
        &joined,
    );
    assert_eq!(
        row(&ledger, Direction::Tx, "tcp.checksum").per_unit_ns,
        Some(0.0)
    );
    assert!(near(
        row(&ledger, Direction::Tx, "tcp").own_per_unit_ns,
        50.0
    ));
}

#[test]
fn an_inner_span_alone_adds_nothing_to_the_sum() {
    let mut ledger = Ledger::new(STACK, Scope::Message);
    let active = GateSet::of(&[Gate::ChecksumOutBegin, Gate::ChecksumOutEnd]);
    let (slice, joined) = slice(active, 2, 100, 0);
    ledger.add_slice(&slice, &joined);
    assert_eq!(ledger.sum_ns(Statistic::Mean), None);
    assert_eq!(ledger.kind_ns(Kind::Processing, Statistic::Mean), None);
    assert!(near(
        row(&ledger, Direction::Tx, "tcp.checksum").per_unit_ns,
        100.0
    ));
}

#[test]
fn several_segments_of_a_message_all_count() {
    let active = GateSet::of(&[Gate::TcpInBegin, Gate::SocketQueued]);
    let (mut six_segments, joined) = slice(active, 6, 100, 10);
    six_segments.units = 1;
    let mut ledger = Ledger::new(STACK, Scope::Message);
    ledger.add_slice(&six_segments, &joined);
    let tcp = row(&ledger, Direction::Rx, "tcp");
    assert!(near(mean(tcp.net), 300.0));
    assert!(near(tcp.per_unit_ns, 1_800.0));
}

#[test]
fn half_joined_backward_and_lost_are_counted() {
    let active = GateSet::of(&[Gate::DriverOutEnd, Gate::DriverInBegin]);
    let at = |ticks, packet, gate| Event {
        ticks: Ticks(ticks),
        packet: PacketId(packet),
        gate,
    };
    let events = [
        at(100, 1, Gate::DriverOutEnd),
        at(1_000, 2, Gate::DriverInBegin),
        at(1_030, 2, Gate::DriverOutEnd),
        at(2_000, 3, Gate::DriverOutEnd),
        at(2_090, 3, Gate::DriverInBegin),
    ];
    let joined = join(
        [Recorded {
            events: &events,
            lost: 7,
        }],
        JoinPlan::new(active, SCALE),
    );
    let mut ledger = Ledger::new(STACK, Scope::Message);
    ledger.add_slice(
        &Slice {
            active,
            units: 2,
            probe_ns: 0.0,
            scale: SCALE,
        },
        &joined,
    );
    let queue = row(&ledger, Direction::Rx, "ip.queue");
    assert_eq!((queue.unmatched, queue.backwards), (1, 1));
    // The two that joined: -30 and 90.
    assert!(near(mean(queue.net), 30.0));
    assert_eq!(ledger.lost_events(), 7);
    assert_eq!(ledger.join_rate(), Some(2.0 / 3.0));
    assert_eq!(ledger.join_stats().unmatched(), 1);
}

#[test]
fn wolmans_rows_sum_per_message() {
    let ledger = rotated(Scope::RoundTrip, 10, 100, 20);
    let lines = |direction| -> Vec<(&str, Option<u64>)> {
        ledger
            .wolman_rows(direction, Statistic::Mean)
            .iter()
            .map(|line| (line.label.name(), line.ns.map(|ns| ns.round() as u64)))
            .collect()
    };
    assert_eq!(
        lines(Direction::Tx),
        [
            ("User", Some(100)),
            ("checksum", Some(100)),
            ("mcopy", None),
            ("segment", Some(200)),
            ("TCP total", Some(300)),
            ("IP", Some(100)),
            ("ATM", Some(100)),
            ("not in the paper", Some(100)),
            ("Total", Some(700)),
        ]
    );
    assert_eq!(
        lines(Direction::Rx),
        [
            ("ATM", Some(100)),
            ("IPQ", Some(100)),
            ("IP", Some(100)),
            ("checksum", Some(100)),
            ("segment", Some(300)),
            ("TCP total", Some(400)),
            ("Wakeup", None),
            ("User", Some(100)),
            ("not in the paper", Some(100)),
            ("Total", Some(900)),
        ]
    );
    assert!(WolmanRow::Mcopy.is_tcp());
}

#[test]
fn median_and_trimmed_mean_shrug_off_a_processor_that_was_taken_away() {
    let active = GateSet::of(&[Gate::IpInBegin, Gate::DemuxBegin]);
    let (calm, joined) = slice(active, 99, 100, 0);
    let (stormy, storm) = slice(active, 1, 100_000, 0);
    let mut ledger = Ledger::new(STACK, Scope::Message);
    ledger.add_slice(&calm, &joined);
    ledger.add_slice(&stormy, &storm);
    ledger.add_ungated_ns(100.0);
    assert!(ledger.closure().unwrap() < -9.0);
    assert!(ledger.closure_by(Statistic::Median).unwrap().abs() < 0.001);
    assert!(ledger.closure_by(Statistic::TrimmedMean).unwrap().abs() < 0.001);
}

#[test]
fn ledgers_of_other_things_do_not_merge() {
    let mut ledger = Ledger::new(STACK, Scope::Message);
    let round_trip = Ledger::new(STACK, Scope::RoundTrip);
    assert_eq!(ledger.merge(&round_trip), Err(MergeError::Scope));
    let transmit = Ledger::new(STACK.only(Direction::Tx).unwrap(), Scope::Message);
    assert_eq!(ledger.merge(&transmit), Err(MergeError::Spans));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Slices added to one ledger, or each to its own and then merged: the same.
    #[test]
    fn merging_is_adding(
        parts in proptest::collection::vec((0..STACK.spans().len(), 1u32..8, 1u64..500, 0u64..50, 100.0f64..1e4), 1..12),
    ) {
        let mut whole = Ledger::new(STACK, Scope::Message);
        let mut merged = Ledger::new(STACK, Scope::Message);
        for (span, messages, step, probe, total) in parts {
            let (slice, joined) = slice(STACK.spans()[span].gates(), messages, step, probe);
            let mut part = Ledger::new(STACK, Scope::Message);
            for ledger in [&mut whole, &mut part] {
                ledger.add_slice(&slice, &joined);
                ledger.add_ungated_ns(total);
                ledger.add_gated_ns(total * 1.1);
            }
            prop_assert_eq!(merged.merge(&part), Ok(()));
        }
        for (a, b) in whole.rows().iter().zip(merged.rows()) {
            prop_assert_eq!(a.raw.map(|raw| raw.n), b.raw.map(|raw| raw.n));
            prop_assert_eq!(a.per_unit_ns.is_some(), b.per_unit_ns.is_some());
            if let Some(ns) = a.per_unit_ns {
                prop_assert!(near(b.per_unit_ns, ns));
            }
        }
        prop_assert_eq!(whole.join_stats(), merged.join_stats());
        prop_assert!(near(merged.perturbation(Statistic::Mean), 0.1));
    }

    /// Whatever the steps, the own times sum to the way from the first gate to the last.
    #[test]
    fn own_times_telescope(steps in proptest::collection::vec(0u64..10_000, WAY.len())) {
        let mut now = 0;
        let events: Vec<Event> = WAY.iter().zip(&steps).map(|(&gate, step)| {
            now += step;
            Event { ticks: Ticks(now), packet: PacketId(1), gate }
        }).collect();
        let joined = join([Recorded { events: &events, lost: 0 }], JoinPlan::new(STACK.gates(), SCALE));
        let mut ledger = Ledger::new(STACK, Scope::Message);
        ledger.add_slice(&Slice { active: STACK.gates(), units: 1, probe_ns: 0.0, scale: SCALE }, &joined);
        let way = steps[1..].iter().sum::<u64>() as f64;
        let own: f64 = ledger.rows().iter().filter_map(|row| row.own_per_unit_ns).sum();
        prop_assert!(near(Some(own), way));
        prop_assert!(near(ledger.sum_ns(Statistic::Mean), way));
    }
}
