//! Copy and sum in two passes: what the integrated kernels are measured against.
//!
//! The copy is the standard library's, and the sum that of a kernel, over the copy: it finds the bytes in the cache as far as
//! they fit (ULTRIX and the optimised checksum of Wolman et al. 1994, Table 5; Foong et al. 2003, 3.1). It must never fall
//! back on a kernel's integrated loop, not even for few bytes.

use core::ptr;

use crate::Accumulator;

macro_rules! separate {
    ($($(#[$cfg:meta])? $name:ident,)+) => {
        $(
            /// Copies `len` bytes from `src` to `dst`, then sums the copy.
            ///
            /// # Safety
            /// `src` must be valid for reading and `dst` for writing `len` bytes; they must not overlap. The processor must be
            /// able to run the kernel.
            $(#[$cfg])?
            pub(crate) unsafe fn $name(dst: *mut u8, src: *const u8, len: usize) -> Accumulator {
                // SAFETY: the caller vouches for both.
                unsafe { ptr::copy_nonoverlapping(src, dst, len) };
                // SAFETY: the caller vouches for `dst` and for the processor.
                unsafe { crate::$name::sum(dst, len) }.into()
            }
        )+
    };
}

separate! {
    halfword,
    unrolled,
    #[cfg(target_arch = "x86_64")] avx2,
    #[cfg(target_arch = "x86_64")] avx512,
    #[cfg(target_arch = "aarch64")] neon,
}
