//! Synthetic slices with known answers.

use proptest::prelude::*;
use tollgate_gate::{Direction, GateSet, JoinPlan, KERNEL, Recorded, TickScale, join};

use super::*;

const CLIENT: u32 = 11;
const SERVER: u32 = 22;
const TRANSFER: Transfer = Transfer {
    server_port: 80,
    client: CLIENT,
    server: SERVER,
    size: 100,
};
const REQUESTS: Flow = Flow {
    ports: 4000 << 16 | 80,
    addresses: 1,
};
const ANSWERS: Flow = Flow {
    ports: 80 << 16 | 4000,
    addresses: 2,
};
/// Sequence number of the connection's first message; sequence numbers come round within the tests.
const START: u32 = u32::MAX - 250;

/// All gates that one message passes, 10 ns apart from `at`.
fn message(at: u64, flow: Flow, seq: u32, len: u32) -> Vec<Event> {
    let (sender, reader) = TRANSFER.ends(flow);
    let end = seq.wrapping_add(len);
    let packet = |ktime, gate| Event::of_packet(ktime, gate, flow, seq, len);
    vec![
        Event::of_thread(at, Gate::SocketOutBegin, sender),
        Event::of_packet(at + 10, Gate::TcpOutBegin, flow, seq, 0).by(sender),
        packet(at + 20, Gate::IpOutBegin),
        packet(at + 30, Gate::DeviceQueueIn),
        packet(at + 40, Gate::DriverOutBegin),
        packet(at + 50, Gate::DriverOutEnd),
        packet(at + 60, Gate::IpInBegin),
        packet(at + 70, Gate::DemuxBegin),
        packet(at + 80, Gate::TcpInBegin),
        Event::of_stream(at + 90, Gate::SocketQueued, flow, end),
        Event::of_thread(at + 95, Gate::SocketOutEnd, sender),
        Event::of_thread(at + 100, Gate::ReaderRuns, reader),
        packet(at + 110, Gate::SocketInBegin).by(reader),
        Event::of_thread(at + 120, Gate::SocketInEnd, reader),
    ]
}

/// Requests and answers in turn, `n` round trips.
fn round_trips(n: u32) -> Vec<Event> {
    (0..n)
        .flat_map(|round_trip| {
            let seq = START.wrapping_add(100 * round_trip);
            let at = 1_000 + 1_000 * u64::from(round_trip);
            let mut events = message(at, REQUESTS, seq, 100);
            events.extend(message(at + 200, ANSWERS, seq, 100));
            events
        })
        .collect()
}

/// The times at a gate, in order.
fn times(tied: &Tied, gate: Gate) -> Vec<u64> {
    let mut times: Vec<u64> = tied
        .events
        .iter()
        .filter(|event| event.gate == gate)
        .map(|event| event.ticks.0)
        .collect();
    times.sort_unstable();
    times
}

/// The times of a passage, by gate, of the message that passed `gate` at `ktime`.
fn passage(tied: &Tied, gate: Gate, ktime: u64) -> Vec<(Gate, u64)> {
    let id = tied
        .events
        .iter()
        .find(|event| event.gate == gate && event.ticks.0 == ktime)
        .expect("passed")
        .packet;
    let mut times: Vec<(Gate, u64)> = tied
        .events
        .iter()
        .filter(|event| event.packet == id)
        .map(|event| (event.gate, event.ticks.0))
        .collect();
    times.sort_unstable();
    times
}

fn teach(joiner: &mut Joiner) {
    for flow in [REQUESTS, ANSWERS] {
        let known = Event::of_packet(1, Gate::IpOutBegin, flow, START, 100);
        joiner.tie(&[known]);
    }
}

#[test]
fn a_whole_way_is_one_passage_at_every_gate() {
    let tied = Joiner::new(TRANSFER).tie(&round_trips(4));
    assert_eq!(tied.counts.unmatched, 0);
    let active = KERNEL.gates().without(Gate::SocketOutEnd);
    let joined = join(
        [Recorded {
            events: &tied.events,
            lost: 0,
        }],
        JoinPlan::new(active, TickScale::NANOSECONDS),
    );
    assert_eq!(joined.stats.passages, 8);
    // The last answer is followed by no request, so its application never ends.
    assert_eq!(joined.stats.complete, 7);
    let spans = KERNEL
        .only(Direction::Tx)
        .unwrap()
        .spans()
        .iter()
        .chain(KERNEL.only(Direction::Rx).unwrap().spans());
    for span in spans {
        for passage in &joined.passages {
            let (from, to) = (passage.at(span.from), passage.at(span.to));
            let ns = to.unwrap().since(from.unwrap());
            assert_eq!(ns, 10, "{} {}", span.direction.name(), span.name);
        }
    }
}

#[test]
fn the_application_ends_where_the_answer_begins() {
    let tied = Joiner::new(TRANSFER).tie(&round_trips(2));
    // The request is read at 1,120 and answered at 1,200; the answer is read at 1,320, the next request sent at 2,000.
    assert_eq!(times(&tied, Gate::ApplicationEnd), [1_200, 2_000, 2_200]);
    let request = passage(&tied, Gate::SocketInEnd, 1_120);
    assert!(request.contains(&(Gate::ApplicationEnd, 1_200)));
}

#[test]
fn threads_alone_pair_their_calls() {
    let threads: Vec<Event> = round_trips(3)
        .into_iter()
        .filter(|event| matches!(event.gate(), Some(Gate::SocketInEnd | Gate::SocketOutBegin)))
        .collect();
    let tied = Joiner::new(TRANSFER).tie(&threads);
    assert_eq!(times(&tied, Gate::SocketInEnd).len(), 6);
    assert_eq!(times(&tied, Gate::ApplicationEnd).len(), 5);
    assert_eq!(
        passage(&tied, Gate::SocketInEnd, 1_320),
        [(Gate::SocketInEnd, 1_320), (Gate::ApplicationEnd, 2_000)]
    );
}

#[test]
fn a_message_in_several_segments_passes_when_its_last_byte_does() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    let part = |ktime, gate, from: u32, len| {
        Event::of_packet(ktime, gate, REQUESTS, START.wrapping_add(from), len)
    };
    // Sent in three segments, of which GRO puts the last two together.
    let tied = joiner.tie(&[
        part(10, Gate::DeviceQueueIn, 0, 40),
        part(20, Gate::DeviceQueueIn, 40, 40),
        part(30, Gate::DeviceQueueIn, 80, 20),
        part(50, Gate::IpInBegin, 0, 40),
        part(60, Gate::IpInBegin, 40, 60),
    ]);
    assert_eq!(
        passage(&tied, Gate::IpInBegin, 60),
        [(Gate::DeviceQueueIn, 30), (Gate::IpInBegin, 60)]
    );
    assert_eq!((tied.events.len(), tied.counts.inner), (2, 3));
}

#[test]
fn a_segment_of_several_messages_is_a_passage_of_each() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    // Three messages, the last one in part: one GSO segment out, one piece in, read one by one.
    let tied = joiner.tie(&[
        Event::of_packet(10, Gate::DeviceQueueIn, REQUESTS, START, 250),
        Event::of_packet(
            20,
            Gate::DeviceQueueIn,
            REQUESTS,
            START.wrapping_add(250),
            50,
        ),
        Event::of_packet(30, Gate::IpInBegin, REQUESTS, START, 300),
    ]);
    assert_eq!(times(&tied, Gate::DeviceQueueIn), [10, 10, 20]);
    assert_eq!(times(&tied, Gate::IpInBegin), [30, 30, 30]);
    let ids: std::collections::HashSet<_> = tied.events.iter().map(|event| event.packet).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn what_was_coalesced_in_the_queue_is_read_message_by_message() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    let seq = |messages: u32| START.wrapping_add(100 * messages);
    let tied = joiner.tie(&[
        Event::of_stream(10, Gate::SocketQueued, REQUESTS, seq(1)),
        Event::of_stream(15, Gate::SocketQueued, REQUESTS, seq(3)),
        Event::of_packet(20, Gate::SocketInBegin, REQUESTS, seq(0), 100).by(SERVER),
        Event::of_packet(30, Gate::SocketInBegin, REQUESTS, seq(1), 100).by(SERVER),
        Event::of_packet(40, Gate::SocketInBegin, REQUESTS, seq(2), 100).by(SERVER),
    ]);
    assert_eq!(times(&tied, Gate::SocketQueued), [10, 15, 15]);
    for (read, queued) in [(20, 10), (30, 15), (40, 15)] {
        let message = passage(&tied, Gate::SocketInBegin, read);
        assert!(
            message.contains(&(Gate::SocketQueued, queued)),
            "{message:?}"
        );
    }
    // Nobody was seen to run, so all but the last were queued for a reader that was awake.
    assert_eq!(tied.counts.reader_awake, 2);
}

#[test]
fn queued_from_the_backlog_in_the_reader_s_own_call_it_was_awake() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    // The reader held its socket: the segment waits in the backlog and is processed when the reader lets go of it.
    let mut first = message(100, REQUESTS, START, 100);
    first.retain(|event| event.gate() != Some(Gate::ReaderRuns));
    let second = message(1_000, REQUESTS, START.wrapping_add(100), 100);
    let tied = joiner.tie(&[first, second].concat());
    let backlog = passage(&tied, Gate::SocketQueued, 190);
    assert!(backlog.contains(&(Gate::ReaderRuns, 190)), "{backlog:?}");
    assert_eq!(tied.counts.reader_awake, 1);
    let slept = passage(&tied, Gate::SocketQueued, 1_090);
    assert!(slept.contains(&(Gate::ReaderRuns, 1_100)), "{slept:?}");
}

#[test]
fn without_a_hook_at_the_queue_the_gate_before_it_wakes_the_reader() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    for gate in [Gate::TcpInBegin, Gate::IpInBegin] {
        let mut events = round_trips(2);
        events.retain(|event| [Some(gate), Some(Gate::ReaderRuns)].contains(&event.gate()));
        let tied = joiner.tie(&events);
        for at in times(&tied, gate) {
            let runs = at / 100 * 100 + 100;
            assert_eq!(
                passage(&tied, gate, at),
                [(gate, at), (Gate::ReaderRuns, runs)]
            );
        }
        assert_eq!((tied.events.len(), tied.counts.reader_awake), (8, 0));
    }
}

#[test]
fn a_retransmission_is_a_second_passage_of_the_same_message() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    let segment = |ktime, gate| Event::of_packet(ktime, gate, REQUESTS, START, 100);
    let tied = joiner.tie(&[
        segment(10, Gate::DeviceQueueIn),
        segment(200_010, Gate::DeviceQueueIn),
        segment(200_060, Gate::IpInBegin),
    ]);
    let joined = join(
        [Recorded {
            events: &tied.events,
            lost: 0,
        }],
        JoinPlan::new(
            GateSet::of(&[Gate::DeviceQueueIn, Gate::IpInBegin]),
            TickScale::NANOSECONDS,
        ),
    );
    assert_eq!((joined.stats.passages, joined.stats.repeated), (1, 1));
    let passage = &joined.passages[0];
    assert_eq!(passage.at(Gate::DeviceQueueIn).unwrap().0, 10);
}

#[test]
fn a_send_in_two_parts_begins_once() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    let send = |ktime, from: u32| {
        Event::of_packet(
            ktime,
            Gate::TcpOutBegin,
            REQUESTS,
            START.wrapping_add(from),
            0,
        )
        .by(CLIENT)
    };
    let tied = joiner.tie(&[
        Event::of_thread(5, Gate::SocketOutBegin, CLIENT),
        send(10, 0),
        send(20, 60),
    ]);
    assert_eq!(
        passage(&tied, Gate::TcpOutBegin, 10),
        [(Gate::SocketOutBegin, 5), (Gate::TcpOutBegin, 10)]
    );
    assert_eq!(tied.counts.inner, 1);
}

#[test]
fn the_first_gate_that_sees_a_message_tells_what_was_sent() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    for first in [
        Gate::IpOutBegin,
        Gate::DeviceQueueIn,
        Gate::DriverOutBegin,
        Gate::DriverOutEnd,
    ] {
        let tied = joiner.tie(&[
            Event::of_thread(5, Gate::SocketOutBegin, CLIENT),
            Event::of_packet(20, first, REQUESTS, START, 100),
            Event::of_packet(30, Gate::IpInBegin, REQUESTS, START, 100),
        ]);
        assert_eq!(
            passage(&tied, first, 20),
            [
                (Gate::SocketOutBegin, 5),
                (first, 20),
                (Gate::IpInBegin, 30)
            ]
        );
    }
}

#[test]
fn several_messages_in_flight_keep_apart() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    let mut events = Vec::new();
    for n in 0..4u32 {
        let seq = START.wrapping_add(100 * n);
        let at = 10 * u64::from(n);
        events.push(Event::of_packet(at, Gate::DriverOutEnd, REQUESTS, seq, 100));
        events.push(Event::of_packet(
            at + 35,
            Gate::IpInBegin,
            REQUESTS,
            seq,
            100,
        ));
    }
    let tied = joiner.tie(&events);
    for n in 0..4 {
        assert_eq!(
            passage(&tied, Gate::DriverOutEnd, 10 * n),
            [(Gate::DriverOutEnd, 10 * n), (Gate::IpInBegin, 10 * n + 35)]
        );
    }
}

#[test]
fn borders_are_remembered_between_slices() {
    let mut joiner = Joiner::new(TRANSFER);
    teach(&mut joiner);
    // A slice without gates has carried eleven messages meanwhile.
    let end = START.wrapping_add(1_200);
    let tied = joiner.tie(&[Event::of_stream(10, Gate::SocketQueued, REQUESTS, end)]);
    assert_eq!(times(&tied, Gate::SocketQueued), [10]);
    assert_eq!(tied.counts.unmatched, 0);
}

#[test]
fn what_belongs_to_no_message_is_counted() {
    let tied = Joiner::new(TRANSFER).tie(&[
        Event::of_stream(10, Gate::SocketQueued, REQUESTS, START),
        Event::of_thread(20, Gate::SocketOutEnd, CLIENT),
    ]);
    assert!(tied.events.is_empty());
    assert_eq!((tied.counts.read, tied.counts.unmatched), (2, 2));
}

proptest! {
    /// However a stream is cut on the way out and put together on the way in, every message passes both gates once, and its
    /// times are those of the pieces with its last byte.
    #[test]
    fn any_cut_joins_completely(
        size in 1u32..400,
        messages in 1u32..20,
        cuts in proptest::collection::vec(1u32..700, 1..60),
        start: u32,
    ) {
        let transfer = Transfer { size, ..TRANSFER };
        let mut joiner = Joiner::new(transfer);
        joiner.tie(&[Event::of_packet(1, Gate::IpOutBegin, REQUESTS, start, size)]);
        let total = size * messages;
        let pieces = |offset: usize| {
            let mut at = 0;
            let mut pieces = Vec::new();
            for cut in cuts.iter().cycle().skip(offset) {
                if at == total {
                    break;
                }
                let len = (*cut).min(total - at);
                pieces.push((at, len));
                at += len;
            }
            pieces
        };
        let mut events = Vec::new();
        for (gate, offset, begin) in [(Gate::DeviceQueueIn, 0, 1_000), (Gate::IpInBegin, 1, 100_000)] {
            for (n, (at, len)) in pieces(offset).into_iter().enumerate() {
                events.push(Event::of_packet(begin + n as u64, gate, REQUESTS, start.wrapping_add(at), len));
            }
        }
        let tied = joiner.tie(&events);
        prop_assert_eq!(tied.counts.unmatched, 0);
        let last = |offset: usize, message: u32| {
            let end = size * (message + 1);
            pieces(offset).iter().position(|(at, len)| *at < end && end <= at + len).unwrap() as u64
        };
        for (gate, offset, begin) in [(Gate::DeviceQueueIn, 0, 1_000), (Gate::IpInBegin, 1, 100_000)] {
            let ought: Vec<u64> = (0..messages).map(|message| begin + last(offset, message)).collect();
            prop_assert_eq!(times(&tied, gate), ought);
        }
    }
}

#[test]
fn any_set_of_gates_ties_every_message() {
    let events = round_trips(4);
    let gates: Vec<Gate> = (KERNEL.gates().iter())
        .filter(|gate| !matches!(gate, Gate::SocketOutEnd | Gate::ApplicationEnd))
        .collect();
    let mut untied = Vec::new();
    for bits in 1_u32..1 << gates.len() {
        let set: GateSet = (gates.iter().enumerate())
            .filter(|(place, _)| bits & 1 << place != 0)
            .map(|(_, &gate)| gate)
            .collect();
        if set.len() < 2 {
            continue;
        }
        let mut joiner = Joiner::new(TRANSFER);
        teach(&mut joiner);
        let some: Vec<Event> = (events.iter())
            .filter(|event| event.gate().is_some_and(|gate| set.contains(gate)))
            .copied()
            .collect();
        let tied = joiner.tie(&some);
        let recorded = Recorded {
            events: &tied.events,
            lost: 0,
        };
        let joined = join([recorded], JoinPlan::new(set, TickScale::NANOSECONDS));
        let whole = |passage: &&tollgate_gate::Passage| {
            let times = set.iter().map(|gate| passage.at(gate).map(|at| at.0));
            let mut order = times.collect::<Vec<_>>();
            order.dedup();
            passage.gates() == set && order.is_sorted()
        };
        if joined.passages.iter().filter(whole).count() != 8 {
            untied.push(set);
        }
    }
    assert!(
        untied.is_empty(),
        "{} sets, such as {:?}",
        untied.len(),
        untied.first()
    );
}
