//! The retransmission timeout (RFC 6298), from round trips measured in nanoseconds.

use crate::likely::unlikely;
use crate::time::Tick;
use core::time::Duration;

/// RFC 6298, 2.1: the timeout before any round trip is measured.
pub(crate) const INITIAL_RTO: Duration = Duration::from_secs(1);

/// Smoothed round trip time and its variation, nanoseconds, at most 4.29 s; longer round trips count as that and leave
/// the rest to the back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rtt {
    smoothed: u32,
    variation: u32,
}

impl Rtt {
    /// No round trip was measured yet.
    pub(crate) const UNKNOWN: Self = Self {
        smoothed: 0,
        variation: 0,
    };

    /// SRTT, nanoseconds; zero when none was measured.
    pub(crate) const fn smoothed_ns(self) -> u32 {
        self.smoothed
    }

    /// RTTVAR, nanoseconds.
    pub(crate) const fn variation_ns(self) -> u32 {
        self.variation
    }

    /// Takes in a measurement (RFC 6298, 2.2 and 2.3).
    #[inline(always)]
    pub(crate) fn update(&mut self, measured_ns: u64) {
        // A measurement is at least 1 ns, so that "measured" and "unknown" differ.
        let mut measured = measured_ns as u32 | 1;
        if unlikely(measured_ns > u64::from(u32::MAX / 2)) {
            measured = u32::MAX / 2;
        }
        if unlikely(self.smoothed == 0) {
            *self = Self {
                smoothed: measured,
                variation: measured / 2,
            };
            return;
        }
        // RTTVAR <- RTTVAR + (|SRTT - R'| - RTTVAR) / 4; SRTT <- SRTT + (R' - SRTT) / 8
        let error = measured.wrapping_sub(self.smoothed) as i32;
        let spread = error.unsigned_abs().wrapping_sub(self.variation) as i32;
        self.variation = self.variation.wrapping_add((spread >> 2) as u32);
        self.smoothed = self.smoothed.wrapping_add((error >> 3) as u32);
    }

    /// RTO in ticks: SRTT + max(G, 4 RTTVAR) (RFC 6298, 2.3), at least `min`.
    #[inline(always)]
    pub(crate) fn rto(self, min: u32) -> u32 {
        let nanos = u64::from(self.smoothed) + 4 * u64::from(self.variation);
        // One tick more: the clock granularity G.
        ((nanos >> Tick::SHIFT) as u32 + 1).max(min)
    }
}

/// RTO doubled `backoff` times (RFC 6298, 5.5), at most `max` ticks.
pub(crate) fn backed_off(rto: u32, backoff: u8, max: u32) -> u32 {
    (u64::from(rto) << backoff.min(31)).min(u64::from(max)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_measurement_sets_srtt_and_half_of_it_as_variation() {
        // RFC 6298, 2.2: "SRTT <- R; RTTVAR <- R/2; RTO <- SRTT + max (G, K*RTTVAR)"
        let mut rtt = Rtt::UNKNOWN;
        rtt.update(100_000_001);
        assert_eq!(rtt.smoothed_ns(), 100_000_001);
        assert_eq!(rtt.variation_ns(), 50_000_000);
        assert_eq!(rtt.rto(0), (300_000_000u32 >> 20) + 1);
    }

    #[test]
    fn later_measurements_are_smoothed() {
        // RFC 6298, 2.3, alpha = 1/8, beta = 1/4.
        let mut rtt = Rtt::UNKNOWN;
        rtt.update(80_001);
        rtt.update(160_001);
        assert_eq!(rtt.variation_ns(), 30_000 + 20_000);
        assert_eq!(rtt.smoothed_ns(), 70_001 + 20_000);
    }

    #[test]
    fn the_minimum_and_the_back_off_hold() {
        let mut rtt = Rtt::UNKNOWN;
        rtt.update(1);
        assert_eq!(rtt.rto(191), 191);
        assert_eq!(backed_off(191, 0, 100_000), 191);
        assert_eq!(backed_off(191, 3, 100_000), 191 * 8);
        assert_eq!(backed_off(191, 40, 57_000), 57_000);
    }

    #[test]
    fn very_long_round_trips_saturate() {
        let mut rtt = Rtt::UNKNOWN;
        rtt.update(u64::MAX);
        rtt.update(u64::MAX);
        assert_eq!(rtt.smoothed_ns(), u32::MAX / 2);
        rtt.update(1);
        assert!(rtt.smoothed_ns() < u32::MAX / 2 && rtt.variation_ns() < u32::MAX / 2);
    }
}
