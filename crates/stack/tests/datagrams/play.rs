//! A host with sockets, the wire that it is at, and the script that both follow.

#[path = "../sim/random.rs"]
#[expect(dead_code, reason = "others need the rest")]
mod random;

pub use random::Random;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tollgate_checksum::{Partial, sum_header};
use tollgate_link::Side;
use tollgate_link::memory::Memory;
use tollgate_stack::config::{
    ChecksumPolicy, HeaderTemplate, Ipv6, LanEvidence, Mechanisms, Prediction,
};
use tollgate_stack::counters::{HandshakeMiss, Miss};
use tollgate_stack::link::Link;
use tollgate_stack::udp::UdpId;
use tollgate_stack::{Config, Error, Event, Instant, Pool, Route, SocketChecksums, Stack};
use tollgate_wire::bpdu::{self, BRIDGE_GROUP, Bpdu, Configuration, Time};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmp::{self, Unreachable};
use tollgate_wire::icmpv6::{self, Discovery};
use tollgate_wire::ndp::{self, Advertisement, Solicitation};
use tollgate_wire::{arp, ipv4, ipv6, udp};

pub const MTU: usize = 1500;
pub const OWN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
pub const OTHER_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
pub const OWN_V6: Ipv6Addr = v6(1);
pub const SECOND_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
pub const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xfe);
/// Ports that sockets may have.
pub const PORTS: [u16; 4] = [7, 8, 9, 53];

pub const fn v6(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n)
}

/// Hosts that datagrams go to and come from.
pub const HOSTS: [IpAddr; 11] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    IpAddr::V4(OTHER_ROUTER),
    IpAddr::V4(Ipv4Addr::new(10, 0, 1, 7)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)),
    IpAddr::V6(v6(2)),
    IpAddr::V6(v6(3)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 7)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9)),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 255)),
    IpAddr::V4(Ipv4Addr::new(224, 0, 0, 5)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 5)),
];

/// Addresses that frames come for.
pub const TARGETS: [IpAddr; 6] = [
    IpAddr::V4(OWN),
    IpAddr::V4(SECOND),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 255)),
    IpAddr::V6(OWN_V6),
    IpAddr::V6(SECOND_V6),
    IpAddr::V6(ipv6::ALL_NODES),
];

/// Settings that differ from run to run of one script.
#[derive(Clone, Copy)]
pub struct Variant {
    pub predicts: bool,
    /// Readers post their buffers.
    pub posts: bool,
    /// Some datagrams are left unread, so that queues fill.
    pub lazy: bool,
}

/// Outcome of a run, which is compared.
#[derive(Default)]
pub struct Record {
    /// Answers of calls, events, and frames that are sent, in order.
    pub told: Vec<String>,
    /// Datagrams of each socket, and the errors that it is told of.
    pub got: BTreeMap<u16, Vec<String>>,
    pub errors: BTreeMap<u16, Vec<Error>>,
    pub counters: String,
    pub predicted: u64,
}

pub struct Play {
    pub random: Random,
    pub variant: Variant,
    pub stack: Stack,
    pub pool: Pool,
    pub cable: Memory,
    pub now: Instant,
    pub sockets: Vec<(u16, UdpId)>,
    /// Number of times that a neighbour's link address became another.
    pub moves: BTreeMap<IpAddr, u8>,
    /// The last datagrams that were sent over IPv4 and over IPv6.
    pub sent: Option<Vec<u8>>,
    sent_v6: Option<Vec<u8>>,
    pub record: Record,
}

pub fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.between(0, choices.len() as u64 - 1) as usize]
}

pub fn frame(to: MacAddr, from: MacAddr, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    let header = ethernet::Header {
        destination: to,
        source: from,
        ethertype,
    };
    [&header.to_bytes()[..], packet].concat()
}

/// A message of ICMPv6 in its frame.
pub fn icmp_v6(from: MacAddr, ends: (Ipv6Addr, Ipv6Addr), message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let pseudo = ipv6::pseudo_header(ends.0, ends.1, ipv6::protocol::ICMP, message.len() as u32);
    let sum = pseudo + sum_header(&message);
    message[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: message.len() as u16,
        next_header: ipv6::protocol::ICMP,
        hop_limit: 255,
        source: ends.0,
        destination: ends.1,
    };
    let packet = [&header.to_bytes()[..], &message].concat();
    frame(OWN_MAC, from, EtherType::Ipv6, &packet)
}

impl Play {
    pub fn new(seed: u64, variant: Variant) -> Self {
        let mut random = Random::new("datagrams", seed);
        let mut mechanisms = Mechanisms {
            checksum: pick(&mut random, ChecksumPolicy::ALL),
            lan_evidence: pick(&mut random, LanEvidence::ALL),
            ..Mechanisms::DEFAULT
        };
        if !variant.predicts {
            mechanisms.prediction = Prediction::Off;
            mechanisms.template = HeaderTemplate::Off;
        }
        Self::with(mechanisms, random, variant)
    }

    pub fn with(mechanisms: Mechanisms, random: Random, variant: Variant) -> Self {
        let now = Instant::from_nanos(1 << 40);
        let mut cable = Memory::new(MTU);
        let mut config = Config::new(OWN_MAC, OWN, 24, [1, 2, 3, 4]);
        config.gateway = Some(ROUTER);
        config.max_neighbours = 3;
        config.device_queue = 8;
        config.ipv6 = Some(Ipv6 {
            address: Some((OWN_V6, 64)),
            duplicate_checks: 0,
            ..Ipv6::default()
        });
        config.mechanisms = mechanisms;
        let config = config.for_link(&mut cable.end(Side::A));
        Self {
            random,
            variant,
            stack: Stack::new(config, MTU, now).unwrap(),
            pool: Pool::new(96, 2048),
            cable,
            now,
            sockets: Vec::new(),
            moves: BTreeMap::new(),
            sent: None,
            sent_v6: None,
            record: Record::default(),
        }
    }

    pub fn tell(&mut self, what: std::fmt::Arguments<'_>) {
        let mut line = String::new();
        write!(line, "{} {what}", self.now.as_nanos()).unwrap();
        self.record.told.push(line);
    }

    /// The link address of a neighbour.
    pub fn mac(&self, ip: IpAddr) -> MacAddr {
        let moves = self.moves.get(&ip).copied().unwrap_or(0);
        let last = match ip {
            IpAddr::V4(ip) => u32::from(ip) as u16,
            IpAddr::V6(ip) => ip.segments()[7] ^ ip.segments()[2] << 8,
        };
        let [a, b] = last.to_be_bytes();
        MacAddr([2, 1, moves, u8::from(ip.is_ipv6()), a, b])
    }

    pub fn inject(&mut self, bytes: &[u8]) {
        let mut burst: Vec<_> = self.pool.frame_from(bytes).into_iter().collect();
        self.cable.end(Side::B).transmit(&mut self.pool, &mut burst);
        for lost in burst {
            self.pool.release(lost.id);
        }
    }

    /// Lets the stack work, reads, and answers what it asks.
    pub fn turn(&mut self) {
        let reader = pick(&mut self.random, &PORTS);
        let reads = !self.variant.lazy || !self.random.one_in(3);
        let mut buffer = vec![0; 4096];
        let mut link = self.cable.end(Side::A);
        let posted = self.sockets.iter().find(|(port, _)| *port == reader);
        let mut active = self.stack.at(self.now, &mut self.pool);
        match posted {
            Some(&(port, id)) if self.variant.posts => {
                match active.udp_poll_receive(&mut link, id, &mut buffer) {
                    Ok((ends, len)) => {
                        let got = format!("{ends:?} {:?}", &buffer[..len]);
                        self.record.got.entry(port).or_default().push(got);
                    }
                    Err(Error::WouldBlock) => {}
                    Err(error) => self.record.errors.entry(port).or_default().push(error),
                }
            }
            _ => active.poll(&mut link),
        }
        while let Some(event) = active.next_event() {
            // A reader that has posted a buffer is told nothing of what went there.
            if let Event::Datagrams { token, .. } = event
                && !self.variant.posts
                && self.variant.lazy
            {
                self.record.told.push(format!("event of {token}"));
            }
        }
        for &(port, id) in &self.sockets {
            if !reads {
                continue;
            }
            loop {
                match active.udp_receive_ends_into(id, &mut buffer) {
                    Ok((ends, len)) => {
                        let got = format!("{ends:?} {:?}", &buffer[..len]);
                        self.record.got.entry(port).or_default().push(got);
                    }
                    Err(Error::WouldBlock) => break,
                    Err(error) => self.record.errors.entry(port).or_default().push(error),
                }
            }
        }
        for bytes in self.sent() {
            self.hear(&bytes);
        }
    }

    /// Polls, and takes what the stack has sent.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut active = self.stack.at(self.now, &mut self.pool);
        active.poll(&mut self.cable.end(Side::A));
        let mut out = Vec::new();
        self.cable.end(Side::B).receive(&mut self.pool, &mut out);
        let bytes = out.iter().map(|frame| self.pool.frame(frame).to_vec());
        let bytes = bytes.collect();
        for frame in out {
            self.pool.release(frame.id);
        }
        bytes
    }

    /// A frame that the stack has sent.
    pub fn hear(&mut self, bytes: &[u8]) {
        self.tell(format_args!("{bytes:02x?}"));
        let packet = &bytes[ethernet::HEADER_LEN..];
        if let Ok(asked) = arp::Packet::parse(packet) {
            if asked.operation == arp::Operation::Request && !self.random.one_in(4) {
                self.advertise(asked.target_ip.into());
            }
        } else if packet[0] == 0x45 && packet[9] == ipv4::protocol::UDP && packet.len() >= 28 {
            self.sent = Some(packet.to_vec());
        } else if packet[0] >> 4 == 6 && packet[6] == ipv6::protocol::UDP {
            self.sent_v6 = Some(packet.to_vec());
        } else if packet[0] >> 4 == 6
            && packet[6] == ipv6::protocol::ICMP
            && let Some(message) = packet.get(ipv6::HEADER_LEN..)
            && message[0] == Discovery::NeighbourSolicitation.number()
            && let Ok(asked) = Solicitation::parse(message)
            && !self.random.one_in(4)
        {
            self.advertise(asked.target.into());
        }
    }

    /// A neighbour says its link address.
    pub fn advertise(&mut self, ip: IpAddr) {
        let mac = self.mac(ip);
        let bytes = match ip {
            IpAddr::V4(ip) => {
                let packet = arp::Packet {
                    operation: arp::Operation::Reply,
                    sender_mac: mac,
                    sender_ip: ip,
                    target_mac: OWN_MAC,
                    target_ip: OWN,
                };
                frame(OWN_MAC, mac, EtherType::Arp, &packet.to_bytes())
            }
            IpAddr::V6(ip) => {
                let advertisement = Advertisement {
                    router: ip == ROUTER_V6,
                    solicited: self.random.one_in(2),
                    overrides: self.random.one_in(2),
                    target: ip,
                    target_link: Some(mac),
                };
                let mut message = [0; ndp::MAX_LEN];
                let len = advertisement.emit(&mut message);
                icmp_v6(mac, (ip, OWN_V6), &message[..len])
            }
        };
        self.inject(&bytes);
    }

    /// A router advertises itself, or that it is none.
    pub fn advertise_router(&mut self) {
        let hop_limit = pick(&mut self.random, &[0, 17, 64]);
        let lifetime: u16 = pick(&mut self.random, &[0, 3, 1800]);
        let mut message = vec![
            Discovery::RouterAdvertisement.number(),
            0,
            0,
            0,
            hop_limit,
            0,
        ];
        message.extend(lifetime.to_be_bytes());
        message.extend([0; 8]);
        message.extend([1, 1]);
        let mac = self.mac(ROUTER_V6.into());
        message.extend(mac.0);
        let bytes = icmp_v6(mac, (ROUTER_V6, ipv6::ALL_NODES), &message);
        self.inject(&bytes);
    }

    /// A datagram from another host, whole or with something wrong.
    pub fn datagram(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let mut target = pick(random, &TARGETS[..]);
        if random.one_in(2) {
            target = pick(random, &[OWN.into(), OWN_V6.into()]);
        }
        let mut source = pick(random, &HOSTS);
        while source.is_ipv4() != target.is_ipv4() {
            source = pick(random, &HOSTS);
        }
        if random.one_in(20) {
            source = target;
        }
        let ports = (pick(random, &PORTS), pick(random, &PORTS));
        let len = pick(random, &[0, 1, 3, 12, 64, 200, 1400, 1452]);
        let payload: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        let udp_len = (udp::HEADER_LEN + len) as u16;
        let no_checksum = random.one_in(8);
        let mut datagram = udp::Header {
            source_port: ports.0,
            destination_port: ports.1,
            len: udp_len,
            no_checksum,
        }
        .to_bytes()
        .to_vec();
        datagram.extend(payload);
        // What lies behind the datagram in its packet is nobody's.
        let behind = if random.one_in(16) { 4 } else { 0 };
        let pseudo = match (source, target) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                ipv4::pseudo_header(a, b, ipv4::protocol::UDP, udp_len)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                ipv6::pseudo_header(a, b, ipv6::protocol::UDP, udp_len.into())
            }
            _ => Partial::ZERO,
        };
        if !no_checksum {
            let sum = match (pseudo + sum_header(&datagram)).finish().to_ne_bytes() {
                [0, 0] => [0xff, 0xff],
                sum => sum,
            };
            datagram[6..8].copy_from_slice(&sum);
        }
        datagram.extend(vec![0xee; behind]);
        let (ethertype, mut packet) = match (source, target) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let flags_and_offset = match random.between(0, 19) {
                    0 => ipv4::MORE_FRAGMENTS,
                    1 => pick(random, &[3, 0x100]),
                    2..10 => ipv4::DONT_FRAGMENT,
                    _ => 0,
                };
                let mut header = ipv4::Header {
                    header_len: 20,
                    tos: pick(random, &[0, 0, 3, 0xb8]),
                    total_len: (ipv4::HEADER_LEN + datagram.len()) as u16,
                    identification: random.next() as u16,
                    flags_and_offset,
                    ttl: 64,
                    protocol: ipv4::protocol::UDP,
                    source,
                    destination,
                }
                .to_bytes()
                .to_vec();
                if random.one_in(16) {
                    // An option that is none.
                    header[0] = 0x46;
                    header[2..4].copy_from_slice(&(24 + datagram.len() as u16).to_be_bytes());
                    header.extend([1, 1, 1, 0]);
                    header[10..12].fill(0);
                    let sum = sum_header(&header).finish();
                    header[10..12].copy_from_slice(&sum.to_ne_bytes());
                }
                (EtherType::Ipv4, header)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = ipv6::Header {
                    traffic_class: pick(random, &[0, 0, 3]),
                    flow_label: random.between(0, 0xfffff) as u32,
                    payload_len: datagram.len() as u16,
                    next_header: ipv6::protocol::UDP,
                    hop_limit: 64,
                    source,
                    destination,
                };
                (EtherType::Ipv6, header.to_bytes().to_vec())
            }
            _ => unreachable!("both are of one version"),
        };
        packet.extend(datagram);
        if random.one_in(10) {
            let at = random.between(0, packet.len() as u64 - 1) as usize;
            packet[at] ^= 1 << random.between(0, 7);
        }
        if random.one_in(12) {
            let len = random.between(0, packet.len() as u64) as usize;
            packet.truncate(len);
        }
        if random.one_in(4) {
            // An Ethernet frame is padded.
            packet.resize(packet.len().max(46), 0);
        }
        let to = pick(
            random,
            &[
                OWN_MAC,
                OWN_MAC,
                OWN_MAC,
                OWN_MAC,
                MacAddr::BROADCAST,
                MacAddr([2; 6]),
            ],
        );
        let from = self.mac(source);
        frame(to, from, ethertype, &packet)
    }

    /// An error of ICMP about the last datagram that was sent.
    pub fn unreachable(&mut self) {
        let Some(sent) = &self.sent else {
            return;
        };
        let what = pick(&mut self.random, &[Unreachable::Port, Unreachable::Host]);
        let header = icmp::Message::DestinationUnreachable(what).to_bytes();
        let mut message = [&header[..], &sent[..28]].concat();
        message[2..4].fill(0);
        let sum = sum_header(&message).finish();
        message[2..4].copy_from_slice(&sum.to_ne_bytes());
        let header = ipv4::Header {
            header_len: 20,
            tos: 0,
            total_len: (ipv4::HEADER_LEN + message.len()) as u16,
            identification: 0,
            flags_and_offset: 0,
            ttl: 64,
            protocol: ipv4::protocol::ICMP,
            source: ROUTER,
            destination: OWN,
        };
        let packet = [&header.to_bytes()[..], &message].concat();
        let bytes = frame(OWN_MAC, self.mac(ROUTER.into()), EtherType::Ipv4, &packet);
        self.inject(&bytes);
    }

    /// A segment of TCP for nobody.
    pub fn segment(&mut self) {
        let mut segment = vec![0; 20];
        segment[..4].copy_from_slice(&[0, 9, 0, 9]);
        segment[12..14].copy_from_slice(&[0x50, 2]);
        let source = Ipv4Addr::new(10, 0, 0, 2);
        let pseudo = ipv4::pseudo_header(source, OWN, ipv4::protocol::TCP, 20);
        let sum = (pseudo + sum_header(&segment)).finish();
        segment[16..18].copy_from_slice(&sum.to_ne_bytes());
        let header = ipv4::Header {
            header_len: 20,
            tos: 0,
            total_len: 40,
            identification: 0,
            flags_and_offset: 0,
            ttl: 64,
            protocol: ipv4::protocol::TCP,
            source,
            destination: OWN,
        };
        let packet = [&header.to_bytes()[..], &segment].concat();
        let bytes = frame(OWN_MAC, self.mac(source.into()), EtherType::Ipv4, &packet);
        self.inject(&bytes);
    }

    /// A path of IPv6 takes only shorter packets, or goes another way: a router says so of what was sent there.
    pub fn change_path(&mut self) {
        let Some(sent) = self.sent_v6.clone() else {
            return;
        };
        let router = self.mac(ROUTER_V6.into());
        let mut message = if self.random.one_in(2) {
            let mtu = icmpv6::Message::PacketTooBig { mtu: 1280 };
            mtu.to_bytes().to_vec()
        } else {
            // The destination is a neighbour itself.
            let redirect = [Discovery::Redirect.number(), 0, 0, 0, 0, 0, 0, 0];
            [&redirect[..], &sent[24..40], &sent[24..40]].concat()
        };
        if message[0] != Discovery::Redirect.number() {
            message.extend(&sent[..sent.len().min(1_000)]);
        }
        let bytes = icmp_v6(router, (ROUTER_V6, OWN_V6), &message);
        self.inject(&bytes);
    }

    /// Opens a connection, which enters its destination over IPv6, and gives it up at times.
    pub fn connect(&mut self) {
        let host = pick(&mut self.random, &HOSTS[4..8]);
        let aborts = self.random.one_in(2);
        let mut active = self.stack.at(self.now, &mut self.pool);
        let result = active.connect(SocketAddr::new(host, 80));
        if let Ok(conn) = result
            && aborts
        {
            active.abort(conn).unwrap();
        }
        self.tell(format_args!("connect to {host}: {result:?}"));
    }

    /// A host announces that it is on the same LAN.
    pub fn announce(&mut self) {
        let ip = pick(&mut self.random, &HOSTS[..3]);
        let mac = self.mac(ip);
        let unit = Bpdu::Configuration(Configuration {
            message_age: Time::seconds(21),
            max_age: Time::seconds(20),
            ..Configuration::default()
        });
        let mut bytes = [0; bpdu::MAX_LEN];
        let len = unit.emit(&mut bytes);
        let ethertype = EtherType::Other(len as u16);
        let bytes = frame(BRIDGE_GROUP, mac, ethertype, &bytes[..len]);
        self.inject(&bytes);
    }

    pub fn send(&mut self) {
        let random = &mut self.random;
        let Some(&(port, id)) = self.sockets.first() else {
            return;
        };
        // Few destinations and many: templates are kept, and places are taken by others.
        let most = pick(random, &[1, 2, HOSTS.len()]);
        let host = pick(random, &HOSTS[..most]);
        let host = if most == 1 && random.one_in(2) {
            HOSTS[4]
        } else {
            host
        };
        let to = SocketAddr::new(host, pick(random, &PORTS[..2]));
        let local = match random.between(0, 9) {
            0 => Some(SECOND.into()),
            1 => Some(SECOND_V6.into()),
            2 => Some(OWN.into()),
            _ => None,
        };
        let len = pick(
            random,
            &[0, 1, 64, 64, 64, 548, 549, 1452, 1453, 1472, 1473, 3000],
        );
        let payload: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        let mut active = self.stack.at(self.now, &mut self.pool);
        let result = match local {
            Some(local) => active.udp_send_from(id, local, to, &payload),
            None => active.udp_send(id, to, &payload),
        };
        self.tell(format_args!("{port} to {to} from {local:?}: {result:?}"));
    }

    /// Opens, closes or changes a socket; the one that is named sends until the next.
    pub fn change_socket(&mut self) {
        let port = pick(&mut self.random, &PORTS);
        let at = self.sockets.iter().position(|(known, _)| *known == port);
        let wish = pick(
            &mut self.random,
            &[
                SocketChecksums::Policy,
                SocketChecksums::Keep,
                SocketChecksums::LeaveOut,
            ],
        );
        let closes = self.random.one_in(3);
        let mut active = self.stack.at(self.now, &mut self.pool);
        match at {
            Some(at) if closes => {
                let (_, id) = self.sockets.remove(at);
                active.udp_close(id).unwrap();
            }
            Some(at) => {
                active.udp_set_checksums(self.sockets[at].1, wish).unwrap();
                self.sockets.swap(0, at);
            }
            None => {
                let id = active.udp_bind(port).unwrap();
                active.udp_set_token(id, port.into()).unwrap();
                self.sockets.push((port, id));
            }
        }
    }

    /// Changes addresses, routes or MTU.
    pub fn change_ways(&mut self) {
        let route = Route {
            destination: Ipv4Addr::new(192, 0, 2, 0),
            prefix_len: 24,
            gateway: Some(OTHER_ROUTER),
        };
        let what = self.random.between(0, 9);
        let broadcast = HOSTS[8];
        let mac = self.mac(broadcast);
        let mtu = pick(&mut self.random, &[576, 1500]);
        let mut active = self.stack.at(self.now, &mut self.pool);
        let result = match what {
            0 => active.remove_address(SECOND),
            1 => active.remove_address(OWN),
            2 => active.set_mtu(mtu),
            3 => active.add_ipv6_address(SECOND_V6, 64),
            4 => self.stack.add_route(route),
            5 => self.stack.remove_route(route),
            6 => self.stack.add_address(SECOND, 24),
            7 => {
                active.add_neighbour(broadcast, mac);
                Ok(())
            }
            _ => self.stack.add_address(OWN, 24),
        };
        self.tell(format_args!("change {what}: {result:?}"));
    }

    pub fn step(&mut self) {
        match self.random.between(0, 45) {
            0..16 => {
                for _ in 0..self.random.between(1, 4) {
                    self.send();
                }
            }
            16..28 => {
                for _ in 0..self.random.between(1, 4) {
                    let bytes = self.datagram();
                    self.inject(&bytes);
                }
            }
            28..31 => {
                let ip = pick(&mut self.random, &HOSTS[..8]);
                *self.moves.entry(ip).or_default() ^= 1;
                self.advertise(ip);
            }
            31 => self.advertise_router(),
            32 => self.unreachable(),
            33 => self.segment(),
            34 | 35 => self.change_socket(),
            36 => self.change_ways(),
            37..39 => self.connect(),
            39..42 => self.change_path(),
            42 => self.announce(),
            _ => {
                let nanos = [
                    1_000,
                    1_000_000,
                    700_000_000,
                    6_000_000_000,
                    70_000_000_000,
                    1_150_000_000_000,
                ];
                let passed = Duration::from_nanos(pick(&mut self.random, &nanos));
                self.now = self.now + passed;
            }
        }
        self.turn();
        self.now = self.now + Duration::from_micros(self.random.between(0, 50));
    }

    pub fn play(mut self, steps: u32) -> Record {
        for port in &PORTS[..2] {
            let mut active = self.stack.at(self.now, &mut self.pool);
            let id = active.udp_bind(*port).unwrap();
            active.udp_set_token(id, u64::from(*port)).unwrap();
            self.sockets.push((*port, id));
        }
        for _ in 0..steps {
            self.step();
        }
        let mut compared = *self.stack.counters();
        self.record.predicted = compared.predicted_datagrams;
        compared.predicted_datagrams = 0;
        compared.predicted_handshakes = 0;
        compared.cache_misses = 0;
        compared.misses = [0; Miss::COUNT];
        compared.handshake_misses = [0; HandshakeMiss::COUNT];
        self.record.counters = format!("{compared:?}");
        self.record
    }
}
