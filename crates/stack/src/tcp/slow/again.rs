//! Segments that are sent again: what was in flight at a timeout, what is lost, what a probe asks with.
//!
//! A segment counts as sent again only when it was: what a full link or an empty pool has kept back stays what it was, so that nobody
//! waits for it. Where something else is in flight, the next acknowledgment tries again, else the timer.

use crate::buffer::FrameId;
use crate::config::RetransmitCopy;
use crate::counters::Drop;
use crate::stack::Active;
use tollgate_gate::Recorder;
use tollgate_wire::tcp::Flags;

impl<R: Recorder> Active<'_, R> {
    /// Sends a frame that was sent before a timeout. Returns whether output goes on behind it.
    #[cold]
    pub(in crate::tcp) fn send_again(&mut self, index: usize, id: FrameId) -> bool {
        let end = self.pool.meta(id).tx_end;
        self.join_to_send_again(index, id, self.stack.tcbs[index].send_edge());
        self.start_retransmission(index);
        if !self.retransmit(index, id) {
            return false;
        }
        let tcb = &mut self.stack.tcbs[index];
        let meta = self.pool.meta(id);
        tcb.unsent = meta.tx_next;
        tcb.snd_nxt = tcb.snd_nxt.latest(meta.tx_end);
        self.note_sent_again(index, meta.payload_block(), end);
        self.pass_sacked(index);
        true
    }

    /// Sends the oldest unacknowledged frame again. Where there is no room for it, the timer tries again.
    pub(crate) fn retransmit_first(&mut self, index: usize) {
        let id = self.stack.tcbs[index].tx_head;
        if id.is_some() {
            self.retransmit(index, id);
        }
    }

    /// Sends a frame of the send queue again, and counts that. Returns whether it did: there may be no room for it.
    pub(crate) fn retransmit(&mut self, index: usize, id: FrameId) -> bool {
        // Whoever else holds the frame may be reading the headers that would be overwritten.
        let copies = self.pool.is_shared(id)
            || self.stack.config.mechanisms.retransmit == RetransmitCopy::Copy;
        if let Some(reason) = self.keeps_back(index, id, copies) {
            self.stack.counters.dropped(reason);
            return false;
        }
        let tcb = &mut self.stack.tcbs[index];
        tcb.retransmits = tcb.retransmits.saturating_add(1);
        self.stack.counters.retransmits += 1;
        let meta = self.pool.meta_mut(id);
        meta.send_again_at(self.now);
        let meta = *meta;
        let (_, state) = self.stack.recovery_of(index);
        state.bytes_retransmitted += u64::from(meta.tx_len);
        // RFC 9293, 3.9.1.2, MUST-61: the last queued segment is pushed, whenever it is sent.
        let push = if meta.tx_next.is_none() && meta.tx_len != 0 {
            Flags::PSH
        } else {
            Flags(0)
        };
        let flags = meta.tx_flags | push | Flags::ACK;
        let segment = (meta.tx_seq, meta.tx_len, meta.tx_sum);
        if copies {
            self.emit_copy(index, id, flags, segment, true);
        } else {
            self.pool.retain(id);
            let sum = self.fill_from_chain(index, id, segment, true);
            self.emit(index, id, meta.tx_seq, flags, meta.tx_len, sum);
        }
        true
    }

    /// The reason for which a frame cannot be sent again now. Only the first, for which all others wait, may take a frame of the reserve
    /// for a copy.
    fn keeps_back(&self, index: usize, id: FrameId, copies: bool) -> Option<Drop> {
        let is_first = id == self.stack.tcbs[index].tx_head;
        let has_frame = match is_first {
            true => self.pool.available() != 0,
            false => !self.pool.is_low(),
        };
        if !self.device_has_room() {
            Some(Drop::DeviceQueueFull)
        } else if copies && !has_frame {
            Some(Drop::NoFrame)
        } else {
            None
        }
    }
}
