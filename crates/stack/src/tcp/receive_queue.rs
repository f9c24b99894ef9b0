//! The receive queue: payload in order, in the frames that it came in, until its reader takes it.
//!
//! A slow reader keeps frames from others, so the window is charged for them. A frame counts for the bytes that wait
//! in it, and for at least half of what it can hold. A connection's queue then takes at most twice its buffer. Small
//! segments are packed behind the payload of the last frame. So a peer that sends single bytes costs little more than
//! one that fills its segments.
//!
//! While less than a quarter of the pool is free, a queue holds at most as much as what is free beside the reserve (the dynamic
//! thresholds of Choudhury and Hahne, 1998). So each queue that fills makes the others' share smaller, and something
//! stays for those who read and send. A segment beyond it that cannot be packed is refused: it is not acknowledged and
//! comes again. A connection whose queue is empty may use some of the reserve ([`Pool::is_short`]), so that those who
//! read are served although others do not.
//!
//! This module must never refuse an acknowledgment, and never write into a frame that somebody else holds.

use super::tcb::{Tcb, rare};
use crate::buffer::{FrameId, Meta, Pool};
use core::hint::cold_path;
use tollgate_wire::SeqNumber;

/// Tells whether `len` bytes in frame `id` may be queued, while `behind` frames that arrived with it have not been looked at. Where
/// the frame is the sender's as well (both ends in one thread share the pool), refusing it would set nothing free.
pub(super) fn takes(tcb: &Tcb, pool: &Pool, id: FrameId, len: u16, behind: usize) -> bool {
    if !pool.is_crowded() {
        return true;
    }
    if tcb.rx_head.is_none() {
        return !pool.is_short(behind) || pool.is_shared(id);
    }
    let waiting = tcb.rcv_limit.wrapping_sub(tcb.rx_free) as usize;
    let within_share = waiting < pool.free_payload();
    within_share
        || pool.has_room_behind_received(tcb.rx_tail, len)
        || pool.is_shared(id) && !pool.is_low()
}

/// Puts the `len` bytes at `offset` of a frame behind those that wait. The frame's count is the queue's from now on.
#[inline(never)]
pub(super) fn push(tcb: &mut Tcb, pool: &mut Pool, id: FrameId, offset: u16, len: u16) {
    if tcb.rx_head.is_some() {
        cold_path();
        return push_behind(tcb, pool, (id, offset), len);
    }
    let meta = pool.meta_mut(id);
    queue(meta, tcb, offset, len);
    tcb.rx_head = id;
    tcb.rx_tail = id;
    tcb.rx_free = tcb.rx_free.wrapping_sub(charge(pool, len));
}

/// [`push`] where others wait.
#[inline(never)]
fn push_behind(tcb: &mut Tcb, pool: &mut Pool, from: (FrameId, u16), len: u16) {
    let before = pool.meta(tcb.rx_tail).rx_len;
    if pool.append_received(tcb.rx_tail, from, len) {
        pool.release(from.0);
        let more = charge(pool, before + len) - charge(pool, before);
        tcb.rx_free = tcb.rx_free.wrapping_sub(more);
        return;
    }
    let (id, offset) = own_frame(pool, from, len);
    queue(pool.meta_mut(id), tcb, offset, len);
    pool.meta_mut(tcb.rx_tail).rx_next = id;
    tcb.rx_tail = id;
    tcb.rx_free = tcb.rx_free.wrapping_sub(charge(pool, len));
}

/// Notes in a frame's record where its next payload lies, as the last of the queue.
#[inline(always)]
fn queue(meta: &mut Meta, tcb: &Tcb, offset: u16, len: u16) {
    meta.rx_offset = offset;
    meta.rx_len = len;
    meta.rx_seq = tcb.rcv_nxt;
    meta.rx_next = FrameId::NONE;
}

/// Bytes that a frame of the queue takes from the window while `len` bytes wait in it.
#[inline(always)]
pub(crate) fn charge(pool: &Pool, len: u16) -> u32 {
    u32::from(len).max(pool.payload_room() as u32 / 2)
}

/// Moves a small payload into a frame that is ours alone, where its own is the sender's as well (both ends in one thread
/// share the pool). What comes next can be packed behind it then.
fn own_frame(pool: &mut Pool, (id, offset): (FrameId, u16), len: u16) -> (FrameId, u16) {
    if usize::from(len) > pool.payload_room() / 4 || !pool.is_shared(id) || pool.is_low() {
        return (id, offset);
    }
    let Some(own) = pool.alloc() else {
        return (id, offset);
    };
    pool.copy_within(id, usize::from(offset), own, 0, usize::from(len));
    pool.release(id);
    (own, 0)
}

impl Tcb {
    /// Takes the first `len` bytes, of one frame, out of the receive queue. Returns the frame when these are the last that
    /// wait in it; its count is the caller's then.
    #[inline]
    pub(crate) fn take_received(&mut self, pool: &mut Pool, len: u16) -> Option<FrameId> {
        let id = self.rx_head;
        let (before, next) = (pool.meta(id).rx_len, pool.meta(id).rx_next);
        let (given_back, taken) = if len == before {
            self.rx_head = next;
            (charge(pool, before), Some(id))
        } else {
            let meta = pool.meta_mut(id);
            meta.rx_offset += len;
            meta.rx_len -= len;
            meta.rx_seq += u32::from(len);
            (charge(pool, before) - charge(pool, before - len), None)
        };
        self.rx_free = self.rx_free.wrapping_add(given_back);
        taken
    }

    /// The payload of the only frame of the queue, and the sequence number of its first byte; `None` where there is none or more.
    #[inline(always)]
    pub(crate) fn only_received<'a>(&self, pool: &'a Pool) -> Option<(&'a [u8], SeqNumber)> {
        if self.rx_head != self.rx_tail {
            return None;
        }
        let (payload, meta) = pool.received(self.rx_head)?;
        Some((payload, meta.rx_seq))
    }

    /// Takes the only frame, of `len` bytes, out of the queue.
    #[inline(always)]
    pub(crate) fn take_only(&mut self, pool: &mut Pool, len: usize) {
        let id = core::mem::replace(&mut self.rx_head, FrameId::NONE);
        self.rx_free = self.rx_free.wrapping_add(charge(pool, len as u16));
        pool.release(id);
    }

    /// The sequence number of the first byte that the application has not read.
    pub(crate) fn consumed(&self, pool: &Pool) -> SeqNumber {
        match pool.meta_if(self.rx_head) {
            Some(first) => first.rx_seq,
            None => self.rcv_nxt - u32::from(self.is_rare(rare::FIN_RECEIVED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn arrive(tcb: &mut Tcb, pool: &mut Pool, data: &[u8]) {
        let id = pool.alloc().unwrap();
        pool.bytes_mut(id)[66..66 + data.len()].copy_from_slice(data);
        push(tcb, pool, id, 66, data.len() as u16);
        tcb.rcv_nxt += data.len() as u32;
    }

    fn read(tcb: &mut Tcb, pool: &mut Pool) -> Vec<u8> {
        let mut out = Vec::new();
        while tcb.rx_head.is_some() {
            let meta = *pool.meta(tcb.rx_head);
            let start = usize::from(meta.rx_offset);
            let len = meta.rx_len.div_ceil(2);
            out.extend_from_slice(&pool.bytes(tcb.rx_head)[start..start + usize::from(len)]);
            if let Some(id) = tcb.take_received(pool, len) {
                pool.release(id);
            }
        }
        out
    }

    fn tcb() -> Tcb {
        Tcb {
            rcv_limit: 100_000,
            rx_free: 100_000,
            ..Tcb::FREE
        }
    }

    #[test]
    fn small_segments_share_frames_and_frames_count_for_half_at_least() {
        let mut pool = Pool::new(64, 2048);
        let mut tcb = tcb();
        let text: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
        for byte in text.chunks(1) {
            arrive(&mut tcb, &mut pool, byte);
        }
        let held = 64 - pool.available();
        assert_eq!(held, 10_000usize.div_ceil(2048 - 66));
        // The last holds less than half.
        let last = 10_000 % (2048 - 66);
        assert!(last < pool.payload_room() / 2);
        let charged = 10_000 - last + pool.payload_room() / 2;
        assert_eq!(tcb.rx_free as usize, 100_000 - charged);
        assert_eq!(read(&mut tcb, &mut pool), text);
        assert_eq!((tcb.rx_free, pool.available()), (100_000, 64));
    }

    #[test]
    fn shared_frames_are_not_written_to() {
        let mut pool = Pool::new(64, 2048);
        let mut tcb = tcb();
        let mut senders = Vec::new();
        for byte in 0..100u8 {
            let id = pool.alloc().unwrap();
            pool.retain(id);
            pool.bytes_mut(id)[66] = byte;
            pool.bytes_mut(id)[67] = 0xff;
            push(&mut tcb, &mut pool, id, 66, 1);
            tcb.rcv_nxt += 1;
            assert_eq!(pool.bytes(id)[67], 0xff);
            senders.push(id);
            if senders.len() == 8 {
                senders.drain(..).for_each(|id| pool.release(id));
            }
        }
        senders.drain(..).for_each(|id| pool.release(id));
        assert!(64 - pool.available() <= 2);
        assert_eq!(read(&mut tcb, &mut pool), (0..100).collect::<Vec<u8>>());
    }

    #[test]
    fn low_pool_takes_what_costs_no_frame() {
        let mut pool = Pool::new(64, 2048);
        let mut tcb = tcb();
        let id = pool.alloc().unwrap();
        assert!(takes(&tcb, &pool, id, 1448, 0));
        arrive(&mut tcb, &mut pool, b"first");
        let mut held = Vec::new();
        while !pool.is_low() {
            held.push(pool.alloc().unwrap());
        }
        assert!(takes(&tcb, &pool, id, 100, 0));
        assert!(!takes(&tcb, &pool, id, 2000, 0));
        let empty = self::tcb();
        assert!(takes(&empty, &pool, id, 2000, 0));
        while !pool.is_short(0) {
            held.push(pool.alloc().unwrap());
        }
        assert!(!takes(&empty, &pool, id, 2000, 0));
        assert!(takes(&empty, &pool, id, 2000, 1));
        pool.retain(id);
        assert!(takes(&empty, &pool, id, 2000, 0));
        assert!(pool.available() > 0);
    }
}
