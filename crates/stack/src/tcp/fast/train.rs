//! The rest of a train: segments that were one frame when they came, behind the first, which was predicted.
//!
//! The link that has cut them says that they follow each other ([`RxChecksum::VerifiedInTrain`]). So they say the same but for their
//! payload, and all that is left to check is that this one is the next in order and fits. A segment of which that cannot be said goes the
//! way of any other, with nothing changed. The last of a train always does: it may have PSH or FIN, and is acknowledged.
//!
//! [`RxChecksum::VerifiedInTrain`]: crate::buffer::RxChecksum::VerifiedInTrain

use super::accept::advance;
use super::header;
use crate::buffer::{Frame, Pool};
use crate::compiled::ACK_AFTER_IN_TRAIN;
use crate::socket::Posted;
use crate::stack::Stack;
use crate::tcp::receive_queue;
use crate::tcp::tcb::PSH;
use crate::tcp::template::STAMPED;

impl Stack {
    /// Takes a segment of a train behind one that was predicted; otherwise has changed nothing and says so.
    ///
    /// The acknowledgment is due already, the time of the last one was noted, and the acknowledgment that all have was taken in: by the
    /// first. The application knows of what lies in its queue.
    #[inline(always)]
    pub(crate) fn follows_in_train(
        &mut self,
        pool: &mut Pool,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> bool {
        let index = self.cached;
        let Some(tcb) = self.tcbs.get_mut(index) else {
            return false;
        };
        let Some((head, payload)) = pool.frame(frame).split_first_chunk::<STAMPED>() else {
            return false;
        };
        let len = payload.len();
        let predicted = tcb.key.is(header::key(head))
            && header::offset_and_flags(head) | PSH == tcb.predicted
            && header::sequence(head) == tcb.rcv_nxt
            && header::acknowledgment(head) == tcb.snd_una
            && header::timestamp(head) == Some(tcb.ts_recent)
            && header::ETHERNET + usize::from(header::total_len(head)) == STAMPED + len
            && len != 0
            && len <= (tcb.rcv_edge - tcb.rcv_nxt) as usize
            && (1..ACK_AFTER_IN_TRAIN - 1).contains(&tcb.unacked);
        if !predicted {
            return false;
        }
        if tcb.rx_head.is_none() {
            let Some(room) = posted.room(index, len) else {
                return false;
            };
            room.copy_from_slice(payload);
            posted.filled += len;
            pool.release(frame.id);
        } else {
            if pool.is_crowded() {
                return false;
            }
            let offset = frame.offset + STAMPED as u16;
            receive_queue::push(tcb, pool, frame.id, offset, len as u16);
        }
        advance(tcb, len as u32);
        self.counters.predicted += 1;
        true
    }
}
