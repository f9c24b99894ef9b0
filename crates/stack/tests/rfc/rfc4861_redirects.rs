//! RFC 4861, 8: redirects.

use super::node::{Node, PEER, ROUTER, STACK};
use super::peer::PEER_MAC;
use std::net::Ipv6Addr;
use tollgate_stack::State;
use tollgate_stack::counters::Drop;
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::ipv6;

const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
const BETTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
const BETTER_MAC: MacAddr = MacAddr([2, 0x77, 0, 0, 0, 1]);

fn message(target: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![137, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    message.extend(destination.octets());
    message.extend([2, 1]);
    message.extend(BETTER_MAC.0);
    message
}

/// IP6-18: a redirect changes the first hop of its destination, for datagrams and for connections, and of no other (RFC 4861,
/// 8.3).
#[test]
fn redirect_changes_one_destination() {
    let (mut node, own) = Node::routed(true);
    let now = node.now;
    let mut active = node.stack.at(now, &mut node.pool);
    active.connect((FAR, 7)).unwrap();
    assert_eq!(node.poll()[0].link, PEER_MAC);
    assert_eq!(node.way_to(FAR), PEER_MAC);
    node.inject_icmp((ROUTER, own), 255, &message(BETTER, FAR));
    assert_eq!(node.way_to(FAR), BETTER_MAC);
    // The SYN is sent again, to the better one.
    let sent = node.pass(20);
    let syn = sent.iter().find(|packet| packet.header.next_header == 6);
    assert_eq!(syn.unwrap().link, BETTER_MAC);
    let other = Ipv6Addr::from_bits(FAR.to_bits() + 1);
    assert_eq!(node.way_to(other), PEER_MAC);
    // What a router says again leaves it as it is.
    node.advertise(1800, 86_400, 86_400);
    node.pass(1);
    assert_eq!(node.way_to(FAR), BETTER_MAC);
}

/// IP6-18: the destination itself is named where it is on the link (RFC 4861, 8.1).
#[test]
fn destination_on_the_link_is_a_neighbour() {
    let (mut node, own) = Node::routed(true);
    node.inject_icmp((ROUTER, own), 255, &message(FAR, FAR));
    assert_eq!(node.way_to(FAR), BETTER_MAC);
}

/// IP6-27: redirects that are not from the first hop, or have passed a router, or name what they must not, are discarded (RFC
/// 4861, 8.1), and all are where they are off.
#[test]
fn redirects_that_are_not_valid_change_nothing() {
    let (mut node, own) = Node::routed(true);
    let from_another = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 8);
    let right = message(BETTER, FAR);
    let to_a_host = message(PEER, FAR);
    let of_a_group = message(BETTER, ipv6::ALL_NODES);
    let mut with_code = right.clone();
    with_code[1] = 1;
    let mut cut = right.clone();
    cut.truncate(39);
    let mut empty_option = right.clone();
    empty_option[41] = 0;
    let ours = (ROUTER, own);
    let cases = [
        (ours, 254, &right),
        ((from_another, own), 255, &right),
        ((PEER, own), 255, &right),
        ((ROUTER, ipv6::ALL_NODES), 255, &right),
        (ours, 255, &to_a_host),
        (ours, 255, &of_a_group),
        (ours, 255, &with_code),
        (ours, 255, &cut),
        (ours, 255, &empty_option),
    ];
    for (n, (ends, hop_limit, message)) in cases.into_iter().enumerate() {
        node.inject_icmp(ends, hop_limit, message);
        assert_eq!(node.stack.counters().drops(Drop::Malformed), n as u64 + 1);
        assert_eq!(node.way_to(FAR), PEER_MAC);
    }
    // The one that is redirected from is not asked any more.
    node.inject_icmp(ours, 255, &right);
    node.inject_icmp(ours, 255, &message(from_another, FAR));
    assert_eq!(node.way_to(FAR), BETTER_MAC);
    let (mut node, own) = Node::routed(false);
    node.inject_icmp((ROUTER, own), 255, &right);
    assert_eq!(node.way_to(FAR), PEER_MAC);
    // Nor is one that names ourselves.
    let (mut node, own) = Node::routed(true);
    node.inject_icmp((ROUTER, own), 255, &message(own, own));
    assert_ne!(own, STACK);
    assert_eq!(node.way_to(FAR), PEER_MAC);
}

/// IP6-28: where the better first hop does not answer, the router serves again (RFC 4861, 7.3.3).
#[test]
fn redirect_to_nobody_is_undone() {
    let (mut node, own) = Node::routed(true);
    let mut redirect = message(BETTER, FAR);
    redirect.truncate(40);
    node.inject_icmp((ROUTER, own), 255, &redirect);
    let now = node.now;
    let mut active = node.stack.at(now, &mut node.pool);
    let conn = active.connect((FAR, 7)).unwrap();
    // Its link address is asked for three times.
    node.pass(35);
    assert_eq!(node.way_to(FAR), PEER_MAC);
    let sent = node.pass(60);
    let syn = sent.iter().find(|packet| packet.header.next_header == 6);
    assert_eq!(syn.unwrap().link, PEER_MAC);
    let now = node.now;
    let active = node.stack.at(now, &mut node.pool);
    assert_eq!(active.state(conn), State::SynSent);
}
