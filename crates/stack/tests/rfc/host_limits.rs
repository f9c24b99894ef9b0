//! Limits on what strangers can make a host hold, send or do (RFC 1122, RFC 1812, RFC 4987).

use crate::peer::*;
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_checksum::Kernel;
use tollgate_stack::counters::Drop;
use tollgate_stack::{ConnId, Pool, State};
use tollgate_wire::arp::{self, Operation};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmp::Message;
use tollgate_wire::tcp::{self, Flags, Header, Options};
use tollgate_wire::{SeqNumber, ipv4, udp};

/// Frames of the pool in tests of floods.
const FRAMES: usize = 1024;

/// A host on the link, made up.
fn neighbour(n: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 3 + (n % 250) as u8)
}

/// `sender` says in an ARP packet to the stack that its link address is `mac`.
fn arp_from(sender: Ipv4Addr, mac: MacAddr, operation: Operation) -> Vec<u8> {
    let link = ethernet::Header {
        destination: STACK_MAC,
        source: mac,
        ethertype: EtherType::Arp,
    };
    let packet = arp::Packet {
        operation,
        sender_mac: mac,
        sender_ip: sender,
        target_mac: STACK_MAC,
        target_ip: STACK,
    };
    [&link.to_bytes()[..], &packet.to_bytes()].concat()
}

/// An echo request from `source`.
fn echo_request(source: Ipv4Addr) -> Vec<u8> {
    let message = Message::EchoRequest {
        identifier: 1,
        sequence: 2,
    };
    let mut octets = message.to_bytes().to_vec();
    let sum = Kernel::HALFWORD.sum(&octets).finish().to_ne_bytes();
    octets[2..4].copy_from_slice(&sum);
    ip_packet(ipv4::protocol::ICMP, source, STACK, &octets)
}

/// A SYN from `source` to [`PORT`].
fn syn_from(source: Ipv4Addr, port: u16) -> Vec<u8> {
    let header = Header {
        source_port: port,
        destination_port: PORT,
        seq: SeqNumber(1),
        ack: SeqNumber(0),
        header_len: 0,
        flags: Flags::SYN,
        window: 1000,
        urgent: 0,
        options: Options::default(),
    };
    let mut out = [0; tcp::MAX_HEADER_LEN];
    let len = header.emit(&mut out);
    fill_checksum(&mut out[..len], source, STACK);
    ip_packet(ipv4::protocol::TCP, source, STACK, &out[..len])
}

/// A connection of the peer's, with a pool of [`FRAMES`].
fn small_pool() -> (Peer, ConnId) {
    let mut peer = Peer::with(|_| {});
    peer.pool = Pool::new(FRAMES, Pool::frame_size_for(1500));
    let conn = peer.accepted(syn().mss(MSS));
    (peer, conn)
}

/// Lets the connection send and the peer acknowledge.
#[track_caller]
fn exchange(peer: &mut Peer, conn: ConnId, from: u32) {
    peer.send(conn, from, 1000);
    peer.expect(ack().seq(from).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(from + 1000));
}

/// A UDP datagram of the peer to `to_port`, without a checksum.
fn datagram(from_port: u16, to_port: u16, data: &[u8]) -> Vec<u8> {
    let header = udp::Header {
        source_port: from_port,
        destination_port: to_port,
        len: (udp::HEADER_LEN + data.len()) as u16,
        no_checksum: true,
    };
    let octets = [&header.to_bytes(), data].concat();
    ip_packet(ipv4::protocol::UDP, PEER, STACK, &octets)
}

/// RFC 1812, 4.3.2.8: the rate of ICMP errors is limited, and it must not be the same in each period: an attacker could
/// count what others have provoked.
#[test]
fn icmp_errors_are_limited_in_rate() {
    let mut peer = Peer::new();
    let mut sizes = Vec::new();
    for _ in 0..5 {
        let mut errors = 0;
        for _ in 0..200 {
            peer.inject_packet(&datagram(5000, 999, b"x"));
            while peer.next_packet().is_some() {
                errors += 1;
            }
        }
        sizes.push(errors);
        peer.advance(ms(100));
    }
    assert!(
        sizes.iter().all(|&errors| (40..=80).contains(&errors)),
        "{sizes:?}"
    );
    assert!(sizes.iter().any(|&errors| errors != sizes[0]), "{sizes:?}");
    let withheld = peer.stack.counters().icmp_errors_limited;
    assert_eq!(withheld, 1000 - sizes.iter().sum::<u64>());
}

/// RFC 1122, 2.3.2.2, asks to save packets for unresolved addresses; how many in all is the host's to say.
#[test]
fn echo_flood_from_made_up_neighbours_leaves_frames() {
    let (mut peer, conn) = small_pool();
    let before = peer.pool.available();
    for n in 0..10 * FRAMES as u32 {
        peer.inject_packet(&echo_request(neighbour(n)));
        if n % 500 == 0 {
            peer.ignore();
            exchange(&mut peer, conn, 1 + n * 2);
        }
    }
    peer.ignore();
    assert!(before - peer.pool.available() <= FRAMES / 16, "frames wait");
    assert!(peer.stack.counters().drops(Drop::Unresolved) > 9 * FRAMES as u64);
    peer.advance(s(4));
    peer.ignore();
    assert_eq!(peer.pool.available(), before);
}

#[test]
fn syn_flood_from_made_up_neighbours_leaves_frames() {
    let (mut peer, conn) = small_pool();
    let before = peer.pool.available();
    for n in 0..10 * FRAMES as u32 {
        peer.inject_packet(&syn_from(neighbour(n), 1000 + (n / 250) as u16));
        if n % 500 == 0 {
            peer.ignore();
            exchange(&mut peer, conn, 1 + n * 2);
        }
    }
    peer.ignore();
    // Half-open connections hold their SYNs beside the frames that wait.
    assert!(
        before - peer.pool.available() <= FRAMES / 16 + 16,
        "frames wait"
    );
}

/// The question is asked although the frame is not kept, so that the next one goes.
#[test]
fn pool_at_its_reserve_keeps_no_waiting_frame() {
    let mut peer = Peer::new();
    peer.pool = Pool::new(16, Pool::frame_size_for(1500));
    let held: Vec<_> = (0..12)
        .map(|_| peer.pool.alloc().expect("a frame"))
        .collect();
    peer.inject_packet(&echo_request(neighbour(0)));
    let question = peer.next_frame().expect("a question");
    assert_eq!(question[12..14], [8, 6]);
    assert_eq!(peer.pool.available(), 4);
    assert_eq!(peer.stack.counters().drops(Drop::Unresolved), 1);
    held.into_iter().for_each(|id| peer.pool.release(id));
}

/// Connections that are tried over a neighbour without an answer fail although none of their frames was kept.
#[test]
fn connection_fails_when_its_frame_found_no_room_to_wait() {
    let mut peer = Peer::new();
    peer.pool = Pool::new(16, Pool::frame_size_for(1500));
    let held: Vec<_> = (0..11)
        .map(|_| peer.pool.alloc().expect("a frame"))
        .collect();
    let conn = peer
        .stack()
        .connect(SocketAddrV4::new(neighbour(0), 80))
        .expect("a frame for the SYN");
    peer.advance(s(4));
    peer.ignore();
    assert_eq!(peer.state(conn), State::Closed);
    held.into_iter().for_each(|id| peer.pool.release(id));
}

/// Connections by way of the peer and of one other neighbour.
fn many_connections(count: u16) -> Peer {
    let mut peer = Peer::new();
    for port in 1..=count {
        peer.stack()
            .connect(SocketAddrV4::new(PEER, port))
            .expect("a connection");
    }
    let other = neighbour(0);
    peer.stack()
        .add_neighbour(other, MacAddr([2, 0, 0, 0, 0, 7]));
    peer.stack()
        .connect(SocketAddrV4::new(other, 80))
        .expect("a connection");
    peer.ignore();
    peer
}

/// A change of one neighbour's link address costs as much as it has connections.
#[test]
fn changed_neighbour_touches_its_own_connections_only() {
    let mut peer = many_connections(200);
    peer.advance(ms(1500));
    peer.ignore();
    let before = peer.stack.counters().templates_rewritten;
    let elsewhere = MacAddr([2, 0, 0, 0, 0, 8]);
    peer.inject_frame(arp_from(neighbour(0), elsewhere, Operation::Reply));
    assert_eq!(peer.stack.counters().templates_rewritten, before + 1);
    // Nor do neighbours without connections touch any.
    for last in 1..3 {
        for n in 1..100 {
            let mac = MacAddr([2, 0, 0, 0, 1, last]);
            peer.inject_frame(arp_from(neighbour(n), mac, Operation::Request));
        }
        peer.advance(ms(1100));
    }
    assert_eq!(peer.stack.counters().templates_rewritten, before + 1);
    peer.ignore();
}

/// RFC 826 believes every packet. One that contradicts what was heard within the last second is not believed.
#[test]
fn forged_changes_of_a_neighbour_are_limited_in_rate() {
    let mut peer = many_connections(200);
    peer.advance(ms(1500));
    let before = peer.stack.counters().templates_rewritten;
    for n in 0..250 {
        peer.inject_frame(arp_reply(MacAddr([2, 0, 0, 0, 2, n])));
        peer.advance(ms(4));
    }
    peer.ignore();
    let rewritten = peer.stack.counters().templates_rewritten - before;
    assert!((200..=400).contains(&rewritten), "{rewritten}");
    assert!(peer.stack.counters().arp_changes_limited >= 248);
}

/// Packets to made-up neighbours fill the cache with questions; they do not cost a neighbour that is in use.
#[test]
fn flood_of_destinations_leaves_neighbours_in_use() {
    let mut peer = Peer::with(|config| config.max_neighbours = 16);
    let conn = peer.accepted(syn().mss(MSS));
    peer.stop_answering_arp();
    for n in 0..1000 {
        peer.inject_packet(&echo_request(neighbour(n)));
        peer.advance(ms(2));
        peer.ignore();
    }
    // A question would have come first if the address had been lost.
    exchange(&mut peer, conn, 1);
}

/// The same where every made-up neighbour answers: those that no connection uses make room first.
#[test]
fn flood_of_answers_leaves_neighbours_in_use() {
    let mut peer = Peer::with(|config| config.max_neighbours = 16);
    let conn = peer.accepted(syn().mss(MSS));
    peer.stop_answering_arp();
    for n in 0..1000 {
        let mac = MacAddr([2, 0, 0, 0, 3, 1]);
        peer.inject_packet(&echo_request(neighbour(n)));
        peer.inject_frame(arp_from(neighbour(n), mac, Operation::Reply));
        peer.advance(ms(2));
        peer.ignore();
    }
    exchange(&mut peer, conn, 1);
}
