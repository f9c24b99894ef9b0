//! An allocator that puts large tables into huge pages.
//!
//! A stack with many connections reaches its tables (TCBs, frames and their records) at random. In pages of 4 KiB they are
//! more than a processor's TLB holds, and each round trip then walks the page tables several times. Where the kernel gives
//! huge pages to those who ask (`/sys/kernel/mm/transparent_hugepage/enabled` says `madvise` or `always`), this asks;
//! where it does not, large allocations are mappings as usual.
//!
//! ```
//! use tollgate_workload::huge_pages::HugePages;
//!
//! #[global_allocator]
//! static ALLOCATOR: HugePages = HugePages;
//! # fn main() { assert!(vec![7u8; 3 << 20].iter().all(|octet| *octet == 7)) }
//! ```
//!
//! It must never touch memory that it gives out, so that what is reserved costs nothing until it is used.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

/// Octets of a huge page, on x86-64 and on AArch64 with pages of 4 KiB.
const HUGE: usize = 2 << 20;
/// Allocations from here on are mappings of their own, in whole huge pages.
const LARGE: usize = HUGE / 2;

/// The system's allocator for what is small, mappings aligned to huge pages for what is large: from 1 MiB on.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePages;

impl HugePages {
    /// Octets of the mapping for `layout`, when it gets one.
    fn mapping(layout: Layout) -> Option<usize> {
        let large = layout.size() >= LARGE && layout.align() <= HUGE;
        // A layout's size is at most isize::MAX, so this does not overflow.
        large.then(|| layout.size().next_multiple_of(HUGE))
    }
}

// SAFETY: what is small is the system allocator's, which fulfils the contract. What is large is a private mapping of at least
// the layout's size, aligned to a huge page, which is at least the layout's alignment, and nobody else's until it is unmapped.
// Which of the two it is follows from the layout alone, so `dealloc` decides as `alloc` did. Nothing here unwinds.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Self::mapping(layout) {
            Some(len) => map(len).unwrap_or(ptr::null_mut()),
            // SAFETY: the caller vouches for the layout.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match Self::mapping(layout) {
            // A new mapping is zero.
            Some(len) => map(len).unwrap_or(ptr::null_mut()),
            // SAFETY: the caller vouches for the layout.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        match Self::mapping(layout) {
            // SAFETY: it was mapped by `alloc` with this length, and the caller does not use it any more.
            Some(len) => unsafe { unmap(at, len) },
            // SAFETY: it was allocated by the system's allocator under this layout, as the caller vouches.
            None => unsafe { System.dealloc(at, layout) },
        }
    }
}

/// Maps `len` octets, a multiple of [`HUGE`], at a multiple of [`HUGE`].
fn map(len: usize) -> Option<*mut u8> {
    // As much more as it takes to find such a place in it.
    let mapped = len.checked_add(HUGE)?;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping where the kernel likes changes no memory that anybody uses.
    let start = unsafe { libc::mmap(ptr::null_mut(), mapped, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let before = start.align_offset(HUGE);
    let at = start.wrapping_add(before);
    let behind = HUGE - before;
    if before > 0 {
        // SAFETY: the mapping's first octets, in front of what is given out.
        unsafe { unmap(start, before) };
    }
    if behind > 0 {
        // SAFETY: the mapping's last octets, behind what is given out.
        unsafe { unmap(at.wrapping_add(len), behind) };
    }
    // SAFETY: advice on a mapping of our own changes nothing in it. A kernel without huge pages refuses, and that is all.
    unsafe { libc::madvise(at.cast(), len, libc::MADV_HUGEPAGE) };
    Some(at)
}

/// Gives `len` octets at `at` back.
///
/// # Safety
/// They are part of a mapping of [`map`], in whole pages, and nobody uses them any more.
unsafe fn unmap(at: *mut u8, len: usize) {
    // SAFETY: the caller vouches for it.
    let result = unsafe { libc::munmap(at.cast(), len) };
    debug_assert_eq!(
        result, 0,
        "a part of a mapping of ours cannot be given back"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives it back when it goes.
    struct Block(*mut u8, Layout);

    impl Block {
        fn new(size: usize, align: usize) -> Self {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: the layout is not empty.
            let at = unsafe { HugePages.alloc_zeroed(layout) };
            assert!(!at.is_null());
            Self(at, layout)
        }

        fn octets(&mut self) -> &mut [u8] {
            // SAFETY: as many octets as were allocated, initialised to zero, borrowed as long as the block.
            unsafe { std::slice::from_raw_parts_mut(self.0, self.1.size()) }
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: allocated under this layout.
            unsafe { HugePages.dealloc(self.0, self.1) };
        }
    }

    #[test]
    fn blocks_are_zero_aligned_and_their_owners() {
        let sizes = [
            1,
            4096,
            LARGE - 1,
            LARGE,
            HUGE - 1,
            HUGE,
            HUGE + 1,
            5 * HUGE + 3,
        ];
        let mut blocks: Vec<Block> = sizes.map(|size| Block::new(size, 64)).into();
        for (n, block) in blocks.iter_mut().enumerate() {
            let align = if sizes[n] < LARGE { 64 } else { HUGE };
            assert_eq!(block.0.addr() % align, 0);
            assert!(block.octets().iter().all(|octet| *octet == 0));
            block.octets().fill(n as u8 + 1);
        }
        for (n, block) in blocks.iter_mut().enumerate() {
            assert!(block.octets().iter().all(|octet| *octet == n as u8 + 1));
        }
    }

    #[test]
    fn a_block_grows_and_shrinks_over_the_border_with_its_octets() {
        let mut block = Block::new(LARGE - 64, 64);
        block.octets().fill(7);
        for size in [3 * HUGE, 100, LARGE] {
            let kept = size.min(block.1.size());
            let layout = Layout::from_size_align(size, 64).unwrap();
            // SAFETY: allocated under this layout, and the new size is not zero; the old pointer is forgotten.
            let at = unsafe { HugePages.realloc(block.0, block.1, size) };
            assert!(!at.is_null());
            block.0 = at;
            block.1 = layout;
            // Behind what was kept nothing is initialised.
            // SAFETY: the first `kept` octets are those of before.
            let octets = unsafe { std::slice::from_raw_parts(block.0, kept) };
            assert!(octets.iter().take(100).all(|octet| *octet == 7));
        }
    }

    #[test]
    fn more_than_there_is_gives_null() {
        let layout = Layout::from_size_align(isize::MAX as usize - HUGE, 1).unwrap();
        // SAFETY: the layout is not empty.
        assert!(unsafe { HugePages.alloc(layout) }.is_null());
    }
}
