//! RFC 4443, 4861, 4862, 8200, 8201: what a host does with packets of IPv6, one at a time.

use super::node::{Node, PEER, Packet, STACK};
use super::peer::{PEER_MAC, STACK_MAC};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use tollgate_stack::counters::Drop;
use tollgate_stack::ipv6::AddressState;
use tollgate_stack::{Error, Instant, Open, State};
use tollgate_wire::SeqNumber;
use tollgate_wire::icmpv6::Message;
use tollgate_wire::ipv6::{self, protocol};
use tollgate_wire::ndp::{Advertisement, MAX_LEN, Solicitation};
use tollgate_wire::tcp::{self, Flags, Options};

/// IP6-1: "The IP Hop Limit field has a value of 255, i.e., the packet could not possibly have been forwarded by a router"
/// (RFC 4861, 7.1.1).
#[test]
fn discovery_that_a_router_may_have_forwarded_is_not_believed() {
    let mut node = Node::new();
    assert!(node.solicit(PEER, STACK, 254).is_empty());
    assert_eq!(node.stack.counters().drops(Drop::Malformed), 1);
    assert_eq!(node.solicit(PEER, STACK, 255).len(), 1);
}

/// IP6-2: the answer is solicited, names our link address, and goes to who asked (RFC 4861, 7.2.4).
#[test]
fn solicitation_is_answered_to_who_asks() {
    let mut node = Node::new();
    let sent = node.solicit(PEER, STACK, 255);
    assert_eq!(sent[0].link, PEER_MAC);
    assert_eq!(
        (sent[0].header.source, sent[0].header.destination),
        (STACK, PEER)
    );
    assert_eq!(sent[0].header.hop_limit, 255);
    let expected = Advertisement {
        router: false,
        solicited: true,
        overrides: true,
        target: STACK,
        target_link: Some(STACK_MAC),
    };
    assert_eq!(Advertisement::parse(&sent[0].payload), Ok(expected));
    // For somebody else nothing is answered.
    assert!(node.solicit(PEER, PEER, 255).is_empty());
}

/// IP6-3: "If the source of the solicitation is the unspecified address, the node MUST set the Solicited flag to zero and
/// multicast the advertisement to the all-nodes address" (RFC 4861, 7.2.4).
#[test]
fn who_tries_our_address_is_told_with_all_nodes() {
    let mut node = Node::new();
    let sent = node.solicit(Ipv6Addr::UNSPECIFIED, STACK, 255);
    assert_eq!(sent[0].header.destination, ipv6::ALL_NODES);
    assert_eq!(sent[0].link, ipv6::multicast_mac(ipv6::ALL_NODES));
    let advertisement = Advertisement::parse(&sent[0].payload).unwrap();
    assert!(!advertisement.solicited);
}

/// IP6-4: an address is tried by a solicitation from the unspecified address to its group, and is not ours before (RFC 4862,
/// 5.4.2).
#[test]
fn address_is_tried_before_it_is_ours() {
    let mut node = Node::tried();
    let sent = node.pass(25);
    let tries: Vec<&Packet> = sent
        .iter()
        .filter(|packet| packet.payload[0] == 135)
        .collect();
    // One for the link-local address, one for the other.
    assert_eq!(tries.len(), 2);
    for packet in tries {
        let solicitation = Solicitation::parse(&packet.payload).unwrap();
        assert!(packet.header.source.is_unspecified());
        assert_eq!(
            packet.header.destination,
            ipv6::solicited_node(solicitation.target)
        );
        assert_eq!(solicitation.source_link, None);
    }
    assert!(node.own(STACK).unwrap().is_ours());
}

/// IP6-5: who tries the same address at the same time, or has it, keeps us from it (RFC 4862, 5.4.3 and 5.4.4).
#[test]
fn address_that_another_tries_or_has_is_a_duplicate() {
    let mut node = Node::tried();
    node.solicit(Ipv6Addr::UNSPECIFIED, STACK, 255);
    assert_eq!(node.own(STACK).unwrap().state, AddressState::Duplicate);
    let mut node = Node::tried();
    // One that only asks for it proves nothing.
    node.solicit(PEER, STACK, 255);
    assert_eq!(node.own(STACK).unwrap().state, AddressState::Tentative);
    let advertisement = Advertisement {
        router: false,
        solicited: false,
        overrides: true,
        target: STACK,
        target_link: Some(PEER_MAC),
    };
    let mut message = [0; MAX_LEN];
    let len = advertisement.emit(&mut message);
    node.inject_icmp((PEER, ipv6::ALL_NODES), 255, &message[..len]);
    assert_eq!(node.own(STACK).unwrap().state, AddressState::Duplicate);
    node.pass(30);
    assert!(!node.own(STACK).unwrap().is_ours());
}

/// IP6-6: a neighbour is asked for by its group, three times, a second apart (RFC 4861, 7.2.2 and 10).
#[test]
fn neighbour_is_asked_for_three_times() {
    let mut node = Node::new();
    let now = node.now;
    let mut active = node.stack.at(now, &mut node.pool);
    active.connect((PEER, 7)).unwrap();
    let mut sent = node.poll();
    sent.extend(node.pass(50));
    let asked: Vec<&Packet> = sent
        .iter()
        .filter(|packet| packet.payload[0] == 135)
        .collect();
    assert_eq!(asked.len(), 3);
    for packet in asked {
        assert_eq!(packet.header.destination, ipv6::solicited_node(PEER));
        assert_eq!(packet.header.source, STACK);
        let solicitation = Solicitation::parse(&packet.payload).unwrap();
        assert_eq!(solicitation.source_link, Some(STACK_MAC));
    }
}

/// IP6-7: an advertised prefix makes an address, which is deprecated and given up with its lifetimes (RFC 4862, 5.5.3 and
/// 5.5.4).
#[test]
fn prefix_makes_an_address_with_its_lifetimes() {
    let mut node = Node::asking();
    node.advertise(1800, 4, 2);
    node.pass(1);
    assert_eq!(node.made().unwrap().state, AddressState::Preferred);
    node.pass(20);
    assert_eq!(node.made().unwrap().state, AddressState::Deprecated);
    node.pass(20);
    assert_eq!(node.made(), None);
}

/// IP6-7: connections end with the address that they are from, and no others (RFC 4862, 5.5.4).
#[test]
fn connections_end_with_their_address() {
    let mut node = Node::asking();
    node.advertise(1800, 4, 2);
    node.pass(12);
    let own = node.made().unwrap();
    assert_eq!(own.state, AddressState::Preferred);
    let beside = Ipv6Addr::from(u128::from(own.address) ^ 1);
    let local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 77);
    let mut active = node.stack.at(node.now, &mut node.pool);
    active.add_neighbour(beside, PEER_MAC);
    active.add_neighbour(local, PEER_MAC);
    let [lost, kept] = [beside, local].map(|to| active.connect((to, 7)).unwrap());
    assert_eq!(active.info(lost).unwrap().local.ip(), own.address);
    node.pass(40);
    assert_eq!(node.made(), None);
    let mut active = node.stack.at(node.now, &mut node.pool);
    assert_eq!(active.state(lost), State::Closed);
    assert_eq!(active.receive(lost, &mut [0; 4]), Err(Error::TimedOut));
    assert_eq!(active.state(kept), State::SynSent);
    node.stack.check_consistency(&node.pool).unwrap();
}

/// IP6-8: an advertisement leaves an address at least two hours (RFC 4862, 5.5.3, e).
#[test]
fn forged_lifetime_leaves_two_hours() {
    let mut node = Node::asking();
    node.advertise(1800, 86_400, 86_400);
    node.advertise(1800, 1, 0);
    node.pass(30);
    assert_eq!(node.made().unwrap().state, AddressState::Deprecated);
    node.now = Instant::from_nanos(node.now.as_nanos() + 7_190_000_000_000);
    node.pass(1);
    assert!(node.made().is_some());
    node.pass(100);
    assert_eq!(node.made(), None);
}

/// IP6-9: routers are asked for three times, four seconds apart, unless one answers (RFC 4861, 6.3.7).
#[test]
fn routers_are_asked_for_until_one_answers() {
    let count = |sent: &[Packet]| {
        let asked = sent.iter().filter(|packet| packet.payload[0] == 133);
        asked
            .inspect(|packet| assert_eq!(packet.header.destination, ipv6::ALL_ROUTERS))
            .count()
    };
    let mut node = Node::asking();
    assert_eq!(count(&node.pass(150)), 3);
    let mut node = Node::asking();
    let first = count(&node.pass(12));
    node.advertise(1800, 100, 100);
    assert_eq!((first, count(&node.pass(150))), (1, 0));
}

/// IP6-10: an advertised router serves what is not on the link, with the hop limit that it advertises (RFC 4861, 5.2 and 6.3.4).
#[test]
fn router_serves_what_is_elsewhere() {
    let mut node = Node::asking();
    let far = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
    node.advertise(1800, 100, 100);
    node.pass(1);
    let now = node.now;
    let mut active = node.stack.at(now, &mut node.pool);
    active.ping(far, 1, 1, b"").unwrap();
    let sent = node.poll();
    let echo = sent.last().unwrap();
    assert_eq!(echo.link, PEER_MAC);
    assert_eq!((echo.header.destination, echo.header.hop_limit), (far, 50));
    // Withdrawn, it serves nothing any more.
    node.advertise(0, 100, 100);
    let mut active = node.stack.at(now, &mut node.pool);
    assert!(active.ping(far, 1, 2, b"").is_err());
}

/// IP6-11: a datagram without a checksum is discarded (RFC 8200, 8.1).
#[test]
fn datagram_without_a_checksum_is_discarded() {
    let mut node = Node::new();
    let datagram = [0, 9, 0, 9, 0, 8, 0, 0];
    assert!(
        node.inject((PEER, STACK), (protocol::UDP, 64), &datagram)
            .is_empty()
    );
    assert_eq!(node.stack.counters().drops(Drop::Checksum), 1);
}

/// IP6-12: a routing header of type 0 with segments left is answered by a parameter problem at its type (RFC 5095, 3).
#[test]
fn routing_header_of_type_0_is_refused() {
    let mut node = Node::new();
    node.know_peer();
    let mut payload = vec![17, 2, 0, 1, 0, 0, 0, 0];
    payload.extend(PEER.octets());
    let sent = node.inject((PEER, STACK), (43, 64), &payload);
    let problem = Message::ParameterProblem {
        code: 0,
        pointer: 42,
    };
    assert_eq!(sent[0].icmp(), problem);
    // RFC 4443, 3.4: as much of the packet as fits.
    assert_eq!(sent[0].payload[8 + 40..], payload);
}

/// IP6-13: an unknown next header is told to its sender, at the byte that names it (RFC 8200, 4; RFC 4443, 3.4).
#[test]
fn unknown_protocol_is_told() {
    let mut node = Node::new();
    node.know_peer();
    let sent = node.inject((PEER, STACK), (200, 64), &[1, 2, 3]);
    let problem = Message::ParameterProblem {
        code: 1,
        pointer: 6,
    };
    assert_eq!(sent[0].icmp(), problem);
    // "An ICMPv6 error message MUST NOT be originated as a result of receiving ... a packet destined to an IPv6 multicast
    // address" (RFC 4443, 2.4, e).
    let group = (PEER, ipv6::ALL_NODES);
    assert!(node.inject(group, (200, 64), &[1, 2, 3]).is_empty());
}

/// IP6-14: errors are limited in rate (RFC 4443, 2.4, f).
#[test]
fn errors_are_limited_in_rate() {
    let mut node = Node::new();
    node.know_peer();
    let mut sent = 0;
    for _ in 0..1000 {
        sent += node.inject((PEER, STACK), (200, 64), &[1]).len();
    }
    assert!((20..=200).contains(&sent), "{sent} errors");
    assert!(node.stack.counters().icmp_errors_limited >= 800);
}

/// IP6-15: "A node MUST NOT originate an error about an error" (RFC 4443, 2.4, e), and echoes are answered (4.2).
#[test]
fn echo_is_answered_and_an_unknown_error_is_not() {
    let mut node = Node::new();
    node.know_peer();
    let sent = node.inject_icmp((PEER, STACK), 64, &[128, 0, 0, 0, 1, 2, 3, 4, 5]);
    let reply = Message::EchoReply {
        identifier: 0x0102,
        sequence: 0x0304,
    };
    assert_eq!((sent[0].icmp(), &sent[0].payload[8..]), (reply, &[5][..]));
    assert_eq!(sent[0].header.source, STACK);
    assert!(
        node.inject_icmp((PEER, STACK), 64, &[100, 0, 0, 0, 0, 0, 0, 0])
            .is_empty()
    );
}

/// IP6-32: "An ICMPv6 error message MUST NOT be originated as a result of receiving [...] an ICMPv6 redirect message" (RFC 4443,
/// 2.4, e).
#[test]
fn redirect_brings_no_error() {
    let mut node = Node::new();
    node.know_peer();
    // An option of a destination that is not known and to be told of.
    let mut payload = vec![58, 0, 0x9e, 1, 0, 1, 1, 0];
    payload.extend([137, 0, 0, 0, 0, 0, 0, 0]);
    payload.extend([0; 32]);
    let sent = node.inject((PEER, STACK), (60, 255), &payload);
    assert!(sent.is_empty());
    payload[8] = 138;
    assert_eq!(node.inject((PEER, STACK), (60, 255), &payload).len(), 1);
}

/// IP6-45: "each unrelated transport connection and application data stream" is a flow with a label of its own, which "MUST be set to the
/// same value" in all of its packets; labels are such that others can not guess them (RFC 6437, 2 and 3).
#[test]
fn each_flow_has_a_label_of_its_own() {
    let mut labels = BTreeSet::new();
    let mut node = Node::new();
    node.know_peer();
    let now = node.now;
    for port in 7..27 {
        let mut active = node.stack.at(now, &mut node.pool);
        let listener = active.listen(port, 4).unwrap();
        let mut header = Node::segment(port, Flags::SYN);
        header.options.mss = Some(1440);
        let mut sent = node.inject_tcp(&header);
        let answer = tcp::Header::parse(&sent[0].payload).unwrap();
        header = Node::segment(port, Flags::ACK);
        header.ack = answer.seq + 1;
        node.inject_tcp(&header);
        let mut active = node.stack.at(now, &mut node.pool);
        let conn = active.accept(listener).unwrap();
        active.send(conn, &[0; 100]).unwrap();
        sent.extend(node.poll());
        node.stack.check_consistency(&node.pool).unwrap();
        let mut active = node.stack.at(now, &mut node.pool);
        active.abort(conn).unwrap();
        sent.extend(node.poll());
        // A segment of no connection is one of the same flow.
        sent.extend(node.inject_tcp(&header));
        assert_eq!(sent.len(), 4);
        let label = sent[0].header.flow_label;
        assert!(sent.iter().all(|sent| sent.header.flow_label == label));
        labels.insert(label);
        let socket = node.bind(1000 + port);
        let mut sent = Vec::new();
        for len in [10, 10, 2000] {
            sent.extend(node.send_datagram(socket, PEER, len));
        }
        assert_eq!(sent.len(), 4);
        let label = sent[0].header.flow_label;
        assert!(sent.iter().all(|sent| sent.header.flow_label == label));
        labels.insert(label);
    }
    assert_eq!(labels.len(), 40, "{labels:?}");
    assert!(!labels.contains(&0), "zero is no label");
    let high = labels.iter().filter(|label| **label >= 1 << 19).count();
    assert!((8..=32).contains(&high), "{labels:?}");
}

/// IP6-16: a packet that is too big for the path is told once, and what is sent then is cut to fit (RFC 8201, 4 and 5.2).
#[test]
fn datagrams_are_cut_to_the_path() {
    let mut node = Node::new();
    node.know_peer();
    let now = node.now;
    let mut active = node.stack.at(now, &mut node.pool);
    let socket = active.udp_bind(9).unwrap();
    active.udp_send(socket, (PEER, 10), &[7; 1400]).unwrap();
    let sent = node.poll();
    assert_eq!(sent.len(), 1);
    let quoted = [&sent[0].header.to_bytes()[..], &sent[0].payload[..]].concat();
    let too_big = Message::PacketTooBig { mtu: 1300 }.to_bytes();
    let message = [&too_big[..], &quoted[..1200]].concat();
    let router = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 77);
    node.inject_icmp((router, STACK), 64, &message);
    let mut active = node.stack.at(now, &mut node.pool);
    active.udp_send(socket, (PEER, 10), &[7; 1400]).unwrap();
    let sent = node.poll();
    assert_eq!(sent.len(), 2);
    for packet in &sent {
        assert_eq!(packet.header.next_header, protocol::FRAGMENT);
        assert!(40 + packet.payload.len() <= 1300);
    }
    // One that nobody asked for changes nothing: another destination is still sent whole packets.
    let other = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3));
    let mut active = node.stack.at(now, &mut node.pool);
    active.add_neighbour(other, PEER_MAC);
    active.udp_send(socket, (other, 10), &[7; 1400]).unwrap();
    assert_eq!(node.poll().len(), 1);
}

/// "If an MSS Option is not received at connection setup, TCP implementations MUST assume a default send MSS of 536
/// for IPv4 or 1220 for IPv6" (RFC 9293, 3.7.1, MUST-15), where the listener has a largest segment of its own, too.
#[test]
fn without_the_option_the_send_mss_is_1220() {
    for max_segment in [None, Some(1400), Some(900)] {
        let mut node = Node::new();
        node.know_peer();
        let open = Open {
            max_segment,
            ..Open::default()
        };
        let now = node.now;
        let mut active = node.stack.at(now, &mut node.pool);
        let listener = active.listen_with(7, 4, &open).unwrap();
        let mut header = tcp::Header {
            source_port: 1000,
            destination_port: 7,
            flags: Flags::SYN,
            window: 60_000,
            seq: SeqNumber(0),
            ack: SeqNumber(0),
            header_len: 20,
            urgent: 0,
            accurate_ecn: false,
            options: Options::default(),
        };
        let sent = node.inject_tcp(&header);
        let answer = tcp::Header::parse(&sent[0].payload).unwrap();
        assert_eq!(
            answer.options.mss,
            Some(max_segment.map_or(1440, |most| most.min(1440)))
        );
        header.flags = Flags::ACK;
        header.seq = SeqNumber(1);
        header.ack = answer.seq + 1;
        node.inject_tcp(&header);
        let mut active = node.stack.at(now, &mut node.pool);
        let conn = active.accept(listener).unwrap();
        let expected = max_segment.map_or(1220, |most| most.min(1220));
        assert_eq!(active.info(conn).unwrap().mss, expected);
    }
}

/// IP6-20: a host on the link that changes routers and prefixes all the time has no work done for all connections each time;
/// what it says reaches each of them nevertheless (RFC 4861, 5.2 and 6.3.6).
#[test]
fn changes_of_routers_cost_a_share_of_each_tick() {
    const CONNECTIONS: u16 = 2000;
    let mut node = Node::asking();
    node.advertise(1800, 86_400, 86_400);
    node.pass(10);
    let now = node.now;
    for n in 0..CONNECTIONS {
        let mut active = node.stack.at(now, &mut node.pool);
        let far = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, n);
        active.connect((far, 7)).unwrap();
        node.poll();
    }
    let before = node.stack.counters().next_hops_chosen_again;
    for n in 0..100 {
        node.advertise(1800 * (n % 2), 86_400, 86_400);
    }
    let chosen = node.stack.counters().next_hops_chosen_again - before;
    assert!((1..=200).contains(&chosen), "{chosen} next hops");
    // Every connection goes by the router that there is: its SYN is sent again.
    for _ in 0..CONNECTIONS / 128 {
        let deadline = node.stack.next_deadline(node.now).unwrap();
        assert!(deadline.nanos_since(node.now) < 2_000_000);
        node.now = deadline;
        node.poll();
    }
    let chosen = node.stack.counters().next_hops_chosen_again - before;
    assert!(chosen >= CONNECTIONS.into(), "{chosen} next hops");
    let sent = node.pass(20);
    let syns = sent
        .iter()
        .filter(|packet| packet.header.next_header == protocol::TCP);
    assert!(syns.count() >= 100);
    // What says nothing new costs nothing.
    let before = node.stack.counters().next_hops_chosen_again;
    for _ in 0..10 {
        node.advertise(1800, 86_400, 86_400);
        node.pass(1);
    }
    assert_eq!(node.stack.counters().next_hops_chosen_again, before);
}
