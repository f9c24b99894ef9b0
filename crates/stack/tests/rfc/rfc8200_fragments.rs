//! RFC 8200, 4.5; RFC 5722, 6946, 6980, 7112: fragments of IPv6 that arrive.

use super::node::{Node, PEER, Packet, ROUTER, STACK};
use super::peer::PEER_MAC;
use tollgate_checksum::sum_header;
use tollgate_stack::counters::Drop;
use tollgate_stack::udp::UdpId;
use tollgate_stack::{Error, Received};
use tollgate_wire::icmpv6::{Message, Unreachable};
use tollgate_wire::ipv6::{self, Fragment, protocol};
use tollgate_wire::ndp::{MAX_LEN, Solicitation};
use tollgate_wire::tcp::{self, Flags, Options};
use tollgate_wire::{SeqNumber, udp};

const PORT: u16 = 9;
const DESTINATION_OPTIONS: u8 = 60;

/// A datagram with its checksum, from the peer's port 7 to [`PORT`].
fn datagram(payload: &[u8]) -> Vec<u8> {
    let len = udp::HEADER_LEN + payload.len();
    let header = udp::Header {
        source_port: 7,
        destination_port: PORT,
        len: len as u16,
        no_checksum: false,
    };
    let mut bytes = [&header.to_bytes()[..], payload].concat();
    seal(protocol::UDP, &mut bytes, 6);
    bytes
}

/// Puts the checksum of what the peer sends us at a place.
fn seal(protocol: u8, bytes: &mut [u8], at: usize) {
    let sum = ipv6::pseudo_header(PEER, STACK, protocol, bytes.len() as u32) + sum_header(bytes);
    bytes[at..at + 2].copy_from_slice(&sum.finish().to_ne_bytes());
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 256) as u8).collect()
}

impl Node {
    /// A host that knows its peer, with a socket at [`PORT`].
    fn receiver() -> (Self, UdpId) {
        let mut node = Self::new();
        node.know_peer();
        let now = node.now;
        let socket = node.stack.at(now, &mut node.pool).udp_bind(PORT).unwrap();
        (node, socket)
    }

    /// Injects a part of a packet whose fragmentable part is `whole`.
    fn fragment(
        &mut self,
        (next, id): (u8, u32),
        whole: &[u8],
        (offset, len): (usize, usize),
    ) -> Vec<Packet> {
        let fragment = Fragment {
            offset: offset as u16,
            more: offset + len < whole.len(),
            identification: id,
        };
        let part = &whole[offset..offset + len];
        let bytes = [&fragment.to_bytes(next)[..], part].concat();
        self.inject((PEER, STACK), (protocol::FRAGMENT, 64), &bytes)
    }

    fn received(&mut self, socket: UdpId) -> Result<Vec<u8>, Error> {
        let now = self.now;
        let mut active = self.stack.at(now, &mut self.pool);
        active.udp_receive(socket).map(|(_, bytes)| bytes)
    }
}

const fn problem(code: u8, pointer: u32) -> Message {
    Message::ParameterProblem { code, pointer }
}

/// IP6-17: a datagram is put together from its fragments, in whatever order they come; what the first says of the protocol
/// counts (RFC 8200, 4.5).
#[test]
fn fragments_in_any_order_make_the_packet() {
    let orders = [[0, 1, 2], [2, 1, 0], [1, 2, 0]];
    for (id, order) in (5..).zip(orders) {
        let (mut node, socket) = Node::receiver();
        let frames = node.pool.available();
        let payload = data(3000);
        let whole = datagram(&payload);
        let parts = [(0, 1200), (1200, 1200), (2400, whole.len() - 2400)];
        for part in order {
            let next = if part == 0 { protocol::UDP } else { 99 };
            assert!(node.fragment((next, id), &whole, parts[part]).is_empty());
        }
        assert_eq!(node.received(socket), Ok(payload));
        assert_eq!(node.pool.available(), frames);
        assert_eq!(node.stack.counters().drops(Drop::Reassembly), 0);
    }
}

/// IP6-17: extension headers lie in front of the fragment header, and behind it.
#[test]
fn headers_on_both_sides_of_the_fragment_header_are_passed_over() {
    let (mut node, socket) = Node::receiver();
    let mut whole = vec![protocol::UDP, 0, 1, 4, 0, 0, 0, 0];
    whole.extend(datagram(&data(100)));
    for (offset, more, range) in [(0, true, 0..64), (64, false, 64..whole.len())] {
        let fragment = Fragment {
            offset,
            more,
            identification: 1,
        };
        let mut bytes = vec![protocol::FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
        bytes.extend(fragment.to_bytes(DESTINATION_OPTIONS));
        bytes.extend(&whole[range]);
        node.inject((PEER, STACK), (DESTINATION_OPTIONS, 64), &bytes);
    }
    assert_eq!(node.received(socket), Ok(data(100)));
    // The sender of a datagram to a port without a socket gets it back as it was before it was cut.
    let now = node.now;
    node.stack
        .at(now, &mut node.pool)
        .udp_close(socket)
        .unwrap();
    let whole = datagram(&data(100));
    node.fragment((protocol::UDP, 2), &whole, (0, 64));
    let sent = node.fragment((protocol::UDP, 2), &whole, (64, whole.len() - 64));
    let reason = Message::DestinationUnreachable(Unreachable::Port);
    assert_eq!(sent[0].icmp(), reason);
    let quoted = ipv6::Header::parse(&sent[0].payload[8..]).unwrap();
    assert_eq!(quoted.next_header, protocol::UDP);
    assert_eq!(sent[0].payload[48..], whole);
}

/// IP6-21: "If any of the fragments being reassembled overlap with any other fragments being reassembled for the same packet,
/// reassembly of that packet must be abandoned" (RFC 8200, 4.5; RFC 5722), without an error; the same fragment twice is none.
#[test]
fn overlap_drops_the_packet() {
    let (mut node, socket) = Node::receiver();
    let frames = node.pool.available();
    let whole = datagram(&data(192));
    node.fragment((protocol::UDP, 1), &whole, (0, 64));
    assert!(
        node.fragment((protocol::UDP, 1), &whole, (56, 64))
            .is_empty()
    );
    for part in [(0, 64), (64, 64), (128, 72)] {
        assert!(node.fragment((protocol::UDP, 1), &whole, part).is_empty());
    }
    assert_eq!(node.received(socket), Err(Error::WouldBlock));
    assert_eq!(node.pool.available(), frames);
    // No error when the time is up, either.
    assert!(node.pass(700).is_empty());
    for part in [(0, 64), (0, 64), (64, 64), (64, 64), (128, 72)] {
        node.fragment((protocol::UDP, 2), &whole, part);
    }
    assert_eq!(node.received(socket), Ok(data(192)));
}

/// IP6-22: a fragment that is all of its packet is handled apart from all others (RFC 6946, 4).
#[test]
fn atomic_fragment_stays_apart() {
    let (mut node, socket) = Node::receiver();
    let whole = datagram(&data(128));
    node.fragment((protocol::UDP, 1), &whole, (0, 64));
    // The same identification, and bytes that would overlap.
    let other = datagram(b"atomic");
    node.fragment((protocol::UDP, 1), &other, (0, other.len()));
    assert_eq!(node.received(socket), Ok(b"atomic".to_vec()));
    node.fragment((protocol::UDP, 1), &whole, (64, whole.len() - 64));
    assert_eq!(node.received(socket), Ok(data(128)));
}

/// IP6-23: "Nodes MUST silently ignore" messages of neighbour discovery "if the packets carrying them include an IPv6
/// Fragmentation Header" (RFC 6980, 5).
#[test]
fn discovery_in_fragments_is_ignored() {
    let solicitation = Solicitation {
        target: STACK,
        source_link: Some(PEER_MAC),
        nonce: None,
    };
    let mut message = [0; MAX_LEN];
    let len = solicitation.emit(&mut message);
    let message = &mut message[..len];
    seal(protocol::ICMP, message, 2);
    let mut node = Node::new();
    let sent = node.inject((PEER, STACK), (protocol::ICMP, 255), message);
    assert_eq!(sent.len(), 1, "whole, it is answered");
    for parts in [&[(0, 32)][..], &[(0, 24), (24, 8)]] {
        for &(offset, len) in parts {
            let fragment = Fragment {
                offset: offset as u16,
                more: offset + len < message.len(),
                identification: 3,
            };
            let part = &message[offset..offset + len];
            let bytes = [&fragment.to_bytes(protocol::ICMP)[..], part].concat();
            let sent = node.inject((PEER, STACK), (protocol::FRAGMENT, 255), &bytes);
            assert!(sent.is_empty());
        }
    }
    assert_eq!(node.stack.counters().drops(Drop::Malformed), 2);
}

/// IP6-24: after 60 s a packet is given up, and its sender is told where the first fragment has come (RFC 8200, 4.5).
#[test]
fn sender_is_told_that_the_time_is_up() {
    let (mut node, _) = Node::receiver();
    let frames = node.pool.available();
    let whole = datagram(&data(192));
    node.fragment((protocol::UDP, 1), &whole, (64, 64));
    node.pass(100);
    node.fragment((protocol::UDP, 1), &whole, (0, 64));
    assert!(node.pass(490).is_empty());
    let sent = node.pass(20);
    assert_eq!(sent[0].icmp(), Message::TimeExceeded(1));
    assert_eq!(
        (sent[0].header.source, sent[0].header.destination),
        (STACK, PEER)
    );
    // The first fragment, with its header.
    let (_, quoted) = Fragment::parse(&sent[0].payload[48..]).unwrap();
    assert_eq!((quoted.offset, quoted.identification), (0, 1));
    assert_eq!(sent[0].payload[56..], whole[..64]);
    assert_eq!(node.pool.available(), frames);
    // Without it nobody is told.
    node.fragment((protocol::UDP, 2), &whole, (64, 64));
    let sent = node.pass(700);
    assert!(sent.iter().all(|packet| packet.payload[0] == 135));
    assert_eq!(node.pool.available(), frames);
}

/// IP6-25: a length that cannot be right is told to the sender, at the field that is wrong (RFC 8200, 4.5).
#[test]
fn length_that_cannot_be_right_is_told() {
    let (mut node, _) = Node::receiver();
    let whole = datagram(&data(192));
    // Not the last, and no multiple of 8 bytes.
    let sent = node.fragment((protocol::UDP, 1), &whole, (0, 63));
    assert_eq!(sent[0].icmp(), problem(0, 4));
    // The packet would be longer than 65,535 bytes.
    let last = Fragment {
        offset: 65_528,
        more: false,
        identification: 1,
    };
    let bytes = [&last.to_bytes(protocol::UDP)[..], &[0; 8]].concat();
    let sent = node.inject((PEER, STACK), (protocol::FRAGMENT, 64), &bytes);
    assert_eq!(sent[0].icmp(), problem(0, 42));
    // A group's members do not tell (RFC 4443, 2.4, e).
    let group = (PEER, ipv6::ALL_NODES);
    assert!(
        node.inject(group, (protocol::FRAGMENT, 64), &bytes)
            .is_empty()
    );
}

/// IP6-26: a first fragment without all headers is discarded, and its sender told (RFC 8200, 4.5; RFC 7112, 5).
#[test]
fn first_fragment_without_all_headers_is_told() {
    let (mut node, socket) = Node::receiver();
    let mut whole = vec![protocol::UDP, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    whole.extend(datagram(&data(64)));
    // Within the options, and in front of the datagram's header.
    for len in [8, 16] {
        let sent = node.fragment((DESTINATION_OPTIONS, 1), &whole, (0, len));
        assert_eq!(sent[0].icmp(), problem(3, 0));
    }
    node.fragment((DESTINATION_OPTIONS, 1), &whole, (0, 24));
    node.fragment((DESTINATION_OPTIONS, 1), &whole, (24, whole.len() - 24));
    assert_eq!(node.received(socket), Ok(data(64)));
}

/// IP6-17: TCP takes segments that came in fragments (RFC 8200, 4.5).
#[test]
fn segment_in_fragments_is_taken() {
    let (mut node, _) = Node::receiver();
    let now = node.now;
    let listener = node.stack.at(now, &mut node.pool).listen(PORT, 4).unwrap();
    let mut header = tcp::Header {
        source_port: 1000,
        destination_port: PORT,
        seq: SeqNumber(0),
        ack: SeqNumber(0),
        header_len: 20,
        flags: Flags::SYN,
        window: 60_000,
        urgent: 0,
        accurate_ecn: false,
        options: Options::default(),
    };
    let sent = node.inject_tcp(&header);
    let answer = tcp::Header::parse(&sent[0].payload).unwrap();
    header.flags = Flags::ACK;
    header.seq = SeqNumber(1);
    header.ack = answer.seq + 1;
    node.inject_tcp(&header);
    let payload = data(1200);
    let mut segment = [0; tcp::MAX_HEADER_LEN];
    let len = header.emit(&mut segment);
    let mut segment = [&segment[..len], &payload].concat();
    seal(protocol::TCP, &mut segment, 16);
    let half = (600, segment.len() - 600);
    assert!(node.fragment((protocol::TCP, 1), &segment, half).is_empty());
    node.fragment((protocol::TCP, 1), &segment, (0, 600));
    let mut active = node.stack.at(now, &mut node.pool);
    let conn = active.accept(listener).unwrap();
    let mut room = [0; 2000];
    let received = active.receive(conn, &mut room);
    assert_eq!(received, Ok(Received::Data(payload.len())));
    assert_eq!(room[..payload.len()], payload);
}

/// IP6-17: what one host cuts the other puts together.
#[test]
fn datagrams_longer_than_the_link_go_and_come() {
    let (mut node, socket) = Node::receiver();
    let now = node.now;
    let payload = data(20_000);
    let mut active = node.stack.at(now, &mut node.pool);
    active.udp_send(socket, (PEER, PORT), &payload).unwrap();
    let sent = node.poll();
    assert_eq!(sent.len(), 14);
    // As they were sent, but from the peer to us: the sum of both addresses is the same.
    for packet in &sent {
        node.inject((PEER, STACK), (protocol::FRAGMENT, 64), &packet.payload);
    }
    assert_eq!(node.received(socket), Ok(payload));
    // A link-local sender is another source with identifications of its own.
    for packet in &sent[..13] {
        node.inject((PEER, STACK), (protocol::FRAGMENT, 64), &packet.payload);
    }
    node.inject((ROUTER, STACK), (protocol::FRAGMENT, 64), &sent[13].payload);
    assert_eq!(node.received(socket), Err(Error::WouldBlock));
}
