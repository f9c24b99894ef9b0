//! A memory file (memfd_create(2)) mapped into this process, to be shared with a child or between threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapping of a memory file, readable and writable, unmapped when dropped.
///
/// Whoever reads or writes it through [`SharedMemory::as_ptr`] has to agree with the other side on who may touch what
/// when; words that both touch at once must be atomics.
#[derive(Debug)]
pub struct SharedMemory {
    file: OwnedFd,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to no thread; it stays valid until the value is dropped, wherever that happens.
unsafe impl Send for SharedMemory {}
// SAFETY: through a shared reference the type itself only gives out its address and length.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes a file of `len` zero bytes and maps it. Its size is sealed, so that no holder can make the others fault.
    ///
    /// # Errors
    /// The error of the system; `len` 0 is refused.
    pub fn create(name: &str, len: usize) -> io::Result<Self> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(file, len)
    }

    /// Maps the whole of a file that another process or thread has made.
    ///
    /// # Errors
    /// The error of the system; a file shorter than `at_least` bytes is refused.
    pub fn open(file: OwnedFd, at_least: usize) -> io::Result<Self> {
        let len = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if len < at_least {
            let text = format!("shared memory has {len} bytes and {at_least} are needed");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Self::map(file, len)
    }

    fn map(file: OwnedFd, len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that exists.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                &file,
                0,
            )
        }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file, start, len })
    }

    /// The address of its beginning: at a page's start, zero bytes when fresh.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Tells whether it has no bytes at all, which no mapping has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `map` mapped, and nobody can hold a reference into it that outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn word(memory: &SharedMemory) -> &AtomicU64 {
        // SAFETY: the mapping starts at a page and has at least 8 bytes, which all mappings treat as an atomic.
        unsafe { memory.as_ptr().cast::<AtomicU64>().as_ref() }
    }

    #[test]
    fn two_mappings_of_one_file_are_one_memory() {
        let a = SharedMemory::create("tollgate-test", 4096).unwrap();
        let b = SharedMemory::open(a.as_fd().try_clone_to_owned().unwrap(), 4096).unwrap();
        assert_ne!(a.as_ptr(), b.as_ptr());
        word(&a).store(42, Ordering::Relaxed);
        assert_eq!(word(&b).load(Ordering::Relaxed), 42);
        drop(a);
        assert_eq!(word(&b).load(Ordering::Relaxed), 42);
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        let a = SharedMemory::create("tollgate-test", 4096).unwrap();
        let error = SharedMemory::open(a.as_fd().try_clone_to_owned().unwrap(), 4097).unwrap_err();
        assert_eq!(
            error.to_string(),
            "shared memory has 4096 bytes and 4097 are needed"
        );
    }

    #[test]
    fn the_size_is_sealed() {
        let a = SharedMemory::create("tollgate-test", 4096).unwrap();
        assert!(ftruncate(a.as_fd(), 0).is_err());
    }

    #[test]
    fn nothing_cannot_be_mapped() {
        assert!(SharedMemory::create("tollgate-test", 0).is_err());
    }
}
