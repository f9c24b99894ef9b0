//! The Internet checksum: sum, copy-and-sum, combine and update; the CRCs of ATM ([`crc`]).
//!
//! Owns the arithmetic of RFC 1071 and RFC 1624 ([`Partial`], [`Checksum`]) and the kernels that
//! sum bytes fast, with or without copying them in the same pass ([`Kernel`]). It allocates
//! nothing, keeps no state and never panics; which kernel runs is the caller's choice, made
//! once and carried along.
//!
//! A new kernel is a file with a `sum` and a `copy_and_sum`, and an entry in [`Kernel::all`].
//!
//! ```
//! use tollgate_checksum::{Kernel, sum_header};
//!
//! let header = [0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 6, 0xb1, 0xe6, 172, 16, 10, 99, 172, 16, 10, 12];
//! assert!(sum_header(&header).is_valid());
//!
//! let kernel = Kernel::best();
//! let mut copy = [0; 20];
//! assert_eq!(kernel.copy_and_sum(&mut copy, &header), kernel.sum(&header));
//! assert_eq!(copy, header);
//! ```

#![no_std]

#[cfg(test)]
extern crate std;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod copy_only;
pub mod crc;
mod detect;
#[cfg(target_arch = "x86_64")]
mod estimate;
mod halfword;
#[cfg(target_arch = "aarch64")]
mod neon;
mod partial;
mod prefetch;
mod scalar;
mod separate;
mod unrolled;

use core::{fmt, ptr};

use detect::Features;
pub use partial::{Accumulator, Checksum, Partial};
pub use prefetch::prefetch;

/// Sums a header of 20 to 60 bytes (any length is correct) without a call or a choice of kernel.
///
/// With a length that the compiler knows, it is one add-with-carry for every eight bytes.
#[inline(always)]
#[must_use]
pub fn sum_header(bytes: &[u8]) -> Partial {
    let mut sum = 0;
    let (blocks, rest) = bytes.as_chunks::<64>();
    for block in blocks {
        // SAFETY: eight words are the 64 bytes of the block; nothing is copied.
        sum = unsafe { scalar::words::<false, 8>(sum, ptr::null_mut(), block.as_ptr()) };
    }
    // SAFETY: what is left is shorter than 64 bytes; nothing is copied.
    Partial::from_ne_u64(unsafe {
        scalar::short::<false>(sum, ptr::null_mut(), rest.as_ptr(), rest.len())
    })
}

/// One way to sum bytes, with or without copying them; every kernel but [`COPY_ONLY`](Kernel::COPY_ONLY) and
/// [`NOTHING`](Kernel::NOTHING) gives the same sums.
///
/// A value exists only for a kernel that this processor can run.
#[derive(Clone, Copy)]
pub struct Kernel {
    name: &'static str,
    /// Sums `len` bytes. To be called only with a pointer valid for reading them.
    sum: unsafe fn(src: *const u8, len: usize) -> Partial,
    /// Fewer bytes than this are left to [`scalar::short`]: 128 at most, 0 for a kernel that has its own way with them.
    few: usize,
    /// Copies and sums `len` bytes. To be called only with pointers valid for that, which do
    /// not overlap.
    copy_and_sum: unsafe fn(dst: *mut u8, src: *const u8, len: usize) -> Accumulator,
}

impl Kernel {
    /// The papers' baseline: a loop over 16-bit words.
    pub const HALFWORD: Self = Self {
        name: "halfword",
        sum: halfword::sum,
        few: 0,
        copy_and_sum: halfword::copy_and_sum,
    };

    /// No checksum: copies, and says zero of every sum. Not among [`all`](Self::all), since its sums are not the others'.
    pub const COPY_ONLY: Self = Self {
        name: "copy_only",
        sum: copy_only::sum,
        few: 0,
        copy_and_sum: copy_only::copy_and_sum,
    };

    /// No copy either: leaves the bytes where they are, and says zero of every sum. For callers whose bytes are copied elsewhere.
    pub const NOTHING: Self = Self {
        name: "nothing",
        sum: copy_only::sum,
        few: 0,
        copy_and_sum: copy_only::nothing,
    };

    /// 64-bit words in four chains; the best without vector instructions.
    pub const UNROLLED: Self = Self {
        name: "unrolled",
        sum: unrolled::sum,
        few: 128,
        copy_and_sum: unrolled::copy_and_sum,
    };

    #[cfg(target_arch = "x86_64")]
    const AVX2: Self = Self {
        name: "avx2",
        sum: avx2::sum,
        few: 128,
        copy_and_sum: avx2::copy_and_sum,
    };

    #[cfg(target_arch = "x86_64")]
    const AVX512: Self = Self {
        name: "avx512",
        sum: avx512::sum,
        few: 128,
        copy_and_sum: avx512::copy_and_sum,
    };

    #[cfg(target_arch = "aarch64")]
    const NEON: Self = Self {
        name: "neon",
        sum: neon::sum,
        few: 128,
        copy_and_sum: neon::copy_and_sum,
    };

    /// The fastest kernel that this processor can run.
    #[must_use]
    pub fn best() -> Self {
        Self::all().last().unwrap_or(Self::UNROLLED)
    }

    /// The kernels that this processor can run, from the slowest to the fastest.
    pub fn all() -> impl Iterator<Item = Self> {
        let features = Features::detect();
        [
            Some(Self::HALFWORD),
            Some(Self::UNROLLED),
            #[cfg(target_arch = "x86_64")]
            features.avx2.then_some(Self::AVX2),
            #[cfg(target_arch = "x86_64")]
            features.avx512.then_some(Self::AVX512),
            #[cfg(target_arch = "aarch64")]
            features.neon.then_some(Self::NEON),
        ]
        .into_iter()
        .flatten()
    }

    /// The kernel of that name, if it exists and this processor can run it.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|kernel| kernel.name == name)
    }

    /// The kernel that copies first and sums the copy then, in two passes, with the same sum.
    #[must_use]
    pub fn separate(self) -> Self {
        let copy_and_sum = match self.name {
            "halfword" => separate::halfword,
            "unrolled" => separate::unrolled,
            #[cfg(target_arch = "x86_64")]
            "avx2" => separate::avx2,
            #[cfg(target_arch = "x86_64")]
            "avx512" => separate::avx512,
            #[cfg(target_arch = "aarch64")]
            "neon" => separate::neon,
            // What sums nothing has one pass in any case.
            _ => return self,
        };
        Self {
            copy_and_sum,
            few: 0,
            ..self
        }
    }

    /// The kernel's name: `halfword`, `unrolled`, `avx2`, `avx512` or `neon`, or `copy_only`.
    #[inline]
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sums `bytes`, of any length and alignment, as if they start at an even offset.
    #[inline]
    #[must_use]
    pub fn sum(&self, bytes: &[u8]) -> Partial {
        // SAFETY: the slice is valid for reading its length.
        unsafe { (self.sum)(bytes.as_ptr(), bytes.len()) }
    }

    /// Copies `src` to `dst` and sums it, in one pass.
    ///
    /// Both should have the same length. If they have not, that is an error which a debug build
    /// stops at; otherwise as many bytes are copied and summed as the shorter one has.
    #[inline]
    #[must_use]
    pub fn copy_and_sum(&self, dst: &mut [u8], src: &[u8]) -> Partial {
        self.copy_and_accumulate(dst, src).narrow()
    }

    /// Like [`copy_and_sum`](Self::copy_and_sum), for a sum to which more is added before it is folded.
    #[inline]
    #[must_use]
    pub fn copy_and_accumulate(&self, dst: &mut [u8], src: &[u8]) -> Accumulator {
        debug_assert_eq!(dst.len(), src.len());
        let len = dst.len().min(src.len());
        // SAFETY: both slices have at least `len` bytes; a `&mut` overlaps with nothing.
        unsafe { (self.copy_and_sum)(dst.as_mut_ptr(), src.as_ptr(), len) }
    }

    /// Tells whether [`copy_and_sum_few`](Self::copy_and_sum_few) takes so many bytes.
    #[inline(always)]
    #[must_use]
    pub fn takes_as_few(&self, len: usize) -> bool {
        len < self.few
    }

    /// Like [`copy_and_sum`](Self::copy_and_sum) when there are so few bytes that the kernel has no loop for them: what it does
    /// then stands in the caller's place, which is larger for it and saves the call. Nothing, and nothing done, when there are
    /// more.
    #[inline(always)]
    #[must_use]
    pub fn copy_and_sum_few(&self, dst: &mut [u8], src: &[u8]) -> Option<Accumulator> {
        debug_assert_eq!(dst.len(), src.len());
        let len = dst.len().min(src.len());
        if !self.takes_as_few(len) {
            return None;
        }
        // SAFETY: both slices have at least `len` bytes, which are fewer than 128; a `&mut` overlaps with nothing.
        Some(Accumulator(unsafe {
            scalar::short::<true>(0, dst.as_mut_ptr(), src.as_ptr(), len)
        }))
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(&self.name).finish()
    }
}
