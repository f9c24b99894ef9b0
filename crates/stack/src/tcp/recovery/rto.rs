//! The retransmission timeout (RFC 6298), from round trips measured in nanoseconds.

use crate::time::{Instant, Tick};
use core::hint::cold_path;
use core::time::Duration;

/// RFC 6298, 2.1: the timeout before any round trip is measured.
pub(crate) const INITIAL_RTO: Duration = Duration::from_secs(1);
/// The highest floor under the variation: with it the longest timeout fits the field that keeps it.
pub(crate) const HIGHEST_FLOOR: Duration = Duration::from_secs(50);

/// Nanoseconds of the unit in which round trips are kept, as a power of two: 8 ns.
const UNIT_SHIFT: u32 = 3;
/// The longest round trip that is told from longer ones, in units: 12 s. A longer one makes the timeout the largest, 60 s
/// (RFC 6298, 2.5).
const LONGEST: u32 = 12 * (1_000_000_000 >> UNIT_SHIFT);

/// Smoothed round trip time and its variation, in units of 8 ns. A round trip below that counts as not measured, and its
/// timeout is the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rtt {
    smoothed: u32,
    /// While `smoothed` is zero: when the SYN was sent that is being timed, modulo 34 s, or zero.
    variation: u32,
}

/// The floor under the variation that counts for the timeout, in units of 8 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor(u32);

impl Floor {
    /// With which the variation's share of the timeout is at least `duration`, itself at most [`HIGHEST_FLOOR`].
    pub(crate) fn new(duration: Duration) -> Self {
        Self((duration.min(HIGHEST_FLOOR).as_nanos() >> UNIT_SHIFT).div_ceil(4) as u32)
    }
}

impl Rtt {
    /// No round trip was measured yet.
    pub(crate) const UNKNOWN: Self = Self {
        smoothed: 0,
        variation: 0,
    };

    /// A SYN is sent, whose round trip is the first one.
    #[inline(always)]
    pub(crate) const fn of_syn(now: Instant) -> Self {
        Self {
            smoothed: 0,
            variation: (now.as_nanos() >> UNIT_SHIFT) as u32 | 1,
        }
    }

    /// The SYN is acknowledged, which was sent once: its round trip is taken in if it is being timed.
    #[inline(always)]
    pub(crate) fn syn_acknowledged(&mut self, now: Instant) {
        if self.smoothed == 0 && self.variation != 0 {
            let units = ((now.as_nanos() >> UNIT_SHIFT) as u32).wrapping_sub(self.variation & !1);
            *self = Self::UNKNOWN;
            // At least one unit, so that it is known.
            self.update(u64::from(units | 1) << UNIT_SHIFT);
        }
    }

    /// Tells whether a round trip was measured.
    pub(crate) const fn is_known(self) -> bool {
        self.smoothed != 0
    }

    /// SRTT, nanoseconds; zero when none was measured.
    pub(crate) const fn smoothed_ns(self) -> u64 {
        (self.smoothed as u64) << UNIT_SHIFT
    }

    /// RTTVAR, nanoseconds; zero when no round trip was measured.
    pub(crate) const fn variation_ns(self) -> u64 {
        if self.is_known() {
            (self.variation as u64) << UNIT_SHIFT
        } else {
            0
        }
    }

    /// Takes in a measurement (RFC 6298, 2.2 and 2.3).
    #[inline(always)]
    pub(crate) fn update(&mut self, measured_ns: u64) {
        let units = measured_ns >> UNIT_SHIFT;
        let mut measured = units as u32;
        if units > u64::from(LONGEST) {
            cold_path();
            // On a path that takes so long the timeout is the largest; on others this is one sample among many.
            if self.smoothed == 0 || self.smoothed > LONGEST / 2 {
                *self = Self {
                    smoothed: LONGEST,
                    variation: LONGEST,
                };
                return;
            }
            measured = LONGEST;
        }
        if self.smoothed == 0 {
            cold_path();
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

    /// PTO in ticks while more than one segment is in flight: 2 SRTT, or a second where it is not known (RFC 8985, 7.2). One tick more,
    /// since the present one has begun.
    #[inline(always)]
    pub(crate) const fn probe_timeout(self) -> u32 {
        const TICK: u32 = Tick::SHIFT - UNIT_SHIFT;
        // What takes less than a unit is not known, and on such a path a tick is many round trips.
        (self.smoothed >> (TICK - 1)) + 1
    }

    /// RTO in ticks, at most 62 s: SRTT + max(G, 4 RTTVAR) (RFC 6298, 2.3), where G is `floor`. On an even path the
    /// variation goes to zero, and a delayed acknowledgment, which may take 0.5 s, would be a timeout.
    #[inline(always)]
    pub(crate) fn rto(self, floor: Floor) -> u16 {
        const TICK: u32 = Tick::SHIFT - UNIT_SHIFT;
        // One tick more, since the present one has begun.
        let units =
            u64::from(self.smoothed) + 4 * u64::from(self.variation.max(floor.0)) + (1 << TICK);
        (units >> TICK) as u16
    }
}

/// RTO doubled `backoff` times (RFC 6298, 5.5), at most `max` ticks.
pub(crate) fn backed_off(rto: u16, backoff: u8, max: u32) -> u32 {
    (u64::from(rto) << backoff.min(31)).min(u64::from(max)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_FLOOR: Floor = Floor(0);

    #[test]
    fn first_measurement_sets_srtt_and_half_of_it_as_variation() {
        // RFC 6298, 2.2: "SRTT <- R; RTTVAR <- R/2; RTO <- SRTT + max (G, K*RTTVAR)"
        let mut rtt = Rtt::UNKNOWN;
        rtt.update(100_000_008);
        assert_eq!(rtt.smoothed_ns(), 100_000_008);
        assert_eq!(rtt.variation_ns(), 50_000_000);
        assert_eq!(rtt.rto(NO_FLOOR), (300_000_000u32 >> 20) as u16 + 1);
    }

    #[test]
    fn later_measurements_are_smoothed() {
        // RFC 6298, 2.3, alpha = 1/8, beta = 1/4.
        let mut rtt = Rtt::UNKNOWN;
        rtt.update(80_008);
        rtt.update(160_008);
        assert_eq!(rtt.variation_ns(), 30_000 + 20_000);
        assert_eq!(rtt.smoothed_ns(), 70_008 + 20_000);
    }

    #[test]
    fn floor_and_back_off_hold() {
        let floor = Floor::new(Duration::from_millis(200));
        let mut rtt = Rtt::UNKNOWN;
        rtt.update(1);
        assert_eq!(rtt.rto(floor), 191);
        assert_eq!(backed_off(191, 0, 100_000), 191);
        assert_eq!(backed_off(191, 3, 100_000), 191 * 8);
        assert_eq!(backed_off(191, 40, 57_000), 57_000);
    }

    #[test]
    fn floor_is_under_the_variation_and_not_under_the_timeout() {
        let floor = Floor::new(Duration::from_millis(200));
        let mut rtt = Rtt::UNKNOWN;
        for _ in 0..100 {
            rtt.update(300_000_000);
        }
        assert!(rtt.rto(floor) >= (500_000_000u32 >> 20) as u16);
    }

    #[test]
    fn round_trips_of_seconds_are_not_cut() {
        let mut rtt = Rtt::UNKNOWN;
        for _ in 0..100 {
            rtt.update(9_000_000_000);
        }
        assert!(u64::from(rtt.rto(NO_FLOOR)) << Tick::SHIFT > 9_000_000_000);
    }

    #[test]
    fn very_long_round_trips_make_the_timeout_the_largest() {
        let mut rtt = Rtt::UNKNOWN;
        rtt.update(u64::MAX);
        for floor in [NO_FLOOR, Floor::new(Duration::MAX)] {
            assert!(u64::from(rtt.rto(floor)) << Tick::SHIFT >= 60_000_000_000);
        }
        rtt.update(1);
        assert!(rtt.smoothed < LONGEST && rtt.variation <= LONGEST);
    }

    /// RFC 6298, 2.3: one sample moves SRTT by an eighth, however long it was.
    #[test]
    fn one_very_long_round_trip_is_one_sample() {
        let mut rtt = Rtt::UNKNOWN;
        for _ in 0..20 {
            rtt.update(100_000_000);
        }
        rtt.update(13_000_000_000);
        let smoothed = 100_000_000 * 7 / 8 + 12_000_000_000 / 8;
        assert!(rtt.smoothed_ns().abs_diff(smoothed) < 1_000_000);
        let timeout = u64::from(rtt.rto(NO_FLOOR)) << Tick::SHIFT;
        assert!((13_000_000_000..15_000_000_000).contains(&timeout));
    }

    #[test]
    fn syn_is_timed_once() {
        let sent = Instant::from_nanos(77 << 40);
        let mut rtt = Rtt::of_syn(sent);
        assert!(!rtt.is_known());
        assert_eq!((rtt.smoothed_ns(), rtt.variation_ns()), (0, 0));
        rtt.syn_acknowledged(sent + Duration::from_millis(5));
        assert!(rtt.smoothed_ns().abs_diff(5_000_000) <= 8);
        let before = rtt;
        rtt.syn_acknowledged(sent + Duration::from_secs(5));
        assert_eq!(rtt, before);
        let mut unknown = Rtt::UNKNOWN;
        unknown.syn_acknowledged(sent);
        assert!(!unknown.is_known());
    }
}
