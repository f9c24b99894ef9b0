//! Limits on what strangers can make a host hold, send or do (RFC 1122, RFC 1812, RFC 4987).

use crate::peer::*;
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_checksum::Kernel;
use tollgate_stack::counters::Drop;
use tollgate_stack::{ConnId, Error, Pool, State};
use tollgate_wire::arp::{self, Operation};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmp::{Message, Unreachable};
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
    let mut bytes = message.to_bytes().to_vec();
    let sum = Kernel::HALFWORD.sum(&bytes).finish().to_ne_bytes();
    bytes[2..4].copy_from_slice(&sum);
    ip_packet(ipv4::protocol::ICMP, source, STACK, &bytes)
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
        accurate_ecn: false,
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
    let bytes = [&header.to_bytes(), data].concat();
    ip_packet(ipv4::protocol::UDP, PEER, STACK, &bytes)
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
    assert!(before - peer.pool.available() <= FRAMES / 8, "frames wait");
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
        before - peer.pool.available() <= FRAMES / 8 + 16,
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
    let before = peer.stack.counters().neighbour_users_visited;
    let elsewhere = MacAddr([2, 0, 0, 0, 0, 8]);
    peer.inject_frame(arp_from(neighbour(0), elsewhere, Operation::Reply));
    assert_eq!(peer.stack.counters().neighbour_users_visited, before + 1);
    // Nor do neighbours without connections touch any.
    for last in 1..3 {
        for n in 1..100 {
            let mac = MacAddr([2, 0, 0, 0, 1, last]);
            peer.inject_frame(arp_from(neighbour(n), mac, Operation::Request));
        }
        peer.advance(ms(1100));
    }
    assert_eq!(peer.stack.counters().neighbour_users_visited, before + 1);
    peer.ignore();
}

/// RFC 826 believes every packet. One that contradicts what was heard within the last second is not believed.
#[test]
fn forged_changes_of_a_neighbour_are_limited_in_rate() {
    let mut peer = many_connections(200);
    peer.advance(ms(1500));
    let before = peer.stack.counters().neighbour_users_visited;
    for n in 0..250 {
        peer.inject_frame(arp_reply(MacAddr([2, 0, 0, 0, 2, n])));
        peer.advance(ms(4));
    }
    peer.ignore();
    let rewritten = peer.stack.counters().neighbour_users_visited - before;
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

/// Every made-up neighbour answers; those that no connection uses make room first.
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

/// Datagrams that a socket hands out until it has none left, and their bytes.
fn read_all(peer: &mut Peer, socket: tollgate_stack::udp::UdpId) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    while let Ok((_, data)) = peer.stack().udp_receive(socket) {
        count += 1;
        bytes += data.len();
    }
    (count, bytes)
}

/// A datagram costs memory, and an empty one costs some, too.
#[test]
fn empty_datagrams_do_not_fill_the_memory() {
    let mut peer = Peer::new();
    let socket = peer.stack().udp_bind(1000).expect("the port is free");
    for _ in 0..10_000 {
        peer.inject_packet(&datagram(5000, 1000, b""));
    }
    let dropped = peer.stack.counters().drops(Drop::QueueFull);
    let (count, _) = read_all(&mut peer, socket);
    assert!((1000..4096).contains(&count), "{count}");
    assert_eq!(dropped + count as u64, 10_000);
    // What was read has made room.
    peer.inject_packet(&datagram(5000, 1000, b"x"));
    assert_eq!(read_all(&mut peer, socket), (1, 1));
}

#[test]
fn all_datagrams_together_are_bounded_by_the_pool() {
    let mut peer = Peer::new();
    // A quarter of 64 frames is 32 KiB.
    peer.pool = Pool::new(64, 2048);
    let sockets: Vec<_> = (1000..1008)
        .map(|port| peer.stack().udp_bind(port).expect("the port is free"))
        .collect();
    for port in 1000..1007 {
        for _ in 0..100 {
            peer.inject_packet(&datagram(5000, port, &[7; 1000]));
        }
    }
    // The last socket has had nothing yet: one datagram finds room whatever the others hold.
    for _ in 0..3 {
        peer.inject_packet(&datagram(5000, 1007, &[7; 1400]));
    }
    let held: Vec<_> = sockets.iter().map(|&id| read_all(&mut peer, id)).collect();
    let bytes: usize = held.iter().map(|(_, bytes)| bytes).sum();
    assert!((24_000..=32_768 + 8 * 1400).contains(&bytes), "{held:?}");
    assert_eq!(held[7].0, 1);
    // A socket that is closed gives back what its queue was charged.
    for _ in 0..100 {
        peer.inject_packet(&datagram(5000, 1000, &[7; 1000]));
    }
    assert_eq!(peer.stack().udp_close(sockets[0]), Ok(()));
    for _ in 0..100 {
        peer.inject_packet(&datagram(5000, 1001, &[7; 1000]));
    }
    let (count, _) = read_all(&mut peer, sockets[1]);
    assert!(count > 20, "{count}");
}

/// An ICMP error about a datagram from [`STACK`]'s port 1000 to `to`.
fn error_about(to: SocketAddrV4, reason: Unreachable) -> Vec<u8> {
    let header = udp::Header {
        source_port: 1000,
        destination_port: to.port(),
        len: 9,
        no_checksum: true,
    };
    let ip = ip_packet(ipv4::protocol::UDP, STACK, *to.ip(), &header.to_bytes());
    icmp_packet(Message::DestinationUnreachable(reason), &ip)
}

/// RFC 1122, 4.1.3.3: "UDP MUST pass to the application layer all ICMP error messages that it receives from the IP layer" that
/// are about its datagrams: those that it has not sent are somebody else's invention.
#[test]
fn icmp_errors_about_strangers_do_not_reach_a_udp_socket() {
    let mut peer = Peer::new();
    let socket = peer.stack().udp_bind(1000).expect("the port is free");
    let to = SocketAddrV4::new(PEER, 9);
    assert_eq!(peer.stack().udp_send(socket, to, b"x"), Ok(()));
    peer.ignore();
    let strangers = [
        SocketAddrV4::new(PEER, 10),
        SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9),
    ];
    for about in strangers {
        peer.inject_packet(&error_about(about, Unreachable::Port));
    }
    assert_eq!(peer.stack().udp_receive(socket), Err(Error::WouldBlock));
    assert_eq!(peer.stack.counters().drops(Drop::IcmpImplausible), 2);
    peer.inject_packet(&error_about(to, Unreachable::Port));
    assert_eq!(peer.stack().udp_receive(socket), Err(Error::Refused));
    // A destination of long ago, or of many datagrams ago, is forgotten.
    for port in 20..28 {
        let other = SocketAddrV4::new(PEER, port);
        assert_eq!(peer.stack().udp_send(socket, other, b"x"), Ok(()));
    }
    peer.ignore();
    peer.inject_packet(&error_about(to, Unreachable::Port));
    assert_eq!(peer.stack().udp_receive(socket), Err(Error::WouldBlock));
    peer.advance(s(61));
    let last = SocketAddrV4::new(PEER, 27);
    peer.inject_packet(&error_about(last, Unreachable::Port));
    assert_eq!(peer.stack().udp_receive(socket), Err(Error::WouldBlock));
}

#[test]
fn icmp_errors_do_not_keep_datagrams_from_being_sent() {
    let mut peer = Peer::new();
    let socket = peer.stack().udp_bind(1000).expect("the port is free");
    let to = SocketAddrV4::new(PEER, 9);
    for _ in 0..10 {
        assert_eq!(peer.stack().udp_send(socket, to, b"x"), Ok(()));
        assert!(peer.next_packet().is_some(), "it was sent");
        peer.inject_packet(&error_about(to, Unreachable::Port));
    }
    assert_eq!(peer.stack().udp_receive(socket), Err(Error::Refused));
}

/// RFC 6056, 3.3.1: ports of UDP sockets are not to be guessed.
#[test]
fn udp_ports_are_random_and_unique() {
    let mut peer = Peer::new();
    let mut ports: Vec<u16> = Vec::new();
    for _ in 0..100 {
        let socket = peer.stack().udp_bind(0).expect("a port is free");
        ports.push(peer.stack().udp_port(socket).expect("it is there"));
    }
    assert!(ports.iter().all(|port| *port >= 49_152));
    let steps = ports
        .windows(2)
        .filter(|pair| pair[1].wrapping_sub(pair[0]) < 16);
    assert!(steps.count() < 10, "{ports:?}");
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 100);
}

/// First fragments from made-up sources trickle in while a datagram of the peer's is on its way.
#[test]
fn trickle_of_first_fragments_leaves_datagrams_of_others() {
    let mut peer = Peer::new();
    let socket = peer.stack().udp_bind(1000).expect("the port is free");
    let whole = datagram(5000, 1000, &stream(1, 3992));
    let header = ipv4::Header::parse(&whole).expect("an IPv4 header");
    for (n, part) in whole[ipv4::HEADER_LEN..].chunks(1000).enumerate() {
        let more = if n < 3 { ipv4::MORE_FRAGMENTS } else { 0 };
        let header = ipv4::Header {
            total_len: (ipv4::HEADER_LEN + part.len()) as u16,
            flags_and_offset: more | (n * 1000 / 8) as u16,
            ..header
        };
        for stranger in 0..20 {
            let of_stranger = ipv4::Header {
                total_len: ipv4::HEADER_LEN as u16 + 8,
                flags_and_offset: ipv4::MORE_FRAGMENTS,
                source: Ipv4Addr::new(198, 51, n as u8, stranger),
                ..header
            };
            peer.inject_packet(&[&of_stranger.to_bytes()[..], &[0; 8]].concat());
        }
        peer.inject_packet(&[&header.to_bytes()[..], part].concat());
        peer.advance(ms(10));
    }
    assert_eq!(read_all(&mut peer, socket), (1, 3992));
}

/// Fragments hold a quarter of a small pool, whatever the configuration allows.
#[test]
fn flood_of_fragments_leaves_frames() {
    let mut peer = Peer::new();
    peer.pool = Pool::new(128, 2048);
    let header = ipv4::Header::parse(&datagram(5000, 1000, &[0; 8])).expect("an IPv4 header");
    for n in 0..1000u32 {
        let header = ipv4::Header {
            flags_and_offset: ipv4::MORE_FRAGMENTS | (n % 8 * 2) as u16,
            source: Ipv4Addr::from_bits(0xc633_6400 + n / 8),
            ..header
        };
        peer.inject_packet(&[&header.to_bytes()[..], &[0; 16]].concat());
        assert!(
            peer.pool.available() >= 128 - 32,
            "{}",
            peer.pool.available()
        );
    }
}

/// A connection's place is used again by one with another next hop, or by nobody.
#[test]
fn changed_neighbour_touches_no_connection_that_ended() {
    let mut peer = Peer::new();
    let (first, second) = (neighbour(0), neighbour(1));
    for (host, last) in [(first, 7), (second, 8)] {
        let mac = MacAddr([2, 0, 0, 0, 0, last]);
        peer.stack().add_neighbour(host, mac);
    }
    let connect = |peer: &mut Peer, host| {
        let to = SocketAddrV4::new(host, 80);
        peer.stack().connect(to).expect("a connection")
    };
    let moves = |peer: &mut Peer, host, last| {
        peer.advance(ms(1100));
        let before = peer.stack.counters().neighbour_users_visited;
        let mac = MacAddr([2, 0, 0, 0, 9, last]);
        peer.inject_frame(arp_from(host, mac, Operation::Reply));
        peer.stack.counters().neighbour_users_visited - before
    };
    let conn = connect(&mut peer, first);
    assert_eq!(moves(&mut peer, first, 1), 1);
    assert_eq!(peer.stack().abort(conn), Ok(()));
    // The place is looked at once more, and leaves the list.
    assert_eq!(moves(&mut peer, first, 2), 1);
    assert_eq!(moves(&mut peer, first, 3), 0);
    let conn = connect(&mut peer, second);
    assert_eq!(moves(&mut peer, first, 9), 0);
    assert_eq!(moves(&mut peer, second, 4), 1);
    assert_eq!(peer.stack().abort(conn), Ok(()));
    let again = connect(&mut peer, second);
    assert_eq!(moves(&mut peer, second, 5), 1);
    assert_eq!(peer.stack().abort(again), Ok(()));
    connect(&mut peer, first);
    assert_eq!(moves(&mut peer, second, 6), 0);
    assert_eq!(moves(&mut peer, first, 7), 1);
    peer.ignore();
}
