//! One direction: a ring of fixed slots between one producer and one consumer, over any memory that both can reach.
//!
//! A slot is a word (`protocol`) and, right behind it, the frame. The consumer's index is the only other thing that is
//! shared; the producer keeps a copy and looks again only when by that copy the ring is full, so that its line stays with
//! the consumer for a whole lap. The producer has no shared index at all.
//!
//! Nothing that the other side wrote is believed: an index that is not between the last one and the producer's own, a turn
//! that cannot be, a length that does not fit are reported as such, and never become an address.

use super::protocol::{self, Slot};
use super::sync::{AtomicU64, Ordering};
use core::ptr::{self, NonNull};
use core::slice;
use tollgate_stack::buffer::CACHE_LINE;

/// Bytes of the word in front of each frame.
const WORD: usize = size_of::<AtomicU64>();

/// Bytes of the frame that share the word's cache line.
const FIRST_LINE: usize = CACHE_LINE - WORD;

/// The shortest frame: an Ethernet header.
pub(super) const MIN_FRAME: usize = 14;

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    slots: u32,
    slot_size: u32,
    max_frame: u16,
}

impl Geometry {
    /// Slots of a ring at most.
    pub(super) const MAX_SLOTS: u32 = 1 << 16;

    /// A ring of `slots` slots, a power of two between 2 and [`Self::MAX_SLOTS`], for frames of at most `max_frame` bytes,
    /// at least [`MIN_FRAME`]; nothing when they are not.
    pub(super) const fn new(slots: u32, max_frame: u16) -> Option<Self> {
        let slots_fit = slots.is_power_of_two() && slots >= 2 && slots <= Self::MAX_SLOTS;
        if !slots_fit || (max_frame as usize) < MIN_FRAME {
            return None;
        }
        let slot_size = (WORD + max_frame as usize).next_multiple_of(CACHE_LINE) as u32;
        Some(Self {
            slots,
            slot_size,
            max_frame,
        })
    }

    /// Bytes that the slots take.
    pub(super) const fn size(&self) -> usize {
        self.slots as usize * self.slot_size as usize
    }

    /// Bytes of a slot.
    pub(super) const fn slot_size(&self) -> u32 {
        self.slot_size
    }

    #[inline(always)]
    const fn offset(&self, position: u64) -> usize {
        (position as u32 & (self.slots - 1)) as usize * self.slot_size as usize
    }
}

/// The memory of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    slots: NonNull<u8>,
    /// Frames that the consumer has given back.
    head: NonNull<AtomicU64>,
    geometry: Geometry,
}

impl Memory {
    /// Takes `slots` and `head` as a ring of the shape `geometry`.
    ///
    /// # Safety
    /// For as long as the value or what is made of it is used: `slots` is valid for reads and writes of
    /// `geometry.size()` bytes and aligned to a cache line, `head` to an `AtomicU64`, both are used as nothing else in this
    /// process, and at most one [`Producer`] and one [`Consumer`] are made for them in this process.
    pub(super) const unsafe fn new(
        slots: NonNull<u8>,
        head: NonNull<AtomicU64>,
        geometry: Geometry,
    ) -> Self {
        Self {
            slots,
            head,
            geometry,
        }
    }

    /// Makes an empty ring of what the memory held before.
    pub(super) fn prepare(&self) {
        for index in 0..self.geometry.slots {
            self.word(index.into()).store(
                protocol::first_word(index, self.geometry.slots),
                Ordering::Relaxed,
            );
        }
        self.head().store(0, Ordering::Release);
    }

    #[inline(always)]
    fn slot(&self, position: u64) -> NonNull<u8> {
        // SAFETY: `offset` is below `size()` for every position, and `new` was promised that many bytes.
        unsafe { self.slots.add(self.geometry.offset(position)) }
    }

    #[inline(always)]
    fn word(&self, position: u64) -> &AtomicU64 {
        // SAFETY: a slot begins at a cache line, is longer than a word, and its first word is only ever used as an atomic.
        unsafe { self.slot(position).cast().as_ref() }
    }

    #[inline(always)]
    fn frame(&self, position: u64) -> NonNull<u8> {
        // SAFETY: a slot is longer than a word.
        unsafe { self.slot(position).add(WORD) }
    }

    #[inline(always)]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: `new` was promised that `head` is valid and used as an atomic only.
        unsafe { self.head.as_ref() }
    }
}

/// The other side broke the protocol; the ring is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// The side that writes.
#[derive(Debug)]
pub(super) struct Producer {
    memory: Memory,
    tail: u64,
    head_seen: u64,
}

// SAFETY: the promise to `Memory::new` says that nobody else in this process writes to the ring, wherever this runs.
unsafe impl Send for Producer {}

impl Producer {
    /// The producer of a ring that nothing was written to yet.
    pub(super) const fn new(memory: Memory) -> Self {
        Self {
            memory,
            tail: 0,
            head_seen: 0,
        }
    }

    /// Slots that are free, looking at the consumer's index only when there seem to be fewer than `wanted`.
    #[inline(always)]
    pub(super) fn room(&mut self, wanted: usize) -> Result<usize, Broken> {
        let slots = u64::from(self.memory.geometry.slots);
        if (slots - (self.tail - self.head_seen)) < wanted as u64 {
            // Acquire: the consumer has read a slot's bytes before it gave the slot back.
            let head = self.memory.head().load(Ordering::Acquire);
            if !(self.head_seen..=self.tail).contains(&head) {
                return Err(Broken);
            }
            self.head_seen = head;
        }
        Ok((slots - (self.tail - self.head_seen)) as usize)
    }

    /// Tells whether the consumer has given slots back since [`room`](Self::room) last looked.
    pub(super) fn has_news(&self) -> bool {
        self.memory.head().load(Ordering::Acquire) != self.head_seen
    }

    /// Writes one frame into the next slot and publishes it; `false`, and nothing done, when it is shorter than
    /// [`MIN_FRAME`] or longer than a slot, or the ring is full.
    #[inline(always)]
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let geometry = &self.memory.geometry;
        let fits = (MIN_FRAME..=usize::from(geometry.max_frame)).contains(&bytes.len());
        if !fits || self.tail - self.head_seen >= u64::from(geometry.slots) {
            return false;
        }
        let frame = self.memory.frame(self.tail).as_ptr();
        // The line that the consumer polls is written last: taken away in between, it would have to be fetched twice.
        if let Some((first, rest)) = bytes.split_first_chunk::<FIRST_LINE>() {
            // SAFETY: the slot holds these bytes, so it reaches at least to their end.
            let to = unsafe { frame.add(FIRST_LINE) };
            // SAFETY: the frame fits into the slot behind the word (checked above), the slot is the producer's until it
            // is published, and `bytes`, a reference, does not overlap memory that is used by the ring only.
            unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), to, rest.len()) };
            // SAFETY: as above; a length that the compiler knows is copied without a call.
            unsafe { ptr::copy_nonoverlapping(first.as_ptr(), frame, FIRST_LINE) };
        } else {
            // SAFETY: as above.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), frame, bytes.len()) };
        }
        protocol::publish(self.memory.word(self.tail), self.tail, bytes.len() as u16);
        self.tail += 1;
        true
    }
}

/// The side that reads.
#[derive(Debug)]
pub(super) struct Consumer {
    memory: Memory,
    head: u64,
}

// SAFETY: the promise to `Memory::new` says that nobody else in this process reads from the ring, wherever this runs.
unsafe impl Send for Consumer {}

/// Result of [`Consumer::peek`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Peek<'a> {
    /// No frame.
    Empty,
    /// The next frame's bytes.
    Frame(&'a [u8]),
    /// A slot whose length no frame of this ring can have.
    BadLength,
    /// The other side broke the protocol; the ring is of no more use.
    Broken,
}

impl Consumer {
    /// The consumer of a ring that nothing was read from yet.
    pub(super) const fn new(memory: Memory) -> Self {
        Self { memory, head: 0 }
    }

    /// Tells whether there is nothing to read and nothing to report.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        protocol::inspect(
            self.memory.word(self.head),
            self.head,
            self.memory.geometry.slots,
        ) == Slot::Empty
    }

    /// Looks at the next frame, which stays where it is.
    #[inline(always)]
    pub(super) fn peek(&mut self) -> Peek<'_> {
        let geometry = &self.memory.geometry;
        let len = match protocol::inspect(self.memory.word(self.head), self.head, geometry.slots) {
            Slot::Empty => return Peek::Empty,
            Slot::Broken => return Peek::Broken,
            Slot::Full(len) => usize::from(len),
        };
        if !(MIN_FRAME..=usize::from(geometry.max_frame)).contains(&len) {
            return Peek::BadLength;
        }
        // SAFETY: `len` bytes lie within the slot (checked above; the length was read once). In this process nobody writes
        // them: the one producer, should it live here too, does not until the slot is given back, which takes `&mut self`
        // and ends the borrow. A producer in another process that breaks the protocol can change the bytes meanwhile;
        // they are only copied and added up, never branched on nor used as an index, so any value serves.
        Peek::Frame(unsafe { slice::from_raw_parts(self.memory.frame(self.head).as_ptr(), len) })
    }

    /// Goes on to the next slot.
    #[inline(always)]
    pub(super) const fn advance(&mut self) {
        self.head += 1;
    }

    /// Gives every slot that was passed back to the producer: once for a burst.
    #[inline(always)]
    pub(super) fn give_back(&self) {
        self.memory.head().store(self.head, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
