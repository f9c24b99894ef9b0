//! Two stacks with a middlebox between them that may do what it likes to each frame, in virtual time.

use super::wire::{MTU, Wire};
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_checksum::sum_header;
use tollgate_stack::config::{ChecksumPolicy, LanEvidence};
use tollgate_stack::link::Integrity;
use tollgate_stack::{
    Active, Checksums, Config, ConnId, Instant, ListenerId, Open, Pool, Received, Stack,
};
use tollgate_wire::ethernet::{self, MacAddr};
use tollgate_wire::ipv4;
use tollgate_wire::tcp::{Flags, Header, MAX_HEADER_LEN};

/// The client's place in [`Net::hosts`], and the server's.
pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;
/// The port that the server listens on.
pub const PORT: u16 = 7;
/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;

/// Middlebox: gets the host that sent a frame and the frame, and returns what arrives at the other.
pub type Middle<'m> = &'m mut dyn FnMut(usize, Vec<u8>) -> Vec<Vec<u8>>;

/// One host.
pub struct Host {
    pub stack: Stack,
    pub pool: Pool,
    pub wire: Wire,
}

/// Both hosts, the time, and what they have sent.
pub struct Net {
    pub hosts: [Host; 2],
    pub now: Instant,
    /// TCP segments without a checksum that each has sent, and all.
    pub unsummed: [u64; 2],
    pub segments: [u64; 2],
}

/// A host on a link that guards its frames, with a policy.
pub fn config(host: usize, policy: ChecksumPolicy) -> Config {
    let mut config = Config::new(mac(host), address(host), 24, [host as u64 + 1, 2, 3, 4]);
    config.integrity = Integrity::Crc;
    config.mechanisms.checksum = policy;
    config
}

/// A host with redundancy avoidance.
pub fn willing(host: usize) -> Config {
    config(host, ChecksumPolicy::RedundancyAvoidance)
}

/// A host with redundancy avoidance that believes announcements only.
pub fn doubting(host: usize) -> Config {
    let mut config = willing(host);
    config.mechanisms.lan_evidence = LanEvidence::SpanningTree;
    config
}

/// A host as it was before redundancy avoidance.
pub fn old(host: usize) -> Config {
    config(host, ChecksumPolicy::Always)
}

pub const fn mac(host: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, host as u8 + 1])
}

pub const fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host as u8 + 1)
}

/// Nothing between the hosts but a cable.
pub fn cable(_: usize, frame: Vec<u8>) -> Vec<Vec<u8>> {
    vec![frame]
}

impl Net {
    pub fn new(client: Config, server: Config) -> Self {
        let now = Instant::from_nanos(1 << 40);
        let host = |config| Host {
            stack: Stack::new(config, MTU, now).expect("the configuration is valid"),
            pool: Pool::new(512, Pool::frame_size_for(MTU)),
            wire: Wire::default(),
        };
        Self {
            hosts: [host(client), host(server)],
            now,
            unsummed: [0; 2],
            segments: [0; 2],
        }
    }

    pub fn at(&mut self, host: usize) -> Active<'_> {
        let Host { stack, pool, .. } = &mut self.hosts[host];
        stack.at(self.now, pool)
    }

    pub fn poll(&mut self, host: usize) {
        let Host { stack, pool, wire } = &mut self.hosts[host];
        stack.at(self.now, pool).poll(wire);
        stack
            .check_consistency(pool)
            .expect("the stack is consistent");
    }

    /// Polls both until nothing moves.
    pub fn settle(&mut self, middle: Middle<'_>) {
        for _ in 0..2000 {
            let mut moved = false;
            for host in [CLIENT, SERVER] {
                self.poll(host);
                let frames = std::mem::take(&mut self.hosts[host].wire.from_stack);
                for frame in frames {
                    moved = true;
                    if let Some((header, _)) = tcp_of(&frame) {
                        self.segments[host] += 1;
                        let unsummed = frame[TCP + 16..TCP + 18] == [0, 0];
                        self.unsummed[host] += u64::from(unsummed);
                        let opens_or_resets = header.flags.any(Flags::SYN | Flags::RST);
                        assert!(
                            !(unsummed && opens_or_resets),
                            "{:?} without a checksum",
                            header.flags
                        );
                        if !unsummed {
                            assert!(is_summed(&frame), "a wrong checksum was sent");
                        }
                    }
                    let arriving = middle(host, frame);
                    self.hosts[1 - host].wire.to_stack.extend(arriving);
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the hosts never fall silent");
    }

    /// Lets time pass from deadline to deadline.
    pub fn pass(&mut self, nanos: u64, middle: Middle<'_>) {
        let end = self.now.as_nanos() + nanos;
        self.settle(middle);
        loop {
            let next = self
                .hosts
                .iter()
                .filter_map(|host| host.stack.next_deadline(self.now))
                .min();
            let at = next.map_or(end, |next| next.as_nanos().max(self.now.as_nanos() + MS));
            self.now = Instant::from_nanos(at.min(end));
            self.settle(middle);
            if at >= end {
                return;
            }
        }
    }

    pub fn listen(&mut self, open: &Open<'_>) -> ListenerId {
        self.at(SERVER)
            .listen_with(PORT, 8, open)
            .expect("the port is free")
    }

    pub fn open(&mut self, open: &Open<'_>) -> ConnId {
        let to = SocketAddrV4::new(address(SERVER), PORT);
        self.at(CLIENT)
            .connect_with(to, open)
            .expect("a port is free")
    }

    /// A connection of two hosts, the client's handle first. Losses are made up for by timers.
    pub fn connect(&mut self, middle: Middle<'_>) -> [ConnId; 2] {
        let listener = self.listen(&Open::default());
        self.connect_to(listener, &Open::default(), middle)
    }

    pub fn connect_to(
        &mut self,
        listener: ListenerId,
        open: &Open<'_>,
        middle: Middle<'_>,
    ) -> [ConnId; 2] {
        let client = self.open(open);
        self.settle(middle);
        for _ in 0..100 {
            if let Ok(server) = self.at(SERVER).accept(listener) {
                return [client, server];
            }
            self.pass(100 * MS, middle);
        }
        panic!("no connection comes about");
    }

    /// Sends `data` from one end to the other, whatever it takes, and returns what arrived.
    pub fn carry(
        &mut self,
        conns: [ConnId; 2],
        from: usize,
        data: &[u8],
        middle: Middle<'_>,
    ) -> Vec<u8> {
        let mut sent = 0;
        let mut arrived = Vec::new();
        let mut buffer = [0; 4096];
        for turn in 0..5000 {
            if sent < data.len()
                && let Ok(taken) = self.at(from).send(conns[from], &data[sent..])
            {
                sent += taken;
            }
            self.settle(middle);
            while let Ok(Received::Data(len)) =
                self.at(1 - from).receive(conns[1 - from], &mut buffer)
            {
                arrived.extend_from_slice(&buffer[..len]);
            }
            if arrived.len() == data.len() {
                self.settle(middle);
                return arrived;
            }
            if turn > 4 {
                self.pass(20 * MS, middle);
            }
        }
        panic!("{} of {} bytes arrived", arrived.len(), data.len());
    }

    /// Requests and responses, every byte compared.
    pub fn talk(&mut self, conns: [ConnId; 2], rounds: usize, middle: Middle<'_>) {
        for round in 0..rounds {
            for from in [CLIENT, SERVER] {
                let data = pattern(200 + 37 * round, round as u8);
                assert_eq!(
                    self.carry(conns, from, &data, middle),
                    data,
                    "round {round}"
                );
            }
        }
    }

    pub fn checksums(&mut self, conns: [ConnId; 2]) -> [Checksums; 2] {
        [CLIENT, SERVER].map(|host| {
            self.at(host)
                .info(conns[host])
                .expect("it is open")
                .checksums
        })
    }

    /// Packets that each host has dropped for a wrong checksum, and retransmission timeouts.
    pub fn trouble(&self) -> [(u64, u64); 2] {
        [CLIENT, SERVER].map(|host| {
            let counters = self.hosts[host].stack.counters();
            let dropped = counters.drops(tollgate_stack::counters::Drop::Checksum);
            (dropped, counters.timeouts)
        })
    }
}

/// The place where TCP's header lies in a frame without IP options.
pub const TCP: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;

/// Header and payload of a TCP segment.
pub fn tcp_of(frame: &[u8]) -> Option<(Header, Vec<u8>)> {
    let packet = frame.get(ethernet::HEADER_LEN..)?;
    let ip = ipv4::Header::parse(packet).ok()?;
    if ip.protocol != ipv4::protocol::TCP {
        return None;
    }
    let segment = &packet[usize::from(ip.header_len)..usize::from(ip.total_len)];
    let header = Header::parse(segment).ok()?;
    let payload = segment[usize::from(header.header_len)..].to_vec();
    Some((header, payload))
}

fn sum_of(ip: &ipv4::Header, segment: &[u8]) -> tollgate_checksum::Partial {
    let len = segment.len() as u16;
    ipv4::pseudo_header(ip.source, ip.destination, ip.protocol, len) + sum_header(segment)
}

/// Tells whether a segment's checksum is right.
pub fn is_summed(frame: &[u8]) -> bool {
    let packet = &frame[ethernet::HEADER_LEN..];
    let ip = ipv4::Header::parse(packet).expect("an IP packet");
    sum_of(&ip, &packet[ipv4::HEADER_LEN..usize::from(ip.total_len)]).is_valid()
}

/// A segment with another header, as a middlebox makes it: checksums are right, and left out where they were.
pub fn rewritten(frame: &[u8], change: impl FnOnce(&mut Header)) -> Vec<u8> {
    let (mut header, payload) = tcp_of(frame).expect("a TCP segment");
    let unsummed = frame[TCP + 16..TCP + 18] == [0, 0];
    change(&mut header);
    let mut ip = ipv4::Header::parse(&frame[ethernet::HEADER_LEN..]).expect("an IP packet");
    let mut head = [0; MAX_HEADER_LEN];
    let len = header.emit(&mut head);
    let mut segment = [&head[..len], &payload].concat();
    ip.total_len = (ipv4::HEADER_LEN + segment.len()) as u16;
    if !unsummed {
        let sum = sum_of(&ip, &segment).finish();
        segment[16..18].copy_from_slice(&sum.to_ne_bytes());
    }
    [&frame[..ethernet::HEADER_LEN], &ip.to_bytes(), &segment].concat()
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) ^ (i >> 8) as u8)
        .collect()
}
