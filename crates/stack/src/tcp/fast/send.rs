//! The predicted path of output: a message that fits into one segment and may go at once, and a FIN that may.
//!
//! That is a request or a response: nothing is queued before it, both windows take it, and Nagle's algorithm has nothing
//! to wait for. Everything that [`crate::tcp::slow::output`] decides in general is known then, so the message is copied, summed,
//! given headers and queued for the link in one go. Whatever is different goes the general way, with nothing changed.

use crate::buffer::{Frame, FrameId, Meta, PAYLOAD_OFFSET, Pool, RxChecksum, Taken};
use crate::config::{Mechanisms, Prediction};
use crate::destinations::Destination;
use crate::stack::Stack;
use crate::tcp::recovery::probe;
use crate::tcp::tcb::{State, Tcb, flag, rare};
use crate::tcp::template::{self, Common, STAMPED, STAMPED_V6, Varying};
use crate::time::Instant;
use crate::timer::Wheel;
use alloc::vec::Vec;
use core::hint::cold_path;
use tollgate_checksum::Accumulator;
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::tcp::Flags;

impl Mechanisms {
    /// Tells whether the predicted path of output does what these mechanisms ask for.
    pub(crate) fn allow_fast_send(&self) -> bool {
        let Self {
            prediction: _,
            demux: _,
            template,
            checksum: _,
            checksum_kernel: _,
            checksum_offload: _,
            lan_evidence: _,
            retransmit,
            buffers,
            timers: _,
            recovery: _,
            tail_probe: _,
            undo: _,
            delayed_ack: _,
            nagle: _,
            receive: _,
            transmit: _,
            tuning: _,
            congestion: _,
            pacing: _,
            ecn: _,
            fin: _,
            mtu_probing: _,
            segmentation: _,
        } = self;
        *template == crate::config::HeaderTemplate::On
            && *retransmit == crate::config::RetransmitCopy::Reference
            && *buffers == crate::config::Buffers::Pool
    }
}

/// Parts of the stack that a segment passes that is sent at once.
pub(in crate::tcp) struct FastTransmit<'a> {
    pub(in crate::tcp) wheel: &'a mut Wheel,
    pub(in crate::tcp) device: &'a mut Vec<Frame>,
    pub(in crate::tcp) common: &'a Common,
    /// The addresses, for IPv6.
    pub(in crate::tcp) destination: Option<&'a Destination>,
    pub(in crate::tcp) now: Instant,
}

impl FastTransmit<'_> {
    /// Queues a segment of `len` bytes with the sum `sum`, or a FIN, as the last one that is sent and not acknowledged, and
    /// sends it. Nothing is unsent; there may be others in flight only where it goes `BEHIND` them, and its frame stands behind
    /// theirs already. Headers are [`STAMPED`] bytes, or [`STAMPED_V6`] to a destination.
    #[inline(always)]
    pub(in crate::tcp) fn send<const N: usize, const BEHIND: bool, R: Recorder>(
        self,
        tcb: &mut Tcb,
        index: usize,
        (id, meta, head): (FrameId, &mut Meta, &mut [u8; N]),
        (len, sum, fin): (u32, Accumulator, bool),
        rec: &mut R,
    ) {
        let Self {
            wheel,
            device,
            common,
            destination,
            now,
        } = self;
        let seq = tcb.snd_nxt;
        let packet = PacketId(seq.0);
        rec.pass(Gate::TcpOutBegin, packet);

        let end = seq + len + u32::from(fin);
        let (queued, sent) = if fin {
            (Flags::FIN, Flags::FIN | Flags::ACK)
        } else {
            (Flags(0), Flags::PSH | Flags::ACK)
        };
        meta.send_at_once((seq, end), len as u16, sum, queued, now);
        if !BEHIND || tcb.tx_head.is_none() {
            tcb.tx_head = id;
        }
        tcb.tx_tail = id;
        tcb.snd_end = end;
        tcb.snd_nxt = end;
        tcb.flags &= !(flag::CWND_LIMITED | flag::QUIET);
        // RFC 6298, 5.1.
        if !tcb.rtx_deadline.is_set() {
            let at = now.tick().after(u32::from(tcb.rto));
            tcb.rtx_deadline.set(at, &mut tcb.armed, wheel, index);
        }

        rec.pass(Gate::ChecksumOutBegin, packet);
        let varying = Varying {
            seq,
            flags: sent,
            tick: now.tick().0,
            len,
            sum,
        };
        template::write_to(head, tcb, common, destination, varying);
        rec.pass(Gate::ChecksumOutEnd, packet);
        rec.pass(Gate::IpOutBegin, packet);
        device.push(Frame {
            id,
            offset: (PAYLOAD_OFFSET - N) as u16,
            len: (N as u32 + len) as u16,
            checksum: RxChecksum::Unknown,
        });
        rec.pass(Gate::DeviceQueueIn, packet);
    }
}

impl Stack {
    /// Sends `data` when it is predicted; says whether it was, and has changed nothing otherwise. Nothing may be unsent.
    #[inline(always)]
    pub(crate) fn send_predicted<R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        index: usize,
        data: &[u8],
    ) -> bool {
        // Without data the length less one is beyond every segment. Over IPv6 nothing is ever `sendable`.
        if data.len().wrapping_sub(1) < usize::from(self.tcbs[index].sendable) {
            self.send_predicted_as::<STAMPED, false, R>(pool, now, rec, index, data)
        } else {
            cold_path();
            self.send_predicted_as::<STAMPED_V6, false, R>(pool, now, rec, index, data)
        }
    }

    /// Sends it with `N` bytes of headers: [`STAMPED`], where it is `sendable`, or [`STAMPED_V6`]. What goes `BEHIND` others that
    /// are in flight has more to be asked and is compiled apart.
    #[inline(never)]
    fn send_predicted_as<const N: usize, const BEHIND: bool, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        mut rec: R,
        index: usize,
        data: &[u8],
    ) -> bool {
        let Some(tcb) = self.tcbs.get_mut(index) else {
            cold_path();
            return false;
        };
        let destination = if N == STAMPED_V6 {
            let Some(destination) = self.destinations.of(tcb.key) else {
                cold_path();
                return false;
            };
            if data.len().wrapping_sub(1) >= usize::from(tcb.sendable_v6())
                || data.len() > tcb.snd_limit as usize
                || !destination.is_reached()
            {
                cold_path();
                return false;
            }
            Some(destination)
        } else {
            None
        };
        let len = data.len() as u32;
        let flight = tcb.in_flight();
        if !BEHIND && flight != 0 {
            cold_path();
            return self.send_predicted_as::<N, true, R>(pool, now, rec, index, data);
        }
        if flight + len > tcb.snd_wnd.min(tcb.cwnd) || self.device.len() >= self.config.device_queue
        {
            cold_path();
            return false;
        }
        let tail = if !BEHIND {
            debug_assert!(
                tcb.tx_head.is_none(),
                "what was sent and acknowledged is still queued"
            );
            FrameId::NONE
        } else if tcb.is(flag::NO_DELAY) && flight + len <= tcb.snd_limit {
            let tail = tcb.tx_tail;
            probe::arm(tcb, &mut self.wheel, index, now);
            tail
        } else {
            cold_path();
            return false;
        };
        let Some(Taken {
            id,
            meta,
            head,
            payload,
        }) = pool.take_for_sending::<N>(tail, data.len())
        else {
            cold_path();
            return false;
        };

        let sum = self.compiled.copy_kernel.copy_and_accumulate(payload, data);
        let way = FastTransmit {
            wheel: &mut self.wheel,
            device: &mut self.device,
            common: &self.template,
            destination,
            now,
        };
        let segment = (len, sum, false);
        way.send::<N, BEHIND, R>(tcb, index, (id, meta, head), segment, &mut rec);
        true
    }

    /// Sends our FIN, which the state knows already, when it may go at once and nothing is queued before it; says whether it
    /// was so, and has changed nothing otherwise.
    #[inline(always)]
    pub(crate) fn fin_predicted<R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: &mut R,
        index: usize,
    ) -> bool {
        const BUSY: u32 = rare::RECOVERY
            | rare::SCOREBOARD
            | rare::LOSS
            | rare::PERSIST
            | rare::SENT_IN_GENERAL
            | rare::ABORT_ON_CLOSE;
        let Some(tcb) = self.tcbs.get_mut(index) else {
            cold_path();
            return false;
        };
        let eligible = tcb.unsent.is_none()
            && tcb.rare & BUSY == 0
            && tcb.state != State::SynReceived
            && tcb.transmits_fast()
            && tcb.in_flight() <= tcb.snd_wnd.min(tcb.cwnd)
            && !pool.is_low()
            && self.config.mechanisms.prediction == Prediction::Bidirectional
            && self.device.len() < self.config.device_queue;
        if !eligible {
            cold_path();
            return false;
        }
        let tail = if tcb.tx_head.is_none() {
            FrameId::NONE
        } else {
            probe::arm(tcb, &mut self.wheel, index, now);
            tcb.tx_tail
        };
        let Some(Taken { id, meta, head, .. }) = pool.take::<STAMPED>(tail, 0) else {
            cold_path();
            return false;
        };
        let way = FastTransmit {
            wheel: &mut self.wheel,
            device: &mut self.device,
            common: &self.template,
            destination: None,
            now,
        };
        let segment = (0, Accumulator::ZERO, true);
        way.send::<STAMPED, true, R>(tcb, index, (id, meta, head), segment, rec);
        true
    }
}
