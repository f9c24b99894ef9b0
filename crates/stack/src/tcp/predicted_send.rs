//! The predicted path of output: a message that fits into one segment and may go at once.
//!
//! That is a request or a response: nothing is queued before it, both windows take it, and Nagle's algorithm has nothing
//! to wait for. Everything that [`super::output`] decides in general is known then, so the message is copied, summed,
//! given headers and queued for the link in one go. Whatever is different goes the general way, with nothing changed.

use super::tcb::{Deadline, flag};
use super::template::{self, STAMPED, Varying};
use crate::buffer::{Frame, FrameId, PAYLOAD_OFFSET, Pool, RxChecksum, Taken};
use crate::config::Mechanisms;
use crate::likely::unlikely;
use crate::stack::Stack;
use crate::time::Instant;
use core::hint::cold_path;
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::tcp::Flags;

impl Mechanisms {
    /// Whether the predicted path of output does what these mechanisms ask for.
    pub(crate) fn send_predictable(&self) -> bool {
        let Self {
            prediction: _,
            demux: _,
            template,
            checksum: _,
            retransmit,
        } = self;
        *template == crate::config::HeaderTemplate::On
            && *retransmit == crate::config::RetransmitCopy::Reference
    }
}

impl Stack {
    /// Sends `data` when it is predicted; says whether it was, and has changed nothing otherwise. Nothing may be unsent.
    #[inline(never)]
    pub(crate) fn send_predicted<R: Recorder>(
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
        // Without data the length less one is beyond every segment.
        if unlikely(data.len().wrapping_sub(1) >= usize::from(tcb.sendable)) {
            return false;
        }
        let len = data.len() as u32;
        let flight = tcb.in_flight();
        if unlikely(
            flight + len > tcb.snd_wnd.min(tcb.cwnd)
                || flight + len > tcb.snd_limit
                || self.device.len() >= self.config.device_queue,
        ) {
            return false;
        }
        let tail = if flight == 0 {
            debug_assert!(
                tcb.tx_head.is_none(),
                "what was sent and acknowledged is still queued"
            );
            FrameId::NONE
        } else if tcb.is(flag::NO_DELAY) {
            tcb.tx_tail
        } else {
            cold_path();
            return false;
        };
        let Some(Taken {
            id,
            meta,
            head,
            payload,
        }) = pool.take_for_sending::<STAMPED>(tail, data.len())
        else {
            cold_path();
            return false;
        };

        let sum = self.copier.copy_and_sum(payload, data);
        let seq = tcb.snd_nxt;
        rec.pass(Gate::TcpOutBegin, PacketId(seq.0));

        let end = seq + len;
        meta.send_at_once((seq, end), len as u16, sum.into(), Flags(0), now);
        if tail.is_none() {
            tcb.tx_head = id;
        }
        tcb.tx_tail = id;
        tcb.snd_end = end;
        tcb.snd_nxt = end;
        tcb.flags &= !flag::CWND_LIMITED;
        // RFC 6298, 5.1.
        if !tcb.rtx_deadline.is_set() {
            let at = now.tick().after(tcb.rto);
            tcb.rtx_deadline = Deadline::at(at);
            if unlikely(at.before(tcb.armed)) {
                tcb.armed = at;
                self.wheel.insert(index as u32, at);
            }
        }

        rec.pass(Gate::ChecksumOutBegin, PacketId(seq.0));
        let varying = Varying {
            seq,
            flags: Flags::PSH | Flags::ACK,
            tick: now.tick().0,
            len: len as u16,
            sum,
        };
        template::write(head, tcb, &self.template, varying);
        rec.pass(Gate::ChecksumOutEnd, PacketId(seq.0));
        rec.pass(Gate::IpOutBegin, PacketId(seq.0));
        self.device.push(Frame {
            id,
            offset: (PAYLOAD_OFFSET - STAMPED) as u16,
            len: STAMPED as u16 + len as u16,
            checksum: RxChecksum::Unknown,
        });
        rec.pass(Gate::DeviceQueueIn, PacketId(seq.0));
        true
    }
}
