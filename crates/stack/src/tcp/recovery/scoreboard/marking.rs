//! An acknowledgment in the send queue: which frames it takes away, which its blocks mark as sacked, and what that tells RACK.

use super::{LOST, RESENT, SACKED};
use crate::buffer::{Meta, Pool};
use crate::tcp::recovery::Recovery;
use crate::tcp::recovery::rack::{Delivered, Rack};
use crate::tcp::recovery::runs::FrameRange;
use crate::tcp::tcb::Tcb;
use crate::time::Instant;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{SackBlock, SackBlocks};

/// Frames of the send queue that one block is compared with at most. The next acknowledgment goes on where this one stopped.
const MAX_WALK: usize = 4_096;

/// The blocks that lie behind `ack` and tell of something that was sent, in their order in the stream, and the first one where it tells of a duplicate (RFC 2883,
/// 4): it lies before the acknowledgment, or within the second.
pub(super) fn split_blocks(
    tcb: &Tcb,
    ack: SeqNumber,
    sack: Option<SackBlocks>,
) -> (SackBlocks, Option<SackBlock>) {
    let mut blocks = SackBlocks::NONE;
    let Some(sack) = sack else {
        return (blocks, None);
    };
    let all = sack.as_slice();
    let within = |inner: &SackBlock, outer: &SackBlock| {
        outer.start.at_or_before(inner.start) && inner.end.at_or_before(outer.end)
    };
    let duplicate = all.first().copied().filter(|first| {
        let oldest = tcb.snd_una - tcb.max_snd_wnd.max(1);
        let plausible = first.start.before(first.end) && oldest.at_or_before(first.start);
        let acknowledged = first.end.at_or_before(ack);
        plausible && (acknowledged || all.get(1).is_some_and(|second| within(first, second)))
    });
    let sent = tcb.highest_sent();
    for block in &all[usize::from(duplicate.is_some())..] {
        let valid = ack.at_or_before(block.start)
            && block.start.before(block.end)
            && block.end.at_or_before(sent);
        if valid {
            blocks.push(*block);
        }
    }
    // The newest is told first. Taken in like that, the others would seem to have come late.
    blocks
        .as_mut_slice()
        .sort_unstable_by_key(|b| b.start - ack);
    (blocks, duplicate)
}

/// Tells RACK of a frame that was delivered.
fn deliver(tcb: &Tcb, rack: &mut Rack, meta: &Meta, (now, echo): (Instant, Option<u32>)) {
    let sent_ns = meta.last_sent_ns(now);
    let again = meta.sent_once_at.is_none();
    let delivered = Delivered {
        sent_ns,
        end: meta.tx_end,
        again,
        spurious: again && echo_is_older(tcb, echo, sent_ns),
    };
    rack.deliver(delivered, now.as_nanos());
}

/// Beginning of the first frame that is to be sent, for the first time or again after a timeout.
fn first_unsent(tcb: &Tcb, pool: &Pool) -> SeqNumber {
    pool.meta_if(tcb.unsent)
        .map_or(tcb.snd_end, |meta| meta.tx_seq)
}

/// Takes what `ack` covers out of the sums. Returns the bytes that were not known to be delivered.
pub(super) fn acknowledge_frames(
    tcb: &Tcb,
    state: &mut Recovery,
    pool: &Pool,
    ack: SeqNumber,
    news: (Instant, Option<u32>),
) -> u32 {
    let mut delivered = 0;
    let edge = first_unsent(tcb, pool);
    let mut id = tcb.tx_head;
    while let Some(meta) = pool.meta_if(id)
        && !meta.transmissions.is_none()
        && meta.tx_seq.before(ack)
    {
        let from = meta.tx_seq.latest(tcb.snd_una);
        if !meta.transmissions.is(SACKED) {
            delivered += meta.tx_end.earliest(ack) - from;
        }
        if !meta.tx_end.at_or_before(ack) {
            break;
        }
        if !meta.transmissions.is(SACKED) {
            deliver(tcb, &mut state.rack, meta, news);
        }
        let passed = meta.tx_seq.before(edge);
        state
            .board
            .subtract(meta.transmissions, meta.sequence_len(), passed);
        id = meta.tx_next;
    }
    delivered
}

/// Marks the frames that a block covers whole. Returns the bytes that were not known to be delivered, and whether all of the block was
/// looked at.
pub(super) fn mark_block(
    tcb: &Tcb,
    state: &mut Recovery,
    pool: &mut Pool,
    block: SackBlock,
    news: (Instant, Option<u32>),
) -> (u32, bool) {
    let board = &mut state.board;
    if board.known.as_slice().contains(&block) {
        return (0, true);
    }
    let mut delivered = 0;
    let edge = first_unsent(tcb, pool);
    // The frame that a run begins with or goes on behind.
    let mut id = match board.runs.at_or_before(block.start) {
        Some(run) => run.last,
        None => tcb.tx_head,
    };
    for _ in 0..MAX_WALK {
        let Some(meta) = pool.meta_mut_if(id) else {
            return (delivered, true);
        };
        if meta.transmissions.is_none() || !meta.tx_seq.before(block.end) {
            return (delivered, true);
        }
        let covered = block.start.at_or_before(meta.tx_seq) && meta.tx_end.at_or_before(block.end);
        let range = FrameRange {
            start: meta.tx_seq,
            end: meta.tx_end,
            id,
        };
        if covered && !meta.transmissions.is(SACKED) {
            let len = meta.sequence_len();
            board.subtract(meta.transmissions, len, false);
            meta.transmissions.unmark(LOST | RESENT);
            meta.transmissions.mark(SACKED);
            board.sacked += len;
            if meta.tx_seq.before(edge) {
                board.passed += len;
            }
            board.sacked_frames += 1;
            delivered += len;
            deliver(tcb, &mut state.rack, meta, news);
        }
        let next = meta.tx_next;
        // What is sacked already is passed over, as far as it goes.
        id = match meta.transmissions.is(SACKED) {
            true => match board.runs.add(range) {
                Some(last) if last != id => last,
                _ => next,
            },
            false => next,
        };
    }
    (delivered, false)
}

/// Tells whether a retransmission cannot be what was acknowledged: the timestamp that came back is older.
fn echo_is_older(tcb: &Tcb, echo: Option<u32>, sent_ns: u64) -> bool {
    let Some(echo) = echo else {
        return false;
    };
    let stamp = Instant::from_nanos(sent_ns)
        .tick()
        .0
        .wrapping_add(tcb.ts_offset);
    (echo.wrapping_sub(stamp) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that has sent so many segments of 100 bytes, the first of sequence number 0.
    fn sent(segments: u32) -> (Tcb, Pool) {
        let mut pool = Pool::new(segments as usize, 2048);
        let mut tcb = Tcb {
            snd_nxt: SeqNumber(100 * segments),
            max_snd_wnd: 1 << 30,
            ..Tcb::FREE
        };
        for n in (0..segments).rev() {
            let id = pool.alloc().unwrap();
            let meta = pool.meta_mut(id);
            let (start, next) = (SeqNumber(100 * n), tcb.tx_head);
            meta.send_at_once(
                (start, start + 100),
                100,
                tollgate_checksum::Accumulator::ZERO,
                tollgate_wire::tcp::Flags(0),
                Instant::from_nanos(1 << 40),
            );
            meta.tx_next = next;
            tcb.tx_head = id;
        }
        (tcb, pool)
    }

    /// A block that begins farther from the first segment than is walked at once is reached from the one before it.
    #[test]
    fn blocks_behind_a_long_queue_are_marked() {
        let (tcb, mut pool) = sent(3 * MAX_WALK as u32);
        let mut state = Recovery::of(&tcb);
        let now = (Instant::from_nanos(1 << 41), None);
        let mut mark = |start: u32, end: u32| {
            let block = SackBlock {
                start: SeqNumber(100 * start),
                end: SeqNumber(100 * end),
            };
            mark_block(&tcb, &mut state, &mut pool, block, now)
        };
        let walk = MAX_WALK as u32;
        // Told of more than is walked at once, it goes on where it stopped.
        assert_eq!(mark(1, walk + 100), (100 * (walk - 1), false));
        assert_eq!(mark(1, walk + 101), (100 * 101, true));
        assert_eq!(mark(walk + 200, walk + 201), (100, true));
        // The newest block is told first, and the others after it. Each goes on behind what is sacked before it.
        assert_eq!(mark(walk + 300, walk + 302), (200, true));
        assert_eq!(mark(walk + 200, walk + 202), (100, true));
        // What lies between two runs is found, and both are passed over.
        assert_eq!(mark(1, walk + 302), (100 * (99 + 98), true));
        assert_eq!(state.board.sacked, 100 * (walk + 301));
    }
}
