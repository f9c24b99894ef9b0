//! Output: what may be sent, and the headers that it is sent with.
//!
//! A frame of the send queue is one segment. Its payload and the payload's partial checksum are there since the
//! application's call; sending writes headers in front of it from the connection's template (Clark et al. 1989) and
//! gives the link a reference. Decisions follow RFC 9293, 3.7.4 (Nagle), 3.8.6.2.1 (silly windows) and RFC 5681.

use super::tcb::{Deadline, flag, rare};
use crate::buffer::{Frame, FrameId, PAYLOAD_OFFSET, RxChecksum};
use crate::config::{ChecksumPolicy, HeaderTemplate, RetransmitCopy};
use crate::counters::Drop;
use crate::stack::Active;
use tollgate_checksum::Partial;
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::SeqNumber;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::ipv4;
use tollgate_wire::tcp::{self, Flags, Timestamps};

/// Ethernet, IPv4 and TCP headers without options.
const PLAIN: usize = 54;
/// The same with the timestamp option.
const STAMPED: usize = 66;
/// Hops that our packets may take.
pub(crate) const TTL: u8 = 64;

/// What varies from segment to segment.
#[derive(Clone, Copy)]
struct Varying {
    seq: SeqNumber,
    ack: SeqNumber,
    flags: Flags,
    window: u16,
    ts_value: u32,
    ts_echo: u32,
    /// Octets of payload.
    len: u16,
    /// Their sum.
    sum: Partial,
}

/// Writes `N` octets of headers from a template. `N` is [`PLAIN`] or [`STAMPED`].
#[inline(always)]
fn write_from_template<const N: usize>(
    head: &mut [u8; N],
    tcb: &super::tcb::Tcb,
    common: &[u8; 8],
    v: Varying,
    checksum: bool,
) {
    let put4 = |head: &mut [u8; N], at: usize, word: u32| head[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    let tcp_len = (N - 34) as u16 + v.len;
    let total_len = tcp_len + 20;

    head[..8].copy_from_slice(&tcb.link);
    head[8..16].copy_from_slice(common);
    // Identification is zero: the datagram is atomic (RFC 6864, 4.1).
    head[16..20].copy_from_slice(&(u32::from(total_len) << 16).to_be_bytes());
    put4(head, 20, u32::from_ne_bytes([0x40, 0, TTL, ipv4::protocol::TCP]));
    put4(head, 26, tcb.key.local);
    put4(head, 30, tcb.key.remote);
    // An incoming packet's ports turned round.
    put4(head, 34, tcb.key.ports.rotate_left(16));

    let seq = v.seq.0.to_be();
    let ack = v.ack.0.to_be();
    let word = ((((N - 34) / 4) as u32) << 28 | u32::from(v.flags.0) << 16 | u32::from(v.window)).to_be();
    put4(head, 38, seq);
    put4(head, 42, ack);
    put4(head, 46, word);
    let mut sum = u64::from(seq) + u64::from(ack) + u64::from(word);
    if N == STAMPED {
        let (value, echo) = (v.ts_value.to_be(), v.ts_echo.to_be());
        put4(head, 54, u32::from_ne_bytes(tcp::TIMESTAMP_LAYOUT));
        put4(head, 58, value);
        put4(head, 62, echo);
        sum += u64::from(value) + u64::from(echo);
    }
    if checksum {
        let ip = tcb.ip_sum + Partial::from_be_word(total_len);
        head[24..26].copy_from_slice(&ip.finish().to_ne_bytes());
        let all = Partial::from_ne_u64(sum) + tcb.tcp_sum + Partial::from_be_word(tcp_len) + v.sum;
        // The urgent pointer is zero.
        head[50..52].copy_from_slice(&all.finish().to_ne_bytes());
        head[52..54].copy_from_slice(&[0, 0]);
    } else {
        head[24..26].copy_from_slice(&[0, 0]);
        put4(head, 50, 0);
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Copies octets into frames behind the send queue, at most `room`; returns how many.
    #[inline(always)]
    pub(crate) fn append(&mut self, index: usize, data: &[u8], room: usize) -> usize {
        let mut left = &data[..data.len().min(room)];
        let total = left.len();
        if self.stack.tcbs[index].unsent.is_some() {
            left = self.fill_tail(index, left);
        }
        let mss = usize::from(self.stack.tcbs[index].mss);
        while !left.is_empty() {
            let Some(id) = self.pool.alloc() else {
                break;
            };
            let (chunk, rest) = left.split_at(left.len().min(mss));
            let sum = self.copy_in(id, 0, chunk);
            self.append_frame(index, id, chunk.len() as u16, sum);
            left = rest;
        }
        total - left.len()
    }

    /// Copies `chunk` into a frame's payload at `at` and sums it on the way.
    #[inline(always)]
    fn copy_in(&mut self, id: FrameId, at: usize, chunk: &[u8]) -> Partial {
        let start = PAYLOAD_OFFSET + at;
        let room = &mut self.pool.octets_mut(id)[start..start + chunk.len()];
        match self.stack.config.mechanisms.checksum {
            ChecksumPolicy::Always => self.stack.kernel.copy_and_sum(room, chunk),
            ChecksumPolicy::Off => {
                room.copy_from_slice(chunk);
                Partial::ZERO
            }
        }
    }

    /// Puts octets behind those of an unsent last frame, as far as a segment holds; returns the rest.
    #[inline]
    fn fill_tail<'d>(&mut self, index: usize, data: &'d [u8]) -> &'d [u8] {
        let tcb = &self.stack.tcbs[index];
        let id = tcb.tx_tail;
        let meta = self.pool.meta(id);
        if meta.tx_flags != Flags(0) || meta.refs > 1 {
            return data;
        }
        let used = usize::from(meta.tx_len);
        let (chunk, rest) = data.split_at(data.len().min(usize::from(tcb.mss).saturating_sub(used)));
        if chunk.is_empty() {
            return rest;
        }
        let sum = self.copy_in(id, used, chunk);
        let meta = self.pool.meta_mut(id);
        meta.tx_sum = meta.tx_sum.append(used, sum);
        meta.tx_len += chunk.len() as u16;
        meta.tx_end += chunk.len() as u32;
        self.stack.tcbs[index].snd_end += chunk.len() as u32;
        rest
    }

    /// Puts a frame with `len` octets of payload behind the send queue.
    #[inline(always)]
    pub(crate) fn append_frame(&mut self, index: usize, id: FrameId, len: u16, sum: Partial) {
        let tcb = &mut self.stack.tcbs[index];
        let meta = self.pool.meta_mut(id);
        meta.tx_len = len;
        meta.tx_seq = tcb.snd_end;
        meta.tx_end = tcb.snd_end + u32::from(len);
        meta.tx_sum = sum;
        meta.tx_flags = Flags(0);
        meta.transmissions = 0;
        meta.tx_next = FrameId::NONE;
        tcb.snd_end = meta.tx_end;
        if tcb.tx_head.is_none() {
            tcb.tx_head = id;
        } else {
            self.pool.meta_mut(tcb.tx_tail).tx_next = id;
        }
        if tcb.unsent.is_none() {
            tcb.unsent = id;
        }
        tcb.tx_tail = id;
    }

    /// Puts a SYN or FIN behind the send queue, on the last frame when that is unsent and the flag is a FIN. Without a
    /// frame in the pool a FIN is tried again by the timer, and a SYN is not there, which the caller sees.
    pub(crate) fn append_control(&mut self, index: usize, flags: Flags) {
        let tcb = &mut self.stack.tcbs[index];
        if flags == Flags::FIN && tcb.unsent.is_some() {
            let tail = tcb.tx_tail;
            let meta = self.pool.meta_mut(tail);
            meta.tx_flags |= flags;
            meta.tx_end += 1;
            tcb.snd_end += 1;
            return;
        }
        let Some(id) = self.pool.alloc() else {
            self.stack.counters.dropped(Drop::NoFrame);
            let at = self.now.tick().after(1);
            let tcb = &mut self.stack.tcbs[index];
            if flags == Flags::FIN {
                tcb.rare |= rare::FIN_PENDING;
                tcb.ack_deadline = Deadline::at(at);
                self.arm(index, at);
            }
            return;
        };
        self.append_frame(index, id, 0, Partial::ZERO);
        let meta = self.pool.meta_mut(id);
        meta.tx_flags = flags;
        meta.tx_end += 1;
        self.stack.tcbs[index].snd_end += 1;
    }

    /// Sends what may be sent of the unsent frames.
    #[inline(always)]
    pub(crate) fn output(&mut self, index: usize) {
        loop {
            let tcb = &self.stack.tcbs[index];
            let id = tcb.unsent;
            if id.is_none() {
                break;
            }
            let meta = self.pool.meta(id);
            let len = u32::from(meta.tx_len);
            let flight = tcb.in_flight();
            if flight + len > tcb.snd_wnd.min(tcb.cwnd) {
                if self.window_blocks(index) {
                    return;
                }
                continue;
            }
            // RFC 9293, 3.7.4: a partial segment waits while anything is unacknowledged.
            if len < u32::from(tcb.mss)
                && flight != 0
                && !tcb.is(flag::NO_DELAY)
                && meta.tx_next.is_none()
                && meta.tx_flags == Flags(0)
            {
                return;
            }
            if !self.device_has_room() {
                self.wait_for_room(index);
                return;
            }
            self.send_next(index, id);
        }
        self.stack.tcbs[index].flags &= !flag::CWND_LIMITED;
    }

    /// Sends the first unsent frame.
    #[inline(always)]
    fn send_next(&mut self, index: usize, id: FrameId) {
        let now = self.now;
        let tcb = &mut self.stack.tcbs[index];
        let meta = self.pool.meta_mut(id);
        if meta.transmissions != 0 {
            self.send_again(index, id);
            return;
        }
        meta.sent_at = now;
        meta.transmissions = 1;
        tcb.unsent = meta.tx_next;
        tcb.snd_nxt = meta.tx_end;
        let push = if meta.tx_next.is_none() && meta.tx_len != 0 { Flags::PSH } else { Flags(0) };
        let (seq, len, sum, flags) = (meta.tx_seq, meta.tx_len, meta.tx_sum, meta.tx_flags | push | Flags::ACK);
        // RFC 6298, 5.1.
        if !tcb.rtx_deadline.is_set() {
            let at = now.tick().after(tcb.rto);
            tcb.rtx_deadline = Deadline::at(at);
            self.arm(index, at);
        }
        match self.stack.config.mechanisms.retransmit {
            RetransmitCopy::Reference => {
                self.pool.retain(id);
                self.emit(index, id, seq, flags, len, sum);
            }
            RetransmitCopy::Copy => self.emit_copy(index, id, seq, flags, len, sum),
        }
    }

    /// Sends a frame that was sent before a timeout.
    #[cold]
    fn send_again(&mut self, index: usize, id: FrameId) {
        let tick = self.now.tick();
        let tcb = &mut self.stack.tcbs[index];
        let meta = self.pool.meta(id);
        tcb.unsent = meta.tx_next;
        tcb.snd_nxt = meta.tx_end;
        if !tcb.rtx_deadline.is_set() {
            let at = tick.after(tcb.rto);
            tcb.rtx_deadline = Deadline::at(at);
            self.arm(index, at);
        }
        self.retransmit(index, id);
    }

    /// Sends a copy of a frame whose payload stays as it is.
    pub(crate) fn emit_copy(&mut self, index: usize, id: FrameId, seq: SeqNumber, flags: Flags, len: u16, sum: Partial) {
        let Some(copy) = self.pool.alloc() else {
            self.stack.counters.dropped(Drop::NoFrame);
            return;
        };
        self.pool.copy_payload(id, copy, usize::from(len));
        self.emit(index, copy, seq, flags, len, sum);
    }

    /// Writes headers in front of a frame's payload and queues it for the link, which takes over one count.
    #[inline(always)]
    pub(crate) fn emit(&mut self, index: usize, id: FrameId, seq: SeqNumber, flags: Flags, len: u16, sum: Partial) {
        self.rec.pass(Gate::TcpOutBegin, PacketId(seq.0));
        let tick = self.now.tick();
        let tcb = &mut self.stack.tcbs[index];
        // The window is offered in steps of a segment (RFC 9293, 3.8.6.2.2) and never taken back.
        let edge = tcb.rcv_nxt + tcb.rx_free;
        if edge.signed_distance(tcb.rcv_edge) >= i32::from(tcb.mss) {
            tcb.rcv_edge = edge;
        }
        let window = ((tcb.rcv_edge - tcb.rcv_nxt) >> tcb.rcv_shift).min(0xffff) as u16;
        tcb.unacked = 0;
        tcb.ack_deadline = Deadline::NONE;
        let varying = Varying {
            seq,
            ack: tcb.rcv_nxt,
            flags,
            window,
            ts_value: tick.0.wrapping_add(tcb.ts_offset),
            ts_echo: tcb.ts_recent,
            len,
            sum,
        };
        self.rec.pass(Gate::ChecksumOutBegin, PacketId(seq.0));
        let mechanisms = &self.stack.config.mechanisms;
        let checksum = mechanisms.checksum == ChecksumPolicy::Always;
        let octets = self.pool.octets_mut(id);
        let headers = if mechanisms.template == HeaderTemplate::Off {
            write_field_by_field(octets, tcb, &self.stack.config.mac, varying, checksum)
        } else if tcb.is(flag::TIMESTAMPS) {
            if let Some(head) = octets[PAYLOAD_OFFSET - STAMPED..].first_chunk_mut::<STAMPED>() {
                write_from_template(head, tcb, &self.stack.template, varying, checksum);
            }
            STAMPED
        } else {
            if let Some(head) = octets[PAYLOAD_OFFSET - PLAIN..].first_chunk_mut::<PLAIN>() {
                write_from_template(head, tcb, &self.stack.template, varying, checksum);
            }
            PLAIN
        };
        self.rec.pass(Gate::ChecksumOutEnd, PacketId(seq.0));
        let frame = Frame {
            id,
            offset: (PAYLOAD_OFFSET - headers) as u16,
            len: headers as u16 + len,
            checksum: RxChecksum::Unknown,
        };
        self.rec.pass(Gate::IpOutBegin, PacketId(seq.0));
        if tcb.is(flag::UNRESOLVED) {
            let next_hop = tcb.next_hop;
            self.link_output(next_hop, frame);
        } else {
            self.stack.device.push(frame);
        }
        self.rec.pass(Gate::DeviceQueueIn, PacketId(seq.0));
    }

    /// Sends an acknowledgment without data.
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self, index: usize) {
        if self.device_has_room()
            && let Some(id) = self.pool.alloc()
        {
            let seq = self.stack.tcbs[index].snd_nxt;
            self.emit(index, id, seq, Flags::ACK, 0, Partial::ZERO);
        } else {
            self.acknowledge_later(index);
        }
    }

    /// Without a frame or room for it the acknowledgment is tried again at the next tick.
    #[cold]
    fn acknowledge_later(&mut self, index: usize) {
        let at = self.now.tick().after(1);
        let tcb = &mut self.stack.tcbs[index];
        tcb.ack_deadline = Deadline::at(at);
        tcb.unacked = tcb.unacked.clamp(1, 100);
        self.arm(index, at);
    }

    /// The next frame does not fit into the window: decides whether a part of it is sent (RFC 9293, 3.8.6.2.1) and sees
    /// to it that something will go on. Returns whether output must wait.
    #[cold]
    fn window_blocks(&mut self, index: usize) -> bool {
        let tick = self.now.tick();
        let tcb = &mut self.stack.tcbs[index];
        let flight = tcb.in_flight();
        if tcb.cwnd < tcb.snd_wnd && flight != 0 {
            tcb.flags |= flag::CWND_LIMITED;
            return true;
        }
        let usable = tcb.snd_wnd.min(tcb.cwnd).saturating_sub(flight);
        if usable != 0 && usable >= tcb.max_snd_wnd / 2 {
            let id = tcb.unsent;
            return !self.split(index, id, usable as u16);
        }
        if flight == 0 && !tcb.rtx_deadline.is_set() {
            // Nothing is outstanding, so no acknowledgment will come: probe (RFC 9293, 3.8.6.1).
            tcb.rare |= rare::PERSIST;
            tcb.predict();
            let at = tick.after(tcb.rto);
            tcb.rtx_deadline = Deadline::at(at);
            self.arm(index, at);
        }
        true
    }

    #[cold]
    fn wait_for_room(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        if !tcb.is(flag::OUTPUT_LISTED) {
            tcb.flags |= flag::OUTPUT_LISTED;
            self.stack.output_waiting.push_back(index as u32);
        }
    }

    /// Splits a frame of the send queue after `at` octets; returns whether it could.
    pub(crate) fn split(&mut self, index: usize, id: FrameId, at: u16) -> bool {
        let meta = *self.pool.meta(id);
        if at == 0 || at >= meta.tx_len {
            return false;
        }
        let Some(rest) = self.pool.alloc() else {
            return false;
        };
        let rest_len = meta.tx_len - at;
        self.pool.copy_within(id, PAYLOAD_OFFSET + usize::from(at), rest, PAYLOAD_OFFSET, usize::from(rest_len));
        let kernel = self.stack.kernel;
        let sum_of = |octets: &[u8], len: u16| kernel.sum(&octets[PAYLOAD_OFFSET..PAYLOAD_OFFSET + usize::from(len)]);
        let first_sum = sum_of(self.pool.octets(id), at);
        let rest_sum = sum_of(self.pool.octets(rest), rest_len);
        let middle = meta.tx_seq + u32::from(at);
        let first = self.pool.meta_mut(id);
        first.tx_len = at;
        first.tx_end = middle;
        first.tx_sum = first_sum;
        first.tx_next = rest;
        first.tx_flags = Flags(0);
        let second = self.pool.meta_mut(rest);
        second.tx_len = rest_len;
        second.tx_seq = middle;
        second.tx_end = meta.tx_end;
        second.tx_sum = rest_sum;
        second.tx_next = meta.tx_next;
        second.tx_flags = meta.tx_flags;
        second.transmissions = meta.transmissions;
        second.sent_at = meta.sent_at;
        let tcb = &mut self.stack.tcbs[index];
        if tcb.tx_tail == id {
            tcb.tx_tail = rest;
        }
        true
    }

    /// Sends the oldest unacknowledged frame again.
    pub(crate) fn retransmit_first(&mut self, index: usize) {
        let id = self.stack.tcbs[index].tx_head;
        if id.is_some() {
            self.retransmit(index, id);
        }
    }

    /// Sends a frame of the send queue again.
    pub(crate) fn retransmit(&mut self, index: usize, id: FrameId) {
        let now = self.now;
        let tcb = &mut self.stack.tcbs[index];
        tcb.retransmits = tcb.retransmits.saturating_add(1);
        self.stack.counters.retransmits += 1;
        let shared = self.pool.is_shared(id);
        let meta = self.pool.meta_mut(id);
        meta.transmissions = meta.transmissions.saturating_add(1);
        meta.sent_at = now;
        let meta = *meta;
        if meta.tx_flags.has(Flags::SYN) {
            self.send_syn(index);
            return;
        }
        let flags = meta.tx_flags | Flags::ACK;
        if !self.device_has_room() {
            self.stack.counters.dropped(Drop::DeviceQueueFull);
        } else if shared || self.stack.config.mechanisms.retransmit == RetransmitCopy::Copy {
            // Whoever else holds the frame may be reading the headers that would be overwritten.
            self.emit_copy(index, id, meta.tx_seq, flags, meta.tx_len, meta.tx_sum);
        } else {
            self.pool.retain(id);
            self.emit(index, id, meta.tx_seq, flags, meta.tx_len, meta.tx_sum);
        }
    }

    /// After a read: tells the peer of a window that has opened by enough (RFC 9293, 3.8.6.2.2).
    #[inline(always)]
    pub(crate) fn window_may_open(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        let gain = (tcb.rcv_nxt + tcb.rx_free).signed_distance(tcb.rcv_edge);
        if gain < 2 * i32::from(tcb.mss) {
            return;
        }
        self.window_opens(index, gain as u32);
    }

    #[inline(never)]
    fn window_opens(&mut self, index: usize, gain: u32) {
        let tcb = &self.stack.tcbs[index];
        let offered = tcb.rcv_edge - tcb.rcv_nxt;
        let worth_it = gain >= tcb.rcv_limit / 2 || offered < 2 * u32::from(tcb.mss);
        if worth_it && tcb.state.may_receive() {
            self.acknowledge(index);
        }
    }

    /// Puts the connection's wheel entry no later than `at`.
    #[inline(always)]
    pub(crate) fn arm(&mut self, index: usize, at: crate::time::Tick) {
        let tcb = &mut self.stack.tcbs[index];
        if at.before(tcb.armed) {
            tcb.armed = at;
            self.stack.wheel.insert(index as u32, at);
        }
    }
}

/// Writes headers without a template, each checksum summed anew: the baseline that a template is measured against.
fn write_field_by_field(
    octets: &mut [u8],
    tcb: &super::tcb::Tcb,
    mac: &MacAddr,
    v: Varying,
    checksum: bool,
) -> usize {
    let [d0, d1, d2, d3, d4, d5, ..] = tcb.link;
    let link = ethernet::Header {
        destination: MacAddr([d0, d1, d2, d3, d4, d5]),
        source: *mac,
        ethertype: EtherType::Ipv4,
    };
    let header = tcp::Header {
        source_port: tcb.local_port(),
        destination_port: tcb.remote_port(),
        seq: v.seq,
        ack: v.ack,
        header_len: 0,
        flags: v.flags,
        window: v.window,
        urgent: 0,
        options: tcp::Options {
            timestamps: tcb.is(flag::TIMESTAMPS).then_some(Timestamps { value: v.ts_value, echo: v.ts_echo }),
            ..tcp::Options::default()
        },
    };
    let mut transport = [0; tcp::MAX_HEADER_LEN];
    let transport_len = header.emit(&mut transport);
    let tcp_len = transport_len as u16 + v.len;
    let ip = ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: 20 + tcp_len,
        identification: 0,
        flags_and_offset: ipv4::DONT_FRAGMENT,
        ttl: TTL,
        protocol: ipv4::protocol::TCP,
        source: tcb.local_ip(),
        destination: tcb.remote_ip(),
    };
    let headers = ethernet::HEADER_LEN + ipv4::HEADER_LEN + transport_len;
    let start = PAYLOAD_OFFSET - headers;
    if checksum {
        let sum = ipv4::pseudo_header(ip.source, ip.destination, ipv4::protocol::TCP, tcp_len)
            + tollgate_checksum::sum_header(&transport[..transport_len])
            + v.sum;
        transport[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
    }
    octets[start..start + 14].copy_from_slice(&link.to_bytes());
    octets[start + 14..start + 34].copy_from_slice(&ip.to_bytes());
    octets[start + 34..start + 34 + transport_len].copy_from_slice(&transport[..transport_len]);
    headers
}
