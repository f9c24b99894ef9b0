//! Runs of frames that are sacked and lie one behind the other in the send queue (RFC 6675, 2).
//!
//! Owns where each run begins and which frame is its last. A block that tells of more begins in a run, behind one, or fills the hole
//! between two: so its place is found in a tree, and what is sacked already is passed over in one step. A window of some ten thousand
//! segments with some hundred holes is never walked.
//!
//! It must never name a frame that has left the send queue: [`Runs::acknowledge`] comes with each acknowledgment that moves on. A frame
//! that is sacked may be missing in it, and is found on the way.

use crate::buffer::FrameId;
use alloc::collections::BTreeMap;
use tollgate_wire::SeqNumber;

/// A frame of the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRange {
    pub(super) start: SeqNumber,
    pub(super) end: SeqNumber,
    pub(super) id: FrameId,
}

/// Frames without a hole between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Behind the last byte, in bytes from the beginning.
    end: u64,
    /// The last frame.
    pub(super) last: FrameId,
}

/// All runs, by the bytes from the beginning until each. Numbers of 64 bits do not wrap.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    runs: BTreeMap<u64, Run>,
    /// The acknowledged end, and how many bytes from the beginning that is.
    acknowledged: (SeqNumber, u64),
}

impl Runs {
    /// None, with this acknowledged.
    pub(super) const fn new(una: SeqNumber) -> Self {
        Self {
            runs: BTreeMap::new(),
            // The first frame may begin before what is acknowledged.
            acknowledged: (una, 1 << 32),
        }
    }

    /// Bytes from the beginning until `seq`.
    fn bytes_until(&self, seq: SeqNumber) -> u64 {
        let (una, bytes) = self.acknowledged;
        bytes.saturating_add_signed(i64::from(seq.signed_distance(una)))
    }

    /// Forgets what is acknowledged.
    pub(super) fn acknowledge(&mut self, una: SeqNumber) {
        let bytes = self.bytes_until(una);
        self.acknowledged = (una, bytes);
        while let Some(first) = self.runs.first_entry()
            && first.get().end <= bytes
        {
            first.remove();
        }
    }

    /// The run that begins there, or is the last to begin before.
    pub(super) fn at_or_before(&self, seq: SeqNumber) -> Option<Run> {
        let until = self.bytes_until(seq);
        self.runs.range(..=until).next_back().map(|(_, run)| *run)
    }

    /// A frame is sacked. Returns the last frame of the run that it lies in by that.
    pub(super) fn add(&mut self, frame: FrameRange) -> Option<FrameId> {
        let (start, end) = (self.bytes_until(frame.start), self.bytes_until(frame.end));
        let mut run = Run {
            end,
            last: frame.id,
        };
        // The hole behind it may be filled.
        if let Some(next) = self.runs.remove(&end) {
            run = next;
        }
        match self.runs.range_mut(..=start).next_back() {
            Some((_, before)) if before.end > start => {
                // It was known.
                if run.end > before.end {
                    *before = run;
                }
                Some(before.last)
            }
            Some((_, before)) if before.end == start => {
                *before = run;
                Some(run.last)
            }
            _ => {
                self.runs.insert(start, run);
                Some(run.last)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Frames of ten bytes each.
    const LEN: u32 = 10;

    fn frame(first: SeqNumber, ids: &[FrameId], n: u32) -> FrameRange {
        let start = first + n * LEN;
        FrameRange {
            start,
            end: start + LEN,
            id: ids[n as usize],
        }
    }

    proptest! {
        /// In whatever order frames are sacked and acknowledged, each run is what a walk over all frames finds.
        #[test]
        fn runs_are_what_a_walk_finds(
            first: u32,
            steps in prop::collection::vec((any::<bool>(), 0u32..40), 1..80),
        ) {
            let first = SeqNumber(first);
            let mut pool = Pool::new(40, 2048);
            let ids: Vec<FrameId> = (0..40).filter_map(|_| pool.alloc()).collect();
            let id = |n: Option<u32>| n.map(|n| ids[n as usize]);
            let mut runs = Runs::new(first);
            let mut sacked = [false; 40];
            let mut acknowledged = 0;
            for (sack, n) in steps {
                let n = n.max(acknowledged);
                if sack {
                    sacked[n as usize] = true;
                    let last = (n..40).take_while(|n| sacked[*n as usize]).last();
                    prop_assert_eq!(runs.add(frame(first, &ids, n)), id(last));
                } else if n < acknowledged + 4 {
                    acknowledged = n;
                    runs.acknowledge(first + n * LEN);
                }
                for n in acknowledged..40 {
                    let begins = (acknowledged..=n).rev().find(|n| sacked[*n as usize]);
                    let last = begins.map(|n| (n..40).take_while(|n| sacked[*n as usize]).last());
                    let found = runs.at_or_before(first + n * LEN).map(|run| run.last);
                    prop_assert_eq!(found, id(last.flatten()));
                }
            }
            let ends: Vec<u64> = runs.runs.values().map(|run| run.end).collect();
            prop_assert!(runs.runs.keys().skip(1).zip(&ends).all(|(start, end)| end < start));
        }
    }
}
