//! The rings of an XDP socket: memory that is shared with the kernel, one producer and one consumer each (the kernel's
//! networking/af_xdp, "Rings").
//!
//! An index counts entries for ever and goes round at 2^32; its place is the index modulo the ring's size. The producer writes
//! entries and then its index (release); the consumer reads the index (acquire) and then entries.

use libc::xdp_ring_offset;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// An entry: an address in the pool's memory, or a descriptor of a frame.
///
/// # Safety
/// Every bit pattern is a value.
pub(super) unsafe trait Entry: Copy {}
// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: three integers.
unsafe impl Entry for libc::xdp_desc {}

/// A mapped ring.
#[derive(Debug)]
struct Ring<T> {
    start: NonNull<u8>,
    len: usize,
    offsets: [usize; 4],
    mask: u32,
    entries: PhantomData<T>,
}

// SAFETY: the mapping belongs to this value alone; what the kernel shares is reached by atomics, and by entries that are its turn's.
unsafe impl<T: Send> Send for Ring<T> {}

/// Places in `offsets`.
const PRODUCER: usize = 0;
const CONSUMER: usize = 1;
const FLAGS: usize = 2;
const ENTRIES: usize = 3;

impl<T: Entry> Ring<T> {
    /// Maps a ring of `size` entries, a power of two, that lies at `at` of a socket.
    fn map(
        socket: impl AsFd,
        at: u64,
        offsets: &xdp_ring_offset,
        size: u32,
    ) -> Result<Self, Errno> {
        let offsets = [
            offsets.producer,
            offsets.consumer,
            offsets.flags,
            offsets.desc,
        ]
        .map(|offset| offset as usize);
        let len = offsets[ENTRIES] + size as usize * size_of::<T>();
        let fits = offsets[..ENTRIES]
            .iter()
            .all(|at| at % align_of::<AtomicU32>() == 0 && at + size_of::<AtomicU32>() <= len);
        if !fits || offsets[ENTRIES] % align_of::<T>() != 0 || !size.is_power_of_two() {
            return Err(Errno::PROTO);
        }
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                socket,
                at,
            )
        }?;
        Ok(Self {
            start: NonNull::new(start.cast()).ok_or(Errno::FAULT)?,
            len,
            offsets,
            mask: size - 1,
            entries: PhantomData,
        })
    }

    #[inline(always)]
    fn word(&self, which: usize) -> &AtomicU32 {
        // SAFETY: the word lies within the mapping, as `map` has seen to.
        let at = unsafe { self.start.add(self.offsets[which]) };
        // SAFETY: it is aligned, and everybody who shares it reaches it atomically.
        unsafe { at.cast::<AtomicU32>().as_ref() }
    }

    #[inline(always)]
    fn entry(&self, index: u32) -> NonNull<T> {
        let place = (index & self.mask) as usize;
        // SAFETY: the entries begin within the mapping.
        let first = unsafe { self.start.add(self.offsets[ENTRIES]) }.cast::<T>();
        // SAFETY: the place is below the number of entries, for which the mapping has room.
        unsafe { first.add(place) }
    }

    fn wants_wakeup(&self) -> bool {
        self.word(FLAGS).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives the ring.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A ring that we write to: the fill ring, and that of frames to be sent.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Index of the next entry.
    next: u32,
}

impl<T: Entry> Producer<T> {
    /// See [`Ring::map`].
    pub(super) fn map(
        socket: impl AsFd,
        at: u64,
        offsets: &xdp_ring_offset,
        size: u32,
    ) -> Result<Self, Errno> {
        let ring = Ring::map(socket, at, offsets, size)?;
        let next = ring.word(PRODUCER).load(Ordering::Relaxed);
        Ok(Self { ring, next })
    }

    /// Entries that the other side has not taken yet, those that are not published among them.
    pub(super) fn waiting(&self) -> u32 {
        let taken = self.ring.word(CONSUMER).load(Ordering::Acquire);
        self.next.wrapping_sub(taken)
    }

    /// Writes an entry, if there is room; the other side sees it once it is published.
    #[must_use]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.waiting() > self.ring.mask {
            return false;
        }
        // SAFETY: the place was taken by the consumer, or never written; it is ours until the index is published.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the other side what was pushed.
    pub(super) fn publish(&self) {
        self.ring.word(PRODUCER).store(self.next, Ordering::Release);
    }

    /// Tells whether the kernel asks to be woken for what is in the ring.
    pub(super) fn wants_wakeup(&self) -> bool {
        self.ring.wants_wakeup()
    }
}

/// A ring that we read: that of frames that have arrived, and that of frames that were sent.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Index of the next entry.
    next: u32,
}

impl<T: Entry> Consumer<T> {
    /// See [`Ring::map`].
    pub(super) fn map(
        socket: impl AsFd,
        at: u64,
        offsets: &xdp_ring_offset,
        size: u32,
    ) -> Result<Self, Errno> {
        let ring = Ring::map(socket, at, offsets, size)?;
        let next = ring.word(CONSUMER).load(Ordering::Relaxed);
        Ok(Self { ring, next })
    }

    /// Reads the next entry; its place is the other side's again once it is released.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.ring.word(PRODUCER).load(Ordering::Acquire) == self.next {
            return None;
        }
        // SAFETY: the producer has published the entry, and writes its place again only when it is released.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the places of what was read back.
    #[inline(always)]
    pub(super) fn release(&self) {
        self.ring.word(CONSUMER).store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::thread;

    const OFFSETS: xdp_ring_offset = xdp_ring_offset {
        producer: 0,
        consumer: 64,
        flags: 128,
        desc: 192,
    };

    /// Both ends of a ring in one file, whose indices begin at `first`.
    fn ends(size: u32, first: u32) -> (Producer<u64>, Consumer<u64>) {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 1 << 16).unwrap();
        let ring = Ring::<u64>::map(&file, 0, &OFFSETS, size).unwrap();
        ring.word(PRODUCER).store(first, Ordering::Relaxed);
        ring.word(CONSUMER).store(first, Ordering::Relaxed);
        (
            Producer::map(&file, 0, &OFFSETS, size).unwrap(),
            Consumer::map(&file, 0, &OFFSETS, size).unwrap(),
        )
    }

    #[test]
    fn a_full_ring_takes_nothing_until_something_is_released() {
        // The indices go round on the way.
        let (mut to, mut from) = ends(4, u32::MAX - 1);
        assert!((0..4).all(|entry| to.push(entry)));
        assert!(!to.push(4));
        assert_eq!(from.pop(), None);
        to.publish();
        assert_eq!(
            (0..5).map_while(|_| from.pop()).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        assert!(!to.push(4));
        from.release();
        assert_eq!(to.waiting(), 0);
        assert!(to.push(4));
        to.publish();
        assert_eq!((from.pop(), from.pop()), (Some(4), None));
    }

    #[test]
    fn entries_pass_between_threads_in_order() {
        const COUNT: u64 = 100_000;
        let (mut to, mut from) = ends(64, 7);
        let sender = thread::spawn(move || {
            for entry in 0..COUNT {
                while !to.push(entry) {
                    thread::yield_now();
                }
                to.publish();
            }
        });
        for entry in 0..COUNT {
            let got = loop {
                match from.pop() {
                    Some(got) => break got,
                    None => thread::yield_now(),
                }
            };
            from.release();
            assert_eq!(got, entry);
        }
        sender.join().unwrap();
    }

    #[test]
    fn layouts_that_cannot_be_are_refused() {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 1 << 16).unwrap();
        let odd = xdp_ring_offset {
            desc: 193,
            ..OFFSETS
        };
        assert_eq!(
            Ring::<u64>::map(&file, 0, &odd, 4).unwrap_err(),
            Errno::PROTO
        );
        let odd = xdp_ring_offset {
            flags: 1 << 20,
            ..OFFSETS
        };
        assert_eq!(
            Ring::<u64>::map(&file, 0, &odd, 4).unwrap_err(),
            Errno::PROTO
        );
        assert_eq!(
            Ring::<u64>::map(&file, 0, &OFFSETS, 3).unwrap_err(),
            Errno::PROTO
        );
    }
}
