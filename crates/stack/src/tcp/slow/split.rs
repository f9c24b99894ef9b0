//! Frames of the send queue that are too long for what may be sent now: for a smaller MTU, or a window that holds a part.

use crate::buffer::{FrameId, Meta, PAYLOAD_OFFSET, Transmissions};
use crate::compiled::Verify;
use crate::stack::Active;
use core::hint::cold_path;
use tollgate_checksum::Partial;
use tollgate_gate::Recorder;
use tollgate_wire::tcp::Flags;

impl<R: Recorder> Active<'_, R> {
    /// The sums of a frame's first `at` bytes of payload and of the rest. The shorter part is summed, the other follows from the sum
    /// of both (RFC 1071, 2(B) and 2(C)).
    fn sums_of_parts(&mut self, id: FrameId, meta: &Meta, at: u16) -> (Partial, Partial) {
        let (front, rest) = (usize::from(at), usize::from(meta.tx_len - at));
        let whole = meta.tx_sum.narrow();
        let kernel = self.stack.compiled.copy_kernel;
        let payload = &self.pool.bytes(id)[PAYLOAD_OFFSET..][..front + rest];
        if self.stack.compiled.verify == Verify::All && self.stack.chains.is_none() {
            self.stack.counters.summed_again += front.min(rest) as u64;
        }
        if front <= rest {
            let sum = kernel.sum(&payload[..front]);
            (sum, whole.behind(front, sum))
        } else {
            let sum = kernel.sum(&payload[front..]);
            (whole.in_front(front, sum), sum)
        }
    }

    /// Splits a frame of the send queue after `at` bytes; returns whether it could.
    pub(crate) fn split(&mut self, index: usize, id: FrameId, at: u16) -> bool {
        let meta = *self.pool.meta(id);
        if at == 0 || at >= meta.tx_len {
            return false;
        }
        let Some(rest) = self.pool.alloc() else {
            return false;
        };
        self.stack.frame_is_cut(index, meta.tx_seq);
        let rest_len = meta.tx_len - at;
        self.pool.copy_within(
            id,
            PAYLOAD_OFFSET + usize::from(at),
            rest,
            PAYLOAD_OFFSET,
            usize::from(rest_len),
        );
        let (first_sum, rest_sum) = self.sums_of_parts(id, &meta, at);
        let middle = meta.tx_seq + u32::from(at);
        let first = self.pool.meta_mut(id);
        first.tx_len = at;
        first.tx_end = middle;
        first.tx_sum = first_sum.into();
        first.tx_next = rest;
        first.tx_flags = Flags(0);
        first.tx_limit = 0;
        let second = self.pool.meta_mut(rest);
        second.tx_len = rest_len;
        second.tx_seq = middle;
        second.tx_end = meta.tx_end;
        second.tx_sum = rest_sum.into();
        second.tx_next = meta.tx_next;
        second.tx_flags = meta.tx_flags;
        second.transmissions = meta.transmissions;
        second.resent_at = meta.resent_at;
        second.tx_limit = 0;
        second.sent_once_at = meta.sent_once_at;
        let tcb = &mut self.stack.tcbs[index];
        if tcb.tx_tail == id {
            tcb.tx_tail = rest;
        }
        if meta.transmissions.is(Transmissions::SACKED) {
            cold_path();
            self.sacked_frame_split(index);
        }
        true
    }
}
