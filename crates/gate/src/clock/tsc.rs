//! The time-stamp counter of x86-64: whether it is invariant, how to read it, and its rate.
//!
//! The rate is measured between two sets of bracketed readings: each reading of the raw clock stands between two of the
//! TSC, and the tightest bracket of a set counts, so the error is bounded and known.

use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use std::time::Duration;

use super::{KernelClock, TscRate, TscRefused, monotonic_raw};
use crate::ticks::Ticks;

/// A rate that is known less well than this is refused, in millionths.
const MAX_ERROR_PPM: f64 = 100.0;
/// Time that the calibration waits between its two sets of readings.
const CALIBRATION: Duration = Duration::from_millis(16);
/// Readings in each set, of which the tightest counts.
const BRACKETS: usize = 64;

/// CPUID leaf 0x80000007, EDX bit 8 (Intel SDM volume 3, "Invariant TSC"; AMD APM volume 3, CPUID Fn8000_0007).
fn is_invariant() -> bool {
    const POWER: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0
}

#[inline(always)]
pub(super) fn read() -> Ticks {
    // SAFETY: every x86-64 processor has the instruction; where the kernel forbids it (PR_SET_TSC) the process asked
    // for that itself.
    Ticks(unsafe { _rdtsc() })
}

#[inline(always)]
pub(super) fn read_ordered() -> Ticks {
    fence();
    let ticks = read();
    fence();
    ticks
}

#[inline(always)]
fn fence() {
    // SAFETY: the instruction belongs to SSE2, which every x86-64 processor has.
    unsafe { _mm_lfence() }
}

/// One reading of the monotonic raw clock between two readings of the TSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bracket {
    before: Ticks,
    raw_ns: u64,
    after: Ticks,
}

impl Bracket {
    /// Ticks within which the reading lies.
    fn width(self) -> u64 {
        self.after.0.saturating_sub(self.before.0)
    }

    /// Twice the middle of the two readings, so that no half is lost.
    fn twice_middle(self) -> u128 {
        u128::from(self.before.0) + u128::from(self.after.0)
    }
}

/// The rate in ticks per second and the bound on its error in millionths, from a reading at each end of an interval.
///
/// Each reading of the raw clock lies somewhere in its bracket, so the number of ticks between both readings is known
/// within half the sum of the widths; the raw clock itself counts whole nanoseconds, so the time is known within one.
/// The kernel makes the raw clock from the same counter, so a counter that moves in steps widens no bracket.
fn rate(first: Bracket, last: Bracket) -> Option<(u64, f64)> {
    let ns = u128::from(last.raw_ns.checked_sub(first.raw_ns)?);
    let twice_ticks = last.twice_middle().checked_sub(first.twice_middle())?;
    if ns == 0 || twice_ticks == 0 {
        return None;
    }
    let hz = u64::try_from((twice_ticks * 1_000_000_000 + ns) / (2 * ns)).ok()?;
    let widths = (first.width() + last.width()) as f64;
    let error = widths / twice_ticks as f64 + 1.0 / ns as f64;
    Some((hz, error * 1e6))
}

/// Refuses a TSC that cannot be trusted to keep one rate.
pub(super) fn trusted(kernel: KernelClock) -> Result<(), TscRefused> {
    if !is_invariant() {
        return Err(TscRefused::NotInvariant);
    }
    if kernel.speaks_against_tsc() {
        return Err(TscRefused::KernelDistrusts(kernel));
    }
    Ok(())
}

/// Measures the rate of the TSC, where it can be trusted.
pub(super) fn calibrate(kernel: KernelClock) -> Result<TscRate, TscRefused> {
    trusted(kernel)?;
    let first = tightest_bracket();
    std::thread::sleep(CALIBRATION);
    let last = tightest_bracket();
    let (hz, error_ppm) = rate(first, last).ok_or(TscRefused::Unsteady {
        error_ppm: f64::INFINITY,
    })?;
    if error_ppm > MAX_ERROR_PPM {
        return Err(TscRefused::Unsteady { error_ppm });
    }
    Ok(TscRate { hz, error_ppm })
}

fn tightest_bracket() -> Bracket {
    let bracket = || {
        let before = read_ordered();
        let raw_ns = monotonic_raw().0;
        Bracket {
            before,
            raw_ns,
            after: read_ordered(),
        }
    };
    (1..BRACKETS).fold(bracket(), |tightest, _| {
        let next = bracket();
        if next.width() < tightest.width() {
            next
        } else {
            tightest
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_clock_that_stands_still_gives_no_rate() {
        let bracket = Bracket {
            before: Ticks(10),
            raw_ns: 5,
            after: Ticks(20),
        };
        assert_eq!(rate(bracket, bracket), None);
        let back = Bracket {
            before: Ticks(10),
            raw_ns: 4,
            after: Ticks(20),
        };
        assert_eq!(rate(bracket, back), None);
    }

    proptest! {
        /// Wherever in its bracket a reading was taken, the true rate lies within the stated bound.
        #[test]
        fn the_true_rate_lies_within_the_bound(
            hz in 200_000_000u64..10_000_000_000, start in 0u64..1 << 50,
            early in 0u64..2_000, late in 0u64..2_000, early2 in 0u64..2_000, late2 in 0u64..2_000,
        ) {
            let ns = 16_000_000u64;
            let at = |ticks: u64, raw_ns, early, late| Bracket {
                before: Ticks(ticks - early), raw_ns, after: Ticks(ticks + late),
            };
            let ticks = (u128::from(hz) * u128::from(ns) / 1_000_000_000) as u64;
            let first = at(start + 2_000, 1_000, early, late);
            let last = at(start + 2_000 + ticks, 1_000 + ns, early2, late2);
            let (measured, error_ppm) = rate(first, last).unwrap();
            let off_ppm = (measured as f64 - hz as f64).abs() / hz as f64 * 1e6;
            prop_assert!(off_ppm <= error_ppm * 1.000_1, "{off_ppm} > {error_ppm}");
        }
    }
}
