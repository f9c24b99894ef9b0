use super::*;
use tollgate_stack::buffer::RxChecksum;
use tollgate_wire::ethernet;

/// A large frame of TCP over IPv4 with timestamps and these flags.
pub(crate) fn large_v4(sequence: u32, payload: usize, flags: u8) -> Vec<u8> {
    let mut frame = vec![0; 66];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[layout::ETHER_TYPE..layout::IP].copy_from_slice(&[8, 0]);
    let ip = ipv4::Header {
        header_len: ipv4::HEADER_LEN as u8,
        tos: 0,
        total_len: (52 + payload) as u16,
        identification: 0xfffe,
        flags_and_offset: ipv4::DONT_FRAGMENT,
        ttl: 64,
        protocol: ipv4::protocol::TCP,
        source: [10, 0, 0, 2].into(),
        destination: [10, 0, 0, 1].into(),
    };
    frame[layout::IP..layout::TCP].copy_from_slice(&ip.to_bytes());
    put32(&mut frame, layout::TCP + 4, sequence);
    frame[layout::TCP + 12] = 8 << 4;
    frame[layout::TCP + 13] = flags;
    frame[54..58].copy_from_slice(&tcp::TIMESTAMP_LAYOUT);
    frame.extend((0..payload).map(|at| (sequence as usize + at * 7) as u8));
    frame
}

fn said(kind: Kind, segment: u16) -> Received {
    Received {
        checksum: RxChecksum::Verified,
        kind,
        segment,
    }
}

fn headers_of(cut: &Cut, number: usize) -> Vec<u8> {
    let mut headers = vec![0; cut.headers_len()];
    cut.write(number, &mut headers);
    headers
}

#[test]
fn segments_have_headers_as_if_sent_alone() {
    let all = Flags::ACK.0 | Flags::PSH.0 | Flags::FIN.0 | Flags::CWR.0;
    let frame = large_v4(u32::MAX - 50, 250, all);
    let cut = Cut::of(&frame, frame.len(), &said(Kind::Tcp, 100)).unwrap();
    assert_eq!(
        (cut.headers_len(), cut.segment(), cut.count()),
        (66, 100, 3)
    );
    assert!(cut.is_stream());
    let flags = [
        Flags::ACK.0 | Flags::CWR.0,
        Flags::ACK.0,
        Flags::ACK.0 | Flags::PSH.0 | Flags::FIN.0,
    ];
    for (number, payload) in [100, 100, 50].into_iter().enumerate() {
        let headers = headers_of(&cut, number);
        assert_eq!(cut.payload_of(number), payload);
        assert!(ipv4::Header::checksum_is_valid(
            &headers[layout::IP..layout::TCP]
        ));
        let ip = ipv4::Header::parse_front(&headers[layout::IP..layout::TCP]).unwrap();
        assert_eq!(usize::from(ip.total_len), 52 + payload);
        assert_eq!(ip.identification, 0xfffe_u16.wrapping_add(number as u16));
        let sequence = (u32::MAX - 50).wrapping_add(100 * number as u32);
        assert_eq!(be32(&headers, layout::TCP + 4), sequence);
        assert_eq!(headers[layout::TCP + 13], flags[number]);
        // What is the same in all: link addresses, acknowledgment, window, options.
        assert_eq!(
            headers[..layout::TOTAL_LENGTH],
            frame[..layout::TOTAL_LENGTH]
        );
        assert_eq!(
            headers[layout::TCP + 8..][..5],
            frame[layout::TCP + 8..][..5]
        );
        assert_eq!(headers[layout::TCP + 14..], frame[layout::TCP + 14..66]);
    }
}

#[test]
fn datagrams_get_lengths_of_their_own() {
    let mut frame = large_v4(0, 0, 0);
    frame.truncate(layout::TCP + udp::HEADER_LEN);
    frame[layout::PROTOCOL] = ipv4::protocol::UDP;
    frame.extend([1; 70]);
    let cut = Cut::of(&frame, frame.len(), &said(Kind::Udp, 30)).unwrap();
    assert_eq!((cut.headers_len(), cut.count()), (42, 3));
    assert!(!cut.is_stream());
    for (number, payload) in [30, 30, 10].into_iter().enumerate() {
        let headers = headers_of(&cut, number);
        assert_eq!(
            usize::from(be16(&headers, layout::TOTAL_LENGTH)),
            28 + payload
        );
        assert_eq!(
            usize::from(be16(&headers, layout::TCP + UDP_LENGTH)),
            8 + payload
        );
        assert!(ipv4::Header::checksum_is_valid(
            &headers[layout::IP..layout::TCP]
        ));
    }
}

#[test]
fn ipv6_has_a_length_and_no_checksum() {
    let v4 = large_v4(7, 250, Flags::ACK.0);
    let mut frame = v4[..ethernet::HEADER_LEN].to_vec();
    frame[layout::ETHER_TYPE..].copy_from_slice(&[0x86, 0xdd]);
    frame.extend([0; IPV6]);
    frame[layout::IP] = 0x60;
    frame[layout::NEXT_V6] = ipv4::protocol::TCP;
    frame.extend(&v4[layout::TCP..]);
    let cut = Cut::of(&frame, frame.len(), &said(Kind::Tcp, 200)).unwrap();
    assert_eq!((cut.headers_len(), cut.count()), (86, 2));
    for (number, payload) in [200, 50].into_iter().enumerate() {
        let headers = headers_of(&cut, number);
        assert_eq!(usize::from(be16(&headers, layout::LENGTH_V6)), 32 + payload);
        assert_eq!(
            be32(&headers, layout::IP + IPV6 + 4),
            7 + 200 * number as u32
        );
        assert_eq!(
            headers[layout::NEXT_V6..layout::IP + IPV6],
            frame[layout::NEXT_V6..layout::IP + IPV6]
        );
    }
}

#[test]
fn frames_that_cannot_be_cut_are_refused() {
    let frame = large_v4(1, 250, Flags::ACK.0);
    let refused = |frame: &[u8], kind, segment| {
        assert!(Cut::of(frame, frame.len(), &said(kind, segment)).is_none());
    };
    refused(&frame, Kind::Tcp, 0);
    refused(&frame, Kind::Udp, 100);
    refused(&frame, Kind::Whole, 100);
    refused(&frame, Kind::Unknown, 100);
    for len in [0, 14, 33, 40, 60, 66] {
        refused(&frame[..len], Kind::Tcp, 100);
    }
    let changed = |at: usize, byte: u8| {
        let mut frame = frame.clone();
        frame[at] = byte;
        refused(&frame, Kind::Tcp, 100);
    };
    // A version of IP that there is not, a header that is too short, a fragment, options behind the end of the frame.
    changed(layout::IP, 0x55);
    changed(layout::IP, 0x44);
    changed(layout::FRAGMENT, 0x20);
    changed(layout::FRAGMENT + 1, 1);
    changed(layout::PROTOCOL, ipv4::protocol::ICMP);
    changed(layout::TCP + 12, 0);
    let mut short = frame[..80].to_vec();
    short[layout::TCP + 12] = 15 << 4;
    refused(&short, Kind::Tcp, 100);
}
