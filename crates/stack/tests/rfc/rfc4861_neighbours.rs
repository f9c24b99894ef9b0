//! RFC 4861, 7: neighbours that are routers, that do not answer, and that have become others.

use super::node::{Node, PEER, Packet, ROUTER, STACK};
use super::peer::PEER_MAC;
use std::net::Ipv6Addr;
use tollgate_stack::Error;
use tollgate_stack::config::Ipv6;
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::ipv6;
use tollgate_wire::ndp::{Advertisement, MAX_LEN, Solicitation};

const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
const OTHER_MAC: MacAddr = MacAddr([2, 0xb, 0, 0, 0, 1]);

/// A host whose gateway is configured.
fn with_gateway(gateway: Ipv6Addr) -> Node {
    Node::with(Ipv6 {
        address: Some((STACK, 64)),
        gateway: Some(gateway),
        duplicate_checks: 0,
        router_advertisements: false,
        ..Ipv6::default()
    })
}

/// A neighbour's word about itself that nobody has asked for, and that overrides nothing.
fn unasked(target: Ipv6Addr, mac: MacAddr) -> Advertisement {
    Advertisement {
        router: false,
        solicited: false,
        overrides: false,
        target,
        target_link: Some(mac),
    }
}

/// The answer to a solicitation.
fn answer(target: Ipv6Addr, router: bool) -> Advertisement {
    Advertisement {
        router,
        solicited: true,
        overrides: true,
        ..unasked(target, PEER_MAC)
    }
}

fn has_route(node: &mut Node) -> bool {
    let now = node.now;
    let mut active = node.stack.at(now, &mut node.pool);
    active.ping(FAR, 1, 1, b"").is_ok()
}

/// IP6-40: "If no entry exists, the advertisement SHOULD be silently discarded", and one that contradicts the link address without
/// overriding it "MUST NOT update the cache" (RFC 4861, 7.2.5): neither says that a router is none any more.
#[test]
fn advertisement_that_updates_nothing_leaves_the_router() {
    let mut node = Node::asking();
    node.advertise_router(ROUTER, &[]);
    node.pass(1);
    node.advertise_neighbour(ipv6::ALL_NODES, &unasked(ROUTER, OTHER_MAC));
    assert!(has_route(&mut node));
    node.advertise(1800, 86_400, 86_400);
    node.advertise_neighbour(ipv6::ALL_NODES, &unasked(ROUTER, OTHER_MAC));
    assert!(has_route(&mut node));
    assert_eq!(node.way_to(FAR), PEER_MAC);
}

/// IP6-40: "In those cases where the IsRouter flag changes from TRUE to FALSE as a result of this update, the node MUST remove that
/// router from the Default Router List" (RFC 4861, 7.2.5).
#[test]
fn router_that_says_that_it_is_none_is_none() {
    for is_new in [false, true] {
        let mut node = Node::asking();
        node.advertise(1800, 86_400, 86_400);
        node.pass(1);
        let own = node.made().unwrap().address;
        let message = if is_new {
            answer(ROUTER, false)
        } else {
            unasked(ROUTER, PEER_MAC)
        };
        let to = if is_new { own } else { ipv6::ALL_NODES };
        node.advertise_neighbour(to, &message);
        assert!(!has_route(&mut node));
    }
}

/// IP6-40: a gateway that is configured stays one, whatever its answers say.
#[test]
fn configured_gateway_stays_one() {
    let mut node = with_gateway(PEER);
    node.ping(FAR);
    node.advertise_neighbour(STACK, &answer(PEER, false));
    assert!(has_route(&mut node));
    let mut node = with_gateway(ROUTER);
    node.advertise_neighbour(ipv6::ALL_NODES, &unasked(ROUTER, OTHER_MAC));
    assert!(has_route(&mut node));
}

/// IP6-41: "The sender MUST return ICMP destination unreachable indications with code 3 [...] for each packet queued awaiting address
/// resolution" (RFC 4861, 7.2.2).
#[test]
fn socket_is_told_of_a_neighbour_that_does_not_answer() {
    // The second datagram is sent in fragments.
    for len in [10, 2000] {
        let mut node = Node::new();
        let socket = node.bind(1000);
        node.send_datagram(socket, PEER, len);
        node.pass(20);
        let now = node.now;
        let mut active = node.stack.at(now, &mut node.pool);
        assert_eq!(active.udp_receive(socket), Err(Error::WouldBlock));
        node.pass(20);
        let now = node.now;
        let mut active = node.stack.at(now, &mut node.pool);
        assert_eq!(active.udp_receive(socket), Err(Error::Unreachable));
        assert_eq!(active.udp_receive(socket), Err(Error::WouldBlock));
    }
}

/// IP6-42: who asks without naming its link address is answered: "a node will first have to use Neighbor Discovery to determine the
/// link-layer address of its neighbor" (RFC 4861, 7.2.4).
#[test]
fn solicitation_without_a_link_address_is_answered() {
    let mut node = Node::new();
    let solicitation = Solicitation {
        target: STACK,
        source_link: None,
        nonce: None,
    };
    let mut message = [0; MAX_LEN];
    let len = solicitation.emit(&mut message);
    let sent = node.inject_icmp((PEER, STACK), 255, &message[..len]);
    let question = Solicitation::parse(&sent[0].payload).unwrap();
    assert_eq!((sent.len(), question.target), (1, PEER));
    let mut message = [0; MAX_LEN];
    let len = answer(PEER, false).emit(&mut message);
    let sent = node.inject_icmp((PEER, STACK), 255, &message[..len]);
    let told = Advertisement::parse(&sent[0].payload).unwrap();
    assert_eq!((sent[0].link, sent[0].header.hop_limit), (PEER_MAC, 255));
    assert_eq!((told.target, told.solicited), (STACK, true));
}

/// The link address that an echo request to the neighbour goes to after another one has taken over.
fn after_fail_over(node: &mut Node) -> MacAddr {
    let advertisement = Advertisement {
        overrides: true,
        ..unasked(PEER, OTHER_MAC)
    };
    node.advertise_neighbour(ipv6::ALL_NODES, &advertisement);
    let sent = node.ping(PEER);
    let is_echo = |packet: &&Packet| packet.payload[0] == 128;
    sent.iter().find(is_echo).unwrap().link
}

/// IP6-43: an advertisement with the override flag changes the link address (RFC 4861, 7.2.5), a second after the neighbour was heard:
/// also where it was heard before the first tick, and where routers have said a long reachable time then.
#[test]
fn override_counts_whenever_the_neighbour_was_heard() {
    let mut node = Node::new();
    node.ping(PEER);
    node.advertise_neighbour(STACK, &answer(PEER, false));
    node.pass(600);
    assert_eq!(after_fail_over(&mut node), OTHER_MAC);
    let mut node = Node::with(Ipv6 {
        address: Some((STACK, 64)),
        duplicate_checks: 0,
        ..Ipv6::default()
    });
    let reachable = |node: &mut Node, ms: u32| {
        let mut message = vec![134, 0, 0, 0, 50, 0, 7, 8];
        message.extend([ms.to_be_bytes(), [0; 4]].concat());
        node.inject_icmp((ROUTER, ipv6::ALL_NODES), 255, &message);
        node.pass(2);
    };
    reachable(&mut node, 3_600_000);
    node.ping(PEER);
    node.advertise_neighbour(STACK, &answer(PEER, false));
    reachable(&mut node, 30_000);
    node.pass(600);
    assert_eq!(after_fail_over(&mut node), OTHER_MAC);
}
