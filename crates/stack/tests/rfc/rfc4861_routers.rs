//! RFC 4861, 5 and 6.3: routers, prefixes and the MTU of the link, as they are advertised and configured.

use super::node::{Node, PEER, Packet, ROUTER, STACK};
use super::peer::PEER_MAC;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use tollgate_stack::config::Ipv6;
use tollgate_stack::{ConnId, Error, State};
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::ndp::{Advertisement, Solicitation};

const OTHER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xb);
const OTHER_MAC: MacAddr = MacAddr([2, 0xb, 0, 0, 0, 1]);

/// A host elsewhere.
fn far(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, n)
}

/// A host with a configured address, which knows its neighbour.
fn configured() -> Node {
    let mut node = Node::with(Ipv6 {
        address: Some((STACK, 64)),
        duplicate_checks: 0,
        ..Ipv6::default()
    });
    node.know_peer();
    node
}

/// The option of a router's link address.
fn source_link(mac: MacAddr) -> Vec<u8> {
    [&[1, 1][..], &mac.0].concat()
}

fn mtu_option(mtu: u32) -> Vec<u8> {
    [&[5, 1, 0, 0][..], &mtu.to_be_bytes()].concat()
}

/// A router answers who has asked for it.
fn answers(node: &mut Node, own: Ipv6Addr, router: Ipv6Addr, mac: MacAddr) {
    let advertisement = Advertisement {
        router: true,
        solicited: true,
        overrides: true,
        target: router,
        target_link: Some(mac),
    };
    node.advertise_neighbour(own, &advertisement);
}

/// Addresses that are asked for.
fn asked(sent: &[Packet]) -> impl Iterator<Item = Ipv6Addr> {
    sent.iter()
        .filter(|packet| packet.payload[0] == 135)
        .map(|packet| Solicitation::parse(&packet.payload).unwrap().target)
}

fn connect(node: &mut Node, to: Ipv6Addr) -> Result<ConnId, Error> {
    let now = node.now;
    node.stack.at(now, &mut node.pool).connect((to, 7))
}

/// IP6-35: the prefix of an address that is configured is on the link for good: an advertisement of it neither ends it at once nor
/// later (RFC 4861, 5.2 and 6.3.4, where only what was advertised is timed out).
#[test]
fn configured_prefix_outlasts_an_advertised_one() {
    for valid in [0, 10_u32] {
        let mut node = configured();
        let mut prefix = vec![3, 4, 64, 0x80];
        prefix.extend([valid.to_be_bytes(), valid.to_be_bytes(), [0; 4]].concat());
        prefix.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0).octets());
        node.advertise_router(ROUTER, &prefix);
        node.pass(200);
        assert_eq!(node.way_to(PEER), PEER_MAC, "valid for {valid} s");
    }
}

/// IP6-36: "hosts SHOULD copy the option's value into LinkMTU" (RFC 4861, 6.3.4): what is sent on connections that are open is no
/// longer, either, nor is what is sent to neighbours that are known.
#[test]
fn mtu_of_the_link_reaches_what_is_open() {
    let mut node = configured();
    let (socket, conn) = (node.bind(9), node.accepted(7).0);
    assert_eq!(node.mss(conn), 1440);
    node.advertise_router(ROUTER, &mtu_option(1280));
    assert_eq!(node.mss(conn), 1220);
    let later = node.accepted(8).0;
    assert_eq!(node.mss(later), 1220);
    assert_eq!(node.send_datagram(socket, PEER, 1400).len(), 2);
    node.stack.check_consistency(&node.pool).unwrap();
    // It is the link's again, for who is known as for others.
    node.advertise_router(ROUTER, &mtu_option(1500));
    assert_eq!(node.send_datagram(socket, PEER, 1400).len(), 1);
    let latest = node.accepted(9).0;
    assert_eq!(node.mss(latest), 1440);
}

/// IP6-36: a host on the link that changes the MTU all the time has no work done for all connections each time.
#[test]
fn changes_of_the_mtu_cost_a_share_of_each_tick() {
    let mut node = configured();
    let conns: Vec<ConnId> = (1..=300).map(|port| node.accepted(port).0).collect();
    for n in 0..50 {
        node.advertise_router(ROUTER, &mtu_option(1400 - n));
    }
    let narrow = |node: &mut Node| conns.iter().filter(|&&conn| node.mss(conn) < 1440).count();
    assert!((1..=256).contains(&narrow(&mut node)));
    for _ in 0..3 {
        let deadline = node.stack.next_deadline(node.now).unwrap();
        assert!(deadline.nanos_since(node.now) < 2_000_000);
        node.now = deadline;
        node.poll();
    }
    for conn in &conns {
        assert_eq!(node.mss(*conn), 1351 - 60);
    }
}

/// IP6-36: the MTU that IPv4 has on the link is none of IPv6's.
#[test]
fn mtu_of_ipv4_leaves_that_of_ipv6() {
    let mut node = configured();
    let now = node.now;
    node.stack.at(now, &mut node.pool).set_mtu(1000).unwrap();
    node.advertise_router(ROUTER, &mtu_option(1280));
    let socket = node.bind(1000);
    assert_eq!(node.send_datagram(socket, PEER, 1400).len(), 2);
}

/// IP6-37: connections that are being opened by way of a router that does not answer go by one that does (RFC 4861, 7.3.3).
#[test]
fn attempts_go_by_the_router_that_answers() {
    let mut node = configured();
    node.advertise_router(ROUTER, &[]);
    node.advertise_router(OTHER, &source_link(OTHER_MAC));
    node.pass(1);
    let conns: Vec<ConnId> = (1..=200)
        .map(|n| {
            let conn = connect(&mut node, far(n)).unwrap();
            node.poll();
            conn
        })
        .collect();
    node.pass(60);
    let now = node.now;
    let active = node.stack.at(now, &mut node.pool);
    for conn in conns {
        assert_eq!(active.state(conn), State::SynSent);
    }
}

/// IP6-38: "When no routers on the list are known to be reachable or probably reachable, routers SHOULD be selected in a round-robin
/// fashion" (RFC 4861, 6.3.6).
#[test]
fn routers_that_do_not_answer_are_tried_in_turn() {
    let (mut node, _) = Node::routed(true);
    node.advertise_router(OTHER, &source_link(OTHER_MAC));
    let mut tried = BTreeSet::new();
    for n in 0..40 {
        let mut sent = node.ping(far(100 + n));
        sent.extend(node.pass(100));
        // Both have failed by then.
        if n >= 20 {
            tried.extend(asked(&sent));
        }
    }
    assert_eq!(tried, [ROUTER, OTHER].into());
}

/// IP6-38: a router that nobody has used for long is forgotten as a neighbour, not as a router: it is asked for again.
#[test]
fn idle_router_stays_the_router() {
    let (mut node, own) = Node::routed(true);
    node.ping(far(1));
    answers(&mut node, own, ROUTER, PEER_MAC);
    node.pass(3000);
    node.advertise_router(OTHER, &source_link(OTHER_MAC));
    node.pass(4000);
    let sent = node.ping(far(1));
    assert_eq!(asked(&sent).collect::<Vec<_>>(), [ROUTER]);
}

/// IP6-28: a redirect to a router that does not answer is undone as one to any other neighbour (RFC 4861, 7.3.3).
#[test]
fn redirect_to_a_dead_router_is_undone() {
    let (mut node, own) = Node::routed(true);
    node.advertise_router(OTHER, &source_link(OTHER_MAC));
    // Both are idle, and forgotten as neighbours.
    node.pass(7000);
    node.ping(far(1));
    answers(&mut node, own, ROUTER, PEER_MAC);
    assert_eq!(node.way_to(far(1)), PEER_MAC);
    for _ in 0..2 {
        let mut redirect = vec![137, 0, 0, 0, 0, 0, 0, 0];
        redirect.extend([OTHER.octets(), far(1).octets()].concat());
        node.inject_icmp((ROUTER, own), 255, &redirect);
        assert_eq!(asked(&node.ping(far(1))).collect::<Vec<_>>(), [OTHER]);
        node.pass(40);
        answers(&mut node, own, ROUTER, PEER_MAC);
        assert_eq!(node.way_to(far(1)), PEER_MAC);
    }
}

/// IP6-39: who sends something that no router is known for is told (RFC 4861, 5.2).
#[test]
fn without_a_route_nothing_is_sent() {
    let mut node = Node::new();
    let socket = node.bind(1000);
    let now = node.now;
    let mut active = node.stack.at(now, &mut node.pool);
    let sent = active.udp_send(socket, (far(1), 9), b"x");
    assert_eq!(sent, Err(Error::Unreachable));
    assert_eq!(active.ping(far(1), 1, 1, b""), Err(Error::Unreachable));
}
