//! Which way a branch of the predicted path goes.
//!
//! Without these the compiler takes each check as even odds, thinks the end of a long row of checks hardly ever reached,
//! and keeps what is needed there in memory instead of registers.

use core::hint::cold_path;

/// `condition`, which is expected to be false.
#[inline(always)]
pub(crate) fn unlikely(condition: bool) -> bool {
    if condition {
        cold_path();
    }
    condition
}

/// `condition`, which is expected to be true.
#[inline(always)]
pub(crate) fn likely(condition: bool) -> bool {
    if !condition {
        cold_path();
    }
    condition
}
