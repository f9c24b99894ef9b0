//! RFC 4443, 4861, 4862, 8200, 8201: what a host does with packets of IPv6, one at a time.

use super::peer::{PEER_MAC, STACK_MAC};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tollgate_checksum::sum_header;
use tollgate_link::Side;
use tollgate_link::memory::Memory;
use tollgate_stack::config::Ipv6;
use tollgate_stack::counters::Drop;
use tollgate_stack::ipv6::{AddressState, OwnAddress};
use tollgate_stack::{Config, Instant, Link, Pool, Stack};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmpv6::Message;
use tollgate_wire::ipv6::{self, protocol};
use tollgate_wire::ndp::{Advertisement, MAX_LEN, Solicitation};

const STACK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const PEER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);

/// A packet of IPv6 that was sent.
struct Packet {
    link: MacAddr,
    header: ipv6::Header,
    payload: Vec<u8>,
}

impl Packet {
    fn icmp(&self) -> Message {
        assert_eq!(self.header.next_header, protocol::ICMP);
        Message::parse(&self.payload).unwrap()
    }
}

/// One stack, and the wire that it hangs on.
struct Node {
    stack: Stack,
    pool: Pool,
    cable: Memory,
    now: Instant,
}

impl Node {
    fn with(ipv6: Ipv6) -> Self {
        let mut config = Config::new(STACK_MAC, Ipv4Addr::new(10, 0, 0, 1), 24, [1, 2, 3, 4]);
        config.mechanisms = super::mechanisms();
        config.ipv6 = Some(ipv6);
        let now = Instant::from_nanos(1 << 40);
        Self {
            stack: Stack::new(config, 1500, now).unwrap(),
            pool: Pool::new(256, 2048),
            cable: Memory::new(1500),
            now,
        }
    }

    /// A host with an address that is taken untried.
    fn new() -> Self {
        Self::with(Ipv6 {
            address: Some((STACK, 64)),
            duplicate_checks: 0,
            router_advertisements: false,
            ..Ipv6::default()
        })
    }

    fn tried() -> Self {
        Self::with(Ipv6 {
            address: Some((STACK, 64)),
            router_advertisements: false,
            ..Ipv6::default()
        })
    }

    /// A host that makes its addresses of what routers advertise.
    fn asking() -> Self {
        Self::with(Ipv6 {
            duplicate_checks: 0,
            ..Ipv6::default()
        })
    }

    /// Injects a packet behind its fixed header; says what is sent then.
    fn inject(
        &mut self,
        (source, destination): (Ipv6Addr, Ipv6Addr),
        (next_header, hop_limit): (u8, u8),
        payload: &[u8],
    ) -> Vec<Packet> {
        let header = ipv6::Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: payload.len() as u16,
            next_header,
            hop_limit,
            source,
            destination,
        };
        let link = ethernet::Header {
            destination: if destination.is_multicast() {
                ipv6::multicast_mac(destination)
            } else {
                STACK_MAC
            },
            source: PEER_MAC,
            ethertype: EtherType::Ipv6,
        };
        let bytes = [&link.to_bytes()[..], &header.to_bytes(), payload].concat();
        let frame = self.pool.frame_from(&bytes).unwrap();
        self.cable
            .end(Side::B)
            .transmit(&mut self.pool, &mut vec![frame]);
        self.poll()
    }

    /// Injects a message of ICMPv6 with a right checksum.
    fn inject_icmp(
        &mut self,
        ends: (Ipv6Addr, Ipv6Addr),
        hop_limit: u8,
        message: &[u8],
    ) -> Vec<Packet> {
        let mut message = message.to_vec();
        message[2..4].fill(0);
        let len = message.len() as u32;
        let sum = ipv6::pseudo_header(ends.0, ends.1, protocol::ICMP, len) + sum_header(&message);
        message[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
        self.inject(ends, (protocol::ICMP, hop_limit), &message)
    }

    fn poll(&mut self) -> Vec<Packet> {
        let mut active = self.stack.at(self.now, &mut self.pool);
        active.poll(&mut self.cable.end(Side::A));
        let mut frames = Vec::new();
        self.cable.end(Side::B).receive(&mut self.pool, &mut frames);
        if let Some(arrived) = self.cable.end(Side::B).arrived() {
            frames.append(arrived);
        }
        let mut packets = Vec::new();
        for frame in frames {
            let bytes = self.pool.frame(&frame);
            let link = ethernet::Header::parse(bytes).unwrap();
            assert_eq!(link.ethertype, EtherType::Ipv6);
            let header = ipv6::Header::parse(&bytes[14..]).unwrap();
            packets.push(Packet {
                link: link.destination,
                header,
                payload: bytes[54..54 + usize::from(header.payload_len)].to_vec(),
            });
            self.pool.release(frame.id);
        }
        packets
    }

    /// Lets time pass in steps of a tenth of a second; says what is sent.
    fn pass(&mut self, tenths: u32) -> Vec<Packet> {
        let mut all = Vec::new();
        for _ in 0..tenths {
            self.now = Instant::from_nanos(self.now.as_nanos() + 100_000_000);
            all.extend(self.poll());
        }
        all
    }

    fn solicit(&mut self, source: Ipv6Addr, target: Ipv6Addr, hop_limit: u8) -> Vec<Packet> {
        let solicitation = Solicitation {
            target,
            source_link: (!source.is_unspecified()).then_some(PEER_MAC),
            nonce: None,
        };
        let mut message = [0; MAX_LEN];
        let len = solicitation.emit(&mut message);
        let ends = (source, ipv6::solicited_node(target));
        self.inject_icmp(ends, hop_limit, &message[..len])
    }

    /// The peer's link address becomes known.
    fn know_peer(&mut self) {
        let now = self.now;
        let mut active = self.stack.at(now, &mut self.pool);
        active.add_neighbour(PEER, PEER_MAC);
    }

    fn own(&self, address: Ipv6Addr) -> Option<OwnAddress> {
        self.stack
            .ipv6_addresses()
            .find(|own| own.address == address)
    }

    fn advertise(&mut self, lifetime: u16, valid: u32, preferred: u32) {
        let [high, low] = lifetime.to_be_bytes();
        let mut message = vec![134, 0, 0, 0, 50, 0, high, low, 0, 0, 0, 0, 0, 0, 0, 0];
        message.extend([1, 1]);
        message.extend(PEER_MAC.0);
        message.extend([3, 4, 64, 0xc0]);
        message.extend(valid.to_be_bytes());
        message.extend(preferred.to_be_bytes());
        message.extend([0; 4]);
        message.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, 5, 0, 0, 0, 0).octets());
        self.inject_icmp((ROUTER, ipv6::ALL_NODES), 255, &message);
    }

    /// The address that the advertised prefix has made.
    fn made(&self) -> Option<OwnAddress> {
        self.stack
            .ipv6_addresses()
            .find(|own| own.address.segments()[3] == 5)
    }
}

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
