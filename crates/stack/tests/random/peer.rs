//! The scripted peer of the differential test: it makes a segment of what a script asks for and of what it has heard.

use super::craft;
use super::ipv6;
use super::marks::{self, Marks, with_bits, with_codepoint};
use super::ranges::Ranges;
use super::script::{Ack, Blocks, Marking, Segment, SequencePosition, Setup, Stamp, Window};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use tollgate_stack::Instant;
use tollgate_stack::config::Ecn;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::tcp::{
    FastOpenCookie, Flags, Header, Options, SackBlock, SackBlocks, Timestamps,
};
use tollgate_wire::{SeqNumber, arp};

/// The stack's address.
pub const STACK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The peer's address.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The stack's link address.
pub const STACK_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The peer's link address.
pub const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The port at which connections are opened, on either side.
pub const PORT: u16 = 7;
/// The peer's cookie for Fast Open.
pub const COOKIE: FastOpenCookie = FastOpenCookie::of_eight([7; 8]);
/// Bytes of payload beside which all options find room.
const MOST_BESIDE_OPTIONS: u32 = 1420;
/// Frames that the peer can send once more.
const KEPT: usize = 6;

/// Byte `at` of the stream that both sides send.
pub fn pattern(at: u32) -> u8 {
    (at % 251) as u8
}

/// The peer's answer to `frame`, when that asks for its link address.
pub fn link_answer(frame: &[u8]) -> Option<Vec<u8>> {
    arp_answer(frame).or_else(|| ipv6::solicitation_answer(frame))
}

fn arp_answer(frame: &[u8]) -> Option<Vec<u8>> {
    let link = ethernet::Header::parse(frame).ok()?;
    let question = arp::Packet::parse(frame.get(ethernet::HEADER_LEN..)?).ok()?;
    let asked = link.ethertype == EtherType::Arp
        && question.operation == arp::Operation::Request
        && question.target_ip == PEER;
    let packet = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: PEER_MAC,
        sender_ip: PEER,
        target_mac: STACK_MAC,
        target_ip: STACK,
    };
    asked.then(|| craft::ethernet(STACK_MAC, EtherType::Arp, &packet.to_bytes()))
}

/// The peer's end of one connection. Numbers are relative: a SYN has number 0, the first byte number 1.
#[derive(Clone, Debug)]
pub struct Peer {
    pub port: u16,
    pub stack_port: u16,
    isn: u32,
    iss: u32,
    /// Tells whether timestamps and window scaling are on, as far as the peer knows.
    stamps: bool,
    scaled: bool,
    setup: Setup,
    /// Behind what was sent in order.
    sent: u32,
    fin_at: Option<u32>,
    fin_sent: bool,
    /// The number that the stack acknowledged last, and the right edge of its window.
    acknowledged: u32,
    edge: u32,
    /// Bytes that arrived in order, the end of all bytes, and those that arrived out of order.
    got: u32,
    got_end: u32,
    ranges: Ranges,
    last_ack: u32,
    window: u16,
    usual_window: u16,
    stamp: u32,
    echo: u32,
    stack_shift: u8,
    /// The next segments of the stack that are lost.
    pub deaf: u8,
    /// The next packets of the stack that are marked.
    marks_left: u8,
    marks: Marks,
    /// Selective acknowledgments are on.
    sack: bool,
    heard_syn: bool,
    /// The stack asks for a cookie.
    asks_cookie: bool,
    frames: VecDeque<Vec<u8>>,
}

impl Peer {
    pub fn new(setup: &Setup, port: u16, generation: u32) -> Self {
        Self {
            port,
            stack_port: PORT,
            isn: setup.isn.wrapping_add(generation << 20),
            iss: 0,
            stamps: setup.timestamps.1,
            scaled: setup.scaling.1.is_some(),
            setup: *setup,
            sent: 1,
            fin_at: None,
            fin_sent: false,
            acknowledged: 0,
            edge: 0,
            got: 1,
            got_end: 1,
            ranges: Ranges::default(),
            last_ack: 1,
            window: setup.window,
            usual_window: setup.window.max(2000),
            stamp: 0,
            echo: 0,
            stack_shift: 0,
            deaf: 0,
            marks_left: 0,
            marks: Marks::new(setup.ecn.0, setup.ecn.1, marks::ECT0, true),
            sack: false,
            heard_syn: false,
            asks_cookie: false,
            frames: VecDeque::new(),
        }
    }

    /// Tells whether the stack's SYN has arrived.
    pub fn knows_stack(&self) -> bool {
        self.heard_syn
    }

    /// Takes in a segment of the stack, whose packet bore this codepoint, unless it is lost.
    pub fn hear(&mut self, header: &Header, codepoint: u8, len: usize) {
        if header.destination_port != self.port {
            return;
        }
        if self.deaf != 0 {
            self.deaf -= 1;
            return;
        }
        if header.flags.has(Flags::SYN) {
            self.hear_syn(header, len as u32);
            return;
        }
        if let Some(stamps) = header.options.timestamps {
            self.echo = stamps.value;
        }
        if header.flags.has(Flags::ACK) {
            let ack = header.ack.0.wrapping_sub(self.isn);
            if ack.wrapping_sub(self.acknowledged) as i32 >= 0 {
                self.acknowledged = ack;
                self.edge = ack.wrapping_add(u32::from(header.window) << self.stack_shift);
            }
        }
        let begin = header.seq.0.wrapping_sub(self.iss);
        let end = begin
            .wrapping_add(len as u32)
            .wrapping_add(u32::from(header.flags.has(Flags::FIN)));
        // What an earlier connection of these ports still sends lies anywhere.
        let near = begin <= self.got_end.saturating_add(1 << 24);
        if end != begin && near && !header.flags.has(Flags::RST) {
            self.got_end = self.got_end.max(end);
            self.got = self.ranges.arrive(self.got, begin, end);
        }
        let marked = self.marks_left != 0 && codepoint != marks::NOT_ECT;
        self.marks_left -= u8::from(marked);
        let codepoint = if marked { marks::CE } else { codepoint };
        self.marks.arrive(header.flags, codepoint, len as u32);
        self.marks
            .hear_echo(header.flags, self.acknowledged, self.sent);
    }

    fn hear_syn(&mut self, header: &Header, len: u32) {
        self.heard_syn = true;
        self.asks_cookie = header.options.fast_open == Some(FastOpenCookie::REQUEST);
        if self.setup.early.is_some_and(|(_, takes)| takes) && len != 0 && self.got == 1 {
            self.got = 1 + len;
            self.got_end = self.got;
            self.last_ack = self.got;
        }
        self.iss = header.seq.0;
        self.stack_port = header.source_port;
        self.sack = self.setup.sack && header.options.sack_permitted;
        self.marks.hear_syn(header);
        let answers = header.flags.has(Flags::ACK);
        let options = &header.options;
        self.stamps = self.setup.timestamps.1 && options.timestamps.is_some();
        self.scaled = self.setup.scaling.1.is_some() && options.window_scale.is_some();
        self.stack_shift = options.window_scale.filter(|_| self.scaled).unwrap_or(0);
        self.echo = options.timestamps.map_or(0, |stamps| stamps.value);
        if answers {
            self.acknowledged = header.ack.0.wrapping_sub(self.isn);
            self.edge = self.acknowledged.wrapping_add(u32::from(header.window));
        } else {
            self.edge = 1 + u32::from(header.window);
        }
    }

    fn clock(&self, now: Instant) -> u32 {
        (now.as_nanos() >> 20) as u32
    }

    /// A SYN, or one that acknowledges the stack's.
    pub fn syn(&mut self, now: Instant, answers: bool) -> Vec<u8> {
        let flags = if answers {
            Flags::SYN | Flags::ACK
        } else {
            Flags::SYN
        };
        let ack = if answers {
            self.iss.wrapping_add(self.got)
        } else {
            0
        };
        self.stamp = self.clock(now);
        let header = Header {
            window: self.window,
            options: Options {
                mss: self.setup.mss,
                window_scale: self.setup.scaling.1.filter(|_| !answers || self.scaled),
                timestamps: (self.setup.timestamps.1 && (!answers || self.stamps)).then_some(
                    Timestamps {
                        value: self.stamp,
                        echo: if answers { self.echo } else { 0 },
                    },
                ),
                fast_open: (answers && self.asks_cookie).then_some(COOKIE),
                sack_permitted: self.setup.sack && (!answers || self.sack),
                accurate_ecn: self.marks.option().filter(|_| answers),
                ..Options::default()
            },
            ..craft::header(
                self.port,
                self.stack_port,
                flags,
                SeqNumber(self.isn),
                SeqNumber(ack),
            )
        };
        let header = with_bits(header, self.marks.of_syn(answers));
        self.keep(craft::tcp(STACK_MAC, PEER, STACK, &header, &[]))
    }

    fn keep(&mut self, frame: Vec<u8>) -> Vec<u8> {
        if self.frames.len() == KEPT {
            self.frames.pop_front();
        }
        self.frames.push_back(frame.clone());
        frame
    }

    /// A segment once more, so many before the last.
    pub fn repeat(&self, back: u8) -> Option<Vec<u8>> {
        self.frames.iter().rev().nth(usize::from(back)).cloned()
    }

    /// Behind everything in order, the FIN counted.
    fn next(&self) -> u32 {
        self.sent + u32::from(self.fin_sent && Some(self.sent) == self.fin_at)
    }

    /// The segment that a script asks for.
    pub fn segment(&mut self, now: Instant, ask: &Segment) -> Vec<u8> {
        let begin = match ask.place {
            SequencePosition::Next => self.next(),
            SequencePosition::Ahead(by) => self.sent + u32::from(by),
            SequencePosition::Back(by) => self.sent.saturating_sub(u32::from(by)).max(1),
            SequencePosition::Unacknowledged => self.acknowledged.clamp(1, self.sent),
        };
        let mut len = u32::from(ask.len);
        if matches!(ask.place, SequencePosition::Unacknowledged) {
            len = (self.sent - begin).max(len).min(1448);
        }
        let has_options = self.sack || self.marks.agreed == Ecn::Accurate;
        if has_options || !matches!(ask.blocks, Blocks::Held) {
            len = len.min(MOST_BESIDE_OPTIONS);
        }
        if ask.obeys {
            let room = self.edge.wrapping_sub(begin);
            len = len.min(if (room as i32) < 0 { 0 } else { room });
        }
        if let Some(fin) = self.fin_at {
            len = len.min(fin.saturating_sub(begin));
        }
        let end = begin + len;
        let mut fin = self.fin_at == Some(end) && (ask.fin || len != 0 && self.fin_sent);
        if ask.fin && self.fin_at.is_none() && end >= self.sent {
            self.fin_at = Some(end);
            fin = true;
        }
        self.fin_sent |= fin;
        // What the stack must drop is sent again.
        let lost = self.stamps && matches!(ask.stamp, Stamp::Missing | Stamp::Old(_))
            || end.wrapping_sub(self.edge) as i32 > 0;
        let has_new_data = len != 0 && begin >= self.sent;
        if begin <= self.sent && !lost {
            self.sent = self.sent.max(end);
        }
        let mut flags = Flags::ACK;
        if ask.push && len != 0 {
            flags |= Flags::PSH;
        }
        if fin {
            flags |= Flags::FIN;
        }
        let payload: Vec<u8> = (begin..end).map(pattern).collect();
        let header = Header {
            urgent: ask.urgent.map_or(0, u16::from),
            flags: ask.urgent.map_or(flags, |_| flags | Flags::URG),
            ..self.header(now, flags, begin, ask)
        };
        let is_plain = len == 0 && !fin && header.options.sack.is_none();
        let bits = self.marks.of_segment(has_new_data, is_plain) ^ ask.marking.lie;
        let header = with_bits(header, bits);
        self.marks_left = self.marks_left.max(ask.marking.marks);
        let honest = self.marks.codepoint(has_new_data);
        let frame = craft::tcp(STACK_MAC, PEER, STACK, &header, &payload);
        let codepoint = ask.marking.codepoint.unwrap_or(honest);
        self.keep(with_codepoint(frame, codepoint))
    }

    /// The blocks of a segment that acknowledges everything before `ack`. Those that are not true come without agreement, too.
    fn blocks(&mut self, ask: Blocks, ack: u32) -> Option<SackBlocks> {
        let end = self.got_end;
        let at = |part: u8| {
            let sent = end.saturating_sub(ack);
            ack.wrapping_add((u64::from(sent) * u64::from(part) / 256) as u32)
        };
        let range = |start: u32, len: u16| (start, start.wrapping_add(len.into()));
        let told: &[(u32, u32)] = match ask {
            Blocks::Held if self.sack => return self.ranges.blocks(self.iss),
            Blocks::Held | Blocks::Missing => return None,
            Blocks::Claimed(from, len) => &[range(at(from), len)],
            Blocks::Overlapping(from, len) => {
                let start = at(from);
                let half = u32::from(len / 2);
                &[
                    range(start, len),
                    range(start.wrapping_add(half), len),
                    (start.wrapping_sub(half), start.wrapping_add(1)),
                ]
            }
            Blocks::Reversed(from, len) => {
                let (start, end) = range(at(from), len);
                &[(end, start)]
            }
            Blocks::Empty(from) => &[range(at(from), 0)],
            Blocks::Unsent(len) => &[range(end, len)],
            Blocks::Old(back, len) => &[range(ack.wrapping_sub(back), len)],
        };
        let mut blocks = SackBlocks::NONE;
        let number = |at: u32| SeqNumber(self.iss.wrapping_add(at));
        for &(start, end) in told {
            blocks.push(SackBlock {
                start: number(start),
                end: number(end),
            });
        }
        Some(blocks)
    }

    fn header(&mut self, now: Instant, flags: Flags, seq: u32, ask: &Segment) -> Header {
        let ack = match ask.ack {
            Ack::All => self.got,
            Ack::Same => self.last_ack,
            Ack::Part(part) => {
                let new = self.got.saturating_sub(self.last_ack);
                self.last_ack + (u64::from(new) * u64::from(part) / 256) as u32
            }
            Ack::Old(by) => self.last_ack.wrapping_sub(u32::from(by)),
            Ack::Future(by) => self.got_end + u32::from(by),
        };
        if (self.last_ack..=self.got).contains(&ack) {
            self.last_ack = ack;
        }
        let shift = match self.setup.scaling.1 {
            Some(shift) if self.scaled => shift,
            _ => 0,
        };
        let raw = |bytes: u32| (bytes >> shift).min(65_535) as u16;
        self.window = match ask.window {
            Window::Usual => self.usual_window,
            Window::Same => self.window,
            Window::Zero => 0,
            Window::Bytes(bytes) => raw(bytes),
            Window::Flight(more) => {
                raw(self.got_end.wrapping_sub(ack).wrapping_add(u32::from(more)))
            }
        };
        if matches!(ask.window, Window::Bytes(2000..)) {
            self.usual_window = self.window.max(1);
        }
        let value = match ask.stamp {
            Stamp::Now => self.clock(now),
            Stamp::Same | Stamp::Missing => self.stamp,
            Stamp::Old(by) => self.stamp.wrapping_sub(u32::from(by)),
        };
        if matches!(ask.stamp, Stamp::Now) {
            self.stamp = value;
        }
        let stamps = self.stamps && !matches!(ask.stamp, Stamp::Missing);
        let sack = self.blocks(ask.blocks, ack);
        Header {
            window: self.window,
            options: Options {
                timestamps: stamps.then_some(Timestamps {
                    value,
                    echo: self.echo,
                }),
                sack,
                accurate_ecn: self.marks.option().filter(|_| sack.is_none()),
                ..Options::default()
            },
            ..craft::header(
                self.port,
                self.stack_port,
                flags,
                SeqNumber(self.isn.wrapping_add(seq)),
                SeqNumber(self.iss.wrapping_add(ack)),
            )
        }
    }

    /// The acknowledgment that completes a handshake.
    pub fn complete(&mut self, now: Instant) -> Vec<u8> {
        self.segment(
            now,
            &Segment {
                place: SequencePosition::Next,
                len: 0,
                ack: Ack::All,
                window: Window::Usual,
                stamp: Stamp::Now,
                fin: false,
                push: false,
                urgent: None,
                obeys: true,
                waits: false,
                blocks: Blocks::Held,
                marking: Marking::NONE,
            },
        )
    }

    /// A RST or SYN `off` from where the next segment belongs.
    pub fn stray(&mut self, flags: Flags, off: i32) -> Vec<u8> {
        let seq = self.isn.wrapping_add(self.next()).wrapping_add_signed(off);
        let header = craft::header(
            self.port,
            self.stack_port,
            flags,
            SeqNumber(seq),
            SeqNumber(0),
        );
        self.keep(craft::tcp(STACK_MAC, PEER, STACK, &header, &[]))
    }
}
