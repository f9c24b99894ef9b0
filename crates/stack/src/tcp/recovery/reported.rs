//! Ranges that selective acknowledgments tell of (RFC 2018, 4; RFC 2883, 4).
//!
//! The newest range comes first, and a duplicate before all of them. Four ranges are kept, which is what a header holds. A range that
//! has fallen out is told of anew when a segment makes it grow. It must never name a byte that has been dropped.

use crate::stack::{Active, Stack};
use crate::tcp::deadline::Deadline;
use crate::tcp::slow::reassembly::Kept;
use crate::tcp::tcb::{flag, rare};
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{
    Flags, Header, MAX_SACK_BLOCKS, Options, SackBlock, SackBlocks, Timestamps,
};

/// Ranges out of order, the newest first, and the last duplicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reported {
    ranges: [Option<SackBlock>; MAX_SACK_BLOCKS],
    duplicate: Option<SackBlock>,
    /// A range has fallen out of the others since there was none.
    has_forgotten: bool,
}

fn touches(a: SackBlock, b: SackBlock) -> bool {
    a.start.at_or_before(b.end) && b.start.at_or_before(a.end)
}

fn holds(outer: SackBlock, inner: SackBlock) -> bool {
    outer.start.at_or_before(inner.start) && inner.end.at_or_before(outer.end)
}

impl Reported {
    /// A segment that is kept out of order has arrived. It is a duplicate where all of it was there.
    pub(crate) fn arrive(&mut self, new: SackBlock) {
        let held = self.ranges.iter().flatten().any(|&range| holds(range, new));
        if held {
            self.duplicate = Some(new);
        }
        let mut whole = new;
        let mut others = [None; MAX_SACK_BLOCKS];
        let mut count = 1;
        for &range in self.ranges.iter().flatten() {
            if touches(range, whole) {
                whole.start = whole.start.earliest(range.start);
                whole.end = whole.end.latest(range.end);
            } else if let Some(place) = others.get_mut(count) {
                *place = Some(range);
                count += 1;
            } else {
                self.has_forgotten = true;
            }
        }
        others[0] = Some(whole);
        self.ranges = others;
    }

    /// Bytes have arrived that were there already, in order.
    pub(crate) fn duplicate(&mut self, range: SackBlock) {
        self.duplicate = Some(range);
    }

    /// Everything before `next` is in order.
    pub(crate) fn deliver_up_to(&mut self, next: SeqNumber) {
        self.keep(|range| next.before(range.end).then_some(range));
    }

    /// Forgets what lies at or behind `from`, which was dropped again (RFC 2018, 8).
    pub(crate) fn drop_from(&mut self, from: SeqNumber) {
        self.keep(|range| {
            let end = range.end.earliest(from);
            range
                .start
                .before(end)
                .then_some(SackBlock { end, ..range })
        });
    }

    fn keep(&mut self, keep: impl Fn(SackBlock) -> Option<SackBlock>) {
        let mut kept = [None; MAX_SACK_BLOCKS];
        let ranges = self
            .ranges
            .iter()
            .flatten()
            .filter_map(|&range| keep(range));
        for (place, range) in kept.iter_mut().zip(ranges) {
            *place = Some(range);
        }
        self.ranges = kept;
        self.has_forgotten &= kept[0].is_some();
    }

    /// Tells whether there is nothing to tell of.
    pub(crate) fn is_empty(&self) -> bool {
        self.duplicate.is_none() && self.ranges[0].is_none()
    }

    /// Ranges, the newest first.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = SackBlock> {
        self.ranges.iter().flatten().copied()
    }

    /// The blocks of the next acknowledgment. A duplicate is told of once (RFC 2883, 4).
    pub(crate) fn take_blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        let duplicate = self.duplicate.take();
        for block in duplicate.into_iter().chain(self.ranges()) {
            blocks.push(block);
        }
        blocks
    }
}

impl Stack {
    /// Bytes from `start` up to `rcv_nxt` have arrived again, with others behind them.
    pub(in crate::tcp) fn report_duplicate(&mut self, index: usize, start: SeqNumber) {
        if self.tcbs[index].is_rare(rare::SACK_PERMITTED) {
            let (tcb, state) = self.recovery_of(index);
            let end = tcb.rcv_nxt;
            state.reported.duplicate(SackBlock { start, end });
            tcb.set_sack_due(true);
        }
    }

    /// Tells whether ranges are there that are not told of.
    pub(in crate::tcp) fn has_forgotten_ranges(&self, index: usize) -> bool {
        let state = self.recovery(index);
        state.is_some_and(|state| state.reported.has_forgotten)
    }

    /// Bytes have arrived out of order. With others that were there they make the range `whole`, as far as that is known.
    pub(in crate::tcp) fn report_arrival(
        &mut self,
        index: usize,
        (range, whole): (SackBlock, SackBlock),
        kept: Kept,
    ) {
        if !self.tcbs[index].is_rare(rare::SACK_PERMITTED) {
            return;
        }
        let (tcb, state) = self.recovery_of(index);
        match kept {
            Kept::All => state.reported.arrive(whole),
            Kept::Again => {
                state.reported.arrive(whole);
                state.reported.duplicate(range);
            }
            Kept::ButFrom(from) => {
                state.reported.arrive(whole);
                state.reported.drop_from(from);
            }
            Kept::Nothing => {}
        }
        if !state.reported.is_empty() {
            tcb.set_sack_due(true);
        }
    }

    /// Forgets what is in order by now, which need not be told of.
    pub(in crate::tcp) fn report_delivery(&mut self, index: usize) {
        if !self.tcbs[index].is_rare(rare::SACK_DUE) {
            return;
        }
        let (tcb, state) = self.recovery_of(index);
        if tcb.ooo_head.is_none() {
            state.reported.drop_from(tcb.rcv_nxt);
        }
        state.reported.deliver_up_to(tcb.rcv_nxt);
        if state.reported.is_empty() {
            tcb.set_sack_due(false);
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Sends an acknowledgment that tells of ranges, or of counters of marks (RFC 9768, 3.2.3). There is a frame and room for it.
    #[cold]
    pub(in crate::tcp) fn acknowledge_selectively(&mut self, index: usize) {
        let mut sack = None;
        if self.stack.tcbs[index].is_rare(rare::SACK_DUE) {
            let (tcb, state) = self.stack.recovery_of(index);
            sack = Some(state.reported.take_blocks());
            if state.reported.is_empty() {
                tcb.set_sack_due(false);
            }
        }
        let ranges = sack.map_or(0, |blocks| blocks.as_slice().len());
        let accurate_ecn = match self.stack.tcbs[index].is_rare(rare::ACCURATE_ECN) {
            true => self.stack.ecn_option(index, ranges),
            false => None,
        };
        let tcb = &mut self.stack.tcbs[index];
        let window = tcb.offer_window();
        tcb.unacked = 0;
        tcb.ack_deadline = Deadline::NONE;
        let header = Header {
            source_port: tcb.local_port(),
            destination_port: tcb.remote_port(),
            seq: tcb.acceptable_sequence(),
            ack: tcb.rcv_nxt,
            header_len: 0,
            flags: Flags::ACK,
            window,
            urgent: 0,
            accurate_ecn: false,
            options: Options {
                timestamps: tcb.is(flag::TIMESTAMPS).then(|| Timestamps {
                    value: self.now.tick().0.wrapping_add(tcb.ts_offset),
                    echo: tcb.ts_recent,
                }),
                sack,
                accurate_ecn,
                ..Options::default()
            },
        };
        let way = self.way_of(index);
        self.send_header(way, &header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn block(start: u32, end: u32) -> SackBlock {
        SackBlock {
            start: SeqNumber(start),
            end: SeqNumber(end),
        }
    }

    fn blocks(reported: &mut Reported) -> Vec<(u32, u32)> {
        let blocks = reported.take_blocks();
        let blocks = blocks.as_slice().iter();
        blocks.map(|block| (block.start.0, block.end.0)).collect()
    }

    /// The example of RFC 2018, 4, case 3: every other segment is lost, then the fourth and the second arrive.
    #[test]
    fn newest_range_is_first_and_grows_as_holes_close() {
        let mut reported = Reported::default();
        for start in [5_500, 6_500, 7_500, 8_500] {
            reported.arrive(block(start, start + 500));
        }
        let all = [
            (8_500, 9_000),
            (7_500, 8_000),
            (6_500, 7_000),
            (5_500, 6_000),
        ];
        assert_eq!(blocks(&mut reported), all);
        reported.arrive(block(7_000, 7_500));
        let merged = [(6_500, 8_000), (8_500, 9_000), (5_500, 6_000)];
        assert_eq!(blocks(&mut reported), merged);
        reported.deliver_up_to(SeqNumber(6_000));
        assert_eq!(blocks(&mut reported), merged[..2]);
    }

    /// RFC 2883, 4.2.1 and 4.2.2: below the acknowledgment, and within a range, which then follows it.
    #[test]
    fn duplicates_are_told_of_first_and_once() {
        let mut reported = Reported::default();
        reported.duplicate(block(3_000, 3_500));
        assert_eq!(blocks(&mut reported), [(3_000, 3_500)]);
        assert!(reported.is_empty());
        reported.arrive(block(4_500, 5_000));
        reported.arrive(block(5_500, 6_500));
        reported.arrive(block(4_500, 5_000));
        let told = [(4_500, 5_000), (4_500, 5_000), (5_500, 6_500)];
        assert_eq!(blocks(&mut reported), told);
        assert_eq!(blocks(&mut reported), told[1..]);
    }

    #[test]
    fn what_was_dropped_is_not_told_of() {
        let mut reported = Reported::default();
        reported.arrive(block(100, 200));
        reported.arrive(block(300, 400));
        reported.drop_from(SeqNumber(350));
        assert_eq!(blocks(&mut reported), [(300, 350), (100, 200)]);
        reported.drop_from(SeqNumber(300));
        assert_eq!(blocks(&mut reported), [(100, 200)]);
    }

    proptest! {
        /// Every byte that is told of has arrived; the first block holds what came last; blocks do not touch.
        #[test]
        fn only_what_has_arrived_is_told_of(
            first: u32,
            arrivals in prop::collection::vec((1u32..60, 1u32..12), 1..40),
        ) {
            let mut reported = Reported::default();
            let mut there = [false; 80];
            for (at, len) in arrivals {
                let range = (at as usize)..(at + len) as usize;
                let known = there[range.clone()].iter().all(|&byte| byte);
                there[range].fill(true);
                let base = SeqNumber(first);
                let new = SackBlock { start: base + at, end: base + (at + len) };
                reported.arrive(new);
                let told = reported.take_blocks();
                let told = told.as_slice();
                let told = match told {
                    [duplicate, rest @ ..] if *duplicate == new && rest.first().is_some_and(|r| holds(*r, new)) => {
                        prop_assert!(known);
                        rest
                    }
                    all => all,
                };
                prop_assert!(holds(told[0], new));
                for (n, block) in told.iter().enumerate() {
                    let (from, to) = (block.start - base, block.end - base);
                    prop_assert!(there[from as usize..to as usize].iter().all(|&byte| byte));
                    prop_assert!(told[..n].iter().all(|other| !touches(*other, *block)));
                }
            }
        }
    }
}
