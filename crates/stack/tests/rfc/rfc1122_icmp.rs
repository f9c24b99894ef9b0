//! RFC 1122, 3.2.2: errors of ICMP that the host sends, and echo requests of its own.

use crate::peer::*;
use std::net::Ipv4Addr;
use tollgate_stack::counters::Drop;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmp::{HEADER_LEN, Message, Unreachable};
use tollgate_wire::{ipv4, udp};

/// The directed broadcast of the stack's network.
const BROADCAST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 255);

/// A datagram to port 9, where there is no socket, without a checksum.
fn datagram(to: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let header = udp::Header {
        source_port: 5000,
        destination_port: 9,
        len: (udp::HEADER_LEN + data.len()) as u16,
        no_checksum: true,
    };
    let bytes = [&header.to_bytes(), data].concat();
    ip_packet(ipv4::protocol::UDP, PEER, to, &bytes)
}

/// The two halves of a packet whose payload is longer than 800 bytes.
fn halves(packet: &[u8]) -> [Vec<u8>; 2] {
    let cut = |from: usize, to: usize, fields: u16| {
        let mut part = [&packet[..20], &packet[20 + from..20 + to]].concat();
        part[2..4].copy_from_slice(&((20 + to - from) as u16).to_be_bytes());
        part[6..8].copy_from_slice(&fields.to_be_bytes());
        fill_ip_checksum(&mut part);
        part
    };
    let first = cut(0, 800, ipv4::MORE_FRAGMENTS);
    [first, cut(800, packet.len() - 20, 800 / 8)]
}

/// "An ICMP error message MUST NOT be sent as the result of receiving [...] a datagram destined to an IP broadcast or IP multicast
/// address", nor of one sent as a link-layer broadcast; the time of such a fragment ends in silence.
#[test]
fn nothing_is_said_of_a_broadcast_fragment() {
    for (link, to, errors) in [
        (STACK_MAC, STACK, 1),
        (STACK_MAC, BROADCAST, 0),
        (MacAddr::BROADCAST, BROADCAST, 0),
    ] {
        let mut peer = Peer::new();
        let [first, _] = halves(&datagram(to, &[0; 1600]));
        let header = ethernet::Header {
            destination: link,
            source: PEER_MAC,
            ethertype: EtherType::Ipv4,
        };
        peer.inject_frame([&header.to_bytes()[..], &first].concat());
        peer.advance(s(62));
        let sent: Vec<_> = std::iter::from_fn(|| peer.next_packet()).collect();
        assert_eq!(sent.len(), errors);
        if let Some((_, error)) = sent.first() {
            assert_eq!(Message::parse(error), Ok(Message::TimeExceeded(1)));
            assert_eq!(error[HEADER_LEN..], first[..28]);
        }
    }
}

/// "Every ICMP error message includes the Internet header and at least the first 8 data octets of the datagram that triggered the error
/// [...]; this header and data MUST be unchanged from the received datagram."
#[test]
fn header_is_quoted_as_it_came() {
    let mut peer = Peer::new();
    let plain = datagram(STACK, &[1, 2, 3, 4]);
    // Four bytes of options that say nothing, and a mark of congestion.
    let mut packet = [&plain[..20], &[1; 4], &plain[20..]].concat();
    packet[0] = 0x46;
    packet[1] = 3;
    packet[2..4].copy_from_slice(&(plain.len() as u16 + 4).to_be_bytes());
    fill_ip_checksum(&mut packet);
    peer.inject_packet(&packet);
    let (_, error) = peer.next_packet().unwrap();
    assert_eq!(error[HEADER_LEN..], packet[..32]);
}

/// "A host SHOULD generate Destination Unreachable messages with code: 2 (Protocol Unreachable)" (3.2.2.1), also of a datagram that came
/// in fragments, whose first one is quoted.
#[test]
fn protocol_of_a_datagram_in_fragments_is_told() {
    let mut peer = Peer::new();
    let parts = halves(&ip_packet(200, PEER, STACK, &[7; 1600]));
    for part in &parts {
        peer.inject_packet(part);
    }
    let (_, error) = peer.next_packet().unwrap();
    let unreachable = Message::DestinationUnreachable(Unreachable::Protocol);
    assert_eq!(Message::parse(&error), Ok(unreachable));
    assert_eq!(error[HEADER_LEN..], parts[0][..28]);
}

/// Replies that nobody has asked for leave the room of those that are waited for.
#[test]
fn echo_replies_without_a_request_are_dropped() {
    let mut peer = Peer::new();
    let reply = |identifier, sequence| {
        let message = Message::EchoReply {
            identifier,
            sequence,
        };
        icmp_packet(message, b"")
    };
    for n in 0..100 {
        peer.inject_packet(&reply(999, n));
    }
    assert_eq!(peer.stack.counters().drops(Drop::IcmpImplausible), 100);
    peer.stack().ping(PEER, 5, 1, b"").unwrap();
    assert!(peer.next_packet().is_some());
    peer.inject_packet(&reply(5, 1));
    assert_eq!(peer.stack().next_echo().unwrap().identifier, 5);
    assert_eq!(peer.stack().next_echo(), None);
}
