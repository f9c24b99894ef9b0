//! One stack between an application and a wire that both do what the input says, with mechanisms that it says as well.
//!
//! Whatever they do, nothing panics, handles and tables stay within their bounds, and when the application has let go
//! of everything, every connection ends and every frame comes back to the pool.
#![no_main]

#[path = "../../crates/stack/tests/sim/craft.rs"]
mod craft;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use tollgate_checksum::sum_header;
use tollgate_link::Side;
use tollgate_link::memory::Memory;
use tollgate_stack::config::{Ipv6, Mechanisms};
use tollgate_stack::link::Integrity;
use tollgate_stack::socket::KeepAlive;
use tollgate_stack::udp::UdpId;
use tollgate_stack::{
    Active, Config, ConnId, FrameId, Instant, Link, ListenerId, Open, Pool, SocketOption, Stack,
};
use tollgate_wire::SeqNumber;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::ipv6::{self, Fragment, protocol};
use tollgate_wire::mld;
use tollgate_wire::tcp::{
    AccurateEcn, FastOpenCookie, Flags, Header, MAX_HEADER_LEN, Options, SackBlock, SackBlocks,
    Timestamps,
};

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const THEM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const US_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const THEM_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const THEIR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PORT: u16 = 7;
const FRAMES: usize = 64;
/// More mechanisms than there are.
const MECHANISMS: usize = 32;
/// Steps of the clock until everything has ended: the longest timeouts in those of a list of timers.
const STEPS_TO_THE_END: u32 = 20_000;

#[derive(Debug, Arbitrary)]
struct Setup {
    timestamps: bool,
    scaling: bool,
    /// The value of each mechanism.
    mechanisms: [u8; MECHANISMS],
    device_queue: u8,
    mtu: u16,
    small_buffers: bool,
    ipv6: bool,
    routers: bool,
    /// The listener takes data in SYNs (RFC 7413).
    fast_open: bool,
}

/// What a segment has beside its numbers.
#[derive(Debug, Arbitrary)]
struct Extras {
    /// It goes over IPv6.
    ipv6: bool,
    /// AE, CWR and ECE, and the codepoint of its packet.
    ecn: u8,
    codepoint: u8,
    counters: Option<(u32, u32, u32)>,
    /// Blocks, from so far behind the acknowledgment on, with a length.
    blocks: Vec<(i16, i16)>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    /// Anything on the wire.
    Frame(Vec<u8>),
    Ethernet(bool, Vec<u8>),
    Ip {
        from: u8,
        protocol: u8,
        id: u8,
        flags_and_offset: u16,
        payload: Vec<u8>,
    },
    Icmp {
        head: [u8; 8],
        data: Vec<u8>,
    },
    /// A packet of IPv6, to us or to a group, from somebody, with its protocol.
    IpV6 {
        to: u8,
        from: u8,
        next: u8,
        hop_limit: u8,
        payload: Vec<u8>,
    },
    /// A message of ICMPv6 with its checksum, at times behind a router alert, as neighbours and routers send them.
    IcmpV6 {
        to: u8,
        from: u8,
        alert: bool,
        message: Vec<u8>,
    },
    /// A part of a packet of IPv6.
    FragmentV6 {
        id: u8,
        next: u8,
        offset: u8,
        more: bool,
        part: Vec<u8>,
    },
    Syn {
        port: u8,
        mss: Option<u16>,
        scale: Option<u8>,
        stamp: Option<u32>,
        checksum: Option<u8>,
        sack: bool,
        /// A cookie of eight bytes, that of the last answer, or the request for one.
        cookie: Option<u8>,
        len: u8,
        extras: Extras,
    },
    /// A segment that goes with the last one that the stack sent to a port.
    Answer {
        to: u8,
        flags: u8,
        seq: i16,
        ack: i16,
        window: u16,
        stamp: Option<i8>,
        len: u16,
        /// It carries empty checksum data, and has no checksum.
        checksum: (bool, bool),
        extras: Extras,
    },
    Connect,
    ConnectV6(u8),
    ConnectWithData(bool, u16),
    Accept,
    Send(u8, u16),
    SendBuffer(u8, u16),
    Receive(u8, u16),
    ReceiveBuffer(u8),
    PollReceive(u8, u16),
    Shutdown(u8),
    Close(u8),
    Abort(u8),
    Set(u8, u8, u32),
    Ping(u16),
    Udp(u8, u16),
    Take(u8),
    GiveBack,
    Pass(u32),
    Events,
}

struct World {
    stack: Stack,
    pool: Pool,
    cable: Memory,
    now: Instant,
    listener: ListenerId,
    udp: UdpId,
    conns: Vec<ConnId>,
    /// The last segments that the stack sent, each to another port.
    heard: Vec<Header>,
    /// The last cookie that it gave.
    cookie: Option<FastOpenCookie>,
    taken: Vec<FrameId>,
}

/// Somebody, a neighbour or not, and us or a group that we are in.
fn ends_v6(to: u8, from: u8) -> (Ipv6Addr, Ipv6Addr) {
    let source = match from % 4 {
        0 => THEM_V6,
        1 => Ipv6Addr::from_bits(US_V6.to_bits() + 1 + u128::from(from)),
        2 => Ipv6Addr::UNSPECIFIED,
        _ => Ipv6Addr::from_bits(THEM_V6.to_bits() + u128::from(from)),
    };
    let destination = match to % 4 {
        0 | 1 => US_V6,
        2 => ipv6::ALL_NODES,
        _ => ipv6::solicited_node(US_V6),
    };
    (source, destination)
}

fn packet_v6(
    (source, destination): (Ipv6Addr, Ipv6Addr),
    (next_header, hop_limit): (u8, u8),
    payload: &[u8],
) -> Vec<u8> {
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header,
        hop_limit,
        source,
        destination,
    };
    [&header.to_bytes()[..], payload].concat()
}

/// A frame with a segment, whose packet bears a codepoint, over either version of IP.
fn segment(header: &Header, payload: &[u8], extras: &Extras) -> Vec<u8> {
    let mut header = Header {
        accurate_ecn: extras.ecn & 4 != 0,
        flags: Flags(header.flags.0 ^ extras.ecn << 6),
        ..*header
    };
    header.options.accurate_ecn = extras.counters.map(|(ect0, ce, ect1)| AccurateEcn {
        ect0: Some(ect0),
        ce: Some(ce),
        ect1: Some(ect1),
    });
    let service = extras.codepoint & 3;
    if !extras.ipv6 {
        let mut frame = craft::tcp(MAC, THEM, US, &header, payload);
        let packet = &mut frame[ethernet::HEADER_LEN..];
        packet[1] |= service;
        packet[10..12].fill(0);
        let sum = sum_header(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum.to_ne_bytes());
        return frame;
    }
    let mut bytes = [0; MAX_HEADER_LEN];
    let len = header.emit(&mut bytes);
    let mut segment = [&bytes[..len], payload].concat();
    let sum = ipv6::pseudo_header(THEM_V6, US_V6, protocol::TCP, segment.len() as u32)
        + sum_header(&segment);
    segment[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
    let mut packet = packet_v6((THEM_V6, US_V6), (protocol::TCP, 64), &segment);
    // The traffic class lies four bits into the header (RFC 8200, 3).
    packet[1] |= service << 4;
    craft::ethernet(MAC, EtherType::Ipv6, &packet)
}

/// The header of a frame of the stack's, when it is a TCP segment over either version of IP.
fn parse_tcp(frame: &[u8]) -> Option<Header> {
    if let Some((_, header, _)) = craft::parse_tcp(frame) {
        return Some(header);
    }
    let packet = frame.get(ethernet::HEADER_LEN..)?;
    let ip = ipv6::Header::parse(packet).ok()?;
    let segment = packet.get(ipv6::HEADER_LEN..)?;
    let is_tcp = ip.next_header == protocol::TCP;
    is_tcp.then(|| Header::parse(segment).ok()).flatten()
}

fn config(setup: &Setup) -> Config {
    let mut config = Config::new(MAC, US, 24, [1, 2, 3, 4]);
    config.max_connections = 8;
    config.max_time_wait = 4;
    config.max_neighbours = 4;
    config.reassembly_frames = 16;
    config.timestamps = setup.timestamps;
    config.window_scaling = setup.scaling;
    assert!(Mechanisms::SWITCHES.len() <= MECHANISMS);
    for (switch, drawn) in Mechanisms::SWITCHES.iter().zip(setup.mechanisms) {
        let value = switch.values[usize::from(drawn) % switch.values.len()];
        config
            .mechanisms
            .set(switch.name, value)
            .expect("the mechanism has this value");
    }
    config.device_queue = usize::from(setup.device_queue) + 1;
    config.integrity = Integrity::Crc;
    if setup.ipv6 {
        config.ipv6 = Some(Ipv6 {
            address: Some((US_V6, 64)),
            duplicate_checks: 0,
            router_advertisements: setup.routers,
            ..Ipv6::default()
        });
    }
    if setup.small_buffers {
        config.send_buffer = 4096;
        config.receive_buffer = 4096;
    }
    config
}

impl World {
    fn new(setup: &Setup) -> Self {
        let now = Instant::from_nanos(1 << 40);
        // Every link of IPv6 takes packets of 1,280 bytes (RFC 8200, 5).
        let least = if setup.ipv6 { 1280 } else { 68 };
        let mtu = least + usize::from(setup.mtu) % (1768 - least);
        let mut pool = Pool::new(FRAMES, 2048);
        let mut stack = Stack::new(config(setup), mtu, now).expect("the configuration is valid");
        let mut active = stack.at(now, &mut pool);
        let open = Open {
            fast_open: if setup.fast_open { 2 } else { 0 },
            ..Open::default()
        };
        let listener = active
            .listen_with(PORT, 3, &open)
            .expect("the port is free");
        let udp = active.udp_bind(9).expect("the port is free");
        active.add_neighbour(THEM, THEIR_MAC);
        if setup.ipv6 {
            active.add_neighbour(THEM_V6, THEIR_MAC);
        }
        let cable = Memory::new(2000);
        let (conns, heard, taken) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            stack,
            pool,
            cable,
            now,
            listener,
            udp,
            conns,
            heard,
            cookie: None,
            taken,
        }
    }

    fn at(&mut self) -> Active<'_> {
        self.stack.at(self.now, &mut self.pool)
    }

    fn poll(&mut self) {
        self.stack
            .at(self.now, &mut self.pool)
            .poll(&mut self.cable.end(Side::B));
        let mut frames = Vec::new();
        self.cable.end(Side::A).receive(&mut self.pool, &mut frames);
        for frame in frames {
            if let Some(header) = parse_tcp(self.pool.frame(&frame)) {
                self.cookie = header.options.fast_open.or(self.cookie);
                self.heard
                    .retain(|old| old.destination_port != header.destination_port);
                self.heard.push(header);
            }
            self.pool.release(frame.id);
        }
    }

    fn inject(&mut self, octets: &[u8]) {
        if let Ok(frame) = self.pool.frame_from(&octets[..octets.len().min(2048)]) {
            let mut frames = vec![frame];
            self.cable
                .end(Side::A)
                .transmit(&mut self.pool, &mut frames);
            for frame in frames {
                self.pool.release(frame.id);
            }
        }
        self.poll();
    }

    fn inject_v6(&mut self, to: u8, from: u8, (next_header, hop_limit): (u8, u8), payload: &[u8]) {
        let packet = packet_v6(ends_v6(to, from), (next_header, hop_limit), payload);
        self.inject(&craft::ethernet(MAC, EtherType::Ipv6, &packet));
    }

    fn conn(&self, n: u8) -> Option<ConnId> {
        self.conns
            .get(usize::from(n) % self.conns.len().max(1))
            .copied()
    }

    fn pass(&mut self, nanos: u64) {
        self.now = Instant::from_nanos(self.now.as_nanos() + nanos);
        self.poll();
    }

    /// What the stack is asked for may be refused: only that it answers matters.
    fn step(&mut self, step: Step) {
        match step {
            Step::Frame(octets) => self.inject(&octets),
            Step::Ethernet(arp, octets) => {
                let kind = if arp { EtherType::Arp } else { EtherType::Ipv4 };
                self.inject(&craft::ethernet(MAC, kind, &octets));
            }
            Step::Ip {
                from,
                protocol,
                id,
                flags_and_offset,
                payload,
            } => {
                let from = Ipv4Addr::new(10, 0, 0, from);
                let id = u16::from(id);
                self.inject(&craft::ip(
                    MAC,
                    from,
                    US,
                    protocol % 18,
                    id,
                    flags_and_offset,
                    &payload,
                ));
            }
            Step::Icmp { head, data } => self.inject(&craft::icmp(MAC, THEM, US, head, &data)),
            Step::IpV6 {
                to,
                from,
                next,
                hop_limit,
                payload,
            } => self.inject_v6(to, from, (next, hop_limit), &payload),
            Step::IcmpV6 {
                to,
                from,
                alert,
                mut message,
            } => {
                if message.len() < 4 {
                    return;
                }
                message[2..4].fill(0);
                let (source, destination) = ends_v6(to, from);
                let len = message.len() as u32;
                let sum = ipv6::pseudo_header(source, destination, protocol::ICMP, len)
                    + sum_header(&message);
                message[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
                if alert {
                    let payload = [&mld::HOP_BY_HOP[..], &message].concat();
                    self.inject_v6(to, from, (0, 1), &payload);
                } else {
                    self.inject_v6(to, from, (protocol::ICMP, 255), &message);
                }
            }
            Step::FragmentV6 {
                id,
                next,
                offset,
                more,
                part,
            } => {
                let fragment = Fragment {
                    offset: u16::from(offset % 16) * 8,
                    more,
                    identification: u32::from(id % 4),
                };
                let payload = [&fragment.to_bytes(next)[..], &part].concat();
                self.inject_v6(0, id / 4, (protocol::FRAGMENT, 64), &payload);
            }
            Step::Syn {
                port,
                mss,
                scale,
                stamp,
                checksum,
                sack,
                cookie,
                len,
                extras,
            } => {
                let fast_open = cookie.and_then(|kind| match kind % 3 {
                    0 => Some(FastOpenCookie::REQUEST),
                    1 => Some(FastOpenCookie::of_eight([kind; 8])),
                    _ => self.cookie,
                });
                let options = Options {
                    sack_permitted: sack,
                    fast_open,
                    mss,
                    window_scale: scale,
                    timestamps: stamp.map(|value| Timestamps { value, echo: 0 }),
                    // Mostly the number that the stack knows.
                    alternate_checksum: checksum.map(|number| number % 5),
                    ..Options::default()
                };
                let from = 1000 + u16::from(port % 16);
                let header = craft::header(
                    from,
                    PORT,
                    Flags::SYN,
                    SeqNumber(u32::from(port) << 24),
                    SeqNumber(0),
                );
                let header = Header { options, ..header };
                self.inject(&segment(&header, &vec![1; usize::from(len)], &extras));
            }
            Step::Answer {
                to,
                flags,
                seq,
                ack,
                window,
                stamp,
                len,
                checksum: (confirms, unsummed),
                extras,
            } => {
                let Some(last) = self
                    .heard
                    .get(usize::from(to) % self.heard.len().max(1))
                    .copied()
                else {
                    return;
                };
                let near = |number: SeqNumber, by: i16| {
                    // Mostly exact.
                    let by = if by % 4 == 0 {
                        i32::from(by / 4)
                    } else {
                        i32::from(by.signum())
                    };
                    SeqNumber(number.0.wrapping_add_signed(by))
                };
                let length =
                    u32::from(last.flags.has(Flags::SYN)) + u32::from(last.flags.has(Flags::FIN));
                let stamps = last.options.timestamps.and_then(|theirs| {
                    stamp.map(|by| Timestamps {
                        value: theirs.echo.wrapping_add_signed(i32::from(by)),
                        echo: theirs.value,
                    })
                });
                let mut sack = SackBlocks::NONE;
                for &(from, len) in extras.blocks.iter().take(4) {
                    let behind = last.seq.0.wrapping_add(length);
                    let start = behind.wrapping_add_signed(from.into());
                    sack.push(SackBlock {
                        start: SeqNumber(start),
                        end: SeqNumber(start.wrapping_add_signed(len.into())),
                    });
                }
                let header = Header {
                    window,
                    options: Options {
                        timestamps: stamps,
                        empty_checksum_data: confirms,
                        sack: (!extras.blocks.is_empty()).then_some(sack),
                        ..Options::default()
                    },
                    ..craft::header(
                        last.destination_port,
                        last.source_port,
                        Flags(flags),
                        near(last.ack, seq),
                        near(last.seq + length, ack),
                    )
                };
                let mut frame = segment(&header, &vec![1; usize::from(len % 1500)], &extras);
                if unsummed {
                    let to_tcp = if extras.ipv6 { 54 } else { 34 };
                    frame[to_tcp + 16..to_tcp + 18].fill(0);
                }
                self.inject(&frame);
            }
            Step::Connect => {
                if let Ok(conn) = self.at().connect(SocketAddrV4::new(THEM, 80)) {
                    self.conns.push(conn);
                }
            }
            Step::ConnectV6(host) => {
                let to = Ipv6Addr::from_bits(THEM_V6.to_bits() + u128::from(host % 4));
                if let Ok(conn) = self.at().connect(SocketAddr::new(to.into(), 80)) {
                    self.conns.push(conn);
                }
            }
            Step::ConnectWithData(over_ipv6, len) => {
                let to: SocketAddr = match over_ipv6 {
                    true => (THEM_V6, 80).into(),
                    false => (THEM, 80).into(),
                };
                let data = vec![1; usize::from(len) % 4096];
                let opened = self.at().connect_with_data(to, &Open::default(), &data);
                if let Ok((conn, _)) = opened {
                    self.conns.push(conn);
                }
            }
            Step::Accept => {
                let listener = self.listener;
                let accepted = self.at().accept(listener);
                self.conns.extend(accepted);
            }
            other => self.call(other),
        }
    }

    fn call(&mut self, step: Step) {
        let mut buffer = [0; 2048];
        match step {
            Step::Send(n, len) => {
                if let Some(conn) = self.conn(n) {
                    let _ = self.at().send(conn, &buffer[..usize::from(len) % 2048]);
                }
            }
            Step::SendBuffer(n, len) => {
                let Some(conn) = self.conn(n) else { return };
                let Ok(buffer) = self.pool.buffer(usize::from(len) % 1800) else {
                    return;
                };
                if let Err((_, buffer)) = self.at().send_buffer(conn, buffer) {
                    self.pool.free(buffer);
                }
            }
            Step::Receive(n, len) => {
                if let Some(conn) = self.conn(n) {
                    let _ = self
                        .at()
                        .receive(conn, &mut buffer[..usize::from(len) % 2048]);
                }
            }
            Step::ReceiveBuffer(n) => {
                let Some(conn) = self.conn(n) else { return };
                if let Ok(Some(buffer)) = self.at().receive_buffer(conn) {
                    self.pool.free(buffer);
                }
            }
            Step::PollReceive(n, len) => {
                if let Some(conn) = self.conn(n) {
                    let end = &mut self.cable.end(Side::B);
                    let mut stack = self.stack.at(self.now, &mut self.pool);
                    let _ = stack.poll_receive(end, conn, &mut buffer[..usize::from(len) % 2048]);
                }
            }
            Step::Shutdown(n) => {
                if let Some(conn) = self.conn(n) {
                    let _ = self.at().shutdown(conn);
                }
            }
            Step::Close(n) => {
                if let Some(conn) = self.conn(n) {
                    let _ = self.at().close(conn);
                    self.conns.retain(|&other| other != conn);
                }
            }
            Step::Abort(n) => {
                if let Some(conn) = self.conn(n) {
                    let _ = self.at().abort(conn);
                    self.conns.retain(|&other| other != conn);
                }
            }
            Step::Set(n, which, value) => {
                let Some(conn) = self.conn(n) else { return };
                // A connection may wait as long as its user said: at most twenty minutes.
                let time = std::time::Duration::from_millis(u64::from(value) % 1_200_000);
                let option = match which % 4 {
                    0 => SocketOption::NoDelay(value % 2 == 0),
                    1 => SocketOption::SendBuffer(value),
                    2 => SocketOption::KeepAlive(Some(KeepAlive {
                        idle: time,
                        interval: time,
                        count: which,
                    })),
                    _ => SocketOption::UserTimeout(Some(time)),
                };
                let _ = self.at().set_option(conn, option);
            }
            Step::Ping(len) => {
                let _ = self.at().ping(THEM, 1, 2, &vec![0; usize::from(len)]);
            }
            Step::Udp(host, len) => {
                let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 9);
                let udp = self.udp;
                let _ = self.at().udp_send(udp, to, &vec![0; usize::from(len)]);
                let _ = self.at().udp_receive(udp);
            }
            Step::Take(frames) => {
                for _ in 0..frames % 64 {
                    self.taken.extend(self.pool.alloc());
                }
            }
            Step::GiveBack => self.taken.drain(..).for_each(|id| self.pool.release(id)),
            Step::Pass(micros) => self.pass(u64::from(micros) * 1000),
            _ => while self.at().next_event().is_some() {},
        }
        self.poll();
    }

    fn check(&mut self) {
        if let Err(found) = self.stack.check_consistency(&self.pool) {
            panic!("{found}");
        }
        assert!(self.stack.connections() <= 8);
        assert!(self.stack.time_waits() <= 4);
        for &conn in &self.conns.clone() {
            if let Ok(info) = self.at().info(conn) {
                assert!(info.in_flight <= 1 << 30, "{info:?}");
                assert!(info.unsent <= 1 << 31, "{info:?}");
                assert!(info.receive_window <= 1 << 30, "{info:?}");
            }
        }
    }

    /// Lets go of everything and waits: nothing may be left.
    fn end(mut self) {
        self.taken.drain(..).for_each(|id| self.pool.release(id));
        for conn in std::mem::take(&mut self.conns) {
            let _ = self.at().abort(conn);
        }
        let listener = self.listener;
        self.at()
            .close_listener(listener)
            .expect("the listener is open");
        let end = self.now.as_nanos() + 3_600_000_000_000;
        for _ in 0..STEPS_TO_THE_END {
            self.poll();
            let Some(next) = self.stack.next_deadline(self.now) else {
                break;
            };
            if next.as_nanos() > end {
                break;
            }
            self.now = Instant::from_nanos(next.as_nanos().max(self.now.as_nanos() + (1 << 20)));
        }
        self.poll();
        assert_eq!(self.stack.connections(), 0);
        assert_eq!(self.stack.time_waits(), 0);
        self.cable.drain(&mut self.pool);
        assert_eq!(self.pool.available(), FRAMES);
    }
}

fuzz_target!(|input: (Setup, Vec<Step>)| {
    let (setup, steps) = input;
    let mut world = World::new(&setup);
    for step in steps {
        world.step(step);
        world.check();
    }
    world.end();
});
