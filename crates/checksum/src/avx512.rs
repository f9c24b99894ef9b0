//! AVX-512 (F, BW, VL): 64-byte vectors, 512 bytes a round, the rest by masked loads and stores.
//!
//! The method and its bounds are in [`crate::estimate`]. Fewer than 128 bytes go to the scalar code,
//! whose chain of additions is over before a vector would be reduced to one number.

use core::arch::x86_64::*;

use crate::estimate::{START, rounds_in_block};
use crate::scalar::short;
use crate::{Accumulator, Partial};

/// Bytes that a round of the main loop takes: 2³ vectors.
const ROUND: usize = 512;

/// Bytes that may be summed before the carries must be counted: whole rounds, a group of 4 vectors, one of 2,
/// and two alone.
const BLOCK: usize = rounds_in_block(3, &[2, 1, 0, 0]) as usize * ROUND;

/// Sums `len` bytes at `src`.
///
/// # Safety
/// The processor must have AVX-512 F, BW and VL and BMI2; `src` must be valid for reading `len` bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
pub(crate) unsafe fn sum(src: *const u8, len: usize) -> Partial {
    // SAFETY: the caller vouches for `src`; `dst` is not touched.
    unsafe { run::<false>(core::ptr::null_mut(), src, len) }.narrow()
}

/// Copies `len` bytes from `src` to `dst` and sums them on the way.
///
/// # Safety
/// The processor must have AVX-512 F, BW and VL and BMI2; `src` must be valid for reading and `dst` for
/// writing `len` bytes; they must not overlap.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
pub(crate) unsafe fn copy_and_sum(dst: *mut u8, src: *const u8, len: usize) -> Accumulator {
    // SAFETY: the caller vouches for both.
    unsafe { run::<true>(dst, src, len) }
}

/// # Safety
/// Like [`copy_and_sum`]; without `COPY`, `dst` may be null.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
unsafe fn run<const COPY: bool>(dst: *mut u8, src: *const u8, len: usize) -> Accumulator {
    if len < 128 {
        // SAFETY: the caller vouches for `len` bytes.
        return Accumulator(unsafe { short::<COPY>(0, dst, src, len) });
    }
    if len > BLOCK {
        // SAFETY: the caller vouches for everything.
        return unsafe { blocks::<COPY>(dst, src, len) };
    }
    // SAFETY: likewise, and `len` has just been tested.
    Accumulator(unsafe { block::<COPY>(dst, src, len) })
}

/// Sums a length that is too long for one block. It is a function of its own, to keep its needs out of the way of the
/// rest.
///
/// # Safety
/// Like [`run`].
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
unsafe fn blocks<const COPY: bool>(
    mut dst: *mut u8,
    mut src: *const u8,
    mut len: usize,
) -> Accumulator {
    let mut total = Accumulator::ZERO;
    while len > 0 {
        let part = len.min(BLOCK);
        let sum = if part < 128 {
            // SAFETY: `part <= len` bytes are left, at both where they are copied.
            unsafe { short::<COPY>(0, dst, src, part) }
        } else {
            // SAFETY: likewise, and no more than a block.
            unsafe { block::<COPY>(dst, src, part) }
        };
        total = total.add(Accumulator(sum));
        src = src.wrapping_add(part);
        dst = dst.wrapping_add(part);
        len -= part;
    }
    total
}

/// The wrapping sum of some vectors' 64-bit lanes and the average of their 16-bit words.
#[derive(Clone, Copy)]
struct Group {
    sum: __m512i,
    mean: __m512i,
}

impl Group {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    fn join(self, other: Self) -> Self {
        Self {
            sum: _mm512_add_epi64(self.sum, other.sum),
            mean: _mm512_avg_epu16(self.mean, other.mean),
        }
    }

    /// One vector.
    ///
    /// # Safety
    /// `src` must be valid for reading 64 bytes; with `COPY`, `dst` for writing as many.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    unsafe fn of_1<const COPY: bool>(dst: *mut u8, src: *const u8) -> Self {
        // SAFETY: the caller vouches for `src`.
        let vector = unsafe { _mm512_loadu_si512(src.cast()) };
        if COPY {
            // SAFETY: the caller vouches for `dst`.
            unsafe { _mm512_storeu_si512(dst.cast(), vector) };
        }
        Self {
            sum: vector,
            mean: vector,
        }
    }

    /// The first `len` bytes, at most 64, of a vector.
    ///
    /// # Safety
    /// `src` must be valid for reading `len` bytes; with `COPY`, `dst` for writing as many.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    unsafe fn of_part<const COPY: bool>(dst: *mut u8, src: *const u8, len: usize) -> Self {
        let mask = _bzhi_u64(u64::MAX, len as u32);
        // SAFETY: masked-out bytes are not read; the caller vouches for the others.
        let vector = unsafe { _mm512_maskz_loadu_epi8(mask, src.cast()) };
        if COPY {
            // SAFETY: masked-out bytes are not written; the caller vouches for the others.
            unsafe { _mm512_mask_storeu_epi8(dst.cast(), mask, vector) };
        }
        Self {
            sum: vector,
            mean: vector,
        }
    }

    /// Two vectors.
    ///
    /// # Safety
    /// Like [`of_1`](Self::of_1), with 128 bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    unsafe fn of_2<const COPY: bool>(dst: *mut u8, src: *const u8) -> Self {
        // SAFETY: the first 64 bytes.
        let first = unsafe { Self::of_1::<COPY>(dst, src) };
        // SAFETY: the second 64 bytes.
        first.join(unsafe { Self::of_1::<COPY>(dst.wrapping_add(64), src.wrapping_add(64)) })
    }

    /// Four vectors.
    ///
    /// # Safety
    /// Like [`of_1`](Self::of_1), with 256 bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    unsafe fn of_4<const COPY: bool>(dst: *mut u8, src: *const u8) -> Self {
        // SAFETY: the first 128 bytes.
        let first = unsafe { Self::of_2::<COPY>(dst, src) };
        // SAFETY: the second 128 bytes.
        first.join(unsafe { Self::of_2::<COPY>(dst.wrapping_add(128), src.wrapping_add(128)) })
    }

    /// Eight vectors.
    ///
    /// # Safety
    /// Like [`of_1`](Self::of_1), with 512 bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    unsafe fn of_8<const COPY: bool>(dst: *mut u8, src: *const u8) -> Self {
        // SAFETY: the first 256 bytes.
        let first = unsafe { Self::of_4::<COPY>(dst, src) };
        // SAFETY: the second 256 bytes.
        first.join(unsafe { Self::of_4::<COPY>(dst.wrapping_add(256), src.wrapping_add(256)) })
    }
}

/// The wrapping sums and the estimates of what they should be.
struct Lanes {
    wrapped: __m512i,
    estimate: __m512i,
}

impl Lanes {
    /// Adds a group of `2^(32 - SHIFT)` vectors.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    fn add<const SHIFT: u32>(&mut self, group: Group) {
        self.wrapped = _mm512_add_epi64(self.wrapped, group.sum);
        self.estimate = _mm512_add_epi64(self.estimate, _mm512_srli_epi64::<SHIFT>(group.mean));
    }

    /// All lanes with their carries, as one number below 2⁵²: the carries still weigh 2³² each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    fn reduce(self) -> u64 {
        let high = _mm512_srli_epi64::<32>(self.wrapped);
        let excess = _mm512_sub_epi64(self.estimate, high);
        let carries_low = _mm512_mask_mov_epi32(self.wrapped, 0b1010_1010_1010_1010, excess);
        let lanes = _mm512_add_epi64(high, carries_low);
        let halves = _mm256_add_epi64(
            _mm512_castsi512_si256(lanes),
            _mm512_extracti64x4_epi64::<1>(lanes),
        );
        let quarters = _mm_add_epi64(
            _mm256_castsi256_si128(halves),
            _mm256_extracti128_si256::<1>(halves),
        );
        let sum = _mm_add_epi64(quarters, _mm_unpackhi_epi64(quarters, quarters));
        _mm_cvtsi128_si64(sum) as u64
    }
}

/// Sums at most `BLOCK` bytes.
///
/// # Safety
/// Like [`copy_and_sum`]; without `COPY`, `dst` may be null.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
unsafe fn block<const COPY: bool>(mut dst: *mut u8, mut src: *const u8, len: usize) -> u64 {
    let mut lanes = Lanes {
        wrapped: _mm512_setzero_si512(),
        estimate: _mm512_set1_epi64(START as i64),
    };
    let mut left = len;
    while left >= ROUND {
        // SAFETY: `left >= 512` bytes are valid at both.
        lanes.add::<29>(unsafe { Group::of_8::<COPY>(dst, src) });
        src = src.wrapping_add(ROUND);
        dst = dst.wrapping_add(ROUND);
        left -= ROUND;
    }
    if left & 256 != 0 {
        // SAFETY: `left >= 256`.
        lanes.add::<30>(unsafe { Group::of_4::<COPY>(dst, src) });
        src = src.wrapping_add(256);
        dst = dst.wrapping_add(256);
    }
    if left & 128 != 0 {
        // SAFETY: what is left is `left & 255 >= 128`.
        lanes.add::<31>(unsafe { Group::of_2::<COPY>(dst, src) });
        src = src.wrapping_add(128);
        dst = dst.wrapping_add(128);
    }
    if left & 64 != 0 {
        // SAFETY: what is left is `left & 127 >= 64`.
        lanes.add::<32>(unsafe { Group::of_1::<COPY>(dst, src) });
        src = src.wrapping_add(64);
        dst = dst.wrapping_add(64);
    }
    if left & 63 != 0 {
        // SAFETY: `left & 63` bytes are left at both.
        lanes.add::<32>(unsafe { Group::of_part::<COPY>(dst, src, left & 63) });
    }
    lanes.reduce()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::Features;
    use crate::estimate::tests::worst_group;
    use crate::halfword;

    /// Sums data on which every average rounds up, in one block of any length.
    fn agrees(len: usize) -> bool {
        let mut bytes = worst_group(3, 64, 0x7FFF).repeat(len / ROUND + 1);
        bytes.truncate(len);
        // SAFETY: the processor has been asked, and the pointer is that of `len` bytes.
        let wide = unsafe { block::<false>(core::ptr::null_mut(), bytes.as_ptr(), len) };
        // SAFETY: the pointer is that of `len` bytes.
        Partial::from_ne_u64(wide) == unsafe { halfword::sum(bytes.as_ptr(), len) }
    }

    #[test]
    fn a_block_is_as_long_as_the_estimate_bears() {
        if !Features::detect().avx512 {
            return;
        }
        assert!(agrees(ROUND));
        assert!(agrees(BLOCK));
        assert!(agrees(BLOCK + 127));
        // A little more, and the carries are miscounted: the bound is not just a safe guess.
        assert!(!agrees(BLOCK + 4 * ROUND));
    }
}
