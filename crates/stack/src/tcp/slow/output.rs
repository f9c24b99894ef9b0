//! Output: what may be sent, and the headers that it is sent with.
//!
//! A frame of the send queue is one segment. Its payload and the payload's partial checksum are there since the
//! application's call; sending writes headers in front of it from the connection's template (Clark et al. 1989) and
//! gives the link a reference. Decisions follow RFC 9293, 3.7.4 (Nagle), 3.8.6.2.1 (silly windows) and RFC 5681.

use crate::buffer::{Frame, FrameId, Meta, PAYLOAD_OFFSET, Pool, RxChecksum, Taken, Transmissions};
use crate::config::{HeaderTemplate, RetransmitCopy};
use crate::counters::Drop;
use crate::likely::unlikely;
use crate::stack::{Active, Stack};
use crate::tcp::deadline::{self, Due};
use crate::tcp::fast::coalesce;
use crate::tcp::tcb::{Tcb, flag, rare};
use crate::tcp::template::{self, Common, PLAIN, PLAIN_V6, STAMPED, STAMPED_V6, Varying};
use crate::time::Instant;
use core::hint::cold_path;
use core::num::NonZeroU64;
use tollgate_checksum::{Accumulator, Kernel, Partial};
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::Flags;

/// Copies the application's bytes and sums them, few of them in place.
#[inline(always)]
fn copy_in(kernel: &Kernel, to: &mut [u8], bytes: &[u8]) -> Accumulator {
    match kernel.copy_and_sum_few(to, bytes) {
        Some(sum) => sum,
        None => kernel.copy_and_accumulate(to, bytes),
    }
}

/// Puts bytes behind those of an unsent last frame, as far as a segment holds; returns the rest.
#[inline(always)]
fn fill_tail<'d>(tcb: &mut Tcb, pool: &mut Pool, kernel: &Kernel, data: &'d [u8]) -> &'d [u8] {
    let meta = pool.meta(tcb.tx_tail);
    // Behind a FIN nothing comes, and behind the end of a record (PSH) nothing goes into the same segment. One that the peer has
    // is not sent again after a timeout.
    if meta.tx_flags != Flags(0) || meta.refs > 1 || meta.transmissions.is(Transmissions::SACKED) {
        return data;
    }
    let before = meta.tx_len;
    let (chunk, rest) = data.split_at(data.len().min(usize::from(tcb.mss.saturating_sub(before))));
    let Some((meta, room)) = pool.behind(tcb.tx_tail, chunk.len()) else {
        return data;
    };
    let sum = copy_in(kernel, room, chunk);
    meta.tx_sum = meta.tx_sum.append(usize::from(before), sum);
    meta.tx_len += chunk.len() as u16;
    meta.tx_limit = 0;
    tcb.snd_end += chunk.len() as u32;
    meta.tx_end = tcb.snd_end;
    rest
}

/// The last frame of the send queue, or [`FrameId::NONE`] when it is empty.
#[inline(always)]
fn tail(tcb: &Tcb) -> FrameId {
    if tcb.tx_head.is_none() {
        FrameId::NONE
    } else {
        tcb.tx_tail
    }
}

/// Makes a frame with `len` bytes of payload the last of the send queue; the one before it knows that already.
#[inline(always)]
fn queue_frame(tcb: &mut Tcb, id: FrameId, meta: &mut Meta, len: u16, sum: Accumulator) {
    meta.tx_len = len;
    meta.tx_seq = tcb.snd_end;
    meta.tx_end = tcb.snd_end + u32::from(len);
    meta.tx_sum = sum;
    meta.tx_flags = Flags(0);
    meta.transmissions = Transmissions::NONE;
    meta.tx_limit = 0;
    meta.tx_next = FrameId::NONE;
    tcb.snd_end = meta.tx_end;
    if tcb.tx_head.is_none() {
        tcb.tx_head = id;
    }
    if tcb.unsent.is_none() {
        tcb.unsent = id;
    }
    tcb.tx_tail = id;
}

/// Notes that a frame is sent for the first time; returns the flags that it is sent with.
#[inline(always)]
fn mark_sent(tcb: &mut Tcb, meta: &mut Meta, now: Instant) -> Flags {
    meta.sent_once_at = NonZeroU64::new(now.as_nanos());
    meta.transmissions = Transmissions::ONE;
    meta.tx_limit = 0;
    tcb.unsent = meta.tx_next;
    tcb.snd_nxt = meta.tx_end;
    tcb.flags &= !flag::QUIET;
    let push = if meta.tx_next.is_none() && meta.tx_len != 0 {
        Flags::PSH
    } else {
        Flags(0)
    };
    meta.tx_flags | push | Flags::ACK
}

/// The reason why output stops.
enum Stop {
    /// Nothing is unsent.
    Nothing,
    /// The next segment is partial, and Nagle's algorithm holds it.
    Partial,
    /// The next segment is partial, and the application wants it to wait for more.
    Corked,
    /// The next segment does not fit into the window.
    Window,
    /// The device queue is full.
    Device,
    /// The next segment is not sent as usual: it was sent before, or a mechanism or the connection asks for another way.
    Extension(FrameId),
}

impl Stack {
    /// Tells whether all that is unsent is the segment that small writes go behind, and Nagle's algorithm holds it as before.
    #[inline(always)]
    fn still_waits(&self, pool: &Pool, index: usize) -> bool {
        let tcb = &self.tcbs[index];
        tcb.unsent == tcb.tx_tail
            && !tcb.is(flag::NO_DELAY)
            && tcb.in_flight() != 0
            && pool.meta_if(tcb.unsent).is_some_and(|meta| {
                // The window takes all that small writes may put into it, which stays below the limit.
                let limit = meta.tx_seq + u32::from(meta.tx_limit);
                meta.tx_limit != 0 && limit.signed_distance(tcb.send_edge()) <= 1
            })
    }

    /// Sends the unsent frames that may be sent and are sent as usual, up to the first that is not.
    #[inline(always)]
    fn send_unsent<R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: &mut R,
        index: usize,
    ) -> Stop {
        let tcb = &self.tcbs[index];
        let eligible = self.compiled.fast_send
            && tcb.flags & (flag::SLOW_TRANSMIT | flag::TIMESTAMPS) == flag::TIMESTAMPS;
        if eligible {
            self.send_unsent_as::<true, R>(pool, now, rec, index)
        } else {
            self.check_unsent(pool, now, rec, index)
        }
    }

    /// Checks the first unsent frame only, where no frame may be sent by the template.
    #[cold]
    #[inline(never)]
    fn check_unsent<R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: &mut R,
        index: usize,
    ) -> Stop {
        self.send_unsent_as::<false, R>(pool, now, rec, index)
    }

    #[inline(always)]
    fn send_unsent_as<const BY_TEMPLATE: bool, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: &mut R,
        index: usize,
    ) -> Stop {
        let coalescing_room = if BY_TEMPLATE {
            0
        } else {
            self.coalescing_room(pool)
        };
        let tcb = &mut self.tcbs[index];
        // Nothing that the loop does moves it.
        let edge = tcb.send_edge();
        loop {
            let id = tcb.unsent;
            let Some(meta) = pool.meta_mut_if(id) else {
                return Stop::Nothing;
            };
            let len = u32::from(meta.tx_len);
            // Counted from the frame's end: after a timeout a part of it may be acknowledged already.
            if edge.before(meta.tx_seq + len) {
                return Stop::Window;
            }
            // RFC 9293, 3.7.4: a partial segment waits while anything is unacknowledged.
            if !BY_TEMPLATE && tcb.holds_partial(meta) {
                meta.tx_limit = 0;
                return Stop::Corked;
            }
            if len < u32::from(tcb.mss)
                && tcb.in_flight() != 0
                && !tcb.is(flag::NO_DELAY)
                && meta.tx_next.is_none()
                && !meta.tx_flags.has(Flags::FIN)
            {
                let segment = if BY_TEMPLATE {
                    pool.payload_room()
                } else {
                    coalescing_room
                };
                let meta = pool.meta_mut(id);
                meta.tx_limit = coalesce::limit(tcb, meta, segment, edge - meta.tx_seq);
                return Stop::Partial;
            }
            if self.device.len() >= self.config.device_queue {
                cold_path();
                return Stop::Device;
            }
            if !BY_TEMPLATE || unlikely!(!meta.transmissions.is_none()) {
                return Stop::Extension(id);
            }
            let varying = Varying {
                seq: meta.tx_seq,
                flags: mark_sent(tcb, meta, now),
                tick: now.tick().0,
                len: meta.tx_len.into(),
                sum: meta.tx_sum,
            };
            // The link's count.
            meta.refs += 1;
            // RFC 6298, 5.1.
            if !tcb.rtx_deadline.is_set() {
                let at = now.tick().after(u32::from(tcb.rto));
                tcb.rtx_deadline
                    .set(at, &mut tcb.armed, &mut self.wheel, index);
            }
            let frame = emit_stamped(tcb, pool, rec, &self.template, id, varying);
            self.device.push(frame);
            rec.pass(Gate::DeviceQueueIn, PacketId(varying.seq.0));
        }
    }
}

/// Writes headers with the timestamp option in front of a frame's payload, up to the device queue.
#[inline(always)]
fn emit_stamped<R: Recorder>(
    tcb: &mut Tcb,
    pool: &mut Pool,
    rec: &mut R,
    template: &Common,
    id: FrameId,
    varying: Varying,
) -> Frame {
    let packet = PacketId(varying.seq.0);
    rec.pass(Gate::TcpOutBegin, packet);
    rec.pass(Gate::ChecksumOutBegin, packet);
    if let Some(head) = pool.front::<STAMPED>(id) {
        template::write(head, tcb, template, varying);
    }
    rec.pass(Gate::ChecksumOutEnd, packet);
    rec.pass(Gate::IpOutBegin, packet);
    Frame {
        id,
        offset: (PAYLOAD_OFFSET - STAMPED) as u16,
        len: (STAMPED as u32 + varying.len) as u16,
        checksum: RxChecksum::Unknown,
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Copies bytes into frames behind the send queue, at most `room`; returns how many.
    #[inline(always)]
    pub(crate) fn append(&mut self, index: usize, data: &[u8], room: usize) -> usize {
        let Stack { tcbs, compiled, .. } = &mut *self.stack;
        let kernel = &compiled.copy_kernel;
        let tcb = &mut tcbs[index];
        let mut left = &data[..data.len().min(room)];
        let total = left.len();
        if tcb.unsent.is_some() {
            left = fill_tail(tcb, self.pool, kernel, left);
        }
        while !left.is_empty() {
            let (chunk, rest) = left.split_at(left.len().min(usize::from(tcb.mss)));
            let taken = self.pool.take_for_sending::<0>(tail(tcb), chunk.len());
            let Some(Taken {
                id, meta, payload, ..
            }) = taken
            else {
                break;
            };
            meta.refs = 1;
            let sum = copy_in(kernel, payload, chunk);
            queue_frame(tcb, id, meta, chunk.len() as u16, sum);
            left = rest;
        }
        let taken = total - left.len();
        if self.stack.chains.is_some() {
            cold_path();
            let at = self.stack.tcbs[index].snd_end - taken as u32;
            self.append_to_chain(index, at, &data[..taken]);
        }
        taken
    }

    /// Puts a frame with `len` bytes of payload behind the send queue.
    pub(crate) fn append_frame(&mut self, index: usize, id: FrameId, len: u16, sum: Partial) {
        let tcb = &mut self.stack.tcbs[index];
        if let Some(meta) = self.pool.meta_mut_if(tail(tcb)) {
            meta.tx_next = id;
        }
        queue_frame(tcb, id, self.pool.meta_mut(id), len, sum.into());
    }

    /// Puts a FIN behind the send queue, on the last frame when that is yet to be sent. It waits for a frame where the pool is low:
    /// until it is acknowledged it holds one.
    pub(crate) fn append_fin(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.rare &= !rare::FIN_PENDING;
        let tail = self.pool.meta_mut_if(tcb.tx_tail);
        // After a timeout what the peer has is not sent again.
        let to_send = tail
            .filter(|tail| tcb.unsent.is_some() && !tail.transmissions.is(Transmissions::SACKED));
        if let Some(meta) = to_send {
            meta.tx_flags |= Flags::FIN;
            meta.tx_limit = 0;
            meta.tx_end += 1;
            tcb.snd_end += 1;
            return;
        }
        let taken = if self.pool.is_low() {
            None
        } else {
            self.pool.alloc()
        };
        let Some(id) = taken else {
            self.stack.counters.dropped(Drop::NoFrame);
            self.stack.tcbs[index].rare |= rare::FIN_PENDING;
            self.want_frames(index);
            return;
        };
        self.append_frame(index, id, 0, Partial::ZERO);
        let meta = self.pool.meta_mut(id);
        meta.tx_flags = Flags::FIN;
        meta.tx_end += 1;
        self.stack.tcbs[index].snd_end += 1;
    }

    /// Sends what may be sent of the unsent frames.
    #[inline(always)]
    pub(crate) fn output(&mut self, index: usize) {
        if !self.stack.still_waits(self.pool, index) {
            self.output_frames(index);
        }
    }

    #[inline(never)]
    fn output_frames(&mut self, index: usize) {
        let stop = self
            .stack
            .send_unsent(self.pool, self.now, &mut self.rec, index);
        match stop {
            Stop::Nothing => self.stack.tcbs[index].flags &= !flag::CWND_LIMITED,
            Stop::Partial => {}
            Stop::Corked | Stop::Window | Stop::Device | Stop::Extension(_) => {
                self.output_stopped(index, stop);
            }
        }
        self.stack.arm_probe(self.pool, index, self.now);
    }

    /// Does what output stopped for, and goes on where that lets it.
    #[cold]
    #[inline(never)]
    fn output_stopped(&mut self, index: usize, mut stop: Stop) {
        loop {
            match stop {
                Stop::Nothing => break,
                Stop::Partial => return,
                Stop::Corked => return self.wait_for_more(index),
                Stop::Window => {
                    if self.window_blocks(index) {
                        return;
                    }
                }
                Stop::Device => {
                    self.wait_for_room(index);
                    return;
                }
                Stop::Extension(id) => {
                    if self.stack.tcbs[index].is_rare(rare::PACED) && self.pace_blocks(index, id) {
                        return;
                    }
                    if !self.send_extension(index, id) {
                        return;
                    }
                }
            }
            stop = self
                .stack
                .send_unsent(self.pool, self.now, &mut self.rec, index);
        }
        self.stack.tcbs[index].flags &= !flag::CWND_LIMITED;
    }

    /// Tells whether pacing holds the next segment back; then the connection's timer goes on with it.
    #[cold]
    fn pace_blocks(&mut self, index: usize, id: FrameId) -> bool {
        let Stack {
            tcbs,
            controllers,
            wheel,
            ..
        } = &mut *self.stack;
        let tcb = &mut tcbs[index];
        let recovers = tcb.is_rare(rare::RECOVERY | rare::LOSS);
        if recovers || controllers.pace(tcb, index, self.now, self.pool.meta(id).tx_len) {
            return false;
        }
        if let Some(at) = controllers.pace_due(tcb, index) {
            deadline::arm(at, &mut tcb.armed, wheel, index);
        }
        // RFC 9002, 7.8: what would have filled the window counts as if it had.
        if tcb.cwnd < tcb.snd_wnd && tcb.snd_end - tcb.snd_una > tcb.cwnd {
            tcb.flags |= flag::CWND_LIMITED;
        }
        // The next write may come when time has passed.
        self.pool.meta_mut(tcb.tx_tail).tx_limit = 0;
        if tcb.is_rare(rare::MTU_SEARCH) {
            self.consider_mtu_probe(index);
        }
        true
    }

    /// Sends the first unsent frame where it is not done as usual. Returns whether output goes on behind it.
    #[cold]
    pub(in crate::tcp) fn send_extension(&mut self, index: usize, id: FrameId) -> bool {
        if !self.pool.meta(id).transmissions.is_none() {
            return self.send_again(index, id);
        }
        let tcb = &mut self.stack.tcbs[index];
        tcb.stop_waiting_for_more();
        let meta = self.pool.meta_mut(id);
        let (seq, len, sum) = (meta.tx_seq, meta.tx_len, meta.tx_sum);
        let flags = mark_sent(tcb, meta, self.now);
        self.start_retransmission(index);
        match self.stack.config.mechanisms.retransmit {
            RetransmitCopy::Reference => {
                self.pool.retain(id);
                let sum = self.fill_from_chain(index, id, (seq, len, sum), false);
                self.emit(index, id, seq, flags, len, sum);
            }
            RetransmitCopy::Copy => self.emit_copy(index, id, flags, (seq, len, sum), false),
        }
        true
    }

    /// Notes that a frame's payload goes with the SYN.
    pub(in crate::tcp) fn mark_sent_with_syn(&mut self, index: usize, id: FrameId) {
        let meta = self.pool.meta_mut(id);
        mark_sent(&mut self.stack.tcbs[index], meta, self.now);
    }

    /// RFC 6298, 5.1: the timer runs while something is in flight.
    pub(in crate::tcp) fn start_retransmission(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        if !tcb.rtx_deadline.is_set() {
            self.set_due(index, Due::Retransmission, u32::from(tcb.rto));
        }
    }

    /// Sends a copy of a frame whose payload stays as it is.
    pub(crate) fn emit_copy(
        &mut self,
        index: usize,
        id: FrameId,
        flags: Flags,
        (seq, len, sum): (SeqNumber, u16, Accumulator),
        again: bool,
    ) {
        let Some(copy) = self.pool.alloc() else {
            self.stack.counters.dropped(Drop::NoFrame);
            return;
        };
        if self.stack.chains.is_none() {
            self.pool.copy_payload(id, copy, usize::from(len));
        }
        let sum = self.fill_from_chain(index, copy, (seq, len, sum), again);
        self.emit(index, copy, seq, flags, len, sum);
    }

    /// Writes headers in front of a frame's payload and queues it for the link, which takes over one count.
    #[inline(always)]
    pub(crate) fn emit(
        &mut self,
        index: usize,
        id: FrameId,
        seq: SeqNumber,
        flags: Flags,
        len: u16,
        sum: Accumulator,
    ) {
        let varying = Varying {
            seq,
            flags,
            tick: self.now.tick().0,
            len: len.into(),
            sum,
        };
        let Stack {
            tcbs,
            config,
            template,
            destinations,
            ipv6,
            ..
        } = &mut *self.stack;
        let tcb = &mut tcbs[index];
        let destination = tcb.key.pair().and_then(|id| destinations.get(id));
        let on = config.mechanisms.template == HeaderTemplate::On;
        let frame = if let Some(destination) = destination {
            let to = (destination, ipv6.hop_limit);
            let checksum = config.sums_segments();
            let packet = PacketId(seq.0);
            self.rec.pass(Gate::TcpOutBegin, packet);
            self.rec.pass(Gate::ChecksumOutBegin, packet);
            let headers = match (on, tcb.is(flag::TIMESTAMPS)) {
                (false, _) => {
                    let bytes = self.pool.bytes_mut(id);
                    template::write_field_by_field(bytes, tcb, config, Some(to), varying, checksum)
                }
                (true, true) => {
                    if let Some(head) = self.pool.front::<STAMPED_V6>(id) {
                        template::write_v6(head, tcb, template, destination, varying);
                    }
                    STAMPED_V6
                }
                (true, false) => {
                    if let Some(head) = self.pool.front::<PLAIN_V6>(id) {
                        template::write_v6(head, tcb, template, destination, varying);
                    }
                    PLAIN_V6
                }
            };
            self.rec.pass(Gate::ChecksumOutEnd, packet);
            self.rec.pass(Gate::IpOutBegin, packet);
            Frame {
                id,
                offset: (PAYLOAD_OFFSET - headers) as u16,
                len: headers as u16 + len,
                checksum: RxChecksum::Unknown,
            }
        } else if on && tcb.is(flag::TIMESTAMPS) {
            emit_stamped(tcb, self.pool, &mut self.rec, template, id, varying)
        } else {
            let packet = PacketId(seq.0);
            self.rec.pass(Gate::TcpOutBegin, packet);
            self.rec.pass(Gate::ChecksumOutBegin, packet);
            let headers = if on {
                if let Some(head) = self.pool.front::<PLAIN>(id) {
                    template::write(head, tcb, template, varying);
                }
                PLAIN
            } else {
                let bytes = self.pool.bytes_mut(id);
                let checksum = config.sums_segments();
                template::write_field_by_field(bytes, tcb, config, None, varying, checksum)
            };
            self.rec.pass(Gate::ChecksumOutEnd, packet);
            self.rec.pass(Gate::IpOutBegin, packet);
            Frame {
                id,
                offset: (PAYLOAD_OFFSET - headers) as u16,
                len: headers as u16 + len,
                checksum: RxChecksum::Unknown,
            }
        };
        if self.stack.tcbs[index].is(flag::SLOW_TRANSMIT) {
            self.transmit_slow(index, frame);
        } else {
            self.stack.device.push(frame);
        }
        self.rec.pass(Gate::DeviceQueueIn, PacketId(seq.0));
    }

    /// Sends an acknowledgment without data.
    #[inline(never)]
    pub(crate) fn acknowledge(&mut self, index: usize) {
        self.acknowledge_now(index);
    }

    /// [`Active::acknowledge`], compiled into its caller.
    #[inline(always)]
    pub(in crate::tcp) fn acknowledge_now(&mut self, index: usize) {
        if !self.acknowledge_predicted(index) {
            cold_path();
            self.acknowledge_in_general(index);
        }
    }

    /// Sends an acknowledgment at once where nothing is unusual; says whether it was so, and has changed nothing otherwise.
    #[inline(always)]
    fn acknowledge_predicted(&mut self, index: usize) -> bool {
        let stack = &mut *self.stack;
        let tcb = &mut stack.tcbs[index];
        const BUSY: u32 = rare::LOSS | rare::PERSIST | rare::SENT_IN_GENERAL | rare::SACK_DUE;
        // An established connection that may send a message may acknowledge one.
        let eligible = tcb.sendable != 0 || (tcb.transmits_fast() && tcb.rare & BUSY == 0);
        if !eligible || stack.device.len() >= stack.config.device_queue {
            cold_path();
            return false;
        }
        let Some(Taken { id, meta, head, .. }) = self.pool.take::<STAMPED>(FrameId::NONE, 0) else {
            return false;
        };
        meta.refs = 1;
        let packet = PacketId(tcb.snd_nxt.0);
        self.rec.pass(Gate::TcpOutBegin, packet);
        self.rec.pass(Gate::ChecksumOutBegin, packet);
        let varying = Varying {
            seq: tcb.snd_nxt,
            flags: Flags::ACK,
            tick: self.now.tick().0,
            len: 0,
            sum: Accumulator::ZERO,
        };
        template::write(head, tcb, &stack.template, varying);
        self.rec.pass(Gate::ChecksumOutEnd, packet);
        self.rec.pass(Gate::IpOutBegin, packet);
        stack.device.push(Frame {
            id,
            offset: (PAYLOAD_OFFSET - STAMPED) as u16,
            len: STAMPED as u16,
            checksum: RxChecksum::Unknown,
        });
        self.rec.pass(Gate::DeviceQueueIn, packet);
        true
    }

    #[inline(never)]
    fn acknowledge_in_general(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        let told = tcb.is_rare(rare::ACCURATE_ECN) && self.stack.owes_ecn_option(index);
        let selective = tcb.is_rare(rare::SACK_DUE);
        if (selective || told) && self.device_has_room() && self.pool.available() != 0 {
            self.acknowledge_selectively(index);
        } else if self.device_has_room()
            && let Some(id) = self.pool.alloc()
        {
            let seq = self.stack.tcbs[index].acceptable_sequence();
            self.emit(index, id, seq, Flags::ACK, 0, Accumulator::ZERO);
        } else {
            self.acknowledge_later(index);
        }
    }

    /// Without a frame or room for it the acknowledgment is tried again at the next tick.
    #[cold]
    fn acknowledge_later(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.unacked = tcb.unacked.clamp(1, 100);
        self.set_due(index, Due::Acknowledgment, 1);
    }

    /// The next frame does not fit into the window: decides whether a part of it is sent (RFC 9293, 3.8.6.2.1) and sees
    /// to it that something will go on. Returns whether output must wait.
    #[cold]
    fn window_blocks(&mut self, index: usize) -> bool {
        let blocks = self.window_does_block(index);
        if blocks {
            if self.stack.tcbs[index].is_rare(rare::MTU_SEARCH) {
                cold_path();
                self.consider_mtu_probe(index);
            }
            self.stack.open_coalescing(self.pool, index);
        }
        blocks
    }

    fn window_does_block(&mut self, index: usize) -> bool {
        let tcb = &mut self.stack.tcbs[index];
        let flight = tcb.in_flight();
        if tcb.cwnd < tcb.snd_wnd && flight != 0 {
            tcb.flags |= flag::CWND_LIMITED;
            return true;
        }
        let usable = tcb.snd_wnd.min(tcb.cwnd).saturating_sub(flight);
        if usable != 0 && usable >= tcb.max_snd_wnd / 2 {
            let id = tcb.unsent;
            let acknowledged = tcb.snd_nxt - self.pool.meta(id).tx_seq;
            let bytes = (usable + acknowledged).min(u32::from(u16::MAX)) as u16;
            if self.split(index, id, bytes) {
                return false;
            }
        }
        let tcb = &mut self.stack.tcbs[index];
        if flight == 0 && !tcb.rtx_deadline.is_set() {
            // Nothing is outstanding, so no acknowledgment will come: probe (RFC 9293, 3.8.6.1).
            tcb.rare |= rare::PERSIST;
            tcb.predict();
            let rto = u32::from(tcb.rto);
            self.set_due(index, Due::Retransmission, rto);
        }
        true
    }

    #[cold]
    fn wait_for_room(&mut self, index: usize) {
        self.stack.open_coalescing(self.pool, index);
        let tcb = &mut self.stack.tcbs[index];
        if !tcb.is_rare(rare::OUTPUT_LISTED) {
            tcb.rare |= rare::OUTPUT_LISTED;
            self.stack.output_waiting.push_back(index as u32);
            self.stack.link_waits = 1;
        }
    }

    /// After a read: tells the peer of a window that has opened by enough (RFC 9293, 3.8.6.2.2).
    #[inline(always)]
    pub(crate) fn window_may_open(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        let gain = (tcb.rcv_nxt + tcb.rx_free).signed_distance(tcb.rcv_edge);
        if gain < i32::from(tcb.window_step) {
            return;
        }
        self.window_opens(index, gain as u32);
    }

    #[inline(never)]
    fn window_opens(&mut self, index: usize, gain: u32) {
        let tcb = &self.stack.tcbs[index];
        let offered = tcb.rcv_edge - tcb.rcv_nxt;
        let step = u32::from(tcb.window_step);
        let worth_it = gain >= tcb.rcv_limit / 2
            || (offered < 2 * step && gain >= (2 * step).min(tcb.rcv_limit / 2));
        if worth_it && tcb.state.may_receive() {
            self.acknowledge(index);
        }
    }
}
