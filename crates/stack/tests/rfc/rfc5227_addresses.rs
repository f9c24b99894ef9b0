//! Addresses and routes of IPv4 that come and go (RFC 5227; RFC 1122, 3.3.1 and 3.3.4).

use crate::peer::{PEER, Peer, STACK, STACK_MAC, ms, s, syn, syn_ack};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tollgate_stack::{AddressState, Error, Instant, Open, Route, State};
use tollgate_wire::arp::{self, Operation};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmp::Message;

/// An address that the stack does not begin with.
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
/// An address on another network.
const THIRD: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 7);
/// Routers on both networks.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const THIRD_ROUTER: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 254);
/// The link address of another host.
const OTHER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn arp(operation: Operation, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let link = ethernet::Header {
        destination: MacAddr::BROADCAST,
        source: OTHER_MAC,
        ethertype: EtherType::Arp,
    };
    let packet = arp::Packet {
        operation,
        sender_mac: OTHER_MAC,
        sender_ip: sender,
        target_mac: STACK_MAC,
        target_ip: target,
    };
    [&link.to_bytes()[..], &packet.to_bytes()].concat()
}

/// The ARP packets that the stack sends in `time`, and when.
fn heard(peer: &mut Peer, time: Duration) -> Vec<(Instant, arp::Packet)> {
    let mut found = Vec::new();
    let end = peer.now + time;
    loop {
        while let Some(frame) = peer.next_frame() {
            let link = ethernet::Header::parse(&frame).unwrap();
            if link.ethertype == EtherType::Arp {
                let packet = arp::Packet::parse(&frame[ethernet::HEADER_LEN..]).unwrap();
                found.push((peer.now, packet));
            }
        }
        if peer.now >= end {
            return found;
        }
        peer.advance(ms(10));
    }
}

fn state(peer: &Peer, ip: Ipv4Addr) -> Option<AddressState> {
    let mut all = peer.stack.addresses();
    all.find(|own| own.address == ip).map(|own| own.state)
}

fn quiet() -> Peer {
    let mut peer = Peer::new();
    peer.stop_answering_arp();
    peer
}

/// ADDR-1.
/// RFC 5227, 2.1.1: "wait for a random time interval selected uniformly in the range zero to PROBE_WAIT seconds, and should then
/// send PROBE_NUM probe packets, each of these probe packets spaced randomly and uniformly, PROBE_MIN to PROBE_MAX seconds apart",
/// "The 'sender IP address' field MUST be set to all zeroes"; 2.3: "ANNOUNCE_NUM ARP Announcements, spaced ANNOUNCE_INTERVAL
/// seconds apart".
#[test]
fn address_is_probed_then_ours_and_announced() {
    let mut peer = quiet();
    let begin = peer.now;
    peer.stack().probe_address(SECOND, 24).unwrap();
    assert_eq!(state(&peer, SECOND), Some(AddressState::Tentative));
    let sent = heard(&mut peer, s(12));
    let probes: Vec<_> = sent.iter().take(3).collect();
    for (_, probe) in &probes {
        assert_eq!(probe.operation, Operation::Request);
        assert_eq!(probe.sender_ip, Ipv4Addr::UNSPECIFIED);
        assert_eq!((probe.target_ip, probe.sender_mac), (SECOND, STACK_MAC));
        assert_eq!(probe.target_mac, MacAddr::default());
    }
    let slack = ms(20);
    assert!(probes[0].0 - begin <= s(1) + slack);
    for pair in probes.windows(2) {
        let gap = pair[1].0 - pair[0].0;
        assert!(gap + slack >= s(1) && gap <= s(2) + slack, "{gap:?}");
    }
    let announcements = &sent[3..];
    assert_eq!(announcements.len(), 2);
    for (_, announcement) in announcements {
        assert_eq!(announcement.operation, Operation::Request);
        assert_eq!(announcement.sender_ip, SECOND);
        assert_eq!(announcement.target_ip, SECOND);
    }
    let wait = announcements[0].0 - probes[2].0;
    assert!(wait + slack >= s(2) && wait <= s(2) + slack, "{wait:?}");
    let gap = announcements[1].0 - announcements[0].0;
    assert!(gap + slack >= s(2) && gap <= s(2) + slack, "{gap:?}");
    assert_eq!(state(&peer, SECOND), Some(AddressState::Assigned));
}

/// ADDR-2.
/// RFC 5227, 2.1.1: "If during this period ... the host receives any ARP packet (Request *or* Reply) on the interface where the
/// probe is being performed, where the packet's 'sender IP address' is the address being probed for, then the host MUST treat
/// this address as being in use by some other host"; "if during this period the host receives any ARP Probe where the packet's
/// 'target IP address' is the address being probed for, and the packet's 'sender hardware address' is not the hardware address of
/// any of the host's interfaces, then the host SHOULD similarly treat this as an address conflict".
#[test]
fn address_that_another_host_has_or_probes_for_does_not_become_ours() {
    for claim in [
        arp(Operation::Reply, SECOND, STACK),
        arp(Operation::Request, SECOND, PEER),
        arp(Operation::Request, Ipv4Addr::UNSPECIFIED, SECOND),
    ] {
        let mut peer = quiet();
        peer.stack().probe_address(SECOND, 24).unwrap();
        peer.advance(s(2));
        peer.inject_frame(claim);
        assert_eq!(state(&peer, SECOND), Some(AddressState::Duplicate));
        heard(&mut peer, ms(1));
        assert!(heard(&mut peer, s(12)).is_empty());
        assert_eq!(state(&peer, SECOND), Some(AddressState::Duplicate));
        let from = Open {
            local: Some(SECOND.into()),
            ..Open::default()
        };
        let to = SocketAddrV4::new(PEER, 80);
        assert_eq!(peer.stack().connect_with(to, &from), Err(Error::BadAddress));
        peer.stack().remove_address(SECOND).unwrap();
        assert_eq!(state(&peer, SECOND), None);
        peer.stack().probe_address(SECOND, 24).unwrap();
    }
}

/// ADDR-3.
/// RFC 5227, 2.4 (b): "if the host has not seen any other conflicting ARP packets within the last DEFEND_INTERVAL seconds, MAY
/// elect to attempt to defend its address by recording the time that the conflicting ARP packet was received, and then
/// broadcasting one single ARP Announcement"; "if this is not the first conflicting ARP packet the host has seen, and the time
/// recorded for the previous conflicting ARP packet is recent, within DEFEND_INTERVAL seconds, then the host MUST immediately
/// cease using this address".
#[test]
fn probed_address_is_defended_once_then_given_up() {
    let mut peer = quiet();
    peer.stack().probe_address(SECOND, 24).unwrap();
    heard(&mut peer, s(12));
    let claim = arp(Operation::Request, SECOND, PEER);
    peer.inject_frame(claim.clone());
    let answers = heard(&mut peer, ms(100));
    assert_eq!(answers.len(), 1);
    assert_eq!(
        (answers[0].1.sender_ip, answers[0].1.target_ip),
        (SECOND, SECOND)
    );
    // Eleven seconds later it is the first again.
    peer.advance(s(11));
    peer.inject_frame(claim.clone());
    assert_eq!(heard(&mut peer, ms(100)).len(), 1);
    peer.inject_frame(claim);
    assert_eq!(heard(&mut peer, ms(100)).len(), 0);
    assert_eq!(state(&peer, SECOND), Some(AddressState::Duplicate));
    peer.inject_frame(arp(Operation::Request, ROUTER, SECOND));
    assert!(heard(&mut peer, ms(100)).is_empty());
}

/// ADDR-4.
/// RFC 5227, 2.4 (c): "if the host has been configured such that it should not give up its address under any circumstances ...
/// then the host MAY elect to defend its address indefinitely"; "MUST NOT broadcast" more than one announcement in DEFEND_INTERVAL.
#[test]
fn configured_address_is_defended_and_never_given_up() {
    let mut peer = quiet();
    peer.stack.add_address(SECOND, 24).unwrap();
    assert_eq!(heard(&mut peer, s(5)).len(), 2);
    for _ in 0..3 {
        for _ in 0..5 {
            peer.inject_frame(arp(Operation::Request, SECOND, PEER));
        }
        assert_eq!(heard(&mut peer, s(11)).len(), 1);
    }
    assert_eq!(state(&peer, SECOND), Some(AddressState::Assigned));
}

/// ADDR-6.
/// RFC 1122, 3.3.4.2; RFC 5227, 2.4: an address that goes ends its connections, and no others. Linux
/// tells ETIMEDOUT in the end; nothing is sent from an address that is not ours.
#[test]
fn connections_of_a_removed_address_time_out_at_once() {
    let (mut peer, kept) = Peer::established();
    peer.stack.add_address(SECOND, 24).unwrap();
    peer.advance(s(5));
    while peer.next_frame().is_some() {}
    let from = Open {
        local: Some(SECOND.into()),
        ..Open::default()
    };
    let to = SocketAddrV4::new(PEER, 80);
    let lost = peer.stack().connect_with(to, &from).unwrap();
    peer.poll();
    while peer.next_frame().is_some() {}
    peer.stack().remove_address(SECOND).unwrap();
    assert_eq!(peer.stack().remove_address(SECOND), Err(Error::BadAddress));
    peer.poll();
    assert!(peer.next_frame().is_none());
    assert_eq!(peer.state(lost), State::Closed);
    let told = peer.stack().receive(lost, &mut [0; 4]);
    assert_eq!(told, Err(Error::TimedOut));
    assert_eq!(peer.state(kept), State::Established);
    peer.inject_frame(arp(Operation::Request, ROUTER, SECOND));
    assert!(peer.next_frame().is_none());
    // The first address goes as well: then the host has none.
    peer.stack().remove_address(STACK).unwrap();
    assert_eq!(peer.state(kept), State::Closed);
    assert_eq!(peer.stack.addresses().count(), 0);
    assert_eq!(peer.stack().connect(to), Err(Error::Unreachable));
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// ADDR-7.
/// RFC 1122, 3.3.4.3: the source is the address of the network over which the datagram goes, that of the next hop. RFC 1812, 5.2.4.3: the longest prefix that matches is the route.
#[test]
fn longest_prefix_gives_next_hop_and_source() {
    let mut peer = quiet();
    let far = |a, b| Ipv4Addr::new(a, b, 3, 4);
    peer.stack.add_address(THIRD, 24).unwrap();
    peer.stack.add_route(Route::default_by(ROUTER)).unwrap();
    let net = |a, b, prefix_len, gateway| Route {
        destination: Ipv4Addr::new(a, b, 0, 0),
        prefix_len,
        gateway,
    };
    peer.stack
        .add_route(net(192, 0, 8, Some(THIRD_ROUTER)))
        .unwrap();
    peer.stack.add_route(net(192, 168, 16, None)).unwrap();
    assert_eq!(
        peer.stack.add_route(net(192, 0, 8, Some(ROUTER))),
        Err(Error::InUse)
    );
    for wrong in [
        net(192, 168, 8, None),
        net(11, 0, 33, None),
        net(11, 0, 8, Some(THIRD)),
        net(11, 0, 8, Some(Ipv4Addr::BROADCAST)),
    ] {
        assert_eq!(peer.stack.add_route(wrong), Err(Error::BadAddress));
    }
    let lens: Vec<u8> = peer.stack.routes().iter().map(|r| r.prefix_len).collect();
    assert_eq!(lens, [16, 8, 0]);
    heard(&mut peer, s(5));
    for (to, from, asked) in [
        (far(8, 8), STACK, ROUTER),
        (far(192, 1), THIRD, THIRD_ROUTER),
        // On the link, of neither network: the first address.
        (far(192, 168), STACK, far(192, 168)),
        (
            Ipv4Addr::new(172, 16, 0, 9),
            THIRD,
            Ipv4Addr::new(172, 16, 0, 9),
        ),
        (ROUTER, STACK, ROUTER),
    ] {
        let conn = peer.stack().connect(SocketAddrV4::new(to, 80)).unwrap();
        assert_eq!(peer.stack().info(conn).unwrap().local.ip(), from, "{to}");
        let sent = heard(&mut peer, ms(100));
        // The router's address is asked for once by all who use it.
        if let Some((_, question)) = sent.first() {
            assert_eq!((question.sender_ip, question.target_ip), (from, asked));
        } else {
            assert_eq!(to, ROUTER);
        }
    }
}

/// ADDR-8.
/// RFC 1122, 3.3.1.2: the route is looked up for each destination; connections that are open follow a route that changes.
#[test]
fn open_connection_follows_its_route() {
    let mut peer = quiet();
    let far = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80);
    let default = Route::default_by(PEER);
    peer.stack.add_route(default).unwrap();
    let conn = peer.stack().connect(far).unwrap();
    let (packet, _) = peer
        .next_packet()
        .expect("a SYN by the peer, whose link address is known");
    assert_eq!(packet.destination, *far.ip());
    peer.stack.remove_route(default).unwrap();
    assert_eq!(peer.stack.remove_route(default), Err(Error::BadAddress));
    peer.stack().add_neighbour(ROUTER, OTHER_MAC);
    peer.stack.add_route(Route::default_by(ROUTER)).unwrap();
    peer.advance(s(2));
    let frame = peer.next_frame().expect("the SYN again");
    let link = ethernet::Header::parse(&frame).unwrap();
    assert_eq!(link.destination, OTHER_MAC);
    assert_eq!(peer.state(conn), State::SynSent);
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// RFC 919, 7: a broadcast on the local network goes to the link, whatever the default route.
#[test]
fn broadcast_does_not_go_to_the_router() {
    let mut peer = Peer::with(|config| config.gateway = Some(PEER));
    peer.stack.add_address(THIRD, 24).unwrap();
    peer.advance(s(5));
    while peer.next_frame().is_some() {}
    let socket = peer.stack().udp_bind(1000).unwrap();
    for to in [Ipv4Addr::BROADCAST, Ipv4Addr::new(172, 16, 0, 255)] {
        let to = SocketAddrV4::new(to, 1000);
        peer.stack().udp_send(socket, to, b"all").unwrap();
        let frame = peer.next_frame().unwrap();
        let link = ethernet::Header::parse(&frame).unwrap();
        assert_eq!(link.destination, MacAddr::BROADCAST);
    }
}

/// ADDR-9.
/// RFC 1122, 3.2.1.3: a host without an address sends nothing but what asks for one, and takes no packets to 0.0.0.0.
#[test]
fn host_without_an_address_is_silent() {
    let mut peer = Peer::with(|config| config.ip = Ipv4Addr::UNSPECIFIED);
    peer.listen();
    assert_eq!(peer.stack.addresses().count(), 0);
    let to = SocketAddrV4::new(PEER, 80);
    assert_eq!(peer.stack().connect(to), Err(Error::Unreachable));
    assert_eq!(peer.stack().ping(PEER, 1, 1, b""), Err(Error::Unreachable));
    let segment = peer.segment(&syn());
    let packet = crate::peer::ip_packet(6, PEER, Ipv4Addr::UNSPECIFIED, &segment);
    peer.inject_packet(&packet);
    let echo = Message::EchoRequest {
        identifier: 1,
        sequence: 1,
    };
    peer.inject_packet(&crate::peer::icmp_packet(echo, b""));
    peer.advance(s(5));
    assert!(peer.next_frame().is_none());
    peer.stack.add_address(STACK, 24).unwrap();
    peer.advance(s(5));
    while peer.next_frame().is_some() {}
    peer.inject(syn());
    peer.expect(syn_ack().ack(1));
}
