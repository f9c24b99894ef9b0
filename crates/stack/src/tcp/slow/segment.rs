//! "SEGMENT ARRIVES" (RFC 9293, 3.10.7): the full state machine, for every segment that was not predicted.
//!
//! The steps and their order are the RFC's. Where RFC 5961 replaces one (RST, SYN, the range of acceptable
//! acknowledgments) and where RFC 7323 adds one (PAWS), the comment says so.

use crate::buffer::{Frame, FrameId};
use crate::compiled::Verify;
use crate::counters::Drop;
use crate::demux::FlowKey;
use crate::ipv6::Addresses;
use crate::socket::{Error, readiness};
use crate::stack::Active;
use crate::tcp::deadline::{Deadline, Due};
use crate::tcp::ecn::{self, CE};
use crate::tcp::recovery::rto::Rtt;
use crate::tcp::slow::handshake::Returned;
use crate::tcp::slow::redundancy::Agreement;
use crate::tcp::slow::syn::Syn;
use crate::tcp::slow::time_wait::SLOT_BIT;
use crate::tcp::tcb::{State, flag, rare};
use crate::tcp::template::{TCP, TCP_V6};
use core::hint::cold_path;
use core::net::Ipv4Addr;
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::tcp::{Flags, Header, Options, SackBlock, Timestamps};
use tollgate_wire::{SeqNumber, ipv4, ipv6};

/// A segment whose lengths and checksum are right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) header: Header,
    /// The frame, and where in it the payload lies.
    pub(crate) id: FrameId,
    pub(crate) offset: u16,
    pub(crate) len: u16,
    /// It has no checksum, and its connection takes such ones.
    pub(in crate::tcp) unsummed: bool,
    /// Type of service of its packet.
    pub(in crate::tcp) service: u8,
}

impl Segment {
    /// Tells whether a router has marked it (CE; RFC 3168, 5).
    pub(in crate::tcp) fn is_marked(&self) -> bool {
        self.service & CE == CE
    }

    /// The segment as a SYN.
    pub(in crate::tcp) fn syn(&self) -> Syn {
        let mut syn = Syn::from(&self.header);
        syn.ecn = syn.ecn.with_service(self.service);
        syn
    }

    /// SEG.LEN: bytes of payload, SYN and FIN counted.
    pub(in crate::tcp) fn seq_len(&self) -> u32 {
        let flags = self.header.flags;
        u32::from(self.len) + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN))
    }
}

/// Fate of a segment's frame.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// It is in a queue.
    Kept,
    /// It is not needed any more.
    Done,
    /// It was not acceptable.
    Dropped(Drop),
}

impl<R: Recorder> Active<'_, R> {
    /// Takes a TCP segment that lies in one frame, its IP payload `at` bytes behind the frame's beginning.
    pub(crate) fn tcp_input(&mut self, ip: &ipv4::Header, frame: Frame, at: usize) {
        let ends = (ip.source, ip.destination);
        self.segment_in_frame(ends.into(), (frame, ip.tos), at, ip.payload_len(), true);
    }

    /// Takes a segment that was not predicted although its connection is known: what lies before TCP has been checked. It
    /// tells whether the gates of its checksum are passed for the first time.
    pub(crate) fn tcp_input_found(&mut self, frame: Frame, is_first: bool) {
        let bytes = self.pool.frame(&frame);
        let Some(ip) = bytes.get(14..).and_then(<[u8]>::first_chunk::<20>) else {
            return self.drop_frame(frame.id, Drop::Malformed);
        };
        if ip[0] >> 4 == 6 {
            let Ok(header) = ipv6::Header::parse(&bytes[14..]) else {
                return self.drop_frame(frame.id, Drop::Malformed);
            };
            let ends = (header.source, header.destination);
            let (at, len) = (TCP_V6, usize::from(header.payload_len));
            let frame = (frame, header.traffic_class);
            return self.segment_in_frame(ends.into(), frame, at, len, is_first);
        }
        let total_len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let source = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
        let destination = Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]);
        let service = ip[1];
        if total_len < 20 || 14 + total_len > usize::from(frame.len) {
            return self.drop_frame(frame.id, Drop::Malformed);
        }
        let ends = (source, destination);
        let frame = (frame, service);
        self.segment_in_frame(ends.into(), frame, TCP, total_len - 20, is_first);
    }

    /// Takes a segment of `len` bytes that lies `at` bytes behind the frame's beginning, in a packet of this type of service or
    /// traffic class; it tells whether the gates of its checksum are passed for the first time.
    pub(crate) fn segment_in_frame(
        &mut self,
        ends: Addresses,
        (frame, service): (Frame, u8),
        at: usize,
        len: usize,
        is_first: bool,
    ) {
        let bytes = &self.pool.frame(&frame)[at..at + len];
        let header = match Header::parse(bytes) {
            Ok(header) => header,
            Err(_) => return self.drop_frame(frame.id, Drop::Malformed),
        };
        let field = [bytes[16], bytes[17]];
        let ports = (header.source_port, header.destination_port);
        // Over IPv6 no connection comes to take such ones.
        let unsummed = self.stack.compiled.verify == Verify::ByConnection
            && match ends {
                Addresses::V4(source, destination) => {
                    let key = FlowKey::new((source, ports.0), (destination, ports.1));
                    self.is_unsummed(key, header.flags, field)
                }
                Addresses::V6(..) => false,
            };
        let verify = self.stack.compiled.verify != Verify::None
            && !unsummed
            && !frame.checksum.is_verified();
        let packet = PacketId(header.seq.0);
        if R::ON && is_first {
            self.rec.pass(Gate::ChecksumInBegin, packet);
        }
        if verify {
            let pseudo = ends.pseudo_header(len);
            if !(pseudo + self.stack.compiled.kernel.sum(bytes)).is_valid() {
                return self.drop_frame(frame.id, Drop::Checksum);
            }
        }
        if R::ON && is_first {
            self.rec.pass(Gate::ChecksumInEnd, packet);
        }
        let header_len = u16::from(header.header_len);
        let segment = Segment {
            header,
            id: frame.id,
            offset: frame.offset + at as u16 + header_len,
            len: len as u16 - header_len,
            unsummed,
            service,
        };
        self.stack.counters.unverified += u64::from(unsummed && segment.len != 0);
        self.segment_arrives(ends, segment);
    }

    /// Takes a segment that was reassembled from fragments: its bytes are put into frames of their own, each with a
    /// part of the payload.
    pub(crate) fn tcp_input_gathered(&mut self, ends: Addresses, service: u8, bytes: &[u8]) {
        let Ok(header) = Header::parse(bytes) else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        let pseudo = ends.pseudo_header(bytes.len());
        if !(pseudo + self.stack.compiled.kernel.sum(bytes)).is_valid() {
            self.stack.counters.dropped(Drop::Checksum);
            return;
        }
        let mut payload = &bytes[usize::from(header.header_len)..];
        let mut seq = header.seq;
        loop {
            let (part, rest) = payload.split_at(payload.len().min(self.pool.frame_size()));
            let Some(id) = self.pool.alloc() else {
                self.stack.counters.dropped(Drop::NoFrame);
                return;
            };
            self.pool.bytes_mut(id)[..part.len()].copy_from_slice(part);
            let mut flags = header.flags;
            if !rest.is_empty() {
                flags.0 &= !Flags::FIN.0;
            }
            if seq != header.seq {
                // The pointer counts from where the segment begins.
                flags.0 &= !Flags::URG.0;
            }
            let part_header = Header {
                seq,
                flags,
                ..header
            };
            self.segment_arrives(
                ends,
                Segment {
                    header: part_header,
                    id,
                    offset: 0,
                    len: part.len() as u16,
                    unsummed: false,
                    service,
                },
            );
            seq += part.len() as u32;
            payload = rest;
            if payload.is_empty() {
                return;
            }
        }
    }

    fn segment_arrives(&mut self, ends: Addresses, segment: Segment) {
        let header = &segment.header;
        let ports = (header.source_port, header.destination_port);
        let key = match ends {
            Addresses::V4(source, destination) => {
                FlowKey::new((source, ports.0), (destination, ports.1))
            }
            Addresses::V6(source, destination) => {
                let key = self
                    .stack
                    .enter_key((source, ports.0), (destination, ports.1));
                match key {
                    Some(key) => key,
                    None => return self.drop_frame(segment.id, Drop::TableFull),
                }
            }
        };
        let disposition = match self.slot_of(key) {
            Some(slot) if slot & SLOT_BIT != 0 => {
                self.in_time_wait(slot & !SLOT_BIT, key, &segment)
            }
            Some(slot) => self.for_connection(slot as usize, &segment),
            None => self.for_nobody(key, &segment, None),
        };
        match disposition {
            Disposition::Kept => {}
            Disposition::Done => self.pool.release(segment.id),
            Disposition::Dropped(reason) => self.drop_frame(segment.id, reason),
        }
    }

    /// 3.10.7.1 CLOSED and 3.10.7.2 LISTEN. `last` is what the last connection of these addresses would have sent next,
    /// when it has just left TIME-WAIT.
    fn for_nobody(
        &mut self,
        key: FlowKey,
        segment: &Segment,
        last: Option<SeqNumber>,
    ) -> Disposition {
        let header = &segment.header;
        let Some(listener) = self.listener_for(key) else {
            self.reset_in_answer(key, segment);
            return Disposition::Dropped(Drop::NoSocket);
        };
        // "First, check for a RST: An incoming RST segment should be ignored."
        if header.flags.has(Flags::RST) {
            return Disposition::Dropped(Drop::NoSocket);
        }
        // "Second, check for an ACK": none is expected, unless it returns a cookie.
        if header.flags.has(Flags::ACK) {
            let returned = if header.flags.has(Flags::SYN) {
                Returned::NoCookie
            } else {
                self.open_from_cookie(listener, key, header)
            };
            return match returned {
                Returned::Connection(index) => self.for_connection(index, segment),
                // The peer believes itself connected: its data asks again.
                Returned::NoRoom => Disposition::Dropped(Drop::SynBacklog),
                Returned::NoCookie => {
                    self.reset_in_answer(key, segment);
                    Disposition::Dropped(Drop::NoSocket)
                }
            };
        }
        // "Third, check for a SYN". Data with it is left to be sent again.
        if header.flags.has(Flags::SYN) {
            let kept = match header.options.fast_open {
                Some(cookie) => self.fast_open_arrives(listener, (key, cookie), segment, last),
                None => {
                    self.syn_for_listener(listener, key, &segment.syn(), last, |_, _| {});
                    false
                }
            };
            return if kept {
                Disposition::Kept
            } else {
                Disposition::Done
            };
        }
        Disposition::Dropped(Drop::NoSocket)
    }

    /// A segment for a connection in TIME-WAIT (3.10.7.4, RFC 6191, RFC 1337).
    fn in_time_wait(&mut self, index: u32, key: FlowKey, segment: &Segment) -> Disposition {
        let tick = self.now.tick();
        let header = &segment.header;
        let Some(entry) = self.stack.time_wait.get(index).copied() else {
            return Disposition::Dropped(Drop::NoSocket);
        };
        // RFC 1337: a RST does not end TIME-WAIT.
        if header.flags.has(Flags::RST) {
            return Disposition::Dropped(Drop::Unacceptable);
        }
        // RFC 6191, 2: a SYN that is certainly new opens a new connection (RFC 9293, MAY-2).
        if header.flags.has(Flags::SYN) && !header.flags.has(Flags::ACK) {
            let stamps = header.options.timestamps.filter(|_| entry.timestamps);
            let newer = match stamps {
                Some(t) if t.value != entry.ts_recent => {
                    (t.value.wrapping_sub(entry.ts_recent) as i32) > 0
                }
                Some(_) | None => entry.rcv_nxt.before(header.seq),
            };
            // Where nobody listens the SYN proves nothing, and a cookie could not begin behind the last sequence number.
            let room = self
                .listener_for(key)
                .is_some_and(|l| self.takes_half_open(l));
            if newer && room {
                self.forget_time_wait(index);
                return self.for_nobody(key, segment, Some(entry.snd_nxt));
            }
        }
        let mut entry = entry;
        let is_next = header.seq.at_or_before(entry.rcv_nxt)
            && entry.rcv_nxt.before(header.seq + segment.seq_len());
        if entry.fin_is_due && is_next {
            if header.seq + u32::from(segment.len) != entry.rcv_nxt {
                // Nobody can read it (RFC 9293, SHLD-3).
                self.reset_in_answer(key, segment);
                self.forget_time_wait(index);
                return Disposition::Done;
            }
            if header.flags.has(Flags::FIN) {
                entry.fin_is_due = false;
                entry.rcv_nxt += 1;
                if let Some(kept) = self.stack.time_wait.get_mut(index) {
                    *kept = entry;
                }
            }
        }
        // The peer did not get our last acknowledgment: again, and wait anew for a FIN.
        if header.flags.has(Flags::FIN) && header.seq + segment.seq_len() == entry.rcv_nxt {
            let until = tick.after(self.stack.periods.time_wait);
            let index = self.stack.time_wait.restart(index, until);
            if let Some(entry) = self.stack.time_wait.get_mut(index) {
                entry.since = tick;
            }
        }
        if segment.seq_len() != 0 || header.seq != entry.rcv_nxt {
            let answer = Header {
                source_port: header.destination_port,
                destination_port: header.source_port,
                seq: entry.snd_nxt,
                ack: entry.rcv_nxt,
                header_len: 0,
                flags: Flags::ACK | ecn::flags_of(entry.ecn_bits),
                window: entry.window,
                urgent: 0,
                accurate_ecn: ecn::has_ae(entry.ecn_bits),
                options: Options {
                    timestamps: entry.timestamps.then(|| Timestamps {
                        value: tick.0.wrapping_add(entry.ts_offset),
                        echo: header
                            .options
                            .timestamps
                            .map_or(entry.ts_recent, |t| t.value),
                    }),
                    ..Options::default()
                },
            };
            let random = &mut self.stack.secrets.random;
            if self.stack.time_wait_answers.allow(self.now, random) {
                self.send_unconnected(key, &answer);
            }
        }
        Disposition::Done
    }

    fn for_connection(&mut self, index: usize, segment: &Segment) -> Disposition {
        match self.stack.tcbs[index].state {
            State::SynSent => self.in_syn_sent(index, segment),
            _ => self.otherwise(index, segment),
        }
    }

    /// 3.10.7.3 SYN-SENT.
    fn in_syn_sent(&mut self, index: usize, segment: &Segment) -> Disposition {
        let header = &segment.header;
        let flags = header.flags;
        let tcb = &self.stack.tcbs[index];
        // "First, check the ACK bit."
        let acceptable = flags.has(Flags::ACK) && header.ack.within(tcb.iss + 1, tcb.snd_nxt);
        if flags.has(Flags::ACK) && !acceptable {
            if !flags.has(Flags::RST) {
                self.reset_in_answer(tcb.key, segment);
            }
            return Disposition::Dropped(Drop::Unacceptable);
        }
        // "Second, check the RST bit."
        if flags.has(Flags::RST) {
            if acceptable {
                self.kill(index, Error::Refused);
                return Disposition::Done;
            }
            return Disposition::Dropped(Drop::Unacceptable);
        }
        // "Fourth, check the SYN bit."
        if !flags.has(Flags::SYN) {
            return Disposition::Dropped(Drop::Unacceptable);
        }
        if !acceptable {
            // Simultaneous open: "Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment".
            self.take_syn(index, &self.limited_syn(index, segment));
            if let Some(number) = header.options.alternate_checksum {
                self.alternate_checksum_offered(index, number);
            }
            self.stack.tcbs[index].move_to(State::SynReceived);
            self.stack.fast_open_unanswered(index);
            self.send_syn(index);
            return Disposition::Done;
        }
        let answer = header.options.alternate_checksum;
        let syn = self.limited_syn(index, segment);
        if self.stack.tcbs[index].is_rare(rare::FAST_OPEN) {
            cold_path();
            self.fast_open_answered(index, &syn, answer);
        } else {
            self.syn_acknowledged(index, &syn, answer);
            self.answered_after_loss(index, syn.options.echo());
        }
        if flags.has(Flags::URG) {
            self.urgent_arrives(index, header);
        }
        let disposition = self.take_text(index, segment, segment.len);
        if self.stack.tcbs[index].is_rare(rare::ACCURATE_ECN) {
            cold_path();
            // Data would tell of no codepoint (RFC 9768, 3.2.2.1).
            self.acknowledge(index);
            self.finish(index, false);
        } else {
            self.finish(index, true);
        }
        disposition
    }

    /// The peer's SYN, its MSS no larger than the connection's own.
    fn limited_syn(&self, index: usize, segment: &Segment) -> Syn {
        let mut syn = segment.syn();
        if let Some(most) = self.stack.max_segment(index) {
            syn.limit_mss(most, self.stack.tcbs[index].key);
        }
        syn
    }

    /// 3.10.7.4 Other states.
    fn otherwise(&mut self, index: usize, segment: &Segment) -> Disposition {
        let header = &segment.header;
        let flags = header.flags;
        let tick = self.now.tick();
        if flags.has(Flags::SYN | Flags::ACK) && self.stack.tcbs[index].is_rare(rare::ACCURATE_ECN)
        {
            cold_path();
            self.stack.syn_answer_repeated(index, segment.syn().ecn);
        }
        let tcb = &mut self.stack.tcbs[index];

        // RFC 7323, 5.3, R1: PAWS, before the sequence number.
        if tcb.is(flag::TIMESTAMPS) && !flags.has(Flags::RST) {
            match header.options.timestamps {
                Some(stamps)
                    if (stamps.value.wrapping_sub(tcb.ts_recent) as i32) < 0
                        && !tcb.is_rare(rare::OUTDATED) =>
                {
                    self.answer_unacceptable(index, segment);
                    return Disposition::Dropped(Drop::Paws);
                }
                Some(_) => {}
                // RFC 7323, 3.2: "a TCP SHOULD silently drop the segment". A SYN is judged below.
                None if flags.has(Flags::SYN) => {}
                None => return Disposition::Dropped(Drop::Paws),
            }
        }

        // "First, check sequence number."
        let window = tcb.rcv_edge - tcb.rcv_nxt;
        let edge = tcb.rcv_edge;
        let start = header.seq;
        let len = segment.seq_len();
        // A RST is judged by its number alone, whatever it carries (RFC 5961, 3.2; RFC 9293, SHLD-2).
        let reset = flags.has(Flags::RST);
        let judged = if reset { 0 } else { len };
        let acceptable = match (judged, window) {
            (0, 0) => start == tcb.rcv_nxt,
            (0, _) if reset => start.within(tcb.rcv_nxt, edge - 1),
            // A peer that has filled the window acknowledges from its right edge, as Linux and BSD take it.
            (0, _) => start.within(tcb.rcv_nxt, edge),
            (_, 0) => false,
            // Any part of it: what begins before the window may end behind it.
            (_, _) => start.before(edge) && tcb.rcv_nxt.before(start + len),
        };
        if !acceptable {
            return self.not_acceptable(index, segment);
        }
        // RFC 9293, MUST-26: keepalive probes only after an interval in which nothing was received.
        let answers = tcb.keep_deadline.is_set() && tcb.is_probed();
        if answers {
            tcb.keep_probes_answered();
            let look = tcb.keep_look_interval();
            self.set_due(index, Due::KeepAlive, look);
        } else if tcb.keep_deadline.is_set() {
            // Whatever it is, the keepalive timer sees at its next look that something was received.
            tcb.keep_seen = !tcb.moved();
        }

        // "Second, check the RST bit" (RFC 5961, 3.2).
        if flags.has(Flags::RST) {
            return self.reset_arrives(index, segment);
        }
        // "Fourth, check the SYN bit" (RFC 5961, 4.2).
        let tcb = &mut self.stack.tcbs[index];
        if flags.has(Flags::SYN) {
            if tcb.state == State::SynReceived && start == tcb.irs {
                return self.syn_again(index, segment);
            }
            self.challenge(index);
            return Disposition::Dropped(Drop::Unacceptable);
        }
        // "Fifth, check the ACK field: if the ACK bit is off, drop the segment and return."
        if !flags.has(Flags::ACK) {
            return Disposition::Dropped(Drop::Unacceptable);
        }
        if tcb.is_rare(rare::AMENDED) {
            cold_path();
            self.take_congestion_mark(index, segment);
        }
        let tcb = &mut self.stack.tcbs[index];
        if tcb.state == State::SynReceived {
            if !header.ack.within(tcb.snd_una + 1, tcb.snd_nxt) {
                let key = tcb.key;
                self.reset_in_answer(key, segment);
                return Disposition::Dropped(Drop::Unacceptable);
            }
            // The window of the SYN was not scaled; this one is.
            tcb.snd_wnd = u32::from(header.window) << tcb.snd_shift;
            tcb.max_snd_wnd = tcb.snd_wnd;
            if let Some(stamps) = header.options.timestamps
                && tcb.is(flag::TIMESTAMPS)
                && start.at_or_before(tcb.rcv_nxt)
                && tcb.unacked == 0
            {
                tcb.take_timestamp(stamps.value, tick);
            }
            tcb.predict();
            if tcb.is_rare(rare::ACCURATE_ECN) {
                cold_path();
                self.stack.handshake_confirmed(index, segment);
            }
            self.acknowledged(index, header.ack, None);
            self.established_maybe_early(index, header.options.echo());
            self.acknowledged_fin(index);
        } else if !self.acknowledgment_arrives(index, segment) {
            self.finish(index, false);
            return Disposition::Dropped(Drop::Unacceptable);
        }
        // The acknowledgment may have ended the connection.
        let state = self.stack.tcbs[index].state;
        if matches!(state, State::Closed | State::TimeWait) {
            return Disposition::Done;
        }

        if segment.unsummed || header.options.empty_checksum_data {
            self.agreement_confirmed(index, header.options.empty_checksum_data);
        }
        if flags.has(Flags::URG) {
            self.urgent_arrives(index, header);
        }
        // "Seventh, process the segment text." "Eighth, check the FIN bit."
        let tcb = &self.stack.tcbs[index];
        let before = tcb.rcv_nxt;
        let (had_gap, fin_again) = (tcb.ooo_head.is_some(), tcb.is_rare(rare::FIN_SEEN));
        let disposition = self.take_text(index, segment, segment.len);
        let tcb = &mut self.stack.tcbs[index];
        if matches!(tcb.state, State::Closed | State::TimeWait) {
            return disposition;
        }
        tcb.check_wl1();
        if answers {
            // The silence begins with the answer.
            tcb.keep_seen = tcb.moved();
        }
        // RFC 5681, 4.2: at once for what is out of order, fills a gap, or was there already.
        let out_of_place = start != before || had_gap || tcb.ooo_head.is_some();
        let mut at_once = len != 0 && (out_of_place || flags.has(Flags::FIN) || tcb.is_quick());
        if tcb.is_rare(rare::ACCURATE_ECN) {
            cold_path();
            at_once |= self.stack.is_mark_urgent(index);
        }
        let tcb = &self.stack.tcbs[index];
        let closes = segment.len == 0
            && !(out_of_place || fin_again)
            && tcb.state == State::CloseWait
            && tcb.rcv_nxt == before + 1;
        if closes && self.stack.await_close(index) {
            self.output(index);
        } else {
            self.finish(index, at_once);
        }
        disposition
    }

    /// Finishes a segment: sends what it made room for, and the acknowledgment if that did not carry it.
    pub(in crate::tcp) fn finish(&mut self, index: usize, acknowledge: bool) {
        if acknowledge {
            let tcb = &mut self.stack.tcbs[index];
            tcb.unacked = tcb.unacked.max(1);
            if tcb.is_rare(rare::SACK_DUE) {
                cold_path();
                // Data would carry the acknowledgment and no ranges.
                self.acknowledge(index);
            }
        }
        self.output(index);
        self.acknowledge_if_due(index, acknowledge);
        if !self.stack.compiled.common {
            cold_path();
            self.stack.trim_chain(self.pool, index);
        }
    }

    fn acknowledge_if_due(&mut self, index: usize, acknowledge: bool) {
        let tcb = &mut self.stack.tcbs[index];
        if tcb.unacked == 0 {
            return;
        }
        // RFC 9293, 3.8.6.3: at least every second segment, and within half a second.
        if acknowledge || tcb.unacked >= self.stack.compiled.ack_after {
            self.acknowledge(index);
        } else if !tcb.ack_deadline.is_set() {
            self.set_due(index, Due::Acknowledgment, self.stack.delayed_ack);
        }
    }

    /// "If an incoming segment is not acceptable, an acknowledgment should be sent in reply (unless the RST bit is set)".
    fn not_acceptable(&mut self, index: usize, segment: &Segment) -> Disposition {
        let header = &segment.header;
        let tcb = &mut self.stack.tcbs[index];
        // A keepalive probe, which has no data, makes no state: idle connections get it.
        if segment.len != 0 {
            let (selective, next) = (tcb.is_rare(rare::SACK_PERMITTED), tcb.rcv_nxt);
            let (tcb, state) = self.stack.recovery_of(index);
            state.duplicates = state.duplicates.saturating_add(1);
            let (start, end) = (header.seq, header.seq + u32::from(segment.len));
            if selective && end.at_or_before(next) {
                // RFC 2883, 4: all of it is here.
                state.reported.duplicate(SackBlock { start, end });
                tcb.set_sack_due(true);
            }
        }
        let tcb = &mut self.stack.tcbs[index];
        if tcb.misses_acknowledgments(segment) {
            self.stack.keep_checksums(index, Agreement::TimedOut);
        } else if tcb.is_late_confirmation(segment) {
            self.agreement_confirmed(index, true);
        }
        let tcb = &mut self.stack.tcbs[index];
        if header.flags.has(Flags::RST) {
            return Disposition::Dropped(Drop::Unacceptable);
        }
        if header.flags.has(Flags::SYN) && tcb.state == State::SynReceived && header.seq == tcb.irs
        {
            return self.syn_again(index, segment);
        }
        // With a zero window, valid acknowledgments and urgent pointers are still taken (RFC 9293, MUST-66). While the peer's own probe, an
        // byte and perhaps a FIN, has found no room here, its acknowledgments come from behind that.
        let zero_window = tcb.rcv_edge == tcb.rcv_nxt;
        let in_place = header.seq.within(tcb.rcv_nxt, tcb.rcv_nxt + 2);
        if zero_window && in_place && header.flags.has(Flags::ACK) && tcb.state.is_synchronized() {
            self.acknowledgment_arrives(index, segment);
            if matches!(
                self.stack.tcbs[index].state,
                State::Closed | State::TimeWait
            ) {
                return Disposition::Done;
            }
            if header.flags.has(Flags::URG) {
                self.urgent_arrives(index, header);
            }
            self.output(index);
            if segment.seq_len() == 0 {
                // Two ends that both probe would answer each other's acknowledgments for ever.
                return Disposition::Done;
            }
        }
        self.answer_unacceptable(index, segment);
        Disposition::Dropped(Drop::Unacceptable)
    }

    /// The peer's SYN again, in SYN-RECEIVED: it did not get our answer; or, when it acknowledges our SYN, it opened at
    /// the same time (RFC 9293, 3.5, figure 7). What it carries beside the SYN is left to be sent again.
    fn syn_again(&mut self, index: usize, segment: &Segment) -> Disposition {
        let header = &segment.header;
        let tcb = &mut self.stack.tcbs[index];
        if !header.flags.has(Flags::ACK) {
            // Karn: which of our answers is acknowledged cannot be told.
            tcb.rtt = Rtt::UNKNOWN;
            if self.stack.syn_repeated(index, segment.syn().ecn) {
                self.reset_in_answer(self.stack.tcbs[index].key, segment);
                self.kill(index, Error::Reset);
                return Disposition::Done;
            }
            self.send_syn(index);
            return Disposition::Dropped(Drop::Unacceptable);
        }
        if !header.ack.within(tcb.snd_una + 1, tcb.snd_nxt) {
            let key = tcb.key;
            self.reset_in_answer(key, segment);
            return Disposition::Dropped(Drop::Unacceptable);
        }
        // The window of a SYN is not scaled (RFC 7323, 2.2).
        tcb.snd_wnd = u32::from(header.window);
        tcb.max_snd_wnd = tcb.snd_wnd;
        tcb.predict();
        if let Some(number) = header.options.alternate_checksum {
            self.alternate_checksum_answered(index, number);
        }
        self.acknowledged(index, header.ack, None);
        self.established_maybe_early(index, header.options.echo());
        self.acknowledged_fin(index);
        self.finish(index, true);
        Disposition::Done
    }

    /// RFC 5961, 3.2: exactly in place resets, elsewhere in the window is challenged.
    fn reset_arrives(&mut self, index: usize, segment: &Segment) -> Disposition {
        let tcb = &self.stack.tcbs[index];
        if segment.header.seq != tcb.rcv_nxt {
            self.challenge(index);
            return Disposition::Dropped(Drop::Unacceptable);
        }
        let error = match tcb.state {
            State::SynReceived if tcb.sends_early() => Error::Reset,
            // "If this connection was initiated with an active OPEN, the connection was refused".
            State::SynReceived => Error::Refused,
            _ => Error::Reset,
        };
        let over = matches!(tcb.state, State::Closing | State::LastAck | State::TimeWait);
        self.early_reset(index);
        if over {
            // "enter the CLOSED state": nothing was lost.
            self.closed(index);
        } else {
            self.kill(index, error);
        }
        Disposition::Done
    }

    /// Both directions are closed and the peer knows it.
    pub(in crate::tcp) fn closed(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        if tcb.is_rare(rare::ORPHAN) || tcb.is_rare(rare::UNACCEPTED) {
            self.free_connection(index);
            return;
        }
        self.release_send_queue(index);
        self.detach(index);
        let tcb = &mut self.stack.tcbs[index];
        tcb.state = State::Closed;
        tcb.rtx_deadline = Deadline::NONE;
        tcb.ack_deadline = Deadline::NONE;
        tcb.keep_deadline = Deadline::NONE;
        tcb.user_deadline = Deadline::NONE;
        tcb.predict();
        self.notify(index, readiness::CLOSED);
    }
}
