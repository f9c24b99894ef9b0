//! The memory of a pool that the kernel reads and writes as well (UMEM): whole pages of this process.

use crate::interface::OpenError;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::NonNull;
use std::sync::Arc;
use tollgate_region::Region;
use tollgate_stack::buffer::Pool;

/// Pages that the pool and the sockets share. They are unmapped when both have gone.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value is an address and a length; the bytes are reached through the pool's region alone.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory for `frames` frames, and the pool in it.
    pub(super) fn new(frames: usize, frame_size: usize) -> Result<(Arc<Self>, Pool), OpenError> {
        let len = (frames * frame_size).next_multiple_of(rustix::param::page_size());
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let mapping = OpenError::while_doing("mapping memory for the pool");
        let start = start.map_err(mapping)?;
        let start = NonNull::new(start.cast()).ok_or_else(|| mapping(rustix::io::Errno::FAULT))?;
        let memory = Arc::new(Self { start, len });
        // SAFETY: the mapping is readable, writable, zero, and lives as long as the last holder of `memory`. This is its only
        // region. The kernel writes to frames whose count the link holds, of which nobody else has one.
        let region = unsafe { Region::lent(start, len, Arc::clone(&memory) as _) };
        Ok((memory, Pool::in_region(region, frame_size)))
    }

    /// The address and the length, for the kernel.
    pub(super) fn parts(&self) -> (u64, u64) {
        (self.start.as_ptr().addr() as u64, self.len as u64)
    }

    /// Tells whether a pool is the one in this memory.
    pub(super) fn is_of(&self, pool: &mut Pool) -> bool {
        std::ptr::eq(pool.start_of_region(), self.start.as_ptr())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and neither a region nor a socket is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
