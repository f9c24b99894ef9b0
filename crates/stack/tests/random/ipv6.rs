//! TCP over IPv6 for peers that make and read packets of IPv4: what they send becomes IPv6 on the wire, at times with an
//! extension header or in fragments, and what the stack sends becomes IPv4 again.

use super::craft;
use super::peer::{PEER, PEER_MAC, STACK, STACK_MAC};
use super::wire::{Translation, Wire};
use std::net::{IpAddr, Ipv6Addr};
use tollgate_checksum::sum_header;
use tollgate_stack::config::Ipv6;
use tollgate_wire::ethernet::{self, EtherType};
use tollgate_wire::icmpv6::{Discovery, Message};
use tollgate_wire::ipv6::{self, Fragment, protocol};
use tollgate_wire::ndp::{Advertisement, MAX_LEN, Solicitation};
use tollgate_wire::{ipv4, tcp};

/// The stack's address.
const STACK_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// The peer's address.
pub const PEER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
/// Number of a destination options header (RFC 8200, 4.6).
const DESTINATION_OPTIONS: u8 = 60;
/// Padding of eight bytes in front of TCP.
const PADDING: [u8; 8] = [protocol::TCP, 0, 1, 4, 0, 0, 0, 0];
/// One segment in so many has an extension header, and one comes in fragments.
const PADDED: u32 = 7;
const FRAGMENTED: u32 = 11;

/// The stack's configuration: an address that is taken untried.
pub fn config() -> Ipv6 {
    Ipv6 {
        address: Some((STACK_V6, 64)),
        duplicate_checks: 0,
        router_advertisements: false,
        ..Ipv6::default()
    }
}

/// A wire on which TCP is over IPv6, or stays as it is.
pub fn wire(over_ipv6: bool) -> Wire {
    Wire {
        translation: over_ipv6.then_some(Translation { from_peer, to_peer }),
        ..Wire::default()
    }
}

/// The peer's address as the stack knows it.
pub fn peer(over_ipv6: bool) -> IpAddr {
    if over_ipv6 {
        PEER_V6.into()
    } else {
        PEER.into()
    }
}

/// A segment with the checksum that it has in a packet of IPv6 or of IPv4.
fn with_checksum(segment: &[u8], over_v6: bool) -> Vec<u8> {
    let mut segment = segment.to_vec();
    segment[16..18].fill(0);
    let pseudo = if over_v6 {
        ipv6::pseudo_header(STACK_V6, PEER_V6, protocol::TCP, segment.len() as u32)
    } else {
        ipv4::pseudo_header(STACK, PEER, protocol::TCP, segment.len() as u16)
    };
    let sum = pseudo + sum_header(&segment);
    segment[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
    segment
}

/// The frames that a segment from the peer, over IPv4, comes in; `count` segments have come before. Anything else stays as it is.
fn from_peer(frame: &[u8], count: u32) -> Vec<Vec<u8>> {
    let packet = &frame[ethernet::HEADER_LEN..];
    let Some(header) = ipv4::Header::parse(packet)
        .ok()
        .filter(|header| header.protocol == protocol::TCP)
    else {
        return vec![frame.to_vec()];
    };
    let segment = &packet[usize::from(header.header_len)..usize::from(header.total_len)];
    let segment = with_checksum(segment, true);
    let send = |next_header, payload: &[u8]| {
        let header = ipv6::Header {
            traffic_class: header.tos,
            flow_label: 0,
            payload_len: payload.len() as u16,
            next_header,
            hop_limit: header.ttl,
            source: PEER_V6,
            destination: STACK_V6,
        };
        let packet = [&header.to_bytes()[..], payload].concat();
        craft::ethernet(STACK_MAC, EtherType::Ipv6, &packet)
    };
    let part = |offset: usize, end: usize| {
        let fragment = Fragment {
            offset: offset as u16,
            more: end < segment.len(),
            identification: count,
        };
        let bytes = [&fragment.to_bytes(protocol::TCP)[..], &segment[offset..end]].concat();
        send(protocol::FRAGMENT, &bytes)
    };
    // The first fragment has the whole header (RFC 7112).
    let cut = tcp::MAX_HEADER_LEN.next_multiple_of(8);
    if count.is_multiple_of(FRAGMENTED) && cut < segment.len() {
        vec![part(cut, segment.len()), part(0, cut)]
    } else if count.is_multiple_of(PADDED) {
        vec![send(
            DESTINATION_OPTIONS,
            &[&PADDING[..], &segment].concat(),
        )]
    } else {
        vec![send(protocol::TCP, &segment)]
    }
}

/// A frame of the stack as the peer reads it. One whose checksum does not hold has none that holds afterwards.
fn to_peer(frame: &[u8]) -> Vec<u8> {
    let packet = &frame[ethernet::HEADER_LEN..];
    let Some(header) = ipv6::Header::parse(packet)
        .ok()
        .filter(|header| header.next_header == protocol::TCP)
    else {
        return frame.to_vec();
    };
    assert_eq!((header.source, header.destination), (STACK_V6, PEER_V6));
    let sent = &packet[ipv6::HEADER_LEN..][..usize::from(header.payload_len)];
    let mut segment = with_checksum(sent, false);
    if with_checksum(sent, true) != sent {
        segment[16] ^= 1;
    }
    let header = ipv4::Header {
        header_len: 20,
        tos: header.traffic_class,
        total_len: (ipv4::HEADER_LEN + segment.len()) as u16,
        identification: 0,
        flags_and_offset: ipv4::DONT_FRAGMENT,
        ttl: header.hop_limit,
        protocol: protocol::TCP,
        source: STACK,
        destination: PEER,
    };
    let link = ethernet::Header {
        ethertype: EtherType::Ipv4,
        ..ethernet::Header::parse(frame).expect("it has a packet behind it")
    };
    [&link.to_bytes()[..], &header.to_bytes(), &segment].concat()
}

/// The peer's answer to `frame`, when that asks for its link address.
pub fn solicitation_answer(frame: &[u8]) -> Option<Vec<u8>> {
    let packet = frame.get(ethernet::HEADER_LEN..)?;
    let header = ipv6::Header::parse(packet).ok()?;
    let message = packet.get(ipv6::HEADER_LEN..)?;
    let is_asked = header.next_header == protocol::ICMP
        && Message::parse(message) == Ok(Message::Discovery(Discovery::NeighbourSolicitation, 0))
        && Solicitation::parse(message).ok()?.target == PEER_V6;
    let advertisement = Advertisement {
        router: false,
        solicited: true,
        overrides: true,
        target: PEER_V6,
        target_link: Some(PEER_MAC),
    };
    let mut out = [0; MAX_LEN];
    let len = advertisement.emit(&mut out);
    let (source, destination) = (PEER_V6, header.source);
    let sum = ipv6::pseudo_header(source, destination, protocol::ICMP, len as u32)
        + sum_header(&out[..len]);
    out[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: len as u16,
        next_header: protocol::ICMP,
        hop_limit: 255,
        source,
        destination,
    };
    let packet = [&header.to_bytes()[..], &out[..len]].concat();
    is_asked.then(|| craft::ethernet(STACK_MAC, EtherType::Ipv6, &packet))
}
