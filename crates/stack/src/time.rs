//! Time as the stack sees it: an argument of every call, never read from a clock.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time, nanoseconds since an epoch that the caller chooses. It never goes backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self(0);

    /// `nanos` nanoseconds after the epoch.
    #[inline(always)]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    #[inline(always)]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The tick that this point lies in.
    #[inline(always)]
    pub(crate) const fn tick(self) -> Tick {
        Tick((self.0 >> Tick::SHIFT) as u32)
    }

    /// Ticks since the epoch. [`Instant::tick`] is their lower half.
    #[inline(always)]
    pub(crate) const fn ticks(self) -> u64 {
        self.0 >> Tick::SHIFT
    }

    /// The beginning of a tick since the epoch.
    pub(crate) const fn of_ticks(ticks: u64) -> Self {
        Self(ticks << Tick::SHIFT)
    }

    /// Nanoseconds since `earlier`, zero when it lies later.
    #[inline(always)]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}

/// A coarse point in time: 2^20 ns (1.05 ms), modulo 2^32 (52 days). Deadlines and TCP timestamps count in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(transparent)]
pub(crate) struct Tick(pub(crate) u32);

impl Tick {
    /// Nanoseconds per tick, as a power of two.
    pub(crate) const SHIFT: u32 = 20;

    /// Tells whether `self` comes before `other` on the circle.
    #[inline(always)]
    pub(crate) const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Tells whether `self` has come when it is `now`.
    #[inline(always)]
    pub(crate) const fn reached(self, now: Self) -> bool {
        (now.0.wrapping_sub(self.0) as i32) >= 0
    }

    /// `ticks` later.
    #[inline(always)]
    pub(crate) const fn after(self, ticks: u32) -> Self {
        Self(self.0.wrapping_add(ticks))
    }

    /// Ticks from `earlier` to `self`, zero when `earlier` lies later.
    pub(crate) const fn since(self, earlier: Self) -> u32 {
        let distance = self.0.wrapping_sub(earlier.0) as i32;
        if distance < 0 { 0 } else { distance as u32 }
    }

    /// The point in time at which this tick begins, given that `now` lies less than 26 days away.
    pub(crate) const fn to_instant(self, now: Instant) -> Instant {
        let ahead = self.0.wrapping_sub(now.tick().0) as i32 as i64;
        let ticks = (now.0 >> Self::SHIFT) as i64 + ahead;
        Instant(if ticks < 0 {
            0
        } else {
            (ticks as u64) << Self::SHIFT
        })
    }
}

/// Whole ticks that last at least as long as `duration`, at most 2^30 (13 days).
pub(crate) const fn ticks(duration: Duration) -> u32 {
    const MAX: u128 = 1 << 30;
    let ticks = duration.as_nanos().div_ceil(1 << Tick::SHIFT);
    if ticks > MAX {
        MAX as u32
    } else {
        ticks as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_round_up_and_wrap() {
        assert_eq!(ticks(Duration::from_nanos(1)), 1);
        assert_eq!(ticks(Duration::from_millis(200)), 191);
        let late = Tick(u32::MAX);
        assert!(late.before(late.after(2)));
        assert!(late.reached(late.after(2)));
        assert!(!late.after(2).reached(late));
        assert_eq!(late.after(2).since(late), 2);
        assert_eq!(late.since(late.after(2)), 0);
    }

    #[test]
    fn a_tick_becomes_the_instant_near_now() {
        let now = Instant::from_nanos(((1 << 32) - 1) << 20);
        assert_eq!(
            now.tick().after(3).to_instant(now).as_nanos(),
            ((1u64 << 32) + 2) << 20
        );
    }
}
