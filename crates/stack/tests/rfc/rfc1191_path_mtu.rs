//! RFC 1191: paths that carry less than every host takes (576 bytes, RFC 791), and RFC 6864 and 7739: identifications.

use crate::peer::*;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_stack::ConnId;
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::ipv4;

/// An IP header, as far as fragmentation is concerned, and the segment's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    is_fragmentable: bool,
    identification: u16,
    total_len: u16,
}

/// Everything that the stack sent.
fn sent(peer: &mut Peer) -> Vec<Packet> {
    std::iter::from_fn(|| {
        let (ip, _) = peer.next_packet()?;
        Some(Packet {
            is_fragmentable: ip.flags_and_offset & ipv4::DONT_FRAGMENT == 0,
            identification: ip.identification,
            total_len: ip.total_len,
        })
    })
    .collect()
}

fn needed(next_hop_mtu: u16) -> Message {
    Message::DestinationUnreachable(Unreachable::FragmentationNeeded { next_hop_mtu })
}

/// A connection with 2,920 bytes in flight, and the first segment.
fn in_flight(mss: u16) -> (Peer, ConnId, Sent) {
    let mut peer = Peer::new();
    let conn = peer.accepted(syn().seq(0).mss(mss));
    peer.send(conn, 1, 2920);
    let first = peer.expect(ack().seq(1).ack(1).len(usize::from(mss)));
    peer.ignore();
    (peer, conn, first)
}

/// MTU4-2. RFC 1191, 3: "A host MUST never reduce its estimate of the Path MTU below 68 octets." We stay at 576 and let routers
/// fragment, as Linux does below its least.
#[test]
fn path_below_576_may_fragment_segments() {
    let (mut peer, conn, first) = in_flight(1460);
    peer.inject_icmp(needed(296), &first);
    let again = sent(&mut peer);
    assert!(!again.is_empty(), "the segment is sent again");
    peer.inject(ack().seq(1).ack(2921));
    peer.send(conn, 2921, 1072);
    peer.inject(fin().seq(1).ack(2921));
    let mut later = sent(&mut peer);
    later.extend(again);
    assert!(later.len() >= 4, "{later:?}");
    assert!(
        later
            .iter()
            .all(|packet| packet.is_fragmentable && packet.total_len <= 576),
        "{later:?}"
    );
    assert_eq!(peer.stack().info(conn).expect("it is there").mss, 536);
    // RFC 6864, 4.3: what may be fragmented is told apart by its identification.
    let numbers: BTreeSet<u16> = later.iter().map(|packet| packet.identification).collect();
    assert_eq!(numbers.len(), later.len());
}

/// MTU4-2: other connections keep DF, and zero as the identification of atomic datagrams (RFC 6864, 4.1).
#[test]
fn path_below_576_concerns_its_connection_only() {
    let (mut peer, _, first) = in_flight(1460);
    peer.inject_icmp(needed(296), &first);
    peer.ignore();
    let other = peer.connect();
    let opening = sent(&mut peer);
    assert_eq!(opening.len(), 1);
    assert!(!opening[0].is_fragmentable && opening[0].identification == 0);
    assert_eq!(peer.stack().abort(other), Ok(()));
    peer.ignore();
}

/// Segments that are small enough already are sent again as soon as they may be fragmented, once.
#[test]
fn small_segments_pass_a_path_below_576() {
    let (mut peer, conn, first) = in_flight(500);
    peer.inject_icmp(needed(300), &first);
    let again = sent(&mut peer);
    assert_eq!(again.len(), 1);
    assert!(again[0].is_fragmentable);
    assert_eq!(peer.stack().info(conn).expect("it is there").mss, 500);
    peer.inject_icmp(needed(300), &first);
    assert_eq!(sent(&mut peer), []);
}

/// MTU4-3: routers older than RFC 1191 say 0, and nothing carries less than 68: then the least that every host takes is tried
/// first, and fragments are allowed when that is still too much.
#[test]
fn nonsense_mtu_is_taken_for_576_first() {
    for nonsense in [0, 67] {
        let (mut peer, conn, first) = in_flight(1460);
        peer.inject_icmp(needed(nonsense), &first);
        let again = sent(&mut peer);
        assert!(
            again.iter().all(|packet| !packet.is_fragmentable),
            "{again:?}"
        );
        assert_eq!(peer.stack().info(conn).expect("it is there").mss, 536);
        peer.inject_icmp(needed(nonsense), &first);
        let again = sent(&mut peer);
        assert_eq!(again.len(), 1);
        assert!(again[0].is_fragmentable);
    }
}

/// MTU4-4. RFC 1191, 6.3: where the last message is older than the time-out interval, "the PMTU estimate is set to the MTU of the associated first
/// hop"; 3: "The recommended setting for these timers is twice their minimum values (10 minutes and 2 minutes, respectively)."
#[test]
fn segments_are_longer_again_after_ten_minutes() {
    let (mut peer, conn, mut first) = in_flight(1460);
    let mut next = 2921;
    for _ in 0..2 {
        peer.inject_icmp(needed(1000), &first);
        peer.ignore();
        peer.inject(ack().seq(1).ack(next));
        for (time, mss) in [(s(595), 960), (s(10), 1460)] {
            peer.advance(time);
            assert_eq!(peer.stack().info(conn).expect("it is there").mss, mss);
            assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
        }
        // A router may say again that it is too much.
        peer.send(conn, next, 1460);
        first = peer.expect(ack().seq(next).ack(1).len(1460));
        next += 1460;
    }
}

/// MTU4-4: what could only be sent in fragments is tried whole again as well, and is told to be too long anew.
#[test]
fn routers_may_not_fragment_any_more_after_ten_minutes() {
    let (mut peer, conn, first) = in_flight(500);
    peer.inject_icmp(needed(300), &first);
    peer.ignore();
    // The last one waited for the others (RFC 9293, 3.7.4).
    for next in [2501, 2921] {
        peer.inject(ack().seq(1).ack(next));
        peer.ignore();
    }
    for (time, is_fragmentable) in [(s(595), true), (s(10), false)] {
        peer.advance(time);
        let at = if is_fragmentable { 2921 } else { 3021 };
        peer.send(conn, at, 100);
        assert_eq!(sent(&mut peer)[0].is_fragmentable, is_fragmentable);
        peer.inject(ack().seq(1).ack(at + 100));
    }
}

/// A connection that is over before that is forgotten.
#[test]
fn closed_connection_does_not_widen_its_path() {
    let (mut peer, conn, first) = in_flight(1460);
    peer.inject_icmp(needed(1000), &first);
    assert_eq!(peer.stack().abort(conn), Ok(()));
    peer.ignore();
    peer.advance(s(700));
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// RFC 7739, 3: who sees the identifications that one host is sent learns nothing about another's.
#[test]
fn identifications_count_for_each_destination() {
    let gateway = |config: &mut tollgate_stack::Config| config.gateway = Some(PEER);
    let mut peer = Peer::with(gateway);
    let socket = peer.stack().udp_bind(1000).expect("the port is free");
    let mut number = |host: u8| {
        let to = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, host), 9);
        assert_eq!(peer.stack().udp_send(socket, to, b"x"), Ok(()));
        sent(&mut peer)[0].identification
    };
    let first = number(1);
    let between: Vec<u16> = (2..40).map(&mut number).collect();
    // The observer's own numbers go on as if nothing had been sent to others.
    assert_eq!(number(1), first.wrapping_add(1));
    let in_step = between
        .windows(2)
        .filter(|pair| pair[1] == pair[0].wrapping_add(1));
    assert!(in_step.count() < 3, "{between:?}");
}
