//! Processor time of a thread, as the kernel accounts it (getrusage(2), RUSAGE_THREAD): it takes no privilege.
//!
//! The sum of both is exact to the scheduler's clock; how it is split into user and system is, on kernels that account by ticks,
//! an estimate from where the ticks fell.

use std::mem::MaybeUninit;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

/// Processor time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Outside the kernel.
    pub user: Duration,
    /// In it.
    pub system: Duration,
}

impl Usage {
    /// What the calling thread has used so far.
    pub(crate) fn of_thread() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel writes a whole value to a place that has room for one.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: all zeros are a valid value, and so is what the kernel writes.
        let usage = unsafe { usage.assume_init() };
        Self {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

impl Sub for Usage {
    type Output = Self;

    /// What was used between two readings; nothing where the second is the lower one.
    fn sub(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.user += more.user;
        self.system += more.system;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_uses_time_and_never_less_than_before() {
        let before = Usage::of_thread();
        let mut sum = 0u64;
        let mut used = Usage::default();
        while used == Usage::default() {
            for number in 0..100_000u64 {
                sum = std::hint::black_box(sum.wrapping_add(number));
            }
            used = Usage::of_thread() - before;
        }
        assert!(used.user + used.system > Duration::ZERO);
        assert_eq!(before - Usage::of_thread(), Usage::default());
    }
}
