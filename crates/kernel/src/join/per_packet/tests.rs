//! Synthetic slices with known answers.

use tollgate_gate::{GateSet, JoinPlan, Joined, Recorded, TickScale, Ticks, join};

use super::*;

const CLIENT: u32 = 11;
const SERVER: u32 = 22;
const PORT: u16 = 7;
const THERE: Flow = Flow {
    ports: 40_000 << 16 | PORT as u32,
    addresses: 1,
};
const BACK: Flow = Flow {
    ports: (PORT as u32) << 16 | 40_000,
    addresses: 2,
};
/// Both begin so that the sequence numbers come round within the slice.
const ASKED: u32 = u32::MAX - 60;
const ANSWERED: u32 = u32::MAX - 1_500;

/// Three segments: two full ones and one of 104 bytes.
const EXPECTED: SliceMessages = SliceMessages {
    messages: 2,
    request: 128,
    response: 3_000,
    segment: 1_448,
};

fn joiner() -> PacketJoiner {
    let mut joiner = PacketJoiner::new(PORT, CLIENT, SERVER);
    let none = SliceMessages {
        messages: 0,
        ..EXPECTED
    };
    let first = [
        Event::of_packet(1, Gate::TcpOutBegin, THERE, ASKED, 0),
        Event::of_packet(2, Gate::TcpOutBegin, BACK, ANSWERED, 0),
    ];
    assert!(joiner.learn(&first, &none));
    joiner
}

fn piece(ktime: u64, gate: Gate, at: u32, len: u32) -> Event {
    Event::of_packet(ktime, gate, BACK, ANSWERED.wrapping_add(at), len)
}

fn up_to(ktime: u64, gate: Gate, end: u32) -> Event {
    Event::of_stream(ktime, gate, BACK, ANSWERED.wrapping_add(end))
}

fn on(processor: u16, mut event: Event) -> Event {
    event.cpu = processor;
    event
}

fn joined(tied: &Tied, gates: &[Gate]) -> Joined {
    let recorded = Recorded {
        events: &tied.events,
        lost: 0,
    };
    join(
        [recorded],
        JoinPlan::new(GateSet::of(gates), TickScale::NANOSECONDS),
    )
}

/// When the segments of the first response passed a gate.
fn times(tied: &Tied, gates: &[Gate], gate: Gate) -> Vec<Option<u64>> {
    let joined = joined(tied, gates);
    (0..EXPECTED.segments(Leg::Response))
        .map(|index| {
            let id = EXPECTED.segment_id(Leg::Response, 0, index);
            let passage = joined.passages.iter().find(|one| one.packet == id)?;
            Some(passage.at(gate)?.0)
        })
        .collect()
}

#[test]
fn every_id_stands_for_one_part() {
    let expected = EXPECTED;
    let mut seen = Vec::new();
    for id in 0.. {
        match expected.part(PacketId(id)) {
            Some(part) => seen.push((id, part)),
            None => break,
        }
    }
    // Two requests of one segment and two responses of three, and each message once more as a whole.
    assert_eq!(seen.len(), 2 + 2 + 6 + 2);
    for (id, part) in seen {
        let made = match part {
            SegmentOrMessage::Segment {
                leg,
                message,
                index,
            } => expected.segment_id(leg, message, index),
            SegmentOrMessage::Message { leg, message } => expected.message_id(leg, message),
        };
        assert_eq!(made, PacketId(id));
    }
}

#[test]
fn segments_are_known_by_their_last_byte() {
    let ending =
        |from, to| -> Vec<(u32, u32)> { EXPECTED.ending_in(Leg::Response, from, to).collect() };
    assert_eq!(ending(0, 1_447), []);
    assert_eq!(ending(0, 1_448), [(0, 0)]);
    assert_eq!(ending(1_448, 2_999), [(0, 1)]);
    assert_eq!(ending(2_999, 3_000), [(0, 2)]);
    assert_eq!(
        ending(0, 6_000),
        [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    );
    // A message that is a whole number of segments ends with a full one.
    let even = SliceMessages {
        response: 2_896,
        ..EXPECTED
    };
    let ending: Vec<_> = even.ending_in(Leg::Response, 0, 2 * 2_896).collect();
    assert_eq!(ending, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}

#[test]
fn a_train_in_order_passes_segment_by_segment() {
    let gates = [Gate::DriverOutEnd, Gate::IpInBegin];
    let mut events = Vec::new();
    for (index, (at, len)) in [(0, 1_448), (1_448, 1_448), (2_896, 104)]
        .into_iter()
        .enumerate()
    {
        let ktime = 100 * (index as u64 + 1);
        events.push(piece(ktime, Gate::DriverOutEnd, at, len));
        events.push(piece(ktime + 30, Gate::IpInBegin, at, len));
    }
    let tied = joiner().tie(&events, &EXPECTED);
    assert_eq!(
        times(&tied, &gates, Gate::IpInBegin),
        [Some(130), Some(230), Some(330)]
    );
    assert_eq!(
        (tied.pieces, tied.joint, tied.counts.unmatched),
        (6, (0, 0), 0)
    );
    // The message as a whole passes with its last segment.
    let whole = EXPECTED.message_id(Leg::Response, 0);
    let joined = joined(&tied, &gates);
    let whole = joined
        .passages
        .iter()
        .find(|one| one.packet == whole)
        .unwrap();
    assert_eq!(whole.at(Gate::DriverOutEnd), Some(Ticks(300)));
    assert_eq!(joined.stats.join_rate(), Some(1.0));
}

#[test]
fn several_segments_in_one_skb_pass_together() {
    let gates = [Gate::DeviceQueueIn, Gate::DriverOutBegin];
    // The skb is cut behind the device queue: in one piece at the first gate, in three at the second.
    let events = [
        piece(100, Gate::DeviceQueueIn, 0, 3_000),
        piece(120, Gate::DriverOutBegin, 0, 1_448),
        piece(140, Gate::DriverOutBegin, 1_448, 1_448),
        piece(160, Gate::DriverOutBegin, 2_896, 104),
    ];
    let tied = joiner().tie(&events, &EXPECTED);
    assert_eq!(times(&tied, &gates, Gate::DeviceQueueIn), [Some(100); 3]);
    assert_eq!(
        times(&tied, &gates, Gate::DriverOutBegin),
        [Some(120), Some(140), Some(160)]
    );
    assert_eq!((tied.pieces, tied.joint), (4, (1, 3)));
}

#[test]
fn coalescing_in_the_queue_does_not_matter_to_what_is_copied() {
    let gates = [Gate::SocketQueued, Gate::SocketInBegin];
    let events = [
        up_to(100, Gate::SocketQueued, 1_448),
        // The reader lags behind: two segments at once.
        up_to(200, Gate::SocketQueued, 3_000),
        // A copy that ends in the middle of a segment, and the rest.
        piece(300, Gate::SocketInBegin, 0, 1_000),
        piece(310, Gate::SocketInBegin, 1_000, 2_000),
    ];
    let tied = joiner().tie(&events, &EXPECTED);
    assert_eq!(
        times(&tied, &gates, Gate::SocketQueued),
        [Some(100), Some(200), Some(200)]
    );
    assert_eq!(
        times(&tied, &gates, Gate::SocketInBegin),
        [Some(310), Some(310), Some(310)]
    );
    assert_eq!(tied.counts.inner, 1);
}

#[test]
fn what_comes_out_of_order_waits_for_what_it_follows() {
    let gates = [Gate::TcpInBegin, Gate::SocketQueued];
    let events = [
        piece(100, Gate::TcpInBegin, 0, 1_448),
        up_to(110, Gate::SocketQueued, 1_448),
        piece(200, Gate::TcpInBegin, 2_896, 104),
        // Nothing new is in order.
        up_to(210, Gate::SocketQueued, 1_448),
        piece(300, Gate::TcpInBegin, 1_448, 1_448),
        up_to(310, Gate::SocketQueued, 3_000),
    ];
    let tied = joiner().tie(&events, &EXPECTED);
    assert_eq!(
        times(&tied, &gates, Gate::TcpInBegin),
        [Some(100), Some(300), Some(200)]
    );
    assert_eq!(
        times(&tied, &gates, Gate::SocketQueued),
        [Some(110), Some(310), Some(310)]
    );
}

#[test]
fn a_retransmission_is_the_same_segment() {
    let gates = [Gate::DriverOutEnd, Gate::IpInBegin];
    let events = [
        piece(100, Gate::DriverOutEnd, 0, 1_448),
        piece(110, Gate::IpInBegin, 0, 1_448),
        // Lost on the way, and sent again with its neighbour in one skb.
        piece(120, Gate::DriverOutEnd, 1_448, 1_448),
        piece(130, Gate::DriverOutEnd, 2_896, 104),
        piece(140, Gate::IpInBegin, 2_896, 104),
        piece(900, Gate::DriverOutEnd, 1_448, 1_552),
        piece(910, Gate::IpInBegin, 1_448, 1_552),
    ];
    let tied = joiner().tie(&events, &EXPECTED);
    // On the way out the first time counts.
    assert_eq!(
        times(&tied, &gates, Gate::DriverOutEnd)[..2],
        [Some(100), Some(120)]
    );
    assert_eq!(times(&tied, &gates, Gate::IpInBegin)[1], Some(910));
    assert!(joined(&tied, &gates).stats.repeated > 0);
}

#[test]
fn a_send_takes_its_bytes_in_chunks_that_know_no_segments() {
    let gates = [Gate::SocketOutBegin, Gate::TcpOutBegin];
    let chunk = |ktime, at| piece(ktime, Gate::TcpOutBegin, at, 0).by(SERVER);
    let events = [
        Event::of_thread(90, Gate::SocketOutBegin, SERVER),
        chunk(100, 0),
        // It waited for memory and asks again.
        chunk(150, 0),
        chunk(200, 2_000),
        Event::of_thread(390, Gate::SocketOutBegin, SERVER),
        chunk(400, 3_000),
    ];
    let tied = joiner().tie(&events, &EXPECTED);
    assert_eq!(
        times(&tied, &gates, Gate::TcpOutBegin),
        [Some(150), Some(200), Some(200)]
    );
    let joined = joined(&tied, &gates);
    let whole = |message| {
        let id = EXPECTED.message_id(Leg::Response, message);
        let passage = joined.passages.iter().find(|one| one.packet == id).unwrap();
        (
            passage.at(Gate::SocketOutBegin).unwrap().0,
            passage.at(Gate::TcpOutBegin).unwrap().0,
        )
    };
    assert_eq!(whole(0), (90, 100));
    assert_eq!(whole(1), (390, 400));
}

#[test]
fn the_last_return_before_an_end_sends_again_ends_what_it_read() {
    let thread = Event::of_thread;
    let gates = [Gate::SocketInEnd, Gate::ApplicationEnd];
    let events = [
        thread(10, Gate::SocketOutBegin, CLIENT),
        thread(20, Gate::SocketInEnd, SERVER),
        thread(25, Gate::SocketOutBegin, SERVER),
        // The response is read in two calls.
        thread(40, Gate::SocketInEnd, CLIENT),
        thread(60, Gate::SocketInEnd, CLIENT),
        thread(65, Gate::SocketOutBegin, CLIENT),
    ];
    let tied = joiner().tie(&events, &EXPECTED);
    let joined = joined(&tied, &gates);
    let between = |leg| {
        let id = EXPECTED.message_id(leg, 0);
        let passage = joined.passages.iter().find(|one| one.packet == id).unwrap();
        (
            passage.at(gates[0]).unwrap().0,
            passage.at(gates[1]).unwrap().0,
        )
    };
    assert_eq!(between(Leg::Request), (20, 25));
    assert_eq!(between(Leg::Response), (60, 65));
}

#[test]
fn the_return_after_the_last_byte_was_copied_ends_a_message() {
    let gates = [Gate::SocketInBegin, Gate::SocketInEnd];
    let events = [
        piece(100, Gate::SocketInBegin, 0, 1_448),
        Event::of_thread(120, Gate::SocketInEnd, CLIENT),
        piece(200, Gate::SocketInBegin, 1_448, 1_552),
        Event::of_thread(230, Gate::SocketInEnd, CLIENT),
    ];
    let tied = joiner().tie(&events, &EXPECTED);
    let joined = joined(&tied, &gates);
    let id = EXPECTED.message_id(Leg::Response, 0);
    let whole = joined.passages.iter().find(|one| one.packet == id).unwrap();
    assert_eq!(whole.at(Gate::SocketInEnd), Some(Ticks(230)));
}

#[test]
fn processors_of_a_packet_are_those_of_its_passages() {
    let events = [
        on(0, piece(100, Gate::DemuxBegin, 0, 1_448)),
        on(1, piece(125, Gate::TcpInBegin, 0, 1_448)),
    ];
    let tied = joiner().tie(&events, &EXPECTED);
    let id = EXPECTED.segment_id(Leg::Response, 0, 0);
    let gates = [Gate::DemuxBegin, Gate::TcpInBegin, Gate::SocketQueued];
    let processors = gates.map(|gate| tied.processor(id, gate));
    assert_eq!(processors, [Some(0), Some(1), None]);
}

#[test]
fn calls_and_returns_are_known_without_the_gates_beside_them() {
    let request =
        |ktime, gate, at: u32| Event::of_packet(ktime, gate, THERE, ASKED.wrapping_add(at), 128);
    let thread = Event::of_thread;
    let events = [
        thread(10, Gate::SocketOutBegin, CLIENT),
        request(15, Gate::IpOutBegin, 0),
        thread(20, Gate::SocketInEnd, SERVER),
        piece(30, Gate::IpOutBegin, 0, 3_000),
        thread(40, Gate::SocketInEnd, CLIENT),
        thread(60, Gate::SocketInEnd, CLIENT),
        thread(65, Gate::SocketOutBegin, CLIENT),
        request(70, Gate::IpOutBegin, 128),
        thread(80, Gate::SocketInEnd, SERVER),
        piece(90, Gate::IpOutBegin, 3_000, 3_000),
        thread(99, Gate::SocketInEnd, CLIENT),
    ];
    let gates = [Gate::SocketOutBegin, Gate::IpOutBegin, Gate::SocketInEnd];
    let at = |events: &[Event], leg, message, gate| {
        let joined = joined(&joiner().tie(events, &EXPECTED), &gates);
        let id = EXPECTED.message_id(leg, message);
        let mut passages = joined.passages.iter();
        let whole = passages.find(|one| one.packet == id).unwrap();
        whole.at(gate).map(|ticks| ticks.0)
    };
    let without: Vec<Event> = events
        .iter()
        .filter(|event| event.gate() != Some(Gate::SocketOutBegin))
        .copied()
        .collect();
    for events in [&events[..], &without] {
        let end = |leg, message| at(events, leg, message, Gate::SocketInEnd);
        assert_eq!(
            [end(Leg::Request, 0), end(Leg::Request, 1)],
            [Some(20), Some(80)]
        );
        assert_eq!(
            [end(Leg::Response, 0), end(Leg::Response, 1)],
            [Some(60), Some(99)]
        );
    }
    let begin = |leg, message| at(&events, leg, message, Gate::SocketOutBegin);
    assert_eq!(
        [begin(Leg::Request, 0), begin(Leg::Request, 1)],
        [Some(10), Some(65)]
    );
    // Of the far end no call was seen, so there is none for each message.
    assert_eq!(begin(Leg::Response, 0), None);
}

#[test]
fn slices_follow_each_other_and_strangers_are_counted() {
    let mut joiner = joiner();
    joiner.advance(&EXPECTED);
    let events = [
        // Of the slice before.
        piece(100, Gate::IpInBegin, 2_896, 104),
        piece(110, Gate::IpInBegin, 6_000, 1_448),
        Event::of_thread(120, Gate::SocketInEnd, 99),
    ];
    let tied = joiner.tie(&events, &EXPECTED);
    assert_eq!(tied.counts.unmatched, 2);
    assert_eq!(tied.events.len(), 1);
    assert_eq!(
        EXPECTED.part(tied.events[0].packet),
        Some(SegmentOrMessage::Segment {
            leg: Leg::Response,
            message: 0,
            index: 0
        })
    );
}
