//! The protocol of the two sides over shared words: slots that are full, and sides that sleep.
//!
//! **Slots.** Every slot begins with a word that holds its *turn* and the frame's length. Position `p` of the endless
//! sequence of frames lies in slot `p mod slots`. The slot is full for `p` when its turn is `p + 1` (modulo 2^32).
//! The producer writes the bytes first and the word last, with release; the consumer reads the word with acquire. So
//! the consumer polls the line that brings flag, length and the frame's first bytes together. No index line goes to
//! and fro for each frame.
//!
//! **Sleeping.** A side that wants to sleep writes so into its sleep word, then checks once more for the event that
//! it waits for, then sleeps on the word as a futex. The other side makes its change, then reads the sleep word. Each
//! writes one word and reads the other's (Dekker's pattern). Release and acquire do not order a write before a later
//! read of another word. With a sequentially consistent fence between the two on both sides, at least one side sees
//! the other's write. Either the sleeper finds the event, or the other side finds it asleep. The futex itself
//! compares the word before it sleeps, which closes the gap between the second check and the sleep. Both sides change
//! the word by acquiring and releasing swaps only. So each change happens after the one that it replaces, and a waker
//! that is late for one sleep cannot hide the announcement of the next from itself.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Content of a slot for its consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Nothing yet.
    Empty,
    /// A frame of so many bytes, or so the producer says.
    Full(u16),
    /// Something that no producer that keeps to the protocol writes.
    Broken,
}

/// The turn of a slot that is full for `position`.
#[inline(always)]
const fn turn(position: u64) -> u32 {
    (position as u32).wrapping_add(1)
}

/// The word of slot `index` before its first frame: the turn that it would have had one lap earlier.
#[inline(always)]
pub(super) const fn first_word(index: u32, slots: u32) -> u64 {
    (turn(index as u64).wrapping_sub(slots) as u64) << 32
}

/// Says that the slot holds the frame of `position`. All bytes must have been written before.
#[inline(always)]
pub(super) fn publish(word: &AtomicU64, position: u64, len: u16) {
    word.store(
        ((turn(position) as u64) << 32) | len as u64,
        Ordering::Release,
    );
}

/// Looks whether the slot holds the frame of `position`. When it does, its bytes may be read.
#[inline(always)]
pub(super) fn inspect(word: &AtomicU64, position: u64, slots: u32) -> Slot {
    let word = word.load(Ordering::Acquire);
    let seen = (word >> 32) as u32;
    let full = turn(position);
    if seen == full {
        Slot::Full(word as u16)
    } else if seen == full.wrapping_sub(slots) {
        Slot::Empty
    } else {
        Slot::Broken
    }
}

/// The sleep word of a side that is awake.
pub(super) const AWAKE: u32 = 0;

/// Reason of a side's sleep: its sleep word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum For {
    /// Frames to receive.
    Frames = 1,
    /// Frames to receive, or room to send.
    FramesOrRoom = 2,
}

/// Says that this side is about to sleep. It must look once more at what it waits for before it does.
#[inline(always)]
pub(super) fn announce(sleep: &AtomicU32, what: For) {
    sleep.swap(what as u32, Ordering::AcqRel);
    fence(Ordering::SeqCst);
}

/// Says that this side is awake.
#[inline(always)]
pub(super) fn retract(sleep: &AtomicU32) {
    sleep.swap(AWAKE, Ordering::AcqRel);
}

/// Tells whether the other side sleeps and must be woken, after frames were published. It is called once for a burst; the
/// caller that gets `true` wakes it.
#[inline(always)]
pub(super) fn must_wake_for_frames(sleep: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    sleep.load(Ordering::Relaxed) != AWAKE && sleep.swap(AWAKE, Ordering::AcqRel) != AWAKE
}

/// Tells whether the other side sleeps for room and must be woken, after slots were given back.
#[inline(always)]
pub(super) fn must_wake_for_room(sleep: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    sleep.load(Ordering::Relaxed) == For::FramesOrRoom as u32
        && sleep.swap(AWAKE, Ordering::AcqRel) != AWAKE
}
