//! 64-bit words with end-around carry, 128 bytes a round in four independent chains.
//!
//! This kernel serves processors without usable vector instructions (RFC 1071 section 2(C) and the unrolling of
//! section 4.1). It is the papers' "optimised" checksum beside the halfword loop.

use crate::scalar::{add, short, words};
use crate::{Accumulator, Partial};

/// Sums `len` bytes at `src`.
///
/// # Safety
/// `src` must be valid for reading `len` bytes.
pub(crate) unsafe fn sum(src: *const u8, len: usize) -> Partial {
    // SAFETY: the caller vouches for `src`; `dst` is not touched.
    unsafe { run::<false>(core::ptr::null_mut(), src, len) }.narrow()
}

/// Copies `len` bytes from `src` to `dst` and sums them on the way.
///
/// # Safety
/// `src` must be valid for reading and `dst` for writing `len` bytes; they must not overlap.
pub(crate) unsafe fn copy_and_sum(dst: *mut u8, src: *const u8, len: usize) -> Accumulator {
    // SAFETY: the caller vouches for both.
    unsafe { run::<true>(dst, src, len) }
}

/// # Safety
/// Like [`copy_and_sum`]; without `COPY`, `dst` may be null.
#[inline(always)]
unsafe fn run<const COPY: bool>(
    mut dst: *mut u8,
    mut src: *const u8,
    mut len: usize,
) -> Accumulator {
    let mut total = 0;
    if len >= 128 {
        let mut chains = [0u64; 4];
        while len >= 128 {
            for (index, chain) in chains.iter_mut().enumerate() {
                let at = 32 * index;
                // SAFETY: `at + 32 <= 128 <= len`.
                *chain =
                    unsafe { words::<COPY, 4>(*chain, dst.wrapping_add(at), src.wrapping_add(at)) };
            }
            src = src.wrapping_add(128);
            dst = dst.wrapping_add(128);
            len -= 128;
        }
        total = add(add(chains[0], chains[1]), add(chains[2], chains[3]));
    }
    // SAFETY: `len < 128` bytes are left at both.
    Accumulator(unsafe { short::<COPY>(total, dst, src, len) })
}
