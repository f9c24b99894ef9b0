//! RFC 9293, 3.9.2.1: source routing, as RFC 791, 3.1 and RFC 1122, 3.2.1.8 have it.

use crate::peer::*;
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_checksum::Kernel;
use tollgate_stack::counters::Drop;
use tollgate_stack::{Config, Error, Open, State};
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::tcp::{Flags, Header};
use tollgate_wire::{ethernet, ipv4};

/// Hosts on the way, and their link addresses.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 20);
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 30);

/// The option of a packet that sets out for the peer by way of `NEAR` and `FAR`, addressed to `NEAR`.
const ROUTE: [u8; 12] = [1, 131, 11, 4, 192, 0, 2, 1, 10, 0, 0, 2];
/// The option of a packet that came from the peer by way of `FAR` and `NEAR`.
const ROUTED: [u8; 12] = [1, 131, 11, 12, 192, 0, 2, 1, 10, 0, 0, 20];
/// The option of a packet that came from the peer by way of `OTHER`.
const ROUTED_OTHERWISE: [u8; 8] = [1, 131, 7, 8, 10, 0, 0, 30];

fn takes_routes(config: &mut Config) {
    config.source_routes = true;
}

/// The link completes checksums, but for those of segments with options.
fn leaves_checksums(config: &mut Config) {
    config.completes_checksums = true;
}

fn peer_with(change: impl FnOnce(&mut Config)) -> Peer {
    let mut peer = Peer::with(change);
    for hop in [NEAR, OTHER] {
        peer.stack().add_neighbour(hop, PEER_MAC);
    }
    peer
}

/// Gives the stack a segment with IP options.
fn inject_with(peer: &mut Peer, options: &[u8], seg: &Seg) {
    let packet = peer.packet(seg);
    let mut packet = [&packet[..20], options, &packet[20..]].concat();
    packet[0] = 0x45 + (options.len() / 4) as u8;
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    fill_ip_checksum(&mut packet);
    peer.inject_packet(&packet);
}

/// A segment that was sent: to which address, with which IP options, and what it says. "the source and destination addresses
/// used in the TCP checksum be the originating source and ultimate destination"
#[track_caller]
fn next_by(peer: &mut Peer) -> (Ipv4Addr, Vec<u8>, Header, Vec<u8>) {
    let frame = peer.next_frame().expect("a segment");
    assert_eq!(frame[..6], PEER_MAC.0);
    let packet = &frame[ethernet::HEADER_LEN..];
    assert!(ipv4::Header::checksum_is_valid(packet));
    let ip = ipv4::Header::parse(packet).unwrap();
    let (head, tcp) = packet.split_at(usize::from(ip.header_len));
    assert_eq!(usize::from(ip.total_len), packet.len());
    assert!(packet.len() <= 1500);
    let pseudo = ipv4::pseudo_header(STACK, PEER, ipv4::protocol::TCP, tcp.len() as u16);
    assert!((pseudo + Kernel::HALFWORD.sum(tcp)).is_valid());
    let header = Header::parse(tcp).unwrap();
    let data = tcp[usize::from(header.header_len)..].to_vec();
    (ip.destination, head[20..].to_vec(), header, data)
}

/// That segment goes by way of `NEAR` and `FAR`.
#[track_caller]
fn expect_routed(peer: &mut Peer, flags: Flags, bytes: usize) -> Header {
    let (to, options, header, data) = next_by(peer);
    assert_eq!((to, &options[..]), (NEAR, &ROUTE[..]));
    assert!(header.flags.has(flags), "{:?}", header.flags);
    assert_eq!(data.len(), bytes);
    header
}

/// MUST-51: "An application MUST be able to specify a source route when it actively opens a TCP connection"; MUST-52: "and
/// this MUST take precedence over a source route received in a datagram".
#[test]
fn an_active_open_can_specify_a_source_route() {
    for change in [takes_routes as fn(&mut Config), |_| {}, leaves_checksums] {
        let mut peer = peer_with(change);
        let open = Open {
            source_route: &[NEAR, FAR],
            ..Open::default()
        };
        let to = SocketAddrV4::new(PEER, 80);
        let conn = peer.stack().connect_with(to, &open).unwrap();
        peer.port = 80;
        peer.local = peer.stack().info(conn).unwrap().local.port();
        let first = expect_routed(&mut peer, Flags::SYN, 0);
        // Sent again it goes the same way.
        peer.wait(s(5));
        expect_routed(&mut peer, Flags::SYN, 0);
        peer.iss = first.seq.0;
        inject_with(
            &mut peer,
            &ROUTED_OTHERWISE,
            &syn_ack().seq(0).ack(1).mss(1460),
        );
        assert_eq!(peer.state(conn), State::Established);
        expect_routed(&mut peer, Flags::ACK, 0);
        // 3.7.1: "Eff.snd.MSS = min(SendMSS+20, MMS_S) - TCPhdrsize - IPoptionsize"
        assert_eq!(peer.stack().info(conn).unwrap().mss, 1448);
        inject_with(&mut peer, &ROUTED_OTHERWISE, &ack().seq(1).ack(1).len(10));
        // After the loss of a SYN it is acknowledged at once.
        expect_routed(&mut peer, Flags::ACK, 0);
        peer.send(conn, 1, 1448);
        expect_routed(&mut peer, Flags::ACK, 1448);
        peer.wait(s(5));
        expect_routed(&mut peer, Flags::ACK, 1448);
        peer.inject(ack().seq(11).ack(1449));
        // Urgent data and a Diffserv field are written beside it.
        peer.stack().send_urgent(conn, b"!").unwrap();
        assert_eq!(expect_routed(&mut peer, Flags::URG, 1).urgent, 1);
        peer.stack().abort(conn).unwrap();
        expect_routed(&mut peer, Flags::RST, 0);
    }
    // Too many hops, and a link whose packets have no room for them.
    let to = SocketAddrV4::new(PEER, 80);
    for (mtu, hops) in [(1500, 10), (128, 9)] {
        let mut peer = Peer::on_link(mtu, |_| {});
        let open = Open {
            source_route: &vec![NEAR; hops],
            ..Open::default()
        };
        assert_eq!(
            peer.stack().connect_with(to, &open),
            Err(Error::BadOption),
            "{hops} hops"
        );
        assert_eq!(peer.stack.connections(), 0);
        peer.connect();
        peer.expect(syn());
    }
}

/// MUST-53: "When a TCP connection is OPENed passively and a packet arrives with a completed IP Source Route Option
/// (containing a return route), TCP implementations MUST save the return route and use it for all segments sent on this
/// connection"
#[test]
fn the_return_route_of_a_connection_request_is_used() {
    for completes in [false, true] {
        return_route_is_used(completes);
    }
}

fn return_route_is_used(completes_checksums: bool) {
    let mut peer = peer_with(|config| {
        takes_routes(config);
        config.completes_checksums = completes_checksums;
    });
    let listener = peer.listen();
    inject_with(&mut peer, &ROUTED, &syn().seq(0).mss(MSS));
    let answer = expect_routed(&mut peer, Flags::SYN | Flags::ACK, 0);
    peer.iss = answer.seq.0;
    // What follows may come straight.
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).unwrap();
    assert_eq!(peer.stack().info(conn).unwrap().mss, MSS - 12);
    peer.send(conn, 1, 10);
    expect_routed(&mut peer, Flags::ACK, 10);
    peer.inject(ack().seq(1).ack(11).len(10));
    peer.advance(ms(50));
    expect_routed(&mut peer, Flags::ACK, 0);
    assert_eq!(peer.read(conn, 100).len(), 10);
    peer.inject(fin().seq(11).ack(11));
    expect_routed(&mut peer, Flags::ACK, 0);
    peer.stack().close(conn).unwrap();
    expect_routed(&mut peer, Flags::FIN, 0);
    peer.inject(ack().seq(12).ack(12));
    assert_eq!(peer.stack.connections(), 0);
    // Neither a refusal nor a request that comes straight has to do with it.
    peer.local = PORT + 1;
    inject_with(&mut peer, &ROUTED, &syn().seq(0));
    expect_routed(&mut peer, Flags::RST, 0);
    peer.local = PORT;
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
}

/// A cookie, which keeps nothing (RFC 4987, 3.6), goes by the return route: the acknowledgment has come by the route,
/// too.
#[test]
fn a_cookie_goes_by_the_return_route() {
    let mut peer = peer_with(takes_routes);
    let listener = peer.stack().listen(PORT, 1).unwrap();
    peer.port = 50_000;
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    let first = peer.iss;
    peer.port = 50_001;
    inject_with(&mut peer, &ROUTED, &syn().seq(0).mss(MSS));
    let answer = expect_routed(&mut peer, Flags::SYN | Flags::ACK, 0);
    peer.iss = answer.seq.0;
    inject_with(&mut peer, &ROUTED, &ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).unwrap();
    assert_eq!(peer.stack.counters().syn_cookies_accepted, 1);
    peer.send(conn, 1, 10);
    expect_routed(&mut peer, Flags::ACK, 10);
    (peer.port, peer.iss) = (50_000, first);
    peer.inject(rst().seq(1));
}

/// RFC 7126, 4.3: where it is not asked for, a packet with a source route is dropped. RFC 1122, 3.3.5: one whose route goes on is
/// a router's business.
#[test]
fn a_source_route_that_is_not_asked_for_is_dropped() {
    let mut peer = peer_with(|_| {});
    peer.listen();
    inject_with(&mut peer, &ROUTED, &syn().seq(0));
    peer.expect_nothing();
    assert_eq!(peer.stack.counters().drops(Drop::SourceRoute), 1);
    let mut peer = peer_with(takes_routes);
    peer.listen();
    inject_with(&mut peer, &ROUTE, &syn().seq(0));
    peer.expect_nothing();
    assert_eq!(peer.stack.counters().drops(Drop::NotForUs), 1);
    assert_eq!(peer.stack.connections(), 0);
}

/// 3.9.2.2, MUST-54: an ICMP error reaches "the connection that created the error", although what it quotes was addressed to a
/// host on the way.
#[test]
fn an_error_from_the_way_reaches_its_connection() {
    let mut peer = peer_with(|_| {});
    let open = Open {
        source_route: &[NEAR, FAR],
        ..Open::default()
    };
    let to = SocketAddrV4::new(PEER, 80);
    let conn = peer.stack().connect_with(to, &open).unwrap();
    let frame = peer.next_frame().expect("a SYN");
    let quoted = &frame[ethernet::HEADER_LEN..ethernet::HEADER_LEN + 32 + 8];
    let failed = Message::DestinationUnreachable(Unreachable::Other(5));
    peer.inject_packet(&icmp_packet(failed, quoted));
    assert!(peer.stack().soft_error(conn).unwrap().is_some());
    assert_eq!(peer.state(conn), State::SynSent);
}
