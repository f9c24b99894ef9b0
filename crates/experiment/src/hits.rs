//! Header prediction as the stack counts it: which share of the segments was predicted, and the reasons of the others.
//!
//! It runs sessions that nobody times and subtracts their counters, so its numbers are exact. It must never count what opened a
//! session.

use tollgate_run::{Cell, Measured};
use tollgate_workload::counters::{Counters, Miss};
use tollgate_workload::{Path, Spec};

/// Segments that arrived at the ends of a session, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    /// Predicted as part of a transfer.
    pub(crate) predicted: u64,
    /// Predicted to open or close a connection.
    pub(crate) handshakes: u64,
    /// Not predicted, by reason.
    pub(crate) misses: [u64; Miss::COUNT],
    /// Served by the one-entry cache of connections.
    pub(crate) cached: u64,
    /// Sent again.
    pub(crate) retransmits: u64,
}

impl Hits {
    /// Runs so many iterations of a session and counts them; those before the first slice are not counted.
    ///
    /// # Errors
    /// What the path gives.
    pub(crate) fn count(
        path: &dyn Path,
        spec: &Spec,
        iterations: u64,
    ) -> Result<Self, tollgate_workload::Error> {
        let mut session = path.open(spec)?;
        // Windows open, and the first round trips are measured.
        session.run(WARM_UP, &mut session.new_samples())?;
        let before = session.counters();
        session.run(iterations, &mut session.new_samples())?;
        let mut all = Self::default();
        for (before, after) in before.iter().zip(&session.counters()) {
            all.add(before, after);
        }
        Ok(all)
    }

    fn add(&mut self, before: &Counters, after: &Counters) {
        self.predicted += after.predicted - before.predicted;
        self.handshakes += after.predicted_handshakes - before.predicted_handshakes;
        for (sum, (before, after)) in self
            .misses
            .iter_mut()
            .zip(before.misses.iter().zip(&after.misses))
        {
            *sum += after - before;
        }
        self.cached += after.cache_hits() - before.cache_hits();
        self.retransmits += after.retransmits - before.retransmits;
    }

    /// All segments that arrived.
    pub(crate) fn segments(&self) -> u64 {
        self.predicted + self.handshakes + self.misses.iter().sum::<u64>()
    }

    /// So many of the segments, in hundredths; exact.
    pub(crate) fn share(&self, part: u64) -> Cell {
        let segments = self.segments();
        if segments == 0 {
            return Cell::NotAvailable {
                reason: "no segment arrived".to_owned(),
            };
        }
        let value = 100.0 * part as f64 / segments as f64;
        Cell::Value(Measured {
            value,
            n: Some(segments),
            ..Measured::default()
        })
    }
}

/// Iterations before counting begins.
const WARM_UP: u64 = 64;
