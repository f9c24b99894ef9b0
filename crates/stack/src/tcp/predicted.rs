//! The predicted path of input: one page, counted on its own.
//!
//! A segment is predicted when its connection is ESTABLISHED and nothing unusual is going on (`Tcb::predicted` stands
//! for all of that), when it is the next one in order, and when it acknowledges something in flight. Data, a pure
//! acknowledgment, data with a new acknowledgment, and a new window are all predicted, so that request-response traffic
//! is too, which 4.4BSD's prediction missed (Wolman et al. 1994, 3). Nothing is changed before every check has passed;
//! whatever fails goes to [`super::segment`] untouched, and the reason is counted.

use super::congestion;
use super::tcb::{Deadline, Tcb, flag};
use crate::buffer::{Frame, FrameId, Pool, RxChecksum};
use crate::config::{ChecksumPolicy, Demux, Prediction};
use crate::counters::Miss;
use crate::demux::FlowKey;
use crate::socket::{Posted, readiness};
use crate::stack::{Active, Stack};
use crate::time::Instant;
use tollgate_checksum::{Partial, sum_header};
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::{SeqNumber, ipv4};

/// Ethernet, IPv4 and TCP headers without options.
const HEADERS: usize = 14 + 20 + 20;
/// The same with the aligned timestamp option.
const HEADERS_WITH_TIMESTAMPS: usize = HEADERS + 12;
/// NOP, NOP, kind 8, length 10.
const TIMESTAMP_LAYOUT: u32 = 0x0101_080a;

#[inline(always)]
fn be16(head: &[u8; HEADERS], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline(always)]
fn be32<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

#[inline(always)]
fn ne32(head: &[u8; HEADERS], at: usize) -> u32 {
    u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

#[inline(always)]
fn key_of(head: &[u8; HEADERS]) -> FlowKey {
    FlowKey { remote: ne32(head, 26), local: ne32(head, 30), ports: ne32(head, 34) }
}

/// What a predicted segment says.
struct Expected {
    ack: SeqNumber,
    acked: u32,
    window: u32,
    ts_value: u32,
    /// Where the payload begins and ends in the frame.
    payload_at: usize,
    end: usize,
}

/// Whether a frame is addressed to us and carries an unfragmented TCP segment behind an IPv4 header without options.
#[inline(always)]
fn is_tcp(head: &[u8; HEADERS], mac_word: u64) -> bool {
    let to = u64::from(be32(head, 0)) << 32 | u64::from(be32(head, 4));
    to & !0xffff == mac_word
        && be32(head, 12) ^ 0x0800_4500 <= 0xff
        && be16(head, 20) & 0x3fff == 0
        && head[23] == ipv4::protocol::TCP
}

/// The prediction: what the segment must be, given the connection.
#[inline(always)]
fn expect(bytes: &[u8], head: &[u8; HEADERS], tcb: &Tcb) -> Result<Expected, Miss> {
    // Data offset and flags, PSH set either way. This also stands for the state.
    if be16(head, 46) | 8 != tcb.predicted | 8 {
        return Err(Miss::Flags);
    }
    let seq = SeqNumber(be32(head, 38));
    if seq != tcb.rcv_nxt {
        return Err(Miss::Sequence);
    }
    let ack = SeqNumber(be32(head, 42));
    let acked = ack - tcb.snd_una;
    if acked > tcb.in_flight() {
        return Err(Miss::Acknowledgment);
    }
    let mut payload_at = HEADERS;
    let mut ts_value = tcb.ts_recent;
    if tcb.is(flag::TIMESTAMPS) {
        payload_at = HEADERS_WITH_TIMESTAMPS;
        let head: &[u8; HEADERS_WITH_TIMESTAMPS] = bytes.first_chunk().ok_or(Miss::Short)?;
        if be32(head, 54) != TIMESTAMP_LAYOUT {
            return Err(Miss::OptionLayout);
        }
        ts_value = be32(head, 58);
        if (ts_value.wrapping_sub(tcb.ts_recent) as i32) < 0 {
            return Err(Miss::Timestamp);
        }
    }
    // The IP length decides, not the frame's, which may be padded.
    let end = 14 + usize::from(be16(head, 16));
    if end < payload_at || end > bytes.len() {
        return Err(Miss::Short);
    }
    let len = (end - payload_at) as u32;
    let window = u32::from(be16(head, 48)) << tcb.snd_shift;
    if window == 0 {
        return Err(Miss::ZeroWindow);
    }
    if len > tcb.rcv_edge - tcb.rcv_nxt {
        return Err(Miss::BeyondWindow);
    }
    if len | acked == 0 && window == tcb.snd_wnd {
        return Err(Miss::Duplicate);
    }
    Ok(Expected { ack, acked, window, ts_value, payload_at, end })
}

impl<R: Recorder> Active<'_, R> {
    /// Takes `frame` when it is predicted; otherwise has changed nothing, and [`Self::why_not_predicted`] says why.
    #[inline(never)]
    pub(crate) fn predicted(&mut self, frame: &Frame, posted: &mut Posted<'_>) -> bool {
        let Active { stack, pool, now, rec } = self;
        let (stack, pool, now): (&mut Stack, &mut Pool, Instant) = (stack, pool, *now);
        let bytes = pool.frame(frame);
        let Some(head) = bytes.first_chunk::<HEADERS>() else {
            return false;
        };
        let packet = if R::ON { PacketId(be32(head, 38)) } else { PacketId(0) };
        rec.pass(Gate::IpInBegin, packet);
        if !is_tcp(head, stack.mac_word) {
            return false;
        }
        rec.pass(Gate::DemuxBegin, packet);
        let Some(index) = stack.find_connection(key_of(head)) else {
            return false;
        };
        rec.pass(Gate::TcpInBegin, packet);
        let Some(tcb) = stack.tcbs.get_mut(index) else {
            return false;
        };
        let Ok(Expected { ack, acked, window, ts_value, payload_at, end }) = expect(bytes, head, tcb) else {
            return false;
        };
        let payload = &bytes[payload_at..end];
        let len = payload.len() as u32;
        if acked != 0 && len != 0 && stack.config.mechanisms.prediction == Prediction::Unidirectional {
            return false;
        }

        // Verify, and copy in the same pass when a reader has posted its buffer and is next in turn.
        rec.pass(Gate::ChecksumInBegin, packet);
        let room = if tcb.rx_head.is_none() { posted.room(index, payload.len()) } else { None };
        let direct = room.is_some();
        if stack.config.mechanisms.checksum == ChecksumPolicy::Always && frame.checksum != RxChecksum::Verified {
            let octets = match (room, frame.checksum) {
                (Some(room), _) => stack.kernel.copy_and_sum(room, payload),
                (None, RxChecksum::Complete(sum)) if end == bytes.len() => sum.sub(sum_header(&bytes[34..payload_at])),
                (None, _) => stack.kernel.sum(payload),
            };
            // Addresses and TCP header lie next to each other: octets 26 to the payload.
            let transport = match bytes.first_chunk::<HEADERS_WITH_TIMESTAMPS>() {
                Some(head) if payload_at == HEADERS_WITH_TIMESTAMPS => sum_header(&head[26..]),
                _ => sum_header(&head[26..]),
            };
            let pseudo = Partial::from_be_word((end - 34 + 6) as u16);
            let all = u64::from(transport.to_ne_u32()) + u64::from(octets.to_ne_u32()) + u64::from(pseudo.to_ne_u32());
            if !Partial::from_ne_u64(all).is_valid() || !sum_header(&head[14..34]).is_valid() {
                return false;
            }
        } else if let Some(room) = room {
            room.copy_from_slice(payload);
        }
        rec.pass(Gate::ChecksumInEnd, packet);

        // Every check has passed: act.
        stack.counters.predicted += 1;
        // RFC 7323, 4.3: only a segment that begins at or before the last acknowledgment sent moves TS.Recent.
        if tcb.unacked == 0 {
            tcb.ts_recent = ts_value;
        }
        tcb.snd_wnd = window;
        let mut ready = 0;
        if acked != 0 {
            ready |= take_acknowledgment(tcb, pool, now, ack, stack.min_rto);
        }
        if len == 0 || direct {
            posted.filled += len as usize;
            pool.release(frame.id);
        } else {
            queue_payload(tcb, pool, frame.id, frame.offset + payload_at as u16, len as u16);
            ready |= readiness::READABLE;
        }
        if len != 0 {
            rec.pass(Gate::SocketQueued, packet);
            advance(tcb, len);
            let at = now.tick().after(stack.delayed_ack);
            tcb.ack_deadline = Deadline::at(at);
            if at.before(tcb.armed) {
                tcb.armed = at;
                stack.wheel.insert(index as u32, at);
            }
        }
        // A new acknowledgment or a new window may let more out; every second segment is acknowledged (RFC 9293, 3.8.6.3).
        if ready != 0 || tcb.unsent.is_some() || tcb.unacked >= 2 {
            self.follow_up(index, ready);
        }
        true
    }

    /// What a predicted segment makes due: tells the application, sends what it made room for, acknowledges.
    #[inline(never)]
    fn follow_up(&mut self, index: usize, ready: u8) {
        if ready != 0 {
            self.notify(index, ready);
        }
        if self.stack.tcbs[index].unsent.is_some() {
            self.output(index);
        }
        if self.stack.tcbs[index].unacked >= 2 {
            self.acknowledge(index);
        }
    }

    /// Why [`Self::predicted`] has not taken a frame.
    #[cold]
    pub(crate) fn why_not_predicted(&mut self, frame: &Frame) -> Miss {
        let bytes = self.pool.frame(frame);
        let Some(head) = bytes.first_chunk::<HEADERS>() else {
            return Miss::Short;
        };
        if !is_tcp(head, self.stack.mac_word) {
            return Miss::NotTcp;
        }
        let Some(tcb) = self.stack.find_connection(key_of(head)).map(|index| &self.stack.tcbs[index]) else {
            return Miss::NoConnection;
        };
        match expect(bytes, head, tcb) {
            Err(miss) => miss,
            Ok(Expected { acked, payload_at, end, .. }) => {
                let unidirectional = self.stack.config.mechanisms.prediction == Prediction::Unidirectional;
                if unidirectional && acked != 0 && end != payload_at { Miss::Bidirectional } else { Miss::Checksum }
            }
        }
    }

    /// The snd_una side of a new acknowledgment, for segments that were not predicted.
    pub(crate) fn acknowledged(&mut self, index: usize, ack: SeqNumber) {
        let ready =
            take_acknowledgment(&mut self.stack.tcbs[index], self.pool, self.now, ack, self.stack.min_rto);
        if ready != 0 {
            self.notify(index, ready);
        }
    }

    /// Payload in order goes to the receive queue, for segments that were not predicted.
    pub(crate) fn deliver(&mut self, index: usize, id: FrameId, offset: u16, len: u16) {
        let tcb = &mut self.stack.tcbs[index];
        queue_payload(tcb, self.pool, id, offset, len);
        advance(tcb, u32::from(len));
        let at = self.now.tick().after(self.stack.delayed_ack);
        tcb.ack_deadline = Deadline::at(at);
        self.arm(index, at);
        self.notify(index, readiness::READABLE);
        if self.stack.tcbs[index].unacked >= 2 {
            self.acknowledge(index);
        }
    }
}

/// The snd_una side of a new acknowledgment: frees what it covers, measures the round trip, opens cwnd. Returns what the
/// connection has become ready for.
#[inline(always)]
fn take_acknowledgment(tcb: &mut Tcb, pool: &mut Pool, now: Instant, ack: SeqNumber, min_rto: u32) -> u8 {
    let mut head = tcb.tx_head;
    // Karn: only what was sent once is timed, here by the last frame that is acknowledged.
    let mut transmissions = 0;
    let mut sent_at = now;
    while head != tcb.unsent {
        let meta = pool.meta(head);
        if !meta.tx_end.at_or_before(ack) {
            break;
        }
        transmissions = meta.transmissions;
        sent_at = meta.sent_at;
        let next = meta.tx_next;
        pool.release(head);
        head = next;
    }
    tcb.tx_head = head;
    let acked = ack - tcb.snd_una;
    if ack.0 < acked {
        tcb.wraps[0] = tcb.wraps[0].wrapping_add(1);
    }
    tcb.snd_una = ack;
    if transmissions == 1 {
        tcb.rtt.update(now.nanos_since(sent_at));
        tcb.rto = tcb.rtt.rto(min_rto);
    }
    // RFC 6298, 5.2 and 5.3.
    tcb.rtx_deadline = if ack == tcb.snd_nxt { Deadline::NONE } else { Deadline::at(now.tick().after(tcb.rto)) };
    if tcb.is(flag::CWND_LIMITED) {
        congestion::on_ack(tcb, acked);
    }
    // Told only to an application that was refused, and when it is worth its while.
    if tcb.events & readiness::WANT_WRITE != 0 && tcb.snd_end - ack <= tcb.snd_limit / 2 {
        tcb.events &= !readiness::WANT_WRITE;
        return readiness::WRITABLE;
    }
    0
}

/// Appends a frame's payload to the receive queue.
#[inline(always)]
fn queue_payload(tcb: &mut Tcb, pool: &mut Pool, id: FrameId, offset: u16, len: u16) {
    let meta = pool.meta_mut(id);
    meta.rx_offset = offset;
    meta.rx_len = len;
    meta.rx_seq = tcb.rcv_nxt;
    meta.rx_next = FrameId::NONE;
    if tcb.rx_head.is_none() {
        tcb.rx_head = id;
    } else {
        pool.meta_mut(tcb.rx_tail).rx_next = id;
    }
    tcb.rx_tail = id;
    tcb.rx_free = tcb.rx_free.saturating_sub(u32::from(len));
}

/// `len` octets in order are with their reader.
#[inline(always)]
fn advance(tcb: &mut Tcb, len: u32) {
    tcb.rcv_nxt += len;
    if tcb.rcv_nxt.0 < len {
        tcb.wraps[1] = tcb.wraps[1].wrapping_add(1);
    }
    tcb.unacked += 1;
}

impl Stack {
    /// The connection with `key`: the last one, or by the table.
    #[inline(always)]
    pub(crate) fn find_connection(&mut self, key: FlowKey) -> Option<usize> {
        if let Some(tcb) = self.tcbs.get(self.cached)
            && tcb.key == key
        {
            self.counters.cache_hits += 1;
            return Some(self.cached);
        }
        self.look_up(key)
    }

    /// The connection with `key` by the table (or the list), remembered for the next segment.
    #[inline(never)]
    fn look_up(&mut self, key: FlowKey) -> Option<usize> {
        self.counters.cache_misses += 1;
        let tcbs = &self.tcbs;
        let index = match self.config.mechanisms.demux {
            Demux::CacheHash | Demux::Hash => {
                let hash = self.table.hash(key);
                self.table.find(hash, |slot| tcbs.get(slot as usize).is_some_and(|tcb| tcb.key == key))? as usize
            }
            Demux::List => tcbs.iter().position(|tcb| tcb.key == key)?,
        };
        if self.config.mechanisms.demux == Demux::CacheHash {
            self.cached = index;
        }
        Some(index)
    }
}
