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
use tollgate_checksum::Partial;
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
    /// sends it. Nothing is unsent, and `taken` stands behind the last frame already. Headers are [`STAMPED`] bytes, or
    /// [`STAMPED_V6`] to a destination.
    #[inline(always)]
    pub(in crate::tcp) fn send<const N: usize, R: Recorder>(
        self,
        tcb: &mut Tcb,
        index: usize,
        (id, meta, head): (FrameId, &mut Meta, &mut [u8; N]),
        (len, sum, fin): (u16, Partial, bool),
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

        let end = seq + u32::from(len) + u32::from(fin);
        let (queued, sent) = if fin {
            (Flags::FIN, Flags::FIN | Flags::ACK)
        } else {
            (Flags(0), Flags::PSH | Flags::ACK)
        };
        meta.send_at_once((seq, end), len, sum.into(), queued, now);
        if tcb.tx_head.is_none() {
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
            len: N as u16 + len,
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
            self.send_predicted_as::<STAMPED, R>(pool, now, rec, index, data)
        } else {
            cold_path();
            self.send_predicted_as::<STAMPED_V6, R>(pool, now, rec, index, data)
        }
    }

    /// Sends it with `N` bytes of headers, [`STAMPED`] or [`STAMPED_V6`].
    #[inline(never)]
    fn send_predicted_as<const N: usize, R: Recorder>(
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
        let (sendable, destination) = if N == STAMPED_V6 {
            (tcb.sendable_v6(), self.destinations.of(tcb.key))
        } else {
            (tcb.sendable, None)
        };
        if data.len().wrapping_sub(1) >= usize::from(sendable) {
            cold_path();
            return false;
        }
        if N == STAMPED_V6 && !destination.is_some_and(Destination::is_reached) {
            cold_path();
            return false;
        }
        let len = data.len() as u32;
        let flight = tcb.in_flight();
        if flight + len > tcb.snd_wnd.min(tcb.cwnd)
            || flight + len > tcb.snd_limit
            || self.device.len() >= self.config.device_queue
        {
            cold_path();
            return false;
        }
        let tail = if flight == 0 {
            debug_assert!(
                tcb.tx_head.is_none(),
                "what was sent and acknowledged is still queued"
            );
            FrameId::NONE
        } else if tcb.is(flag::NO_DELAY) {
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

        let sum = self.compiled.copy_kernel.copy_and_sum(payload, data);
        let way = FastTransmit {
            wheel: &mut self.wheel,
            device: &mut self.device,
            common: &self.template,
            destination,
            now,
        };
        let segment = (data.len() as u16, sum, false);
        way.send(tcb, index, (id, meta, head), segment, &mut rec);
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
        let segment = (0, Partial::ZERO, true);
        way.send(tcb, index, (id, meta, head), segment, rec);
        true
    }
}
