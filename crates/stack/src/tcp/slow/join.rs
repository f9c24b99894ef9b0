//! Frames of the send queue that become one: small segments that are sent again (Linux: `tcp_retrans_try_collapse`), and what a probe
//! of the path's MTU carries.
//!
//! A program that writes little at a time without Nagle's algorithm has many small segments under way. Sent again one by one, they need
//! a frame of the link for each, where a small pool may have a few. This module must never join what bears different marks of
//! the scoreboard, nor put anything behind the end of a record.

use crate::buffer::{FrameId, PAYLOAD_OFFSET, Transmissions};
use crate::stack::Active;
use crate::tcp::tcb::rare;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::Flags;

impl<R: Recorder> Active<'_, R> {
    /// Puts the frame behind `first`, whole, into `first`, which has room for it.
    pub(in crate::tcp) fn join_next(&mut self, index: usize, first: FrameId) {
        let (before, next) = (self.pool.meta(first).tx_len, self.pool.meta(first).tx_next);
        let moved = *self.pool.meta(next);
        if self.stack.chains.is_none() {
            let to = PAYLOAD_OFFSET + usize::from(before);
            let bytes = usize::from(moved.tx_len);
            self.pool
                .copy_within(next, PAYLOAD_OFFSET, first, to, bytes);
        }
        let meta = self.pool.meta_mut(first);
        meta.tx_sum = meta.tx_sum.append(usize::from(before), moved.tx_sum);
        meta.tx_len = before + moved.tx_len;
        meta.tx_end = moved.tx_end;
        meta.tx_flags |= moved.tx_flags;
        meta.tx_next = moved.tx_next;
        meta.tx_limit = 0;
        let tcb = &mut self.stack.tcbs[index];
        if tcb.tx_tail == next {
            tcb.tx_tail = first;
        }
        self.pool.release(next);
    }

    /// A frame is about to be sent again: joins to it those behind it that are to be sent again as well, up to a full segment that ends
    /// no later than `edge`.
    pub(in crate::tcp) fn join_to_send_again(
        &mut self,
        index: usize,
        first: FrameId,
        edge: SeqNumber,
    ) {
        const MARKS: u8 = Transmissions::SACKED | Transmissions::RESENT;
        let mss = u32::from(self.stack.tcbs[index].mss);
        loop {
            let meta = self.pool.meta(first);
            let (id, start) = (meta.tx_next, meta.tx_seq);
            // Behind the end of a record (PSH) nothing goes into the same segment.
            let takes = meta.refs == 1 && meta.tx_flags == Flags(0);
            let Some(next) = self.pool.meta_if(id).filter(|_| takes) else {
                return;
            };
            let lost = |marks: Transmissions| marks.is(Transmissions::LOST);
            let joins = !next.transmissions.is_none()
                && !next.transmissions.is(MARKS)
                && lost(next.transmissions) == lost(meta.transmissions)
                && u32::from(meta.tx_len) + u32::from(next.tx_len) <= mss
                && next.tx_end.at_or_before(edge);
            if !joins {
                return;
            }
            self.join_next(index, first);
            if self.stack.tcbs[index].is_rare(rare::RECOVERY_STATE) {
                let (_, state) = self.stack.recovery_of(index);
                state.board.joined(id, (start, first));
            }
        }
    }
}
