//! RFC 9777 (3810), RFC 2710: what a host tells multicast routers and switches of the groups that it listens to.

use super::node::{Node, Packet, ROUTER, STACK};
use std::net::Ipv6Addr;
use tollgate_checksum::sum_header;
use tollgate_stack::counters::Drop;
use tollgate_wire::ipv6::{self, protocol};
use tollgate_wire::mld;

const JOINS: u8 = 4;
const LISTENS: u8 = 2;
const LEAVES: u8 = 3;

/// Kinds and groups of a report's records.
fn records(report: &Packet) -> Vec<(u8, Ipv6Addr)> {
    assert_eq!(report.header.destination, mld::ALL_LISTENING_ROUTERS);
    assert_eq!(report.link, ipv6::multicast_mac(mld::ALL_LISTENING_ROUTERS));
    let message = checked(report);
    assert_eq!(message[0], mld::REPORT);
    let count = usize::from(u16::from_be_bytes([message[6], message[7]]));
    let (records, rest) = message[8..].as_chunks::<20>();
    assert_eq!((records.len(), rest), (count, &[][..]));
    let group = |record: &[u8; 20]| Ipv6Addr::from(*record[4..].first_chunk::<16>().unwrap());
    records
        .iter()
        .inspect(|record| assert_eq!(record[1..4], [0; 3]))
        .map(|record| (record[0], group(record)))
        .collect()
}

/// The message, which has a hop limit of 1, a router alert and a right checksum (RFC 9777, 5).
fn checked(report: &Packet) -> &[u8] {
    let header = &report.header;
    assert_eq!((header.next_header, header.hop_limit), (0, 1));
    let (alert, message) = report.payload.split_at(8);
    assert_eq!(alert, mld::HOP_BY_HOP);
    let len = message.len() as u32;
    let pseudo = ipv6::pseudo_header(header.source, header.destination, protocol::ICMP, len);
    assert!((pseudo + sum_header(message)).is_valid());
    message
}

/// A query that is answered within so many milliseconds: for a group, or for all.
fn query(group: Ipv6Addr, millis: u16, len: usize) -> Vec<u8> {
    let mut message = vec![mld::QUERY, 0, 0, 0];
    message.extend(millis.to_be_bytes());
    message.extend([0, 0]);
    message.extend(group.octets());
    message.resize(len, 0);
    message
}

impl Node {
    /// Injects a query with or without what makes it valid.
    fn ask(&mut self, source: Ipv6Addr, (alert, hop_limit): (&[u8], u8), message: &[u8]) {
        let mut message = message.to_vec();
        let to = ipv6::ALL_NODES;
        let len = message.len() as u32;
        let sum = ipv6::pseudo_header(source, to, protocol::ICMP, len) + sum_header(&message);
        message[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
        let next = if alert.is_empty() { protocol::ICMP } else { 0 };
        let payload = [alert, &message].concat();
        assert!(
            self.inject((source, to), (next, hop_limit), &payload)
                .is_empty()
        );
    }

    fn ask_rightly(&mut self, message: &[u8]) {
        self.ask(ROUTER, (&mld::HOP_BY_HOP, 1), message);
    }

    /// Reports of so many tenths of a second.
    fn reported(&mut self, tenths: u32) -> Vec<Packet> {
        self.reports.clear();
        self.pass(tenths);
        std::mem::take(&mut self.reports)
    }
}

/// IP6-19: the group of an address is joined before the address is tried, from the unspecified address while there is no other,
/// and that is told twice (RFC 9777, 5.2.13 and 6.1; RFC 4862, 5.4.2).
#[test]
fn group_is_joined_before_its_address_is_tried() {
    let mut node = Node::tried();
    let reports = node.reported(1);
    assert_eq!(reports.len(), 1);
    assert!(reports[0].header.source.is_unspecified());
    let link_local = node.stack.ipv6_addresses().next().unwrap().address;
    let both = [link_local, STACK].map(|own| (JOINS, ipv6::solicited_node(own)));
    assert_eq!(records(&reports[0]), both);
    let reports = node.reported(50);
    let again: Vec<_> = reports
        .iter()
        .filter(|report| report.header.source.is_unspecified())
        .flat_map(records)
        .collect();
    assert_eq!(again.len(), 2);
    assert!(both.iter().all(|record| again.contains(record)));
    // All nodes' group is not told of (RFC 9777, 6).
    assert!(again.iter().all(|&(_, group)| group != ipv6::ALL_NODES));
}

/// IP6-44: "Once a valid link-local address is available, a node SHOULD generate new MLDv2 Report messages for all multicast
/// addresses joined on the interface" (RFC 9777, 5.2.14).
#[test]
fn groups_are_told_again_from_the_link_local_address() {
    let mut node = Node::tried();
    let reports = node.reported(100);
    let (before, from_ours): (Vec<_>, Vec<_>) = reports
        .iter()
        .partition(|report| report.header.source.is_unspecified());
    assert!(!before.is_empty());
    let told: Vec<_> = from_ours.into_iter().flat_map(records).collect();
    for own in node.stack.ipv6_addresses() {
        assert!(told.contains(&(JOINS, ipv6::solicited_node(own.address))));
    }
}

/// IP6-29: the code is "Initialized to zero by the sender; ignored by receivers" (RFC 9777, 5.1.1).
#[test]
fn code_of_a_query_is_ignored() {
    let mut node = Node::new();
    node.pass(20);
    let mut message = query(Ipv6Addr::UNSPECIFIED, 0, 28);
    message[1] = 1;
    node.ask_rightly(&message);
    assert_eq!(node.reported(2).len(), 1);
}

/// IP6-29: queries are answered once, within the time that they name, from the link-local address (RFC 9777, 6.2).
#[test]
fn queries_are_answered() {
    let mut node = Node::new();
    node.pass(20);
    let group = ipv6::solicited_node(STACK);
    for _ in 0..5 {
        node.ask_rightly(&query(Ipv6Addr::UNSPECIFIED, 1000, 28));
    }
    let reports = node.reported(11);
    assert_eq!(reports.len(), 1);
    assert!(reports[0].header.source.is_unicast_link_local());
    let told = records(&reports[0]);
    assert_eq!(told.len(), 2);
    assert!(told.contains(&(LISTENS, group)));
    node.ask_rightly(&query(group, 100, 28));
    let reports = node.reported(3);
    assert_eq!(records(&reports[0]), [(LISTENS, group)]);
    // For a group that we are not in, and for all nodes.
    node.ask_rightly(&query(ipv6::ALL_NODES, 0, 28));
    node.ask_rightly(&query(ipv6::solicited_node(ROUTER), 0, 28));
    assert!(node.reported(20).is_empty());
}

/// IP6-30: queries that no router of the link has sent are discarded (RFC 9777, 6.2).
#[test]
fn queries_from_elsewhere_are_discarded() {
    let mut node = Node::new();
    node.pass(20);
    let message = query(Ipv6Addr::UNSPECIFIED, 0, 28);
    let far = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
    node.ask(far, (&mld::HOP_BY_HOP, 1), &message);
    node.ask(ROUTER, (&mld::HOP_BY_HOP, 64), &message);
    node.ask(ROUTER, (&[], 1), &message);
    node.ask_rightly(&query(Ipv6Addr::UNSPECIFIED, 0, 26));
    assert!(node.reported(20).is_empty());
    assert_eq!(node.stack.counters().drops(Drop::Malformed), 4);
}

/// IP6-31: a querier of version 1 is told by version 1 (RFC 9777, 8.2.1).
#[test]
fn older_querier_is_told_by_its_version() {
    let mut node = Node::new();
    node.pass(20);
    let group = ipv6::solicited_node(STACK);
    node.ask_rightly(&query(group, 0, 24));
    let reports = node.reported(2);
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].header.destination, group);
    let message = checked(&reports[0]);
    assert_eq!((message[0], message.len()), (mld::REPORT_V1, 24));
    assert_eq!(message[8..], group.octets());
    // Five minutes later it is gone.
    node.pass(3000);
    node.ask_rightly(&query(group, 0, 28));
    let reports = node.reported(2);
    assert_eq!(records(&reports[0]), [(LISTENS, group)]);
}

/// IP6-19: the group of an address that has ended is left (RFC 9777, 6.1).
#[test]
fn group_is_left_with_its_address() {
    let mut node = Node::asking();
    node.advertise(1800, 4, 2);
    let reports = node.reported(30);
    let group = ipv6::solicited_node(node.made().unwrap().address);
    assert!(
        reports
            .iter()
            .flat_map(records)
            .any(|told| told == (JOINS, group))
    );
    let reports = node.reported(60);
    let told: Vec<_> = reports.iter().flat_map(records).collect();
    assert_eq!(told, [(LEAVES, group); 2]);
}
