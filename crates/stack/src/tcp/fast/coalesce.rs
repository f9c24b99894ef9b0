//! Coalescing, the predicted path of a small write: behind a segment that waits.
//!
//! Nagle's algorithm, a window or the device queue holds back a segment that is not full, and the application goes on
//! writing. When the segment begins to wait, one limit is worked out for the writes that follow: [`Meta::tx_limit`],
//! in bytes. A write that stays below it is copied, summed and counted. Such a write makes nothing due, so nothing
//! else is checked. Every event that changes the limit's premises sets it to zero or anew. Then the write goes the
//! general way through [`crate::tcp::slow::output`].
//!
//! [`Meta::tx_limit`]: crate::buffer::Meta::tx_limit

use crate::buffer::{Meta, Pool};
use crate::stack::Stack;
use crate::tcp::tcb::{Tcb, rare};
use core::hint::cold_path;
use tollgate_wire::tcp::Flags;

/// Limit up to which small writes may fill the last frame of a connection when it begins to wait. It is less than a
/// full segment, since a full one may be sent. It is no more than the send buffer takes, nor than `window`, the bytes of a
/// segment that the windows take: what goes beyond makes a window what holds it. `segment` is the most that a frame holds.
#[inline(always)]
pub(crate) fn limit(tcb: &Tcb, meta: &Meta, segment: usize, window: u32) -> u16 {
    // Behind a FIN that waits for a frame nothing goes. The others are looked at with each write.
    const ASKED: u32 = rare::FIN_PENDING | rare::MORE | rare::LOW_WATER;
    let waits = meta.transmissions.is_none() && meta.tx_flags == Flags(0) && meta.refs == 1;
    if !waits || tcb.is_rare(ASKED) {
        return 0;
    }
    let full = u32::from(tcb.mss).min(segment as u32);
    let len = u32::from(meta.tx_len);
    // Nothing goes behind a full segment, and what holds it is a window and not Nagle's algorithm.
    if len >= full {
        return 0;
    }
    let buffer = tcb.snd_limit.saturating_sub(tcb.snd_end - tcb.snd_una);
    let room = window.min(len + buffer);
    full.min(room + 1) as u16
}

impl Stack {
    /// Finds the limit of small writes out anew: a connection has begun to wait, or something has changed while it does.
    #[inline(never)]
    pub(crate) fn open_coalescing(&mut self, pool: &mut Pool, index: usize) {
        let segment = self.coalescing_room(pool);
        let tcb = &self.tcbs[index];
        if tcb.unsent.is_some() {
            let meta = pool.meta_mut(tcb.tx_tail);
            let window = tcb.send_edge().signed_distance(meta.tx_seq);
            meta.tx_limit = if tcb.is_rare(rare::MTU_SEARCH) {
                // Each write is asked whether there is enough for a probe now.
                0
            } else if window < i32::from(meta.tx_len) {
                // A window holds it already.
                limit(tcb, meta, segment, u32::from(u16::MAX))
            } else {
                limit(tcb, meta, segment, window as u32)
            };
        }
    }

    /// Puts `data` behind the last frame of a connection that waits, when the frame's limit allows. Says whether it was
    /// so, and has changed nothing otherwise. Something must be unsent: else the last frame is not the connection's any
    /// more.
    #[inline(always)]
    pub(crate) fn coalesce(&mut self, pool: &mut Pool, index: usize, data: &[u8]) -> bool {
        if self.compiled.copy_kernel.takes_as_few(data.len()) {
            self.coalesce_as::<true>(pool, index, data)
        } else {
            self.coalesce_many(pool, index, data)
        }
    }

    /// Coalesces more bytes than are copied in place.
    #[inline(never)]
    fn coalesce_many(&mut self, pool: &mut Pool, index: usize, data: &[u8]) -> bool {
        self.coalesce_as::<false>(pool, index, data)
    }

    /// Coalesces `FEW` bytes, which are copied in place, or any number.
    #[inline(always)]
    fn coalesce_as<const FEW: bool>(&mut self, pool: &mut Pool, index: usize, data: &[u8]) -> bool {
        let Some(tcb) = self.tcbs.get_mut(index) else {
            cold_path();
            return false;
        };
        let Some((meta, room, filled)) = pool.coalesce_room(tcb.tx_tail, data.len()) else {
            cold_path();
            return false;
        };
        let before = meta.tx_len;
        let sum = if FEW {
            self.compiled.copy_kernel.copy_and_sum_few(room, data)
        } else {
            Some(self.compiled.copy_kernel.copy_and_accumulate(room, data))
        };
        let Some(sum) = sum else {
            cold_path();
            return false;
        };
        meta.tx_sum = meta.tx_sum.append(usize::from(before), sum);
        meta.tx_len = filled;
        tcb.snd_end += data.len() as u32;
        meta.tx_end = tcb.snd_end;
        true
    }
}
