//! Writes of an application, as far as one direction of a TCP connection shows them.
//!
//! A write is the new bytes of consecutive segments up to one with PSH or FIN, up to a pause, up to bytes that are
//! missing, or up to user data of the other end. TCP does not keep the bounds of writes: two writes that were sent
//! together are one here, and one that a sender pushed in pieces is several.
//!
//! Must never see payload: sequence numbers and lengths are enough.

use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::Flags;

use crate::decode::Segment;

/// A write that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Write {
    /// When its first segment was captured.
    pub(crate) began_ns: i64,
    /// Bytes so far.
    pub(crate) bytes: u32,
    /// Segments so far; none when there is no write.
    pub(crate) packets: u32,
    last_ns: i64,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Direction {
    /// The sequence number of the SYN, when it was seen.
    pub(crate) first: Option<SeqNumber>,
    /// The number behind the furthest byte seen, once there was one.
    next: Option<SeqNumber>,
    holes: Holes,
    open: Write,
}

/// Stretches of bytes that were passed over and may still come, each from a number up to another; empty ones are free.
///
/// A capture on two processors shows one burst in several orders at once, so that one stretch is too few.
#[derive(Clone, Copy, Debug, Default)]
struct Holes([(SeqNumber, SeqNumber); 4]);

/// Effect of a segment with user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// A write that had ended before it.
    pub(crate) before: Option<Write>,
    /// Bytes that the segment adds to a write.
    pub(crate) fresh: u32,
    /// The write that it ended.
    pub(crate) ended: Option<Write>,
    /// Tells whether bytes in front of it were passed over.
    pub(crate) gap: bool,
}

impl Direction {
    /// Takes the sequence number of a segment without user data.
    pub(crate) fn without_data(&mut self, segment: &Segment) -> Option<Write> {
        if segment.flags.has(Flags::SYN) {
            self.first = Some(segment.seq);
            self.next = Some(segment.seq + 1);
        }
        if segment.flags.any(Flags::FIN | Flags::RST) {
            return self.end();
        }
        None
    }

    /// Takes a segment with `size` bytes of user data.
    #[inline]
    pub(crate) fn data(
        &mut self,
        segment: &Segment,
        size: u32,
        time_ns: i64,
        pause_ns: i64,
    ) -> Taken {
        let syn = segment.flags.has(Flags::SYN);
        if syn {
            self.first = Some(segment.seq);
        }
        let start = segment.seq + u32::from(syn);
        let (fresh, gap) = self.fresh(start, start + size);
        let paused = self.open.packets > 0 && time_ns.saturating_sub(self.open.last_ns) > pause_ns;
        let before = (gap || paused).then(|| self.end()).flatten();
        if fresh > 0 {
            if self.open.packets == 0 {
                self.open.began_ns = time_ns;
            }
            self.open.bytes = self.open.bytes.saturating_add(fresh);
            self.open.packets += 1;
            self.open.last_ns = time_ns;
        }
        let ends = fresh > 0 && segment.flags.has(Flags::PSH)
            || segment.flags.any(Flags::FIN | Flags::RST);
        Taken {
            before,
            fresh,
            ended: ends.then(|| self.end()).flatten(),
            gap,
        }
    }

    /// Ends the write that is open.
    #[inline]
    pub(crate) fn end(&mut self) -> Option<Write> {
        (self.open.packets > 0).then(|| std::mem::take(&mut self.open))
    }

    /// Number of the bytes from `start` to `end` that were not received before, and whether they leave a gap.
    #[inline]
    fn fresh(&mut self, start: SeqNumber, end: SeqNumber) -> (u32, bool) {
        let Some(next) = self.next.filter(|next| *next != start) else {
            let size = end - start;
            self.next = Some(end);
            return (size, false);
        };
        if next.before(start) {
            self.holes.add(next, start);
            self.next = Some(end);
            return (end - start, true);
        }
        let mut fresh = 0;
        if next.before(end) {
            fresh += end - next;
            self.next = Some(end);
        }
        fresh += self.holes.fill(start, end);
        (fresh, false)
    }
}

impl Holes {
    /// Remembers the bytes between `from` and `to`. Where there is no room, the smallest stretch is forgotten.
    fn add(&mut self, from: SeqNumber, to: SeqNumber) {
        let smallest = self.0.iter_mut().min_by_key(|hole| hole.1 - hole.0);
        if let Some(hole) = smallest
            && hole.1 - hole.0 < to - from
        {
            *hole = (from, to);
        }
    }

    /// Takes the bytes from `start` to `end` out: how many of them had been passed over.
    fn fill(&mut self, start: SeqNumber, end: SeqNumber) -> u32 {
        let mut filled = 0;
        for hole in 0..self.0.len() {
            let (from, to) = self.0[hole];
            let (first, last) = (from.latest(start), to.earliest(end));
            if first.before(last) {
                filled += last - first;
                self.0[hole] = (from, first);
                self.add(last, to);
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: i64 = 1_000;

    fn segment(seq: u32, flags: Flags) -> Segment {
        Segment {
            seq: SeqNumber(seq),
            flags: flags | Flags::ACK,
        }
    }

    fn bytes(write: Option<Write>) -> Option<(u32, u32)> {
        write.map(|write| (write.bytes, write.packets))
    }

    const NONE: Flags = Flags(0);

    #[test]
    fn a_write_ends_with_push() {
        let mut way = Direction::default();
        assert_eq!(way.data(&segment(1, NONE), 100, 0, PAUSE).ended, None);
        let taken = way.data(&segment(101, Flags::PSH), 20, 1, PAUSE);
        assert_eq!((taken.before, taken.fresh), (None, 20));
        assert_eq!(bytes(taken.ended), Some((120, 2)));
        assert_eq!(way.end(), None);
    }

    #[test]
    fn a_write_ends_with_a_pause_or_a_gap() {
        let mut way = Direction::default();
        way.data(&segment(1, NONE), 100, 0, PAUSE);
        let taken = way.data(&segment(101, NONE), 100, PAUSE + 1, PAUSE);
        assert_eq!(bytes(taken.before), Some((100, 1)));
        let taken = way.data(&segment(301, NONE), 7, PAUSE + 1, PAUSE);
        assert_eq!(bytes(taken.before), Some((100, 1)));
        assert!(taken.gap);
        assert_eq!(bytes(way.end()), Some((7, 1)));
    }

    #[test]
    fn what_was_sent_before_is_not_fresh() {
        let mut way = Direction::default();
        way.without_data(&segment(0, Flags::SYN));
        way.data(&segment(1, NONE), 100, 0, PAUSE);
        assert_eq!(way.data(&segment(1, NONE), 100, 0, PAUSE).fresh, 0);
        assert_eq!(way.data(&segment(51, NONE), 100, 0, PAUSE).fresh, 50);
        // A keep-alive's byte in front of what is next.
        assert_eq!(way.data(&segment(150, NONE), 1, 0, PAUSE).fresh, 0);
    }

    #[test]
    fn what_comes_late_fills_the_gap_that_it_left() {
        let mut way = Direction::default();
        way.data(&segment(1, NONE), 100, 0, PAUSE);
        assert!(way.data(&segment(301, NONE), 100, 0, PAUSE).gap);
        assert_eq!(way.data(&segment(101, NONE), 100, 0, PAUSE).fresh, 100);
        assert_eq!(way.data(&segment(101, NONE), 200, 0, PAUSE).fresh, 100);
        assert_eq!(way.data(&segment(201, NONE), 100, 0, PAUSE).fresh, 0);
    }

    #[test]
    fn holes_of_a_reordered_burst_are_all_filled() {
        let mut way = Direction::default();
        way.without_data(&segment(0, Flags::SYN));
        let mut fresh = |piece: u32| {
            way.data(&segment(1 + 100 * piece, NONE), 100, 0, PAUSE)
                .fresh
        };
        for piece in [1, 3, 5, 7] {
            assert_eq!(fresh(piece), 100);
        }
        for piece in [2, 6, 0, 4] {
            assert_eq!((fresh(piece), fresh(piece)), (100, 0));
        }
    }

    #[test]
    fn holes_beyond_the_room_cost_the_smallest() {
        let mut way = Direction::default();
        way.without_data(&segment(0, Flags::SYN));
        // Passed over: five stretches of 30, 10, 20, 40 and 50 bytes.
        for at in [31, 51, 81, 131, 191] {
            way.data(&segment(at, NONE), 10, 0, PAUSE);
        }
        let all = way.data(&segment(1, NONE), 200, 0, PAUSE);
        assert_eq!(all.fresh, 30 + 20 + 40 + 50);
    }

    #[test]
    fn sequence_numbers_go_round() {
        let mut way = Direction::default();
        way.data(&segment(u32::MAX - 9, NONE), 10, 0, PAUSE);
        let taken = way.data(&segment(0, NONE), 10, 0, PAUSE);
        assert_eq!((taken.fresh, taken.gap), (10, false));
        assert_eq!(way.data(&segment(u32::MAX, NONE), 1, 0, PAUSE).fresh, 0);
    }
}
