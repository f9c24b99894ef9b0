//! The papers' baseline: one 16-bit word at a time, a separate load and add for each.
//!
//! This is the loop that Kay and Pasquale (1993) and Wolman et al. (1994) start from, before
//! unrolling and word-wide loads. It must stay that slow: each word passes through
//! [`black_box`], so that the compiler neither widens nor vectorises the loop.

use core::hint::black_box;

use crate::{Accumulator, Partial};

/// Sums `len` bytes at `src`.
///
/// # Safety
/// `src` must be valid for reading `len` bytes.
pub(crate) unsafe fn sum(src: *const u8, len: usize) -> Partial {
    // SAFETY: the caller vouches for `src`.
    let bytes = unsafe { core::slice::from_raw_parts(src, len) };
    let mut sum = 0u64;
    let mut words = bytes.chunks_exact(2);
    for word in &mut words {
        sum = black_box(sum + u64::from(u16::from_ne_bytes([word[0], word[1]])));
    }
    if let [last] = words.remainder() {
        sum += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    Partial::from_ne_u64(sum)
}

/// Copies `len` bytes from `src` to `dst`, word by word, and sums them on the way.
///
/// # Safety
/// `src` must be valid for reading and `dst` for writing `len` bytes; they must not overlap.
pub(crate) unsafe fn copy_and_sum(dst: *mut u8, src: *const u8, len: usize) -> Accumulator {
    // SAFETY: the caller vouches for `src`.
    let source = unsafe { core::slice::from_raw_parts(src, len) };
    let mut sum = 0u64;
    let mut offset = 0;
    for word in source.chunks_exact(2) {
        let word = [word[0], word[1]];
        // SAFETY: `offset + 2 <= len`, for which the caller vouches.
        unsafe { dst.wrapping_add(offset).cast::<[u8; 2]>().write(word) };
        sum = black_box(sum + u64::from(u16::from_ne_bytes(word)));
        offset += 2;
    }
    if let [last] = &source[offset..] {
        // SAFETY: `offset < len`, for which the caller vouches.
        unsafe { dst.wrapping_add(offset).write(*last) };
        sum += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    Accumulator(sum)
}
