//! Segments that an end of Tollgate's stack has taken in: how many were predicted, and the reasons for which others were not.
//!
//! It owns what a session tells of its stacks' counters, also from a second process. It must never be asked within a slice.

use tollgate_stack::counters::{Counters, HandshakeMiss, Miss};

use crate::slice::NUMBERS;

/// Predicted segments of transfers, and of handshakes; hits of the cache and retransmissions; then the misses by reason, and those
/// of handshakes.
pub(crate) const WORDS: usize = MISSES + Miss::COUNT + HandshakeMiss::COUNT;
/// The place of the first miss.
const MISSES: usize = 4;

const _: () = assert!(WORDS <= NUMBERS, "a second process has room for its counts");

/// Segments by what input prediction made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputCounts([u64; WORDS]);

impl Default for InputCounts {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl InputCounts {
    /// The counts of a stack since it was made.
    pub(crate) fn of(counters: &Counters) -> Self {
        let own = [
            counters.predicted,
            counters.predicted_handshakes,
            counters.cache_hits(),
            counters.retransmits,
        ];
        let all = own.iter().chain(&counters.misses);
        Self::from_words(all.chain(&counters.handshake_misses).copied())
    }

    /// The counts as numbers, for another process.
    pub(crate) const fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// The counts that another process has given as numbers; what it lacks is zero.
    pub(crate) fn from_words(words: impl IntoIterator<Item = u64>) -> Self {
        let mut counts = Self::default();
        for (to, from) in counts.0.iter_mut().zip(words) {
            *to = from;
        }
        counts
    }

    /// The segments that came after those of `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.0.iter().zip(&earlier.0);
        Self::from_words(pairs.map(|(now, then)| now.saturating_sub(*then)))
    }

    /// Adds other segments.
    pub fn add(&mut self, other: &Self) {
        for (own, more) in self.0.iter_mut().zip(&other.0) {
            *own += more;
        }
    }

    /// Segments that were predicted as part of a transfer.
    #[must_use]
    pub const fn predicted(&self) -> u64 {
        self.0[0]
    }

    /// Segments that were predicted to open or close their connection.
    #[must_use]
    pub const fn predicted_handshakes(&self) -> u64 {
        self.0[1]
    }

    /// Segments whose connection stood in the one-entry cache.
    #[must_use]
    pub const fn cache_hits(&self) -> u64 {
        self.0[2]
    }

    /// Segments that this end has sent again.
    #[must_use]
    pub const fn retransmits(&self) -> u64 {
        self.0[3]
    }

    /// Segments that were not predicted for this reason.
    #[must_use]
    pub const fn misses(&self, reason: Miss) -> u64 {
        self.0[MISSES + reason as usize]
    }

    /// Segments among the misses that were not predicted to open or close their connection either, for this reason.
    #[must_use]
    pub const fn handshake_misses(&self, reason: HandshakeMiss) -> u64 {
        self.0[MISSES + Miss::COUNT + reason as usize]
    }

    /// All segments that arrived.
    #[must_use]
    pub fn segments(&self) -> u64 {
        let misses: u64 = Miss::ALL.iter().map(|reason| self.misses(*reason)).sum();
        self.predicted() + self.predicted_handshakes() + misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(set: impl FnOnce(&mut Counters)) -> Counters {
        let mut counters = Counters::default();
        set(&mut counters);
        counters
    }

    #[test]
    fn counts_survive_the_way_from_another_process() {
        let counters = counters(|counters| {
            counters.predicted = 90;
            counters.predicted_handshakes = 3;
            counters.retransmits = 1;
            counters.misses[Miss::ZeroWindow as usize] = 5;
            counters.misses[Miss::Flags as usize] = 2;
            counters.handshake_misses[HandshakeMiss::Checksum as usize] = 1;
        });
        let counts = InputCounts::of(&counters);
        assert_eq!(InputCounts::from_words(*counts.words()), counts);
        assert_eq!(counts.segments(), 100);
        assert_eq!(counts.cache_hits(), counters.cache_hits());
        assert_eq!(counts.retransmits(), 1);
        assert_eq!(counts.misses(Miss::ZeroWindow), 5);
        assert_eq!(counts.handshake_misses(HandshakeMiss::Checksum), 1);
    }

    #[test]
    fn counts_of_a_slice_are_those_after_the_ones_before_it() {
        let counts = |predicted| InputCounts::of(&counters(|all| all.predicted = predicted));
        let mut sum = counts(10).since(&counts(4));
        sum.add(&counts(1));
        assert_eq!(sum.predicted(), 7);
    }
}
