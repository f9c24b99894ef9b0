//! No checksum at all: what is left of copy-and-sum when checksums are off, so that its caller need not ask.

use core::ptr;

use crate::{Accumulator, Partial};

/// Zero, without a look at the bytes.
///
/// # Safety
/// None: nothing is read.
pub(crate) unsafe fn sum(_src: *const u8, _len: usize) -> Partial {
    Partial::ZERO
}

/// Copies `len` bytes from `src` to `dst`; zero.
///
/// # Safety
/// `src` must be valid for reading and `dst` for writing `len` bytes; they must not overlap.
pub(crate) unsafe fn copy_and_sum(dst: *mut u8, src: *const u8, len: usize) -> Accumulator {
    // SAFETY: the caller vouches for both.
    unsafe { ptr::copy_nonoverlapping(src, dst, len) };
    Accumulator::ZERO
}

/// Zero, without a look at the bytes or their place.
///
/// # Safety
/// None: nothing is read or written.
pub(crate) unsafe fn nothing(_dst: *mut u8, _src: *const u8, _len: usize) -> Accumulator {
    Accumulator::ZERO
}
