use std::net::Ipv4Addr;

use tollgate_wire::SeqNumber;

use super::*;
use crate::rows::InMemory;

const NONE: Flags = Flags(0);
const MS: i64 = 1_000_000;

fn end(n: u8, port: u16) -> End {
    End {
        address: Ipv4Addr::new(10, 0, 0, n).into(),
        port,
    }
}

fn segment(from_client: bool, seq: u32, flags: Flags, size: u32) -> Transport {
    let (client, server) = (end(9, 1_000), end(2, 80));
    let (source, destination) = if from_client {
        (client, server)
    } else {
        (server, client)
    };
    let flags = if flags.has(Flags::SYN) {
        flags
    } else {
        flags | Flags::ACK
    };
    Transport {
        source,
        destination,
        size,
        segment: Some(Segment {
            seq: SeqNumber(seq),
            flags,
        }),
    }
}

fn datagram(port: u16, size: u32) -> Transport {
    Transport {
        source: end(1, port),
        destination: end(2, 53),
        size,
        segment: None,
    }
}

/// The rows of segments a millisecond apart.
fn rows(limits: Limits, transports: &[Transport]) -> (InMemory, Tally) {
    let mut flows = Flows::new(limits, None, 100);
    let mut rows = InMemory::default();
    for (at, transport) in transports.iter().enumerate() {
        let time = at as i64 * MS;
        flows.push(transport, time, (1, time), &mut rows).unwrap();
    }
    let tally = flows.finish(&mut rows).unwrap();
    (rows, tally)
}

/// Size, packets and definition of each message.
fn messages(rows: &InMemory) -> Vec<(u32, u32, Counted)> {
    rows.messages
        .iter()
        .map(|(row, _)| (row.size, row.packets, row.counted))
        .collect()
}

use Counted::{AsBoth, AsSegment, AsWrite};

#[test]
fn the_server_is_told_by_port_where_no_syn_tells() {
    let roles = |source: u16, destination: u16, flags: Option<Flags>| {
        let transport = Transport {
            source: end(1, source),
            destination: end(2, destination),
            size: 1,
            segment: flags.map(|flags| Segment {
                seq: SeqNumber(0),
                flags,
            }),
        };
        let (rows, _) = rows(Limits::default(), &[transport]);
        let ends = rows.flows[0].ends;
        let to_server = rows.packets[0].to_server;
        assert_eq!(to_server, ends.server.address == end(2, 0).address);
        ends.server.port
    };
    let ack = Some(Flags::ACK);
    for flags in [None, ack] {
        assert_eq!(roles(53, 40_000, flags), 53);
        assert_eq!(roles(40_000, 53, flags), 53);
        assert_eq!(roles(40_000, 8_080, flags), 8_080);
        assert_eq!(roles(4_789, 1_023, flags), 1_023);
        // RFC 768: who sends from port 0 waits for no answer.
        assert_eq!(roles(0, 514, flags), 514);
        assert_eq!(roles(514, 0, flags), 514);
    }
    // A SYN tells, whatever the ports.
    assert_eq!(roles(80, 9_000, Some(Flags::SYN)), 9_000);
    assert_eq!(roles(9_000, 80, Some(Flags::SYN | Flags::ACK)), 9_000);
}

#[test]
fn a_connection_becomes_one_flow_with_its_messages() {
    let (rows, tally) = rows(
        Limits::default(),
        &[
            segment(true, 0, Flags::SYN, 0),
            segment(false, 500, Flags::SYN | Flags::ACK, 0),
            segment(true, 1, Flags::PSH, 20),
            segment(false, 501, NONE, 1_000),
            segment(false, 1_501, Flags::PSH, 100),
            segment(true, 21, Flags::FIN, 0),
            segment(false, 1_601, Flags::FIN, 0),
        ],
    );
    assert_eq!(
        messages(&rows),
        [
            (20, 1, AsBoth),
            (1_000, 1, AsSegment),
            (100, 1, AsSegment),
            (1_100, 2, AsWrite),
        ]
    );
    assert_eq!(rows.packets.len(), 7);
    assert_eq!(tally.messages, 4);
    let [flow] = &rows.flows[..] else {
        panic!("{:?}", rows.flows);
    };
    assert_eq!(
        (flow.flow, flow.opened, flow.ending),
        (100, true, Ending::Closed)
    );
    assert_eq!(
        (flow.ends.client, flow.ends.server),
        (end(9, 1_000), end(2, 80))
    );
    assert_eq!((flow.first_ns, flow.last_ns), (0, 6 * MS));
    let Carried {
        packets,
        bytes,
        segments,
        writes,
        again,
    } = flow.to_client;
    assert_eq!(
        (packets, bytes, segments, writes, again),
        (4, 1_100, 2, 1, 0)
    );
}

#[test]
fn user_data_of_the_other_end_ends_a_write() {
    let (rows, _) = rows(
        Limits::default(),
        &[
            segment(true, 1, NONE, 20),
            segment(true, 21, NONE, 10),
            segment(false, 1, Flags::PSH, 5),
            segment(true, 31, NONE, 7),
        ],
    );
    assert_eq!(
        messages(&rows),
        [
            (20, 1, AsSegment),
            (10, 1, AsSegment),
            (30, 2, AsWrite),
            (5, 1, AsBoth),
            (7, 1, AsSegment),
            (7, 1, AsWrite),
        ]
    );
}

#[test]
fn what_is_sent_again_is_a_segment_and_nothing_written() {
    let (rows, _) = rows(
        Limits::default(),
        &[
            segment(true, 1, Flags::PSH, 20),
            segment(true, 1, Flags::PSH, 20),
        ],
    );
    assert_eq!(messages(&rows), [(20, 1, AsBoth), (20, 1, AsSegment)]);
    assert!(rows.messages[1].0.again);
    assert_eq!(rows.flows[0].to_server.again, 1);
    assert_eq!(rows.flows[0].to_server.writes, 1);
}

#[test]
fn a_server_is_known_by_its_answer_to_a_syn() {
    let (rows, _) = rows(
        Limits::default(),
        &[segment(false, 5, Flags::SYN | Flags::ACK, 0)],
    );
    assert_eq!(rows.flows[0].ends.server, end(2, 80));
    assert_eq!(rows.flows[0].to_client.packets, 1);
}

#[test]
fn a_syn_with_another_number_begins_another_flow() {
    let (rows, tally) = rows(
        Limits::default(),
        &[
            segment(true, 0, Flags::SYN, 0),
            segment(true, 0, Flags::SYN, 0),
            segment(true, 1, NONE, 3),
            segment(false, 9, Flags::RST, 0),
            segment(true, 77, Flags::SYN, 0),
        ],
    );
    assert_eq!(tally.flows, 2);
    assert_eq!(rows.flows[0].ending, Ending::Reset);
    assert_eq!(rows.flows[0].to_server.packets, 3);
    assert_eq!(
        (rows.flows[1].flow, rows.flows[1].ending),
        (101, Ending::Open)
    );
    // What was open is given before the new flow begins.
    assert_eq!(messages(&rows), [(3, 1, AsSegment), (3, 1, AsWrite)]);
}

#[test]
fn datagrams_are_messages_by_both_definitions_even_empty_ones() {
    let (rows, _) = rows(Limits::default(), &[datagram(7, 0), datagram(7, 512)]);
    assert_eq!(messages(&rows), [(0, 1, AsBoth), (512, 1, AsBoth)]);
    assert_eq!(rows.flows.len(), 1);
}

#[test]
fn the_flow_that_was_silent_longest_makes_room() {
    let limits = Limits {
        flows: 2,
        ..Limits::default()
    };
    let (rows, tally) = rows(
        limits,
        &[
            datagram(1_001, 1),
            datagram(1_002, 1),
            datagram(1_001, 1),
            datagram(1_003, 1),
            datagram(1_002, 1),
        ],
    );
    assert_eq!((tally.flows, tally.evicted), (4, 2));
    let gone: Vec<(u16, Ending)> = rows
        .flows
        .iter()
        .map(|flow| (flow.ends.client.port, flow.ending))
        .collect();
    assert_eq!(
        gone,
        [
            (1_002, Ending::Evicted),
            (1_001, Ending::Evicted),
            (1_003, Ending::Open),
            (1_002, Ending::Open),
        ]
    );
}

#[test]
fn addresses_are_replaced_and_ports_stay() {
    let mut flows = Flows::new(Limits::default(), Some(Anonymiser::new(&[7; 32])), 0);
    let mut rows = InMemory::default();
    flows
        .push(&datagram(1_007, 1), 0, (1, 0), &mut rows)
        .unwrap();
    flows.finish(&mut rows).unwrap();
    let ends = rows.flows[0].ends;
    assert_ne!(ends.client.address, end(1, 7).address);
    assert_eq!((ends.client.port, ends.server.port), (1_007, 53));
    assert_eq!(rows.messages[0].1, ends);
}
