//! The predicted path of input: one page, counted on its own.
//!
//! A segment is predicted when its connection is ESTABLISHED and nothing unusual is going on
//! (`Tcb::predicted` stands for all of that), when it is the next one in order, and when it
//! acknowledges something in flight. Data, a pure acknowledgment, data with a new acknowledgment, and a new window are
//! all predicted, so that request-response traffic is too, which 4.4BSD's prediction missed (Wolman et al. 1994, 3).
//! Nothing is changed before every check has passed; whatever fails goes to [`super::segment`] untouched, and the
//! reason is counted.

use super::tcb::{Deadline, flag};
use crate::buffer::{Frame, FrameId, RxChecksum};
use crate::config::{ChecksumPolicy, Demux, Prediction};
use crate::counters::Miss;
use crate::demux::FlowKey;
use crate::socket::{Posted, readiness};
use crate::stack::{Active, Stack};
use crate::tcp::congestion;
use tollgate_checksum::{Partial, sum_header};
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::SeqNumber;

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

impl<R: Recorder> Active<'_, R> {
    /// Takes `frame` when it is predicted; otherwise says why not and has changed nothing.
    #[inline(always)]
    pub(crate) fn predicted(&mut self, frame: &Frame, posted: &mut Posted<'_>) -> Result<(), Miss> {
        let bytes = self.pool.frame(frame);
        let head = bytes.first_chunk::<HEADERS>().ok_or(Miss::Short)?;
        let seq = SeqNumber(be32(head, 38));
        self.rec.pass(Gate::IpInBegin, PacketId(seq.0));

        // To our link address; IPv4 without options; no fragment; TCP.
        let to = u64::from(ne32(head, 0)) | u64::from(ne32(head, 4) as u16) << 32;
        if to != self.stack.mac_word
            || be32(head, 12) & 0xffff_ff00 != 0x0800_4500
            || be32(head, 20) & 0x3fff_00ff != 0x0000_0006
        {
            return Err(Miss::NotTcp);
        }
        self.rec.pass(Gate::DemuxBegin, PacketId(seq.0));
        let key = FlowKey { remote: ne32(head, 26), local: ne32(head, 30), ports: ne32(head, 34) };
        let index = self.stack.find_connection(key).ok_or(Miss::NoConnection)?;
        let tcb = &self.stack.tcbs[index];

        self.rec.pass(Gate::TcpInBegin, PacketId(seq.0));
        // Data offset and flags, PSH apart. This also stands for the state.
        if be16(head, 46) & 0xfff7 != tcb.predicted {
            return Err(Miss::Flags);
        }
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
            let option: &[u8; 12] = bytes[HEADERS..].first_chunk().ok_or(Miss::Short)?;
            if be32(option, 0) != TIMESTAMP_LAYOUT {
                return Err(Miss::OptionLayout);
            }
            ts_value = be32(option, 4);
            if (ts_value.wrapping_sub(tcb.ts_recent) as i32) < 0 {
                return Err(Miss::Timestamp);
            }
        }
        // The IP length decides, not the frame's, which may be padded.
        let end = 14 + usize::from(be16(head, 16));
        let payload = bytes.get(payload_at..end).ok_or(Miss::Short)?;
        let len = payload.len() as u32;
        let window = u32::from(be16(head, 48)) << tcb.snd_shift;
        if window == 0 {
            return Err(Miss::ZeroWindow);
        }
        if len > tcb.rcv_edge - tcb.rcv_nxt {
            return Err(Miss::BeyondWindow);
        }
        if len == 0 && acked == 0 && window == tcb.snd_wnd {
            return Err(Miss::Duplicate);
        }
        if acked != 0 && len != 0 && self.stack.config.mechanisms.prediction == Prediction::Unidirectional {
            return Err(Miss::Bidirectional);
        }

        // Verify, and copy in the same pass when a reader has posted its buffer and is next in turn.
        self.rec.pass(Gate::ChecksumInBegin, PacketId(seq.0));
        let direct = posted.takes(index, payload.len()) && tcb.rx_head.is_none();
        let verify =
            self.stack.config.mechanisms.checksum == ChecksumPolicy::Always && frame.checksum != RxChecksum::Verified;
        if verify {
            let octets = if direct {
                self.stack.kernel.copy_and_sum(posted.room(payload.len()), payload)
            } else {
                match frame.checksum {
                    RxChecksum::Complete(sum) if end == bytes.len() => sum.sub(sum_header(&bytes[34..payload_at])),
                    _ => self.stack.kernel.sum(payload),
                }
            };
            let tcp_len = (end - 34) as u16;
            // Addresses and TCP header lie next to each other: octets 26 to the payload.
            let transport = if payload_at == HEADERS_WITH_TIMESTAMPS {
                sum_header(&bytes[26..HEADERS_WITH_TIMESTAMPS])
            } else {
                sum_header(&head[26..])
            };
            let pseudo = Partial::from_be_word(tcp_len + 6);
            if !(transport + octets + pseudo).is_valid() || !sum_header(&head[14..34]).is_valid() {
                return Err(Miss::Checksum);
            }
        } else if direct {
            posted.room(payload.len()).copy_from_slice(payload);
        }
        self.rec.pass(Gate::ChecksumInEnd, PacketId(seq.0));

        // Every check has passed: act.
        let payload_offset = frame.offset + payload_at as u16;
        let tcb = &mut self.stack.tcbs[index];
        // RFC 7323, 4.3: only a segment that begins at or before the last acknowledgment sent moves TS.Recent.
        if tcb.unacked == 0 {
            tcb.ts_recent = ts_value;
        }
        tcb.snd_wnd = window;
        if acked != 0 {
            self.acknowledged(index, ack);
        }
        if len != 0 {
            if direct {
                posted.filled += len as usize;
                self.pool.release(frame.id);
            } else {
                self.enqueue(index, frame.id, payload_offset, len as u16);
            }
            self.rec.pass(Gate::SocketQueued, PacketId(seq.0));
            self.received(index, len);
        } else {
            self.pool.release(frame.id);
        }
        // A new acknowledgment or a new window may let more out.
        if self.stack.tcbs[index].unsent.is_some() {
            self.output(index);
        }
        self.stack.counters.predicted += 1;
        Ok(())
    }

    /// The snd_una side of a new acknowledgment in order: frees what it covers, measures the round trip, opens cwnd.
    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, index: usize, ack: SeqNumber) {
        let now = self.now;
        let tcb = &mut self.stack.tcbs[index];
        let mut head = tcb.tx_head;
        let mut timed = None;
        while head != tcb.unsent && head.is_some() {
            let meta = self.pool.meta(head);
            if !meta.tx_end.at_or_before(ack) {
                break;
            }
            // Karn: only what was sent once is timed.
            timed = (meta.transmissions == 1).then_some(meta.sent_at);
            let next = meta.tx_next;
            self.pool.release(head);
            head = next;
        }
        tcb.tx_head = head;
        if ack.0 < tcb.snd_una.0 {
            tcb.wraps[0] = tcb.wraps[0].wrapping_add(1);
        }
        let acked = ack - tcb.snd_una;
        tcb.snd_una = ack;
        if let Some(sent_at) = timed {
            tcb.rtt.update(now.nanos_since(sent_at));
            tcb.rto = tcb.rtt.rto(self.stack.min_rto);
        }
        // RFC 6298, 5.2 and 5.3.
        tcb.rtx_deadline = if ack == tcb.snd_nxt { Deadline::NONE } else { Deadline::at(now.tick().after(tcb.rto)) };
        if tcb.is(flag::CWND_LIMITED) {
            congestion::on_ack(tcb, acked);
        }
        if tcb.snd_end - ack <= tcb.snd_limit / 2 {
            self.notify(index, readiness::WRITABLE);
        }
    }

    /// `len` octets in order are with their reader: moves rcv_nxt and sees to their acknowledgment.
    #[inline(always)]
    pub(crate) fn received(&mut self, index: usize, len: u32) {
        let tick = self.now.tick();
        let tcb = &mut self.stack.tcbs[index];
        let next = tcb.rcv_nxt + len;
        if next.0 < tcb.rcv_nxt.0 {
            tcb.wraps[1] = tcb.wraps[1].wrapping_add(1);
        }
        tcb.rcv_nxt = next;
        tcb.unacked += 1;
        // RFC 9293, 3.8.6.3: at least every second segment, and within half a second.
        if tcb.unacked >= 2 {
            self.acknowledge(index);
        } else {
            tcb.ack_deadline = Deadline::at(tick.after(self.stack.delayed_ack));
            self.arm(index, tick.after(self.stack.delayed_ack));
        }
    }

    /// Appends a frame's payload to the receive queue and tells the reader.
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, index: usize, id: FrameId, offset: u16, len: u16) {
        let tcb = &mut self.stack.tcbs[index];
        let meta = self.pool.meta_mut(id);
        meta.rx_offset = offset;
        meta.rx_len = len;
        meta.rx_next = FrameId::NONE;
        meta.rx_seq = tcb.rcv_nxt;
        if tcb.rx_head.is_none() {
            tcb.rx_head = id;
        } else {
            let tail = tcb.rx_tail;
            self.pool.meta_mut(tail).rx_next = id;
        }
        tcb.rx_tail = id;
        tcb.rx_free -= u32::from(len).min(tcb.rx_free);
        self.notify(index, readiness::READABLE);
    }
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
