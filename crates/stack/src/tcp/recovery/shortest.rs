//! The shortest round trip of a connection (RFC 8985, 6.2, step 1): "a windowed min-filtered estimate", so that a path may become longer.
//!
//! Owns the window. It is kept with the connection's congestion controller, which sees round trips while nothing is lost; while marks
//! stand [`super::rack`] adds what it sees. It must never read a clock.

/// Half of the time for which Linux keeps the shortest round trip (`tcp_min_rtt_wlen`, 300 s), nanoseconds.
const PERIOD_NS: u64 = 150_000_000_000;

/// The shortest round trip of the last [`PERIOD_NS`] to twice that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortest {
    /// Of this period and of the one before, nanoseconds; `u64::MAX` where there was none.
    periods: [u64; 2],
    /// When this period began, nanoseconds.
    since_ns: u64,
}

impl Shortest {
    /// Nothing was timed yet.
    pub(crate) const UNKNOWN: Self = Self {
        periods: [u64::MAX; 2],
        since_ns: 0,
    };

    /// The shortest round trip, nanoseconds, unless none was taken in.
    pub(crate) fn ns(&self) -> Option<u64> {
        let [this, before] = self.periods;
        Some(this.min(before)).filter(|&ns| ns != u64::MAX)
    }

    /// Takes in a round trip.
    pub(crate) fn take(&mut self, took: u64, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.since_ns);
        if elapsed >= PERIOD_NS {
            let before = if elapsed < 2 * PERIOD_NS {
                self.periods[0]
            } else {
                u64::MAX
            };
            self.periods = [u64::MAX, before];
            self.since_ns = now_ns;
        }
        self.periods[0] = self.periods[0].min(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_path_may_become_longer() {
        let mut shortest = Shortest::UNKNOWN;
        assert_eq!(shortest.ns(), None);
        let mut at = 1_000 * PERIOD_NS;
        let mut take = |took, later| {
            at += later;
            shortest.take(took, at);
            shortest.ns()
        };
        assert_eq!(take(MS, 0), Some(MS));
        assert_eq!(take(100 * MS, PERIOD_NS), Some(MS));
        assert_eq!(take(100 * MS, PERIOD_NS), Some(100 * MS));
        assert_eq!(take(30 * MS, PERIOD_NS / 2), Some(30 * MS));
        // Nothing was looked at for long.
        assert_eq!(take(200 * MS, 9 * PERIOD_NS), Some(200 * MS));
    }
}
