//! Segments that came out of order, kept until the gap before them is filled.
//!
//! They stand in a chain of frames, ordered by sequence number, without overlap: a new segment is cut to what is not yet
//! there. How many frames a connection may hold is bounded, and nothing is kept when less than a quarter of the pool is
//! left, well before senders are refused, so that no peer takes the pool from others by sending every second octet.

use super::tcb::Tcb;
use crate::buffer::{FrameId, Pool};
use tollgate_wire::SeqNumber;

/// Frames that one connection may hold out of order.
pub(crate) const MAX_FRAMES: usize = 512;

/// Octets of payload in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) id: FrameId,
    /// Where in the frame they begin.
    pub(crate) offset: u16,
    pub(crate) len: u16,
    pub(crate) seq: SeqNumber,
}

impl Piece {
    pub(crate) fn end(&self) -> SeqNumber {
        self.seq + u32::from(self.len)
    }

    /// Cuts off what lies before `start`.
    pub(crate) fn trim_front(&mut self, start: SeqNumber) {
        let cut = start
            .signed_distance(self.seq)
            .clamp(0, i32::from(self.len)) as u16;
        self.seq += u32::from(cut);
        self.offset += cut;
        self.len -= cut;
    }

    /// Cuts off what lies at or after `end`.
    pub(crate) fn trim_back(&mut self, end: SeqNumber) {
        let cut = self
            .end()
            .signed_distance(end)
            .clamp(0, i32::from(self.len)) as u16;
        self.len -= cut;
    }
}

fn piece(pool: &Pool, id: FrameId) -> Piece {
    let meta = pool.meta(id);
    Piece {
        id,
        offset: meta.rx_offset,
        len: meta.rx_len,
        seq: meta.rx_seq,
    }
}

/// Puts a piece into the chain; releases its frame when all of it is there already or there is no room.
pub(crate) fn insert(tcb: &mut Tcb, pool: &mut Pool, mut new: Piece) {
    let mut previous = FrameId::NONE;
    let mut next = tcb.ooo_head;
    let mut count = 0;
    while next.is_some() && piece(pool, next).seq.before(new.seq) {
        previous = next;
        next = pool.meta(next).rx_next;
        count += 1;
    }
    if previous.is_some() {
        new.trim_front(piece(pool, previous).end());
    }
    // What the new piece covers whole goes; what it covers in part cuts it.
    while next.is_some() && new.len != 0 {
        let there = piece(pool, next);
        if there.end().at_or_before(new.end()) {
            let after = pool.meta(next).rx_next;
            pool.release(next);
            next = after;
        } else {
            new.trim_back(there.seq);
            break;
        }
    }
    // What fills the gap is taken in any case: it sets frames free.
    let low = pool.available() < pool.capacity() / 4 && new.seq != tcb.rcv_nxt;
    if new.len == 0 || count >= MAX_FRAMES || low {
        pool.release(new.id);
        relink(tcb, pool, previous, next);
        return;
    }
    let meta = pool.meta_mut(new.id);
    meta.rx_offset = new.offset;
    meta.rx_len = new.len;
    meta.rx_seq = new.seq;
    meta.rx_next = next;
    relink(tcb, pool, previous, new.id);
    trim_count(pool, new.id, MAX_FRAMES - count);
}

fn relink(tcb: &mut Tcb, pool: &mut Pool, previous: FrameId, next: FrameId) {
    if previous.is_none() {
        tcb.ooo_head = next;
    } else {
        pool.meta_mut(previous).rx_next = next;
    }
}

/// Releases everything behind the `keep`th frame from `from`.
fn trim_count(pool: &mut Pool, from: FrameId, keep: usize) {
    let mut last = from;
    for _ in 1..keep {
        let next = pool.meta(last).rx_next;
        if next.is_none() {
            return;
        }
        last = next;
    }
    let rest = core::mem::replace(&mut pool.meta_mut(last).rx_next, FrameId::NONE);
    release_chain(pool, rest);
}

/// Takes the first piece out when it begins at or before `rcv_nxt`, cut to what is new.
pub(crate) fn take_ready(tcb: &mut Tcb, pool: &mut Pool) -> Option<Piece> {
    loop {
        let id = tcb.ooo_head;
        if id.is_none() {
            return None;
        }
        let mut first = piece(pool, id);
        if !first.seq.at_or_before(tcb.rcv_nxt) {
            return None;
        }
        tcb.ooo_head = pool.meta(id).rx_next;
        first.trim_front(tcb.rcv_nxt);
        if first.len != 0 {
            return Some(first);
        }
        pool.release(id);
    }
}

/// Releases a chain of frames linked by their receive links.
pub(crate) fn release_chain(pool: &mut Pool, mut id: FrameId) {
    while id.is_some() {
        let next = pool.meta(id).rx_next;
        pool.release(id);
        id = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn put(tcb: &mut Tcb, pool: &mut Pool, seq: u32, octets: &[u8]) {
        let id = pool.alloc().unwrap();
        pool.octets_mut(id)[..octets.len()].copy_from_slice(octets);
        insert(
            tcb,
            pool,
            Piece {
                id,
                offset: 0,
                len: octets.len() as u16,
                seq: SeqNumber(seq),
            },
        );
    }

    fn drain(tcb: &mut Tcb, pool: &mut Pool) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(piece) = take_ready(tcb, pool) {
            let start = usize::from(piece.offset);
            out.extend_from_slice(&pool.octets(piece.id)[start..start + usize::from(piece.len)]);
            tcb.rcv_nxt = piece.end();
            pool.release(piece.id);
        }
        out
    }

    #[test]
    fn every_order_and_overlap_gives_the_stream() {
        let text: Vec<u8> = (0..60).collect();
        // Deterministic permutations of overlapping cuts.
        let cuts = [
            (0, 10),
            (5, 20),
            (18, 30),
            (30, 31),
            (31, 60),
            (40, 50),
            (2, 58),
        ];
        for start in 0..cuts.len() {
            for step in [1, 2, 3, 5] {
                let mut pool = Pool::new(64, 2048);
                let mut tcb = Tcb {
                    rcv_nxt: SeqNumber(u32::MAX - 9),
                    ..Tcb::FREE
                };
                for n in 0..cuts.len() {
                    let (from, to) = cuts[(start + n * step) % cuts.len()];
                    put(
                        &mut tcb,
                        &mut pool,
                        (u32::MAX - 9).wrapping_add(from as u32),
                        &text[from..to],
                    );
                }
                let out = drain(&mut tcb, &mut pool);
                assert_eq!(out, text[..out.len()]);
                assert!(tcb.ooo_head.is_none() || out.len() < 60);
                release_chain(&mut pool, tcb.ooo_head);
                assert_eq!(pool.available(), 64);
            }
        }
    }

    #[test]
    fn a_low_pool_keeps_nothing_but_what_fills_the_gap() {
        let mut pool = Pool::new(8, 2048);
        let mut tcb = Tcb {
            rcv_nxt: SeqNumber(5),
            ..Tcb::FREE
        };
        put(&mut tcb, &mut pool, 6, b"b");
        let held: Vec<_> = (0..7).map(|_| pool.alloc().unwrap()).collect();
        pool.release(held[0]);
        put(&mut tcb, &mut pool, 10, b"x");
        assert_eq!(pool.available(), 1);
        put(&mut tcb, &mut pool, 5, b"a");
        assert_eq!(drain(&mut tcb, &mut pool), b"ab");
        assert!(tcb.ooo_head.is_none());
        assert_eq!(pool.available(), 2);
        let held = held.into_iter().skip(1);
        for id in held {
            pool.release(id);
        }
    }
}
