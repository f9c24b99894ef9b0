//! Ticks of a clock and their conversion to nanoseconds.
//!
//! This module owns the arithmetic only; it reads no clock.

/// A point in time, in ticks of the clock that gave it. Only ticks of one clock can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Ticks from `earlier` to `self`; negative when `earlier` lies later, which happens between two processors.
    #[inline]
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.wrapping_sub(earlier.0) as i64
    }
}

/// A rate that no clock of a computer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateOutOfRange {
    /// The rate, in ticks per second.
    pub hz: u64,
}

impl core::fmt::Display for RateOutOfRange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "a clock of {} ticks per second is outside {} to {}",
            self.hz,
            TickScale::MIN_HZ,
            TickScale::MAX_HZ
        )
    }
}

impl core::error::Error for RateOutOfRange {}

/// Nanoseconds of a tick.
///
/// Points are converted by one multiplication and one shift. The multiplier is rounded to a relative error of at most
/// 2^-49 over the whole range of rates (2e-15, far below one nanosecond in an hour).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TickScale {
    hz: u64,
    mult: u64,
    ns_per_tick: f64,
}

const NS_PER_SECOND: u64 = 1_000_000_000;

impl TickScale {
    /// The slowest clock that can be converted, in ticks per second.
    pub const MIN_HZ: u64 = 10_000_000;
    /// The fastest clock that can be converted, in ticks per second.
    pub const MAX_HZ: u64 = 100_000_000_000;
    /// A tick is a nanosecond: the kernel's clocks.
    pub const NANOSECONDS: Self = Self::of(NS_PER_SECOND);

    const SHIFT: u32 = 56;

    /// The scale of a clock of `hz` ticks per second.
    ///
    /// # Errors
    ///
    /// When `hz` lies outside [`Self::MIN_HZ`] to [`Self::MAX_HZ`].
    pub const fn from_hz(hz: u64) -> Result<Self, RateOutOfRange> {
        if hz < Self::MIN_HZ || hz > Self::MAX_HZ {
            Err(RateOutOfRange { hz })
        } else {
            Ok(Self::of(hz))
        }
    }

    const fn of(hz: u64) -> Self {
        let numerator = (NS_PER_SECOND as u128) << Self::SHIFT;
        Self {
            hz,
            mult: ((numerator + hz as u128 / 2) / hz as u128) as u64,
            ns_per_tick: NS_PER_SECOND as f64 / hz as f64,
        }
    }

    /// Ticks per second.
    pub const fn hz(self) -> u64 {
        self.hz
    }

    /// Nanoseconds from the clock's zero to `ticks`, rounded down; `u64::MAX` when that is more than 584 years.
    #[inline]
    pub const fn to_ns(self, ticks: Ticks) -> u64 {
        let ns = (ticks.0 as u128 * self.mult as u128) >> Self::SHIFT;
        if ns > u64::MAX as u128 {
            u64::MAX
        } else {
            ns as u64
        }
    }

    /// Nanoseconds from one point to another, with fractions; negative when `to` lies before `from`.
    #[inline]
    pub fn ns_between(self, from: Ticks, to: Ticks) -> f64 {
        to.since(from) as f64 * self.ns_per_tick
    }

    /// The number of ticks in `duration`, rounded down; `u64::MAX` when there are more.
    pub const fn ticks_in(self, duration: core::time::Duration) -> u64 {
        // Both factors are below 2^64 but for the seconds' share, so saturate instead of overflowing.
        let ticks = duration.as_nanos().saturating_mul(self.hz as u128) / NS_PER_SECOND as u128;
        if ticks > u64::MAX as u128 {
            u64::MAX
        } else {
            ticks as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use proptest::prelude::*;

    #[test]
    fn nanoseconds_are_the_identity() {
        for ns in [0, 1, 999, u64::from(u32::MAX), 1 << 62, u64::MAX] {
            assert_eq!(TickScale::NANOSECONDS.to_ns(Ticks(ns)), ns);
        }
    }

    #[test]
    fn rates_outside_the_range_are_refused() {
        for hz in [0, TickScale::MIN_HZ - 1, TickScale::MAX_HZ + 1, u64::MAX] {
            assert_eq!(TickScale::from_hz(hz), Err(RateOutOfRange { hz }));
        }
        assert!(TickScale::from_hz(TickScale::MIN_HZ).is_ok());
        assert!(TickScale::from_hz(TickScale::MAX_HZ).is_ok());
    }

    #[test]
    fn a_slow_clock_saturates_instead_of_wrapping() {
        let scale = TickScale::from_hz(TickScale::MIN_HZ).unwrap();
        assert_eq!(scale.to_ns(Ticks(u64::MAX)), u64::MAX);
        assert_eq!(scale.ticks_in(Duration::MAX), u64::MAX);
    }

    #[test]
    fn differences_are_signed() {
        let scale = TickScale::from_hz(2_000_000_000).unwrap();
        assert_eq!(scale.ns_between(Ticks(100), Ticks(140)), 20.0);
        assert_eq!(scale.ns_between(Ticks(140), Ticks(100)), -20.0);
        assert_eq!(Ticks(5).since(Ticks(7)), -2);
        assert_eq!(scale.ticks_in(Duration::from_micros(3)), 6_000);
    }

    proptest! {
        #[test]
        fn to_ns_is_monotone(hz in TickScale::MIN_HZ..=TickScale::MAX_HZ, a: u64, step in 0u64..1 << 40) {
            let scale = TickScale::from_hz(hz).unwrap();
            let b = a.saturating_add(step);
            prop_assert!(scale.to_ns(Ticks(a)) <= scale.to_ns(Ticks(b)));
        }

        #[test]
        fn to_ns_errs_by_at_most_a_nanosecond_in_a_day(
            hz in TickScale::MIN_HZ..=TickScale::MAX_HZ, share in 0.0f64..=1.0,
        ) {
            let scale = TickScale::from_hz(hz).unwrap();
            let ticks = (hz as f64 * 86_400.0 * share) as u64;
            let exact = u128::from(ticks) * 1_000_000_000 / u128::from(hz);
            let error = i128::from(scale.to_ns(Ticks(ticks))) - exact as i128;
            prop_assert!(error.abs() <= 1, "off by {error} ns");
        }

        #[test]
        fn differences_agree_with_points(
            hz in TickScale::MIN_HZ..=TickScale::MAX_HZ, from in 0u64..1 << 50, step in 0u64..1 << 40,
        ) {
            let scale = TickScale::from_hz(hz).unwrap();
            let to = Ticks(from + step);
            let by_points = (scale.to_ns(to) - scale.to_ns(Ticks(from))) as f64;
            let between = scale.ns_between(Ticks(from), to);
            prop_assert!((by_points - between).abs() <= 1.0 + between * 1e-12);
        }
    }
}
