//! Ones-complement sums in 64-bit registers: the pieces that the kernels share.
//!
//! 2⁶⁴ − 1 is a multiple of 2¹⁶ − 1, so 64-bit words are summed with end-around carry as if
//! they were four 16-bit words each (RFC 1071 section 2(C)), at one add-with-carry for every
//! eight bytes. Every function is generic over `COPY`: with it, what is read from `src` is
//! written to `dst` on the way; without it, `dst` is never touched and may be null.

use core::ptr;

/// A running sum modulo 2⁶⁴ − 1 with the last carry still to be added.
///
/// While the carry is set, `sum` is at most 2⁶⁴ − 2: at the start there is no carry, and
/// (2⁶⁴ − 2) + 1 + (2⁶⁴ − 1) leaves 2⁶⁴ − 2 and a carry. So the carry can always be added.
#[derive(Clone, Copy)]
struct Chain {
    sum: u64,
    carry: bool,
}

impl Chain {
    #[inline(always)]
    fn new(sum: u64) -> Self {
        Self { sum, carry: false }
    }

    #[inline(always)]
    fn word(self, word: u64) -> Self {
        let (sum, carry) = self.sum.carrying_add(word, self.carry);
        Self { sum, carry }
    }

    #[inline(always)]
    fn settle(self) -> u64 {
        self.sum.wrapping_add(u64::from(self.carry))
    }
}

/// The sum of two sums modulo 2⁶⁴ − 1.
#[inline(always)]
pub(crate) fn add(a: u64, b: u64) -> u64 {
    Chain::new(a).word(b).settle()
}

/// Adds the `8 * WORDS` bytes at `src` to `sum`.
///
/// # Safety
/// `src` must be valid for reading that many bytes; with `COPY`, `dst` for writing as many.
#[inline(always)]
pub(crate) unsafe fn words<const COPY: bool, const WORDS: usize>(
    sum: u64,
    dst: *mut u8,
    src: *const u8,
) -> u64 {
    if COPY {
        // SAFETY: the caller vouches for both.
        unsafe { ptr::copy_nonoverlapping(src, dst, 8 * WORDS) };
    }
    let mut chain = Chain::new(sum);
    for index in 0..WORDS {
        // SAFETY: the word lies within the `8 * WORDS` bytes that the caller vouches for.
        chain = chain.word(unsafe { src.wrapping_add(8 * index).cast::<u64>().read_unaligned() });
    }
    chain.settle()
}

/// The last `len` of a word's `size` bytes, moved to its start, zeros behind them.
#[inline(always)]
fn last_bytes(word: u64, size: usize, len: usize) -> u64 {
    let shift = 8 * (size - len) as u32;
    if cfg!(target_endian = "little") {
        word >> shift
    } else {
        word << shift
    }
}

/// Adds to `sum` the last `len & 7` bytes of `len`, which is at least 8.
///
/// # Safety
/// `src` must be valid for reading `len` bytes and `len` at least 8; with `COPY`, `dst` for
/// writing as many, and the bytes before the last eight already copied or still to be.
#[inline(always)]
unsafe fn last_partial_word<const COPY: bool>(
    sum: u64,
    dst: *mut u8,
    src: *const u8,
    len: usize,
) -> u64 {
    // SAFETY: `len >= 8`, so the last eight bytes lie within.
    let word = unsafe { src.wrapping_add(len - 8).cast::<u64>().read_unaligned() };
    if COPY {
        // SAFETY: as above, for `dst`.
        unsafe {
            dst.wrapping_add(len - 8)
                .cast::<u64>()
                .write_unaligned(word)
        };
    }
    add(sum, last_bytes(word, 8, len & 7))
}

/// Adds fewer than 8 bytes to `sum`.
///
/// # Safety
/// `src` must be valid for reading `len` bytes; with `COPY`, `dst` for writing as many.
#[inline(always)]
unsafe fn fewer_than_8<const COPY: bool>(dst: *mut u8, src: *const u8, len: usize) -> u64 {
    if len >= 4 {
        // SAFETY: the first four of `len >= 4` bytes.
        let first = unsafe { src.cast::<u32>().read_unaligned() };
        // SAFETY: the last four of them.
        let last = unsafe { src.wrapping_add(len - 4).cast::<u32>().read_unaligned() };
        if COPY {
            // SAFETY: as for `first`.
            unsafe { dst.cast::<u32>().write_unaligned(first) };
            // SAFETY: as for `last`.
            unsafe {
                dst.wrapping_add(len - 4)
                    .cast::<u32>()
                    .write_unaligned(last)
            };
        }
        let last = last_bytes(u64::from(last), 4, len - 4);
        // Cuts off what a big-endian shift pushed out of the lower half.
        return u64::from(first) + u64::from(last as u32);
    }
    let mut sum = 0;
    if len & 2 != 0 {
        // SAFETY: `len >= 2`.
        let word = unsafe { src.cast::<u16>().read_unaligned() };
        if COPY {
            // SAFETY: as above, for `dst`.
            unsafe { dst.cast::<u16>().write_unaligned(word) };
        }
        sum = u64::from(word);
    }
    if len & 1 != 0 {
        // SAFETY: `len >= 1`.
        sum += unsafe { odd_byte::<COPY>(dst, src, len) };
    }
    sum
}

/// The sum of the last of `len` bytes, `len` being odd, padded with a zero byte behind it.
///
/// # Safety
/// `len` must be odd and `src` valid for reading `len` bytes; with `COPY`, `dst` for writing
/// as many.
#[inline(always)]
pub(crate) unsafe fn odd_byte<const COPY: bool>(dst: *mut u8, src: *const u8, len: usize) -> u64 {
    // SAFETY: `len` is odd, hence at least 1.
    let byte = unsafe { src.wrapping_add(len - 1).read() };
    if COPY {
        // SAFETY: as above, for `dst`.
        unsafe { dst.wrapping_add(len - 1).write(byte) };
    }
    u64::from(u16::from_ne_bytes([byte, 0]))
}

/// Adds fewer than 128 bytes to `sum`, copying them with `COPY`.
///
/// # Safety
/// `src` must be valid for reading `len < 128` bytes; with `COPY`, `dst` for writing as many,
/// and they must not overlap.
#[inline(always)]
pub(crate) unsafe fn short<const COPY: bool>(
    mut sum: u64,
    mut dst: *mut u8,
    mut src: *const u8,
    mut len: usize,
) -> u64 {
    if len & 64 != 0 {
        // SAFETY: `len >= 64`.
        sum = unsafe { words::<COPY, 8>(sum, dst, src) };
        if len == 64 {
            return sum;
        }
        src = src.wrapping_add(64);
        dst = dst.wrapping_add(64);
        len -= 64;
    }
    if len < 8 {
        // SAFETY: the caller vouches for `len` bytes.
        return add(sum, unsafe { fewer_than_8::<COPY>(dst, src, len) });
    }
    let mut at = 0;
    if len & 32 != 0 {
        // SAFETY: the bits of `len` are taken from the highest down: `at + 32 <= len`.
        sum = unsafe { words::<COPY, 4>(sum, dst, src) };
        at = 32;
    }
    if len & 16 != 0 {
        // SAFETY: likewise `at + 16 <= len`.
        sum = unsafe { words::<COPY, 2>(sum, dst.wrapping_add(at), src.wrapping_add(at)) };
        at += 16;
    }
    if len & 8 != 0 {
        // SAFETY: likewise `at + 8 <= len`.
        sum = unsafe { words::<COPY, 1>(sum, dst.wrapping_add(at), src.wrapping_add(at)) };
    }
    if len & 7 != 0 {
        // SAFETY: `len >= 8`.
        sum = unsafe { last_partial_word::<COPY>(sum, dst, src, len) };
    }
    sum
}
