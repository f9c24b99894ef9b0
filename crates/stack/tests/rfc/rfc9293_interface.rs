//! RFC 9293, 3.9: the interfaces to the user, to IP, and to ICMP.

use crate::node::{self, Node};
use crate::peer::*;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use tollgate_checksum::Kernel;
use tollgate_stack::{ConnId, Error, Open, SocketOption, SoftError, State};
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::tcp::{Flags, Header};
use tollgate_wire::{ethernet, ipv4};

/// 3.9.1.1, MUST-41: "Every passive OPEN call either creates a new connection record in LISTEN state, or it returns an
/// error; it MUST NOT affect any previously created connection record"
#[test]
fn a_passive_open_leaves_connections_alone() {
    let (mut peer, conn) = Peer::established();
    assert_eq!(peer.stack().listen(PORT, 1), Err(Error::InUse));
    assert!(peer.stack().listen(PORT + 1, 1).is_ok());
    assert_eq!(peer.stack().listen(0, 1), Err(Error::BadAddress));
    assert_eq!(peer.state(conn), State::Established);
    peer.inject(ack().seq(1).ack(1).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
}

/// 3.9.1.1, MUST-42: "MUST provide an OPEN call that will functionally allow an application to LISTEN on a port while a
/// connection block with the same local port is in SYN-SENT or SYN-RECEIVED state"
#[test]
fn a_port_can_be_listened_on_while_connections_with_it_are_being_opened() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn());
    let port = peer.local;
    let listener = peer.stack().listen(port, 4).unwrap();
    // Another peer's SYN to that port, which leaves a connection in SYN-RECEIVED.
    peer.port = 50_000;
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack.connections(), 2);
    peer.stack().close_listener(listener).unwrap();
    peer.expect(rst_ack().seq(1).ack(1));
    let listener = peer.stack().listen(port, 4).unwrap();
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    let port_of_another = 50_001;
    assert!(peer.stack().listen(port_of_another, 1).is_ok());
    peer.inject(ack().seq(1).ack(1));
    assert!(peer.stack().accept(listener).is_ok());
    assert_eq!(peer.state(conn), State::SynSent);
}

/// 3.9.1.1, MUST-44: "the TCP implementation MUST ask the IP layer to select a local IP address before sending the (first)
/// SYN"; MUST-45: "MUST use the same local address that was used in those previous segments". A stack has one address. The
/// scripted peer checks it in every segment; here those of a whole connection go by.
#[test]
fn the_local_address_is_the_stacks_from_the_first_segment_to_the_last() {
    let (mut peer, conn) = Peer::connected();
    assert_eq!(peer.stack().info(conn).unwrap().local.ip(), STACK);
    peer.send(conn, 1, 10);
    assert_eq!(peer.expect(ack().seq(1).ack(1).len(10)).ip.source, STACK);
    peer.stack().close(conn).unwrap();
    assert_eq!(peer.expect(fin().seq(11).ack(1)).ip.source, STACK);
}

/// 3.9.1.1, MUST-46: "A TCP implementation MUST reject as an error a local OPEN call for an invalid remote IP address (e.g.,
/// a broadcast or multicast address)"
#[test]
fn opening_to_an_invalid_address_is_an_error() {
    let mut peer = Peer::new();
    for address in [
        [255, 255, 255, 255],
        [224, 0, 0, 1],
        [239, 255, 255, 250],
        [10, 0, 0, 255],
        [0, 0, 0, 0],
        // RFC 1122, 3.2.1.3: such a packet "MUST NOT appear outside a host".
        [127, 0, 0, 1],
        // Our own, which no packet comes from.
        STACK.octets(),
    ] {
        let to = SocketAddrV4::new(address.into(), 80);
        assert_eq!(peer.stack().connect(to), Err(Error::BadAddress), "{to}");
    }
    assert_eq!(
        peer.stack().connect(SocketAddrV4::new(PEER, 0)),
        Err(Error::BadAddress)
    );
    assert_eq!(peer.stack.connections(), 0);
    peer.expect_nothing();
}

#[test]
fn opening_to_ourselves_over_ipv6_is_an_error() {
    let mut node = Node::new();
    let now = node.now;
    let mut active = node.stack.at(now, &mut node.pool);
    for to in [node::STACK, Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED] {
        assert_eq!(active.connect((to, 80)), Err(Error::BadAddress), "{to}");
    }
    assert!(active.connect((node::PEER, 80)).is_ok());
}

/// 3.9.2, MUST-50: "When received options are passed up to TCP from the IP layer, a TCP implementation MUST ignore options
/// that it does not understand"
#[test]
fn ip_options_are_ignored() {
    let (mut peer, conn) = Peer::established();
    // Record route, timestamp, router alert, end.
    for options in [
        vec![7, 7, 4, 0, 0, 0, 0, 0],
        vec![68, 8, 5, 0, 0, 0, 0, 0],
        vec![148, 4, 0, 0],
    ] {
        let at = 1 + peer.stack().info(conn).unwrap().bytes_received as u32;
        let packet = peer.packet(&ack().seq(at).ack(1).len(10));
        let mut packet = [&packet[..20], &options, &packet[20..]].concat();
        packet[0] = 0x45 + (options.len() / 4) as u8;
        let len = packet.len() as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        fill_ip_checksum(&mut packet);
        peer.inject_packet(&packet);
    }
    assert_eq!(peer.read(conn, 100), stream(1, 30));
    peer.ignore();
}

/// The first data segment of a connection, unacknowledged.
fn in_flight() -> (Peer, ConnId, Sent) {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 1000);
    let sent = peer.expect(ack().seq(1).ack(1).len(1000));
    (peer, conn, sent)
}

/// 3.9.2.2, MUST-56: "Since these Unreachable messages indicate soft error conditions, a TCP implementation MUST NOT abort
/// the connection": Destination Unreachable codes 0, 1, 5; Time Exceeded 0, 1; Parameter Problem.
#[test]
fn soft_icmp_errors_do_not_abort() {
    for message in [
        Message::DestinationUnreachable(Unreachable::Network),
        Message::DestinationUnreachable(Unreachable::Host),
        Message::DestinationUnreachable(Unreachable::Other(5)),
        Message::TimeExceeded(0),
        Message::TimeExceeded(1),
        Message::ParameterProblem(0),
    ] {
        let (mut peer, conn, sent) = in_flight();
        peer.inject_icmp(message, &sent);
        assert_eq!(peer.state(conn), State::Established, "{message:?}");
        peer.inject(ack().seq(1).ack(1001));
        assert_eq!(peer.stack().info(conn).unwrap().in_flight, 0);
        // Neither while the connection is being opened.
        let mut peer = Peer::new();
        let conn = peer.connect();
        let sent = peer.expect(syn());
        peer.inject_icmp(message, &sent);
        assert_eq!(peer.state(conn), State::SynSent, "{message:?}");
        peer.expect_after(s(1), syn());
    }
}

/// 3.9.2.2, MUST-54: "TCP implementations MUST act on an ICMP error message passed up from the IP layer, directing it to
/// the connection that created the error"; SHLD-26: hard errors abort; 3.8.3: "An attempt to open a TCP connection could
/// fail with [...] an ICMP Port Unreachable."
#[test]
fn a_hard_icmp_error_ends_the_attempt_that_it_is_about() {
    for reason in [Unreachable::Protocol, Unreachable::Port] {
        let mut peer = Peer::new();
        let first = peer.connect();
        peer.expect(syn());
        let second = peer.connect();
        let about = peer.expect(syn());
        peer.inject_icmp(Message::DestinationUnreachable(reason), &about);
        assert_eq!(
            (peer.state(first), peer.state(second)),
            (State::SynSent, State::Closed)
        );
        assert_eq!(peer.stack().close(second), Err(Error::Refused));
    }
}

/// RFC 5927, 4.1 and RFC 5461, 4: in synchronized states hard errors are treated as soft; SHLD-26 is not followed there,
/// since anybody who guesses the ports could abort the connection.
#[test]
fn a_hard_icmp_error_does_not_end_an_established_connection() {
    for reason in [Unreachable::Protocol, Unreachable::Port] {
        let (mut peer, conn, sent) = in_flight();
        peer.inject_icmp(Message::DestinationUnreachable(reason), &sent);
        assert_eq!(peer.state(conn), State::Established);
        peer.inject(ack().seq(1).ack(1001));
    }
}

/// RFC 5927, 4.1: an error about something that is not in flight is made up.
#[test]
fn an_icmp_error_about_a_number_that_is_not_in_flight_is_ignored() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    let mut about = peer.expect(syn());
    about.header.seq += 1;
    peer.inject_icmp(Message::DestinationUnreachable(Unreachable::Port), &about);
    assert_eq!(peer.state(conn), State::SynSent);
}

/// 3.9.2.2, MUST-55: "TCP implementations MUST silently discard any received ICMP Source Quench messages"
#[test]
fn source_quench_is_discarded() {
    let (mut peer, conn, sent) = in_flight();
    let before = peer.stack().info(conn).unwrap();
    peer.inject_icmp(Message::Other(4, 0), &sent);
    peer.expect_nothing();
    assert_eq!(peer.stack().info(conn).unwrap(), before);
}

/// MTU4-1; 3.7.2 and RFC 1191, 3: "Fragmentation needed and DF set" makes segments smaller, and the one that was lost is sent again
/// in pieces.
#[test]
fn a_smaller_path_mtu_makes_smaller_segments() {
    let mut peer = Peer::new();
    let conn = peer.accepted(syn().seq(0).mss(1460));
    peer.send(conn, 1, 2920);
    let first = peer.expect(ack().seq(1).ack(1).len(1460));
    peer.expect(ack().seq(1461).ack(1).len(1460));
    let needed = |next_hop_mtu| {
        Message::DestinationUnreachable(Unreachable::FragmentationNeeded { next_hop_mtu })
    };
    peer.inject_icmp(needed(1040), &first);
    assert_eq!(peer.stack().info(conn).unwrap().mss, 1000);
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect_nothing();
    // A larger one is not believed, and one below what every link carries counts as what every host takes (RFC 1191, 3).
    peer.inject_icmp(needed(1400), &first);
    assert_eq!(peer.stack().info(conn).unwrap().mss, 1000);
    peer.ignore();
    peer.inject_icmp(needed(67), &first);
    assert_eq!(peer.stack().info(conn).unwrap().mss, 536);
    peer.ignore();
    peer.advance(s(5));
    for sent in peer.drain() {
        assert!(sent.data.len() <= 536, "{} bytes", sent.data.len());
    }
    // Everything arrives once it is acknowledged piece by piece.
    peer.inject(ack().seq(1).ack(2921));
    assert_eq!(peer.stack().info(conn).unwrap().in_flight, 0);
}

/// 3.9.2.3, MUST-57: "A TCP implementation MUST silently discard an incoming SYN segment that is addressed to a broadcast or
/// multicast address."
#[test]
fn a_syn_to_a_broadcast_or_multicast_address_is_discarded() {
    let mut peer = Peer::new();
    peer.listen();
    for destination in [[255, 255, 255, 255], [10, 0, 0, 255], [224, 0, 0, 1]] {
        for to_port in [PORT, 99] {
            peer.local = to_port;
            let mut segment = peer.segment(&syn().seq(0));
            fill_checksum(&mut segment, PEER, destination.into());
            let packet = ip_packet(ipv4::protocol::TCP, PEER, destination.into(), &segment);
            peer.inject_packet(&packet);
            peer.expect_nothing();
        }
    }
    // Nor one that came by a link broadcast, whatever its IP address.
    peer.local = PORT;
    let link = ethernet::Header {
        destination: MacAddr::BROADCAST,
        source: PEER_MAC,
        ethertype: ethernet::EtherType::Ipv4,
    };
    let frame = [&link.to_bytes()[..], &peer.packet(&syn().seq(0))].concat();
    peer.inject_frame(frame);
    peer.expect_nothing();
    assert_eq!(peer.stack.connections(), 0);
}

/// 3.9.2.3, MUST-63: "An incoming SYN with an invalid source address MUST be ignored either by TCP or by the IP layer (see
/// Section 3.2.1.3)."
#[test]
fn a_syn_from_an_invalid_address_is_ignored() {
    let mut peer = Peer::new();
    peer.listen();
    for source in [
        [255, 255, 255, 255],
        [10, 0, 0, 255],
        [224, 0, 0, 1],
        [127, 0, 0, 1],
        [0, 0, 0, 0],
        STACK.octets(),
    ] {
        let source = Ipv4Addr::from(source);
        let mut segment = peer.segment(&syn().seq(0));
        fill_checksum(&mut segment, source, STACK);
        let packet = ip_packet(ipv4::protocol::TCP, source, STACK, &segment);
        peer.inject_packet(&packet);
        assert!(
            peer.next_frame().is_none(),
            "a SYN from {source} was answered"
        );
    }
    assert_eq!(peer.stack.connections(), 0);
}

/// 3.9.1.5: STATUS returns the sockets, windows, state and timeout.
#[test]
fn the_status_of_a_connection_can_be_asked() {
    let (mut peer, conn, _) = in_flight();
    let info = peer.stack().info(conn).unwrap();
    assert_eq!(info.local, SocketAddr::from((STACK, PORT)));
    assert_eq!(info.remote, SocketAddr::from((PEER, 40_000)));
    assert_eq!(
        (info.state, info.in_flight, info.unsent),
        (State::Established, 1000, 0)
    );
    assert_eq!((info.send_window, info.receive_window), (65_535, 65_535));
    peer.inject(ack().seq(1).ack(1001));
    assert_eq!(peer.stack().info(conn).unwrap().bytes_acknowledged, 1000);
}

/// 3.9.2, MUST-49: "The TTL value used to send TCP
/// segments MUST be configurable."
#[test]
fn the_ttl_is_configured_and_in_every_segment() {
    let (mut peer, conn) = Peer::established_with(|config| config.ttl = 3);
    peer.send(conn, 1, 10);
    assert_eq!(peer.expect(ack().seq(1).ack(1).len(10)).ip.ttl, 3);
    peer.stack().abort(conn).unwrap();
    assert_eq!(peer.expect(rst_ack().seq(11).ack(1)).ip.ttl, 3);
    let mut peer = Peer::with(|config| config.ttl = 9);
    peer.connect();
    assert_eq!(peer.expect(syn()).ip.ttl, 9);
}

/// Tells whether the application has been told of a soft error since it was last asked.
fn told_of_trouble(peer: &mut Peer, conn: ConnId) -> bool {
    std::iter::from_fn(|| peer.next_ready()).any(|(told, ready)| told == conn && ready.soft_error())
}

/// 3.9.1.8, MUST-47: "There MUST be a mechanism for reporting soft TCP error conditions to the application."; "the conditions
/// that are reported asynchronously to the application MUST include: ICMP error message arrived"; 3.9.2.2, SHLD-25: "it
/// SHOULD make the information available to the application".
#[test]
fn soft_icmp_errors_are_reported() {
    for (message, error) in [
        (
            Message::DestinationUnreachable(Unreachable::Network),
            SoftError::Unreachable(Unreachable::Network),
        ),
        (
            Message::DestinationUnreachable(Unreachable::Port),
            SoftError::Unreachable(Unreachable::Port),
        ),
        (
            Message::DestinationUnreachable(Unreachable::Other(5)),
            SoftError::Unreachable(Unreachable::Other(5)),
        ),
        (Message::TimeExceeded(0), SoftError::TimeExceeded(0)),
        (Message::ParameterProblem(0), SoftError::ParameterProblem(0)),
    ] {
        let (mut peer, conn, sent) = in_flight();
        assert_eq!(peer.stack().soft_error(conn), Ok(None));
        peer.inject_icmp(message, &sent);
        assert!(told_of_trouble(&mut peer, conn), "{message:?}");
        assert_eq!(peer.stack().soft_error(conn), Ok(Some(error)));
        assert_eq!(peer.stack().soft_error(conn), Ok(None));
        assert_eq!(peer.state(conn), State::Established);
    }
    // A smaller path MTU is acted on, Source Quench is discarded: neither is reported.
    let (mut peer, conn, sent) = in_flight();
    peer.inject_icmp(Message::Other(4, 0), &sent);
    peer.inject_icmp(
        Message::DestinationUnreachable(Unreachable::FragmentationNeeded { next_hop_mtu: 1400 }),
        &sent,
    );
    peer.ignore();
    assert!(!told_of_trouble(&mut peer, conn));
    assert_eq!(peer.stack().soft_error(conn), Ok(None));
}

/// 3.9.1.8, MUST-47: "Excessive retransmissions"; 3.8.3, MUST-20 (b): "When the number of transmissions of the same segment
/// reaches or exceeds threshold R1, pass negative advice (see Section 3.3.1.4 of [19]) to the IP layer"; SHLD-9: "SHOULD
/// inform the application of the delivery problem [...] when R1 is reached and before R2"; SHLD-10: "The value of R1 SHOULD
/// correspond to at least 3 retransmissions". IP has one next hop for each destination, and asks whether it is still there.
#[test]
fn excessive_retransmission_is_reported_and_the_next_hop_is_asked_for() {
    let (mut peer, conn, _) = in_flight();
    peer.stop_answering_arp();
    for times in 1..=2 {
        peer.wait(s(60));
        peer.expect(ack().seq(1).ack(1).len(1000));
        assert!(!told_of_trouble(&mut peer, conn), "after {times}");
    }
    peer.wait(s(60));
    // The path may drop what is longer than 1,024 bytes (RFC 4821, 7.7).
    peer.expect(ack().seq(1).ack(1).len(984));
    assert!(told_of_trouble(&mut peer, conn));
    assert_eq!(
        peer.stack().soft_error(conn),
        Ok(Some(SoftError::Retransmissions))
    );
    peer.wait(s(1));
    let question = peer.next_frame().expect("a question");
    assert_eq!(question[12..14], [0x08, 0x06]);
    assert_eq!(question[38..42], PEER.octets());
    // It has moved: what is sent again goes to where it is.
    let elsewhere = MacAddr([2, 0, 0, 0, 0, 0x22]);
    peer.inject_frame(arp_reply(elsewhere));
    peer.wait(s(60));
    assert_eq!(peer.next_frame().expect("a segment")[..6], elsewhere.0);
    // Told once, until there is progress.
    assert!(!told_of_trouble(&mut peer, conn));
    peer.inject(ack().seq(1).ack(1001));
    peer.ignore();
    // An attempt to open a connection is not different (MUST-22).
    let mut peer = Peer::new();
    let conn = peer.connect();
    for _ in 0..4 {
        assert_eq!(peer.stack().soft_error(conn), Ok(None));
        peer.wait(s(60));
        peer.expect(syn());
    }
    assert!(told_of_trouble(&mut peer, conn));
}

/// 3.9.1.8, SHLD-20: "an application program that does not want to receive such ERROR_REPORT calls SHOULD be able to
/// effectively disable these calls"
#[test]
fn reports_can_be_disabled() {
    let (mut peer, conn, sent) = in_flight();
    peer.stack()
        .set_option(conn, SocketOption::Reports(false))
        .unwrap();
    peer.inject_icmp(Message::TimeExceeded(0), &sent);
    assert!(!told_of_trouble(&mut peer, conn));
    peer.stack()
        .set_option(conn, SocketOption::Reports(true))
        .unwrap();
    peer.inject_icmp(Message::TimeExceeded(0), &sent);
    assert!(told_of_trouble(&mut peer, conn));
}

/// 3.9.1.9, MUST-48: "The application layer MUST be able to specify the Differentiated Services field for segments that are
/// sent on a connection"; SHLD-21: "SHOULD be able to change the Differentiated Services field during the connection
/// lifetime"; SHLD-22: "SHOULD pass the current Differentiated Services field value without change to the IP layer".
#[test]
fn the_diffserv_field_can_be_specified_and_changed() {
    let (mut peer, conn) = Peer::established();
    let set = |peer: &mut Peer, codepoint| {
        peer.stack()
            .set_option(conn, SocketOption::Diffserv(codepoint))
    };
    peer.send(conn, 1, 10);
    assert_eq!(peer.expect(ack().seq(1).ack(1).len(10)).ip.tos, 0);
    peer.inject(ack().seq(1).ack(11));
    assert_eq!(set(&mut peer, 64), Err(Error::BadOption));
    assert_eq!(set(&mut peer, 46), Ok(()));
    assert_eq!(peer.stack().info(conn).unwrap().diffserv, 46);
    peer.send(conn, 11, 10);
    assert_eq!(peer.expect(ack().seq(11).ack(1).len(10)).ip.tos, 46 << 2);
    // Acknowledgments and what is sent again are no different; "the receiver application will specify the Differentiated
    // Services field used for ACK segments".
    peer.wait(s(3));
    assert_eq!(peer.expect(ack().seq(11).ack(1).len(10)).ip.tos, 46 << 2);
    peer.inject(ack().seq(1).ack(21).len(10));
    peer.inject(ack().seq(11).ack(21).len(10));
    assert_eq!(peer.expect(ack().seq(21).ack(21)).ip.tos, 46 << 2);
    assert_eq!(set(&mut peer, 10), Ok(()));
    peer.send(conn, 21, 10);
    assert_eq!(peer.expect(ack().seq(21).ack(21).len(10)).ip.tos, 10 << 2);
    assert_eq!(set(&mut peer, 0), Ok(()));
    peer.inject(ack().seq(21).ack(31));
    peer.send(conn, 31, 10);
    assert_eq!(peer.expect(ack().seq(31).ack(21).len(10)).ip.tos, 0);
    assert_eq!(set(&mut peer, 63), Ok(()));
    peer.stack().abort(conn).unwrap();
    assert_eq!(peer.expect(rst_ack().seq(41).ack(21)).ip.tos, 63 << 2);
}

/// The stack's second address.
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);

/// A SYN or what follows it, from the peer to `to`; the numbers are the peer's own.
fn packet_to(peer: &Peer, to: Ipv4Addr, seg: &Seg) -> Vec<u8> {
    let mut segment = peer.segment(seg);
    fill_checksum(&mut segment, PEER, to);
    ip_packet(ipv4::protocol::TCP, PEER, to, &segment)
}

/// The source of the next packet that is sent, and its TCP header, its checksum right for these addresses.
#[track_caller]
fn next_from(peer: &mut Peer) -> (Ipv4Addr, Header) {
    let (ip, bytes) = peer.next_packet().expect("a packet");
    let pseudo = ipv4::pseudo_header(ip.source, PEER, ipv4::protocol::TCP, bytes.len() as u16);
    assert!((pseudo + Kernel::HALFWORD.sum(&bytes)).is_valid());
    (ip.source, Header::parse(&bytes).expect("a segment"))
}

/// 3.9.1.1, MUST-43: "The optional 'local IP address' parameter MUST be supported to allow the specification of the local IP
/// address."; "For an active OPEN call, a specified 'local IP address' parameter will be used for opening the connection."
/// MUST-45: "MUST use the same local address that was used in those previous segments".
#[test]
fn an_active_open_can_name_its_local_address() {
    let mut peer = Peer::new();
    peer.stack.add_address(SECOND, 24).unwrap();
    assert_eq!(peer.stack.add_address(SECOND, 24), Err(Error::InUse));
    for no_host in [
        [0, 0, 0, 0],
        [224, 0, 0, 1],
        [10, 0, 0, 255],
        [127, 0, 0, 1],
    ] {
        assert_eq!(
            peer.stack.add_address(no_host.into(), 24),
            Err(Error::BadAddress)
        );
    }
    let from = |local: Ipv4Addr| Open {
        local: Some(local.into()),
        ..Open::default()
    };
    let to = SocketAddrV4::new(PEER, 80);
    assert_eq!(
        peer.stack().connect_with(to, &from(PEER)),
        Err(Error::BadAddress)
    );
    let conn = peer.stack().connect_with(to, &from(SECOND)).unwrap();
    let local = peer.stack().info(conn).unwrap().local;
    assert_eq!(local.ip(), SECOND);
    let (source, first) = next_from(&mut peer);
    assert_eq!((source, first.source_port), (SECOND, local.port()));
    (peer.port, peer.local, peer.iss) = (80, local.port(), first.seq.0);
    let answer = packet_to(&peer, SECOND, &syn_ack().seq(0).ack(1).mss(MSS));
    peer.inject_packet(&answer);
    assert_eq!(peer.state(conn), State::Established);
    assert_eq!(next_from(&mut peer).0, SECOND);
    peer.send(conn, 1, 10);
    assert_eq!(next_from(&mut peer).0, SECOND);
    peer.stack().abort(conn).unwrap();
    assert_eq!(next_from(&mut peer).0, SECOND);
    // Unspecified, it is the first.
    let conn = peer.connect();
    peer.expect(syn());
    assert_eq!(peer.stack().info(conn).unwrap().local.ip(), STACK);
}

/// 3.9.1.1, MUST-43: "A passive OPEN call with a specified 'local IP address' parameter will await an incoming connection
/// request to that address. If the parameter is unspecified, a passive OPEN will await an incoming connection request to any
/// local IP address and then bind the local IP address of the connection to the particular address that is used."
#[test]
fn a_passive_open_can_name_its_local_address() {
    let mut peer = Peer::new();
    peer.stack.add_address(SECOND, 24).unwrap();
    let at = |local: Ipv4Addr| Open {
        local: Some(local.into()),
        ..Open::default()
    };
    assert_eq!(
        peer.stack().listen_with(PORT, 4, &at(PEER)),
        Err(Error::BadAddress)
    );
    let listener = peer.stack().listen_with(PORT, 4, &at(SECOND)).unwrap();
    // To the other address nobody listens.
    peer.inject(syn().seq(0));
    peer.expect(rst_ack().seq(0u32.wrapping_sub(peer.iss)).ack(1));
    let request = packet_to(&peer, SECOND, &syn().seq(0));
    peer.inject_packet(&request);
    let (source, answer) = next_from(&mut peer);
    assert_eq!(source, SECOND);
    assert!(answer.flags.has(Flags::SYN | Flags::ACK));
    peer.iss = answer.seq.0;
    let last = packet_to(&peer, SECOND, &ack().seq(1).ack(1));
    peer.inject_packet(&last);
    let conn = peer.stack().accept(listener).unwrap();
    assert_eq!(peer.stack().info(conn).unwrap().local.ip(), SECOND);
    // Another may listen at the other address, but not at any.
    assert_eq!(peer.stack().listen(PORT, 4), Err(Error::InUse));
    assert_eq!(
        peer.stack().listen_with(PORT, 4, &at(SECOND)),
        Err(Error::InUse)
    );
    let first = peer.stack().listen_with(PORT, 4, &at(STACK)).unwrap();
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.stack().close_listener(first).unwrap();
    peer.expect(rst_ack().seq(1).ack(1));
    peer.stack().close_listener(listener).unwrap();
    // Unspecified, it is the one that is used.
    let any = peer.stack().listen(PORT, 4).unwrap();
    peer.port += 1;
    let request = packet_to(&peer, SECOND, &syn().seq(0));
    peer.inject_packet(&request);
    let (source, answer) = next_from(&mut peer);
    assert_eq!(source, SECOND);
    peer.iss = answer.seq.0;
    let last = packet_to(&peer, SECOND, &ack().seq(1).ack(1));
    peer.inject_packet(&last);
    let conn = peer.stack().accept(any).unwrap();
    assert_eq!(peer.stack().info(conn).unwrap().local.ip(), SECOND);
}

/// 3.9.1.9, MUST-48, from the first segment on: "OPEN ([...] [, Diffserv field])" (3.9.1.1).
#[test]
fn a_connection_can_be_opened_with_a_diffserv_field() {
    let open = Open {
        diffserv: 46,
        ..Open::default()
    };
    let too_large = Open {
        diffserv: 64,
        ..Open::default()
    };
    let mut peer = Peer::new();
    let to = SocketAddrV4::new(PEER, 80);
    assert_eq!(
        peer.stack().connect_with(to, &too_large),
        Err(Error::BadOption)
    );
    peer.stack().connect_with(to, &open).unwrap();
    assert_eq!(peer.next_packet().unwrap().0.tos, 46 << 2);
    let mut peer = Peer::new();
    assert_eq!(
        peer.stack().listen_with(PORT, 4, &too_large),
        Err(Error::BadOption)
    );
    let listener = peer.stack().listen_with(PORT, 4, &open).unwrap();
    peer.inject(syn().seq(0));
    assert_eq!(peer.expect(syn_ack().seq(0).ack(1)).ip.tos, 46 << 2);
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).unwrap();
    peer.send(conn, 1, 10);
    assert_eq!(peer.expect(ack().seq(1).ack(1).len(10)).ip.tos, 46 << 2);
}

/// 3.10.7.1, 3.10.7.2: a connection that was reset is over, also while its user still waits to read from it: a SYN from
/// the same port is for the listener.
#[test]
fn a_reader_of_a_connection_that_was_reset_does_not_hold_its_port() {
    let (mut peer, conn) = Peer::established();
    peer.inject(rst().seq(1));
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.poll_receive(conn, &mut [0; 8]), Err(Error::Reset));
    peer.isn = peer.isn.wrapping_add(1 << 20);
    peer.inject(syn().mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.expect_nothing();
}

/// 3.7.2 and RFC 1191, 3: "A host MUST never reduce its estimate of the Path MTU below 68 octets", which is what every link
/// carries (RFC 791): what is sent over a path of less than 576 either fits it or may be fragmented.
#[test]
fn path_mtu_below_576_is_passed() {
    const LEN: usize = 2920;
    for mtu in [68, 296, 575] {
        let mut peer = Peer::new();
        let conn = peer.accepted(syn().mss(1460));
        peer.send(conn, 1, LEN);
        let begin = peer.iss.wrapping_add(1);
        let mut arrived = 0;
        let end = peer.now + s(60);
        while arrived < LEN && peer.now < end {
            peer.wait(s(1));
            while let Some((ip, segment)) = peer.next_packet() {
                let header = Header::parse(&segment).unwrap();
                let fits = ip.total_len <= mtu || ip.flags_and_offset & ipv4::DONT_FRAGMENT == 0;
                if !fits {
                    let needed = Unreachable::FragmentationNeeded { next_hop_mtu: mtu };
                    let quoted = [&ip.to_bytes()[..], &segment[..8]].concat();
                    let packet = icmp_packet(Message::DestinationUnreachable(needed), &quoted);
                    peer.inject_packet(&packet);
                    continue;
                }
                let len = segment.len() - usize::from(header.header_len);
                let from = header.seq.0.wrapping_sub(begin) as usize;
                if from <= arrived && from + len > arrived {
                    arrived = from + len;
                }
                peer.inject(ack().seq(1).ack(1 + arrived as u32));
            }
        }
        assert_eq!(arrived, LEN, "bytes over a path of {mtu}");
    }
}

/// MTU4-5; 3.7.2 and RFC 1191, 6.4: a retransmission caused by a Datagram Too Big message should "trigger the slow-start mechanism
/// (i.e., only one segment should be retransmitted until acknowledgements begin to arrive again)". The router dropped the
/// whole flight, so all of it is sent again, and no timeout is waited for.
#[test]
fn flight_is_sent_again_when_the_path_mtu_shrinks() {
    const LEN: u32 = 14_600;
    let mut peer = Peer::new();
    let conn = peer.accepted(syn().mss(1460));
    peer.send(conn, 1, LEN as usize);
    let flight = peer.drain();
    assert_eq!(flight.len(), 10);
    for dropped in flight {
        let needed = Unreachable::FragmentationNeeded { next_hop_mtu: 1040 };
        peer.inject_icmp(Message::DestinationUnreachable(needed), &dropped);
    }
    // Slow start begins with one segment.
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect_nothing();
    let mut arrived = 1001;
    peer.inject(ack().seq(1).ack(arrived));
    while let Some(sent) = peer.next() {
        assert!(sent.data.len() <= 1000, "{} bytes", sent.data.len());
        assert_eq!(sent.seq, arrived, "a hole is left");
        arrived += sent.data.len() as u32;
        peer.inject(ack().seq(1).ack(arrived));
    }
    assert_eq!(arrived, 1 + LEN, "no more is sent without a timeout");
    let info = peer.stack().info(conn).unwrap();
    assert_eq!((info.in_flight, info.timeouts), (0, 0));
}
