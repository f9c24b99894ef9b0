//! A host on a wire, to which packets of IPv6 are sent one at a time.

use super::peer::{PEER_MAC, STACK_MAC};
use std::net::{Ipv4Addr, Ipv6Addr};
use tollgate_checksum::sum_header;
use tollgate_link::Side;
use tollgate_link::memory::Memory;
use tollgate_stack::config::Ipv6;
use tollgate_stack::ipv6::OwnAddress;
use tollgate_stack::udp::UdpId;
use tollgate_stack::{Config, ConnId, Instant, Link, Pool, Stack};
use tollgate_wire::SeqNumber;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmpv6::Message;
use tollgate_wire::ipv6::{self, protocol};
use tollgate_wire::ndp::{Advertisement, MAX_LEN, Solicitation};
use tollgate_wire::tcp::{self, Flags, Options};

pub(super) const STACK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(super) const PEER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
pub(super) const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);

const HOP_BY_HOP: u8 = 0;

/// A packet of IPv6 that was sent.
pub(super) struct Packet {
    pub(super) link: MacAddr,
    pub(super) header: ipv6::Header,
    pub(super) payload: Vec<u8>,
}

impl Packet {
    pub(super) fn icmp(&self) -> Message {
        assert_eq!(self.header.next_header, protocol::ICMP);
        Message::parse(&self.payload).unwrap()
    }
}

/// One stack, and the wire that it hangs on.
pub(super) struct Node {
    pub(super) stack: Stack,
    pub(super) pool: Pool,
    pub(super) cable: Memory,
    pub(super) now: Instant,
    /// Reports of groups, which are left out of what is sent.
    pub(super) reports: Vec<Packet>,
}

impl Node {
    pub(super) fn with(ipv6: Ipv6) -> Self {
        let mut config = Config::new(STACK_MAC, Ipv4Addr::new(10, 0, 0, 1), 24, [1, 2, 3, 4]);
        config.mechanisms = super::mechanisms();
        config.ipv6 = Some(ipv6);
        let now = Instant::from_nanos(1 << 40);
        Self {
            stack: Stack::new(config, 1500, now).unwrap(),
            pool: Pool::new(256, 2048),
            cable: Memory::new(1500),
            now,
            reports: Vec::new(),
        }
    }

    /// A host with an address that is taken untried.
    pub(super) fn new() -> Self {
        Self::with(Ipv6 {
            address: Some((STACK, 64)),
            duplicate_checks: 0,
            router_advertisements: false,
            ..Ipv6::default()
        })
    }

    pub(super) fn tried() -> Self {
        Self::with(Ipv6 {
            address: Some((STACK, 64)),
            router_advertisements: false,
            ..Ipv6::default()
        })
    }

    /// A host that makes its addresses of what routers advertise.
    pub(super) fn asking() -> Self {
        Self::with(Ipv6 {
            duplicate_checks: 0,
            ..Ipv6::default()
        })
    }

    /// A host with a router to what is elsewhere, and the address that it sends there from.
    pub(super) fn routed(redirects: bool) -> (Self, Ipv6Addr) {
        let mut node = Self::with(Ipv6 {
            duplicate_checks: 0,
            redirects,
            ..Ipv6::default()
        });
        node.advertise(1800, 86_400, 86_400);
        node.pass(1);
        let own = node.made().unwrap().address;
        (node, own)
    }

    /// Packets that an echo request to somebody has sent, itself the last where the way is known.
    pub(super) fn ping(&mut self, to: Ipv6Addr) -> Vec<Packet> {
        let now = self.now;
        let mut active = self.stack.at(now, &mut self.pool);
        active.ping(to, 1, 1, b"").unwrap();
        self.poll()
    }

    /// The link address that an echo request to somebody goes to.
    pub(super) fn way_to(&mut self, to: Ipv6Addr) -> MacAddr {
        self.ping(to).last().unwrap().link
    }

    /// A socket on this port.
    pub(super) fn bind(&mut self, port: u16) -> UdpId {
        let now = self.now;
        self.stack.at(now, &mut self.pool).udp_bind(port).unwrap()
    }

    /// Sends a datagram of `len` bytes of payload to port 9 of somebody; says what packets it makes.
    pub(super) fn send_datagram(&mut self, socket: UdpId, to: Ipv6Addr, len: usize) -> Vec<Packet> {
        let now = self.now;
        let mut active = self.stack.at(now, &mut self.pool);
        active.udp_send(socket, (to, 9), &vec![0; len]).unwrap();
        self.poll()
    }

    /// A connection that the peer has opened from port 1000, and the number of the first byte that it is sent.
    pub(super) fn accepted(&mut self, port: u16) -> (ConnId, SeqNumber) {
        let now = self.now;
        let mut active = self.stack.at(now, &mut self.pool);
        let listener = active.listen(port, 4).unwrap();
        let mut header = Self::segment(port, Flags::SYN);
        header.options.mss = Some(1440);
        let sent = self.inject_tcp(&header);
        let answer = tcp::Header::parse(&sent[0].payload).unwrap();
        header = Self::segment(port, Flags::ACK);
        header.ack = answer.seq + 1;
        self.inject_tcp(&header);
        let mut active = self.stack.at(now, &mut self.pool);
        (active.accept(listener).unwrap(), header.ack)
    }

    /// The header of a segment from the peer's port 1000: its SYN, or one of no bytes behind that.
    pub(super) fn segment(port: u16, flags: Flags) -> tcp::Header {
        tcp::Header {
            source_port: 1000,
            destination_port: port,
            flags,
            window: 60_000,
            seq: SeqNumber(u32::from(!flags.has(Flags::SYN))),
            ack: SeqNumber(0),
            header_len: 20,
            urgent: 0,
            accurate_ecn: false,
            options: Options::default(),
        }
    }

    pub(super) fn mss(&mut self, conn: ConnId) -> u16 {
        let now = self.now;
        let active = self.stack.at(now, &mut self.pool);
        active.info(conn).unwrap().mss
    }

    /// Injects a neighbour's advertisement of itself, which is solicited where it is `to` a single host.
    pub(super) fn advertise_neighbour(&mut self, to: Ipv6Addr, advertisement: &Advertisement) {
        let mut message = [0; MAX_LEN];
        let len = advertisement.emit(&mut message);
        let ends = (advertisement.target, to);
        self.inject_icmp(ends, 255, &message[..len]);
    }

    /// Injects a router's advertisement with a lifetime of half an hour and these options.
    pub(super) fn advertise_router(&mut self, router: Ipv6Addr, options: &[u8]) {
        let mut message = vec![134, 0, 0, 0, 50, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        message.extend(options);
        self.inject_icmp((router, ipv6::ALL_NODES), 255, &message);
    }

    /// Injects a packet behind its fixed header; says what is sent then.
    pub(super) fn inject(
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
    pub(super) fn inject_icmp(
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

    /// Injects a segment without payload from the peer.
    pub(super) fn inject_tcp(&mut self, header: &tcp::Header) -> Vec<Packet> {
        let mut segment = [0; tcp::MAX_HEADER_LEN];
        let len = header.emit(&mut segment);
        let sum = ipv6::pseudo_header(PEER, STACK, protocol::TCP, len as u32)
            + sum_header(&segment[..len]);
        segment[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
        self.inject((PEER, STACK), (protocol::TCP, 64), &segment[..len])
    }

    pub(super) fn poll(&mut self) -> Vec<Packet> {
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
            let packet = Packet {
                link: link.destination,
                header,
                payload: bytes[54..54 + usize::from(header.payload_len)].to_vec(),
            };
            if header.next_header == HOP_BY_HOP {
                self.reports.push(packet);
            } else {
                packets.push(packet);
            }
            self.pool.release(frame.id);
        }
        packets
    }

    /// Lets time pass in steps of a tenth of a second; says what is sent.
    pub(super) fn pass(&mut self, tenths: u32) -> Vec<Packet> {
        let mut all = Vec::new();
        for _ in 0..tenths {
            self.now = Instant::from_nanos(self.now.as_nanos() + 100_000_000);
            all.extend(self.poll());
        }
        all
    }

    pub(super) fn solicit(
        &mut self,
        source: Ipv6Addr,
        target: Ipv6Addr,
        hop_limit: u8,
    ) -> Vec<Packet> {
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
    pub(super) fn know_peer(&mut self) {
        let now = self.now;
        let mut active = self.stack.at(now, &mut self.pool);
        active.add_neighbour(PEER, PEER_MAC);
    }

    pub(super) fn own(&self, address: Ipv6Addr) -> Option<OwnAddress> {
        self.stack
            .ipv6_addresses()
            .find(|own| own.address == address)
    }

    pub(super) fn advertise(&mut self, lifetime: u16, valid: u32, preferred: u32) {
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
    pub(super) fn made(&self) -> Option<OwnAddress> {
        self.stack
            .ipv6_addresses()
            .find(|own| own.address.segments()[3] == 5)
    }
}
