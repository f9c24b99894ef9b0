use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use tollgate_wire::ethernet;

/// A frame with a segment of TCP whose checksum field has anything in it.
fn frame(over_ipv6: bool) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    let segment: Vec<u8> = (1..=57).collect();
    if over_ipv6 {
        frame[ETHER_TYPE..].copy_from_slice(&[0x86, 0xdd]);
        let ip = ipv6::Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: segment.len() as u16,
            next_header: ipv6::protocol::TCP,
            hop_limit: 64,
            source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
            destination: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        };
        frame.extend(ip.to_bytes());
    } else {
        frame[ETHER_TYPE..].copy_from_slice(&[8, 0]);
        let ip = ipv4::Header {
            header_len: 20,
            tos: 0,
            total_len: 20 + segment.len() as u16,
            identification: 0,
            flags_and_offset: ipv4::DONT_FRAGMENT,
            ttl: 64,
            protocol: ipv4::protocol::TCP,
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
        };
        frame.extend(ip.to_bytes());
    }
    frame.extend(segment);
    frame
}

/// Completes a checksum as Linux does where a frame leaves the host (`skb_checksum_help`): the sum from `from` on goes to where `field` says.
fn complete(frame: &mut [u8], header: [u8; header::LEN]) {
    let number = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let (from, field) = (number(6), number(6) + number(8));
    let sum = sum_header(&frame[from..]).finish();
    frame[field..field + 2].copy_from_slice(&sum.to_ne_bytes());
}

#[test]
fn the_sum_of_the_pseudo_header_is_what_a_checksum_is_completed_from() {
    for (over_ipv6, at) in [(false, TCP), (true, TCP_V6)] {
        let mut frame = frame(over_ipv6);
        let header = leave(&mut frame);
        assert_eq!(header, header::unfinished(at, CHECKSUM));
        complete(&mut frame, header);
        let pseudo = if over_ipv6 {
            let ip = ipv6::Header::parse_front(&frame[IP..]).unwrap();
            ipv6::pseudo_header(ip.source, ip.destination, ip.next_header, 57)
        } else {
            let ip = ipv4::Header::parse_front(&frame[IP..]).unwrap();
            ipv4::pseudo_header(ip.source, ip.destination, ip.protocol, 57)
        };
        assert!((pseudo + sum_header(&frame[at..])).is_valid());
    }
}

#[test]
fn what_is_no_whole_segment_of_tcp_stays_as_it_is() {
    let kept = |over_ipv6, change: fn(&mut Vec<u8>)| {
        let mut frame = frame(over_ipv6);
        change(&mut frame);
        let before = frame.clone();
        assert_eq!(leave(&mut frame), header::COMPLETE, "{before:?}");
        assert_eq!(frame, before);
    };
    kept(false, Vec::clear);
    kept(false, |frame| frame.truncate(TCP - 1));
    kept(false, |frame| frame.truncate(TCP + 19));
    kept(true, |frame| frame.truncate(TCP_V6 - 1));
    kept(true, |frame| frame.truncate(TCP_V6 + 19));
    // ARP, options, fragments, and another protocol.
    kept(false, |frame| frame[ETHER_TYPE + 1] = 6);
    kept(false, |frame| frame[IP] = 0x46);
    kept(false, |frame| frame[FRAGMENT] |= 0x20);
    kept(false, |frame| frame[FRAGMENT + 1] = 1);
    kept(false, |frame| frame[PROTOCOL] = ipv4::protocol::UDP);
    kept(true, |frame| frame[NEXT_V6] = 44);
}
