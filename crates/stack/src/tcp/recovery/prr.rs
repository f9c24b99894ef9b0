//! Proportional rate reduction (RFC 9937): how much is sent while losses are repaired, so that the flight ends at ssthresh.
//!
//! It counts bytes only; what is lost and what is sent is [`super::scoreboard`]'s.

/// The state of a recovery (RFC 9937, 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prr {
    /// RecoverFS: bytes in flight when it began.
    flight: u32,
    /// prr_delivered.
    delivered: u32,
    /// prr_out.
    out: u32,
}

impl Prr {
    /// A recovery begins with so many bytes in flight that were not delivered before.
    pub(crate) fn begin(flight: u32) -> Self {
        Self {
            flight: flight.max(1),
            delivered: 0,
            out: 0,
        }
    }

    /// Bytes were sent, new or again.
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
    }

    /// The congestion window after an acknowledgment that has delivered `delivered` bytes, with `pipe` bytes in flight. It is
    /// safe when it acknowledges more than the one before and tells of no further loss.
    pub(crate) fn window(
        &mut self,
        delivered: u32,
        pipe: u32,
        ssthresh: u32,
        mss: u32,
        safe: bool,
    ) -> u32 {
        self.delivered = self.delivered.saturating_add(delivered);
        let may_send = if pipe > ssthresh {
            let share = u64::from(self.delivered) * u64::from(ssthresh);
            let target = share
                .div_ceil(u64::from(self.flight))
                .min(u64::from(u32::MAX)) as u32;
            target.saturating_sub(self.out)
        } else {
            // Conservative, or by slow start where it is safe.
            let more = self.delivered.saturating_sub(self.out).max(delivered);
            let more = more.saturating_add(if safe { mss } else { 0 });
            more.min(ssthresh - pipe)
        };
        // The first segment goes again at once. The RFC, which counts in bytes, leaves a share of a segment to be rounded up.
        let least = if self.out == 0 { mss } else { 0 };
        let may_send = may_send.max(least);
        pipe.saturating_add(may_send)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1_000;

    /// RFC 9937, 9, "Examples": one of twenty segments is lost and cwnd goes to 10 segments (beta 0.5): one is sent for two
    /// that are delivered, and it ends at ssthresh.
    #[test]
    fn flight_comes_down_to_the_threshold_in_proportion() {
        let (flight, ssthresh) = (20 * MSS, 10 * MSS);
        let mut prr = Prr::begin(flight);
        // The lost segment and those that were delivered do not count as in flight.
        let (mut pipe, mut sent) = (flight - MSS, 0);
        for _ in 0..19 {
            pipe -= MSS;
            let window = prr.window(MSS, pipe, ssthresh, MSS, false);
            let now = (window - pipe) / MSS * MSS;
            prr.sent(now);
            pipe += now;
            sent += now;
        }
        assert!((9 * MSS..=10 * MSS).contains(&sent), "{sent}");
        assert!(pipe.abs_diff(ssthresh) <= MSS, "{pipe}");
    }

    #[test]
    fn first_segment_goes_again_at_once() {
        let mut prr = Prr::begin(10 * MSS);
        assert_eq!(prr.window(0, 9 * MSS, 5 * MSS, MSS, false), 10 * MSS);
    }

    /// After heavy loss the flight is below the threshold: one segment for each delivered, two where that is safe.
    #[test]
    fn flight_below_the_threshold_grows_by_what_is_delivered() {
        let mut prr = Prr::begin(20 * MSS);
        assert_eq!(prr.window(MSS, 2 * MSS, 10 * MSS, MSS, false), 3 * MSS);
        prr.sent(MSS);
        assert_eq!(prr.window(MSS, 2 * MSS, 10 * MSS, MSS, true), 4 * MSS);
        prr.sent(2 * MSS);
        assert_eq!(prr.window(20 * MSS, 9 * MSS, 10 * MSS, MSS, true), 10 * MSS);
    }
}
