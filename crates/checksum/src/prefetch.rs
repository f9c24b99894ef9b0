//! Asking for memory ahead of a copy.
//!
//! A request that the processor may ignore: it changes nothing but how long the first access takes.

/// Asks for the cache line with the byte at `at`, which will be read or written soon. Any address may be asked for. Nothing
/// where there is no instruction for it.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and the instruction faults at no address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction faults at no address and changes neither memory nor flags.
    unsafe {
        core::arch::asm!(
            "prfm pstl1keep, [{at}]",
            at = in(reg) at,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::prefetch;

    #[test]
    fn any_address_may_be_asked_for() {
        let bytes = [7u8; 130];
        for offset in 0..=bytes.len() {
            prefetch(bytes.as_ptr().wrapping_add(offset));
        }
        prefetch(core::ptr::null());
        prefetch(core::ptr::without_provenance(usize::MAX));
        assert_eq!(bytes, [7; 130]);
    }
}
