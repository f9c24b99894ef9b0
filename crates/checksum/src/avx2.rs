//! AVX2: 32-byte vectors, 512 bytes a round, two operations per vector beside load and store.
//!
//! The method and its bounds are in [`crate::estimate`]. Fewer than 128 bytes go to the scalar code,
//! which is shorter than reducing a vector to one number. What follows the last whole group is taken
//! from the last 128 or 64 bytes, those already summed masked out and copied twice.

use core::arch::x86_64::*;

use crate::estimate::{START, rounds_in_block};
use crate::scalar::{odd_byte, short};
use crate::{Accumulator, Partial};

/// Bytes that a round of the main loop takes: 2⁴ vectors.
const ROUND: usize = 512;

/// Bytes that may be summed before the carries must be counted: whole rounds, a group of 8 vectors, one of 4
/// and at most 4 masked ones.
const BLOCK: usize = rounds_in_block(4, &[3, 2, 2]) as usize * ROUND;

/// Sums `len` bytes at `src`.
///
/// # Safety
/// The processor must have AVX2 and BMI2, and `src` be valid for reading `len` bytes.
#[target_feature(enable = "avx2,bmi2")]
pub(crate) unsafe fn sum(src: *const u8, len: usize) -> Partial {
    // SAFETY: the caller vouches for `src`; `dst` is not touched.
    unsafe { run::<false>(core::ptr::null_mut(), src, len) }.narrow()
}

/// Copies `len` bytes from `src` to `dst` and sums them on the way.
///
/// # Safety
/// The processor must have AVX2 and BMI2; `src` must be valid for reading and `dst` for writing
/// `len` bytes; they must not overlap.
#[target_feature(enable = "avx2,bmi2")]
pub(crate) unsafe fn copy_and_sum(dst: *mut u8, src: *const u8, len: usize) -> Accumulator {
    // SAFETY: the caller vouches for both.
    unsafe { run::<true>(dst, src, len) }
}

/// # Safety
/// Like [`copy_and_sum`]; without `COPY`, `dst` may be null.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn run<const COPY: bool>(dst: *mut u8, src: *const u8, len: usize) -> Accumulator {
    if len < 128 {
        // SAFETY: the caller vouches for `len` bytes.
        return Accumulator(unsafe { short::<COPY>(0, dst, src, len) });
    }
    if len > BLOCK + 128 {
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
#[target_feature(enable = "avx2,bmi2")]
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

/// One load, and the store that goes with it.
///
/// # Safety
/// `src` must be valid for reading 32 bytes; with `COPY`, `dst` for writing as many.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn load<const COPY: bool>(dst: *mut u8, src: *const u8) -> __m256i {
    // SAFETY: the caller vouches for `src`.
    let vector = unsafe { _mm256_loadu_si256(src.cast()) };
    if COPY {
        // SAFETY: the caller vouches for `dst`.
        unsafe { _mm256_storeu_si256(dst.cast(), vector) };
    }
    vector
}

/// The wrapping sum of some vectors' 64-bit lanes and the average of their 16-bit words.
#[derive(Clone, Copy)]
struct Group {
    sum: __m256i,
    mean: __m256i,
}

impl Group {
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn join(self, other: Self) -> Self {
        Self {
            sum: _mm256_add_epi64(self.sum, other.sum),
            mean: _mm256_avg_epu16(self.mean, other.mean),
        }
    }

    /// Two vectors.
    ///
    /// # Safety
    /// Like [`load`], with 64 bytes.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    unsafe fn of_2<const COPY: bool>(dst: *mut u8, src: *const u8) -> Self {
        // SAFETY: the first 32 bytes.
        let first = unsafe { load::<COPY>(dst, src) };
        // SAFETY: the second 32 bytes.
        let second = unsafe { load::<COPY>(dst.wrapping_add(32), src.wrapping_add(32)) };
        Self {
            sum: first,
            mean: first,
        }
        .join(Self {
            sum: second,
            mean: second,
        })
    }

    /// Four vectors.
    ///
    /// # Safety
    /// Like [`load`], with 128 bytes.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    unsafe fn of_4<const COPY: bool>(dst: *mut u8, src: *const u8) -> Self {
        // SAFETY: the first 64 bytes.
        let first = unsafe { Self::of_2::<COPY>(dst, src) };
        // SAFETY: the second 64 bytes.
        first.join(unsafe { Self::of_2::<COPY>(dst.wrapping_add(64), src.wrapping_add(64)) })
    }

    /// Eight vectors.
    ///
    /// # Safety
    /// Like [`load`], with 256 bytes.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    unsafe fn of_8<const COPY: bool>(dst: *mut u8, src: *const u8) -> Self {
        // SAFETY: the first 128 bytes.
        let first = unsafe { Self::of_4::<COPY>(dst, src) };
        // SAFETY: the second 128 bytes.
        first.join(unsafe { Self::of_4::<COPY>(dst.wrapping_add(128), src.wrapping_add(128)) })
    }

    /// The last `VECTORS` (2 or 4) vectors before `dst` and `src`, of which only the last `keep` bytes are summed.
    ///
    /// # Safety
    /// The `32 * VECTORS` bytes before `src` must be valid for reading, with `COPY` those before `dst`
    /// for writing, and `keep` be at most their number and at least that without two vectors.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    unsafe fn last_masked<const COPY: bool, const VECTORS: usize>(
        dst: *mut u8,
        src: *const u8,
        keep: usize,
    ) -> Self {
        let zero = _mm256_setzero_si256();
        let mut vectors = [Self {
            sum: zero,
            mean: zero,
        }; VECTORS];
        for (index, group) in vectors.iter_mut().enumerate() {
            let before = 32 * (VECTORS - index);
            // SAFETY: `before` bytes are valid before `src`, and before `dst`.
            let mut vector =
                unsafe { load::<COPY>(dst.wrapping_sub(before), src.wrapping_sub(before)) };
            if index < 2 {
                let mask = MASKS
                    .as_ptr()
                    .wrapping_add(keep + 32 * index - 32 * (VECTORS - 2));
                // SAFETY: `keep - 32 * (VECTORS - 2)` is in 0..=64, so this is within the table.
                vector = _mm256_and_si256(vector, unsafe { _mm256_loadu_si256(mask.cast()) });
            }
            *group = Self {
                sum: vector,
                mean: vector,
            };
        }
        let mut total = vectors[0].join(vectors[1]);
        if VECTORS == 4 {
            total = total.join(vectors[2].join(vectors[3]));
        }
        total
    }
}

/// 64 zeros, then 64 times 0xFF: the 64 bytes from `keep` on keep the last `keep` bytes.
static MASKS: [u8; 128] = {
    let mut masks = [0; 128];
    let mut index = 64;
    while index < 128 {
        masks[index] = 0xFF;
        index += 1;
    }
    masks
};

/// The wrapping sums and the estimates of what they should be.
struct Lanes {
    wrapped: __m256i,
    estimate: __m256i,
}

impl Lanes {
    /// No bytes yet.
    const ZERO: Self = {
        // SAFETY: a vector is four 64-bit lanes of which every value is allowed.
        let wrapped = unsafe { core::mem::transmute::<[u64; 4], __m256i>([0; 4]) };
        // SAFETY: as above.
        let estimate = unsafe { core::mem::transmute::<[u64; 4], __m256i>([START; 4]) };
        Self { wrapped, estimate }
    };

    /// Adds a group of `2^(32 - SHIFT)` vectors.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn add<const SHIFT: i32>(self, group: Group) -> Self {
        Self {
            wrapped: _mm256_add_epi64(self.wrapped, group.sum),
            estimate: _mm256_add_epi64(self.estimate, _mm256_srli_epi64::<SHIFT>(group.mean)),
        }
    }

    /// Adds two groups of eight vectors, which count as one group of sixteen.
    ///
    /// # Safety
    /// Like [`load`], with 512 bytes.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    unsafe fn add_16<const COPY: bool>(self, dst: *mut u8, src: *const u8) -> Self {
        // SAFETY: the first 256 bytes.
        let first = unsafe { Group::of_8::<COPY>(dst, src) };
        let wrapped = in_register(_mm256_add_epi64(self.wrapped, first.sum));
        // SAFETY: the second 256 bytes.
        let second = unsafe { Group::of_8::<COPY>(dst.wrapping_add(256), src.wrapping_add(256)) };
        let mean = _mm256_avg_epu16(first.mean, second.mean);
        Self {
            wrapped,
            estimate: self.estimate,
        }
        .add::<28>(Group {
            sum: second.sum,
            mean,
        })
    }

    /// All lanes with their carries, as one number below 2⁵¹: the carries still weigh 2³² each.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn reduce(self) -> u64 {
        let high = _mm256_srli_epi64::<32>(self.wrapped);
        let excess = _mm256_sub_epi64(self.estimate, high);
        let carries_low = _mm256_blend_epi32::<0b1010_1010>(self.wrapped, excess);
        let lanes = _mm256_add_epi64(high, carries_low);
        let halves = _mm_add_epi64(
            _mm256_castsi256_si128(lanes),
            _mm256_extracti128_si256::<1>(lanes),
        );
        let sum = _mm_add_epi64(halves, _mm_unpackhi_epi64(halves, halves));
        _mm_cvtsi128_si64(sum) as u64
    }
}

/// Returns `vector`, which the compiler must have in a register here.
///
/// Without this it gathers the additions of a whole round at its end and spills what they add.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn in_register(vector: __m256i) -> __m256i {
    #[cfg(not(miri))]
    let vector = {
        let mut held = vector;
        // SAFETY: there is no instruction in it.
        unsafe {
            core::arch::asm!("/* {0} */", inout(ymm_reg) held, options(pure, nomem, nostack, preserves_flags));
        }
        held
    };
    vector
}

/// Sums at least 128 and at most `BLOCK + 128` bytes.
///
/// # Safety
/// Like [`copy_and_sum`], with `len >= 128`; without `COPY`, `dst` may be null.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn block<const COPY: bool>(dst: *mut u8, src: *const u8, len: usize) -> u64 {
    let even = len & !1;
    let end = (dst.wrapping_add(even), src.wrapping_add(even));
    let keep = len & 126;
    let mut lanes = Lanes::ZERO;
    if keep > 64 {
        // SAFETY: `len >= 128`, so 128 bytes lie before the end.
        lanes = lanes.add::<30>(unsafe { Group::last_masked::<COPY, 4>(end.0, end.1, keep) });
    } else if keep > 0 {
        // SAFETY: likewise.
        lanes = lanes.add::<31>(unsafe { Group::last_masked::<COPY, 2>(end.0, end.1, keep) });
    }
    let mut at = 0;
    while at < len & !(ROUND - 1) {
        // SAFETY: `at + 512 <= len`.
        lanes = unsafe { lanes.add_16::<COPY>(dst.wrapping_add(at), src.wrapping_add(at)) };
        at += ROUND;
    }
    if len & 256 != 0 {
        // SAFETY: the bits of `len` are taken from the highest down: `at + 256 <= len`.
        lanes = lanes
            .add::<29>(unsafe { Group::of_8::<COPY>(dst.wrapping_add(at), src.wrapping_add(at)) });
        at += 256;
    }
    if len & 128 != 0 {
        // SAFETY: likewise `at + 128 <= len`.
        lanes = lanes
            .add::<30>(unsafe { Group::of_4::<COPY>(dst.wrapping_add(at), src.wrapping_add(at)) });
    }
    let mut sum = lanes.reduce();
    if len & 1 != 0 {
        // SAFETY: `len` is odd.
        sum += unsafe { odd_byte::<COPY>(dst, src, len) };
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::Features;
    use crate::estimate::tests::worst_group;
    use crate::halfword;

    /// Sums data on which every average rounds up, in one block of any length.
    fn agrees(len: usize) -> bool {
        let mut bytes = worst_group(4, 32, 0x7FFF).repeat(len / ROUND + 1);
        bytes.truncate(len);
        // SAFETY: the processor has been asked, and the pointer is that of `len` bytes.
        let wide = unsafe { block::<false>(core::ptr::null_mut(), bytes.as_ptr(), len) };
        // SAFETY: the pointer is that of `len` bytes.
        Partial::from_ne_u64(wide) == unsafe { halfword::sum(bytes.as_ptr(), len) }
    }

    #[test]
    fn a_block_is_as_long_as_the_estimate_bears() {
        if !Features::detect().avx2 {
            return;
        }
        assert!(agrees(ROUND));
        assert!(agrees(BLOCK));
        assert!(agrees(BLOCK + 127));
        // A little more, and the carries are miscounted: the bound is not just a safe guess.
        assert!(!agrees(BLOCK + 4 * ROUND));
    }
}
