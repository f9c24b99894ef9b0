//! RFC 1122 with RFC 791, 792, 768, 826 and 815: what is below and beside TCP.

use crate::peer::*;
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_checksum::{Kernel, sum_header};
use tollgate_stack::counters::Drop;
use tollgate_stack::{Error, State};
use tollgate_wire::arp::{self, Operation};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmp::{self, Message, Unreachable};
use tollgate_wire::{ipv4, udp};

/// Cuts an IP packet into fragments of at most `step` bytes of payload, a multiple of 8.
fn fragments(packet: &[u8], step: usize) -> Vec<Vec<u8>> {
    let header = ipv4::Header::parse(packet).unwrap();
    let payload = &packet[20..];
    let count = payload.len().div_ceil(step);
    payload
        .chunks(step)
        .enumerate()
        .map(|(n, part)| {
            let more = if n + 1 < count {
                ipv4::MORE_FRAGMENTS
            } else {
                0
            };
            let header = ipv4::Header {
                total_len: 20 + part.len() as u16,
                flags_and_offset: more | (n * step / 8) as u16,
                ..header
            };
            [&header.to_bytes(), part].concat()
        })
        .collect()
}

fn udp_packet(to_port: u16, data: &[u8], checksum: bool) -> Vec<u8> {
    let len = (udp::HEADER_LEN + data.len()) as u16;
    let header = udp::Header {
        source_port: 5000,
        destination_port: to_port,
        len,
        no_checksum: !checksum,
    };
    let mut bytes = [&header.to_bytes(), data].concat();
    if checksum {
        let sum = ipv4::pseudo_header(PEER, STACK, ipv4::protocol::UDP, len)
            + Kernel::HALFWORD.sum(&bytes);
        bytes[6..8].copy_from_slice(&sum.finish().to_ne_bytes());
    }
    ip_packet(ipv4::protocol::UDP, PEER, STACK, &bytes)
}

/// RFC 791, 3.2, and RFC 1122, 3.3.2: "The IP layer MUST implement reassembly of IP datagrams."; fragments come in any order.
#[test]
fn fragments_are_put_together_in_any_order() {
    let data = stream(1, 3000);
    let parts = fragments(
        &icmp_packet(
            Message::EchoRequest {
                identifier: 3,
                sequence: 4,
            },
            &data,
        ),
        800,
    );
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let mut peer = Peer::new();
        for n in order {
            assert!(peer.next_frame().is_none());
            peer.inject_packet(&parts[n]);
        }
        let mut back = Vec::new();
        while let Some((ip, payload)) = peer.next_packet() {
            assert_eq!(usize::from(ip.fragment_offset()), back.len());
            back.extend(payload);
        }
        assert!(Kernel::HALFWORD.sum(&back).is_valid());
        assert_eq!(
            Message::parse(&back),
            Ok(Message::EchoReply {
                identifier: 3,
                sequence: 4
            })
        );
        assert!(back[icmp::HEADER_LEN..] == data);
        assert_eq!(peer.pool.available(), peer.pool.capacity());
    }
}

/// A TCP segment that comes in fragments is put together.
#[test]
fn a_tcp_segment_may_come_in_fragments() {
    let (mut peer, conn) = Peer::established();
    let packet = peer.packet(&ack().seq(1).ack(1).len(4000));
    for part in fragments(&packet, 1000).iter().rev() {
        peer.inject_packet(part);
    }
    assert_eq!(peer.read(conn, 5000), stream(1, 4000));
    peer.advance(ms(50));
    assert_eq!(peer.drain().pop().map(|sent| sent.ack), Some(4001));
}

/// RFC 791, 3.2, and RFC 1122, 3.3.3: a datagram that is longer than the link takes is sent in fragments, all but the last
/// of a multiple of 8 bytes, with one identification; another datagram has another.
#[test]
fn a_long_datagram_is_sent_in_fragments() {
    let mut peer = Peer::on_link(576, |_| {});
    let socket = peer.stack().udp_bind(1000).unwrap();
    let data = stream(1, 2000);
    let to = SocketAddrV4::new(PEER, 9);
    let mut identifications = Vec::new();
    for _ in 0..2 {
        peer.stack().udp_send(socket, to, &data).unwrap();
        let mut whole = Vec::new();
        let mut last = false;
        while let Some((ip, payload)) = peer.next_packet() {
            assert!(!last && ip.total_len <= 576);
            assert_eq!(usize::from(ip.fragment_offset()), whole.len());
            last = !ip.more_fragments();
            assert!(last || payload.len() % 8 == 0);
            identifications.push(ip.identification);
            whole.extend(payload);
        }
        assert!(last);
        let pseudo = ipv4::pseudo_header(STACK, PEER, ipv4::protocol::UDP, whole.len() as u16);
        assert!((pseudo + Kernel::HALFWORD.sum(&whole)).is_valid());
        assert!(whole[udp::HEADER_LEN..] == data);
    }
    identifications.dedup();
    assert_eq!(identifications.len(), 2);
}

/// RFC 1122, 3.3.2: "There MUST be a reassembly timeout", which "SHOULD be a fixed value"; "It is recommended that the
/// value lie between 60 seconds and 120 seconds. If this timeout expires, the partially-reassembled datagram MUST be discarded and an ICMP Time Exceeded message
/// sent to the source host (if fragment zero has been received)."
#[test]
fn an_incomplete_datagram_is_given_up() {
    let parts = fragments(&udp_packet(9, &stream(1, 2000), true), 800);
    for (kept, told) in [(0, true), (1, false)] {
        let mut peer = Peer::new();
        peer.inject_packet(&parts[kept]);
        peer.advance(s(59));
        assert!(peer.next_frame().is_none());
        peer.advance(s(62));
        assert_eq!(peer.pool.available(), peer.pool.capacity());
        match peer.next_packet() {
            Some((_, payload)) => {
                assert!(told);
                assert_eq!(Message::parse(&payload), Ok(Message::TimeExceeded(1)));
                assert_eq!(payload[icmp::HEADER_LEN + 20..], parts[kept][20..28]);
            }
            None => assert!(!told),
        }
    }
}

/// RFC 1122, 3.2.1.2: "A host MUST verify the IP header checksum on every received datagram and silently discard every
/// datagram that has a bad checksum."; 3.2.1.1: "A datagram whose version number is not 4 MUST be silently discarded."
#[test]
fn datagrams_with_a_bad_header_are_dropped_in_silence() {
    let (mut peer, conn) = Peer::established();
    let good = peer.packet(&ack().seq(1).ack(1).len(10));
    for at in [1, 4, 8, 10, 12] {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        peer.inject_packet(&bad);
    }
    assert_eq!(peer.stack.counters().drops(Drop::Checksum), 5);
    for (first, total_len) in [(0x65, 60), (0x44, 60), (0x4f, 30), (0x45, 10), (0x45, 1000)] {
        let mut bad = good.clone();
        bad[0] = first;
        bad[2..4].copy_from_slice(&u16::to_be_bytes(total_len));
        if first == 0x45 {
            fill_ip_checksum(&mut bad);
        }
        peer.inject_packet(&bad);
    }
    peer.inject_frame(vec![0; 10]);
    peer.expect_nothing();
    assert!(peer.read(conn, 100).is_empty());
    peer.inject_packet(&good);
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
}

/// RFC 894: a frame is padded to the least length of Ethernet; the IP length says what counts.
#[test]
fn padding_is_no_payload() {
    let (mut peer, conn) = Peer::established();
    for seq in [1, 2] {
        let mut packet = peer.packet(&ack().seq(seq).ack(1).len(1));
        packet.resize(46, 0xaa);
        peer.inject_packet(&packet);
    }
    peer.expect(ack().seq(1).ack(3));
    assert_eq!(peer.read(conn, 100), stream(1, 2));
}

/// RFC 1122, 3.2.1.3: "A host MUST silently discard an incoming datagram that is not destined for the host."
#[test]
fn datagrams_for_others_are_dropped_in_silence() {
    let mut peer = Peer::new();
    peer.listen();
    let segment = peer.segment(&syn().seq(0));
    let packet = ip_packet(
        ipv4::protocol::TCP,
        PEER,
        Ipv4Addr::new(10, 0, 0, 9),
        &segment,
    );
    peer.inject_packet(&packet);
    let link = ethernet::Header {
        destination: MacAddr([2, 0, 0, 0, 0, 9]),
        source: PEER_MAC,
        ethertype: EtherType::Ipv4,
    };
    let frame = [&link.to_bytes()[..], &peer.packet(&syn().seq(0))].concat();
    peer.inject_frame(frame);
    assert!(peer.next_frame().is_none());
    assert_eq!(peer.stack.counters().drops(Drop::NotForUs), 2);
}

/// RFC 1122, 3.2.2.6: "Every host MUST implement an ICMP Echo server function that receives Echo Requests and sends
/// corresponding Echo Replies."; "Data received in an ICMP Echo Request MUST be entirely included in the resulting Echo
/// Reply."; "the IP source address in an ICMP Echo Reply MUST be the same as the specific-destination address".
#[test]
fn echoes_are_answered_whole() {
    let mut peer = Peer::new();
    for len in [0, 1, 56, 1472] {
        let data = stream(1, len);
        let packet = icmp_packet(
            Message::EchoRequest {
                identifier: 7,
                sequence: len as u16,
            },
            &data,
        );
        peer.inject_packet(&packet);
        let (ip, payload) = peer.next_packet().unwrap();
        assert_eq!(
            (ip.source, ip.destination, ip.protocol),
            (STACK, PEER, ipv4::protocol::ICMP)
        );
        assert!(Kernel::HALFWORD.sum(&payload).is_valid());
        assert_eq!(
            Message::parse(&payload),
            Ok(Message::EchoReply {
                identifier: 7,
                sequence: len as u16
            })
        );
        assert!(payload[icmp::HEADER_LEN..] == data);
    }
    // A wrong checksum, or a broadcast, is not answered.
    let mut packet = icmp_packet(
        Message::EchoRequest {
            identifier: 7,
            sequence: 1,
        },
        &[1, 2, 3, 4],
    );
    packet[30] ^= 1;
    peer.inject_packet(&packet);
    let message = icmp_packet(
        Message::EchoRequest {
            identifier: 7,
            sequence: 1,
        },
        &[],
    );
    let packet = ip_packet(
        ipv4::protocol::ICMP,
        PEER,
        Ipv4Addr::new(10, 0, 0, 255),
        &message[20..],
    );
    peer.inject_packet(&packet);
    assert!(peer.next_frame().is_none());
}

/// RFC 1122, 3.2.2: "If an ICMP message of unknown type is received, it MUST be silently discarded."
#[test]
fn unknown_icmp_messages_are_dropped_in_silence() {
    let mut peer = Peer::new();
    for kind in [1, 2, 7, 13, 17, 41, 255] {
        let packet = icmp_packet(Message::Other(kind, 0), &[0; 40]);
        peer.inject_packet(&packet);
    }
    // Errors that quote nothing of use.
    for quoted in [&[][..], &[0x45; 10], &[0xff; 27], &[0; 28]] {
        let packet = icmp_packet(Message::DestinationUnreachable(Unreachable::Port), quoted);
        peer.inject_packet(&packet);
    }
    assert!(peer.next_frame().is_none());
}

/// RFC 1122, 3.2.2.1: "A host SHOULD generate Destination Unreachable messages with code: 2 (Protocol Unreachable), when the
/// designated transport protocol is not supported; or 3 (Port Unreachable)"; 3.2.2: "Every ICMP error message includes the
/// Internet header and at least the first 8 data octets of the datagram that triggered the error"; never about an ICMP error,
/// a broadcast, or a fragment that is not the first.
#[test]
fn unreachable_ports_and_protocols_are_told_to_hosts_only() {
    let mut peer = Peer::new();
    let datagram = udp_packet(99, b"hello, world", true);
    peer.inject_packet(&datagram);
    let (_, payload) = peer.next_packet().unwrap();
    assert_eq!(
        Message::parse(&payload),
        Ok(Message::DestinationUnreachable(Unreachable::Port))
    );
    assert_eq!(payload[icmp::HEADER_LEN..][..28], datagram[..28]);
    let packet = ip_packet(132, PEER, STACK, &[7; 20]);
    peer.inject_packet(&packet);
    let (_, payload) = peer.next_packet().unwrap();
    assert_eq!(
        Message::parse(&payload),
        Ok(Message::DestinationUnreachable(Unreachable::Protocol))
    );

    let broadcast = ip_packet(
        ipv4::protocol::UDP,
        PEER,
        Ipv4Addr::new(10, 0, 0, 255),
        &datagram_without_checksum(),
    );
    peer.inject_packet(&broadcast);
    assert!(peer.next_frame().is_none());
}

fn datagram_without_checksum() -> Vec<u8> {
    let header = udp::Header {
        source_port: 5000,
        destination_port: 99,
        len: 12,
        no_checksum: true,
    };
    [&header.to_bytes()[..], b"abcd"].concat()
}

/// RFC 768: "An all zero transmitted checksum value means that the transmitter generated no checksum"; RFC 1122, 4.1.3.4: "If
/// a UDP datagram is received with a checksum that is non-zero and invalid, UDP MUST silently discard the datagram."
#[test]
fn udp_checksums_are_verified_when_they_are_there() {
    let mut peer = Peer::new();
    let socket = peer.stack().udp_bind(1000).unwrap();
    let from = SocketAddrV4::new(PEER, 5000);
    peer.inject_packet(&udp_packet(1000, b"with", true));
    assert_eq!(
        peer.stack().udp_receive(socket),
        Ok((from.into(), b"with".to_vec()))
    );
    peer.inject_packet(&udp_packet(1000, b"without", false));
    assert_eq!(
        peer.stack().udp_receive(socket),
        Ok((from.into(), b"without".to_vec()))
    );
    let mut bad = udp_packet(1000, b"bad", true);
    bad[29] ^= 1;
    peer.inject_packet(&bad);
    assert_eq!(peer.stack().udp_receive(socket), Err(Error::WouldBlock));
    assert!(peer.next_frame().is_none());
}

/// RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
#[test]
fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
    let mut peer = Peer::new();
    let socket = peer.stack().udp_bind(1000).unwrap();
    let to = SocketAddrV4::new(PEER, 9);
    // The two bytes that make the sum come out as all ones, its complement as zero.
    let len = udp::HEADER_LEN as u16 + 2;
    let header = udp::Header {
        source_port: 1000,
        destination_port: 9,
        len,
        no_checksum: false,
    };
    let sum =
        ipv4::pseudo_header(STACK, PEER, ipv4::protocol::UDP, len) + sum_header(&header.to_bytes());
    let data = sum.finish().to_ne_bytes();
    peer.stack().udp_send(socket, to, &data).unwrap();
    let (_, payload) = peer.next_packet().unwrap();
    assert_eq!(payload[6..8], [0xff, 0xff]);
}

/// RFC 1122, 4.1.3.3: "UDP MUST pass to the application layer all ICMP error messages that it receives from the IP layer."
#[test]
fn an_icmp_error_reaches_the_udp_socket_that_it_is_about() {
    let mut peer = Peer::new();
    let first = peer.stack().udp_bind(1000).unwrap();
    let second = peer.stack().udp_bind(1001).unwrap();
    let to = SocketAddrV4::new(PEER, 9);
    peer.stack().udp_send(second, to, b"x").unwrap();
    let (ip, payload) = peer.next_packet().unwrap();
    let quoted = [&ip.to_bytes()[..], &payload[..8]].concat();
    let packet = icmp_packet(Message::DestinationUnreachable(Unreachable::Port), &quoted);
    peer.inject_packet(&packet);
    assert_eq!(peer.stack().udp_receive(first), Err(Error::WouldBlock));
    assert_eq!(peer.stack().udp_receive(second), Err(Error::Refused));
    assert_eq!(peer.stack().udp_receive(second), Err(Error::WouldBlock));
}

/// A host that the stack has not heard of.
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 33);
const STRANGER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 33]);

fn arp_frame(operation: Operation, target: Ipv4Addr) -> Vec<u8> {
    let link = ethernet::Header {
        destination: MacAddr::BROADCAST,
        source: STRANGER_MAC,
        ethertype: EtherType::Arp,
    };
    let packet = arp::Packet {
        operation,
        sender_mac: STRANGER_MAC,
        sender_ip: STRANGER,
        target_mac: STACK_MAC,
        target_ip: target,
    };
    [&link.to_bytes()[..], &packet.to_bytes()].concat()
}

fn next_arp(peer: &mut Peer) -> Option<(ethernet::Header, arp::Packet)> {
    let frame = peer.next_frame()?;
    let link = ethernet::Header::parse(&frame).unwrap();
    assert_eq!(link.ethertype, EtherType::Arp);
    Some((
        link,
        arp::Packet::parse(&frame[ethernet::HEADER_LEN..]).unwrap(),
    ))
}

/// RFC 826; RFC 1122, 2.3.2.2: "The link layer SHOULD save (rather than discard) at least one (the latest) packet of each set
/// of packets destined to the same unresolved IP address, and transmit the saved packet when the address has been resolved."
#[test]
fn packets_wait_for_the_link_address_of_their_neighbour() {
    let mut peer = Peer::new();
    let socket = peer.stack().udp_bind(1000).unwrap();
    for n in 0..6u8 {
        peer.stack()
            .udp_send(socket, SocketAddrV4::new(STRANGER, 9), &[n])
            .unwrap();
    }
    let (link, question) = next_arp(&mut peer).unwrap();
    assert_eq!(link.destination, MacAddr::BROADCAST);
    assert_eq!(
        (question.operation, question.target_ip),
        (Operation::Request, STRANGER)
    );
    assert_eq!(
        (question.sender_ip, question.sender_mac),
        (STACK, STACK_MAC)
    );
    assert!(peer.next_frame().is_none());
    peer.inject_frame(arp_frame(Operation::Reply, STACK));
    // All of them, in order.
    for n in 0..6 {
        let frame = peer.next_frame().unwrap();
        assert_eq!(frame[..6], STRANGER_MAC.0);
        assert_eq!(frame.last(), Some(&n));
    }
    assert!(peer.next_frame().is_none());
    peer.stack()
        .udp_send(socket, SocketAddrV4::new(STRANGER, 9), &[6])
        .unwrap();
    assert_eq!(peer.next_frame().unwrap()[..6], STRANGER_MAC.0);
}

/// RFC 1122, 2.3.2.1: "A mechanism to prevent ARP flooding (repeatedly sending an ARP Request for the same IP address, at a
/// high rate) MUST be included. The recommended maximum rate is 1 per second per destination."; 2.3.2.2 and 2.4: when nobody
/// answers, the host is unreachable.
#[test]
fn questions_are_asked_once_a_second_and_then_given_up() {
    let mut peer = Peer::new();
    let conn = peer
        .stack()
        .connect(SocketAddrV4::new(STRANGER, 80))
        .unwrap();
    for n in 0..3 {
        let waited = peer.wait(s(10));
        assert!(
            n == 0 || waited + TICK >= s(1),
            "question {n} after {waited:?}"
        );
        let (_, question) = next_arp(&mut peer).unwrap();
        assert_eq!(question.target_ip, STRANGER);
    }
    assert_eq!(peer.state(conn), State::SynSent);
    peer.advance(s(1) + SLACK);
    assert!(peer.next_frame().is_none());
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.stack().close(conn), Err(Error::Unreachable));
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// RFC 826, "Packet Reception": a request for our address is answered, one for another is not.
#[test]
fn requests_for_our_link_address_are_answered() {
    let mut peer = Peer::new();
    peer.inject_frame(arp_frame(Operation::Request, STACK));
    let (link, answer) = next_arp(&mut peer).unwrap();
    assert_eq!(link.destination, STRANGER_MAC);
    assert_eq!(
        (answer.operation, answer.target_ip, answer.target_mac),
        (Operation::Reply, STRANGER, STRANGER_MAC)
    );
    assert_eq!((answer.sender_ip, answer.sender_mac), (STACK, STACK_MAC));
    peer.inject_frame(arp_frame(Operation::Request, PEER));
    assert!(peer.next_frame().is_none());
}

/// RFC 1122, 3.3.1: when the destination is not on a connected network, the datagram "has to be routed to a gateway on a
/// connected network".
#[test]
fn other_networks_are_reached_by_the_gateway() {
    let mut peer = Peer::with(|config| config.gateway = Some(PEER));
    let socket = peer.stack().udp_bind(1000).unwrap();
    peer.stack()
        .udp_send(
            socket,
            SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9),
            b"x",
        )
        .unwrap();
    let frame = peer.next_frame().unwrap();
    assert_eq!(frame[..6], PEER_MAC.0);
    peer.stack()
        .connect(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80))
        .unwrap();
    let frame = peer.next_frame().unwrap();
    assert_eq!(frame[..6], PEER_MAC.0);
}

/// RFC 1122, 2.3.2.1: "An implementation of the Address Resolution Protocol (ARP) MUST provide a mechanism to flush
/// out-of-date cache entries.": the entry of a neighbour that connections use is confirmed before it ends. When nobody
/// confirms it, it goes from their header templates, too, and the next segment asks anew.
#[test]
fn a_link_address_that_is_out_of_date_is_not_used_by_connections() {
    let (mut peer, conn) = Peer::established();
    // For as long as the peer confirms it, the address stays.
    peer.advance(s(60 * 60));
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.inject(ack().seq(1).ack(11));
    peer.stop_answering_arp();
    let start = peer.now;
    for _ in 0..3 {
        let waited = peer.wait(s(20 * 60));
        assert!(waited <= s(19 * 60) + SLACK);
        let (_, question) = next_arp(&mut peer).expect("a question");
        assert_eq!(question.target_ip, PEER);
    }
    assert!(peer.now - start <= s(20 * 60));
    peer.advance(s(2));
    peer.send(conn, 11, 10);
    let (link, question) = next_arp(&mut peer).expect("a question");
    assert_eq!(link.destination, MacAddr::BROADCAST);
    assert_eq!(question.target_ip, PEER);
    assert!(peer.next_frame().is_none());
    // It is somewhere else now.
    let elsewhere = MacAddr([2, 0, 0, 0, 0, 0x22]);
    peer.inject_frame(arp_reply(elsewhere));
    assert_eq!(peer.next_frame().expect("the segment")[..6], elsewhere.0);
    peer.inject(ack().seq(1).ack(21));
    peer.send(conn, 21, 10);
    assert_eq!(peer.next_frame().expect("the next")[..6], elsewhere.0);
    peer.inject(ack().seq(1).ack(31));
}

/// A link address that made room in a full cache is not used by connections any more.
#[test]
fn a_link_address_that_made_room_is_not_used_by_connections() {
    let (mut peer, conn) = Peer::established_with(|config| config.max_neighbours = 1);
    peer.stop_answering_arp();
    let socket = peer.stack().udp_bind(1000).unwrap();
    let stranger = SocketAddrV4::new(STRANGER, 9);
    peer.stack().udp_send(socket, stranger, b"x").unwrap();
    assert_eq!(next_arp(&mut peer).unwrap().1.target_ip, STRANGER);
    peer.inject_frame(arp_frame(Operation::Reply, STACK));
    assert_eq!(peer.next_frame().unwrap()[..6], STRANGER_MAC.0);
    peer.send(conn, 1, 10);
    assert_eq!(next_arp(&mut peer).unwrap().1.target_ip, PEER);
    peer.inject_frame(arp_reply(PEER_MAC));
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.inject(ack().seq(1).ack(11));
}

/// RFC 1122, 3.3.4.2 and 3.2.2.6: a host may have several addresses; each is answered for by ARP, and "the IP source address in
/// an ICMP Echo Reply MUST be the same as the specific-destination address".
#[test]
fn every_address_of_the_host_answers() {
    let second = Ipv4Addr::new(10, 0, 0, 7);
    let echo = Message::EchoRequest {
        identifier: 1,
        sequence: 2,
    };
    let mut bytes = echo.to_bytes().to_vec();
    let sum = Kernel::HALFWORD.sum(&bytes).finish().to_ne_bytes();
    bytes[2..4].copy_from_slice(&sum);
    let request = ip_packet(ipv4::protocol::ICMP, PEER, second, &bytes);
    let mut peer = Peer::new();
    peer.inject_frame(arp_frame(Operation::Request, second));
    peer.inject_packet(&request);
    assert!(peer.next_frame().is_none());
    peer.stack.add_address(second, 24).unwrap();
    peer.inject_frame(arp_frame(Operation::Request, second));
    let (_, answer) = next_arp(&mut peer).unwrap();
    assert_eq!((answer.sender_ip, answer.sender_mac), (second, STACK_MAC));
    peer.inject_packet(&request);
    assert_eq!(peer.next_packet().unwrap().0.source, second);
}

/// A probe for an address is answered to the link address that has sent it, if that is a single host's.
#[test]
fn probe_from_a_group_is_not_answered() {
    for (mac, answers) in [(PEER_MAC, 1), (MacAddr::BROADCAST, 0)] {
        let mut peer = Peer::new();
        let link = ethernet::Header {
            destination: MacAddr::BROADCAST,
            source: PEER_MAC,
            ethertype: EtherType::Arp,
        };
        let probe = arp::Packet {
            operation: Operation::Request,
            sender_mac: mac,
            sender_ip: Ipv4Addr::UNSPECIFIED,
            target_mac: MacAddr::default(),
            target_ip: STACK,
        };
        peer.inject_frame([&link.to_bytes()[..], &probe.to_bytes()].concat());
        let count = std::iter::from_fn(|| peer.next_frame()).count();
        assert_eq!(count, answers);
    }
}
