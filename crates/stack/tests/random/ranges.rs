//! Bytes that a peer holds out of order, and the blocks that it tells of them (RFC 2018, 4; RFC 2883, 4).
//!
//! Numbers are relative, as the peers count them.

use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{SackBlock, SackBlocks};

/// Ranges from their first byte to the one behind the last.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// The newest first; none touches another.
    held: Vec<(u32, u32)>,
    /// Ranges that have come twice, and are not told of yet.
    duplicate: Option<(u32, u32)>,
}

impl Ranges {
    /// Takes in bytes, of which everything before `got` was in order. Returns the end of what is in order now.
    pub fn arrive(&mut self, got: u32, from: u32, to: u32) -> u32 {
        let is_held = |&(start, end): &(u32, u32)| start <= from && to <= end;
        if to <= got || self.held.iter().any(is_held) {
            self.duplicate = Some((from, to));
        } else if from < got {
            self.duplicate = Some((from, got));
        }
        let mut whole = (from, to);
        self.held.retain(|&(start, end)| {
            let touches = start <= whole.1 && whole.0 <= end;
            if touches {
                whole = (whole.0.min(start), whole.1.max(end));
            }
            !touches
        });
        if whole.0 <= got {
            return got.max(whole.1);
        }
        self.held.insert(0, whole);
        got
    }

    /// Tells whether nothing is out of order.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Tells whether bytes have come twice of which nothing was told yet.
    pub fn has_duplicate(&self) -> bool {
        self.duplicate.is_some()
    }

    /// Drops what is out of order (RFC 2018, 8: discouraged, and allowed before it is acknowledged).
    pub fn renege(&mut self) {
        self.held.clear();
    }

    /// The blocks of an acknowledgment whose sequence numbers count from `first`: a duplicate, once, then the ranges.
    pub fn blocks(&mut self, first: u32) -> Option<SackBlocks> {
        let mut blocks = SackBlocks::NONE;
        let number = |at: u32| SeqNumber(first.wrapping_add(at));
        for &(start, end) in self.duplicate.take().iter().chain(&self.held) {
            blocks.push(SackBlock {
                start: number(start),
                end: number(end),
            });
        }
        (!blocks.as_slice().is_empty()).then_some(blocks)
    }
}
