//! The ring of one event: shared memory into which the kernel writes records (perf_event_open(2), "MMAP layout").
//!
//! It owns the mapping and the two positions. It never interprets a byte, and gives the mapping back when it is dropped.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of records in the smallest that is of use.
const SMALLEST: usize = 64 << 10;

/// The mapped ring of an event.
#[derive(Debug)]
pub(super) struct Ring {
    page: NonNull<perf_event_mmap_page>,
    mapped: usize,
    data_at: usize,
    data_len: usize,
}

// SAFETY: the mapping belongs to this value alone and is valid on every thread; the words that the kernel writes are only
// reached as atomics or behind them.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `bytes`, a power of two, or the largest below that this process is allowed.
    ///
    /// # Errors
    /// The system's error for the smallest ring.
    pub(super) fn map(event: impl AsFd, bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let mut data = bytes.next_power_of_two().max(page);
        loop {
            let mapped = page + data;
            // SAFETY: a new mapping at an address of the kernel's choice, which no other part of the program knows.
            let mapping = unsafe {
                mmap(
                    ptr::null_mut(),
                    mapped,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::SHARED,
                    event.as_fd(),
                    0,
                )
            };
            match mapping {
                Ok(at) => {
                    return Ok(Self {
                        page: NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?,
                        mapped,
                        data_at: page,
                        data_len: data,
                    });
                }
                // Locked memory is limited: kernel.perf_event_mlock_kb, RLIMIT_MEMLOCK.
                Err(_) if data / 2 >= SMALLEST.max(page) => data /= 2,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Bytes of records that fit.
    pub(super) fn capacity(&self) -> usize {
        self.data_len
    }

    /// Appends all that the kernel has written since the last call to `into`, and gives the room back.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        let head = self.word(offset_of!(perf_event_mmap_page, data_head));
        let tail = self.word(offset_of!(perf_event_mmap_page, data_tail));
        // Acquire: the records up to the head are written.
        let (end, start) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let len = usize::try_from(end.wrapping_sub(start))
            .unwrap_or(self.data_len)
            .min(self.data_len);
        let at = (start % self.data_len as u64) as usize;
        let first = len.min(self.data_len - at);
        self.copy(at, first, into);
        self.copy(0, len - first, into);
        // Release: the copies above are done.
        tail.store(end, Ordering::Release);
    }

    /// A word of the first page that both sides use.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset < self.data_at);
        // SAFETY: the offset is that of a field of the page, so within the mapping.
        let at = unsafe { self.page.as_ptr().cast::<u8>().add(offset) };
        // SAFETY: the mapping lives as long as `self`, and the fields are aligned to their 8 bytes.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }

    fn copy(&self, at: usize, len: usize, into: &mut Vec<u8>) {
        // SAFETY: the ring's bytes begin a page into the mapping, which is `data_at + data_len` long.
        let data = unsafe { self.page.as_ptr().cast::<u8>().add(self.data_at) };
        debug_assert!(at + len <= self.data_len);
        // SAFETY: `at` is below `data_len`, so this stays within the mapping.
        let from = unsafe { data.add(at) };
        // SAFETY: the kernel leaves bytes between tail and head alone, and no one else writes to the mapping.
        into.extend_from_slice(unsafe { std::slice::from_raw_parts(from, len) });
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and no reference into it outlives a call.
        let unmapped = unsafe { munmap(self.page.as_ptr().cast(), self.mapped) };
        // It only fails for addresses that are not mapped.
        debug_assert!(unmapped.is_ok());
    }
}
