use tollgate_wire::ipv4::protocol::{TCP, UDP};
use tollgate_wire::tcp::Flags;

use super::*;
use crate::craft;
use crate::rows::{Carried, InMemory};

/// Result of importing a capture of raw IP with these packets, each with the bytes that it had on the wire.
fn imported(packets: &[(Vec<u8>, usize)]) -> (Counts, InMemory) {
    let file = pcap(packets);
    let mut capture = Capture::new(&file[..]).unwrap();
    let mut importer = Importer::new(Settings::default());
    let mut rows = InMemory::default();
    while importer.read(&mut capture, 10, &mut rows) == Ok(true) {}
    let Ok(counts) = importer.finish(&mut rows);
    (counts, rows)
}

fn pcap(packets: &[(Vec<u8>, usize)]) -> Vec<u8> {
    let mut file = craft::pcap_header(101, false);
    for (at, (packet, on_wire)) in packets.iter().enumerate() {
        let record = file.len();
        file.extend(craft::pcap_record(at as u32, packet, 0, false));
        file[record + 12..record + 16].copy_from_slice(&(*on_wire as u32).to_le_bytes());
    }
    file
}

fn whole(packet: Vec<u8>) -> (Vec<u8>, usize) {
    let len = packet.len();
    (packet, len)
}

/// Every packet, and every datagram that was put together, is counted as one thing.
fn assert_all_is_counted(counts: &Counts) {
    let unknown: u64 = counts.unknown_links.values().sum();
    let became = [
        counts.tcp.packets,
        counts.udp.packets,
        counts.fragments,
        counts.other_protocols,
        counts.not_ip,
        unknown,
        counts.malformed,
        counts.headers_cut,
    ];
    let sum: u64 = became.iter().sum();
    assert_eq!(counts.packets + counts.reassembled, sum, "{counts:?}");
}

/// The sums of the flows are the numbers of messages by either definition.
fn assert_messages_agree(rows: &InMemory) {
    let sum = |of: fn(&Carried) -> u64| -> u64 {
        let flows = rows.flows.iter();
        flows
            .map(|flow| of(&flow.to_server) + of(&flow.to_client))
            .sum()
    };
    let count = |is: fn(crate::rows::Counted) -> bool| {
        let messages = rows.messages.iter();
        messages.filter(|(row, _)| is(row.counted)).count() as u64
    };
    assert_eq!(
        sum(|carried| carried.segments),
        count(|counted| counted.is_segment())
    );
    assert_eq!(
        sum(|carried| carried.writes),
        count(|counted| counted.is_write())
    );
}

#[test]
fn payload_ends_with_the_frame_where_ip_names_more() {
    // 54 bytes of Ethernet were on the wire, and IP says 1,500.
    let mut segment = craft::ipv4(true, TCP, &craft::segment((1, 2), 0, Flags::ACK, 0));
    segment[2..4].copy_from_slice(&1_500_u16.to_be_bytes());
    let mut datagram = craft::ipv4(true, UDP, &craft::udp((1, 2), 12));
    datagram[2..4].copy_from_slice(&1_028_u16.to_be_bytes());
    datagram[24..26].copy_from_slice(&1_008_u16.to_be_bytes());
    let mut v6 = craft::ipv6(TCP, &craft::segment((1, 2), 0, Flags::ACK, 7));
    v6[4..6].copy_from_slice(&9_000_u16.to_be_bytes());
    let cut = craft::ipv4(true, TCP, &craft::segment((1, 2), 0, Flags::ACK, 100));
    let (counts, rows) = imported(&[
        whole(segment),
        whole(datagram),
        whole(v6),
        // The wire held all of it, the capture only the front.
        (cut[..40].to_vec(), 140),
    ]);
    assert_eq!(counts.beyond_frame, 3);
    let sizes: Vec<u32> = rows.packets.iter().map(|row| row.size).collect();
    assert_eq!(sizes, [0, 12, 7, 100]);
    assert_all_is_counted(&counts);
}

#[test]
fn a_datagram_put_together_is_counted_whatever_it_holds() {
    let parts = |protocol: u8, payload: &[u8], identification: u16| {
        let (one, other) = payload.split_at(16);
        [
            whole(craft::fragment(true, protocol, one, 0x2000, identification)),
            whole(craft::fragment(true, protocol, other, 2, identification)),
        ]
    };
    let mut lies = craft::udp((1, 2), 40);
    lies[4..6].copy_from_slice(&200_u16.to_be_bytes());
    let mut longer = craft::segment((1, 2), 0, Flags::ACK, 4);
    longer[12] = 0xf0;
    let packets = [
        parts(UDP, &craft::udp((1, 2), 40), 1),
        parts(UDP, &lies, 2),
        parts(TCP, &longer, 3),
        parts(1, &[8; 40], 4),
        parts(TCP, &[0; 18], 5),
    ]
    .concat();
    let (counts, rows) = imported(&packets);
    assert_eq!((counts.fragments, counts.reassembled), (10, 5));
    assert_eq!((counts.udp.packets, counts.tcp.packets), (1, 0));
    assert_eq!(counts.other_protocols, 1);
    assert_eq!(counts.malformed + counts.headers_cut, 3, "{counts:?}");
    assert_all_is_counted(&counts);
    assert_messages_agree(&rows);
}

#[test]
fn rows_of_many_flows_come_in_the_order_of_the_packets() {
    // More flows than are near, in turns, and at the end some that wait.
    let ports = 20_000..22_000_u16;
    let packets: Vec<(Vec<u8>, usize)> = (0..3)
        .flat_map(|round| ports.clone().map(move |port| (round, port)))
        .map(|(round, port)| {
            let size = usize::from(port % 7) + round;
            whole(craft::ipv4(true, UDP, &craft::udp((port, 53), size)))
        })
        .collect();
    let (counts, rows) = imported(&packets);
    assert_eq!((counts.udp.flows, counts.udp.packets), (2_000, 6_000));
    assert!(rows.packets.is_sorted_by_key(|row| row.time_ns));
    assert!(rows.messages.is_sorted_by_key(|(row, _)| row.time_ns));
    for (at, (row, ends)) in rows.messages.iter().enumerate() {
        assert_eq!(ends.client.port, 20_000 + (at % 2_000) as u16);
        assert_eq!(row.flow, (at % 2_000) as u64);
    }
    assert_all_is_counted(&counts);
    assert_messages_agree(&rows);
}

#[test]
fn rows_of_a_packet_are_given_before_the_next_is_read() {
    let packets: Vec<(Vec<u8>, usize)> = (20_000..22_000_u16)
        .map(|port| whole(craft::ipv4(true, UDP, &craft::udp((port, 53), 8))))
        .collect();
    let file = pcap(&packets);
    let mut capture = Capture::new(&file[..]).unwrap();
    let mut importer = Importer::new(Settings::default());
    let mut rows = InMemory::default();
    for read in 1..=packets.len() {
        assert_eq!(importer.read(&mut capture, 1, &mut rows), Ok(true));
        assert_eq!(rows.packets.len(), read);
    }
}

#[test]
fn an_empty_datagram_is_a_segment_and_a_write_everywhere() {
    let (counts, rows) = imported(&[
        whole(craft::ipv4(true, UDP, &craft::udp((1, 2), 0))),
        whole(craft::ipv4(false, UDP, &craft::udp((2, 1), 9))),
        whole(craft::ipv4(
            true,
            TCP,
            &craft::segment((1, 2), 0, Flags::ACK, 0),
        )),
    ]);
    assert_messages_agree(&rows);
    assert_eq!(counts.messages, 2);
    assert_all_is_counted(&counts);
}

#[test]
fn a_udp_length_of_zero_is_a_jumbogram_s_or_a_contradiction() {
    let mut plain = craft::ipv4(true, UDP, &craft::udp((1, 2), 30));
    plain[24..26].copy_from_slice(&[0, 0]);
    let size = 70_000;
    let mut datagram = craft::udp((1, 2), size % 65_536);
    datagram.resize(8 + size, 0);
    datagram[4..6].copy_from_slice(&[0, 0]);
    let len = (8 + datagram.len()) as u32;
    let options = [&[UDP, 0, 0xc2, 4][..], &len.to_be_bytes()].concat();
    let mut jumbogram = craft::ipv6(0, &[&options[..], &datagram].concat());
    jumbogram[4..6].copy_from_slice(&[0, 0]);
    // What a host captures before its device cuts it has no length either, and is none.
    let mut uncut = craft::ipv6(UDP, &datagram);
    uncut[4..6].copy_from_slice(&[0, 0]);
    let (counts, rows) = imported(&[whole(plain), whole(jumbogram), whole(uncut)]);
    assert_eq!((counts.udp.packets, counts.malformed), (1, 2));
    assert_eq!(rows.packets[0].size, size as u32);
    assert_all_is_counted(&counts);
}
