//! Counts of what passed, as the programs keep them. This module must never decide what is sampled.

use crate::pace::Passed;

/// Tallies since the beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies {
    pub(super) sent: u64,
    pub(super) arrived: u64,
    pub(super) samples: u64,
    pub(super) skipped: u64,
    /// Messages of each processor.
    pub(super) messages: Vec<u64>,
}

impl Tallies {
    /// Messages that passed since `before`.
    pub(super) fn since(&self, before: &Self) -> Passed {
        let messages = self.messages.iter().zip(&before.messages);
        Passed {
            candidates: self.sent + self.arrived - before.sent - before.arrived,
            busiest: messages
                .map(|(now, before)| now - before)
                .max()
                .unwrap_or(0),
            samples: self.samples - before.samples,
            skipped: self.skipped - before.skipped,
        }
    }
}
