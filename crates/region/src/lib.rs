//! The memory of a pool of frames: its own, or lent by a link that shares it with a device.
//!
//! A stack may not use `unsafe`, and a device wants memory that begins at a page. So whoever has such memory makes a [`Region`] of it,
//! and the pool sees bytes. This crate never reads or writes them, and never decides what lies where.
#![no_std]

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// Bytes that somebody may read and write as long as this lives.
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    origin: Origin,
}

/// Origin of the memory, which takes it back.
enum Origin {
    /// This region: it was a vector of this capacity.
    Own { capacity: usize },
    /// Whoever holds the value last.
    Lent(#[expect(dead_code, reason = "dropping it is its use")] Arc<dyn Any + Send + Sync>),
}

// SAFETY: the bytes are reached through this value alone, and the owner may go to another thread.
unsafe impl Send for Region {}
// SAFETY: a shared region gives shared bytes.
unsafe impl Sync for Region {}

impl Region {
    /// A region of its own, all zero. Memory that is not touched takes none of the machine's.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let mut bytes = ManuallyDrop::new(alloc::vec![0_u8; len]);
        Self {
            // SAFETY: the pointer of a vector is not null.
            start: unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) },
            len,
            origin: Origin::Own {
                capacity: bytes.capacity(),
            },
        }
    }

    /// A region of memory that `owner` keeps.
    ///
    /// # Safety
    /// The `len` initialised bytes from `start` can be read and written as long as `owner` lives. No other reference to them is
    /// made as long as the region lives. Where a device or another process writes to them, it writes only to bytes that nobody
    /// reads or writes through the region meanwhile.
    #[must_use]
    pub unsafe fn lent(start: NonNull<u8>, len: usize, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            start,
            len,
            origin: Origin::Lent(owner),
        }
    }

    /// Bytes of the region.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Tells whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Deref for Region {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are this region's own, or whoever has lent them vouches for them.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Region {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the region is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Origin::Own { capacity } = self.origin {
            // SAFETY: these are the parts of the vector that `zeroed` made, and nobody has taken them apart since.
            drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.len, capacity) });
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.origin {
            Origin::Own { .. } => "own",
            Origin::Lent(_) => "lent",
        };
        f.debug_struct("Region")
            .field("len", &self.len)
            .field("origin", &origin)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::format;
    use core::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn its_own_memory_is_zero_and_can_be_written() {
        let mut region = Region::zeroed(5_000);
        assert_eq!((region.len(), region.is_empty()), (5_000, false));
        assert!(region.iter().all(|byte| *byte == 0));
        region[4_999] = 7;
        region.copy_within(4_999..5_000, 0);
        assert_eq!(region[0], 7);
        assert!(Region::zeroed(0).is_empty());
        assert_eq!(
            format!("{region:?}"),
            "Region { len: 5000, origin: \"own\", .. }"
        );
    }

    #[test]
    fn lent_memory_lives_as_long_as_the_region_and_the_lender() {
        struct Lender {
            start: *mut [u8],
            returned: &'static AtomicBool,
        }
        // SAFETY: the pointer is only used to free the bytes.
        unsafe impl Send for Lender {}
        // SAFETY: as above.
        unsafe impl Sync for Lender {}
        impl Drop for Lender {
            fn drop(&mut self) {
                self.returned.store(true, Ordering::Relaxed);
                // SAFETY: the pointer is that of the leaked box, and no region is left.
                drop(unsafe { Box::from_raw(self.start) });
            }
        }
        static RETURNED: AtomicBool = AtomicBool::new(false);
        let start: *mut [u8] = Box::into_raw(Box::<[u8]>::from([1, 2, 3]));
        let lender = Arc::new(Lender {
            start,
            returned: &RETURNED,
        });
        let first = NonNull::new(start.cast::<u8>()).unwrap();
        // SAFETY: the lender frees the three bytes when the last holder is gone, and nobody else refers to them.
        let mut region = unsafe { Region::lent(first, 3, lender) };
        region[1] = 9;
        assert_eq!(region[..], [1, 9, 3]);
        assert!(!RETURNED.load(Ordering::Relaxed));
        drop(region);
        assert!(RETURNED.load(Ordering::Relaxed));
    }
}
