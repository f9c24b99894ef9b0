//! RFC 1122, 4.1.3: the addresses of datagrams, and errors about them.

use super::node::Node;
use crate::peer::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use tollgate_stack::Error;
use tollgate_stack::udp::UdpId;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::{ipv4, udp};

const TO_PEER: SocketAddrV4 = SocketAddrV4::new(PEER, 9);
/// A second address of the stack.
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);
/// The directed broadcast of the stack's network.
const BROADCAST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 255);

/// A datagram from the peer's port 5000 to port 1000, without a checksum.
fn datagram(to: Ipv4Addr) -> Vec<u8> {
    let header = udp::Header {
        source_port: 5000,
        destination_port: 1000,
        len: udp::HEADER_LEN as u16 + 1,
        no_checksum: true,
    };
    let bytes = [&header.to_bytes()[..], b"q"].concat();
    ip_packet(ipv4::protocol::UDP, PEER, to, &bytes)
}

/// A stack with a socket on port 1000.
fn bound() -> (Peer, UdpId) {
    let mut peer = Peer::new();
    let socket = peer.stack().udp_bind(1000).unwrap();
    (peer, socket)
}

/// ADDR-9. RFC 1122, 3.2.1.3: "{ 0, 0 } [...] MUST NOT be sent, except as a source address as part of an initialization procedure".
#[test]
fn host_without_an_address_sends_no_datagram() {
    let mut peer = Peer::with(|config| config.ip = Ipv4Addr::UNSPECIFIED);
    let socket = peer.stack().udp_bind(1000).unwrap();
    let sent = peer.stack().udp_send(socket, TO_PEER, b"x");
    assert_eq!(sent, Err(Error::Unreachable));
    assert_eq!(peer.next_frame(), None);
}

/// ADDR-10. RFC 1122, 4.1.3.5: "When a UDP datagram is received, its specific-destination address MUST be passed up to the application
/// layer. An application program MUST be able to specify the IP source address to be used for sending a UDP datagram".
#[test]
fn answer_comes_from_the_address_that_was_asked() {
    let (mut peer, socket) = bound();
    peer.stack.add_address(SECOND, 24).unwrap();
    peer.advance(s(5));
    while peer.next_frame().is_some() {}
    for (to, local) in [(STACK, STACK), (SECOND, SECOND), (BROADCAST, STACK)] {
        peer.inject_packet(&datagram(to));
        let mut stack = peer.stack();
        let (ends, data) = stack.udp_receive_ends(socket).unwrap();
        assert_eq!((ends.local, &data[..]), (IpAddr::V4(local), &b"q"[..]));
        assert_eq!(ends.remote, SocketAddr::from((PEER, 5000)));
        let sent = stack.udp_send_from(socket, ends.local, ends.remote, b"a");
        assert_eq!(sent, Ok(()));
        assert_eq!(peer.next_packet().unwrap().0.source, local);
    }
    for other in [IpAddr::V4(PEER), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let sent = peer.stack().udp_send_from(socket, other, TO_PEER, b"a");
        assert_eq!(sent, Err(Error::BadAddress));
    }
    peer.inject_packet(&datagram(SECOND));
    let into = &mut [0; 4];
    let taken = peer.stack().udp_receive_ends_into(socket, into).unwrap();
    assert_eq!((taken.0.local, taken.1), (IpAddr::V4(SECOND), 1));
}

/// ADDR-11. RFC 1122, 3.2.1.3: addresses of a loopback "MUST NOT appear outside a host". Nothing goes to the host itself, which has no
/// loopback, nor to groups of IPv4, which are not mapped to link addresses.
#[test]
fn nothing_goes_to_addresses_that_are_not_on_the_link() {
    let mut peer = Peer::with(|config| config.gateway = Some(PEER));
    let socket = peer.stack().udp_bind(1000).unwrap();
    for to in ["127.0.0.1", "224.0.0.251", "10.0.0.1", "0.0.0.0"] {
        let to: Ipv4Addr = to.parse().unwrap();
        let sent = peer.stack().udp_send(socket, (to, 9), b"x");
        assert_eq!(sent, Err(Error::BadAddress), "{to}");
        let sent = peer.stack().ping(to, 1, 1, b"");
        assert_eq!(sent, Err(Error::BadAddress), "{to}");
        assert_eq!(peer.next_frame(), None);
    }
    let (mut node, own) = Node::routed(true);
    let socket = node.bind(1000);
    for to in [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, own] {
        let now = node.now;
        let mut active = node.stack.at(now, &mut node.pool);
        let sent = active.udp_send(socket, (to, 9), b"x");
        assert_eq!(sent, Err(Error::BadAddress), "{to}");
        assert_eq!(active.ping(to, 1, 1, b""), Err(Error::BadAddress), "{to}");
        assert!(node.poll().is_empty());
    }
}

/// RFC 1122, 3.3.6: "A host SHOULD silently discard a datagram that is received via a link-layer broadcast [...] but does not specify an
/// IP multicast or broadcast destination address."
#[test]
fn link_broadcast_to_one_host_is_discarded() {
    let (mut peer, socket) = bound();
    let link = ethernet::Header {
        destination: MacAddr::BROADCAST,
        source: PEER_MAC,
        ethertype: EtherType::Ipv4,
    };
    for (to, is_taken) in [(STACK, false), (BROADCAST, true)] {
        peer.inject_frame([&link.to_bytes()[..], &datagram(to)].concat());
        assert_eq!(peer.stack().udp_receive(socket).is_ok(), is_taken);
    }
}

/// RFC 1122, 2.3.2.2 and 4.1.3.3: "UDP MUST pass to the application layer all ICMP error messages that it receives", that of the host
/// itself about a neighbour that does not answer, too.
#[test]
fn socket_is_told_of_a_neighbour_that_does_not_answer() {
    let (mut peer, socket) = bound();
    let nobody = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 99), 9);
    peer.stack().udp_send(socket, nobody, b"x").unwrap();
    peer.advance(s(2));
    assert_eq!(peer.stack().udp_receive(socket), Err(Error::WouldBlock));
    peer.advance(s(2));
    assert_eq!(peer.stack().udp_receive(socket), Err(Error::Unreachable));
    assert_eq!(peer.stack().udp_receive(socket), Err(Error::WouldBlock));
    // Three questions.
    assert_eq!(std::iter::from_fn(|| peer.next_frame()).count(), 3);
}

/// RFC 1122, 4.1.3.3: "all ICMP error messages", such as time exceeded and parameter problem.
#[test]
fn errors_of_routers_reach_the_socket() {
    for message in [Message::TimeExceeded(0), Message::ParameterProblem(0)] {
        let (mut peer, socket) = bound();
        peer.stack().udp_send(socket, TO_PEER, b"x").unwrap();
        let (ip, payload) = peer.next_packet().unwrap();
        let quoted = [&ip.to_bytes()[..], &payload[..8]].concat();
        peer.inject_packet(&icmp_packet(message, &quoted));
        assert_eq!(peer.stack().udp_receive(socket), Err(Error::Unreachable));
    }
}

/// An error about a fragment other than the first says no ports: what lies in their place is data.
#[test]
fn error_about_a_later_fragment_is_for_nobody() {
    let (mut peer, socket) = bound();
    let mut data = vec![0; 3000];
    // The second fragment begins there, with what looks like ports.
    data[1472..1476].copy_from_slice(&[0x03, 0xe8, 0, 9]);
    peer.stack().udp_send(socket, TO_PEER, &data).unwrap();
    let unreachable = Message::DestinationUnreachable(Unreachable::Host);
    for is_told in [true, false, false] {
        let (ip, payload) = peer.next_packet().unwrap();
        assert_eq!(ip.fragment_offset() == 0, is_told);
        let quoted = [&ip.to_bytes()[..], &payload[..8]].concat();
        peer.inject_packet(&icmp_packet(unreachable, &quoted));
        let told = peer.stack().udp_receive(socket) == Err(Error::Unreachable);
        assert_eq!(told, is_told);
    }
}
