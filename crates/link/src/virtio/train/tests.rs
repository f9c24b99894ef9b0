use super::*;
use proptest::prelude::*;

/// A segment with timestamps whose payload begins at `at` of a stream of counted bytes.
fn segment(at: u32, len: usize, flags: u8) -> Vec<u8> {
    let mut frame = vec![0; 66];
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
    frame[IP..TCP].copy_from_slice(&ip.to_bytes());
    frame[SEQUENCE..SEQUENCE + 4].copy_from_slice(&at.to_be_bytes());
    frame[DATA_OFFSET] = 8 << 4;
    frame[FLAGS] = flags;
    frame[66 - 12..58].copy_from_slice(&tcp::TIMESTAMP_LAYOUT);
    frame.extend((0..len).map(|byte| (at as usize + byte) as u8));
    frame
}

const ACK: u8 = Flags::ACK.0;
const PSH: u8 = ACK | Flags::PSH.0;

#[test]
fn full_segments_and_a_shorter_one_are_a_train() {
    let start = u32::MAX - 150;
    let mut train = Train::begin(&segment(start, 100, ACK)).unwrap();
    assert!(train.take(&segment(start.wrapping_add(100), 100, PSH)));
    assert!(train.take(&segment(start.wrapping_add(200), 7, ACK)));
    assert!(!train.take(&segment(start.wrapping_add(207), 7, ACK)));
    let header = train.finish();
    // Partial checksum, TCP over IPv4, 66 bytes of headers, 100 of each segment, the sum from byte 34 on at byte 16 behind it.
    let expected = [66_u16, 100, 34, 16].map(u16::to_ne_bytes);
    assert_eq!(header[..2], [1, 1]);
    assert_eq!(header[2..], *expected.as_flattened());
    let headers = train.headers();
    let ip = ipv4::Header::parse_front(&headers[IP..TCP]).unwrap();
    assert!(ipv4::Header::checksum_is_valid(&headers[IP..TCP]));
    assert_eq!(usize::from(ip.total_len), 52 + 207);
    assert_eq!(headers[FLAGS], PSH);
    let pseudo = ipv4::pseudo_header(ip.source, ip.destination, ip.protocol, 32 + 207);
    assert_eq!(headers[CHECKSUM..CHECKSUM + 2], pseudo.fold().to_ne_bytes());
}

#[test]
fn only_data_begins_a_train() {
    let no = |change: fn(&mut Vec<u8>)| {
        let mut frame = segment(1, 100, ACK);
        change(&mut frame);
        assert!(Train::begin(&frame).is_none(), "{frame:?}");
    };
    no(|frame| frame.truncate(66));
    no(|frame| frame.truncate(40));
    no(|frame| frame.clear());
    no(|frame| frame.push(0));
    no(|frame| frame[ETHER_TYPE] = 0x86);
    no(|frame| frame[IP] = 0x46);
    no(|frame| frame[FRAGMENT] |= 0x20);
    no(|frame| frame[FRAGMENT + 1] = 1);
    no(|frame| frame[PROTOCOL] = ipv4::protocol::UDP);
    no(|frame| frame[DATA_OFFSET] = 4 << 4);
    for flag in [
        Flags::FIN,
        Flags::SYN,
        Flags::RST,
        Flags::URG,
        Flags::ECE,
        Flags::CWR,
    ] {
        let mut frame = segment(1, 100, ACK);
        frame[FLAGS] |= flag.0;
        assert!(Train::begin(&frame).is_none(), "{flag:?}");
    }
    assert!(Train::begin(&segment(1, 100, 0)).is_none());
}

#[test]
fn a_train_is_no_longer_than_an_ip_packet() {
    let mut train = Train::begin(&segment(0, 9_000, ACK)).unwrap();
    let taken = (1..20)
        .take_while(|&number| train.take(&segment(number * 9_000, 9_000, ACK)))
        .count();
    assert_eq!(taken, 6);
    train.finish();
    assert_eq!(be16(train.headers(), TOTAL_LENGTH), 52 + 7 * 9_000);
}

proptest! {
    /// A segment that differs in any bit of the headers is no part of the train, but for length, identification, PSH and checksums.
    #[test]
    fn other_headers_end_a_train(at in 0_usize..66, bit in 0_u8..8) {
        let mut train = Train::begin(&segment(500, 100, ACK)).unwrap();
        let mut frame = segment(600, 100, ACK);
        frame[at] ^= 1 << bit;
        let free = (IP + 4..FRAGMENT).contains(&at)
            || (IP_CHECKSUM..SOURCE).contains(&at)
            || (CHECKSUM..CHECKSUM + 2).contains(&at)
            || (at == FLAGS && 1 << bit == Flags::PSH.0);
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
