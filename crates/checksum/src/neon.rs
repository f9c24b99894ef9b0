//! NEON (aarch64 Advanced SIMD): 16-byte vectors, 64 bytes a round, one operation per vector.
//!
//! `uadalp` adds neighbouring 16-bit words into 32-bit lanes, so nothing is lost as long as the lanes do
//! not overflow.

use core::arch::aarch64::*;

use crate::scalar::{add, short};
use crate::{Accumulator, Partial};

/// Bytes that a round of the loop takes, one vector for each of four accumulators.
const ROUND: usize = 64;

/// Turns after which the 32-bit lanes must be emptied: each adds at most 2 · 0xFFFF.
const ROUNDS: usize = (u32::MAX / (2 * 0xFFFF)) as usize;

/// Sums `len` bytes at `src`.
///
/// # Safety
/// The processor must have NEON, and `src` be valid for reading `len` bytes.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn sum(src: *const u8, len: usize) -> Partial {
    // SAFETY: the caller vouches for `src`; `dst` is not touched.
    unsafe { run::<false>(core::ptr::null_mut(), src, len) }.narrow()
}

/// Copies `len` bytes from `src` to `dst` and sums them on the way.
///
/// # Safety
/// The processor must have NEON; `src` must be valid for reading and `dst` for writing `len` bytes;
/// they must not overlap.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn copy_and_sum(dst: *mut u8, src: *const u8, len: usize) -> Accumulator {
    // SAFETY: the caller vouches for both.
    unsafe { run::<true>(dst, src, len) }
}

/// # Safety
/// Like [`copy_and_sum`]; without `COPY`, `dst` may be null.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn run<const COPY: bool>(
    mut dst: *mut u8,
    mut src: *const u8,
    mut len: usize,
) -> Accumulator {
    let mut total = 0;
    while len >= 128 {
        let rounds = (len / ROUND).min(ROUNDS);
        // SAFETY: `rounds` whole rounds are left at both.
        total = add(total, unsafe { block::<COPY>(dst, src, rounds) });
        src = src.wrapping_add(ROUND * rounds);
        dst = dst.wrapping_add(ROUND * rounds);
        len -= ROUND * rounds;
    }
    // SAFETY: `len < 128` bytes are left at both.
    Accumulator(unsafe { short::<COPY>(total, dst, src, len) })
}

/// Sums at most [`ROUNDS`] rounds.
///
/// # Safety
/// Like [`copy_and_sum`], with `64 * rounds` bytes; without `COPY`, `dst` may be null.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn block<const COPY: bool>(mut dst: *mut u8, mut src: *const u8, rounds: usize) -> u64 {
    let mut lanes = [vdupq_n_u32(0); 4];
    for _ in 0..rounds {
        for (index, lane) in lanes.iter_mut().enumerate() {
            // SAFETY: one of the four vectors of a round that the caller vouches for.
            let vector = unsafe { vld1q_u8(src.wrapping_add(16 * index)) };
            if COPY {
                // SAFETY: as above, for `dst`.
                unsafe { vst1q_u8(dst.wrapping_add(16 * index), vector) };
            }
            *lane = vpadalq_u16(*lane, vreinterpretq_u16_u8(vector));
        }
        src = src.wrapping_add(ROUND);
        dst = dst.wrapping_add(ROUND);
    }
    lanes.into_iter().map(|lane| vaddlvq_u32(lane)).sum()
}
