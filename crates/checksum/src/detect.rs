//! Detection of the kernels that this processor can run, without `std`.
//!
//! Features that the build's target promises are not asked for again. On x86 the rest is CPUID, and XGETBV for
//! whether the operating system saves the wide registers. CPUID may leave the virtual machine, which costs
//! microseconds, so a program asks once.

/// The vector extensions that the kernels want.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Features {
    /// AVX2, BMI2 and the operating system's support.
    pub avx2: bool,
    /// AVX-512 F, BW and VL, and the operating system's support.
    pub avx512: bool,
    /// Advanced SIMD, which every aarch64 target of Rust with an FPU has.
    pub neon: bool,
}

impl Features {
    /// Features that the build promises.
    const BUILD: Self = Self {
        avx2: cfg!(all(target_feature = "avx2", target_feature = "bmi2")),
        avx512: cfg!(all(
            target_feature = "avx512f",
            target_feature = "avx512bw",
            target_feature = "avx512vl",
            target_feature = "bmi2"
        )),
        neon: cfg!(all(target_arch = "aarch64", target_feature = "neon")),
    };

    /// Features that the build promises or the processor reports.
    pub(crate) fn detect() -> Self {
        let build = Self::BUILD;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if !build.avx2 || !build.avx512 {
            let cpu = x86::remembered();
            return Self {
                avx2: build.avx2 || cpu.avx2,
                avx512: build.avx512 || cpu.avx512,
                neon: false,
            };
        }
        build
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    use core::sync::atomic::{AtomicU8, Ordering};

    use super::Features;

    const OSXSAVE: u32 = 1 << 27; // leaf 1, ECX
    const AVX: u32 = 1 << 28; // leaf 1, ECX
    const AVX2: u32 = 1 << 5; // leaf 7, EBX, as all below
    const BMI2: u32 = 1 << 8;
    const AVX512F: u32 = 1 << 16;
    const AVX512BW: u32 = 1 << 30;
    const AVX512VL: u32 = 1 << 31;
    /// XCR0: the operating system saves XMM and YMM.
    const YMM_STATE: u64 = 0b110;
    /// XCR0: also the mask registers and both parts of ZMM.
    const ZMM_STATE: u64 = 0b1110_0110;

    /// The answer of the processor: [`ASKED`] and what it has; 0 before it was asked.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    const ASKED: u8 = 1;
    const HAS_AVX2: u8 = 1 << 1;
    const HAS_AVX512: u8 = 1 << 2;

    /// Asks the processor once in a program. Threads that ask at
    /// once get the same answer, so no order between them matters.
    pub(super) fn remembered() -> Features {
        let mut answer = ANSWER.load(Ordering::Relaxed);
        if answer == 0 {
            let found = detect();
            answer = ASKED;
            answer |= if found.avx2 { HAS_AVX2 } else { 0 };
            answer |= if found.avx512 { HAS_AVX512 } else { 0 };
            ANSWER.store(answer, Ordering::Relaxed);
        }
        Features {
            avx2: answer & HAS_AVX2 != 0,
            avx512: answer & HAS_AVX512 != 0,
            neon: false,
        }
    }

    fn detect() -> Features {
        if __cpuid(0).eax < 7 {
            return Features::default();
        }
        let first = __cpuid(1).ecx;
        if first & (OSXSAVE | AVX) != OSXSAVE | AVX {
            return Features::default();
        }
        let seventh = __cpuid_count(7, 0).ebx;
        // SAFETY: CPUID says OSXSAVE, so XGETBV exists and XCR0 may be read.
        let state = unsafe { xcr0() };
        let has = |bits: u32, saved: u64| seventh & bits == bits && state & saved == saved;
        Features {
            avx2: has(AVX2 | BMI2, YMM_STATE),
            avx512: has(AVX512F | AVX512BW | AVX512VL | BMI2, ZMM_STATE),
            neon: false,
        }
    }

    /// # Safety
    /// The processor must have XGETBV, which CPUID's OSXSAVE says.
    #[target_feature(enable = "xsave")]
    unsafe fn xcr0() -> u64 {
        // SAFETY: the caller vouches for the instruction; register 0 always exists with it.
        unsafe { _xgetbv(0) }
    }

    #[cfg(test)]
    mod tests {
        /// The standard library asks the same questions in its own way.
        #[test]
        fn agrees_with_std() {
            let features = super::detect();
            for _ in 0..2 {
                assert_eq!(super::remembered(), features);
            }
            let avx2 = std::is_x86_feature_detected!("avx2");
            assert_eq!(features.avx2, avx2 && std::is_x86_feature_detected!("bmi2"));
            let avx512 = std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512vl");
            assert_eq!(
                features.avx512,
                avx512 && std::is_x86_feature_detected!("bmi2")
            );
        }
    }
}
