use super::*;
use crate::virtio::layout::{ETHER_TYPE, FRAGMENT, NEXT_V6, PROTOCOL};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use tollgate_wire::{ipv4, ipv6};

/// A segment with timestamps whose payload begins at `at` of a stream of counted bytes.
fn segment(at: u32, len: usize, flags: u8) -> Vec<u8> {
    let mut frame = vec![0; TCP];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[ETHER_TYPE..IP].copy_from_slice(&[8, 0]);
    let ip = ipv4::Header {
        header_len: ipv4::HEADER_LEN as u8,
        tos: 0,
        total_len: (52 + len) as u16,
        identification: at as u16,
        flags_and_offset: ipv4::DONT_FRAGMENT,
        ttl: 64,
        protocol: ipv4::protocol::TCP,
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
    };
    frame[IP..].copy_from_slice(&ip.to_bytes());
    frame.extend(transport(at, len, flags));
    frame
}

/// That segment over IPv6.
fn segment_v6(at: u32, len: usize, flags: u8) -> Vec<u8> {
    let mut frame = segment(at, 0, flags)[..IP].to_vec();
    frame[ETHER_TYPE..].copy_from_slice(&[0x86, 0xdd]);
    let ip = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: (32 + len) as u16,
        next_header: ipv6::protocol::TCP,
        hop_limit: 64,
        source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
    };
    frame.extend(ip.to_bytes());
    frame.extend(transport(at, len, flags));
    frame
}

fn transport(at: u32, len: usize, flags: u8) -> Vec<u8> {
    let mut segment = vec![0; 32];
    segment[SEQUENCE..][..4].copy_from_slice(&at.to_be_bytes());
    segment[DATA_OFFSET] = 8 << 4;
    segment[FLAGS] = flags;
    segment[20..24].copy_from_slice(&tcp::TIMESTAMP_LAYOUT);
    segment.extend((0..len).map(|byte| (at as usize + byte) as u8));
    segment
}

const ACK: u8 = Flags::ACK.0;
const PSH: u8 = ACK | Flags::PSH.0;

#[test]
fn full_segments_and_a_shorter_one_are_a_train() {
    let start = u32::MAX - 150;
    let train_of = |segment: fn(u32, usize, u8) -> Vec<u8>| {
        let mut train = Train::begin(&segment(start, 100, ACK)).unwrap();
        assert!(train.take(&segment(start.wrapping_add(100), 100, PSH)));
        assert!(train.take(&segment(start.wrapping_add(200), 7, ACK)));
        assert!(!train.take(&segment(start.wrapping_add(207), 7, ACK)));
        (train.finish(), train)
    };
    let (header, train) = train_of(segment);
    // Partial checksum, TCP over IPv4, 66 bytes of headers, 100 of each segment, the sum from byte 34 on at byte 16 behind it.
    let expected = [66_u16, 100, 34, 16].map(u16::to_ne_bytes);
    assert_eq!(header[..2], [1, 1]);
    assert_eq!(header[2..], *expected.as_flattened());
    let headers = train.headers();
    let ip = ipv4::Header::parse_front(&headers[IP..TCP]).unwrap();
    assert!(ipv4::Header::checksum_is_valid(&headers[IP..TCP]));
    assert_eq!(usize::from(ip.total_len), 52 + 207);
    assert_eq!(headers[TCP + FLAGS], PSH);
    let pseudo = ipv4::pseudo_header(ip.source, ip.destination, ip.protocol, 32 + 207);
    let sum = &headers[TCP + CHECKSUM..][..2];
    assert_eq!(sum, pseudo.fold().to_ne_bytes());

    let (header, train) = train_of(segment_v6);
    let expected = [86_u16, 100, 54, 16].map(u16::to_ne_bytes);
    assert_eq!(header[..2], [1, 4]);
    assert_eq!(header[2..], *expected.as_flattened());
    let headers = train.headers();
    let ip = ipv6::Header::parse_front(&headers[IP..TCP_V6]).unwrap();
    assert_eq!(usize::from(ip.payload_len), 32 + 207);
    assert_eq!(headers[TCP_V6 + FLAGS], PSH);
    let pseudo = ipv6::pseudo_header(ip.source, ip.destination, ip.next_header, 32 + 207);
    let sum = &headers[TCP_V6 + CHECKSUM..][..2];
    assert_eq!(sum, pseudo.fold().to_ne_bytes());
}

#[test]
fn only_data_begins_a_train() {
    type Change = fn(&mut Vec<u8>);
    let no = |of: fn(u32, usize, u8) -> Vec<u8>, change: Change| {
        let mut frame = of(1, 100, ACK);
        change(&mut frame);
        assert!(Train::begin(&frame).is_none(), "{frame:?}");
    };
    let of_both: [Change; 4] = [
        |frame| frame.truncate(40),
        |frame| frame.clear(),
        |frame| frame.push(0),
        |frame| frame[ETHER_TYPE] ^= 1,
    ];
    for change in of_both {
        no(segment, change);
        no(segment_v6, change);
    }
    no(segment, |frame| frame.truncate(66));
    no(segment, |frame| frame[IP] = 0x46);
    no(segment, |frame| frame[FRAGMENT] |= 0x20);
    no(segment, |frame| frame[FRAGMENT + 1] = 1);
    no(segment, |frame| frame[PROTOCOL] = ipv4::protocol::UDP);
    no(segment, |frame| frame[TCP + DATA_OFFSET] = 4 << 4);
    no(segment_v6, |frame| frame.truncate(86));
    no(segment_v6, |frame| frame[NEXT_V6] = ipv6::protocol::UDP);
    // A header of hop-by-hop options.
    no(segment_v6, |frame| frame[NEXT_V6] = 0);
    no(segment_v6, |frame| frame[TCP_V6 + DATA_OFFSET] = 4 << 4);
    for flag in [
        Flags::FIN,
        Flags::SYN,
        Flags::RST,
        Flags::URG,
        Flags::ECE,
        Flags::CWR,
    ] {
        assert!(
            Train::begin(&segment(1, 100, ACK | flag.0)).is_none(),
            "{flag:?}"
        );
        assert!(
            Train::begin(&segment_v6(1, 100, ACK | flag.0)).is_none(),
            "{flag:?}"
        );
    }
    assert!(Train::begin(&segment(1, 100, 0)).is_none());
}

#[test]
fn a_train_is_shorter_than_64_kib_with_its_link_header() {
    let mut train = Train::begin(&segment(0, 9_000, ACK)).unwrap();
    let taken = (1..20)
        .take_while(|&number| train.take(&segment(number * 9_000, 9_000, ACK)))
        .count();
    assert_eq!(taken, 6);
    train.finish();
    assert_eq!(be16(train.headers(), TOTAL_LENGTH), 52 + 7 * 9_000);

    let mut train = Train::begin(&segment(0, 1_448, ACK)).unwrap();
    for number in 1..45 {
        assert!(train.take(&segment(number * 1_448, 1_448, ACK)));
    }
    let room = 65_535 - 66 - 45 * 1_448;
    assert!(!train.take(&segment(45 * 1_448, room + 1, ACK)));
    assert!(train.take(&segment(45 * 1_448, room, ACK)));
}

proptest! {
    /// A segment that differs in any bit of the headers is no part of the train, but for length, identification, PSH and checksums.
    #[test]
    fn other_headers_end_a_train(at in 0_usize..66, bit in 0_u8..8) {
        let mut train = Train::begin(&segment(500, 100, ACK)).unwrap();
        let mut frame = segment(600, 100, ACK);
        frame[at] ^= 1 << bit;
        let free = (IP + 4..FRAGMENT).contains(&at)
            || (IP_CHECKSUM..IP_CHECKSUM + 2).contains(&at)
            || (TCP + CHECKSUM..TCP + CHECKSUM + 2).contains(&at)
            || (at == TCP + FLAGS && 1 << bit == Flags::PSH.0);
        prop_assert_eq!(train.take(&frame), free);
    }

    /// Nor is one over IPv6 that differs in any bit, but for PSH and the checksum.
    #[test]
    fn other_headers_of_ipv6_end_a_train(at in 0_usize..86, bit in 0_u8..8) {
        let mut train = Train::begin(&segment_v6(500, 100, ACK)).unwrap();
        let mut frame = segment_v6(600, 100, ACK);
        frame[at] ^= 1 << bit;
        let free = (TCP_V6 + CHECKSUM..TCP_V6 + CHECKSUM + 2).contains(&at)
            || (at == TCP_V6 + FLAGS && 1 << bit == Flags::PSH.0);
        prop_assert_eq!(train.take(&frame), free);
    }

    /// The payload of a train, cut after each segment's length, is that of its segments.
    #[test]
    fn trains_keep_every_byte(lens in proptest::collection::vec(1_usize..60, 1..40)) {
        let mut at = 0;
        let frames: Vec<Vec<u8>> = lens
            .iter()
            .map(|&len| {
                let frame = segment(at, len, ACK);
                at += len as u32;
                frame
            })
            .collect();
        let mut rest = &frames[..];
        while let Some((first, behind)) = rest.split_first() {
            let mut train = Train::begin(first).unwrap();
            let count = 1 + behind.iter().take_while(|frame| train.take(frame)).count();
            let (of_train, others) = rest.split_at(count);
            train.finish();
            let payload = of_train.concat().len() - 66 * count;
            prop_assert_eq!(usize::from(be16(train.headers(), TOTAL_LENGTH)), 52 + payload);
            let (last, full) = of_train.split_last().unwrap();
            prop_assert!(full.iter().all(|frame| frame.len() == first.len()));
            prop_assert!(last.len() <= first.len());
            // It ends only where the next segment is longer, or behind a shorter one.
            if let Some(next) = others.first() {
                prop_assert!(next.len() > first.len() || last.len() < first.len());
            }
            rest = others;
        }
    }
}
