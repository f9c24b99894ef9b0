//! RFC 8201: what routers say of the MTU of a path over IPv6, beside connections.

use super::node::{Node, Packet, ROUTER, STACK};
use std::net::Ipv6Addr;
use tollgate_stack::Instant;
use tollgate_stack::counters::Drop;
use tollgate_wire::icmpv6::Message;
use tollgate_wire::tcp::Flags;

/// A host elsewhere.
fn far(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, n)
}

/// A router's word about a packet.
fn too_big(mtu: u32, about: &Packet) -> Vec<u8> {
    let mut message = Message::PacketTooBig { mtu }.to_bytes().to_vec();
    message.extend(about.header.to_bytes());
    message.extend(&about.payload[..1000]);
    message
}

/// IP6-16: "the source node reduces its assumed PMTU for the path" (RFC 8201, 3), also one that serves more hosts than a socket
/// remembers.
#[test]
fn busy_socket_is_told_of_the_path() {
    let (mut node, own) = Node::routed(true);
    let socket = node.bind(1000);
    let first = node.send_datagram(socket, far(1), 1400).remove(0);
    for n in 2..=9 {
        node.send_datagram(socket, far(n), 10);
    }
    let mut closed = too_big(1280, &first);
    closed[8 + 40] = 0xff;
    node.inject_icmp((ROUTER, own), 64, &closed);
    assert_eq!(node.stack.counters().drops(Drop::IcmpImplausible), 1);
    node.inject_icmp((ROUTER, own), 64, &too_big(1280, &first));
    assert_eq!(node.send_datagram(socket, far(1), 1400).len(), 2);
    assert_eq!(node.send_datagram(socket, far(2), 1400).len(), 1);
}

/// IP6-16: what is said about an echo request of ours counts as well.
#[test]
fn echo_request_is_told_of_the_path() {
    let (mut node, own) = Node::routed(true);
    let now = node.now;
    let ping = |node: &mut Node| {
        let mut active = node.stack.at(now, &mut node.pool);
        active.ping(far(1), 1, 1, &[0; 1400]).unwrap();
        node.poll()
    };
    let first = ping(&mut node).remove(0);
    let mut of_another = too_big(1280, &first);
    // The identifier.
    of_another[8 + 40 + 5] = 2;
    node.inject_icmp((ROUTER, own), 64, &of_another);
    assert_eq!(ping(&mut node).len(), 1);
    node.inject_icmp((ROUTER, own), 64, &too_big(1280, &first));
    assert_eq!(ping(&mut node).len(), 2);
}

/// IP6-33: "If a node receives a Packet Too Big message reporting a next-hop MTU that is less than the IPv6 minimum link MTU, it
/// must discard it" (RFC 8201, 4).
#[test]
fn less_than_every_link_carries_is_discarded() {
    let (mut node, own) = Node::routed(true);
    let socket = node.bind(1000);
    let first = node.send_datagram(socket, far(1), 1400).remove(0);
    node.inject_icmp((ROUTER, own), 64, &too_big(1279, &first));
    assert_eq!(node.send_datagram(socket, far(1), 1400).len(), 1);
    assert_eq!(node.stack.counters().drops(Drop::IcmpImplausible), 1);
}

/// IP6-34: a path is taken to be as wide as the link again when its time is up: "The recommended setting for this timer is twice its
/// minimum value (10 minutes)" (RFC 8201, 4 and 5.3).
#[test]
fn path_is_taken_to_be_wider_after_ten_minutes() {
    let (mut node, own) = Node::routed(true);
    let socket = node.bind(1000);
    let first = node.send_datagram(socket, far(1), 1400).remove(0);
    node.inject_icmp((ROUTER, own), 64, &too_big(1280, &first));
    for (seconds, packets) in [(0, 2), (590, 2), (20, 1)] {
        node.now = Instant::from_nanos(node.now.as_nanos() + seconds * 1_000_000_000);
        node.poll();
        node.ping(far(2));
        node.advertise(1800, 86_400, 86_400);
        assert_eq!(node.send_datagram(socket, far(1), 1400).len(), packets);
    }
}

/// IP6-34: segments of a connection become longer again, too: "Packetization layers using this path are notified of the increase" (RFC
/// 8201, 5.3).
#[test]
fn segments_are_longer_again_after_ten_minutes() {
    let mut node = Node::new();
    node.know_peer();
    let (conn, first) = node.accepted(7);
    let now = node.now;
    let mut active = node.stack.at(now, &mut node.pool);
    active.send(conn, &[0; 1400]).unwrap();
    let sent = node.poll().remove(0);
    node.inject_icmp((ROUTER, STACK), 64, &too_big(1279, &sent));
    assert_eq!(node.mss(conn), 1440);
    let again = node.inject_icmp((ROUTER, STACK), 64, &too_big(1300, &sent));
    assert_eq!(again[0].payload.len(), 1300 - 40);
    assert_eq!(node.mss(conn), 1240);
    let mut acknowledgment = Node::segment(7, Flags::ACK);
    acknowledgment.ack = first + 1400;
    node.inject_tcp(&acknowledgment);
    for (seconds, mss) in [(590, 1240), (20, 1440)] {
        node.now = Instant::from_nanos(node.now.as_nanos() + seconds * 1_000_000_000);
        node.poll();
        assert_eq!(node.mss(conn), mss);
        node.stack.check_consistency(&node.pool).unwrap();
    }
    // Others that are opened then are as wide.
    let (later, _) = node.accepted(8);
    assert_eq!(node.mss(later), 1440);
}
