//! The scripted peer: injects segments, expects segments, lets time pass.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tollgate_checksum::{Kernel, Partial, sum_header};
use tollgate_stack::buffer::RxChecksum;
use tollgate_stack::config::Ecn;
use tollgate_stack::socket::Readiness;
use tollgate_stack::{
    Active, Config, ConnId, Error, Event, Frame, Instant, Link, ListenerId, Pool, Received, Stack,
    State,
};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::tcp::{self, Flags, Header, Options, SackBlock, SackBlocks, Timestamps};
use tollgate_wire::{SeqNumber, arp, ipv4};

/// The stack's address.
pub const STACK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The peer's address.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The stack's link address.
pub const STACK_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The peer's link address.
pub const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The port that the stack listens on, and that the peer is connected to.
pub const PORT: u16 = 7;
/// The peer's MSS in the prepared handshakes.
pub const MSS: u16 = 1000;
/// Time that a timer may be late by: ticks for its rounding, its mark and its poll.
pub const SLACK: Duration = Duration::from_millis(4);

/// A tick of the stack's timers: how much too early a timer may be that was set late in one.
pub const TICK: Duration = Duration::from_nanos(1 << 20);

/// Milliseconds.
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Seconds.
pub const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A segment that is to be injected, or what is expected of one. Sequence and acknowledgment numbers are relative.
#[derive(Clone, Debug)]
pub struct Seg {
    pub flags: Flags,
    pub seq: u32,
    pub ack: u32,
    pub window: Option<u16>,
    pub urgent: u16,
    pub accurate_ecn: bool,
    pub options: Options,
    raw_options: Option<Vec<u8>>,
    pub data: Vec<u8>,
}

fn seg(flags: Flags) -> Seg {
    Seg {
        flags,
        seq: 0,
        ack: 0,
        window: None,
        urgent: 0,
        accurate_ecn: false,
        options: Options::default(),
        raw_options: None,
        data: Vec::new(),
    }
}

/// A SYN.
pub fn syn() -> Seg {
    seg(Flags::SYN)
}

/// A SYN with an acknowledgment.
pub fn syn_ack() -> Seg {
    seg(Flags::SYN | Flags::ACK)
}

/// An acknowledgment, or data.
pub fn ack() -> Seg {
    seg(Flags::ACK)
}

/// A FIN with an acknowledgment.
pub fn fin() -> Seg {
    seg(Flags::FIN | Flags::ACK)
}

/// A RST without an acknowledgment.
pub fn rst() -> Seg {
    seg(Flags::RST)
}

/// A RST with an acknowledgment.
pub fn rst_ack() -> Seg {
    seg(Flags::RST | Flags::ACK)
}

impl Seg {
    pub fn seq(mut self, seq: u32) -> Self {
        self.seq = seq;
        self
    }

    pub fn ack(mut self, ack: u32) -> Self {
        self.ack = ack;
        self
    }

    pub fn win(mut self, window: u16) -> Self {
        self.window = Some(window);
        self
    }

    pub fn flag(mut self, flag: Flags) -> Self {
        self.flags |= flag;
        self
    }

    /// AE, CWR and ECE (RFC 9768, 3.1.1).
    pub fn ecn_bits(mut self, bits: u8) -> Self {
        self.accurate_ecn = bits >> 2 != 0;
        self.flags.0 = self.flags.0 & 0x3f | bits << 6;
        self
    }

    pub fn without(mut self, flag: Flags) -> Self {
        self.flags.0 &= !flag.0;
        self
    }

    pub fn urgent(mut self, pointer: u16) -> Self {
        self.flags |= Flags::URG;
        self.urgent = pointer;
        self
    }

    pub fn mss(mut self, mss: u16) -> Self {
        self.options.mss = Some(mss);
        self
    }

    pub fn scale(mut self, shift: u8) -> Self {
        self.options.window_scale = Some(shift);
        self
    }

    pub fn stamps(mut self, value: u32, echo: u32) -> Self {
        self.options.timestamps = Some(Timestamps { value, echo });
        self
    }

    pub fn sack_permitted(mut self) -> Self {
        self.options.sack_permitted = true;
        self
    }

    /// A selective acknowledgment of these bytes of the stack's, as [`Peer::blocks`] makes them.
    pub fn sack(mut self, blocks: SackBlocks) -> Self {
        self.options.sack = Some(blocks);
        self
    }

    /// Options byte by byte, a multiple of four.
    pub fn raw_options(mut self, bytes: &[u8]) -> Self {
        assert!(
            bytes.len().is_multiple_of(4) && bytes.len() <= 40,
            "options are whole words, at most ten"
        );
        self.raw_options = Some(bytes.to_vec());
        self
    }

    pub fn data(mut self, data: &[u8]) -> Self {
        self.data = data.to_vec();
        self
    }

    /// Bytes of the stream that begins at relative sequence number 1.
    pub fn len(mut self, bytes: usize) -> Self {
        self.data = stream(self.seq, bytes);
        self
    }
}

/// Bytes `seq` and following of the stream that both sides send in these tests.
pub fn stream(seq: u32, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|n| ((seq.wrapping_sub(1) as usize + n) % 251) as u8)
        .collect()
}

/// The stack's link: bytes in, bytes out.
#[derive(Debug, Default)]
struct Wire {
    to_stack: VecDeque<Vec<u8>>,
    from_stack: VecDeque<Vec<u8>>,
    mtu: usize,
    /// Segments arrive as parts of one large frame, and the link vouches for each.
    train: bool,
    /// Questions for the peer's link address are left for the script.
    no_answers: bool,
}

/// The peer's answer to `frame`, when that asks for its link address.
fn arp_answer(frame: &[u8]) -> Option<Vec<u8>> {
    let link = ethernet::Header::parse(frame).ok()?;
    let question = arp::Packet::parse(frame.get(ethernet::HEADER_LEN..)?).ok()?;
    let asked = link.ethertype == EtherType::Arp
        && question.operation == arp::Operation::Request
        && question.target_ip == PEER;
    asked.then(|| arp_reply(PEER_MAC))
}

/// The peer says that its link address is `mac`.
pub fn arp_reply(mac: MacAddr) -> Vec<u8> {
    let link = ethernet::Header {
        destination: STACK_MAC,
        source: mac,
        ethertype: EtherType::Arp,
    };
    let packet = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: mac,
        sender_ip: PEER,
        target_mac: STACK_MAC,
        target_ip: STACK,
    };
    [&link.to_bytes()[..], &packet.to_bytes()].concat()
}

impl Link for Wire {
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            let bytes = pool.frame(&frame).to_vec();
            pool.release(frame.id);
            match arp_answer(&bytes) {
                Some(answer) if !self.no_answers => self.to_stack.push_back(answer),
                _ => self.from_stack.push_back(bytes),
            }
        }
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        while let Some(bytes) = self.to_stack.pop_front() {
            let mut frame = pool
                .frame_from(&bytes)
                .expect("the pool has a frame for what is injected");
            if self.train {
                frame.checksum = if self.to_stack.is_empty() {
                    RxChecksum::Verified
                } else {
                    RxChecksum::VerifiedInTrain
                };
            }
            frames.push(frame);
        }
    }
}

/// A segment that the stack sent, its numbers relative.
#[derive(Clone, Debug)]
pub struct Sent {
    pub header: Header,
    pub ip: ipv4::Header,
    pub seq: u32,
    pub ack: u32,
    pub data: Vec<u8>,
    /// The options as they lie in the header.
    pub raw_options: Vec<u8>,
}

/// The peer, and everything else that there is: one stack, its pool, the wire and the time.
pub struct Peer {
    pub stack: Stack,
    pub pool: Pool,
    pub now: Instant,
    wire: Wire,
    /// The peer's port.
    pub port: u16,
    /// The stack's port.
    pub local: u16,
    /// The peer's initial sequence number.
    pub isn: u32,
    /// The stack's initial sequence number, from the last SYN it sent.
    pub iss: u32,
}

impl Peer {
    /// A peer and a stack without timestamps and window scaling, on a link of 1500 bytes.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// The same, its configuration changed by `change`.
    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::on_link(1500, change)
    }

    /// The same, on a link of `mtu` bytes.
    pub fn on_link(mtu: usize, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(STACK_MAC, STACK, 24, [1, 2, 3, 4]);
        config.timestamps = false;
        config.window_scaling = false;
        config.mechanisms = crate::mechanisms();
        // Scripts know the sizes of buffers: none grows unless they say so.
        config.max_send_buffer = 0;
        config.max_receive_buffer = 0;
        change(&mut config);
        let now = Instant::from_nanos(1 << 40);
        let mut peer = Self {
            stack: Stack::new(config, mtu, now).expect("the configuration is valid"),
            pool: Pool::new(4096, Pool::frame_size_for(mtu)),
            now,
            wire: Wire {
                mtu,
                ..Wire::default()
            },
            port: 40_000,
            local: PORT,
            isn: 0xffff_ff00,
            iss: 0,
        };
        peer.stack().add_neighbour(PEER, PEER_MAC);
        peer
    }

    /// The peer does not answer questions for its link address any more: the script sees them.
    pub fn stop_answering_arp(&mut self) {
        self.wire.no_answers = true;
    }

    /// The stack, ready for a call.
    pub fn stack(&mut self) -> Active<'_> {
        self.stack.at(self.now, &mut self.pool)
    }

    /// Lets the stack work until nothing moves.
    pub fn poll(&mut self) {
        for _ in 0..3 {
            self.stack.at(self.now, &mut self.pool).poll(&mut self.wire);
        }
    }

    /// Lets the stack work once, with a reader's buffer posted.
    pub fn poll_receive(&mut self, conn: ConnId, buffer: &mut [u8]) -> Result<Received, Error> {
        let stack = &mut self.stack.at(self.now, &mut self.pool);
        stack.poll_receive(&mut self.wire, conn, buffer)
    }

    /// Gives the stack a frame.
    pub fn inject_frame(&mut self, frame: Vec<u8>) {
        self.wire.to_stack.push_back(frame);
        self.poll();
    }

    /// Gives the stack an IP packet.
    pub fn inject_packet(&mut self, packet: &[u8]) {
        let frame = self.ethernet(packet);
        self.inject_frame(frame);
    }

    fn ethernet(&self, packet: &[u8]) -> Vec<u8> {
        let header = ethernet::Header {
            destination: STACK_MAC,
            source: PEER_MAC,
            ethertype: EtherType::Ipv4,
        };
        [&header.to_bytes(), packet].concat()
    }

    /// The bytes of a TCP segment, checksum included.
    pub fn segment(&self, seg: &Seg) -> Vec<u8> {
        let acked = if seg.flags.has(Flags::ACK) {
            self.iss.wrapping_add(seg.ack)
        } else {
            0
        };
        let header = Header {
            source_port: self.port,
            destination_port: self.local,
            seq: SeqNumber(self.isn.wrapping_add(seg.seq)),
            ack: SeqNumber(acked),
            header_len: 0,
            flags: seg.flags,
            window: seg.window.unwrap_or(0xffff),
            urgent: seg.urgent,
            accurate_ecn: seg.accurate_ecn,
            options: seg.options,
        };
        let mut out = [0; tcp::MAX_HEADER_LEN];
        let mut len = header.emit(&mut out);
        if let Some(raw) = &seg.raw_options {
            len = tcp::HEADER_LEN + raw.len();
            out[tcp::HEADER_LEN..len].copy_from_slice(raw);
            out[12] = ((len / 4) as u8) << 4 | u8::from(seg.accurate_ecn);
        }
        let mut bytes = [&out[..len], &seg.data].concat();
        fill_checksum(&mut bytes, PEER, STACK);
        bytes
    }

    /// The IP packet of a TCP segment.
    pub fn packet(&self, seg: &Seg) -> Vec<u8> {
        ip_packet(ipv4::protocol::TCP, PEER, STACK, &self.segment(seg))
    }

    /// Blocks of bytes that the stack has sent, by relative sequence numbers: from the first to the one behind the last.
    pub fn blocks(&self, ranges: &[(u32, u32)]) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        for &(start, end) in ranges {
            blocks.push(SackBlock {
                start: SeqNumber(self.iss.wrapping_add(start)),
                end: SeqNumber(self.iss.wrapping_add(end)),
            });
        }
        blocks
    }

    /// Blocks of a segment that the stack sent, by the peer's relative sequence numbers.
    pub fn told(&self, sent: &Sent) -> Vec<(u32, u32)> {
        let relative = |seq: SeqNumber| seq.0.wrapping_sub(self.isn);
        let blocks = sent.header.options.sack.unwrap_or(SackBlocks::NONE);
        let blocks = blocks.as_slice().iter();
        blocks
            .map(|block| (relative(block.start), relative(block.end)))
            .collect()
    }

    /// Gives the stack a segment and lets it work.
    pub fn inject(&mut self, seg: Seg) {
        let packet = self.packet(&seg);
        self.inject_packet(&packet);
    }

    /// Gives the stack a segment with `len` bytes of zeros. Zeros add nothing to a checksum, so many gibibytes are quick.
    pub fn inject_zeros(&mut self, seg: Seg, len: usize) {
        let mut segment = self.segment(&seg);
        segment[16..18].copy_from_slice(&[0, 0]);
        let total = (segment.len() + len) as u16;
        let sum: Partial = ipv4::pseudo_header(PEER, STACK, ipv4::protocol::TCP, total)
            + Kernel::HALFWORD.sum(&segment);
        segment[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
        let segment = [segment, vec![0; len]].concat();
        let packet = ip_packet(ipv4::protocol::TCP, PEER, STACK, &segment);
        self.inject_packet(&packet);
    }

    /// Gives the stack segments that a link has cut from one large frame.
    pub fn inject_train(&mut self, segs: impl IntoIterator<Item = Seg>) {
        self.leave_train(segs);
        self.poll();
    }

    /// Leaves segments that a link has cut from one large frame to be taken in.
    pub fn leave_train(&mut self, segs: impl IntoIterator<Item = Seg>) {
        self.leave(segs);
        self.wire.train = true;
    }

    /// Leaves segments to be taken in.
    pub fn leave(&mut self, segs: impl IntoIterator<Item = Seg>) {
        for seg in segs {
            let packet = self.packet(&seg);
            let frame = self.ethernet(&packet);
            self.wire.to_stack.push_back(frame);
        }
        self.wire.train = false;
    }

    /// The next frame that the stack sent, if there is one.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        self.poll();
        self.wire.from_stack.pop_front()
    }

    /// The next IP packet that the stack sent: its header and payload.
    #[track_caller]
    pub fn next_packet(&mut self) -> Option<(ipv4::Header, Vec<u8>)> {
        let frame = self.next_frame()?;
        let link = ethernet::Header::parse(&frame).expect("an Ethernet frame");
        assert_eq!(link.source, STACK_MAC);
        assert_eq!(link.ethertype, EtherType::Ipv4, "not an IPv4 packet");
        assert_eq!(link.destination, PEER_MAC);
        let packet = &frame[ethernet::HEADER_LEN..];
        assert!(
            ipv4::Header::checksum_is_valid(packet),
            "the IP checksum is wrong"
        );
        let ip = ipv4::Header::parse(packet).expect("an IPv4 header");
        Some((
            ip,
            packet[usize::from(ip.header_len)..usize::from(ip.total_len)].to_vec(),
        ))
    }

    /// The next segment that the stack sent, if there is one; what holds for all segments is checked.
    #[track_caller]
    pub fn next(&mut self) -> Option<Sent> {
        let (ip, bytes) = self.next_packet()?;
        assert_eq!(ip.protocol, ipv4::protocol::TCP, "not a TCP segment");
        // RFC 9293, MUST-45: the connection's address, always.
        assert_eq!((ip.source, ip.destination), (STACK, PEER));
        // RFC 9293, 3.7.2: path MTU discovery needs DF.
        assert!(
            ip.flags_and_offset & ipv4::DONT_FRAGMENT != 0,
            "DF is not set"
        );
        // RFC 9293, MUST-2.
        let pseudo = ipv4::pseudo_header(STACK, PEER, ipv4::protocol::TCP, bytes.len() as u16);
        assert!(
            (pseudo + Kernel::HALFWORD.sum(&bytes)).is_valid(),
            "the TCP checksum is wrong"
        );
        let header = Header::parse(&bytes).expect("a TCP header");
        let raw_options = bytes[tcp::HEADER_LEN..usize::from(header.header_len)].to_vec();
        check_options(&header, &raw_options);
        // RFC 9293, 3.1: reserved bits are zero; RFC 9768, 3.1.1: the last one is that of accurate feedback.
        let accurate = self.stack.config().mechanisms.ecn == Ecn::Accurate;
        assert_eq!(bytes[12] & if accurate { 0x0e } else { 0x0f }, 0);
        assert_eq!(
            (header.source_port, header.destination_port),
            (self.local, self.port),
            "another connection's"
        );
        if header.flags.has(Flags::SYN) {
            self.iss = header.seq.0;
        }
        let ack = if header.flags.has(Flags::ACK) {
            header.ack.0.wrapping_sub(self.isn)
        } else {
            0
        };
        Some(Sent {
            seq: header.seq.0.wrapping_sub(self.iss),
            ack,
            data: bytes[usize::from(header.header_len)..].to_vec(),
            raw_options,
            header,
            ip,
        })
    }

    /// Expects this segment now. PSH is only looked at when the expectation has it; window and options only when they
    /// are given.
    #[track_caller]
    pub fn expect(&mut self, seg: Seg) -> Sent {
        let Some(sent) = self.next() else {
            panic!("nothing was sent, expected {seg:?}");
        };
        check(&sent, &seg);
        sent
    }

    /// Expects that nothing was sent.
    #[track_caller]
    pub fn expect_nothing(&mut self) {
        if let Some(sent) = self.next() {
            panic!("nothing was expected, but there is {sent:?}");
        }
    }

    /// Lets time pass until the stack sends something, which is to be this segment, after `after`, a tick earlier at most
    /// and not much later.
    #[track_caller]
    pub fn expect_after(&mut self, after: Duration, seg: Seg) -> Sent {
        let waited = self.wait(after + s(3600));
        let sent = self.expect(seg);
        // Durations are rounded up to ticks before they are doubled.
        assert!(
            waited + TICK >= after && waited <= after + SLACK + after / 1000,
            "it was sent after {waited:?} instead of {after:?}"
        );
        sent
    }

    /// Lets time pass until the stack sends something, `limit` at most. Returns how long that took.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> Duration {
        self.poll();
        let start = self.now;
        while self.wire.from_stack.is_empty() && self.now - start < limit {
            self.step(start + limit);
        }
        self.now - start
    }

    /// Lets time pass.
    pub fn advance(&mut self, duration: Duration) {
        self.poll();
        let end = self.now + duration;
        while self.now < end {
            self.step(end);
        }
    }

    /// Goes to the stack's next deadline, `end` at most.
    fn step(&mut self, end: Instant) {
        let next = self.stack.next_deadline(self.now).unwrap_or(end);
        let tick = Instant::from_nanos(self.now.as_nanos() + (1 << 20));
        self.now = next.max(tick).min(end);
        self.poll();
    }

    /// Takes everything that was sent.
    #[track_caller]
    pub fn drain(&mut self) -> Vec<Sent> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Throws away everything that was sent, whatever it is.
    pub fn ignore(&mut self) {
        self.poll();
        self.wire.from_stack.clear();
    }

    /// The stack listens on [`PORT`].
    pub fn listen(&mut self) -> ListenerId {
        self.stack().listen(PORT, 16).expect("the port is free")
    }

    /// The stack opens a connection to the peer's port 80; the peer learns the ports.
    #[track_caller]
    pub fn connect(&mut self) -> ConnId {
        self.port = 80;
        let conn = self
            .stack()
            .connect(SocketAddrV4::new(PEER, 80))
            .expect("a connection is opened");
        self.local = self.stack().info(conn).expect("it is there").local.port();
        conn
    }

    /// The peer opens a connection to [`PORT`] with this SYN, which the stack accepts.
    #[track_caller]
    pub fn accepted(&mut self, first: Seg) -> ConnId {
        self.accepted_after(first, Duration::ZERO)
    }

    /// The same, and the peer's answer to the stack's SYN takes a round trip of `round_trip`.
    #[track_caller]
    pub fn accepted_after(&mut self, first: Seg, round_trip: Duration) -> ConnId {
        let listener = self.listen();
        self.inject(first);
        self.expect(syn_ack().seq(0).ack(1));
        self.advance(round_trip);
        self.inject(ack().seq(1).ack(1));
        self.stack()
            .accept(listener)
            .expect("the handshake is complete")
    }

    /// The peer opens a connection with timestamps, the first of value `stamp`, and echoes what the stack sends.
    #[track_caller]
    pub fn accepted_with_stamps(&mut self, stamp: u32) -> ConnId {
        let listener = self.listen();
        self.inject(syn().seq(0).mss(MSS).stamps(stamp, 0));
        let answer = self.expect(syn_ack().seq(0).ack(1));
        let ours = answer.header.options.timestamps.expect("a timestamp").value;
        self.inject(ack().seq(1).ack(1).stamps(stamp, ours));
        self.stack()
            .accept(listener)
            .expect("the handshake is complete")
    }

    /// A connection that the peer has opened, its MSS [`MSS`] and its window 65,535.
    #[track_caller]
    pub fn established() -> (Self, ConnId) {
        Self::established_with(|_| {})
    }

    /// The same, with a changed configuration.
    #[track_caller]
    pub fn established_with(change: impl FnOnce(&mut Config)) -> (Self, ConnId) {
        let mut peer = Self::with(change);
        let conn = peer.accepted(syn().mss(MSS));
        assert_eq!(peer.state(conn), State::Established);
        peer.expect_nothing();
        (peer, conn)
    }

    /// A connection that the stack has opened.
    #[track_caller]
    pub fn connected() -> (Self, ConnId) {
        let mut peer = Self::new();
        let conn = peer.connect();
        peer.expect(syn());
        peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
        peer.expect(ack().seq(1).ack(1));
        assert_eq!(peer.state(conn), State::Established);
        (peer, conn)
    }

    /// The next event of a connection, those of listeners left out.
    pub fn next_ready(&mut self) -> Option<(ConnId, Readiness)> {
        loop {
            if let Event::Connection { conn, ready, .. } = self.stack().next_event()? {
                return Some((conn, ready));
            }
        }
    }

    /// The state of a connection.
    pub fn state(&mut self, conn: ConnId) -> State {
        self.stack().state(conn)
    }

    /// The stack's user sends the next `bytes` bytes of the stream, of which `from` is the first.
    #[track_caller]
    pub fn send(&mut self, conn: ConnId, from: u32, bytes: usize) {
        let data = stream(from, bytes);
        assert_eq!(self.stack().send(conn, &data), Ok(bytes));
        self.poll();
    }

    /// Bytes that the stack's user reads, `limit` at most.
    pub fn read(&mut self, conn: ConnId, limit: usize) -> Vec<u8> {
        let mut buffer = vec![0; limit];
        match self.stack().receive(conn, &mut buffer) {
            Ok(Received::Data(n)) => buffer.truncate(n),
            Ok(_) | Err(_) => buffer.clear(),
        }
        self.poll();
        buffer
    }

    /// Gives the stack an ICMP error about the packet with this TCP header, sent by `from`.
    pub fn inject_icmp(&mut self, message: tollgate_wire::icmp::Message, about: &Sent) {
        let mut quoted = about.ip.to_bytes().to_vec();
        let mut out = [0; tcp::MAX_HEADER_LEN];
        about.header.emit(&mut out);
        quoted.extend_from_slice(&out[..8]);
        let packet = icmp_packet(message, &quoted);
        self.inject_packet(&packet);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let left = self.wire.from_stack.len();
            assert_eq!(
                left, 0,
                "the script ends, but {left} frames were sent that it does not expect"
            );
        }
    }
}

/// An IP packet without options.
pub fn ip_packet(protocol: u8, source: Ipv4Addr, destination: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: (ipv4::HEADER_LEN + payload.len()) as u16,
        identification: 1,
        flags_and_offset: 0,
        ttl: 64,
        protocol,
        source,
        destination,
    };
    [&header.to_bytes(), payload].concat()
}

/// An ICMP message in an IP packet from the peer.
pub fn icmp_packet(message: tollgate_wire::icmp::Message, data: &[u8]) -> Vec<u8> {
    let mut bytes = [&message.to_bytes(), data].concat();
    let sum = Kernel::HALFWORD.sum(&bytes).finish().to_ne_bytes();
    bytes[2..4].copy_from_slice(&sum);
    ip_packet(ipv4::protocol::ICMP, PEER, STACK, &bytes)
}

/// Puts the right checksum into a TCP segment.
pub fn fill_checksum(segment: &mut [u8], source: Ipv4Addr, destination: Ipv4Addr) {
    segment[16..18].copy_from_slice(&[0, 0]);
    let sum: Partial = ipv4::pseudo_header(
        source,
        destination,
        ipv4::protocol::TCP,
        segment.len() as u16,
    ) + Kernel::HALFWORD.sum(segment);
    segment[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
}

/// Puts the right checksum into the IP header at the front of `packet`.
pub fn fill_ip_checksum(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 0xf) * 4;
    packet[10..12].copy_from_slice(&[0, 0]);
    let sum = sum_header(&packet[..len]).finish().to_ne_bytes();
    packet[10..12].copy_from_slice(&sum);
}

#[track_caller]
fn check(sent: &Sent, seg: &Seg) {
    let mut flags = sent.header.flags;
    if !seg.flags.has(Flags::PSH) {
        flags.0 &= !Flags::PSH.0;
    }
    let of = |seq: u32, ack: u32, flags: Flags, len: usize| {
        format!("{flags:?} seq {seq} ack {ack} len {len}")
    };
    let wanted = of(seg.seq, seg.ack, seg.flags, seg.data.len());
    let got = of(sent.seq, sent.ack, flags, sent.data.len());
    // A RST in answer to an ACK has no acknowledgment, so its number is not looked at.
    assert_eq!(got, wanted, "left: what was sent; right: what was expected");
    assert!(sent.data == seg.data, "other bytes were sent than expected");
    if let Some(window) = seg.window {
        assert_eq!(sent.header.window, window, "the window");
    }
    if seg.options != Options::default() {
        assert_eq!(sent.header.options, seg.options, "the options");
    }
}

/// RFC 9293, MUST-65, MUST-68, MUST-69, for every segment that the stack sends.
#[track_caller]
fn check_options(header: &Header, raw: &[u8]) {
    assert!(
        header.options.mss.is_none() || header.flags.has(Flags::SYN),
        "MSS without SYN"
    );
    let mut at = 0;
    while at < raw.len() {
        match raw[at] {
            0 => {
                assert!(
                    raw[at..].iter().all(|&byte| byte == 0),
                    "padding is not zero"
                );
                return;
            }
            1 => at += 1,
            _ => {
                let len = usize::from(*raw.get(at + 1).expect("an option has a length"));
                assert!(
                    len >= 2 && at + len <= raw.len(),
                    "an option's length is wrong"
                );
                at += len;
            }
        }
    }
}
