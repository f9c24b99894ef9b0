//! Synthetic traces with known answers.

use proptest::prelude::*;

use super::*;
use crate::span::STACK;

/// The gates of the stack, which are on one way.
static WAY: std::sync::LazyLock<Vec<Gate>> =
    std::sync::LazyLock::new(|| STACK.gates().iter().collect());

fn event(ticks: u64, gate: Gate, packet: u32) -> Event {
    Event {
        ticks: Ticks(ticks),
        packet: PacketId(packet),
        gate,
    }
}

/// The packet passes `gates` in turn, 10 ticks apart from `start`.
fn way(start: u64, packet: u32, gates: &[Gate]) -> Vec<Event> {
    gates
        .iter()
        .zip((start..).step_by(10))
        .map(|(&gate, at)| event(at, gate, packet))
        .collect()
}

fn plan(active: GateSet) -> JoinPlan {
    JoinPlan {
        active,
        max_age: 100_000,
        slack: 100,
    }
}

fn join_all(events: &[Event], active: GateSet) -> Joined {
    join([Recorded { events, lost: 0 }], plan(active))
}

fn ticks(passage: &Passage, gate: Gate) -> Option<u64> {
    passage.at(gate).map(|ticks| ticks.0)
}

#[test]
fn two_recorders_join_to_whole_passages() {
    let (out, arrival) = WAY.split_at(8);
    let mut sender = way(0, 1, out);
    sender.extend(way(500, 2, out));
    let mut receiver = way(80, 1, arrival);
    receiver.extend(way(580, 2, arrival));
    let joined = join(
        [
            Recorded {
                events: &receiver,
                lost: 3,
            },
            Recorded {
                events: &sender,
                lost: 1,
            },
        ],
        plan(STACK.gates()),
    );
    assert_eq!(joined.passages.len(), 2);
    for (passage, start) in joined.passages.iter().zip([0, 500]) {
        for (i, &gate) in WAY.iter().enumerate() {
            assert_eq!(ticks(passage, gate), Some(start + 10 * i as u64));
        }
        assert_eq!(passage.gates(), STACK.gates());
        assert_eq!(
            passage.stamps_between(Gate::TcpOutBegin, Gate::IpOutBegin),
            2
        );
        assert_eq!(
            passage.stamps_between(Gate::IpOutBegin, Gate::TcpOutBegin),
            0
        );
    }
    assert_eq!(
        joined.stats,
        JoinStats {
            events: 34,
            lost: 4,
            passages: 2,
            complete: 2,
            ..JoinStats::default()
        }
    );
    assert_eq!(joined.stats.join_rate(), Some(1.0));
}

#[test]
fn packets_seen_on_one_side_are_counted_as_such() {
    let (out, arrival) = WAY.split_at(8);
    let mut events = way(0, 1, out);
    events.extend(way(1_000, 2, arrival));
    events.extend(way(2_000, 3, &WAY));
    let stats = join_all(&events, STACK.gates()).stats;
    assert_eq!(
        (stats.passages, stats.complete, stats.unmatched()),
        (3, 1, 2)
    );
    assert_eq!((stats.only_out, stats.only_in), (1, 1));
    assert_eq!(stats.join_rate(), Some(1.0 / 3.0));
}

#[test]
fn gates_of_one_side_alone_are_not_called_one_sided() {
    let active = GateSet::of(&[Gate::TcpOutBegin, Gate::IpOutBegin]);
    let stats = join_all(&way(0, 1, &[Gate::TcpOutBegin, Gate::IpOutBegin]), active).stats;
    assert_eq!((stats.complete, stats.only_out, stats.only_in), (1, 0, 0));
}

#[test]
fn a_lost_segment_keeps_its_first_departure_and_gets_its_only_arrival() {
    let mut events = way(0, 7, &WAY[..8]);
    events.extend(way(50_000, 7, &WAY[1..]));
    let joined = join_all(&events, STACK.gates());
    assert_eq!(joined.passages.len(), 1);
    let passage = &joined.passages[0];
    assert_eq!(ticks(passage, Gate::TcpOutBegin), Some(10));
    assert_eq!(ticks(passage, Gate::DriverOutEnd), Some(70));
    assert_eq!(ticks(passage, Gate::DriverInBegin), Some(50_070));
    assert_eq!(joined.stats.repeated, 7);
    assert_eq!(joined.stats.complete, 1);
}

#[test]
fn a_damaged_arrival_does_not_lend_its_times() {
    let mut events = way(0, 7, &WAY[..13]);
    // The retransmission passes the same gates and reaches the reader.
    events.extend(way(50_000, 7, &WAY[1..]));
    let joined = join_all(&events, STACK.gates());
    let passage = &joined.passages[0];
    assert_eq!(ticks(passage, Gate::DriverInBegin), Some(50_070));
    assert_eq!(ticks(passage, Gate::ChecksumInBegin), Some(50_110));
    assert_eq!(ticks(passage, Gate::SocketQueued), Some(50_130));
}

#[test]
fn of_tries_that_came_equally_far_the_last_counts() {
    let gates = [Gate::IpInBegin, Gate::DemuxBegin];
    let mut events = way(0, 7, &gates);
    events.extend(way(500, 7, &gates));
    let joined = join_all(&events, STACK.gates());
    assert_eq!(joined.passages.len(), 1);
    assert_eq!(ticks(&joined.passages[0], Gate::IpInBegin), Some(500));
    assert_eq!(ticks(&joined.passages[0], Gate::DemuxBegin), Some(510));
}

#[test]
fn times_of_two_tries_do_not_mix() {
    let mut events = way(0, 7, &[Gate::IpInBegin, Gate::DemuxBegin]);
    events.push(event(500, Gate::DemuxBegin, 7));
    let joined = join_all(&events, STACK.gates());
    assert_eq!(ticks(&joined.passages[0], Gate::IpInBegin), None);
    assert_eq!(ticks(&joined.passages[0], Gate::DemuxBegin), Some(500));
}

#[test]
fn a_duplicate_that_tcp_drops_changes_nothing() {
    let mut events = way(0, 7, &WAY[..15]);
    // A duplicate arrives before the reader comes, and is dropped after its checksum.
    events.extend(way(1_000, 7, &WAY[8..14]));
    events.extend(way(2_000, 7, &WAY[15..]));
    // Another comes after the reader has gone.
    events.extend(way(3_000, 7, &WAY[8..14]));
    let joined = join_all(&events, STACK.gates());
    assert_eq!(joined.passages.len(), 1);
    let passage = &joined.passages[0];
    assert_eq!(ticks(passage, Gate::TcpInBegin), Some(110));
    assert_eq!(ticks(passage, Gate::SocketQueued), Some(140));
    assert_eq!(ticks(passage, Gate::SocketInBegin), Some(2_000));
    assert_eq!(joined.stats.repeated, 12);
}

#[test]
fn an_id_that_is_sent_anew_begins_anew() {
    // An ACK has the id of the data that follows.
    let mut events = way(0, 9, &WAY[1..12]);
    events.extend(way(500, 9, &WAY));
    let joined = join_all(&events, STACK.gates());
    assert_eq!(joined.passages.len(), 2);
    assert_eq!(ticks(&joined.passages[0], Gate::SocketOutBegin), None);
    assert_eq!(ticks(&joined.passages[1], Gate::SocketOutBegin), Some(500));
    assert_eq!(ticks(&joined.passages[1], Gate::TcpOutBegin), Some(510));
    assert_eq!((joined.stats.passages, joined.stats.complete), (2, 1));
}

#[test]
fn an_id_that_comes_round_after_long_silence_begins_anew() {
    let active = GateSet::of(&[Gate::TcpInBegin, Gate::SocketQueued]);
    let young = [
        event(0, Gate::TcpInBegin, 3),
        event(100_000, Gate::SocketQueued, 3),
    ];
    assert_eq!(join_all(&young, active).stats.complete, 1);
    let old = [
        event(0, Gate::TcpInBegin, 3),
        event(100_001, Gate::SocketQueued, 3),
    ];
    let stats = join_all(&old, active).stats;
    assert_eq!(
        (stats.passages, stats.complete, stats.unmatched()),
        (2, 0, 2)
    );
}

#[test]
fn in_a_pair_of_gates_every_use_of_an_id_is_a_passage() {
    let pair = [Gate::TcpOutBegin, Gate::IpOutBegin];
    let mut events = way(0, 3, &pair);
    events.extend(way(50, 3, &pair));
    events.extend(way(900, 3, &pair));
    let stats = join_all(&events, GateSet::of(&pair)).stats;
    assert_eq!((stats.passages, stats.complete, stats.repeated), (3, 3, 0));
}

#[test]
fn ends_of_a_handover_noted_in_the_wrong_order_still_join() {
    let active = GateSet::of(&[Gate::DriverOutEnd, Gate::DriverInBegin]);
    let events = [
        event(40, Gate::DriverInBegin, 3),
        event(55, Gate::DriverOutEnd, 3),
    ];
    let joined = join_all(&events, active);
    assert_eq!(joined.stats.complete, 1);
    assert_eq!(ticks(&joined.passages[0], Gate::DriverInBegin), Some(40));
    assert_eq!(ticks(&joined.passages[0], Gate::DriverOutEnd), Some(55));
    let too_late = [
        event(40, Gate::DriverInBegin, 3),
        event(141, Gate::DriverOutEnd, 3),
    ];
    assert_eq!(join_all(&too_late, active).stats.complete, 0);
}

#[test]
fn gates_that_are_not_active_are_left_aside() {
    let active = GateSet::of(&[Gate::IpInBegin, Gate::DemuxBegin]);
    let joined = join_all(&way(0, 1, &WAY), active);
    assert_eq!(joined.stats.events, 2);
    assert_eq!(joined.passages[0].gates(), active);
    assert_eq!(
        join_all(&way(0, 1, &WAY), GateSet::EMPTY).stats,
        JoinStats::default()
    );
    assert_eq!(JoinStats::default().join_rate(), None);
}

#[test]
fn the_plan_counts_in_the_clocks_ticks() {
    let plan = JoinPlan::new(STACK.gates(), TickScale::from_hz(2_000_000_000).unwrap());
    assert_eq!((plan.max_age, plan.slack), (2_000_000_000, 200_000));
}

fn any_event() -> impl Strategy<Value = Event> {
    (0u64..400_000, 0..Gate::ALL.len(), 0u32..6)
        .prop_map(|(ticks, gate, packet)| event(ticks, Gate::ALL[gate], packet))
}

proptest! {
    /// Any events: each is in a passage or counted, and no time is invented.
    #[test]
    fn nothing_is_lost_or_invented(events in proptest::collection::vec(any_event(), 0..200), split in 0usize..200) {
        let (a, b) = events.split_at(split.min(events.len()));
        let joined = join([Recorded { events: a, lost: 0 }, Recorded { events: b, lost: 0 }], plan(GateSet::ALL));
        prop_assert_eq!(joined.stats.events, events.len() as u64);
        prop_assert_eq!(joined.stats.passages, joined.passages.len() as u64);
        for passage in &joined.passages {
            for gate in passage.gates().iter() {
                let at = passage.at(gate).unwrap();
                let origin = Event { ticks: at, packet: passage.packet, gate };
                prop_assert!(events.contains(&origin));
            }
        }
        let kept: usize = joined.passages.iter().map(|passage| passage.gates().len()).sum();
        // A try that came less far also takes away gates that were passed once only.
        prop_assert!(kept as u64 <= joined.stats.events);
        prop_assert!(joined.stats.complete <= joined.stats.passages);
    }

    /// Whole passages of different packets join completely, however they interleave.
    #[test]
    fn interleaved_packets_join_completely(starts in proptest::collection::vec(0u64..5_000, 1..40)) {
        let mut events = Vec::new();
        for (packet, &start) in starts.iter().enumerate() {
            events.extend(way(start, packet as u32, &WAY));
        }
        let joined = join_all(&events, STACK.gates());
        prop_assert_eq!(joined.stats.complete, starts.len() as u64);
        prop_assert_eq!(joined.stats.repeated, 0);
        for passage in &joined.passages {
            let start = starts[passage.packet.0 as usize];
            prop_assert_eq!(ticks(passage, Gate::SocketInEnd), Some(start + 160));
        }
    }
}
