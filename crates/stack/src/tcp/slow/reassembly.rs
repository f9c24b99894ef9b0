//! Segments that came out of order, kept until the gap before them is filled.
//!
//! They stand in a chain of frames, ordered by sequence number, without overlap: a new segment is cut to what is not yet
//! there, and packed behind the one before it where they are neighbours. A connection may hold as many frames as twice its
//! window fills. Nothing is kept while less than a quarter of the pool is left, well before senders are refused, so that
//! no peer takes the pool from others by sending every second byte. Most segments come behind all others, so the first
//! frame of the chain says which the last is.

use crate::buffer::{FrameId, Pool};
use crate::tcp::tcb::Tcb;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::SackBlock;

/// Frames that one connection may hold out of order: twice what its window fills, and a few for small windows.
pub(in crate::tcp) fn most_frames(tcb: &Tcb, pool: &Pool) -> u16 {
    let frames = 2 * tcb.rcv_limit as usize / pool.payload_room() + 16;
    frames.min(usize::from(u16::MAX)) as u16
}

/// Bytes of payload in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) id: FrameId,
    /// The place where in the frame they begin.
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

/// The last piece of the chain and how many there are.
fn ends(tcb: &Tcb, pool: &Pool) -> (FrameId, u16) {
    match pool.meta_if(tcb.ooo_head) {
        Some(first) => (first.rx_last, first.rx_count),
        None => (FrameId::NONE, 0),
    }
}

/// Writes down which piece is the first, and what the first says of the others.
fn set_ends(tcb: &mut Tcb, pool: &mut Pool, first: FrameId, last: FrameId, count: u16) {
    tcb.ooo_head = first;
    if let Some(first) = pool.meta_mut_if(first) {
        first.rx_last = last;
        first.rx_count = count;
    }
}

/// Fate of a piece that was put into the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// All of it is in the chain.
    All,
    /// All of it was in the chain before.
    Again,
    /// Nothing that was not there before.
    Nothing,
    /// All of it, but what lies at or behind this is in the chain no longer.
    ButFrom(SeqNumber),
}

/// Puts a piece into the chain; releases its frame when all of it is there already or there is no room.
pub(crate) fn insert(tcb: &mut Tcb, pool: &mut Pool, mut new: Piece) -> Kept {
    let (mut first, (mut last, mut count)) = (tcb.ooo_head, ends(tcb, pool));
    let (mut previous, mut next) = if last.is_some() && piece(pool, last).seq.before(new.seq) {
        (last, FrameId::NONE)
    } else {
        place(pool, first, new.seq)
    };
    if previous.is_some() {
        new.trim_front(piece(pool, previous).end());
    }
    // What the new piece covers whole goes; what it covers in part cuts it.
    let before = count;
    while next.is_some() && new.len != 0 {
        let there = piece(pool, next);
        if there.end().at_or_before(new.end()) {
            let after = pool.meta(next).rx_next;
            pool.release(next);
            next = after;
            count -= 1;
        } else {
            new.trim_back(there.seq);
            break;
        }
    }
    // What fills the gap is taken in any case: it sets frames free. So is what has the bytes of pieces that have gone: the peer may have
    // been told of them.
    let wanted = new.seq == tcb.rcv_nxt || count < before;
    let low = pool.is_crowded() && !wanted;
    let full = count >= most_frames(tcb, pool) && !wanted && next.is_none();
    let packed = new.len != 0
        && previous.is_some()
        && piece(pool, previous).end() == new.seq
        && pool.append_received(previous, (new.id, new.offset), new.len);
    let refused = !packed && new.len != 0 && (low || full);
    let again = new.len == 0;
    if packed || new.len == 0 || refused {
        pool.release(new.id);
    } else {
        let meta = pool.meta_mut(new.id);
        meta.rx_offset = new.offset;
        meta.rx_len = new.len;
        meta.rx_seq = new.seq;
        link(pool, &mut first, previous, new.id);
        previous = new.id;
        count += 1;
    }
    link(pool, &mut first, previous, next);
    if next.is_none() {
        last = previous;
    }
    set_ends(tcb, pool, first, last, count);
    if refused {
        return Kept::Nothing;
    }
    if count > most_frames(tcb, pool) && !wanted {
        return Kept::ButFrom(drop_last(tcb, pool));
    }
    if again { Kept::Again } else { Kept::All }
}

/// All that is there without a gap around a range that is in the chain.
pub(crate) fn run_around(tcb: &Tcb, pool: &Pool, range: SackBlock) -> SackBlock {
    let mut run = range;
    let mut id = tcb.ooo_head;
    let mut start = None;
    while id.is_some() {
        let here = piece(pool, id);
        if range.end.before(here.seq) && run.end.before(here.seq) {
            break;
        }
        match start {
            Some((_, end)) if end == here.seq => start = start.map(|(from, _)| (from, here.end())),
            _ => start = Some((here.seq, here.end())),
        }
        if let Some((from, end)) = start
            && from.at_or_before(range.start)
            && range.end.at_or_before(end)
        {
            run = SackBlock { start: from, end };
        }
        id = pool.meta(id).rx_next;
    }
    run
}

/// The pieces between which one that begins at `seq` belongs.
fn place(pool: &Pool, first: FrameId, seq: SeqNumber) -> (FrameId, FrameId) {
    let (mut previous, mut next) = (FrameId::NONE, first);
    while next.is_some() && piece(pool, next).seq.before(seq) {
        previous = next;
        next = pool.meta(next).rx_next;
    }
    (previous, next)
}

/// Lets `next` follow `previous`, or be the first.
fn link(pool: &mut Pool, first: &mut FrameId, previous: FrameId, next: FrameId) {
    match pool.meta_mut_if(previous) {
        Some(previous) => previous.rx_next = next,
        None => *first = next,
    }
}

/// Lets the last piece go, which is the one that will be needed last. Returns where it begins.
fn drop_last(tcb: &mut Tcb, pool: &mut Pool) -> SeqNumber {
    let (last, count) = ends(tcb, pool);
    let from = piece(pool, last).seq;
    let (previous, _) = place(pool, tcb.ooo_head, from);
    let mut first = tcb.ooo_head;
    link(pool, &mut first, previous, FrameId::NONE);
    pool.release(last);
    set_ends(tcb, pool, first, previous, count - 1);
    from
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
        let (last, count) = ends(tcb, pool);
        let next = pool.meta(id).rx_next;
        set_ends(tcb, pool, next, last, count - 1);
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

    fn put(tcb: &mut Tcb, pool: &mut Pool, seq: u32, bytes: &[u8]) {
        let id = pool.alloc().unwrap();
        pool.bytes_mut(id)[..bytes.len()].copy_from_slice(bytes);
        insert(
            tcb,
            pool,
            Piece {
                id,
                offset: 0,
                len: bytes.len() as u16,
                seq: SeqNumber(seq),
            },
        );
    }

    fn chain(tcb: &Tcb, pool: &Pool) -> Vec<FrameId> {
        let mut ids = Vec::new();
        let mut id = tcb.ooo_head;
        while id.is_some() {
            ids.push(id);
            id = pool.meta(id).rx_next;
        }
        assert_eq!(
            ids.last().copied().unwrap_or(FrameId::NONE),
            ends(tcb, pool).0
        );
        ids
    }

    fn drain(tcb: &mut Tcb, pool: &mut Pool) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(piece) = take_ready(tcb, pool) {
            let start = usize::from(piece.offset);
            out.extend_from_slice(&pool.bytes(piece.id)[start..start + usize::from(piece.len)]);
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
                    rcv_limit: 65_536,
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
                assert_eq!(ends(&tcb, &pool).1 as usize, chain(&tcb, &pool).len());
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

    #[test]
    fn neighbours_share_a_frame_and_the_farthest_goes_when_there_are_too_many() {
        let mut pool = Pool::new(256, 2048);
        let mut tcb = Tcb {
            rcv_nxt: SeqNumber(0),
            rcv_limit: 4096,
            ..Tcb::FREE
        };
        for n in 0..1000u32 {
            put(&mut tcb, &mut pool, 1 + n, &[n as u8]);
        }
        assert_eq!(chain(&tcb, &pool).len(), 1);
        let most = u32::from(most_frames(&tcb, &pool));
        for n in (0..2 * most).rev() {
            put(&mut tcb, &mut pool, 2000 + 2 * n, b"x");
        }
        assert_eq!(chain(&tcb, &pool).len(), most as usize);
        assert_eq!(256 - pool.available(), most as usize);
        let farthest = piece(&pool, ends(&tcb, &pool).0).seq;
        assert_eq!(farthest, SeqNumber(2000 + 2 * (most - 2)));
        put(&mut tcb, &mut pool, 0, b"y");
        assert_eq!(drain(&mut tcb, &mut pool).len(), 1001);
        assert_eq!(chain(&tcb, &pool).len(), most as usize - 1);
    }
}
