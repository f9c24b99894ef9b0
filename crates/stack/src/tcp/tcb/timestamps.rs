//! Timestamps of a TCB (RFC 7323): how old the peer's last one is, and how old ours that it echoes.

use super::{Tcb, flag, rare};
use crate::time::Tick;

/// Ticks in 24 days: a clock of 1 ms has gone half round after 24.8, and so has the tick after 26.
const OUTDATED_AFTER: u32 = ((24 * 86_400 * 1_000_000_000u64) >> Tick::SHIFT) as u32;

impl Tcb {
    /// Looks whether TS.Recent has moved since the last look, which is at most [`LOOK`] ago. Where it has stood still for
    /// 24 days it is invalidated: the peer's clock may soon have gone half round, and everything that it sends would be
    /// taken for old (RFC 7323, 5.5).
    pub(crate) fn check_ts_recent(&mut self, now: Tick) {
        if self.ts_recent != self.ts_seen {
            self.ts_seen = self.ts_recent;
            self.ts_seen_at = now;
        } else if self.is(flag::TIMESTAMPS) && now.since(self.ts_seen_at) >= OUTDATED_AFTER {
            self.rare |= rare::OUTDATED;
            self.predict();
        }
    }

    /// Age of the timestamp that the peer echoes, to half a tick, nanoseconds (RFC 7323, 4.1). Nothing for one that
    /// was never sent, or too long ago to tell.
    pub(crate) fn age_of(&self, echo: u32, now: Tick) -> Option<u64> {
        const HALF: u64 = 1 << (Tick::SHIFT - 1);
        let age = now.0.wrapping_add(self.ts_offset).wrapping_sub(echo);
        (age < 1 << 20).then(|| (u64::from(age) << Tick::SHIFT) + HALF)
    }

    /// A segment that is acceptable has brought a timestamp.
    pub(crate) fn take_timestamp(&mut self, value: u32, now: Tick) {
        self.ts_recent = value;
        if self.is_rare(rare::OUTDATED) {
            self.rare &= !rare::OUTDATED;
            self.ts_seen_at = now;
            self.predict();
        }
    }
}
